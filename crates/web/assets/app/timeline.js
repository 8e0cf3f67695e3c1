// The room of time: schedulers, cores, queues or threads, and what ran on them.

import { el, replace } from '../parts/dom.js';
import { timeline } from '../parts/timeline.js';
import { about, ask, go, place } from './api.js';
import { trouble, waiting } from './bits.js';

export async function timelineRoom(room) {
  const { from, to } = place().params;
  const bar = el('div', { class: 'controls' });
  const frame = el('div', { class: 'card' }, waiting('Putting the time together …'));
  let seen = null;

  async function draw() {
    try {
      const lines = await ask('timeline', about({ from, to, width: Math.min(3000, Math.round(innerWidth * 1.5)) }));
      if (room.left) return;
      showBar(lines);
      if (lines.slices === 0) return void replace(frame, el('p', {}, 'The dump says of no task when it ran.'));
      replace(frame, timeline(lines, { label: 'What ran when', onpick: (task) => go('task', { task }), onview: (view) => (seen = view) }));
    } catch (problem) {
      replace(frame, trouble(problem));
    }
  }

  function showBar(lines) {
    const closer = lines.merged > 0 ? el('button', { type: 'button', onclick: () => look(lines) }, 'Draw what is seen anew') : null;
    const whole = from !== undefined ? el('button', { type: 'button', onclick: () => go('timeline', {}) }, 'The whole time') : null;
    const words = [`${lines.slices.toLocaleString('en')} slices`];
    if (lines.merged > 0) words.push(`${lines.merged.toLocaleString('en')} of them drawn with a neighbour: come closer and draw anew`);
    if (lines.left_out > 0) words.push(`${lines.left_out.toLocaleString('en')} tracks are not shown`);
    if (!lines.is_timed) words.push('the dump has no times: tasks stand in their order');
    replace(bar, closer, whole, el('span', { class: 'soft small', role: 'status' }, words.join(' · ')));
  }

  function look(lines) {
    const view = seen ?? { from: 0, to: 1 };
    go('timeline', { from: lines.from_ns + Math.floor(view.from * lines.span_ns), to: lines.from_ns + Math.ceil(view.to * lines.span_ns) });
  }

  room.onchange = draw;
  draw();
  return [bar, frame];
}
