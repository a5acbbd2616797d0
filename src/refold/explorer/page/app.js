// The page: which part is shown, what changed meanwhile, the meter of the gateway.
import { ask, count, dollars, events, h, later, many, notice } from "./dom.js";
import { sessionList } from "./list.js";
import { sessionPage } from "./session.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
const rows = new Map();
let choices = { presets: [], models: [] }, list, shown = null, loaded = false;

function tell({ errors = {}, unread = [] }) {
  const reading = unread.length ? `; still reading ${unread.join(", ")}` : "";
  status.textContent = `${many(rows.size, "session")}${reading}`;
  const broken = Object.entries(errors).map(([collection, why]) => `${collection}: ${why}`);
  notice(broken.join(" · "));
}

async function load() {
  try {
    const told = await ask("sessions");
    rows.clear();
    for (const row of told.rows) rows.set(row.name, row);
    choices = told.choices;
    tell(told);
    if (!loaded && told.first && !location.hash) location.hash = address(told.first);
    loaded = true;
  } catch (error) {
    notice(`The sessions cannot be listed: ${error.message}`);
  }
  route();
}

export const address = (name, leaf = "") => `#/s/${encodeURIComponent(name)}${leaf ? `/${encodeURIComponent(leaf)}` : ""}`;

function route() {
  const [, kind, name, leaf] = location.hash.split("/");
  shown?.close();
  shown = null;
  if (kind === "s" && name) {
    shown = sessionPage(decodeURIComponent(name), leaf ? decodeURIComponent(leaf) : "", { rows, choices, address });
    main.replaceChildren(shown.element);
  } else {
    list ??= sessionList(rows, (name) => { location.hash = address(name); });
    main.replaceChildren(list.element);
    list.update();
    document.title = "refold explore";
  }
  if (loaded) main.focus({ preventScroll: true });
}

function follow() {
  const source = events();
  let lost = false;
  source.addEventListener("open", () => { if (lost) load(); lost = false; });
  source.addEventListener("error", () => { lost = true; status.textContent = "Connection lost; trying again …"; });
  source.addEventListener("behind", load);
  const draw = later(() => { if (!shown) list?.update(); }, 50);
  source.addEventListener("rows", (event) => {
    const told = JSON.parse(event.data);
    for (const row of told.rows) rows.set(row.name, { ...rows.get(row.name), ...row, fresh: Date.now() });
    for (const name of told.gone) rows.delete(name);
    tell(told);
    if (shown && told.rows.some((row) => row.name === shown.name)) shown.grow();
    if (shown && told.gone.includes(shown.name)) shown.gone();
    draw();
  });
}

// ── the meter ───────────────────────────────────────────────────────────────────────────────────
const box = document.getElementById("meter"), toggle = document.getElementById("meter-button");
let measuring = 0;

async function measure() {
  if (box.hidden) return;
  let told;
  try { told = await ask("meter"); } catch (error) { told = { error: error.message }; }
  box.replaceChildren(...(told.error ? [h("p", {}, told.error)] : meter(told)));
  box.dataset.ready = "1";
  measuring = setTimeout(measure, 3000);
}

function meter(told) {
  const measured = told.replies - told.unmeasured;
  const share = told.prompt ? ` (${Math.round((100 * told.cache_read) / told.prompt)} %)` : "";
  const priced = measured - told.unpriced;
  const figures = [
    ["Requests", count(told.requests)],
    ["Tokens in", count(told.prompt)], ["Tokens out", count(told.output)],
    ["Read from cache", `${count(told.cache_read)}${share}`], ["Cache misses", count(told.cache_misses)],
    ["Folds", count(told.folds)],
    ["Money", priced ? dollars(told.dollars) : "–"],
    ["Without folding", priced ? `≈ ${dollars(told.unfolded)}` : "–"],
    ["Time added", told.added == null ? "–" : `${(1000 * told.added).toFixed(1)} ms`],
  ];
  const notes = [
    `Since the gateway at ${told.url} was started.`,
    `Tokens: as providers counted them, for ${count(measured)} of ${many(told.replies, "reply", "replies")}` +
      (told.unmeasured ? `; ${count(told.unmeasured)} do not say.` : "."),
    `Money: list prices${told.unpriced ? `, without ${count(told.unpriced)} of models with unknown prices` : ""}. Without folding: an estimate, with everything ` +
      "sent before taken to be in the cache. Time added: until a request was passed on.",
    told.unrecorded ? `${count(told.unrecorded)} exchanges could not be written down.` : "",
  ];
  return [
    h("dl", { class: "figures" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("p", { class: "quiet" }, notes.filter(Boolean).join(" ")),
  ];
}

toggle.addEventListener("click", () => {
  box.hidden = !box.hidden;
  toggle.setAttribute("aria-expanded", !box.hidden);
  clearTimeout(measuring);
  measure();
});

window.addEventListener("hashchange", route);
load().then(follow);
