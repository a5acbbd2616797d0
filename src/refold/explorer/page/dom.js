// Small tools of the page. What a session says is put into the page as text, never as HTML.

const base = new URL("api/", document.baseURI);
const token = base.pathname.split("/")[1];

export const count = (number) => (number ?? 0).toLocaleString("en");
export const tokens = (number) => (number === 1 ? "1 token" : `${count(number)} tokens`);
/** What a fold did to the view; folds of other programs do not always say. */
export const sizes = (fold) => `${fold.before ? count(fold.before) : "?"} → ${fold.after ? count(fold.after) : "?"} tokens`;
export const many = (number, one, several = `${one}s`) => `${count(number)} ${number === 1 ? one : several}`;
export const dollars = (number) => (number == null ? "–" : `$${number.toFixed(number && Math.abs(number) < 1 ? 4 : 2)}`);
export const when = (seconds) => (seconds > 0 ? new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ") : "");
export const FORMS = { w: "whole", c: "clipped", l: "line", g: "gone" };
export const SAY = { whole: "whole", clipped: "clipped", lines: "as one line", line: "as one line", gone: "not shown" };

/** An element. Children are nodes or texts; names that begin with "on" are listeners. */
export function h(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.flat(9).filter((child) => child != null && child !== ""));
  return made;
}

export const button = (text, onclick, more = {}) => h("button", { type: "button", onclick, ...more }, text);
export const badge = (form) => h("span", { class: `badge ${form === "lines" ? "line" : form}` }, SAY[form]);

/** The answer to a question; what is wrong is thrown as an Error with a sentence and its kind. */
export async function ask(what, values = {}, options = {}) {
  const url = new URL(what, base);
  for (const [name, value] of Object.entries(values))
    for (const one of [value].flat()) if (one !== "" && one != null) url.searchParams.append(name, one);
  return answer(await fetch(url, options));
}

/** What changes something: a POST that repeats the token. */
export async function change(values) {
  const headers = { "Content-Type": "application/json", "X-Refold-Token": token };
  return answer(await fetch(new URL("change", base), { method: "POST", headers, body: JSON.stringify(values) }));
}

async function answer(response) {
  const text = await response.text();
  let told;
  try { told = JSON.parse(text); } catch { told = { error: text.trim() || `status ${response.status}`, kind: "refused" }; }
  if (response.ok) return told;
  throw Object.assign(new Error(told.error), { kind: told.kind });
}

export const events = () => new EventSource(new URL("events", base));

export function later(work, milliseconds) {
  let timer;
  return (...values) => { clearTimeout(timer); timer = setTimeout(() => work(...values), milliseconds); };
}

/** A message about what went wrong, until the next one; empty: all is well. */
export function notice(text = "") {
  const box = document.getElementById("notice");
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

let boxes = 0;
/**
 * A list of any length of which only what is in sight is in the page: a listbox that arrow keys move through.
 * `height(i)` is the height of a row, `row(i)` its content, `name(i)` what a screen reader says, `open(i)` what a
 * click or Enter does, `sight(first, last)` is told what is in sight.
 */
export function virtual({ label, height, row, name, open, sight = () => {}, classes = () => "" }) {
  const id = `list${boxes++}`;
  const inner = h("div", { role: "presentation", class: "inner" });
  const box = h("div", { class: "virtual", role: "listbox", tabindex: 0, "aria-label": label }, inner);
  let ends = [], active = -1, frame = 0, drawn = new Map(), stale = false;

  const total = () => ends.at(-1) ?? 0;
  const start = (i) => (i ? ends[i - 1] : 0);
  function at(y) {
    let low = 0, high = ends.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] > y) high = middle; else low = middle + 1;
    }
    return low;
  }
  function draw() {
    frame = 0;
    const first = Math.max(0, at(box.scrollTop) - 4), last = Math.min(ends.length - 1, at(box.scrollTop + box.clientHeight) + 4);
    const now = new Map();
    for (let i = first; i <= last && ends.length; i++) {
      let made = drawn.get(i);
      if (!made) made = h("div", { role: "option", id: `${id}-${i}` }, row(i));
      else if (stale) made.replaceChildren(...[row(i)].flat(9).filter(Boolean));  // the row itself stays: a click on it is not lost
      made.className = `row ${classes(i)}`;
      made.setAttribute("aria-label", name(i));
      made.setAttribute("aria-posinset", i + 1);
      made.setAttribute("aria-setsize", ends.length);
      made.setAttribute("aria-selected", i === active);
      made.style.top = `${start(i)}px`;
      made.style.height = `${ends[i] - start(i)}px`;
      made.dataset.index = i;
      now.set(i, made);
    }
    for (const [i, made] of drawn) if (!now.has(i)) made.remove();
    for (const [i, made] of now) if (!drawn.has(i)) inner.append(made);
    drawn = now;
    stale = false;
    if (active >= 0) box.setAttribute("aria-activedescendant", `${id}-${active}`);
    else box.removeAttribute("aria-activedescendant");
    if (ends.length) sight(Math.max(0, at(box.scrollTop)), last);
  }
  const soon = () => { frame ||= requestAnimationFrame(draw); };
  function show(i) {
    if (i < 0 || i >= ends.length) return;
    if (start(i) < box.scrollTop) box.scrollTop = start(i);
    else if (ends[i] > box.scrollTop + box.clientHeight) box.scrollTop = Math.min(start(i), ends[i] - box.clientHeight);
    soon();
  }
  function choose(i) {
    active = Math.max(0, Math.min(ends.length - 1, i));
    show(active);
  }
  const page = () => Math.max(1, at(box.scrollTop + box.clientHeight) - at(box.scrollTop) - 1);
  const moves = {
    ArrowDown: () => active + 1, ArrowUp: () => active - 1, PageDown: () => active + page(), PageUp: () => active - page(),
    Home: () => 0, End: () => ends.length - 1,
  };
  box.addEventListener("keydown", (event) => {
    if (!ends.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) { choose(moves[event.key]()); event.preventDefault(); }
    else if ((event.key === "Enter" || event.key === " ") && active >= 0) { open(active); event.preventDefault(); }
  });
  // A click focuses, too: nothing may move under the pointer then.
  box.addEventListener("focus", () => { if (active < 0 && ends.length && box.matches(":focus-visible")) choose(at(box.scrollTop)); });
  inner.addEventListener("click", (event) => {
    const made = event.target.closest("[role=option]");
    if (!made) return;
    active = Number(made.dataset.index);
    soon();
    open(active);
  });
  box.addEventListener("scroll", soon, { passive: true });
  new ResizeObserver(soon).observe(box);

  return {
    box, show, choose,
    /** So many rows now; all are drawn anew. */
    update(length) {
      ends = new Array(length);
      for (let i = 0, end = 0; i < length; i++) ends[i] = end += height(i);
      if (active >= length) active = length - 1;
      inner.style.height = `${total()}px`;
      stale = true;
      draw();
    },
    /** The same rows with other content. */
    refresh() { stale = true; draw(); },
    get atEnd() { return box.scrollTop + box.clientHeight >= total() - 4; },
    toEnd() { box.scrollTop = total(); soon(); },
  };
}
