// The graph view: scopes that fold and unfold, or the neighborhood of one task.

import { el, replace } from '../parts/dom.js';
import { graph } from '../parts/graph.js';
import { about, ask, go, place } from './api.js';
import { link, trouble, waiting } from './bits.js';

// A graph with more tasks than this starts with only its outermost scopes.
const MANY = 60;

export async function graphView(lifecycle) {
  const { around, hops, fold, way, open = [] } = place().params;
  const frame = el('div', {}, waiting('Drawing …'));
  const bar = el('div', { class: 'controls' });

  async function draw() {
    let asked = about({ around, hops, way, open, fold: fold ?? (around || way ? null : 1) });
    try {
      let drawing = await ask('graph', asked);
      if (fold === undefined && !around && !way && drawing.all_tasks <= MANY) drawing = await ask('graph', { ...asked, fold: 0 });
      if (lifecycle.left) return;
      showBar(drawing);
      if (drawing.too_many) return void replace(frame, el('p', { class: 'card' }, drawing.too_many));
      if (drawing.boxes.length === 0) return void replace(frame, el('p', { class: 'card' }, 'No task went wrong, so there is no error to follow.'));
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
      type: 'button', title: 'Fold this scope', onclick: () => go('graph', { fold, open: open.filter((_, other) => other !== at), around, hops, way }),
    }, `− ${scope}`));
    const near = around ? [el('span', {}, 'Around ', link(around, 'task', { task: around }, { class: 'mono' })),
      ...[1, 2, 3].map((count) => el('button', { type: 'button', 'aria-pressed': String(Number(hops ?? 2) === count), onclick: () => go('graph', { around, hops: count }) }, `${count} ${count === 1 ? 'step' : 'steps'} away`)),
      link('The whole graph', 'graph')] : [
      el('button', { type: 'button', onclick: () => go('graph', {}) }, 'Fold all'),
      el('button', { type: 'button', onclick: () => go('graph', { fold: Number(fold ?? 1) + 1 }) }, 'Unfold one level'),
      place().params.golden ? el('button', { type: 'button', 'aria-pressed': String(Boolean(way)), onclick: () => go('graph', way ? {} : { way: 1 }) }, 'How the error spread') : null];
    const count = `${drawing.count.toLocaleString('en')} boxes of ${drawing.all_tasks.toLocaleString('en')} tasks`;
    replace(bar, near, opened, el('span', { class: 'soft small', role: 'status' }, count));
  }

  lifecycle.onchange = draw;
  draw();
  return [bar, frame, el('p', { class: 'soft small' }, 'A solid line connects a task to the tasks that use its output. A dashed line is only a dependency. A dotted line passes through tasks that are not drawn. Click a scope to unfold it.')];
}
