// The compare view: the first wrong task, and every record with its expected content.

import { chip, el, replace } from '../parts/dom.js';
import { culpritSection, verdict } from '../parts/findings.js';
import { graph } from '../parts/graph.js';
import { table } from '../parts/table.js';
import { runJob } from './actions.js';
import { about, ask, go, place, stay } from './api.js';
import { link, shortId, taskLink, trouble } from './bits.js';

const ORDERS = [['order', 'in task order'], ['error', 'largest error first'], ['share', 'largest share of elements outside first'], ['ulps', 'largest distance in ulps first']];

export async function compareView(lifecycle) {
  const { golden, run } = place().params;
  if (!golden) {
    return [el('h1', {}, 'Compare'), el('p', { class: 'card' }, 'Choose above what to compare the dump with: another dump, files, or the references of its kernels.')];
  }
  const found = el('div');
  const records = el('div');
  const blame = el('button', { type: 'button', class: 'main', onclick: runBlame }, 'Find the first wrong task');
  const compare = el('button', { type: 'button', onclick: runCompare }, 'Compare every record');

  // The address names what was run, so that Back shows it again.
  function runBlame() {
    stay('compare', { run: 'blame' });
    return runJob(found, lifecycle, { words: 'Labeling tasks', path: 'blame', params: about(), done: foundParts });
  }

  function runCompare() {
    stay('compare', { run: 'compare' });
    return runJob(records, lifecycle, { words: 'Comparing records', path: 'compare', params: about(), done: compared });
  }

  if (run === 'blame') runBlame();
  if (run === 'compare') runCompare();
  return [el('h1', {}, 'Compare'), el('div', { class: 'controls' }, blame, golden === 'reference' ? null : compare), found, records];
}

// The content of `blame` and of a report, with a link to every task.
function foundParts({ found, blame }) {
  const counted = (one) => link([chip(one.label), ` ${one.text}`], 'tasks', { q: `label:${one.label}` }, { class: 'count', title: one.about });
  const leads = { expected: found.expected, task: (id, text) => taskLink(id, text), record: (index, text) => link(text, 'tensor', { record: index }) };
  return [
    verdict(found.verdict, found.labels, counted),
    found.culprits.map((culprit, at) => culpritSection(culprit, at, leads)),
    found.way ? el('section', { class: 'part' }, el('h2', {}, found.way.name),
      el('p', { class: 'about' }, 'Each task used output of the task above it. A dotted line passes through tasks that are not drawn. ', link('Show in the graph view', 'graph', { way: 1 })),
      graph(found.way.layout, { label: found.way.name, onpick: (at) => (found.way.tasks[at] ? go('task', { task: found.way.tasks[at] }) : go('graph', { way: 1 })) })) : null,
    began(blame),
    wiring(blame),
  ];
}

// All tasks at which an error began.
function began(blame) {
  const roots = blame.tasks.filter((task) => ['wrong_here', 'raced', 'fed'].includes(task.label));
  if (roots.length < 2) return null;
  const row = (task) => {
    const [first] = task.outside;
    const argument = first ? `${first.arg_name ?? `argument ${first.arg_index}`} ${first.stage === 'before_dispatch' ? 'before' : 'after'}` : '';
    const outside = first?.failing ? `${first.failing.toLocaleString('en')} of ${first.elements?.toLocaleString('en')}` : first?.evidence === 'none' ? '' : (first?.reason ?? '');
    return el('tr', {}, el('td', {}, taskLink(nameOf(task))), el('td', {}, chip(task.label)), el('td', {}, (task.wrong_kernels.length ? task.wrong_kernels : task.kernels).join(' + ')),
      el('td', {}, [task.scope, task.task_name].filter(Boolean).join(' / ')), el('td', {}, argument), el('td', {}, outside), hasReasons ? el('td', {}, task.reason ?? '') : null);
  };
  const hasReasons = roots.some((task) => task.reason);
  const heads = ['Task', 'Label', 'Kernel', 'Where', 'Argument', 'Outside', ...(hasReasons ? ['Why'] : [])].map((text) => el('th', { scope: 'col' }, text));
  const all = blame.labels.wrong_here + blame.labels.raced + blame.labels.fed;
  return el('section', { class: 'part' }, el('h2', {}, 'Where errors began'),
    el('p', { class: 'about' }, all > roots.length ? `The first ${roots.length.toLocaleString('en')} of ${all.toLocaleString('en')} tasks.` : `${all.toLocaleString('en')} tasks.`),
    el('div', { class: 'scrolled', tabindex: '0', role: 'region', 'aria-label': 'Where errors began' }, el('table', { class: 'plain began' }, el('thead', {}, el('tr', {}, heads)), el('tbody', {}, roots.map(row)))));
}

// How tasks are connected differently than in the golden, and what has no partner there.
function wiring(blame) {
  const lines = blame.wiring.map((one) => el('li', {}, taskLink(shortId(one.task_id)), ` ${one.words.map((line) => line.trim()).join('; ').replace(':;', ':')}`));
  const unpaired = blame.unmatched.map((one) => el('li', {}, `${one.side}: `, one.task_id ? (one.side === 'dump' ? taskLink(shortId(one.task_id)) : el('code', {}, shortId(one.task_id))) : el('code', {}, one.array ?? ''), ` ${one.reason}`));
  const part = (title, items) => (items.length ? el('details', {}, el('summary', {}, `${title}: ${items.length.toLocaleString('en')}`), el('ul', {}, items.slice(0, 200))) : null);
  return [part('Connected differently than in the golden', lines), part('Without a partner', unpaired)];
}

function nameOf({ step, task_id }) {
  return step ? `${step}@${shortId(task_id)}` : shortId(task_id);
}

function compared(found) {
  const words = `${found.compared.toLocaleString('en')} of ${found.of.toLocaleString('en')} records compared: ${found.outside.toLocaleString('en')} outside their rule, ${found.within.toLocaleString('en')} within, ${found.unknown.toLocaleString('en')} unknown; ${found.unmatched.toLocaleString('en')} without a partner.`;
  const wide = new Set(['task_name', 'rule', 'evidence']);
  const holder = el('div');
  const order = el('select', { 'aria-label': 'Order' }, ORDERS.map(([value, name]) => el('option', { value }, name)));
  (async () => {
    const head = await ask('compare/rows', about({ count: 1 }));
    const columns = head.columns.map(([key, title, end]) => ({ key, title: title === 'NAN' ? 'NaN' : title[0] + title.slice(1).toLowerCase(), end, wide: wide.has(key) }));
    const provider = {
      patience: 150,
      async rows({ filter, from, count }) {
        const answer = await ask('compare/rows', about({ q: filter, from, count, sort: order.value }));
        const rows = answer.rows.map((row) => Object.assign(row.cells.map((text, at) => (columns[at].key === 'verdict' ? { text, class: `outcome-${row.verdict}` } : text)), { record: row.record }));
        return { total: answer.total, of: answer.of, rows };
      },
    };
    const list = table(columns, provider, { label: 'Compared records', sortable: false, onopen: (row) => go('tensor', { record: row.record }) });
    order.addEventListener('change', () => list.refresh());
    replace(holder, list);
  })().catch((problem) => replace(holder, trouble(problem)));
  return el('section', { class: 'part' }, el('h2', {}, found.verdict === 'pass' ? 'Every record is within its rule' : 'Records'), el('p', {}, words), el('p', {}, el('label', { class: 'small' }, 'Sorted: outside first, then ', order)), holder);
}
