// A part of a tensor as a heat map: each cell is one element or several.

import { color, context, drawn, el, replace } from './dom.js';

// Largest side of a cell and largest height of the picture, in pixels.
const LARGEST = 26;
const HIGHEST = 420;

// `tile`: the cells from the `query` crate. `options`: `label` is the caption; `low`, `zero`, `high` explain
// the ends of the scale; `onpick(row, column)` reports the cell under the cursor. A cell of several elements
// has the color of the element furthest from 0.
export function heatmap(tile, options = {}) {
  const rows = tile.rows.cells;
  const columns = tile.columns.cells;
  const cells = readCells(tile);
  const limit = Math.max(Math.abs(tile.min ?? 0), Math.abs(tile.max ?? 0)) || 1;
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': options.label ?? 'Heat map' });
  const readout = el('output', { class: 'readout', 'aria-live': 'polite' }, hint());
  const frame = el('div', { class: 'heatmap-frame' }, canvas);
  const figure = el('figure', { class: 'heatmap' }, options.label ? el('figcaption', {}, options.label) : null, frame, readout, legend());
  let at = null;
  let size = { width: 0, height: 0 };

  function hint() {
    const many = tile.rows.per_cell * tile.columns.per_cell;
    const which = many > 1 ? `Each cell is ${many.toLocaleString('en')} elements and has the color of the one furthest from 0. ` : '';
    const part = tile.looked_at < tile.elements ? `${tile.looked_at.toLocaleString('en')} of ${tile.elements.toLocaleString('en')} elements were checked. ` : '';
    return `${which}${part}Point at a cell, or use the arrow keys.`;
  }

  function draw(width) {
    const side = Math.min(LARGEST, width / columns);
    const tall = Math.min(rows === 1 ? 36 : Math.max(side, rows < 12 ? 14 : 0), HIGHEST / rows);
    size = { width: Math.max(1, side * columns), height: Math.max(1, tall * rows) };
    const drawing = context(canvas, size.width, size.height);
    const ramp = scale(limit);
    const patterns = { nan: cross(drawing, 'nan'), inf: cross(drawing, 'inf'), missing: cross(drawing, 'line') };
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const cell = cells(row * columns + column);
        drawing.fillStyle = cell.missing ? patterns.missing : cell.nan ? patterns.nan : cell.inf ? patterns.inf : ramp(cell.value);
        const [x, y] = [Math.floor(column * side), Math.floor(row * tall)];
        drawing.fillRect(x, y, Math.ceil((column + 1) * side) - x, Math.ceil((row + 1) * tall) - y);
      }
    }
    if (at) {
      drawing.strokeStyle = color('ink');
      drawing.lineWidth = 2;
      drawing.strokeRect(at.column * side + 1, at.row * tall + 1, Math.max(side - 2, 2), Math.max(tall - 2, 2));
    }
  }

  function pick(row, column) {
    at = { row: Math.min(Math.max(0, row), rows - 1), column: Math.min(Math.max(0, column), columns - 1) };
    readout.textContent = cellWords(tile, at.row, at.column);
    draw(size.width === 0 ? 1 : frame.clientWidth);
    options.onpick?.(at.row, at.column);
  }

  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    if (at?.row !== row || at?.column !== column) pick(row, column);
  });
  canvas.addEventListener('keydown', (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const from = at ?? { row: 0, column: 0 };
    pick(at ? from.row + step[0] : 0, at ? from.column + step[1] : 0);
  });

  function legend() {
    const marks = [];
    const mark = (kind, count, word) => count > 0 && marks.push(el('span', { class: `mark mark-${kind}` }, `${word}: ${count.toLocaleString('en')}`));
    mark('nan', tile.nan, 'NaN');
    mark('inf', tile.inf, 'infinite');
    mark('missing', tile.missing, 'not stored');
    const none = tile.min === null;
    const [low, high] = options.ends ?? [short(-limit), short(limit)];
    const ends = none ? null : [
      el('span', {}, `${low} ${options.low ?? ''}`), el('span', { class: 'ramp', 'aria-hidden': 'true' }),
      el('span', {}, `${high} ${options.high ?? ''}`),
    ];
    return el('div', { class: 'legend' }, ends, none || !options.zero ? null : el('span', { class: 'legend-zero' }, options.zero), marks);
  }

  drawn(frame, draw);
  return figure;
}

// The content of a cell: the value that gives its color, and whether it has NaN, infinite or missing
// elements.
function readCells(tile) {
  const { mean, min, max, nan, inf, missing } = tile.cells;
  return (place) => {
    const ends = min && min[place] !== null ? [min[place], max[place]] : [mean[place], mean[place]];
    const value = Math.abs(ends[0]) > Math.abs(ends[1]) ? ends[0] : ends[1];
    return { value, nan: nan?.[place] > 0, inf: inf?.[place] > 0, missing: missing?.[place] > 0 && value === null };
  };
}

// The text for the cell under the cursor.
function cellWords(tile, row, column) {
  const place = row * tile.columns.cells + column;
  const { mean, min, max, nan, inf, missing, text } = tile.cells;
  const where = [position(tile.rows, row), position(tile.columns, column)].filter(Boolean).join(', ');
  const counts = [[nan, 'NaN'], [inf, 'infinite'], [missing, 'not stored']]
    .filter(([list]) => list?.[place] > 0)
    .map(([list, word]) => `${list[place].toLocaleString('en')} ${word}`);
  let value = text ? text[place] : '';
  if (!text && mean[place] !== null) value = min ? `${short(min[place])} to ${short(max[place])}, mean ${short(mean[place])}` : short(mean[place]);
  return `${where}: ${[value, text ? '' : counts.join(', ')].filter(Boolean).join('; ')}`;
}

function position(axis, cell) {
  if (axis.axis === null) return '';
  const first = axis.first + axis.step * cell * axis.per_cell;
  const count = Math.min(axis.per_cell, axis.count - cell * axis.per_cell);
  const last = first + axis.step * (count - 1);
  return `axis ${axis.axis} at ${first}${count > 1 ? ` to ${last}` : ''}`;
}

// A number with four digits, for values computed here. Values that the document has as text are shown as they
// are.
export function short(value) {
  if (typeof value !== 'number') return String(value);
  if (value === 0) return '0';
  const size = Math.abs(value);
  return size >= 1e-3 && size < 1e6 ? String(Number(value.toPrecision(4))) : value.toExponential(2);
}

// A signed color scale. Colors follow the square root of the value, so that small differences stay visible.
export function scale(limit) {
  const [below, zero, above] = ['below', 'zero', 'above'].map((name) => parts(color(name)));
  return (value) => {
    const share = Math.sqrt(Math.min(1, Math.abs(value) / limit));
    const end = value < 0 ? below : above;
    const mixed = zero.map((part, place) => Math.round(part + (end[place] - part) * share));
    return `rgb(${mixed.join(' ')})`;
  };
}

function parts(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

// A pattern of small crosses, so that NaN and infinite values are visible without colors.
function cross(drawing, name) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 8;
  const pen = tile.getContext('2d');
  pen.fillStyle = color(name);
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = color('card');
  pen.beginPath();
  pen.moveTo(1, 1);
  pen.lineTo(7, 7);
  if (name !== 'inf') {
    pen.moveTo(7, 1);
    pen.lineTo(1, 7);
  }
  pen.stroke();
  return drawing.createPattern(tile, 'repeat');
}

// The numbers of a tile as a table, for tiles with one element per cell.
export function numbers(tile, label) {
  const rows = Array.from({ length: tile.rows.cells }, (_, row) => {
    const values = Array.from({ length: tile.columns.cells }, (_, column) => {
      const place = row * tile.columns.cells + column;
      return el('td', {}, tile.cells.text?.[place] ?? short(tile.cells.mean[place] ?? 'NaN'));
    });
    return el('tr', {}, el('th', { scope: 'row' }, tile.rows.first + tile.rows.step * row * tile.rows.per_cell), values);
  });
  const head = Array.from({ length: tile.columns.cells }, (_, column) =>
    el('th', { scope: 'col' }, tile.columns.first + tile.columns.step * column * tile.columns.per_cell));
  const grid = el('table', { class: 'numbers', 'aria-label': label }, el('thead', {}, el('tr', {}, el('td'), head)), el('tbody', {}, rows));
  return replace(el('div', { class: 'numbers-frame', tabindex: '0', role: 'region', 'aria-label': label }), grid);
}
