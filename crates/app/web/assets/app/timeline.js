// The timeline view: schedulers, cores, queues or threads, and what ran on them.

import { el, replace } from '../parts/dom.js';
import { timeline } from '../parts/timeline.js';
import { about, ask, go, place } from './api.js';
import { trouble, waiting } from './bits.js';

export async function timelineView(lifecycle) {
  const { from, to } = place().params;
  const bar = el('div', { class: 'controls' });
  const frame = el('div', { class: 'card' }, waiting('Loading the timeline …'));
  let seen = null;

  async function draw() {
    try {
      const lines = await ask('timeline', about({ from, to, width: Math.min(3000, Math.round(innerWidth * 1.5)) }));
      if (lifecycle.left) return;
      showBar(lines);
      if (lines.slices === 0) return void replace(frame, el('p', {}, 'The dump has no times of tasks.'));
      replace(frame, timeline(lines, { label: 'Timeline', onpick: (task) => go('task', { task }), onview: (view) => (seen = view) }));
    } catch (problem) {
      replace(frame, trouble(problem));
    }
  }

  function showBar(lines) {
    const closer = lines.merged > 0 ? el('button', { type: 'button', onclick: () => look(lines) }, 'Redraw this range in detail') : null;
    const whole = from !== undefined ? el('button', { type: 'button', onclick: () => go('timeline', {}) }, 'Show all') : null;
    const words = [`${lines.slices.toLocaleString('en')} slices`];
    if (lines.merged > 0) words.push(`${lines.merged.toLocaleString('en')} of them merged with a neighbor: zoom in and redraw`);
    if (lines.left_out > 0) words.push(`${lines.left_out.toLocaleString('en')} tracks are not shown`);
    if (!lines.is_timed) words.push('the dump has no times: tasks are shown in order');
    replace(bar, closer, whole, el('span', { class: 'soft small', role: 'status' }, words.join(' · ')));
  }

  function look(lines) {
    const view = seen ?? { from: 0, to: 1 };
    go('timeline', { from: lines.from_ns + Math.floor(view.from * lines.span_ns), to: lines.from_ns + Math.ceil(view.to * lines.span_ns) });
  }

  lifecycle.onchange = draw;
  draw();
  return [bar, frame];
}
