// What is shown of one message or one fold, in a dialog.
import { ask, badge, button, count, dollars, h, many, sizes, tokens, when } from "./dom.js";

const dialog = document.getElementById("detail");
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

async function open(work) {
  const close = button("Close", () => dialog.close(), { class: "close" });
  try {
    const { title, body } = await work();
    dialog.replaceChildren(h("header", {}, h("h2", { id: "detail-title" }, title), close), body);
  } catch (error) {
    dialog.replaceChildren(h("header", {}, h("h2", { id: "detail-title" }, "This cannot be shown"), close), h("p", {}, error.message));
  }
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

const text = (label, pieces) => h("pre", { tabindex: 0, role: "region", "aria-label": label }, pieces);
const marked = (pieces, tag) => pieces.map(([piece, cut]) => (cut && piece.trim() ? h(tag, {}, piece) : piece));

export function messageDetail(point, context) {
  const { name, leaf, at, points, writable, go, fold, act, branch, step } = context;
  return open(async () => {
    if (!points[point].role) {
      return { title: `#${points[point].number} ${points[point].kind}`, body: h("div", {}, h("p", {}, points[point].about), branches()) };
    }
    const told = await ask("message", { name, leaf, point, at: Math.max(at, 0) });
    const later = point > at;
    const facts = [tokens(told.tokens), `key ${told.key}`, told.model, when(told.time),
      told.usage ? `request of ${tokens(told.usage.prompt)}, ${count(told.usage.cache_read)} from cache` : ""];
    const sees = {
      whole: () => (told.lines?.length ? lines() : [h("p", { class: "quiet" }, later ? "Not said yet at this point." : "The model sees it as it was said.")]),
      clipped: () => [text("What the model sees", marked(told.after ?? [["", 0]], "mark"))],
      lines: lines,
      gone: () => [h("p", {}, "Nothing of it is in the view. Recall finds it by its key.")],
    };
    function lines() {
      return told.lines?.length
        ? [h("p", { class: "quiet" }, "In the record of the fold:"), text("Lines of the record", told.lines.join("\n"))]
        : [h("p", { class: "quiet" }, "The record tells of its call.")];
    }
    const actions = [
      button("‹ Before", () => step(point - 1), { disabled: point === 0 }),
      button("Next ›", () => step(point + 1), { disabled: point === points.length - 1 }),
      button("Go to this point", () => { dialog.close(); go(point); }),
      told.fold ? button("Its fold", () => fold(told.fold)) : null,
      writable ? button(told.pinned ? "Unpin" : "Pin", async () => { await act(told.pinned ? "unpin" : "pin", told.id); messageDetail(point, context); }) : null,
    ];
    const body = h("div", {},
      h("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")), h("p", { class: "actions" }, actions), branches(),
      h("div", { class: "pair" },
        h("section", {}, h("h3", {}, "As it was said"), text("As it was said", told.before ? marked(told.before, "del") : told.text || "(no text)")),
        h("section", {}, h("h3", {}, "What the model sees ", later ? "" : badge(told.form)), sees[later ? "whole" : told.form]())));
    return { title: `#${told.number} ${told.role === "tool" ? "result" : told.role}`, body };

  });
  function branches() {
    const others = points[point].branches ?? [];
    return others.length ? h("p", { class: "actions" }, others.map((one) =>
      button(`Other branch: ${many(one.entries, "entry", "entries")}`, () => { dialog.close(); branch(one.leaf); }))) : "";
  }
}

export function foldDetail(id, context) {
  const { name, leaf, writable, act, step, go } = context;
  return open(async () => {
    const told = await ask("fold", { name, leaf, id });
    const check = told.check
      ? told.check.unverified.length
        ? h("p", { class: "bad" }, `[unverified] ${told.check.unverified.length} of ${many(told.check.claims, "claim")} do not occur in what was folded: `, told.check.unverified.join(" · "))
        : h("p", {}, `All ${told.check.claims} names, paths, numbers and quotations occur in what was folded.`)
      : h("p", {}, told.foreign ? "Not checked: another program made this fold." : told.requests ? "This preset does not check its summaries." : "No model wrote anything here: it was taken or computed from the log.");
    const cost = told.foreign ? "not known" : told.requests ? `${many(told.requests, "request")} to ${told.author}: ${told.dollars == null ? "price not known" : dollars(told.dollars)}` : "no model asked, no cost";
    const deed = told.active ? "undo" : told.undone ? "redo" : "";
    const link = (point, words) => button(words, () => step(point), { class: "link" });
    const rows = told.lost.map((row) => h("tr", {}, h("td", {}, h("code", {}, row.key)), h("td", {}, count(row.tokens)), h("td", {}, link(row.point, row.about))));
    const lines = told.lines.map((line) => h("li", {}, h("span", {}, line.text || " "),
      line.from.length ? h("small", {}, " ← ", line.from.map((point) => link(point, `#${context.points[point].number}`))) : ""));
    return {
      title: `Fold: ${sizes(told)}`,
      body: h("div", {},
        h("dl", { class: "figures" }, [["Why", told.reason || "not said"], ["Preset", [told.preset, told.strategy].filter(Boolean).join(", ")], ["Cost", cost], ["State", told.active ? "in effect" : "undone"]]
          .map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value)))),
        told.money ? h("p", { class: "quiet" }, told.money) : "",
        h("h3", {}, "Check"), check,
        h("p", { class: "actions" }, button("Go to this point", () => { dialog.close(); go(told.at); }),
          writable && deed ? button(deed === "undo" ? "Undo this fold" : "Redo this fold", async () => { await act(deed, id); foldDetail(id, context); }) : ""),
        h("h3", {}, "Record"), lines.length ? h("ul", { class: "record" }, lines) : h("p", { class: "quiet" }, "This fold put no record into the view."),
        h("h3", {}, "Ledger"), h("p", { class: "quiet" }, told.foreign && !told.lost_in_all ? "This fold does not say what left the view; the forms in the log show it."
          : `${many(told.lost_in_all, "entry", "entries")} of ${tokens(told.tokens_lost)} left the view; the log keeps them.`),
        rows.length ? h("table", {}, h("thead", {}, h("tr", {}, ["key", "tokens", "what"].map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows)) : ""),
    };
  });
}
