// A table of any length that sorts and filters. Only the visible rows are elements of the page.

import { el, replace } from './dom.js';

// Height of a row in pixels, as in the style sheet, and extra rows above and below the visible ones.
const ROW = 30;
const AROUND = 12;
// Browsers cannot make an element much taller than this. Longer tables continue when the end is reached.
const TALLEST = 10_000_000;

// `columns`: `[{ key, title, end, wide, about }]`; `end` right-aligns numbers. `provider.rows({ sort,
// descending, filter, from, count })` returns `{ total, of, rows }` or a promise of it: how many rows match
// the filter, of how many, and the requested ones. A row is a list of cells: text, or `{ text, title, node,
// class }`, where `node` makes an element. `options`:
// - `label` is the accessible name.
// - `filter: false` removes the filter field, and `sortable: false` the sort buttons.
// - `onopen(row, index)` is called for Enter and clicks.
// - `height` is that of the visible rows.
// - `sorted` is the initial order `{ key, descending }`.
// - `onsort(key, descending)` reports a new order; `key` is null for the provider's own order.
export function table(columns, provider, options = {}) {
  const initial = columns.findIndex((column) => column.key === options.sorted?.key);
  const state = { sort: initial < 0 ? null : initial, descending: initial >= 0 && Boolean(options.sorted.descending), filter: '', from: 0, total: 0, asked: 0, at: -1 };
  const counted = el('span', { class: 'table-count', role: 'status' });
  const field = el('input', {
    type: 'search', class: 'table-filter', placeholder: 'Filter', 'aria-label': `Filter ${options.label ?? 'rows'}`,
    spellcheck: 'false', autocomplete: 'off',
  });
  const heads = columns.map((column, place) => head(column, () => sortBy(place)));
  const body = el('tbody');
  const above = el('tr', { 'aria-hidden': 'true' }, el('td', { colspan: columns.length }));
  const below = el('tr', { 'aria-hidden': 'true' }, el('td', { colspan: columns.length }));
  const grid = el('table', { class: 'rows' }, el('thead', {}, el('tr', {}, heads)), body);
  const scroller = el('div', {
    class: 'table-rows', tabindex: '0', role: 'region', 'aria-label': options.label ?? 'Table',
  }, grid);
  scroller.style.maxHeight = `${options.height ?? 420}px`;

  function head(column, onclick) {
    if (options.sortable === false) return el('th', { scope: 'col', class: column.end ? 'end plain-head' : 'plain-head', title: column.about }, column.title, el('span', { class: 'sort' }));
    const button = el('button', { type: 'button', onclick, title: column.about }, column.title, el('span', { class: 'sort' }));
    return el('th', { scope: 'col', class: column.end ? 'end' : null }, button);
  }

  function sortBy(place) {
    // Ascending, descending, unsorted.
    if (state.sort !== place) Object.assign(state, { sort: place, descending: Boolean(columns[place].end) });
    else if (state.descending === Boolean(columns[place].end)) state.descending = !state.descending;
    else state.sort = null;
    options.onsort?.(state.sort === null ? null : columns[state.sort].key, state.descending);
    scroller.scrollTop = 0;
    refresh();
  }

  function showSort() {
    heads.forEach((head, place) => {
      const sorted = state.sort === place ? (state.descending ? 'descending' : 'ascending') : null;
      if (sorted) head.setAttribute('aria-sort', sorted);
      else head.removeAttribute('aria-sort');
      head.querySelector('.sort').textContent = sorted ? (state.descending ? ' ↓' : ' ↑') : '';
    });
  }

  async function refresh() {
    const asked = ++state.asked;
    const from = Math.max(0, Math.floor(scroller.scrollTop / ROW) - AROUND);
    const count = Math.ceil((scroller.clientHeight || options.height || 420) / ROW) + 2 * AROUND;
    const { sort, descending, filter } = state;
    const key = sort === null ? null : columns[sort].key;
    let answer = provider.rows({ sort: key, descending, filter, from, count });
    // A synchronous answer is shown before the next frame, so that scrolling shows no gap.
    if (answer instanceof Promise) answer = await answer;
    if (asked === state.asked) show(answer, from);
  }

  function show({ total, of, rows }, from) {
    state.total = total;
    state.from = from;
    above.firstChild.style.height = `${Math.min(from * ROW, TALLEST)}px`;
    below.firstChild.style.height = `${Math.min(Math.max(0, total - from - rows.length) * ROW, TALLEST)}px`;
    replace(body, above, rows.map((row, place) => line(row, from + place)), below);
    if (rows.length === 0) body.append(el('tr', { class: 'none' }, el('td', { colspan: columns.length }, 'No rows.')));
    grid.setAttribute('aria-rowcount', total);
    const word = (of ?? total) === 1 ? 'row' : 'rows';
    const all = (of ?? total).toLocaleString('en');
    counted.textContent = total === (of ?? total) ? `${all} ${word}` : `${total.toLocaleString('en')} of ${all} ${word}`;
    showSort();
    // Never shrink the table, so that columns do not jump while scrolling.
    grid.style.minWidth = `${Math.max(grid.offsetWidth, Number.parseInt(grid.style.minWidth, 10) || 0)}px`;
  }

  function line(row, index) {
    const attributes = { 'aria-rowindex': index + 1, class: index === state.at ? 'at' : null };
    if (options.onopen) attributes.onclick = () => options.onopen(row, index);
    return el('tr', attributes, row.map((value, place) => cell(value, columns[place])));
  }

  function cell(value, column) {
    const shown = typeof value === 'object' && value !== null ? value : { text: value ?? '' };
    const node = shown.node ? shown.node() : String(shown.text);
    const classes = [column.end ? 'end' : '', column.wide ? 'wide' : '', shown.class ?? ''].join(' ').trim();
    return el('td', { class: classes || null, title: shown.title ?? (column.wide ? shown.text : null) }, node);
  }

  let waiting = false;
  scroller.addEventListener('scroll', () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const first = Math.floor(scroller.scrollTop / ROW);
      if (Math.abs(first - state.from) > AROUND / 2) refresh();
    });
  });
  scroller.addEventListener('keydown', (event) => {
    if (!options.onopen || !['ArrowDown', 'ArrowUp', 'Enter'].includes(event.key)) return;
    event.preventDefault();
    if (event.key === 'Enter') return void body.querySelector('tr.at')?.click();
    state.at = Math.min(Math.max(0, state.at + (event.key === 'ArrowDown' ? 1 : -1)), state.total - 1);
    scroller.scrollTop = Math.max(0, (state.at - 3) * ROW);
    refresh();
  });
  let typing = 0;
  field.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
      state.filter = field.value;
      scroller.scrollTop = 0;
      refresh();
    }, provider.patience ?? 0);
  });
  requestAnimationFrame(refresh);
  const bar = el('div', { class: 'table-bar' }, options.filter === false ? null : field, counted);
  // `refresh()` of the element requests the rows again, because the provider's data may have changed.
  return Object.assign(el('div', { class: 'table' }, bar, scroller), { refresh });
}

// A provider for rows that are all in the page. `columns` of the document are lists: `{ key, words, at }`
// with `words[at[row]]` as text, or `{ key, text }`. Either may have `value`, the numbers to sort by; `null`
// sorts last.
export function localRows(columns, length, cellOf) {
  const text = (column, row) => (column.words ? column.words[column.at[row]] : column.text[row]);
  const make = cellOf ?? ((column, row) => text(column, row));
  let known = null;

  function order({ sort, descending, filter }) {
    const asked = JSON.stringify([sort, descending, filter]);
    if (known?.asked === asked) return known.rows;
    let rows = Array.from({ length }, (_, row) => row);
    const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const low = wanted.length > 0 ? lowered() : [];
    rows = rows.filter((row) => wanted.every((word) => low.some((column) => column(row).includes(word))));
    const column = columns.find((column) => column.key === sort);
    if (column) rows.sort((a, b) => compare(column, a, b, descending) || a - b);
    known = { asked, rows };
    return rows;
  }

  // Lowercase texts, each word of a dictionary once.
  let small = null;
  function lowered() {
    small ??= columns.map((column) => {
      const words = (column.words ?? column.text).map((word) => String(word ?? '').toLowerCase());
      return column.words ? (row) => words[column.at[row]] : (row) => words[row];
    });
    return small;
  }

  function compare(column, a, b, descending) {
    const [one, other] = column.value ? [column.value[a], column.value[b]] : [text(column, a), text(column, b)];
    const [none, noneOther] = [one === null || one === undefined || one === '', other === null || other === undefined || other === ''];
    if (none || noneOther) return none - noneOther;
    const way = column.value ? Number(one) - Number(other) : String(one).localeCompare(String(other), 'en', { numeric: true });
    return descending ? -way : way;
  }

  return {
    rows(asked) {
      const rows = order(asked);
      const shown = rows.slice(asked.from, asked.from + asked.count);
      return { total: rows.length, of: length, rows: shown.map((row) => columns.map((column) => make(column, row, text))) };
    },
  };
}
