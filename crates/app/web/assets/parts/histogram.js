// Bar charts: the distribution of values, and where along an axis they differ.

import { el, svgEl } from './dom.js';
import { short } from './heatmap.js';

const WIDTH = 320;
const HEIGHT = 96;

// The distribution of one tensor or of two: bars for the first, a stepped line for the second. `spread`: the
// counts from the `query` crate. `options`: `names` of the series, `label`, `ends` as text.
export function histogram(spread, options = {}) {
  const names = options.names ?? ['dump', 'golden'];
  const most = Math.max(1, ...spread.series.flatMap((series) => series.counts));
  const picture = svgEl('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'bars', role: 'img', 'aria-label': spreadWords(spread, names) });
  const height = (count) => (count === 0 ? 0 : Math.max(2, (count / most) * (HEIGHT - 4)));
  spread.series.forEach((series, place) => {
    const width = WIDTH / series.counts.length;
    if (place === 0) {
      series.counts.forEach((count, bin) => {
        if (count === 0) return;
        const title = svgEl('title', {}, `${count.toLocaleString('en')} in range ${bin + 1} of ${series.counts.length}`);
        const bar = { x: bin * width, y: HEIGHT - height(count), width: Math.max(width - 1, 0.5), height: height(count), class: 'bar' };
        picture.append(svgEl('rect', bar, title));
      });
      return;
    }
    const steps = series.counts.map((count, bin) => `V${(HEIGHT - height(count)).toFixed(1)}H${((bin + 1) * width).toFixed(1)}`);
    picture.append(svgEl('path', { d: `M0 ${HEIGHT}${steps.join('')}V${HEIGHT}`, class: 'steps' }));
  });
  const keys = spread.series.map((series, place) => el('span', { class: place === 0 ? 'key key-bar' : 'key key-steps' }, names[place], odd(series)));
  const [low, high] = options.ends ?? [spread.min, spread.max].map((end) => (end === null ? 'no number' : short(end)));
  return el('figure', { class: 'histogram' },
    el('figcaption', {}, options.label ?? 'Values'), picture,
    el('div', { class: 'ends' }, el('span', {}, low), el('span', {}, high)), el('div', { class: 'legend' }, keys));
}

// Counts of a series that are in no range.
function odd(series) {
  const parts = [[series.nan, 'NaN'], [series.inf, 'infinite'], [series.missing, 'not stored']].filter(([count]) => count > 0);
  return parts.map(([count, word]) => `, ${count.toLocaleString('en')} ${word}`).join('');
}

function spreadWords(spread, names) {
  const one = (series, place) => `${names[place]}: ${series.looked_at.toLocaleString('en')} values${odd(series)}`;
  return spread.series.map(one).join('; ');
}

// Where along an axis a difference is: a bar for each range of positions, as high as its largest error.
// Ranges with NaN or infinities reach the top and are hatched.
export function profile(axis, options = {}) {
  const most = Math.max(...axis.bins.map((bin) => bin.greatest), Number.MIN_VALUE);
  const width = WIDTH / Math.max(1, axis.bins.length);
  const picture = svgEl('svg', { viewBox: `0 0 ${WIDTH} 40`, class: 'bars profile', role: 'img', 'aria-label': options.words ?? options.label });
  axis.bins.forEach((bin, place) => {
    if (bin.not_zero === 0) return;
    const height = bin.not_finite > 0 ? 38 : Math.max(2, (bin.greatest / most) * 38);
    const first = axis.first + axis.step * place * axis.per_bin;
    const last = axis.first + axis.step * (Math.min(axis.count, (place + 1) * axis.per_bin) - 1);
    const where = first === last ? first : `${first} to ${last}`;
    const title = `at ${where}: ${bin.not_zero.toLocaleString('en')} of ${bin.elements.toLocaleString('en')} differ`;
    const box = { x: place * width, y: 40 - height, width: Math.max(width - 0.8, 0.8), height, class: bin.not_finite > 0 ? 'bar bar-nan' : 'bar bar-error' };
    picture.append(svgEl('rect', box, svgEl('title', {}, title)));
  });
  return el('figure', { class: 'histogram' }, el('figcaption', {}, options.label ?? `Axis ${axis.axis}`), picture,
    el('div', { class: 'ends' }, el('span', {}, String(axis.first)), el('span', {}, String(axis.first + axis.step * (axis.count - 1)))));
}

// A few counts as a small chart within a line of text.
export function sparkline(counts, label) {
  const most = Math.max(1, ...counts);
  const bars = counts.map((count, place) => {
    const height = count === 0 ? 0 : Math.max(1, (count / most) * 14);
    return svgEl('rect', { x: place * 4, y: 14 - height, width: 3, height, class: 'bar' });
  });
  return svgEl('svg', { viewBox: `0 0 ${counts.length * 4} 14`, width: counts.length * 4, height: 14, class: 'spark', role: 'img', 'aria-label': label }, bars);
}
