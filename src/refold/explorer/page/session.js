// One session: on the left the log as a timeline, on the right what the model saw at a point in time.
import { FORMS, SAY, ask, badge, button, change, count, dollars, h, many, notice, sizes, tokens, virtual, when } from "./dom.js";
import { foldDetail, messageDetail } from "./detail.js";
import { whatIf } from "./what_if.js";

const LEAST = 24, LARGEST = 320, PIXELS = 1 / 20;
const MARKS = new Set(["fold", "undo", "redo"]);

export function sessionPage(name, leaf, { choices, address }) {
  let data = null, points = [], at = 0, marks = [], items = [], forms = [], closed = false, busy = false, again = false, moving = 0;
  let views = new Map();  // mark → what stands for stretches of the path once it is made
  const timeline = virtual({
    label: "Timeline", height: rowHeight, row: timelineRow, name: (i) => spoken(i), open: openPoint,
    classes: (i) => ["point", points[i].kind, points[i].role ?? "", i > at ? "later" : "", i === at ? "now" : "", rowHeight(i) > 44 ? "tall" : "", forms[i] ? `f-${FORMS[forms[i]]}` : ""].join(" "),
  });
  const view = virtual({
    label: "What the model sees", height: () => 46, row: itemRow, name: itemName,
    open: (i) => (items[i].point == null ? showFold(items[i].fold) : openPoint(items[i].point)),
    classes: (i) => `item ${items[i].role} f-${items[i].form}`,
  });
  const slider = h("input", { type: "range", min: 0, max: 0, value: 0, "aria-label": "Point in time", id: "time", oninput: () => { moving ||= requestAnimationFrame(() => { moving = 0; go(Number(slider.value)); }); } });
  const part = (tag, attributes) => h(tag, attributes);
  const title = part("h1"), facts = part("p", { class: "quiet" }), state = part("p", { class: "state", role: "status" });
  const place = part("p", { class: "place", role: "status" }), legend = part("p", { class: "legend" });
  const folds = part("div", { class: "folds" }), commands = part("div", { class: "commands" });
  const future = whatIf(name, leaf, choices, () => ({ tokens: data?.tokens ?? 0, forms: tally(), items }));
  const looking = h("div", { class: "panes" },
    h("section", { class: "left", "aria-label": "Log" }, h("h2", {}, "Log"), timeline.box),
    h("section", { class: "right", "aria-label": "View" }, h("h2", {}, "What the model sees here"), legend, view.box));
  const tabs = [["Session", looking], ["What if", future.element]].map(([text, panel], n) => {
    const tab = button(text, () => choose(n), { role: "tab", id: `tab${n}`, "aria-controls": `panel${n}`, "aria-selected": String(n === 0) });
    panel.id = `panel${n}`;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `tab${n}`);
    panel.hidden = n > 0;
    return { tab, panel };
  });
  function choose(n) {
    tabs.forEach(({ tab, panel }, i) => { tab.setAttribute("aria-selected", i === n); panel.hidden = i !== n; });
    if (n === 1) future.start();
    else { timeline.refresh(); view.refresh(); }
  }
  const jump = (step) => {
    const places = points.flatMap((point, i) => (MARKS.has(point.kind) ? [i] : []));
    const next = step > 0 ? places.find((i) => i > at) : places.findLast((i) => i < at);
    go(next ?? (step > 0 ? points.length - 1 : 0));
  };
  const element = h("article", { class: "one", "aria-busy": "true" },
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "‹ All sessions")), title, facts, state,
    h("div", { class: "time" },
      button("‹ fold", () => jump(-1), { "aria-label": "To the fold before" }), slider,
      button("fold ›", () => jump(1), { "aria-label": "To the next fold" }), place),
    h("div", { class: "more" },
      h("details", { class: "all-folds" }, h("summary", {}, "Folds"), folds),
      h("details", {}, h("summary", {}, "Commands"), commands)),
    h("div", { role: "tablist", "aria-label": "Parts" }, tabs.map(({ tab }) => tab)), tabs.map(({ panel }) => panel));

  // ── rows ──────────────────────────────────────────────────────────────────────────────────────
  let scale = PIXELS;
  function rowHeight(i) { return Math.max(LEAST, Math.round((points[i].tokens ?? 0) * scale)); }
  const kind = (point) => (point.role === "tool" ? "result" : point.role ?? point.kind);
  function timelineRow(i) {
    const point = points[i];
    return [
      h("b", { class: "who" }, kind(point)), h("span", { class: "about" }, `#${point.number} ${point.about}`),
      point.branches ? h("span", { class: "branch" }, many(point.branches.length, "other branch", "other branches")) : null,
      data.pins.includes(point.id) ? h("span", { class: "pin" }, "pinned") : null,
      h("small", {}, point.tokens == null ? "" : count(point.tokens)),
    ];
  }
  function spoken(i) {
    const point = points[i];
    const form = forms[i] ? SAY[FORMS[forms[i]]] : i > at ? "later" : "";
    return [`#${point.number}`, kind(point), point.about, point.tokens == null ? "" : tokens(point.tokens), form, data.pins.includes(point.id) ? "pinned" : "",
      point.branches ? many(point.branches.length, "other branch", "other branches") : ""].filter(Boolean).join(", ");
  }
  function itemRow(i) {
    const item = items[i];
    return [h("b", { class: "who" }, item.role === "tool" ? "result" : item.role), h("span", { class: "about" }, item.about),
      item.form === "record" ? h("span", { class: "badge record" }, "record") : badge(item.form), h("small", {}, count(item.tokens))];
  }
  function itemName(i) {
    return `${items[i].role}, ${SAY[items[i].form] ?? "record of a fold"}, ${tokens(items[i].tokens)}, ${items[i].about}`;
  }

  // ── time ──────────────────────────────────────────────────────────────────────────────────────
  const markAt = (point) => marks.findLast((mark) => mark <= point) ?? -1;
  async function go(point, { follow = true } = {}) {
    at = Math.max(0, Math.min(points.length - 1, point));
    slider.value = at;
    const mark = markAt(at);
    if (!views.has(mark)) {
      try {
        views.set(mark, mark < 0 ? [] : (await ask("view", { name, leaf, point: at })).stretches);
      } catch (error) { state.textContent = error.message; return; }
      if (closed || mark !== markAt(at)) return;
    }
    draw(views.get(mark), follow);
  }
  function draw(stretches, follow) {
    forms = new Array(points.length);
    items = [];
    const covering = new Map(stretches.map((one) => [one.first, one]));
    for (let i = 0; i <= at; i++) {
      const one = covering.get(i);
      if (one) {
        for (let n = one.first; n <= one.last; n++) if (points[n].role) forms[n] = one.forms[n - one.first];
        items.push(...one.put.map((put) => ({ ...put, point: put.own, fold: one.fold, form: put.own == null ? "record" : FORMS[forms[put.own]] })));
        i = one.last;
      } else if (points[i].role) {
        forms[i] = "w";
        items.push({ ...points[i], point: i, form: "whole" });
      }
    }
    const sum = items.reduce((all, item) => all + item.tokens, 0);
    const text = `Point ${at + 1} of ${points.length}, turn ${points[at]?.turn ?? 0}: ${many(items.length, "message")}, ${tokens(sum)}`;
    place.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const counts = tally();
    legend.replaceChildren(...Object.entries(counts).map(([form, number]) => h("span", { class: `badge ${form}` }, `${count(number)} ${SAY[form]}`)));
    timeline.refresh();
    if (follow) timeline.show(at);
    view.update(items.length);
    if (follow) view.toEnd();
  }
  function tally() {
    const counts = { whole: 0, clipped: 0, line: 0, gone: 0 };
    for (const form of forms) if (form && FORMS[form]) counts[FORMS[form]] += 1;
    return counts;
  }

  // ── what is opened ────────────────────────────────────────────────────────────────────────────
  const context = () => ({
    name, leaf, at, points, writable: data.writable, go: (point) => go(point), fold: showFold, act,
    branch: (end) => { location.hash = address(name, end); }, step: openPoint,
  });
  function openPoint(i) {
    if (points[i].kind === "fold") showFold(points[i].id);
    else messageDetail(i, context());
  }
  function showFold(id) { foldDetail(id, context()); }
  async function act(deed, target) {
    try {
      const done = await change({ name, do: deed, ...(target ? { target } : {}) });
      notice("");
      state.textContent = `Done: ${deed}. The view has ${tokens(done.tokens)} now.`;
    } catch (error) { notice(error.message); }
    await load();
  }
  function drawFolds() {
    const rows = data.folds.map((fold, n) => {
      const text = `${sizes(fold)}, ${fold.preset}${fold.strategy ? `, ${fold.strategy}` : ""}; ${fold.reason}`;
      const unverified = fold.check?.unverified.length ? h("span", { class: "bad" }, ` [unverified] ${many(fold.check.unverified.length, "claim")}`) : null;
      const deed = fold.active ? "undo" : fold.undone ? "redo" : "";
      return h("li", {}, button([text, unverified], () => showFold(fold.id), { class: "link" }),
        fold.active ? "" : h("span", { class: "quiet" }, " undone "),
        data.writable && deed ? button(deed === "undo" ? "Undo" : "Redo", () => act(deed, fold.id), { "aria-label": `${deed} fold ${n + 1}` }) : "");
    });
    folds.replaceChildren(rows.length ? h("ol", {}, rows) : h("p", { class: "quiet" }, "Nothing was folded: the view is the log."));
    element.querySelector(".all-folds summary").textContent = `Folds (${data.folds.length})`;
  }
  function drawCommands() {
    const rows = Object.entries(data.commands).map(([what, command]) => h("li", {}, h("span", {}, what), h("code", {}, command),
      button("Copy", async (event) => { await navigator.clipboard.writeText(command); event.target.textContent = "Copied"; }, { "aria-label": `Copy the command: ${what}` })));
    commands.replaceChildren(h("ul", {}, rows), data.writable ? "" : h("p", { class: "quiet" }, "This session is only read here: it belongs to another program, or is shown at another branch."));
  }

  // ── loading, and growing ──────────────────────────────────────────────────────────────────────
  async function load() {
    if (busy) { again = true; return; }
    busy = true;
    const first = data === null, before = points.length, atEnd = at >= before - 1;
    try {
      // The newest point is asked for again: other programs write a message while it is said.
      const told = await ask("session", { name, leaf, start: Math.max(0, before - 1), last: points.at(-2)?.id ?? "" });
      if (closed) return;
      data = told;
      const grown = told.start > 0;
      points = told.start ? [...points.slice(0, told.start), ...told.points] : told.points;
      const known = marks.length;
      marks = points.flatMap((point, i) => (MARKS.has(point.kind) ? [i] : []));
      if (!grown || marks.length < known) views = new Map();
      scale = Math.min(PIXELS, LARGEST / Math.max(1, points.reduce((most, point) => Math.max(most, point.tokens ?? 0), 0)));
      title.textContent = data.title || name;
      document.title = `${data.title || name} – refold explore`;
      const money = data.dollars == null ? "" : `${dollars(data.dollars)}${data.unpriced ? ` (${count(data.unpriced)} replies not priced)` : ""}`;
      facts.textContent = [data.client, data.model, data.folder, `${tokens(data.tokens)} in view`, many(data.folds.length, "fold"),
        data.replies > data.unpriced ? money : "", when(points.at(-1)?.time), data.other_leaf ? "another branch" : ""].filter(Boolean).join(" · ");
      state.textContent = data.problems.length ? `Damaged: ${data.problems.join(" · ")}` : "";
      slider.max = Math.max(0, points.length - 1);
      drawFolds();
      drawCommands();
      timeline.update(points.length);
      await go(first || atEnd ? points.length - 1 : at, { follow: first || atEnd });
      if (!first && grown) future.changed();
      element.setAttribute("aria-busy", "false");
      element.dataset.points = points.length;
    } catch (error) {
      state.textContent = `${error.message}${error.kind === "usage" || error.kind === "gone" ? "" : " – trying again"}`;
      if (error.kind !== "usage" && !closed) setTimeout(load, 2000);
    } finally {
      busy = false;
      if (again) { again = false; load(); }
    }
  }
  state.textContent = "Reading …";
  load();
  return {
    name, element, grow: load, close: () => { closed = true; },
    gone: () => { state.textContent = "This session is not there any more, or is being read again."; },
  };
}
