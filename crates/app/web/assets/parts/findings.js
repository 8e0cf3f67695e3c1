// The findings of a comparison: the verdict, the first wrong tasks with their pictures, and how errors
// spread. Used by the report and by the page of the server.

import { chip, command, el } from './dom.js';
import { heatmap } from './heatmap.js';
import { histogram, profile } from './histogram.js';

const SIGNS = { PASS: '✓', FAIL: '✕', 'NOT JUDGED': '○', UNDECIDED: '○', 'NOTHING COMPARED': '✕' };

export function signOf(word) {
  return SIGNS[word] ?? '';
}

// `labels`: number of tasks per label. `counted(one)` renders one of them; by default a chip and the number.
export function verdict({ word, passes, sentence, remarks }, labels, counted) {
  const kind = passes === null ? 'open' : passes ? 'good' : 'bad';
  const one = counted ?? ((label) => el('span', { class: 'count', title: label.about }, chip(label.label), ` ${label.text}`));
  return el('section', { class: `verdict verdict-${kind}`, 'aria-label': 'Verdict' },
    el('p', { class: 'verdict-word' }, el('span', { 'aria-hidden': 'true' }, signOf(word)), ` ${word}`),
    el('p', { class: 'verdict-sentence' }, sentence),
    labels.length > 0 ? el('p', { class: 'chips' }, labels.map(one)) : null,
    remarks.length > 0 ? el('ul', { class: 'remarks' }, remarks.map((remark) => el('li', {}, remark))) : null);
}

export function commands(list) {
  return list.map((one) => el('div', { class: 'next' }, el('span', { class: 'small soft' }, one.about), command(one.command)));
}

// A first wrong task. `options`: `expected` is `golden` or `reference`; `task(id, text)` and `record(index,
// text)` make links, if there is a page to link to.
export function culpritSection(culprit, place, options) {
  const id = `culprit-${place}`;
  const task = options.task ?? ((_, text) => el('code', {}, text));
  return el('section', { id, class: 'part culprit', 'aria-labelledby': `${id}-title` },
    el('h2', { id: `${id}-title` }, `${place === 0 ? 'First' : 'Also'}: `, el('code', {}, culprit.kernels), ' ', chip(culprit.label)),
    el('p', { class: 'about' }, culprit.title ? `${culprit.title} · ` : '', task(culprit.task, `task ${culprit.task}`), ` ${culprit.why}.`,
      culprit.wrong_kernels ? ` The wrong kernel is ${culprit.wrong_kernels}.` : ''),
    culprit.records.map((record) => recordCard(record, options)),
    culprit.more_records > 0 ? el('p', { class: 'soft small' }, `${culprit.more_records} more of its records are outside their rules.`) : null,
    culprit.given.length > 0 ? inputSources(culprit.given) : null,
    culprit.chain.length > 1 ? chainOf(culprit.chain, task) : null,
    commands(culprit.commands));
}

function inputSources(given) {
  const rows = given.map(([argument, from]) => el('div', {}, el('dt', {}, argument), el('dd', {}, from === 'no task' ? 'from no task' : `from ${from}`)));
  return el('details', {}, el('summary', {}, `Inputs: ${given.length === 1 ? 'one tensor' : `${given.length} tensors`}`), el('dl', { class: 'facts' }, rows));
}

function chainOf(chain, task) {
  const links = chain.map((link) => el('li', {}, link.task ? [task(link.task, link.task), ' '] : null, link.words, ' ', link.label ? chip(link.label) : null));
  return el('details', {}, el('summary', {}, `How the error spread: through ${chain.length - 1} more ${chain.length === 2 ? 'task' : 'tasks'}`), el('ol', { class: 'chain' }, links));
}

function recordCard(record, { expected, record: lead }) {
  const part = record.slice ? `, slice ${record.slice} with the worst element` : '';
  return el('div', { class: 'card record' },
    el('h3', {}, lead && record.record !== null ? lead(record.record, record.argument) : record.argument, ' ', el('span', { class: 'soft' }, `${record.when}, ${record.tensor}`)),
    record.kind ? el('p', { class: 'kind' }, el('strong', {}, 'Kind of error: '), record.kind.words, '.') : null,
    el('p', { class: 'small soft' }, record.rule ? `${record.evidence}; rule: ${record.rule}` : record.evidence),
    record.difference ? heatmap(record.difference, { label: `Dump minus ${expected}${part}`, low: 'too low', high: 'too high', zero: 'middle: as expected' }) : null,
    el('div', { class: 'pictures' },
      record.spread ? histogram(record.spread, { label: `Distribution of the values, dump and ${expected}`, names: ['dump', expected], ends: record.ends }) : null,
      record.axes.map((axis) => profile(axis.bins, { label: `Where the error is: ${axis.words}` }))),
    record.worst.length > 0 ? worst(record.worst) : null,
    record.dump ? el('details', {}, el('summary', {}, `Dump and ${expected} side by side`), el('div', { class: 'pictures' },
      heatmap(record.dump, { label: 'Dump' }), record.golden ? heatmap(record.golden, { label: expected === 'golden' ? 'Golden' : 'Reference' }) : null)) : null,
    record.detail.length > 0 ? el('details', {}, el('summary', {}, 'Details as text'), el('pre', { class: 'words' }, record.detail.join('\n'))) : null);
}

function worst(list) {
  const rows = list.map((one) => el('tr', {}, [one.at, one.dump, one.golden, one.error].map((text) => el('td', {}, text))));
  const heads = ['Element', 'Actual', 'Expected', 'Error'].map((text) => el('th', { scope: 'col' }, text));
  return el('details', { open: list.length <= 4 }, el('summary', {}, `The worst ${list.length === 1 ? 'element' : `${list.length} elements`}`),
    el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, heads)), el('tbody', {}, rows)));
}
