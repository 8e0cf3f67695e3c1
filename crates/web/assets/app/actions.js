// What runs or writes something: with leave of whoever started the server.

import { command, el, replace } from '../parts/dom.js';
import { about, ask, finished } from './api.js';
import { progress, trouble } from './bits.js';

const FORMATS = ['npy', 'npz', 'safetensors', 'csv', 'txt', 'raw'];

// A job with its progress, a button that gives it up, and in the end what came of it. `done(document)` makes that.
export async function runJob(out, room, { words, path, params, method, done }) {
  const bar = progress(words);
  const cancel = el('button', { type: 'button' }, 'Cancel');
  replace(out, el('div', { class: 'controls' }, bar.element, cancel));
  const told = (job) => {
    bar.told(job);
    cancel.onclick = () => {
      cancel.disabled = true;
      ask('cancel', { job: job.job }, 'POST').catch(() => {});
    };
  };
  try {
    const made = await finished(path, params, told, () => room.left, method);
    if (made) replace(out, done(made));
  } catch (problem) {
    replace(out, trouble(problem));
  }
}

// A button that runs something where that is allowed, and otherwise says how to allow it.
function action(served, text, begin) {
  const out = el('div', { class: 'outcome-frame', 'aria-live': 'polite' });
  const refused = () => replace(out, el('div', { class: 'card' },
    el('p', {}, 'This server only shows: it was started without leave to run kernels or write files. Start it again with that:'), command(served.allowing)));
  const button = el('button', { type: 'button', title: served.actions ? null : 'Needs --allow-actions', onclick: () => (served.actions ? begin(out) : refused()) }, text);
  return { button, out };
}

// Runs a task again.
export function replayer(served, room, task) {
  const { button, out } = action(served, 'Replay this task', (out) => runJob(out, room, {
    words: 'Replaying', path: 'replay', params: about({ task }), method: 'POST',
    done: (report) => el('p', { class: `outcome outcome-${report.verdict === 'pass' ? 'within' : 'outside'}` },
      `Replay: ${report.verdict}; ${report.bitexact} of ${report.tasks} bit-exact, ${report.within_rule} within rule.`),
  }));
  return el('div', { class: 'action' }, button, out);
}

// Writes the records that a search leaves to files beside the dump.
export function exporter(served, room, q, text) {
  const format = el('select', { 'aria-label': 'Format' }, FORMATS.map((name) => el('option', {}, name)));
  const { button, out } = action(served, text, (out) => runJob(out, room, {
    words: 'Exporting', path: 'export', params: about({ q, format: format.value }), method: 'POST',
    done: (exported) => el('p', { class: 'exported' }, `${exported.files_text} of ${exported.selected_text}, ${exported.bytes_text}, in `, el('code', {}, exported.folder),
      exported.skipped > 0 ? `; ${exported.skipped.toLocaleString('en')} have no content to write` : ''),
  }));
  return el('div', { class: 'action' }, button, ' ', el('label', { class: 'small' }, 'as ', format), out);
}
