// The page: a header with the dump and the search, and one view at a time below it.

import { add, el, replace } from '../parts/dom.js';
import { signOf } from '../parts/findings.js';
import { about, ask, finished, go, place } from './api.js';
import { link, trouble, waiting } from './bits.js';
import { compareView } from './compare.js';
import { graphView } from './graph.js';
import { listView } from './lists.js';
import { taskView } from './task.js';
import { tensorView } from './tensor.js';
import { timelineView } from './timeline.js';

// Milliseconds between checks of a dump that is still being written.
const FOLLOW = 700;
// Verdicts by dump, golden and generation of the dump.
const verdicts = new Map();
// A dump with at most this many records is compared with its golden automatically.
const FEW = 50_000;

const VIEWS = {
  tasks: { title: 'Tasks', make: async (lifecycle, served) => [verdictLine(), await listView('tasks', lifecycle, served)] },
  records: { title: 'Records', make: (lifecycle, served) => listView('records', lifecycle, served) },
  graph: { title: 'Graph', make: graphView },
  timeline: { title: 'Timeline', make: timelineView },
  compare: { title: 'Compare', make: compareView },
  task: { title: 'Task', make: taskView, hidden: true },
  tensor: { title: 'Tensor', make: tensorView, hidden: true },
};

const head = el('header', { class: 'top' });
const main = el('main', { id: 'main', tabindex: '-1' });
let served = null;
let lifecycle = { left: true };

function dumpNow() {
  return served.dumps[Number(place().params.dump ?? 0)] ?? served.dumps[0];
}

function showHead() {
  const { view: at, params } = place();
  const dump = dumpNow();
  const options = served.dumps.map((one) => el('option', { value: one.id, selected: one.id === dump.id }, one.name));
  const dumps = el('select', { 'aria-label': 'Dump' }, options);
  dumps.addEventListener('change', () => go(VIEWS[at]?.hidden ? 'tasks' : at, { dump: dumps.value, golden: params.golden === dumps.value ? '' : params.golden }));
  const goldens = [['', 'nothing'], ...served.dumps.filter((one) => one.id !== dump.id).map((one) => [String(one.id), one.name]),
    ...(served.files ? [['files', served.files]] : []), ['reference', 'references of kernels']];
  const golden = el('select', { 'aria-label': 'Compared with' }, goldens.map(([value, name]) => el('option', { value, selected: value === (params.golden ?? '') }, name)));
  golden.addEventListener('change', () => go(at, { ...params, golden: golden.value }));
  const search = el('input', {
    type: 'search', id: 'search', placeholder: 'Search: softmax, func:add* stage:after, nan', 'aria-label': 'Search with selectors', spellcheck: 'false', autocomplete: 'off', value: params.q ?? '',
  });
  const form = el('form', { role: 'search' }, search);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    go(at === 'records' ? 'records' : 'tasks', { q: search.value.trim() });
  });
  const views = Object.entries(VIEWS).filter(([, one]) => !one.hidden)
    .map(([name, one]) => link(one.title, name, {}, { 'aria-current': name === at ? 'page' : null }));
  replace(head, el('div', { class: 'brand' }, el('strong', {}, 'tensortap'), el('span', { class: 'soft small' }, dump.title)),
    el('div', { class: 'which' }, dumps, el('label', { class: 'small' }, 'compared with ', golden), state(dump)),
    form, el('nav', { 'aria-label': 'Views' }, views));
}

function state(dump) {
  const words = { open: 'still being written', torn: 'torn: its end is missing', closed: dump.status === 'complete' ? '' : dump.status ?? '' }[dump.state] ?? dump.state;
  return el('span', { class: `state state-${dump.state} small`, role: 'status', id: 'state' }, `${dump.records_text}, ${dump.bytes_text}`, words ? ` · ${words}` : '');
}

async function show() {
  lifecycle.left = true;
  const mine = { left: false, onchange: null };
  lifecycle = mine;
  showHead();
  const { view: name } = place();
  const made = VIEWS[name] ?? { title: 'Not found', make: () => nowhere(name) };
  document.title = `${made.title} · ${dumpNow().name} · tensortap`;
  const soon = setTimeout(() => replace(main, waiting('Reading the dump …')), 150);
  let parts;
  try {
    parts = await made.make(mine, served);
  } catch (problem) {
    parts = trouble(problem);
  }
  clearTimeout(soon);
  if (mine.left) return;
  replace(main, parts);
  label();
}

function nowhere(name) {
  const views = Object.entries(VIEWS).filter(([, one]) => !one.hidden).map(([view, one]) => [link(one.title, view), ' ']);
  return el('div', { class: 'card trouble', role: 'alert' }, el('p', {}, 'There is no view ', el('code', {}, name), '.'), el('p', {}, views));
}

// The key of the current verdict.
function verdictKey() {
  return [dumpNow().id, place().params.golden, dumpNow().generation].join(' ');
}

// The verdict in one line above the tasks or, if computing it takes long, a link that starts it.
function verdictLine() {
  const { golden } = place().params;
  const frame = el('div', { id: 'verdict', 'aria-live': 'polite' });
  if (!golden) return frame;
  const known = verdicts.get(verdictKey());
  if (known) {
    const kind = known.passes ? 'good' : 'bad';
    return add(frame, el('p', { class: `verdict verdict-${kind} verdict-line` }, el('strong', { class: 'verdict-word' }, `${signOf(known.word)} ${known.word}`), ' ', known.sentence, ' ',
      link(known.passes ? 'What was compared' : 'Show the error', 'compare', { run: 'blame' })));
  }
  return add(frame, el('p', { class: 'verdict verdict-open verdict-line' }, isSoonDone() ? 'Comparing every task …' : link('Find the first wrong task', 'compare', { run: 'blame' })));
}

// Whether labels are computed automatically.
function isSoonDone() {
  return place().params.golden !== 'reference' && dumpNow().records <= FEW;
}

// Records the heap size of the page if the browser reports it, for measurements.
function noteHeap() {
  if (performance.memory) document.documentElement.dataset.heapBytes = performance.memory.usedJSHeapSize;
}

// Checks a dump that is still being written, and updates the view when it has grown.
async function follow() {
  noteHeap();
  if (document.hidden || dumpNow().state !== 'open') return;
  const before = dumpNow().generation;
  try {
    served = await ask('dumps');
  } catch {
    return;
  }
  if (dumpNow().generation === before) return;
  const now = document.getElementById('state');
  now?.replaceWith(state(dumpNow()));
  lifecycle.onchange?.();
}

// Computes the labels of tasks automatically if that is fast.
async function label() {
  if (!place().params.golden || !isSoonDone() || verdicts.has(verdictKey())) return;
  const [mine, key] = [lifecycle, verdictKey()];
  try {
    const made = await finished('blame', about(), null, () => mine.left);
    if (!made) return;
    verdicts.set(key, made.found.verdict);
  } catch {
    // The compare view shows the reason.
    return;
  }
  if (mine.left) return;
  document.getElementById('verdict')?.replaceWith(verdictLine());
  mine.onchange?.();
}

async function begin() {
  document.body.append(el('a', { class: 'skip', href: '#main', onclick: (event) => (event.preventDefault(), main.focus()) }, 'Skip to content'), head, main);
  try {
    served = await ask('dumps');
  } catch (problem) {
    return void replace(main, trouble(problem));
  }
  if (!location.hash && served.golden && served.golden !== '0') history.replaceState(null, '', `#/tasks?golden=${served.golden}`);
  addEventListener('hashchange', show);
  addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target.matches('input, select, textarea')) return;
    event.preventDefault();
    document.getElementById('search')?.focus();
  });
  setInterval(follow, FOLLOW);
  await show();
}

begin();
