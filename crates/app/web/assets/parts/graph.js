// The graph of tasks: boxes with known positions, and the lines between them.

import { el, svgEl } from './dom.js';

let pictures = 0;

// `layout`: the drawing laid out by the `query` crate: `{ title, width, height, boxes: [{ x, y, width,
// height, lines, label }], lines: [{ from, to, carries, through }] }`; `x` and `y` are the center of a box.
// `options`: `label`; `onpick(place)` is called for a click on a box or Enter, and makes boxes focusable.
export function graph(layout, options = {}) {
  const arrow = `arrow-${++pictures}`;
  const picture = svgEl('svg', {
    viewBox: `0 0 ${layout.width} ${layout.height}`, width: layout.width, height: layout.height, class: 'graph',
    role: options.onpick ? 'group' : 'img', 'aria-label': options.label ?? layout.title,
  });
  const head = svgEl('path', { d: 'M0 0 8 4 0 8z', class: 'arrow' });
  const marker = { id: arrow, viewBox: '0 0 8 8', refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: 'auto' };
  picture.append(svgEl('defs', {}, svgEl('marker', marker, head)));
  for (const line of layout.lines) picture.append(joined(layout.boxes[line.from], layout.boxes[line.to], line, arrow));
  layout.boxes.forEach((box, place) => picture.append(boxed(box, place, options.onpick)));
  return el('div', { class: 'graph-frame', tabindex: '0', role: 'region', 'aria-label': options.label ?? layout.title }, picture);
}

function joined(from, to, line, arrow) {
  // A line that goes up leaves the box at the top, so that its arrowhead is visible.
  const side = to.y < from.y ? -1 : 1;
  const [start, end] = [from.y + side * from.height / 2, to.y - side * to.height / 2];
  const middle = (start + end) / 2;
  return svgEl('path', {
    d: `M${from.x} ${start}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${end}`,
    class: line.through ? 'line through' : line.carries ? 'line' : 'line waits', 'marker-end': `url(#${arrow})`,
  });
}

function boxed(box, place, onpick) {
  const group = svgEl('g', { class: `box box-${box.label ?? 'plain'}`, tabindex: onpick ? '0' : null, role: onpick ? 'button' : null });
  group.append(svgEl('title', {}, box.title));
  group.append(svgEl('rect', { x: box.x - box.width / 2, y: box.y - box.height / 2, width: box.width, height: box.height, rx: 6 }));
  box.lines.forEach((line, number) => {
    const y = box.y - box.height / 2 + 10 + 16 * (number + 0.75);
    group.append(svgEl('text', { x: box.x, y, class: number === 0 ? 'first' : null }, line));
  });
  if (onpick) {
    group.addEventListener('click', () => onpick(place));
    group.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      onpick(place);
    });
  }
  return group;
}
