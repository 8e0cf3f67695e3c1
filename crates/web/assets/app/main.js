// The page: what it is about stands at its top, and below one room at a time.

import { add, el, replace } from '../parts/dom.js';
import { signOf } from '../parts/found.js';
import { about, ask, finished, go, place } from './api.js';
import { link, trouble, waiting } from './bits.js';
import { compareRoom } from './compare.js';
import { graphRoom } from './graph.js';
import { listRoom } from './lists.js';
import { taskRoom } from './task.js';
import { tensorRoom } from './tensor.js';
import { timelineRoom } from './timeline.js';

// Milliseconds between looks at a dump that is still written.
const FOLLOW = 700;
// What a verdict of tasks was, by the dump, what it was held against, and how often the dump had changed.
const verdicts = new Map();
// Records of a dump that is held against a golden without being asked.
const FEW = 50_000;

const ROOMS = {
  tasks: { title: 'Tasks', make: async (room, served) => [verdictLine(), await listRoom('tasks', room, served)] },
  records: { title: 'Records', make: (room, served) => listRoom('records', room, served) },
  graph: { title: 'Graph', make: graphRoom },
  timeline: { title: 'Timeline', make: timelineRoom },
  compare: { title: 'Compare', make: compareRoom },
  task: { title: 'Task', make: taskRoom, hidden: true },
  tensor: { title: 'Tensor', make: tensorRoom, hidden: true },
};

const head = el('header', { class: 'top' });
const main = el('main', { id: 'main', tabindex: '-1' });
let served = null;
let room = { left: true };

function dumpNow() {
  return served.dumps[Number(place().params.dump ?? 0)] ?? served.dumps[0];
}

function showHead() {
  const { room: at, params } = place();
  const dump = dumpNow();
  const options = served.dumps.map((one) => el('option', { value: one.id, selected: one.id === dump.id }, one.name));
  const dumps = el('select', { 'aria-label': 'Dump' }, options);
  dumps.addEventListener('change', () => go(ROOMS[at]?.hidden ? 'tasks' : at, { dump: dumps.value, golden: params.golden === dumps.value ? '' : params.golden }));
  const goldens = [['', 'nothing'], ...served.dumps.filter((one) => one.id !== dump.id).map((one) => [String(one.id), one.name]),
    ...(served.files ? [['files', served.files]] : []), ['reference', 'references of kernels']];
  const golden = el('select', { 'aria-label': 'Held against' }, goldens.map(([value, name]) => el('option', { value, selected: value === (params.golden ?? '') }, name)));
  golden.addEventListener('change', () => go(at, { ...params, golden: golden.value }));
  const search = el('input', {
    type: 'search', id: 'search', placeholder: 'Search: softmax, func:add* stage:after, nan', 'aria-label': 'Search with selectors', spellcheck: 'false', autocomplete: 'off', value: params.q ?? '',
  });
  const form = el('form', { role: 'search' }, search);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    go(at === 'records' ? 'records' : 'tasks', { q: search.value.trim() });
  });
  const rooms = Object.entries(ROOMS).filter(([, one]) => !one.hidden)
    .map(([name, one]) => link(one.title, name, {}, { 'aria-current': name === at ? 'page' : null }));
  replace(head, el('div', { class: 'brand' }, el('strong', {}, 'tensortap'), el('span', { class: 'soft small' }, dump.title)),
    el('div', { class: 'which' }, dumps, el('label', { class: 'small' }, 'held against ', golden), state(dump)),
    form, el('nav', { 'aria-label': 'Rooms' }, rooms));
}

function state(dump) {
  const words = { open: 'still being written', torn: 'torn: its end is missing', closed: dump.status === 'complete' ? '' : dump.status ?? '' }[dump.state] ?? dump.state;
  return el('span', { class: `state state-${dump.state} small`, role: 'status', id: 'state' }, `${dump.records_text}, ${dump.bytes_text}`, words ? ` · ${words}` : '');
}

async function show() {
  room.left = true;
  const mine = { left: false, onchange: null };
  room = mine;
  showHead();
  const { room: name } = place();
  const made = ROOMS[name] ?? { title: 'Nothing', make: () => nowhere(name) };
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
  const rooms = Object.entries(ROOMS).filter(([, one]) => !one.hidden).map(([room, one]) => [link(one.title, room), ' ']);
  return el('div', { class: 'card trouble', role: 'alert' }, el('p', {}, 'There is no room ', el('code', {}, name), ' here.'), el('p', {}, rooms));
}

// What names a verdict.
function verdictKey() {
  return [dumpNow().id, place().params.golden, dumpNow().generation].join(' ');
}

// The verdict in a line, above the tasks; where it takes long to find out, how to have it.
function verdictLine() {
  const { golden } = place().params;
  const frame = el('div', { id: 'verdict', 'aria-live': 'polite' });
  if (!golden) return frame;
  const known = verdicts.get(verdictKey());
  if (known) {
    const kind = known.passes ? 'good' : 'bad';
    return add(frame, el('p', { class: `verdict verdict-${kind} verdict-line` }, el('strong', { class: 'verdict-word' }, `${signOf(known.word)} ${known.word}`), ' ', known.sentence, ' ',
      link(known.passes ? 'What was compared' : 'Where, and what kind of error', 'compare', { run: 'blame' })));
  }
  return add(frame, el('p', { class: 'verdict verdict-open verdict-line' }, isSoonDone() ? 'Holding every task against what it should be …' : link('Find the first wrong task', 'compare', { run: 'blame' })));
}

// Whether labels are found out without being asked.
function isSoonDone() {
  return place().params.golden !== 'reference' && dumpNow().records <= FEW;
}

// Says in the page what its script takes, where the browser tells: for measurements.
function noteHeap() {
  if (performance.memory) document.documentElement.dataset.heapBytes = performance.memory.usedJSHeapSize;
}

// Looks at a dump that is still written, and tells the room when there is more.
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
  room.onchange?.();
}

// Finds out the labels of tasks without being asked, where that is soon done.
async function label() {
  if (!place().params.golden || !isSoonDone() || verdicts.has(verdictKey())) return;
  const [mine, key] = [room, verdictKey()];
  try {
    const made = await finished('blame', about(), null, () => mine.left);
    if (!made) return;
    verdicts.set(key, made.found.verdict);
  } catch {
    // The room of comparing says why.
    return;
  }
  if (mine.left) return;
  document.getElementById('verdict')?.replaceWith(verdictLine());
  mine.onchange?.();
}

async function begin() {
  document.body.append(el('a', { class: 'skip', href: '#main', onclick: (event) => (event.preventDefault(), main.focus()) }, 'To the content'), head, main);
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
