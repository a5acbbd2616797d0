"use strict";
// The reader of the report. Everything from a transcript is put into the page as text (textContent), never as HTML.
(() => {
  const root = document.getElementById("explorer");
  if (!root || !("DecompressionStream" in window)) return;
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const FORMS = { w: "whole", c: "clipped", l: "line", g: "gone" };
  const SAY = { w: "as it was", c: "clipped", l: "as one line", g: "not shown" };
  const ROWS = 200;
  const blocks = [...document.querySelectorAll("script.block")];
  const opened = new Map();
  let data, cell, before, after, step, found, words = null;

  // ── small tools ────────────────────────────────────────────────────────────────────────────────
  function h(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value != null) made.setAttribute(name, value);
    }
    made.append(...children.flat(9).filter((child) => child != null && child !== ""));
    return made;
  }
  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }
  const count = (number) => number.toLocaleString("en");
  const size = (number) => (number === 1 ? "1 token" : `${count(number)} tokens`);
  const line = (text) => text.trim().split("\n", 1)[0].slice(0, 160);
  const options = (select, titles, chosen) =>
    select.replaceChildren(...titles.map((title, n) => h("option", { value: n, selected: n === chosen }, title)));

  /** Text with what was searched for marked. */
  function text(value) {
    if (!words) return value;
    return value.split(words).map((piece, n) => (n % 2 ? h("mark", { class: "hit" }, piece) : piece));
  }

  // ── what stands for a message at some moment ───────────────────────────────────────────────────
  /** For every message the edit that stands for it once the first `folds` folds are made; null: the message itself. */
  function standing(folds) {
    const shown = new Array(data.entries.length).fill(null);
    for (const fold of cell.folds.slice(0, folds)) {
      for (const edit of fold.edits) {
        for (let i = edit.first; i <= edit.last; i++) {
          const other = shown[i];
          if (!other || edit.last - edit.first >= other.last - other.first) shown[i] = edit;
        }
      }
    }
    return shown;
  }
  const form = (i, shown) => (shown[i] ? shown[i].forms[i - shown[i].first] : "w");
  const clip = (i, edit) => (String(i) in edit.own ? edit.put[edit.own[i]].text : null);
  const isRecord = (edit) => edit.last > edit.first || edit.put.some((_, n) => !Object.values(edit.own).includes(n));

  /** A message with the places marked that a clip of it leaves out. */
  function source(i, pieces) {
    const chars = [...data.entries[i].text];
    if (!Array.isArray(pieces)) return text(chars.join(""));
    const nodes = [];
    let at = 0;
    for (const piece of pieces.filter((piece) => Array.isArray(piece) && piece.length === 2).concat([[chars.length]])) {
      const cut = chars.slice(at, piece[0]).join("");
      if (cut) nodes.push(cut.trim() ? h("del", {}, text(cut)) : cut);
      nodes.push(text(chars.slice(piece[0], piece[1]).join("")));
      at = piece[1];
    }
    return nodes;
  }
  /** A clip with its marks. */
  function clipped(i, pieces) {
    const chars = [...data.entries[i].text];
    return pieces.map((piece) => {
      if (typeof piece === "string") return piece.trim() ? h("mark", { class: "cut" }, piece) : piece;
      return text(piece.length === 2 ? chars.slice(piece[0], piece[1]).join("") : piece[0]);
    });
  }
  const written = (put) => (typeof put.text === "string" ? put.text : put.text.map((p) => (Array.isArray(p) ? "" : p)).join(""));

  function recordLines(edit, place) {
    const [put, at] = place;
    const lines = written(edit.put[put]).split("\n");
    return lines.slice(Math.max(0, at - 1), at + 2).map((each, n) => {
      const own = n === Math.min(at, 1);
      return own ? h("mark", { class: "told" }, each + "\n") : each + "\n";
    });
  }

  function pane(i, shown, cutBy) {
    const edit = shown[i], kind = form(i, shown), entry = data.entries[i];
    const pre = (...children) => h("pre", { tabindex: 0 }, ...children);
    if (!edit) return [pre(entry.text ? source(i, cutBy) : "(no text)")];
    if (kind === "w") return [h("p", { class: "quiet" }, "word for word in what stands for it"), pre(source(i))];
    if (kind === "c") {
      const pieces = clip(i, edit);
      return [pre(pieces ? clipped(i, pieces) : edit.put.map((put) => written(put) + "\n"))];
    }
    if (kind === "l") {
      const place = edit.lines[i];
      return place
        ? [h("p", { class: "quiet" }, "a line of the record has something of it"), pre(recordLines(edit, place))]
        : [h("p", { class: "quiet" }, "the record has its call")];
    }
    const command = `refold recall ${data.quoted} --keys ${entry.key} --full`;
    return [h("p", { class: "quiet" }, "Not shown in the view. Recall finds it: ", h("code", {}, command))];
  }

  function badge(kind) {
    return h("span", { class: `badge ${FORMS[kind]}` }, SAY[kind]);
  }
  function head(i) {
    const entry = data.entries[i];
    return [
      h("span", { class: "number" }, number(i)), " ", h("b", { class: `role ${entry.role}` }, entry.role), " ",
      h("span", { class: "about" }, entry.about || line(entry.text) || "(no text)"),
    ];
  }
  /** As records and marks name it: its place in the log that was folded. */
  const number = (i) => `#${cell.numbers[i] ?? i}`;
  /** One message before and after a fold, side by side. */
  function pair(i, from, to) {
    const now = form(i, to), edit = to[i];
    const cutBy = now === "c" && edit && !from[i] ? clip(i, edit) : null;
    const same = now === "w" && !edit;
    return h("div", { class: `pair ${FORMS[now]}${same ? " same" : ""}` },
      h("div", { class: "side" }, h("h5", {}, "before"), pane(i, from, cutBy)),
      h("div", { class: "side" }, h("h5", {}, "after ", badge(now)), pane(i, to)));
  }

  // ── the map of the conversation ────────────────────────────────────────────────────────────────
  function strip(runs, total, label) {
    const made = svg("svg", { viewBox: `0 0 ${total || 1} 10`, preserveAspectRatio: "none", class: "strip", role: "img" });
    made.append(svg("title", {}, label));
    let at = 0;
    for (const [kind, width] of runs) {
      made.append(svg("rect", { x: at, y: 0, width, height: 10, class: `f-${FORMS[kind] || kind}` }));
      at += width;
    }
    return made;
  }
  function joined(runs) {
    const out = [];
    for (const [kind, width] of runs) {
      if (out.length && out.at(-1)[0] === kind) out.at(-1)[1] += width;
      else out.push([kind, width]);
    }
    return out;
  }
  function drawMap() {
    const total = data.entries.reduce((sum, entry) => sum + entry.tokens, 0);
    const was = joined(data.entries.map((entry, i) => [form(i, after), entry.tokens]));
    const now = [];
    let last = null;
    after.forEach((edit, i) => {
      if (!edit) now.push(["w", data.entries[i].tokens]);
      else if (edit !== last) {
        edit.put.forEach((put, n) => now.push([Object.values(edit.own).includes(n) ? "c" : "l", put.tokens]));
      }
      last = edit;
    });
    const left = now.reduce((sum, [, width]) => sum + width, 0);
    const map = strip(was, total, "the conversation, coloured by what becomes of each message");
    const head = svg("rect", { y: 0, height: 10, class: "head" });
    map.append(head);
    map.addEventListener("click", (event) => {
      let want = ((event.clientX - map.getBoundingClientRect().left) / map.clientWidth) * total;
      const hit = data.entries.findIndex((entry) => (want -= entry.tokens) <= 0);
      go(data.entries[Math.max(hit, 0)].step);
    });
    const short = strip([...joined(now), ["none", Math.max(total - left, 0)]], Math.max(total, left), "the view after it");
    part("map").replaceChildren(
      h("span", {}, "before"), map, h("b", {}, count(total)),
      h("span", {}, "after"), short, h("b", {}, count(left)));
    part("map").head = (from, to) => {
      const x = data.entries.reduce((sum, e) => sum + (e.step < from ? e.tokens : 0), 0);
      const width = data.entries.reduce((sum, e) => sum + (e.step >= from && e.step <= to ? e.tokens : 0), 0);
      head.setAttribute("x", x);
      head.setAttribute("width", Math.max(width, total / 300));
    };
  }

  // ── turn by turn ───────────────────────────────────────────────────────────────────────────────
  function go(to) {
    const last = data.entries.at(-1).step;
    step = Math.min(Math.max(to, 1), last);
    const here = data.entries.flatMap((entry, i) => (entry.step === step ? [i] : []));
    const turns = data.entries.at(-1).turn, turn = data.entries[here[0]].turn;
    const asked = data.entries.find((entry) => entry.turn === turn && entry.role === "user");
    const place = `turn ${turn} of ${turns}, step ${step} of ${last}`;
    const slider = part("slider");
    slider.max = last;
    slider.value = step;
    slider.setAttribute("aria-valuetext", place);
    part("place").textContent = place;
    part("asked").textContent = asked ? line(asked.text) : "";
    part("map").head?.(step, step);
    part("record").replaceChildren(...records(here));
    part("step").replaceChildren(
      ...here.map((i) => h("article", { id: `m${i}` },
        h("h4", {}, h("span", {}, head(i)), h("small", {}, size(data.entries[i].tokens))), pair(i, before, after))));
  }
  function records(here) {
    const edits = [...new Set(here.map((i) => after[i]).filter((edit) => edit && isRecord(edit)))];
    return edits.map((edit) => {
      const own = new Set(Object.values(edit.own));
      const puts = edit.put.filter((_, n) => !own.has(n));
      const told = puts.reduce((sum, put) => sum + put.tokens, 0);
      const marked = new Set(here.map((i) => (edit.lines[i] || []).join(":")));
      const which = edit.first === edit.last ? number(edit.first) : `${number(edit.first)} to ${number(edit.last)}`;
      return h("details", { class: "record" },
        h("summary", {}, `What stands for ${which}: ${puts.length ? size(told) : edit.kind === "left" ? "quotations in the record" : "nothing"}`),
        edit.put.map((put, n) => (own.has(n) ? null : h("pre", { tabindex: 0 },
          written(put).split("\n").map((each, at) => (marked.has(`${n}:${at}`) ? h("mark", { class: "told" }, each, "\n") : each + "\n"))))));
    });
  }
  function turn(by) {
    const now = data.entries.find((entry) => entry.step === step).turn;
    const start = data.entries.find((entry) => entry.turn === now).step;
    const want = by < 0 && step > start ? now : now + by;
    const entry = data.entries.find((each) => each.turn === want);
    if (entry) go(entry.step);
  }

  // ── what became of each message: all rows, to filter, search and open ──────────────────────────
  function list() {
    const asked = part("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean).slice(0, 20);
    const quoted = asked.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    words = asked.length ? new RegExp(`(${quoted.join("|")})`, "i") : null;
    const kinds = new Set([...root.querySelectorAll("[name=form]:checked")].map((box) => box.value));
    found = data.entries.flatMap((entry, i) => {
      if (!kinds.has(form(i, after))) return [];
      const hay = `${entry.role} ${entry.about} ${entry.key} ${number(i)} ${entry.text}`.toLowerCase();
      return asked.every((word) => hay.includes(word)) ? [i] : [];
    });
    if (part("order").value === "size") found.sort((a, b) => data.entries[b].tokens - data.entries[a].tokens);
    const tokens = found.reduce((sum, i) => sum + data.entries[i].tokens, 0);
    part("found").textContent = `${count(found.length)} of ${count(data.entries.length)} messages, ${size(tokens)}`;
    part("rows").replaceChildren();
    more(0);
  }
  function more(from) {
    const rows = part("rows");
    rows.querySelector(".more")?.remove();
    rows.append(...found.slice(from, from + ROWS).map(row));
    const left = found.length - from - ROWS;
    if (left > 0) {
      const button = h("button", { type: "button", class: "more", onclick: () => more(from + ROWS) }, `${count(left)} more`);
      rows.append(button);
      new IntersectionObserver((seen, watcher) => {
        if (seen.some((one) => one.isIntersecting)) { watcher.disconnect(); button.click(); }
      }).observe(button);
    }
    if (!found.length) rows.append(h("p", { class: "quiet" }, "No such message."));
  }
  function row(i) {
    const made = h("details", {},
      h("summary", {}, h("span", { class: "title" }, head(i)), badge(form(i, after)), h("small", {}, size(data.entries[i].tokens))));
    made.addEventListener("toggle", () => {
      if (!made.open || made.children.length > 1) return;
      const follow = () => { go(data.entries[i].step); document.getElementById(`m${i}`)?.scrollIntoView({ block: "center" }); };
      made.append(pair(i, before, after), h("button", { type: "button", onclick: follow }, "Show it in its turn"));
    });
    return made;
  }

  // ── choosing ───────────────────────────────────────────────────────────────────────────────────
  function chooseFold(number) {
    const fold = cell.folds[number];
    before = standing(number);
    after = standing(fold ? number + 1 : 0);
    for (const box of root.querySelectorAll("[name=form]")) {
      const there = data.entries.filter((_, i) => form(i, after) === box.value);
      box.parentElement.querySelector("b").textContent = count(there.length);
    }
    part("note").textContent = [fold ? fold.check : "Nothing was folded here: the view is the conversation as it was.", cell.note]
      .filter(Boolean).join(" ");
    drawMap();
    // The first place where something was cut tells more than the first message.
    const telling = ["c", "l", "g"].map((kind) => after.findIndex((_, i) => form(i, after) === kind)).find((i) => i >= 0);
    go(step || data.entries[telling ?? 0].step);
    list();
  }
  function chooseCell(number) {
    cell = data.cells[number];
    const titles = cell.folds.map((fold, n) =>
      `${n + 1} of ${cell.folds.length}: ${count(fold.before)} → ${count(fold.after)} (${fold.by})`);
    options(part("fold"), titles.length ? titles : ["none"], titles.length - 1);
    part("fold").disabled = titles.length < 2;
    chooseFold(Math.max(titles.length - 1, 0));
  }
  async function unpack(block) {
    const bytes = Uint8Array.from(atob(block.textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  async function chooseTranscript(number) {
    if (!opened.has(number)) opened.set(number, await unpack(blocks[number]));
    data = opened.get(number);
    const wanted = cell ? cell.title : root.dataset.best;
    const chosen = Math.max(data.cells.findIndex((each) => each.title === wanted), 0);
    part("transcript").value = number;
    options(part("preset"), data.cells.map((each) => each.title), chosen);
    step = 0;
    if (data.entries.length && data.cells.length) chooseCell(chosen);
  }

  part("transcript").addEventListener("change", (event) => chooseTranscript(Number(event.target.value)));
  part("preset").addEventListener("change", (event) => chooseCell(Number(event.target.value)));
  part("fold").addEventListener("change", (event) => chooseFold(Number(event.target.value)));
  part("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  part("earlier").addEventListener("click", () => turn(-1));
  part("later").addEventListener("click", () => turn(1));
  part("order").addEventListener("change", list);
  root.querySelectorAll("[name=form]").forEach((box) => box.addEventListener("change", list));
  let waiting;
  part("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(list, 120); });
  document.querySelectorAll("[data-open]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await chooseTranscript(Number(button.dataset.open));
      root.scrollIntoView();
    });
  });
  if (blocks.length) chooseTranscript(0).then(() => { root.hidden = false; root.dataset.ready = "1"; });
})();
