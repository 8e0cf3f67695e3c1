// The task view: arguments before and after the task, its producers and its consumers.

import { chip, el, replace } from '../parts/dom.js';
import { heatmap } from '../parts/heatmap.js';
import { sparkline } from '../parts/histogram.js';
import { exporter, replayer } from './actions.js';
import { about, ask, place } from './api.js';
import { facts, link, shortId, taskLink } from './bits.js';

// Cells along each side of a thumbnail.
const SMALL = 48;

export async function taskView(lifecycle, served) {
  const { task } = place().params;
  const page = await ask('task', about({ task }));
  const head = el('header', { class: 'task-head' },
    el('h1', {}, page.words, ' ', page.label ? chip(page.label.label) : null),
    page.label?.reason ? el('p', {}, page.label.reason) : null,
    facts([
      ['Task', el('code', {}, page.task)], ['Kernel', el('code', {}, page.kernels.join(' + '))], ['Blocks', page.block_num > 1 ? page.block_num.toLocaleString('en') : null],
      ['Started', page.started_text && `${page.started_text} after the first task`], ['Took', page.took_text],
      ['Golden', page.golden_task && el('code', {}, page.golden_task)],
      ['Launch', page.launch_text], ['Program', page.module_text], ['Uncaptured', page.uncaptured.map((one) => one.words).join('; ')],
      ['Parent', page.parent && el('code', {}, page.parent)], ['Contains', page.children?.length && el('span', {}, page.children.slice(0, 12).map((id) => [taskLink(id), ' ']), page.children.length > 12 ? `and ${(page.children.length - 12).toLocaleString('en')} more` : '')],
      ['Collective', page.collective_text],
      ['Attributes', page.attributes_text?.map(([name, text]) => `${name} = ${text}`).join(', ')],
      ['In flight', page.in_flight && ['it had not completed when the run ended', page.run_end].filter(Boolean).join('; ')],
    ]),
    el('p', { class: 'links' }, link('Neighborhood in the graph', 'graph', { around: page.task }), ' ',
      link('Its records', 'records', { q: `task:${page.task}` })),
    el('div', { class: 'controls' }, replayer(served, lifecycle, page.task), exporter(served, lifecycle, `task:${page.task}`, 'Export its records')));
  const sides = el('div', { class: 'sides' },
    neighbors('Producers', page.producers, page.further[0]), neighbors('Consumers', page.consumers, page.further[1]));
  const also = page.also.length ? el('details', { class: 'also' }, el('summary', {}, `${page.also.length} more tasks with that name`),
    el('ul', {}, page.also.map((other) => el('li', {}, taskLink(other.task), ' ', other.words)))) : null;
  return [head, sides, page.arguments.map((argument) => argumentCard(argument, page)), also];
}

function neighbors(title, those, further) {
  const one = (other) => el('li', {}, taskLink(other.task), ' ', other.words, ' ', other.label ? chip(other.label) : null,
    other.carries ? null : el('span', { class: 'soft' }, ' (order only)'));
  return el('section', { class: 'card' }, el('h2', {}, title),
    those.length === 0 ? el('p', { class: 'soft' }, 'no task') : el('ul', { class: 'plain-list' }, those.map(one)),
    further > 0 ? el('p', { class: 'soft' }, `and ${further.toLocaleString('en')} more`) : null);
}

function argumentCard(argument, page) {
  const name = argument.arg_name ? `${argument.arg_index} ${argument.arg_name}` : String(argument.arg_index);
  const type = `${argument.observed ?? argument.role}, ${argument.dtype}`;
  const kind = argument.value_text !== null ? `${type} scalar` : [`${type} ${argument.shape.join('x') || '[]'}`, argument.size_text].filter(Boolean).join(', ');
  const head = el('h2', {}, `Argument ${name}`, ' ', el('span', { class: 'soft small' }, kind));
  if (argument.value_text !== null) return el('section', { class: 'card' }, head, el('p', { class: 'mono' }, argument.value_text));
  const named = (id) => taskLink([...page.producers, ...page.consumers].find((other) => other.task_id === id)?.task ?? shortId(id));
  const snapshots = [['before', argument.before], ['after', argument.after]].filter(([, snapshot]) => snapshot);
  const panels = snapshots.flatMap(([stage, snapshot]) => snapshotPanels(stage, snapshot, argument.arg_index, page.golden_records.includes(snapshot.index)));
  const passed = [
    argument.from.length ? el('p', { class: 'small' }, 'from ', argument.from.map((id) => [named(id), ' '])) : null,
    argument.to.length ? el('p', { class: 'small' }, 'to ', argument.to.map((id) => [named(id), ' '])) : null,
  ];
  return el('section', { class: 'card' }, head, argument.unchanged ? el('p', { class: 'soft small' }, 'unchanged') : null,
    panels.length ? el('div', { class: 'panels' }, panels) : el('p', { class: 'soft' }, 'This argument was not captured.'), passed);
}

// An argument at one stage, with its golden and the difference next to it.
function snapshotPanels(stage, snapshot, index, hasGolden) {
  const outcome = snapshot.compared
    ? el('p', { class: `small outcome outcome-${snapshot.compared.verdict}` }, verdictWords(snapshot.compared))
    : null;
  const spark = snapshot.histogram ? sparkline(snapshot.histogram.counts, `Distribution of the values of ${snapshot.name}`) : null;
  const own = el('div', { class: 'panel' }, el('h3', {}, link(stage, 'tensor', { record: snapshot.index }, { 'aria-label': `${stage}: show its values` }), ' ', spark),
    snapshot.payload === 'stored' || snapshot.payload === 'truncated' ? lazy({ record: snapshot.index, of: 'tensor' }, `${stage} of argument ${index}`) : el('p', { class: 'soft' }, `content ${snapshot.payload}`),
    facts(snapshot.stats_text), outcome, snapshot.damaged ? el('p', { class: 'bad' }, 'damaged: differs from what was captured') : null);
  if (!hasGolden) return [own];
  const next = (of, words) => el('div', { class: 'panel' }, el('h3', {}, link(words, 'tensor', { record: snapshot.index, of })),
    lazy({ record: snapshot.index, of }, `${words} of argument ${index}`));
  return [own, next('golden', `golden ${stage}`), next('difference', `difference ${stage}`)];
}

export function verdictWords({ verdict, words }) {
  if (verdict === 'pass') return 'within its rule';
  if (verdict === 'ignored') return 'differs, but does not count for the verdict';
  return verdict === 'fail' ? `outside its rule: ${words}` : `unknown: ${words}`;
}

// A thumbnail that is requested when it becomes visible.
function lazy(params, label) {
  const frame = el('div', { class: 'thumb' }, el('p', { class: 'soft small' }, '…'));
  const seen = new IntersectionObserver(async ([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    try {
      const tile = await ask('tile', about({ ...params, rows: SMALL, columns: SMALL }));
      const picture = tilePicture(tile, label);
      // Thumbnails show no usage hint.
      picture.querySelector?.('.readout')?.replaceChildren();
      replace(frame, picture);
    } catch (problem) {
      replace(frame, el('p', { class: 'soft small' }, problem.message));
    }
  }, { rootMargin: '200px' });
  seen.observe(frame);
  return frame;
}

// A tile as a heat map, or a text if there is nothing to draw.
export function tilePicture(tile, label) {
  if (tile.elements === 0) return el('p', { class: 'soft small' }, 'no elements');
  if (tile.difference && tile.min === 0 && tile.max === 0 && tile.nan + tile.inf === 0) {
    return el('p', { class: 'soft small equal' }, tile.looked_at === tile.elements ? 'no difference' : 'no difference in the checked elements');
  }
  return heatmap(tile, { label });
}
