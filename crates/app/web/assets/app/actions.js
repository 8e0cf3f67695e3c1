// Actions that run kernels or write files. The server allows them only if it was started with
// --allow-actions.

import { command, el, replace } from '../parts/dom.js';
import { about, ask, finished } from './api.js';
import { progress, trouble } from './bits.js';

const FORMATS = ['npy', 'npz', 'safetensors', 'csv', 'txt', 'raw'];

// Shows a job with its progress and a cancel button, then its result. `done(document)` renders the result.
export async function runJob(out, lifecycle, { words, path, params, method, done }) {
  const bar = progress(words);
  const cancel = el('button', { type: 'button' }, 'Cancel');
  replace(out, el('div', { class: 'controls' }, bar.element, cancel));
  const onProgress = (job) => {
    bar.update(job);
    cancel.onclick = () => {
      cancel.disabled = true;
      ask('cancel', { job: job.job }, 'POST').catch(() => {});
    };
  };
  try {
    const made = await finished(path, params, onProgress, () => lifecycle.left, method);
    if (made) replace(out, done(made));
  } catch (problem) {
    replace(out, trouble(problem));
  }
}

// A button that starts an action or, if actions are not allowed, shows how to allow them.
function action(served, text, begin) {
  const out = el('div', { class: 'outcome-frame', 'aria-live': 'polite' });
  const explain = () => replace(out, el('div', { class: 'card' },
    el('p', {}, 'This server is read-only. To run kernels or write files, restart it with:'), command(served.allowing)));
  const button = el('button', { type: 'button', title: served.actions ? null : 'Needs --allow-actions', onclick: () => (served.actions ? begin(out) : explain()) }, text);
  return { button, out };
}

// Replays a task.
export function replayer(served, lifecycle, task) {
  const { button, out } = action(served, 'Replay this task', (out) => runJob(out, lifecycle, {
    words: 'Replaying', path: 'replay', params: about({ task }), method: 'POST',
    done: (report) => el('p', { class: `outcome outcome-${report.verdict === 'pass' ? 'pass' : 'fail'}` },
      `Replay: ${report.verdict}; ${report.bitexact} of ${report.tasks} bit-exact, ${report.within_rule} within rule.`),
  }));
  return el('div', { class: 'action' }, button, out);
}

// Exports the records that match a search to files next to the dump.
export function exporter(served, lifecycle, q, text) {
  const format = el('select', { 'aria-label': 'Format' }, FORMATS.map((name) => el('option', {}, name)));
  const { button, out } = action(served, text, (out) => runJob(out, lifecycle, {
    words: 'Exporting', path: 'export', params: about({ q, format: format.value }), method: 'POST',
    done: (exported) => el('p', { class: 'exported' }, `${exported.files_text} of ${exported.selected_text}, ${exported.bytes_text}, in `, el('code', {}, exported.folder),
      exported.skipped > 0 ? `; ${exported.skipped.toLocaleString('en')} have no content to write` : ''),
  }));
  return el('div', { class: 'action' }, button, ' ', el('label', { class: 'small' }, 'as ', format), out);
}
