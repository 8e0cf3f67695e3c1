// The page of a report. Everything is rendered from the document that is embedded in the page.

import { chip, el, replace } from '../parts/dom.js';
import { localRows, table } from '../parts/table.js';
import { commands, culpritSection, signOf, verdict } from '../parts/findings.js';
import { timeline } from '../parts/timeline.js';
import { graph } from '../parts/graph.js';

function showReport(report) {
  const main = document.getElementById('report');
  const place = el('div', { class: 'member' });
  const many = report.members.length > 1;
  replace(main,
    el('header', { class: 'top' }, el('h1', {}, report.title), many ? verdict(report.verdict, []) : null,
      many ? members(report.members, (member) => replace(place, memberPage(member, true))) : null),
    place,
    el('footer', { class: 'soft small' }, `Made by ${report.made_by}. This file is self-contained and needs no network.`));
  if (!many) replace(place, memberPage(report.members[0], false));
}

// A button for each dump of a run. The first failing dump is shown initially.
function members(list, show) {
  const buttons = list.map((member) => {
    const { word } = member.verdict;
    return el('button', { type: 'button', class: 'member-button', onclick: () => choose(member) }, `${signOf(word)} ${member.name}`, el('span', { class: 'soft small' }, ` ${word}`));
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
    member.culprits.map((culprit, place) => culpritSection(culprit, place, member)),
    member.way ? section('way', member.way.name, 'Each task used output of the task above it. A dotted line passes through tasks that are not drawn; a dashed line is only a dependency.', graph(member.way.layout, { label: member.way.name })) : null,
    member.flagged.length > 0 ? flagged(member) : null,
    member.timeline ? section('timeline', 'Timeline', member.timeline.note, timeline(labeled(member), { label: 'Timeline of tasks', about: (task) => task })) : null,
    member.graphs.length > 0 ? graphs(member.graphs) : null,
    tableSection('kernels', 'Kernels', member.kernels, 360),
    tableSection('tasks', 'Tasks', member.tasks, 420),
    tableSection('records', 'Records', member.records, 420),
    section('next', 'Next steps', 'Commands to copy. Run them in the folder where this report was made.', commands(member.commands)),
    member.left_out.length > 0 ? section('left-out', 'Not in this report', null, el('ul', {}, member.left_out.map((line) => el('li', {}, line)))) : null,
  ].flat();
}

// Slices have labels only if tasks have labels.
function labeled(member) {
  const lines = member.timeline;
  return lines.labels.length > 0 ? lines : { ...lines, labels: null };
}

function facts(list) {
  return el('dl', { class: 'facts' }, list.map(([word, text]) => el('div', {}, el('dt', {}, word), el('dd', {}, text))));
}

function contents(member) {
  const links = [
    ...member.culprits.map((culprit, place) => [`culprit-${place}`, culprit.kernels]),
    member.way ? ['way', 'How it spread'] : null, member.flagged.length > 0 ? ['flagged', 'Unusual outputs'] : null,
    member.timeline ? ['timeline', 'Timeline'] : null, member.graphs.length > 0 ? ['graph', 'Graph'] : null,
    ['kernels', 'Kernels'], ['tasks', 'Tasks'], ['records', 'Records'], ['next', 'Next steps'],
  ].filter(Boolean);
  return el('nav', { class: 'contents', 'aria-label': 'In this report' }, links.map(([id, text]) => el('a', { href: `#${id}` }, text)));
}

function section(id, title, about, ...children) {
  return el('section', { id, class: 'part', 'aria-labelledby': `${id}-title` }, el('h2', { id: `${id}-title` }, title), about ? el('p', { class: 'about' }, about) : null, children);
}

function flagged(member) {
  const items = member.flagged.map((one) => el('li', {}, el('code', {}, one.name), ` ${one.task}: `, el('strong', {}, one.what)));
  const more = member.flagged_count - member.flagged.length;
  return section('flagged', 'Unusual outputs', 'They have NaN, infinities, only zeros, or values beyond float16. Sorted by task.',
    el('ul', { class: 'flagged' }, items), more > 0 ? el('p', { class: 'soft small' }, `and ${more.toLocaleString('en')} more`) : null);
}

function graphs(list) {
  const place = el('div');
  const show = (at) => replace(place, graph(list[at].layout, { label: list[at].name }));
  const options = list.map((one, at) => el('option', { value: at }, `${one.name} (${one.layout.boxes.length})`));
  const choice = el('select', { 'aria-label': 'What is drawn', onchange: (event) => show(Number(event.target.value)) }, options);
  show(0);
  return section('graph', 'Graph', 'A solid line connects a task to the tasks that use its output; a dashed line is only a dependency.',
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
