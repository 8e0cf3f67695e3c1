// Small elements shared by several views.

import { el } from '../parts/dom.js';
import { address } from './api.js';

export function link(text, view, params, attributes = {}) {
  return el('a', { href: address(view, params), ...attributes }, text);
}

export function taskLink(task, text) {
  return link(text ?? task, 'task', { task }, { class: 'mono' });
}

// An id without leading zeros. Commands accept this form, too.
export function shortId(id) {
  return id.replace(/^0x0*(?=.)/, '0x');
}

// A card that shows an error.
export function trouble(problem) {
  const hint = problem.hint ? el('p', { class: 'soft' }, problem.hint) : null;
  return el('div', { class: 'card trouble', role: 'alert' }, el('p', {}, problem.message), hint);
}

export function waiting(text) {
  return el('p', { class: 'soft waiting', role: 'status' }, text);
}

// A progress bar for a job.
export function progress(what) {
  const bar = el('progress', { max: 1, 'aria-label': what });
  const words = el('span', { class: 'soft small' }, what);
  const element = el('div', { class: 'progress', role: 'status' }, bar, words);
  function update({ done, of }) {
    if (!of) return;
    bar.value = Math.min(1, done / of);
    words.textContent = `${what}: ${Math.floor((100 * done) / of)} %`;
  }
  return { element, update };
}

// A list of names and values.
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false);
  return el('dl', { class: 'facts' }, shown.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

// A group of buttons, one of which is selected.
export function choice(label, options, chosen, onchoose) {
  const button = ([value, text]) => el('button', {
    type: 'button', 'aria-pressed': String(value === chosen), class: value === chosen ? 'chosen' : null, onclick: () => onchoose(value),
  }, text);
  return el('div', { class: 'choice', role: 'group', 'aria-label': label }, options.map(button));
}
