// Elements of a page. Whatever is put into one as a child is text or another element: nothing is ever read as markup.

const SVG = 'http://www.w3.org/2000/svg';

// An element with attributes and children. `class`, `title`, `href`, `aria-label` and the like are attributes, a function is a listener
// (`onclick`; styles are set by classes, as the page's policy lets no `style` attribute pass), `true` sets an attribute without a value, and `null`, `undefined` and `false` leave it away. Children are text, numbers,
// elements or lists of these.
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for elements of a drawing.
export function svgEl(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.replace(/^on/, ''), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  add(element, children);
  return element;
}

// Appends children to an element.
export function add(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// Puts these children in the place of those that an element has.
export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, ...children);
}

// A colour of the palette or the page as it is now: `colour('dump')`.
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

// Calls `draw` with the width of an element in pixels: soon, whenever it changes, and when the page turns light or dark.
export function drawn(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now > 0 && now !== width) draw((width = now));
  });
  observer.observe(element);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => width > 0 && draw(width));
}

// A canvas context in which a unit is a pixel of the page, whatever the screen has.
export function context(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const drawing = canvas.getContext('2d');
  drawing.setTransform(scale, 0, 0, scale, 0, 0);
  drawing.clearRect(0, 0, width, height);
  return drawing;
}

// A label of a task: its word, on its colour.
export function chip(label) {
  return el('span', { class: `chip chip-${/^\w+$/.test(label) ? label : 'plain'}` }, label.replaceAll('_', ' '));
}

// A command with a button that copies it.
export function command(text) {
  const button = el('button', { type: 'button', class: 'copy', 'aria-label': `Copy: ${text}` }, 'Copy');
  const code = el('code', {}, text);
  button.addEventListener('click', async () => {
    button.textContent = (await copied(text, code)) ? 'Copied' : 'Selected';
    setTimeout(() => (button.textContent = 'Copy'), 1500);
  });
  return el('div', { class: 'command' }, code, button);
}

// Whether text went to the clipboard. Where a page may not do that, the text is selected, to be copied by hand.
async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    return false;
  }
}
