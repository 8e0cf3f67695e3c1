// A timeline: tracks with slices, which can be zoomed and moved.

import { color, context, drawn, el } from './dom.js';

const TRACK = 18;
const NAMES = 112;
// Width of track names on a narrow screen.
const FEW_NAMES = 64;
const AXIS = 20;
// Labels of tasks at which an error began.
const ROOTS = ['wrong_here', 'raced', 'fed'];
// Smallest visible share of the whole, and how far a key or a button moves.
const CLOSEST = 1e-6;
const STEP = 0.2;

// `lines`: `{ span_ns, names, labels, tracks: [{ name, start, length, of, label, task }] }`. Each slice of a
// track has its start and length in nanoseconds, its index in `names`, and the id of its task. If there are
// labels, it also has its index in `labels`. `options`: `label`, `about(task)` returns a text for a task, `onpick(task)` is
// called for clicks and Enter, `onview({ from, to })` for every visible range.
export function timeline(lines, options = {}) {
  const span = Math.max(1, lines.span_ns);
  const tracks = lines.tracks;
  const height = AXIS + tracks.length * TRACK + 4;
  const canvas = el('canvas', { tabindex: '0', role: 'img', 'aria-label': options.label ?? 'Timeline' });
  const readout = el('output', { class: 'readout', 'aria-live': 'polite' }, HINT);
  const frame = el('div', { class: 'timeline-frame' }, canvas);
  const view = { from: 0, length: 1 };
  let wide = 0;
  let at = null;

  function draw(width) {
    wide = width;
    options.onview?.({ from: view.from, to: view.from + view.length });
    const drawing = context(canvas, width, height);
    const named = width > 500 ? NAMES : FEW_NAMES;
    const room = width - named;
    const toX = (time) => named + ((time / span - view.from) / view.length) * room;
    drawing.font = '11px system-ui, sans-serif';
    drawing.textBaseline = 'middle';
    axis(drawing, named, room);
    tracks.forEach((track, row) => {
      const y = AXIS + row * TRACK;
      drawing.save();
      drawing.beginPath();
      drawing.rect(named, y, room, TRACK);
      drawing.clip();
      slices(drawing, track, y, toX, named, width);
      drawing.restore();
      drawing.fillStyle = color('soft');
      drawing.fillText(track.name, 0, y + TRACK / 2, named - 6);
    });
  }

  function slices(drawing, track, y, toX, from, to) {
    let drawnTo = -1;
    for (let place = 0; place < track.start.length; place++) {
      const x = toX(track.start[place]);
      const end = Math.max(toX(track.start[place] + track.length[place]), x + 1);
      // Skip slices whose pixel is already drawn; zooming in shows them. Wrong ones are always drawn.
      const label = lines.labels?.[track.label?.[place]];
      const wrong = ROOTS.includes(label);
      if (end < from || x > to || (end <= drawnTo && !wrong)) continue;
      drawnTo = end;
      const chosen = at && at.track === track && at.place === place;
      drawing.fillStyle = label ? color(`label-${label}-fill`) : shade(track.of[place]);
      drawing.fillRect(x, y + 1, end - x, TRACK - 3);
      const ink = label ? color(`label-${label}-ink`) : color('ink');
      if (wrong || chosen) {
        drawing.fillStyle = ink;
        drawing.fillRect(x, y + TRACK - (chosen ? 5 : 4), end - x, chosen ? 3 : 2);
      }
      if (end - x > 34) {
        drawing.fillStyle = label ? ink : '#1f2d3d';
        drawing.fillText(lines.names[track.of[place]], x + 3, y + TRACK / 2, end - x - 6);
      }
    }
  }

  function axis(drawing, named, room) {
    const shown = view.length * span;
    const step = niceStep(shown / Math.max(2, Math.floor(room / 110)));
    drawing.fillStyle = color('soft');
    drawing.strokeStyle = color('line');
    drawing.beginPath();
    for (let time = Math.ceil((view.from * span) / step) * step; time <= (view.from + view.length) * span; time += step) {
      const x = named + ((time / span - view.from) / view.length) * room;
      drawing.moveTo(x, AXIS - 4);
      drawing.lineTo(x, height);
      const words = timeText(time, step);
      // Omit a number that does not fit: a cut number would read as a different one.
      if (x + 3 + drawing.measureText(words).width <= named + room) drawing.fillText(words, x + 3, AXIS / 2);
    }
    drawing.stroke();
  }

  // The slice at a point of the canvas.
  function hit(x, y) {
    const named = wide > 500 ? NAMES : FEW_NAMES;
    const track = tracks[Math.floor((y - AXIS) / TRACK)];
    if (!track || x < named) return null;
    const time = (view.from + ((x - named) / (wide - named)) * view.length) * span;
    const reach = ((view.length * span) / (wide - named)) * 2;
    let place = upper(track.start, time + reach) - 1;
    // Slices of a track do not overlap, so only a few before this one can be at the point.
    for (let tries = 0; place >= 0 && tries < 64; place--, tries++) {
      if (track.start[place] + track.length[place] >= time - reach) return { track, place };
    }
    return null;
  }

  function say(found) {
    at = found;
    if (!found) return;
    const { track, place } = found;
    const more = track.task && options.about ? options.about(track.task[place]) : '';
    const label = lines.labels?.[track.label?.[place]];
    const when = `${timeText(track.length[place])} from ${timeText(track.start[place])}`;
    readout.textContent = [[track.name, lines.names[track.of[place]]].filter(Boolean).join(': '), when, more, label?.replaceAll('_', ' ')].filter(Boolean).join(' · ');
  }

  function zoom(factor, middle = 0.5) {
    const length = Math.min(1, Math.max(CLOSEST, view.length * factor));
    view.from = clamp(view.from + (view.length - length) * middle, length);
    view.length = length;
    draw(wide);
  }

  function move(share) {
    view.from = clamp(view.from + share * view.length, view.length);
    draw(wide);
  }

  const within = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let held = null;
  canvas.addEventListener('pointerdown', (event) => {
    held = { x: event.clientX, from: view.from, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointerup', (event) => {
    if (held && !held.moved) {
      say(hit(...within(event)));
      draw(wide);
      if (at?.track.task) options.onpick?.(at.track.task[at.place]);
    }
    held = null;
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!held) {
      const found = hit(...within(event));
      if (found) say(found);
      return;
    }
    if (Math.abs(event.clientX - held.x) > 3) held.moved = true;
    view.from = clamp(held.from - ((event.clientX - held.x) / wide) * view.length, view.length);
    if (held.moved) draw(wide);
  });
  canvas.addEventListener('wheel', (event) => {
    // Without a modifier, the wheel scrolls the page as usual.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, within(event)[0] / wide);
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const keys = {
      '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => zoom(1 / view.length),
      ArrowLeft: () => move(-STEP), ArrowRight: () => move(STEP), Enter: () => at?.track.task && options.onpick?.(at.track.task[at.place]),
      n: () => next(1), p: () => next(-1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // Selects the next or previous slice on the track.
  function next(step) {
    const track = at?.track ?? tracks.find((track) => track.start.length > 0);
    if (!track) return;
    const place = at ? at.place + step : 0;
    if (place >= 0 && place < track.start.length) say({ track, place });
    const middle = track.start[at.place] / span;
    if (middle < view.from || middle > view.from + view.length) view.from = clamp(middle - view.length / 2, view.length);
    draw(wide);
  }

  drawn(frame, draw);
  const button = (text, label, onclick) => el('button', { type: 'button', 'aria-label': label, onclick }, text);
  const buttons = el('div', { class: 'buttons' }, button('+', 'Zoom in', ()  => zoom(0.5)), button('−', 'Zoom out', () => zoom(2)),
    button('←', 'Earlier', () => move(-STEP)), button('→', 'Later', () => move(STEP)), button('All', 'Show all', () => zoom(1 / view.length)));
  return el('figure', { class: 'timeline' }, buttons, frame, readout);
}

const HINT = 'Point at a slice for details. Ctrl + wheel zooms, dragging moves. Keys: + and − zoom, ← and → move, n and p select the next and previous slice, 0 shows all.';

// Limits the start of the visible range to the timeline.
function clamp(from, length) {
  return Math.min(Math.max(0, from), 1 - length);
}

// A muted color for a name without a label. Consecutive names differ.
function shade(number) {
  return `hsl(${(210 + number * 47) % 360} 38% 76%)`;
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

// Formats a time in nanoseconds, with the digits that steps of this size need.
function timeText(ns, step) {
  const [unit, word] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']].find(([unit]) => (step ?? ns) >= unit || unit === 1);
  const value = ns / unit;
  return `${step ? Number(value.toFixed(3)) : Number(value.toPrecision(3))} ${word}`;
}

// The first index of a sorted list whose value is greater.
function upper(list, value) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
