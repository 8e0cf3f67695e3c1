// The task and record lists. Their rows come from the server, so they can have any length.

import { chip, el } from '../parts/dom.js';
import { table } from '../parts/table.js';
import { exporter } from './actions.js';
import { about, ask, go, place, stay } from './api.js';
import { shortId, trouble } from './bits.js';

// Milliseconds until an incomplete list is requested again.
const AGAIN = 250;

// A list of `tasks` or `records`.
export async function listView(what, lifecycle, served) {
  const { q, sort } = place().params;
  const head = await ask(what, about({ q, count: 1 }));
  const note = el('p', { class: 'soft small', role: 'status' });
  const problem = el('div');
  const keys = head.columns.map((column) => column.key);
  const columns = head.columns.map(({ key, title, end }) => ({ key, title, end, wide: ['scope', 'task_name', 'name'].includes(key) }));
  let timer = 0;

  function cell(text, key) {
    if (key === 'label' && text) return { text, node: () => chip(text) };
    if (key === 'task_id') return { text: shortId(text), class: 'mono' };
    if (key === 'task' || key === 'hash') return { text, class: 'mono' };
    return text;
  }

  async function rows({ sort, descending, from, count }) {
    const asked = about({ q, from, count, sort: sort ? (descending ? '-' : '') + sort : null });
    let answer;
    try {
      answer = await ask(what, asked);
    } catch (error) {
      problem.replaceChildren(trouble(error));
      return { total: 0, of: 0, rows: [] };
    }
    clearTimeout(timer);
    if (!answer.complete && !lifecycle.left) timer = setTimeout(() => list.refresh(), AGAIN);
    note.textContent = answer.cut ? 'There are more matches than listed: narrow the search.' : answer.complete ? '' : answer.of ? 'Searching …' : 'Loading the tasks …';
    const shown = answer.rows.map((row) => Object.assign(row.cells.map((text, at) => cell(text, keys[at])), { task: row.task, record: row.record }));
    return { total: answer.total, of: Math.max(answer.of, answer.total), rows: shown };
  }

  const list = table(columns, { rows }, {
    sorted: sort ? { key: sort.replace(/^-/, ''), descending: sort.startsWith('-') } : null,
    // The sort order is in the address without a history entry, so Back leaves the list.
    onsort: (key, descending) => stay(what, { q, sort: key && (descending ? '-' : '') + key }),
    label: what === 'tasks' ? 'Tasks' : 'Records', filter: false, height: Math.max(320, innerHeight - 250),
    onopen: (row) => (what === 'tasks' ? go('task', { task: row.task }) : go('tensor', { record: row.record })),
  });
  lifecycle.onchange = () => list.refresh();
  const searched = q ? el('p', { class: 'searched' }, what === 'tasks' ? 'Tasks with ' : 'Records with ', el('code', {}, q)) : null;
  return [searched, problem, list, note, what === 'records' ? exporter(served, lifecycle, q, q ? 'Export these records' : 'Export all records') : null];
}
