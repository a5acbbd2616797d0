// What another preset, budget or model would make of the session, beside what it is now.
import { SAY, ask, button, count, dollars, h, later, many, tokens, virtual } from "./dom.js";

export function whatIf(name, leaf, choices, now) {
  const columns = h("div", { class: "columns" });
  const element = h("div", { class: "what-if" },
    h("p", { class: "quiet" }, "The conversation is fed to the preset again, here and without a model. Nothing is sent, and nothing changes."),
    columns, button("Add another", () => add("pi"), { class: "add" }));
  let started = false, all = [];
  const select = (label, options, value, onchange) => h("label", {}, label,
    h("select", { onchange }, options.map((option) => h("option", { value: option, selected: option === value }, option || "as in the log"))));

  function figures(told) {
    const forms = Object.entries(told.forms ?? {}).map(([form, number]) => `${count(number)} ${SAY[form]}`).join(", ");
    const rows = [
      ["View", told.tokens == null ? "" : `${tokens(told.tokens)}${told.budget ? ` of ${count(told.budget)}` : ""}`],
      ["Messages", forms],
      ["Folds", told.folds == null ? "" : count(told.folds)],
      ["Cost of the whole log", told.cost == null ? "" : `${dollars(told.cost)} (unfolded ${dollars(told.unfolded)})`],
      ["Prices of", told.prices],
      ...(told.kept ?? []).map((one) => [`Kept: ${one.what}`, `${count(one.kept)} of ${count(one.of)}`]),
    ];
    return h("dl", {}, rows.filter(([, value]) => value).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
  }
  function messages(label, items) {
    const list = virtual({
      label, height: () => 40, open: () => {}, name: (i) => `${items[i].role}, ${tokens(items[i].tokens)}, ${items[i].about}`,
      row: (i) => [h("b", { class: "who" }, items[i].role), h("span", { class: "about" }, items[i].about), h("small", {}, count(items[i].tokens))],
      classes: (i) => `item ${items[i].role} ${items[i].folded || items[i].form === "record" || items[i].form === "clipped" ? "f-clipped" : "f-whole"}`,
    });
    requestAnimationFrame(() => list.update(items.length));
    return list.box;
  }
  const column = (head, ...body) => h("section", { class: "column", "aria-label": head }, h("h2", {}, head), body);

  function add(preset) {
    const chosen = { preset, budget: "", model: "" };
    const out = h("div", { "aria-live": "polite" });
    let asking = null;
    async function fill() {
      asking?.abort();
      asking = new AbortController();
      out.classList.add("working");
      try {
        const told = await ask("what_if", { name, leaf, ...chosen }, { signal: asking.signal });
        const sorry = told.error ?? (told.fits === false ? told.why || "It does not fit." : "");
        out.replaceChildren(sorry ? h("p", { class: "bad" }, sorry) : "", figures(told), told.items ? messages(`Messages with ${chosen.preset}`, told.items) : "");
        out.dataset.preset = chosen.preset;
      } catch (error) {
        if (error.name === "AbortError") return;
        out.replaceChildren(h("p", { class: "bad" }, error.message));
      }
      out.classList.remove("working");
    }
    const soon = later(fill, 250);
    const form = h("div", { class: "choices" },
      select("Preset", choices.presets, preset, (event) => { chosen.preset = event.target.value; fill(); }),
      h("label", {}, "Budget", h("input", { placeholder: "20k or 30%", size: 8, oninput: (event) => { chosen.budget = event.target.value; soon(); } })),
      select("Model", ["", ...choices.models], "", (event) => { chosen.model = event.target.value; fill(); }));
    all.push(fill);
    columns.append(column(`What if ${all.length > 1 ? all.length : ""}`.trim(), form, out));
    fill();
  }
  function present() {
    const made = column("Now", figures(now()), messages("Messages now", now().items));
    if (columns.firstChild) columns.firstChild.replaceWith(made);
    else columns.append(made);
  }
  const again = later(() => { if (started && !element.hidden) { present(); all.forEach((fill) => fill()); } }, 2000);
  return {
    element, changed: again,
    start() { present(); if (!started) { started = true; add("refold"); } },
  };
}
