// The list of all sessions, and the search in them.
import { ask, count, dollars, h, later, many, notice, virtual, when } from "./dom.js";

const CHUNK = 6;

export function sessionList(rows, open) {
  let shown = [], found = null, asking = null, waiting = false;
  const summaries = new Map();  // "name entries time" → what the session itself says
  const key = (row) => `${row.name} ${row.entries} ${row.time}`;
  const about = (row) => ({ ...row, ...summaries.get(key(row)) });

  const list = virtual({
    label: "Sessions", height: () => 64, row: (i) => draw(shown[i]), name: (i) => spoken(shown[i]),
    open: (i) => open(shown[i].name), sight: (first, last) => fill(first, last),
    classes: (i) => (Date.now() - (shown[i].fresh ?? 0) < 5000 ? "session fresh" : "session"),
  });
  const search = h("input", {
    type: "search", id: "search", placeholder: "Search in all sessions", "aria-label": "Search in all sessions", autocomplete: "off",
    oninput: () => { filter(); ask_soon(); },
    onkeydown: (event) => { if (event.key === "ArrowDown") { list.box.focus(); list.choose(0); event.preventDefault(); } },
  });
  const told = h("p", { class: "quiet", role: "status", id: "found" });
  const element = h("section", { class: "sessions", "aria-label": "Sessions" }, h("div", { class: "bar" }, search, told), list.box);

  function draw(row) {
    const one = about(row);
    const facts = [
      one.client, one.model, one.tokens == null ? many(one.entries, "entry", "entries") : `${count(one.tokens)} tokens`,
      one.folds ? many(one.folds, "fold") : "", one.dollars ? dollars(one.dollars) : "", when(one.time),
    ];
    return [
      h("span", { class: "title" }, one.error ? `(${one.error})` : one.title || one.name),
      h("span", { class: "facts" }, facts.filter(Boolean).join(" · ")),
      h("span", { class: "where" }, row.text ? row.text : one.folder),
    ];
  }
  function spoken(row) {
    const one = about(row);
    return [one.title || one.name, one.client, one.model, one.tokens == null ? "" : `${count(one.tokens)} tokens`,
      one.folds ? many(one.folds, "fold") : "", one.folder, one.error, when(one.time)].filter(Boolean).join(", ");
  }

  /** What rows in sight say beyond their name is asked for, a few at a time. */
  async function fill(first, last) {
    if (waiting) return;
    const wanted = shown.slice(first, last + 1).filter((row) => !summaries.has(key(row))).slice(0, CHUNK);
    if (!wanted.length) return;
    waiting = true;
    try {
      const answers = await ask("summaries", { name: wanted.map((row) => row.name) });
      for (const row of wanted) summaries.set(key(row), answers[row.name] ?? {});
    } catch (error) {
      for (const row of wanted) summaries.set(key(row), { error: error.message });
    }
    waiting = false;
    list.refresh();
  }

  function filter() {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...rows.values()].sort((a, b) => b.time - a.time);
    if (!words.length) { found = null; shown = all; told.textContent = ""; }
    else {
      const named = all.filter((row) => {
        const one = about(row), hay = `${one.title ?? ""} ${one.folder} ${one.client} ${one.model ?? ""} ${one.name}`.toLowerCase();
        return words.every((word) => hay.includes(word));
      });
      const hits = (found ?? []).flatMap((hit) => (rows.has(hit.name) ? [{ ...rows.get(hit.name), text: hit.text }] : []));
      const known = new Set(hits.map((row) => row.name));
      shown = [...hits, ...named.filter((row) => !known.has(row.name))];
      told.textContent = shown.length ? `${many(shown.length, "session")}` : found ? "No session says this." : "Searching …";
    }
    list.update(shown.length);
  }
  const ask_soon = later(async () => {
    asking?.abort();
    asking = new AbortController();
    const query = search.value.trim();
    if (!query) return;
    try {
      found = (await ask("search", { q: query }, { signal: asking.signal })).found;
      if (query === search.value.trim()) { filter(); list.box.scrollTop = 0; }
    } catch (error) {
      if (error.name !== "AbortError") notice(`The search failed: ${error.message}`);
    }
  }, 120);

  return { element, update: filter };
}
