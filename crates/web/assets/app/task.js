// The room of one task: what it was given and left, by whom and to whom.

import { chip, el, replace } from '../parts/dom.js';
import { heatmap } from '../parts/heatmap.js';
import { sparkline } from '../parts/histogram.js';
import { exporter, replayer } from './actions.js';
import { about, ask, place } from './api.js';
import { facts, link, taskLink } from './bits.js';

// Cells of a small picture.
const SMALL = 48;

export async function taskRoom(room, served) {
  const { task } = place().params;
  const page = await ask('task', about({ task }));
  const head = el('header', { class: 'task-head' },
    el('h1', {}, page.title, ' ', page.label ? chip(page.label.label) : null),
    page.label?.reason ? el('p', {}, page.label.reason) : null,
    facts([
      ['Task', el('code', {}, page.task)], ['Kernel', el('code', {}, page.kernels)], ['Blocks', page.blocks],
      ['Started', page.started && `${page.started} after the first task`], ['Took', page.took],
      ['Golden', page.golden_task && el('code', {}, page.golden_task)],
      ['Launch', page.launch], ['Program', page.program], ['Uncaptured', page.uncaptured.length ? page.uncaptured.join('; ') : null],
      ['In flight', page.in_flight && 'it had not completed when the run ended'],
    ]),
    el('p', { class: 'links' }, link('Around it in the graph', 'graph', { around: page.task }), ' ',
      link('Its records', 'records', { q: `task:${page.task}` })),
    el('div', { class: 'controls' }, replayer(served, room, page.task), exporter(served, room, `task:${page.task}`, 'Export its records')));
  const sides = el('div', { class: 'sides' },
    neighbours('Given by', page.producers, page.further[0]), neighbours('Taken by', page.consumers, page.further[1]));
  const also = page.also.length ? el('details', { class: 'also' }, el('summary', {}, `${page.also.length} further tasks of that name`),
    el('ul', {}, page.also.map((other) => el('li', {}, taskLink(other.task), ' ', other.words)))) : null;
  return [head, sides, page.arguments.map((argument) => argumentCard(argument)), also];
}

function neighbours(title, those, further) {
  const one = (other) => el('li', {}, taskLink(other.task), ' ', other.words, ' ', other.label ? chip(other.label) : null,
    other.carries ? null : el('span', { class: 'soft' }, ' (order alone)'));
  return el('section', { class: 'card' }, el('h2', {}, title),
    those.length === 0 ? el('p', { class: 'soft' }, 'no task') : el('ul', { class: 'plain-list' }, those.map(one)),
    further > 0 ? el('p', { class: 'soft' }, `and ${further.toLocaleString('en')} more`) : null);
}

function argumentCard(argument) {
  const name = argument.name ? `${argument.argument} ${argument.name}` : String(argument.argument);
  const kind = argument.value !== null ? `${argument.role}, ${argument.dtype} scalar` : `${argument.role}, ${argument.dtype} ${argument.shape_text}, ${argument.size ?? ''}`;
  const head = el('h2', {}, `Argument ${name}`, ' ', el('span', { class: 'soft small' }, kind));
  if (argument.value !== null) return el('section', { class: 'card' }, head, el('p', { class: 'mono' }, argument.value));
  const moments = [['before', argument.before], ['after', argument.after]].filter(([, moment]) => moment);
  const panels = moments.flatMap(([stage, moment]) => momentPanels(stage, moment, argument));
  const passed = [
    argument.from.length ? el('p', { class: 'small' }, 'from ', argument.from.map((task) => [taskLink(task), ' '])) : null,
    argument.to.length ? el('p', { class: 'small' }, 'to ', argument.to.map((task) => [taskLink(task), ' '])) : null,
  ];
  return el('section', { class: 'card' }, head, argument.unchanged ? el('p', { class: 'soft small' }, 'left as it came') : null,
    panels.length ? el('div', { class: 'panels' }, panels) : el('p', { class: 'soft' }, 'Nothing of it was captured.'), passed);
}

// An argument at one stage, and beside it its golden and the difference.
function momentPanels(stage, moment, argument) {
  const outcome = moment.outcome
    ? el('p', { class: `small outcome outcome-${moment.outcome.verdict}` }, verdictWords(moment.outcome))
    : null;
  const statistics = facts(moment.facts);
  const spark = moment.counts ? sparkline(moment.counts, `How the values of ${moment.name} are spread`) : null;
  const own = el('div', { class: 'panel' }, el('h3', {}, link(stage, 'tensor', { record: moment.record }, { 'aria-label': `${stage}: look at its values` }), ' ', spark),
    moment.payload === 'stored' || moment.payload === 'truncated' ? lazy({ record: moment.record, of: 'tensor' }, `${stage} of argument ${argument.argument}`) : el('p', { class: 'soft' }, `content ${moment.payload}`),
    statistics, outcome, moment.damaged ? el('p', { class: 'bad' }, 'damaged: not what was captured') : null);
  if (!moment.golden) return [own];
  const beside = (of, words) => el('div', { class: 'panel' }, el('h3', {}, link(words, 'tensor', { record: moment.record, of })),
    lazy({ record: moment.record, of }, `${words} of argument ${argument.argument}`));
  return [own, beside('golden', `golden ${stage}`), beside('difference', `difference ${stage}`)];
}

export function verdictWords({ verdict, words }) {
  if (verdict === 'within') return 'within its rule';
  return verdict === 'outside' ? `outside its rule: ${words}` : `not known: ${words}`;
}

// A small picture that is asked for when it comes into sight.
function lazy(params, label) {
  const frame = el('div', { class: 'thumb' }, el('p', { class: 'soft small' }, '…'));
  const seen = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    try {
      const tile = await ask('tile', about({ ...params, rows: SMALL, columns: SMALL }));
      const picture = tilePicture(tile, label);
      // What to do with a picture is said where there is one.
      picture.querySelector?.('.readout')?.replaceChildren();
      replace(frame, picture);
    } catch (problem) {
      replace(frame, el('p', { class: 'soft small' }, problem.message));
    }
  }, { rootMargin: '200px' });
  seen.observe(frame);
  return frame;
}

// A tile as a heat map, or in words where there is nothing to draw.
export function tilePicture(tile, label) {
  if (tile.elements === 0) return el('p', { class: 'soft small' }, 'no elements');
  if (tile.difference && tile.min === 0 && tile.max === 0 && tile.nan + tile.inf === 0) {
    return el('p', { class: 'soft small equal' }, tile.looked_at === tile.elements ? 'no difference' : 'no difference in what was looked at');
  }
  return heatmap(tile, { label });
}
