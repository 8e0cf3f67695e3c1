// The room of the graph: scopes that fold and unfold, or what is near one task.

import { el, replace } from '../parts/dom.js';
import { graph } from '../parts/graph.js';
import { about, ask, go, place } from './api.js';
import { link, trouble, waiting } from './bits.js';

// A graph of more tasks than this begins with its outermost scopes alone.
const MANY = 60;

export async function graphRoom(room) {
  const { around, hops, fold, way, open = [] } = place().params;
  const frame = el('div', {}, waiting('Drawing …'));
  const bar = el('div', { class: 'controls' });

  async function draw() {
    let asked = about({ around, hops, way, open, fold: fold ?? (around || way ? null : 1) });
    try {
      let drawing = await ask('graph', asked);
      if (fold === undefined && !around && !way && drawing.all_tasks <= MANY) drawing = await ask('graph', { ...asked, fold: 0 });
      if (room.left) return;
      showBar(drawing);
      if (drawing.too_many) return void replace(frame, el('p', { class: 'card' }, drawing.too_many));
      if (drawing.boxes.length === 0) return void replace(frame, el('p', { class: 'card' }, 'No task went wrong, so no error went any way.'));
      replace(frame, graph(drawing, { label: 'Graph of tasks', onpick: (at) => picked(drawing, at) }));
    } catch (problem) {
      replace(frame, trouble(problem));
    }
  }

  function picked(drawing, at) {
    const { scope } = drawing.boxes[at];
    if (scope !== null) return go('graph', { fold, open: [...open, scope], around, hops, way });
    go('task', { task: drawing.tasks[at] });
  }

  function showBar(drawing) {
    const opened = open.map((scope, at) => el('button', {
      type: 'button', title: 'Fold it again', onclick: () => go('graph', { fold, open: open.filter((_, other) => other !== at), around, hops, way }),
    }, `− ${scope}`));
    const near = around ? [el('span', {}, 'Around ', link(around, 'task', { task: around }, { class: 'mono' })),
      ...[1, 2, 3].map((count) => el('button', { type: 'button', 'aria-pressed': String(Number(hops ?? 2) === count), onclick: () => go('graph', { around, hops: count }) }, `${count} away`)),
      link('The whole graph', 'graph')] : [
      el('button', { type: 'button', onclick: () => go('graph', {}) }, 'Fold all'),
      el('button', { type: 'button', onclick: () => go('graph', { fold: Number(fold ?? 1) + 1 }) }, 'Unfold one level'),
      place().params.golden ? el('button', { type: 'button', 'aria-pressed': String(Boolean(way)), onclick: () => go('graph', way ? {} : { way: 1 }) }, 'The way of the error') : null];
    const count = `${drawing.count.toLocaleString('en')} boxes of ${drawing.all_tasks.toLocaleString('en')} tasks`;
    replace(bar, near, opened, el('span', { class: 'soft small', role: 'status' }, count));
  }

  room.onchange = draw;
  draw();
  return [bar, frame, el('p', { class: 'soft small' }, 'A line goes from the task that wrote content to each that was given it, dashed where one only waits for the other; on the way of an error dotted where it passes through tasks that are not drawn. A scope unfolds when it is clicked.')];
}
