// Requests to the server, and the state of the page, which is kept in the address.

// Session storage key of the token. Session storage is per origin including the port, so only this server
// sees it.
const KEPT = 'tensortap-token';
let token = takeToken();

const REFUSED = { error: 'The server refused this page.', hint: 'Open the address that `tensortap serve` printed; it contains the access token.' };

// The token from the address, which is then removed from it, or the stored one.
function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) history.replaceState(null, '', location.pathname);
  try {
    if (given) sessionStorage.setItem(KEPT, given);
    return given ?? sessionStorage.getItem(KEPT) ?? '';
  } catch {
    // No session storage: the token is known until the page is left.
    return given ?? '';
  }
}

// The printed address was opened again in this tab: take its token and reload.
addEventListener('hashchange', () => {
  if (!location.hash.startsWith('#token=')) return;
  token = takeToken();
  location.reload();
});

// Fetches a document. Failures are thrown as a Problem with the server's message.
export async function ask(path, params = {}, method = 'GET') {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value === null || value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, one);
  }
  let response;
  try {
    response = await fetch(`/api/${path}?${query}`, { method, credentials: 'omit', headers: { 'X-Tensortap-Token': token } });
  } catch {
    throw new Problem('The server does not respond.', 'It was stopped, or the connection was lost.');
  }
  if (response.ok) return response.json();
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    answer = response.status === 403 ? REFUSED : { error: `The server responded with status ${response.status}.` };
  }
  throw new Problem(answer.error, answer.hint);
}

export class Problem extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint ?? null;
  }
}

// Polls a job until it ends. `onProgress` receives its state; polling ends when `stop()` returns true.
export async function finished(path, params, onProgress, stop, method = 'GET') {
  let job = await ask(path, params, method);
  let pause = 80;
  while (job.state === 'running') {
    onProgress?.(job);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 1.4, 700);
    if (stop?.()) return null;
    job = await (method === 'GET' ? ask(path, params) : ask('job', { job: job.job }));
  }
  if (job.state === 'failed') throw new Problem(job.error.error, job.error.hint);
  return job.document;
}

// The current view and its parameters.
export function place() {
  const [view, query] = location.hash.replace(/^#\/?/, '').split('?');
  const params = {};
  for (const [key, value] of new URLSearchParams(query ?? '')) {
    if (key === 'open') (params.open ??= []).push(value);
    else params[key] = value;
  }
  return { view: view || 'tasks', params };
}

// The address of another view. The dump and its golden carry over.
export function address(view, params = {}) {
  const now = place().params;
  const query = new URLSearchParams();
  for (const key of ['dump', 'golden']) {
    const value = key in params ? params[key] : now[key];
    if (value !== undefined && value !== null && value !== '') query.set(key, value);
  }
  for (const [key, value] of Object.entries(params)) {
    if (key === 'dump' || key === 'golden' || value === null || value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(key, one);
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ''}`;
}

export function go(view, params) {
  location.hash = address(view, params);
}

// Changes the address without a history entry: for details such as a slice.
export function stay(view, params) {
  history.replaceState(null, '', address(view, params));
}

// Parameters that every request about the current dump has.
export function about(more = {}) {
  const { dump, golden } = place().params;
  return { dump: dump ?? 0, golden, ...more };
}
