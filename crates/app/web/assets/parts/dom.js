// Creates elements of a page. Children are text or elements; text is never parsed as markup.

const SVG = 'http://www.w3.org/2000/svg';

// An element with attributes and children. A function is a listener (`onclick`), `true` sets an attribute
// without a value, and `null`, `undefined` and `false` leave it out. Styles are set by classes, because the
// page's policy forbids `style` attributes. Children are text, numbers, elements or lists of these.
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for SVG elements.
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

// Replaces the children of an element.
export function replace(element, ...children) {
  element.replaceChildren();
  return add(element, ...children);
}

// The current value of a color variable: `color('dump')`.
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
}

// Calls `draw` with the width of an element in pixels: once soon, whenever the width changes, and when the
// color scheme changes.
export function drawn(element, draw) {
  let width = 0;
  const observer = new ResizeObserver(([entry]) => {
    const now = Math.floor(entry.contentRect.width);
    if (now > 0 && now !== width) draw((width = now));
  });
  observer.observe(element);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => width > 0 && draw(width));
}

// A canvas context whose unit is a CSS pixel, whatever the device pixel ratio is.
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

// The label of a task: its word on its color.
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

// Copies text to the clipboard. If the page may not do that, selects the text for manual copying and returns
// false.
async function copied(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(shown);
    return false;
  }
}
