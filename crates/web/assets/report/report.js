// The page of a report: its document is in the page, and everything is drawn from it.

import { chip, command, el, replace } from '../parts/dom.js';
import { localRows, table } from '../parts/table.js';
import { heatmap } from '../parts/heatmap.js';
import { histogram, profile } from '../parts/histogram.js';
import { timeline } from '../parts/timeline.js';
import { graph } from '../parts/graph.js';

const SIGNS = { PASS: '✓', FAIL: '✕', 'NOT JUDGED': '○', 'NOTHING COMPARED': '✕' };

function showReport(report) {
  const main = document.getElementById('report');
  const place = el('div', { class: 'member' });
  const many = report.members.length > 1;
  replace(main,
    el('header', { class: 'top' }, el('h1', {}, report.title), many ? verdict(report.verdict, []) : null,
      many ? members(report.members, (member) => replace(place, memberPage(member, true))) : null),
    place,
    el('footer', { class: 'soft small' }, `Made by ${report.made_by}. This file needs no network; what it shows of the dump is all in it.`));
  if (!many) replace(place, memberPage(report.members[0], false));
}

// A button for each dump of a run; the first that fails is shown.
function members(list, show) {
  const buttons = list.map((member) => {
    const { word } = member.verdict;
    return el('button', { type: 'button', class: 'member-button', onclick: () => choose(member) }, `${SIGNS[word] ?? ''} ${member.name}`, el('span', { class: 'soft small' }, ` ${word}`));
  });
  function choose(member) {
    list.forEach((other, place) => buttons[place].setAttribute('aria-pressed', String(other === member)));
    show(member);
  }
  requestAnimationFrame(() => choose(list.find((member) => member.verdict.passes === false) ?? list[0]));
  return el('nav', { class: 'members', 'aria-label': 'Dumps of the run' }, buttons);
}

function memberPage(member, named) {
  return [
    named ? el('h2', { class: 'member-name' }, member.name) : null,
    verdict(member.verdict, member.labels),
    facts(member.facts),
    contents(member),
    member.culprits.map((culprit, place) => culpritSection(culprit, place, member.expected)),
    member.way ? section('way', member.way.name, 'Each task was given what the one above it left. Dashed lines only wait.', graph(member.way.layout, { label: member.way.name })) : null,
    member.flagged.length > 0 ? flagged(member) : null,
    member.timeline ? section('timeline', 'What ran when', member.timeline.note, timeline(labelled(member), { label: 'Timeline of tasks', about: (task) => task })) : null,
    member.graphs.length > 0 ? graphs(member.graphs) : null,
    tableSection('kernels', 'Kernels', member.kernels, 360),
    tableSection('tasks', 'Tasks', member.tasks, 420),
    tableSection('records', 'Records', member.records, 420),
    section('next', 'Next', 'Commands to copy, as they are typed where this report was made.', commands(member.commands)),
    member.left_out.length > 0 ? section('left-out', 'Not in this report', null, el('ul', {}, member.left_out.map((line) => el('li', {}, line)))) : null,
  ].flat();
}

// Slices have labels where tasks have.
function labelled(member) {
  const lines = member.timeline;
  return lines.labels.length > 0 ? lines : { ...lines, labels: null };
}

function verdict({ word, passes, sentence, remarks }, labels) {
  const kind = passes === null ? 'open' : passes ? 'good' : 'bad';
  return el('section', { class: `verdict verdict-${kind}`, 'aria-label': 'Verdict' },
    el('p', { class: 'verdict-word' }, el('span', { 'aria-hidden': 'true' }, SIGNS[word] ?? ''), ` ${word}`),
    el('p', { class: 'verdict-sentence' }, sentence),
    labels.length > 0 ? el('p', { class: 'chips' }, labels.map((one) => el('span', { class: 'count', title: one.about }, chip(one.label), ` ${one.text}`))) : null,
    remarks.length > 0 ? el('ul', { class: 'remarks' }, remarks.map((remark) => el('li', {}, remark))) : null);
}

function facts(list) {
  return el('dl', { class: 'facts' }, list.map(([word, text]) => el('div', {}, el('dt', {}, word), el('dd', {}, text))));
}

function contents(member) {
  const links = [
    ...member.culprits.map((culprit, place) => [`culprit-${place}`, culprit.kernels]),
    member.way ? ['way', 'Way'] : null, member.flagged.length > 0 ? ['flagged', 'Stands out'] : null,
    member.timeline ? ['timeline', 'Timeline'] : null, member.graphs.length > 0 ? ['graph', 'Graph'] : null,
    ['kernels', 'Kernels'], ['tasks', 'Tasks'], ['records', 'Records'], ['next', 'Next'],
  ].filter(Boolean);
  return el('nav', { class: 'contents', 'aria-label': 'In this report' }, links.map(([id, text]) => el('a', { href: `#${id}` }, text)));
}

function section(id, title, about, ...children) {
  return el('section', { id, class: 'part', 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), about ? el('p', { class: 'about' }, about) : null, children);
}

function commands(list) {
  return list.map((one) => el('div', { class: 'next' }, el('span', { class: 'small soft' }, one.about), command(one.command)));
}

function culpritSection(culprit, place, expected) {
  const id = `culprit-${place}`;
  return el('section', { id, class: 'part', 'aria-labelledby': `${id}-title` },
    el('h2', { id: `${id}-title` }, `${place === 0 ? 'First' : 'Also'}: `, el('code', {}, culprit.kernels), ' ', chip(culprit.label)),
    el('p', { class: 'about' }, culprit.title ? `${culprit.title} · ` : '', el('code', {}, `task ${culprit.task}`), ` ${culprit.why}.`,
      culprit.wrong_kernels ? ` Of its kernels, ${culprit.wrong_kernels} is wrong.` : ''),
    culprit.records.map((record) => recordCard(record, expected)),
    culprit.more_records > 0 ? el('p', { class: 'soft small' }, `${culprit.more_records} more of its records are outside their rules.`) : null,
    culprit.given.length > 0 ? givenBy(culprit.given) : null,
    culprit.chain.length > 1 ? chainOf(culprit.chain) : null,
    commands(culprit.commands));
}

function givenBy(given) {
  const rows = given.map(([argument, from]) => el('div', {}, el('dt', {}, argument), el('dd', {}, from === 'no task' ? 'from no task' : `from ${from}`)));
  return el('details', {}, el('summary', {}, `Given ${given.length === 1 ? 'one tensor' : `${given.length} tensors`}`), el('dl', { class: 'facts' }, rows));
}

function chainOf(chain) {
  const links = chain.map((link) => el('li', {}, link.task ? [el('code', {}, link.task), ' '] : null, link.words, ' ', link.label ? chip(link.label) : null));
  return el('details', {}, el('summary', {}, `Its error reached the end through ${chain.length - 1} ${chain.length === 2 ? 'task' : 'tasks'}`), el('ol', { class: 'chain' }, links));
}

function recordCard(record, expected) {
  const part = record.slice ? `, the part ${record.slice} that holds the worst element` : '';
  return el('div', { class: 'card record' },
    el('h3', {}, record.argument, ' ', el('span', { class: 'soft' }, `${record.when}, ${record.tensor}`)),
    record.kind ? el('p', { class: 'kind' }, el('strong', {}, 'Kind of error: '), record.kind.words, '.') : null,
    el('p', { class: 'small soft' }, `${record.evidence}; rule: ${record.rule}`),
    record.difference ? heatmap(record.difference, { label: `Dump less ${expected}${part}`, low: 'too low', high: 'too high', zero: 'in the middle: as it should be' }) : null,
    el('div', { class: 'pictures' },
      record.spread ? histogram(record.spread, { label: 'Values of both, over one another', names: ['dump', expected], ends: record.ends }) : null,
      record.axes.map((axis) => profile(axis.bins, { label: `Where the error sits: ${axis.words}` }))),
    record.worst.length > 0 ? worst(record.worst) : null,
    record.dump ? el('details', {}, el('summary', {}, `Dump and ${expected} side by side`), el('div', { class: 'pictures' },
      heatmap(record.dump, { label: 'Dump' }), record.golden ? heatmap(record.golden, { label: expected === 'golden' ? 'Golden' : 'Reference' }) : null)) : null,
    record.detail.length > 0 ? el('details', {}, el('summary', {}, 'In words'), el('pre', { class: 'words' }, record.detail.join('\n'))) : null);
}

function worst(list) {
  const rows = list.map((one) => el('tr', {}, [one.at, one.dump, one.golden, one.error].map((text) => el('td', {}, text))));
  const heads = ['Element', 'Is', 'Should be', 'Error'].map((text) => el('th', { scope: 'col' }, text));
  return el('details', { open: list.length <= 4 }, el('summary', {}, `The worst ${list.length === 1 ? 'element' : `${list.length} elements`}`),
    el('table', { class: 'plain' }, el('thead', {}, el('tr', {}, heads)), el('tbody', {}, rows)));
}

function flagged(member) {
  const items = member.flagged.map((one) => el('li', {}, el('code', {}, one.name), ` ${one.task}: `, el('strong', {}, one.what)));
  const more = member.flagged_count - member.flagged.length;
  return section('flagged', 'Outputs that stand out', 'NaN, infinities, nothing but zeros, or values beyond float16; in the order of their tasks.',
    el('ul', { class: 'flagged' }, items), more > 0 ? el('p', { class: 'soft small' }, `and ${more.toLocaleString('en')} more`) : null);
}

function graphs(list) {
  const place = el('div');
  const show = (at) => replace(place, graph(list[at].layout, { label: list[at].name }));
  const options = list.map((one, at) => el('option', { value: at }, `${one.name} (${one.layout.boxes.length})`));
  const choice = el('select', { 'aria-label': 'What is drawn', onchange: (event) => show(Number(event.target.value)) }, options);
  show(0);
  return section('graph', 'Graph', 'A line goes from the task that wrote content to each that was given it; dashed where one only waits.',
    list.length > 1 ? el('p', {}, choice) : null, place);
}

function tableSection(id, title, rows, height) {
  const cell = (column, row, text) => {
    const value = text(column, row);
    if (column.key === 'label') return { text: value, node: () => chip(value) };
    if (column.key === 'verdict' && value === 'fail') return { text: value, node: () => el('strong', { class: 'bad' }, '✕ fail') };
    return column.key === 'task' || column.key === 'record' ? { text: value, class: 'mono' } : value;
  };
  return section(id, title, rows.note, table(rows.columns, localRows(rows.columns, rows.rows, cell), { label: title, height }));
}

showReport(JSON.parse(document.getElementById('data').textContent));
