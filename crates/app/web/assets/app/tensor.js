// The tensor view: any slice as numbers, heat map or image, next to its golden and the difference.

import { context, drawn, el, replace } from '../parts/dom.js';
import { numbers } from '../parts/heatmap.js';
import { histogram, profile } from '../parts/histogram.js';
import { about, ask, place, stay } from './api.js';
import { choice, facts, link, taskLink, trouble } from './bits.js';
import { tilePicture } from './task.js';

// Maximum rows and columns of each kind of picture.
const EXTENT = { numbers: [64, 24], heat: [128, 128], image: [512, 512] };
const VIEWS = [['heat', 'Heat map'], ['numbers', 'Numbers'], ['image', 'Image']];

export async function tensorView(lifecycle) {
  const state = { view: 'heat', slice: '', ...place().params };
  const page = await ask('record', about({ record: state.record }));
  const { record } = page;
  const shape = record.shape ?? [];
  const panels = el('div', { class: 'panels tensor-panels' });
  const controls = el('div', { class: 'controls' });
  const below = el('div', { class: 'panels' });
  const problem = el('div');
  const head = el('header', {},
    el('h1', {}, record.arg_name ?? `Argument ${record.arg_index}`, ' ', el('span', { class: 'soft' }, `${record.stage === 'before_dispatch' ? 'before' : 'after'} `), taskLink(page.task)),
    facts([
      ['Record', `${record.index}`], ['Name', el('code', {}, page.name)], ['Kernel', (record.kernels ?? []).join(' + ')], ['Scope', record.scope],
      ['Role', record.observed ?? record.role], ['Type', record.dtype], ['Shape', page.shape_text], ['Content', record.payload],
      ['Hash', record.hash && el('code', {}, String(record.hash).slice(0, 10))],
    ]),
    page.other_stage !== null ? el('p', {}, link('The same argument at the other stage', 'tensor', { record: page.other_stage })) : null);

  function change(more) {
    Object.assign(state, more);
    const { record: index, view, slice, row_axis, column_axis, of } = state;
    stay('tensor', { record: index, view: view === 'heat' ? null : view, slice, row_axis, column_axis, of });
    show();
  }

  function axisSelect(label, key, other) {
    const options = [el('option', { value: '' }, 'default'), ...shape.map((size, axis) => el('option', { value: axis, selected: String(state[key]) === String(axis) }, `axis ${axis} (${size.toLocaleString('en')})`))];
    const select = el('select', { 'aria-label': label }, options);
    select.addEventListener('change', () => change({ [key]: select.value, ...(select.value !== '' && select.value === String(state[other]) ? { [other]: '' } : {}) }));
    return el('label', {}, `${label} `, select);
  }

  function showControls() {
    const slice = el('input', { type: 'text', value: state.slice, placeholder: shape.map(() => ':').join(',') || '…', 'aria-label': 'Slice', spellcheck: 'false', class: 'mono slice' });
    slice.addEventListener('change', () => change({ slice: slice.value.trim() }));
    replace(controls, choice('Show as', VIEWS, state.view, (view) => change({ view })),
      el('label', {}, 'Slice ', slice),
      shape.length > 1 ? [axisSelect('Rows', 'row_axis', 'column_axis'), axisSelect('Columns', 'column_axis', 'row_axis')] : null);
  }

  async function panel(title, of, minus) {
    const [rows, columns] = EXTENT[state.view];
    const asked = about({ record: state.record, of, minus, slice: state.slice, rows, columns, corner: state.view === 'numbers' ? 1 : null, row_axis: state.row_axis, column_axis: state.column_axis });
    const frame = el('section', { class: 'card panel' }, el('h2', {}, title));
    try {
      const tile = await ask('tile', asked);
      frame.append(view(tile, title), el('p', { class: 'soft small' }, tileWords(tile)));
    } catch (error) {
      frame.append(el('p', { class: 'soft' }, error.message));
    }
    return frame;
  }

  function view(tile, title) {
    if (tile.elements === 0 || state.view === 'heat') return tilePicture(tile, title);
    if (state.view === 'image') return image(tile, title);
    return numbers(tile, title);
  }

  let asked = 0;
  async function show() {
    const mine = ++asked;
    showControls();
    const wanted = [[record.stage === 'before_dispatch' ? 'Before' : 'After', 'tensor', null]];
    if (page.golden) wanted.push(['Golden', 'golden', null], ['Difference from golden', 'difference', null]);
    if (page.other_stage !== null) wanted.push(['Difference from the other stage', 'difference', page.other_stage]);
    const made = await Promise.all(wanted.map((one) => panel(...one)));
    if (mine !== asked || lifecycle.left) return;
    replace(panels, made);
    showBelow(mine);
  }

  async function showBelow(mine) {
    const of = about({ record: state.record, slice: state.slice });
    try {
      const parts = [];
      const spread = await ask('spread', of);
      parts.push(el('section', { class: 'card' }, histogram(spread, { names: spread.names, label: 'Distribution of the values', ends: [spread.low_text ?? 'no number', spread.high_text ?? ''] })));
      if (page.golden) {
        const { axes } = await ask('profile', of);
        const telling = axes.filter((axis) => axis.bins.length > 1 && axis.bins.some((bin) => bin.not_zero > 0));
        if (telling.length) parts.push(el('section', { class: 'card' }, el('h2', {}, 'Where it differs'), telling.map((axis) => profile(axis, { label: `Axis ${axis.axis}` }))));
      }
      if (mine === asked && !lifecycle.left) replace(below, parts);
    } catch (error) {
      replace(problem, trouble(error));
    }
  }

  showControls();
  show();
  return [head, controls, problem, panels, below];
}

function tileWords(tile) {
  const part = tile.looked_at < tile.elements ? `${tile.looked_at.toLocaleString('en')} of ${tile.elements.toLocaleString('en')} elements checked` : `${tile.elements.toLocaleString('en')} elements`;
  const range = tile.min === null ? 'no finite value' : `${tile.low_text} to ${tile.high_text}`;
  const odd = [[tile.nan, 'NaN'], [tile.inf, 'infinite'], [tile.missing, 'not stored']].filter(([count]) => count > 0);
  return [`[${tile.slice}]`, part, range, ...odd.map(([count, word]) => `${count.toLocaleString('en')} ${word}`)].join(' · ');
}

// The cells as an image: the lowest value is black, the highest white; cells without a number are outlined.
function image(tile, label) {
  const [rows, columns] = [tile.rows.cells, tile.columns.cells];
  const canvas = el('canvas', { role: 'img', tabindex: '0', 'aria-label': `${label} as an image` });
  const readout = el('output', { class: 'readout', 'aria-live': 'polite' }, `Black is ${tile.low_text ?? 'nothing'}, white is ${tile.high_text ?? 'nothing'}.`);
  const frame = el('div', { class: 'image-frame' }, canvas);
  const span = tile.max - tile.min || 1;
  let side = 1;
  function draw(width) {
    side = Math.max(1, Math.min(12, Math.floor(width / columns))) * (columns > width ? width / columns : 1);
    const drawing = context(canvas, Math.max(1, side * columns), Math.max(1, side * rows));
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const value = tile.cells.mean[row * columns + column];
        const [x, y] = [Math.floor(column * side), Math.floor(row * side)];
        const [w, h] = [Math.ceil((column + 1) * side) - x, Math.ceil((row + 1) * side) - y];
        const gray = value === null ? 0 : Math.round((255 * (value - tile.min)) / span);
        drawing.fillStyle = `rgb(${gray} ${gray} ${gray})`;
        drawing.fillRect(x, y, w, h);
        if (value !== null) continue;
        drawing.strokeStyle = '#c026d3';
        drawing.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
      }
    }
  }
  let at = [0, 0];
  function say(row, column) {
    at = [Math.min(Math.max(0, row), rows - 1), Math.min(Math.max(0, column), columns - 1)];
    const where = at[0] * columns + at[1];
    const spot = (axis, cell) => (axis.axis === null ? null : `axis ${axis.axis} at ${axis.first + axis.step * cell * axis.per_cell}`);
    const words = tile.cells.text?.[where] ?? tile.cells.mean[where] ?? 'no number';
    readout.textContent = `${[spot(tile.rows, at[0]), spot(tile.columns, at[1])].filter(Boolean).join(', ')}: ${words}`;
  }
  canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    say(Math.floor(((event.clientY - box.top) / box.height) * rows), Math.floor(((event.clientX - box.left) / box.width) * columns));
  });
  canvas.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    say(at[0] + step[0], at[1] + step[1]);
  });
  drawn(frame, draw);
  return el('figure', { class: 'image' }, frame, readout);
}
