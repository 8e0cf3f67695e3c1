// The room of comparing: which task is wrong first, and every record beside what it should be.

import { chip, command, el, replace } from '../parts/dom.js';
import { table } from '../parts/table.js';
import { about, ask, finished, go, place } from './api.js';
import { link, progress, taskLink, trouble } from './bits.js';

export async function compareRoom(room) {
  const { golden } = place().params;
  if (!golden) {
    return [el('h1', {}, 'Compare'), el('p', { class: 'card' }, 'Choose above what the dump is held against: another dump, files, or the references of its kernels.')];
  }
  const verdict = el('div');
  const records = el('div');
  const blame = el('button', { type: 'button', class: 'main', onclick: runBlame }, 'Find the first wrong task');
  const compare = el('button', { type: 'button', onclick: runCompare }, 'Compare every record');

  async function runBlame() {
    const bar = progress('Labelling tasks');
    replace(verdict, bar.element);
    try {
      const found = await finished('blame', about(), bar.told, () => room.left);
      if (found) replace(verdict, verdictCard(found));
    } catch (problem) {
      replace(verdict, trouble(problem));
    }
  }

  async function runCompare() {
    const bar = progress('Comparing records');
    replace(records, bar.element);
    try {
      const found = await finished('compare', about(), bar.told, () => room.left);
      if (found) replace(records, compared(found));
    } catch (problem) {
      replace(records, trouble(problem));
    }
  }

  if (place().params.run === 'blame') runBlame();
  if (place().params.run === 'compare') runCompare();
  return [el('h1', {}, 'Compare'), el('div', { class: 'controls' }, blame, golden === 'reference' ? null : compare), verdict, records];
}

function verdictCard(found) {
  const counts = Object.entries(found.labels).filter(([, count]) => count > 0);
  const label = ([name, count]) => el('li', {}, link([chip(name), ` ${count.toLocaleString('en')}`], 'tasks', { q: `label:${name}` }));
  const told = new Map(found.tasks.map((task) => [task.task_id, task]));
  const culprits = found.culprits.map((culprit) => {
    const task = told.get(culprit.task_id);
    const name = task ? [task.scope, task.task_name ?? task.kernels.join(' + ')].filter(Boolean).join(' / ') : '';
    return el('li', { class: 'culprit' }, taskLink(shortId(culprit), name || shortId(culprit)), ' ', task ? chip(task.label) : null,
      task?.reason ? el('p', { class: 'small' }, task.reason) : null,
      el('p', { class: 'soft small' }, `its error reached ${Math.max(0, culprit.chain.length - 1).toLocaleString('en')} tasks on its longest way`),
      culprit.replay ? command(culprit.replay) : null);
  });
  const pass = found.verdict === 'pass';
  return el('section', { class: 'card verdict' }, el('h2', {}, pass ? 'Nothing is wrong' : found.culprits.length ? 'Wrong first' : 'Something is wrong'),
    el('p', {}, `Compared ${found.compared.toLocaleString('en')} of ${found.of.toLocaleString('en')} records.`),
    found.orchestration_suspected ? el('p', {}, 'Every kernel is right by its reference and the result is not: look at the orchestration.') : null,
    culprits.length ? el('ol', { class: 'plain-list' }, culprits) : null,
    el('h3', {}, 'Tasks by label'), el('ul', { class: 'labels' }, counts.map(label)),
    pass ? null : link('The way of the error through the graph', 'graph', { way: 1 }));
}

function shortId({ step, task_id }) {
  const id = task_id.replace(/^0x0*(?=.)/, '0x');
  return step ? `${step}@${id}` : id;
}

function compared(found) {
  const words = `${found.compared.toLocaleString('en')} of ${found.of.toLocaleString('en')} records compared: ${found.outside.toLocaleString('en')} outside their rule, ${found.within.toLocaleString('en')} within, ${found.unknown.toLocaleString('en')} not known; ${found.unmatched.toLocaleString('en')} without a partner.`;
  const wide = new Set(['task_name', 'rule', 'evidence']);
  const holder = el('div');
  (async () => {
    const head = await ask('compare/rows', about({ count: 1 }));
    const columns = head.columns.map(([key, title, end]) => ({ key, title: title[0] + title.slice(1).toLowerCase(), end, wide: wide.has(key) }));
    const provider = {
      patience: 150,
      async rows({ filter, from, count }) {
        const answer = await ask('compare/rows', about({ q: filter, from, count }));
        const rows = answer.rows.map((row) => Object.assign(row.cells.map((text, at) => (columns[at].key === 'verdict' ? { text, class: `outcome-${row.verdict}` } : text)), { record: row.record }));
        return { total: answer.total, of: answer.of, rows };
      },
    };
    replace(holder, table(columns, provider, { label: 'Compared records', onopen: (row) => go('tensor', { record: row.record }) }));
  })().catch((problem) => replace(holder, trouble(problem)));
  return el('section', {}, el('h2', {}, found.verdict === 'pass' ? 'Every record is within its rule' : 'Records'), el('p', {}, words), holder);
}
