// Questions to the server, and the place of the page, which stands in its address.

// Where the token is kept while this tab is open: for this server alone, as it is kept by origin, port included.
const KEPT = 'tensortap-token';
let token = takeToken();

const STRANGER = { error: 'The server does not know this page.', hint: 'Open the address that `tensortap serve` printed: it has the token without which nothing is shown.' };

// The token that the address brought, which then leaves the address, or the one that was kept.
function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) history.replaceState(null, '', location.pathname);
  try {
    if (given) sessionStorage.setItem(KEPT, given);
    return given ?? sessionStorage.getItem(KEPT) ?? '';
  } catch {
    // Nothing can be kept: it is known until the page is left.
    return given ?? '';
  }
}

// The address that was printed, opened where the page is already: it begins anew.
addEventListener('hashchange', () => {
  if (!location.hash.startsWith('#token=')) return;
  token = takeToken();
  location.reload();
});

// A document of the server; a problem is thrown with the server's words.
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
    throw new Problem('The server does not answer.', 'It was stopped, or the connection to it is gone.');
  }
  if (response.ok) return response.json();
  let told = null;
  try {
    told = await response.json();
  } catch {
    told = response.status === 403 ? STRANGER : { error: `The server answers ${response.status}.` };
  }
  throw new Problem(told.error, told.hint);
}

export class Problem extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint ?? null;
  }
}

// Asks for a job until it has ended; `told` hears how far it has come, `stop()` says that nobody waits any more.
export async function finished(path, params, told, stop, method = 'GET') {
  let job = await ask(path, params, method);
  let pause = 80;
  while (job.state === 'running') {
    told?.(job);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 1.4, 700);
    if (stop?.()) return null;
    job = await (method === 'GET' ? ask(path, params) : ask('job', { job: job.job }));
  }
  if (job.state === 'failed') throw new Problem(job.error.error, job.error.hint);
  return job.document;
}

// Where the page is: the room, and what of it.
export function place() {
  const [room, query] = location.hash.replace(/^#\/?/, '').split('?');
  const params = {};
  for (const [key, value] of new URLSearchParams(query ?? '')) {
    if (key === 'open') (params.open ??= []).push(value);
    else params[key] = value;
  }
  return { room: room || 'tasks', params };
}

// The address of another place. What is about all rooms stays: which dump, and what it is held against.
export function address(room, params = {}) {
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
  return `#/${room}${text ? `?${text}` : ''}`;
}

export function go(room, params) {
  location.hash = address(room, params);
}

// Changes the place without a step back to where it was: a detail of it, such as a slice.
export function stay(room, params) {
  history.replaceState(null, '', address(room, params));
}

// What every question about the dump of this place says.
export function about(more = {}) {
  const { dump, golden } = place().params;
  return { dump: dump ?? 0, golden, ...more };
}
