"""The tables of README.md and docs, made from the stored results.

A table stands between `<!-- bench:NAME -->` and `<!-- /bench -->`; what is between them belongs to this script. Below it
stands where its figures come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import loop_tables as loops
from benchmarks import results
from benchmarks.cells import NOT_YET, cell, markdown, milliseconds
from benchmarks.results import ROOT

OUTDATED = "*(the stored result is of an older form of this measure: `make bench`)*"
Results = dict[str, dict[str, Any]]

_BLOCK = re.compile(r"(<!-- bench:([\w-]+) -->\n)(.*?)(<!-- /bench -->)", re.S)


def rewrite_all() -> None:
    found = results.read()
    for path in documents():
        path.write_text(rewritten(path.read_text(encoding="utf-8"), found), encoding="utf-8")


def rewritten(text: str, found: Results) -> str:
    """The text with every table as the results say."""
    return _BLOCK.sub(lambda block: f"{block[1]}{table(block[2], found)}\n{block[4]}", text)


def table(name: str, found: Results) -> str:
    every = TABLES | PRINTED
    if name not in every:
        raise KeyError(f"there is no table {name!r}; there are {', '.join(every)}")
    needs, make = every[name]
    if any(need not in found for need in needs):
        return NOT_YET
    try:
        made = make(*(found[need]["result"] for need in needs))
    except (KeyError, TypeError):
        return OUTDATED
    return "\n\n".join((made, *(results.provenance(found[need]) for need in needs)))


# ── going on ────────────────────────────────────────────────────────────────────────────────────


def continuation(found: dict[str, Any]) -> str:
    """M9: the designs."""
    return _shares_of(found, [name for name in found["views"] if not _control(name)])


def continuation_controls(found: dict[str, Any]) -> str:
    """M9: controls, and refold without one of its parts."""
    return _shares_of(found, [name for name in found["views"] if name == "refold" or _control(name)])


def _control(name: str) -> bool:
    return ":" in name or "without" in name


def _shares_of(found: dict[str, Any], names: Sequence[str]) -> str:
    budgets = list(next(iter(found["views"].values())))
    head = ["view", *(f"{int(budget):,} tokens" for budget in budgets)]
    rows = [[name, *_shares(found["views"][name])] for name in names]
    return f"{markdown(head, rows)}\n\n{_judge(found)}"


def _judge(found: dict[str, Any]) -> str:
    """What 100 is, and how many cases there are."""
    window = (
        "" if found["stretch"] == 1 else f" The judge's window is stretched {found['stretch']:.0f} times."
    )
    return f"*100 is the newest {found['full']:,} tokens. {found['sessions']} sessions, {found['cases']} cases.{window}*"


def _shares(row: dict[str, Any]) -> list[str]:
    """A share with its error, and how many of the cases fit where not all do."""
    return [
        f"{cell['share']:.0f} ± {cell['error']:.0f}"
        + ("" if cell["fits"] == cell["cases"] else f" ({cell['fits']}/{cell['cases']} fit)")
        for cell in row.values()
    ]


def continuation_all(found: dict[str, Any]) -> str:
    """M9: every row, the half that nothing was tuned on, and single cases."""
    budgets = list(next(iter(found["views"].values())))
    head = ["view", *(f"{int(budget):,}: share, held back, ahead of the tail" for budget in budgets)]
    rows = [
        [
            name,
            *(f"{x['share']}, {x['held_back']}, {x['ahead_of_tail']}/{x['cases']}" for x in row.values()),
        ]
        for name, row in found["views"].items()
    ]
    return f"{markdown(head, rows)}\n\n{_judge(found)}"


def continuation_single(found: dict[str, Any]) -> str:
    """M9: single cases by the small judge, with the window as it was made."""
    rows = found["own_window"]
    budgets = list(next(iter(rows.values())))
    head = ["view", *(f"{int(budget):,}: nats over the tail, ahead of it" for budget in budgets)]
    listed = [
        [name, *(f"{x['gain']:+.3f}, {x['ahead_of_tail']}/{x['cases']}" for x in row.values())]
        for name, row in rows.items()
        if name != "tail"
    ]
    return f"{markdown(head, listed)}\n\n*Judge: {found['judge']}.*"


def long_range(found: dict[str, Any]) -> str:
    """M9, long range: names that only the older part can tell."""
    rows = found["long_range"]
    budgets = list(next(iter(rows.values())))
    head = ["view", *(f"{int(budget):,} tokens" for budget in budgets)]
    listed = [[name, *(f"{x['gain']:.3f}" for x in row.values())] for name, row in rows.items()]
    cell = next(iter(next(iter(rows.values())).values()))
    order = "" if found["stretch"] == 1 else ", its window stretched: an order, not sizes"
    cases = f"{cell['cases']} cases of {cell['sessions']} sessions"
    return f"{markdown(head, listed)}\n\n*Judge: {found['judge']}{order}. {cases}.*"


# ── what is kept ────────────────────────────────────────────────────────────────────────────────


def retention(found: dict[str, Any]) -> str:
    from benchmarks.retention import table as made

    return made(found)


def references(found: dict[str, Any]) -> str:
    """M2 by view."""
    shares = ("10%", "20%")
    rows = [
        [name, *(_one(view[share]["all"]) for share in shares), _one(view["20%"].get("all, one recall")),
         f"{view['20%']['over budget']}"]
        for name, view in found["m2"]["views"].items()
    ]  # fmt: skip
    probes = sum(found["m2"]["probes"].values())
    head = ["view", "10 % of the prefix", "20 %", "20 %, and one recall", "views over 20 %"]
    return f"{markdown(head, rows)}\n\n*{probes:,} identifiers.*"


def references_by_source(found: dict[str, Any]) -> str:
    """M2 by source; the whole grid is in the results."""
    agent = found["m2"]
    shares = [share for share in ("10%", "20%") if share in next(iter(agent["views"].values()))]
    head = ["source", "probes", *(f"{view}, {share}" for view in agent["views"] for share in shares)]
    rows = [
        [
            source,
            str(number),
            *(_one(view[share][source]) for view in agent["views"].values() for share in shares),
        ]
        for source, number in agent["probes"].items()
    ]
    total = str(sum(agent["probes"].values()))
    for name in ("all", "all, one recall"):
        cells = [_one(view[share].get(name)) for view in agent["views"].values() for share in shares]
        rows.append([f"**{name}**", total, *cells])
    return markdown(head, rows)


def recall(found: dict[str, Any]) -> str:
    dialogue, speed = found["dialogue"]["table"], found["speed"]
    head = ["", *next(iter(dialogue.values()))]
    quality = markdown(head, ([name, *map(_one, row.values())] for name, row in dialogue.items()))
    columns = ("median ms", "95 % ms", "build s")
    times = [[f"{int(size):,}", *(str(row[column]) for column in columns)] for size, row in speed.items()]
    return f"{quality}\n\n{markdown(['entries', *columns], times)}"


# ── speed ───────────────────────────────────────────────────────────────────────────────────────

SIZES = ("1000", "10000", "50000")


def engine(ours: dict[str, Any], peers: dict[str, Any]) -> str:
    """Milliseconds of processor time, best of several runs."""
    head = [
        "milliseconds",
        *(f"{what}, {int(size) // 1000}k" for what in ("check", "plan", "fold") for size in SIZES),
    ]
    rows = [_our_times(ours, preset) for preset in ("refold", "pi")]
    for library, answer in peers["engine"].items():
        if "error" in answer:
            rows.append([library, f"not measured: {cell(answer['error'])}", *[""] * (len(head) - 2)])
        for name, row in answer.get("rows", {}).items():
            if "error" in row:
                rows.append([name, f"failed: {cell(row['error'])}", *[""] * (len(head) - 2)])
                continue
            times = [
                milliseconds(row.get(size, {}).get(what))
                for what in ("check", "plan", "fold")
                for size in SIZES
            ]
            rows.append([name, *times])
    return markdown(head, rows)


def _our_times(ours: dict[str, Any], preset: str) -> list[str]:
    sizes = [ours["sizes"].get(size) for size in SIZES]
    checks = [milliseconds(one and one["check"]["near"]) for one in sizes]
    plans = [milliseconds(one and one[f"plan, {preset}"]["warm"]) for one in sizes]
    folds = [milliseconds(one and one[f"fold, {preset}"]) for one in sizes]
    return [f"**refold**, preset `{preset}`", *checks, *plans, *folds]


def figures(ours: dict[str, Any]) -> str:
    """The figures that the project holds itself to, and what was measured."""
    ten, most = ours["sizes"]["10000"], ours["sizes"].get("100000")
    wire, load = ten["wire"], ours["load"]
    rows = [
        ["a turn without a fold, 10,000 messages", "≤ 1 ms", milliseconds(ten["check"]["near"])],
        ["the same, 100,000 messages", "± 2×", milliseconds(most and most["check"]["near"])],
        ["plan, warm, 10,000 messages", "≤ 10 ms", milliseconds(ten["plan, refold"]["warm"])],
        ["plan, cold, 10,000 messages", "≤ 150 ms", milliseconds(ten["plan, refold"]["cold"])],
        ["`to_openai()`, per 1,000 messages", "≤ 3 ms", f"{wire['openai']['best_per_1000']:.1f}"],
        ["`to_anthropic()`, per 1,000 messages", "≤ 3 ms", f"{wire['anthropic']['best_per_1000']:.1f}"],
        ["digest of 10,000 messages (18 MB)", "≤ 2,000 ms", milliseconds(ours["digest"])],
        [
            f"load {load['entries']:,} entries ({load['megabytes']} MB)",
            "≤ 2,000 ms",
            milliseconds(load["ms"]),
        ],
    ]
    if "yardstick_ms" in ours:
        rows.append(["yardstick: a million additions in Python", "", f"{ours['yardstick_ms']:.0f}"])
    memory = ours["memory"]
    if "text_mb" in memory:
        grown = memory["with_session_plan_and_view_mb"] - memory["messages_mb"]
        rows.append([f"memory beyond the messages ({memory['text_mb']:.0f} MB of text)", "", f"{grown} MB"])
    return markdown(["what", "figure", "measured (ms)"], rows)


def long_run(found: dict[str, Any]) -> str:
    from benchmarks.long_run import table as made

    return made(found)


def speed(found: dict[str, Any]) -> str:
    from benchmarks.long_run import speed as made

    return made(found)


def long_figures(found: dict[str, Any]) -> str:
    from benchmarks.long_run import figures as made

    return made(found)


def many(found: dict[str, Any]) -> str:
    from benchmarks.many import table as made

    return made(found)


def many_ray(found: dict[str, Any]) -> str:
    from benchmarks.many_ray import table as made

    return made(found)


def compactions(name: str) -> Callable[[dict[str, Any]], str]:
    def made(found: dict[str, Any]) -> str:
        from benchmarks.compactions_table import TABLES as made

        return made[name](found)

    return made


def scale(found: dict[str, Any]) -> str:
    from benchmarks import scale_tables

    return scale_tables.measured(max(found["sizes"], key=lambda size: size["entries"]))


def pairs(peers: dict[str, Any]) -> str:
    rows: list[list[str]] = []
    for library, answer in peers["pairs"].items():
        if "error" in answer:
            rows.append([library, f"not measured: {cell(answer['error'])}", ""])
        for name, row in answer.get("rows", {}).items():
            if "error" in row:
                rows.append([name, f"failed: {cell(row['error'])}", ""])
            else:
                rows.append(
                    [
                        f"**{name}**" if library == "refold" else name,
                        _broken(row["valid"]),
                        _broken(row["late"]),
                    ]
                )
    return markdown(["", "broken, of 150 valid", "broken, of 150 with late results"], rows)


def _broken(row: dict[str, Any]) -> str:
    failed = f" ({row['failed']} more raised an error)" if row["failed"] else ""
    return f"{row['broken']}{failed}"


# ── checks and counts ───────────────────────────────────────────────────────────────────────────


def verification(found: dict[str, Any]) -> str:
    fake, mixed, true = (found[key] for key in ("fabrications", "recombined", "true_claims"))
    kinds = ", ".join(f"{kind} {share:.0f}" for kind, share in fake["by_kind"].items())
    parts = ", ".join(f"{kind} {share:.0f}" for kind, share in mixed["by_kind"].items())
    marked = ", ".join(f"{row['marked']}/{row['claims']} {kind}" for kind, row in true["by_kind"].items())
    rows = [
        ["planted fabrications caught", str(fake["planted"]), f"{fake['caught']} %", kinds],
        ["the same, put together from true parts", str(mixed["planted"]), f"{mixed['caught']} %", parts],
        [
            "true claims wrongly marked",
            str(true["claims"]),
            f"{true['percent']} %",
            f"summaries {marked}",
        ],
    ]
    return markdown(["check of summaries", "number", "share", ""], rows)


def redaction(found: dict[str, Any]) -> str:
    """R17: of planted secrets, by where they stand."""
    kinds, code = found["kinds"], found["code"]
    rows = [
        [group, *(f"{100 * found[of][group]:.1f} %" for of in ("held", "tuned"))] for group in found["held"]
    ]
    head = ["secrets found", f"{kinds['held']} kinds held back", f"{kinds['tuned']} that it was tuned on"]
    return f"{markdown(head, rows)}\n\n*False hits in {code['lines']:,} lines of code: {code['false_hits']}.*"


def requests(found: dict[str, Any]) -> str:
    """Requests / bound, by preset, history and window; a column for each behaviour."""
    behaviours = list(dict.fromkeys(row["behaviour"] for row in found["rows"]))
    grouped: dict[tuple[str, int, int], dict[str, dict[str, Any]]] = {}
    for row in found["rows"]:
        key = row["preset"], row["history"], row["window"]
        grouped.setdefault(key, {})[row["behaviour"]] = row
    rows = [
        [
            preset,
            f"{history:,}",
            f"{window:,}",
            str(next(iter(cells.values()))["bound"]),
            *(
                f"{cells[one]['requests']} → {cells[one]['end']}" if one in cells else ""
                for one in behaviours
            ),
        ]
        for (preset, history, window), cells in grouped.items()
    ]
    return markdown(["preset", "history", "summariser's window", "bound", *behaviours], rows)


def tokens(found: dict[str, Any]) -> str:
    rows: list[list[str]] = []
    for source, counters in found["sources"].items():
        for counter, row in counters.items():
            shares = [
                f"{100 * row[kind]['mean']:.1f} %" if row[kind] else "–"
                for kind in ("before", "after", "anchored")
            ]
            rows.append([source, counter, str(row["requests"]), *shares])
    return markdown(
        ["error of the predicted size", "counter", "requests", "bare", "calibrated", "anchored on usage"],
        rows,
    )


def stores(found: dict[str, Any]) -> str:
    opened, append = found["open"], found["append"]
    rows = [
        [
            kind,
            f"{opened[kind]['seconds']:.2f} s",
            f"{opened[kind]['peak_mb']} MB",
            str(append["per_second"][kind]),
            f"{append[f'{kind}_ratio']} ×",
        ]
        for kind in ("sqlite", "jsonl")
    ]
    head = [
        "store",
        f"open {opened['entries']:,} entries",
        "peak memory",
        "durable appends a second",
        "time beside the bare way",
    ]
    return markdown(head, rows)


def start(found: dict[str, Any]) -> str:
    from benchmarks.start import table as made

    return made(found)


def rounds(found: dict[str, Any]) -> str:
    from benchmarks.rounds import table as made

    return made(found)


def house(found: dict[str, Any]) -> str:
    trees: dict[str, Any] = found["trees"]
    now = trees["now"]
    rows = [[name, *(f"{tree.get(name, 0):,}" for tree in trees.values())] for name in now if name != "steps"]
    for step, kind in product(now["steps"], ("functions", "files")):
        counts = (tree.get("steps", {}).get(step, {}).get(kind, 0) for tree in trees.values())
        rows.append([f"{kind} that `{step}` goes through", *map(str, counts)])
    return markdown(["", *trees], rows)


def agent(found: dict[str, Any]) -> str:
    """What the coding agent costs, in milliseconds."""
    rows = [[name, f"{row['median']:.0f} (best {row['best']:.0f})"] for name, row in found["start"].items()]
    rows += [
        [f"a turn after {int(length):,} turns, of which `prepare`; by hand",
         " ".join(f"{row[name]:.1f}{end}" for name, end in (("whole", ","), ("engine", ";"), ("by hand", "")))]
        for length, row in found["turns"].items()
    ]  # fmt: skip
    return markdown(["what", "ms, median"], rows)


def chat_session(found: dict[str, Any]) -> str:
    """What was done, and how long a user waited."""
    keys, resumed = found["key_to_screen_ms"], found["resumed_start_ms"]
    rows = [
        ["turns; tasks; kills and resumes", f"{found['turns']:,}; {found['tasks']}; {found['kills']}", ""],
        [
            "folds; taken back and brought back by hand; branches",
            f"{found['folds']}; {found['undone']}; {found['branches']}",
            "",
        ],
        ["largest request, of a window of 8,000 tokens", f"{found['largest_request']:,}", "≤ 8,000"],
        [
            "from a key to the screen: median, p95",
            f"{keys['median']:.0f} ms, {keys['p95']:.0f} ms",
            "p95 ≤ 50 ms",
        ],
        [
            "from the start to the prompt: new; resumed, median",
            f"{found['first_start_ms']:,.0f} ms; {resumed['median']:,.0f} ms",
            "≤ 350 ms",
        ],
    ]
    for when, echo in found.get("echo_ms", {}).items():
        rows.append(
            [
                f"from a key to the screen of a program that only echoes, {when}: p95",
                f"{echo['p95']:.0f} ms",
                "",
            ]
        )
    return markdown(["what", "measured", "goal"], rows)


def mutation(found: dict[str, Any]) -> str:
    """Of each room how many mutants were drawn, and what became of them."""
    names = ("killed", "survived", "unreached")
    rooms = {**found["rooms"], f"all (seed {found['seed']})": found["all"]}
    rows = [
        [room, *(f"{row.get(name, 0):,}" for name in names), _percent(row["make test"])]
        for room, row in rooms.items()
    ]
    return markdown(["room", *names, "noticed"], rows)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1f} %"


def machine(*_: Any) -> str:
    """Where and when, one line per measure."""
    rows = [
        [
            name,
            one["made"]["date"],
            one["made"]["machine"]["processor"],
            str(one["made"]["machine"]["cores"]),
            one["made"]["python"],
            f"{one['made']['load_before'][:1]}".strip("[]"),
            f"{one['made']['seconds']:.0f} s",
        ]
        for name, one in results.read().items()
    ]
    return markdown(["measure", "date", "processor", "cores", "Python", "load before", "took"], rows)


def _one(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


_WAYS = {
    "bare": "bare pass-through",
    "gateway": "refold serve",
    "litellm": "LiteLLM",
}


def gateway(found: dict[str, Any]) -> str:
    """First bytes, as they come to clients; what was added to the bare pass-through of the same run."""
    head = [
        "streams",
        "requests/s",
        "through",
        "first byte p50",
        "p99",
        "added p50",
        "added p99",
    ]
    rows: list[list[str]] = []
    for kind in ("", "burst_", "few_"):
        lasting = found["burst_lasting" if kind == "burst_" else "lasting"]
        for part, way in _WAYS.items():
            if row := found.get(kind + part):
                version = f" {row['version']}" if "version" in row else ""
                streams = row.get("open", found["streams"])
                named = f"{way}{version}"
                rows.append([f"{streams:,}", f"{streams / lasting:.0f}", named, *_first_bytes(row)])
    return markdown([*head, "recorded"], rows)


def _first_bytes(row: dict[str, Any]) -> list[str]:
    if "skipped" in row:
        return [row["skipped"], *[""] * 4]
    added = [
        f"{row[f'added_{key}']:+.1f} ms" if f"added_{key}" in row else "" for key in ("p50_ms", "p99_ms")
    ]
    times = [f"{row['p50_ms']:.1f} ms", f"{row['p99_ms']:.1f} ms"]
    written = f"{row['entries'] / (2 * row['answers']):.0%}" if "entries" in row else ""
    return [*times, *added, written]


Made = dict[str, tuple[tuple[str, ...], Callable[..., str]]]
"""Name of a table → the results it needs, and how it is made."""
TABLES: Made = {
    "compactions": (("compactions",), compactions("compactions")),
    "compactions-differences": (("compactions",), compactions("compactions-differences")),
    "compactions-names": (("compactions",), compactions("compactions-names")),
    "continuation": (("continuation_full",), continuation),
    "continuation-controls": (("continuation_full",), continuation_controls),
    "retention": (("retention",), retention),
    "references": (("retention",), references),
    "drift-presets": (("drift",), loops.drift_presets),
    "closed-loop": (("closed_loop",), loops.closed_loop),
    "closed-loop-known": (("closed_loop",), loops.closed_loop_known),
    "closed-loop-losses": (("closed_loop",), loops.losses),
    "cache-cost": (("cache_cost",), loops.cache_cost_short),
    "recall": (("recall",), recall),
    "figures": (("engine",), figures),
    "speed": (("long_run",), speed),
    "long-run-figures": (("long_run",), long_figures),
    "many": (("many",), many),
    "scale": (("scale",), scale),
    "pairs": (("peers",), pairs),
    "verification": (("verification",), verification),
    "tokens": (("tokens",), tokens),
    "start": (("start",), start),
    "house": (("house",), house),
    "gateway": (("gateway",), gateway),
    "agent": (("agent",), agent),
    "chat-session": (("chat_session",), chat_session),
}
PRINTED: Made = {
    "compactions-judges": (("compactions",), compactions("compactions-judges")),
    "compactions-long-range": (("compactions",), compactions("compactions-long-range")),
    "continuation-all": (("continuation_full",), continuation_all),
    "continuation-single": (("continuation_small",), continuation_single),
    "long-range": (("continuation_full",), long_range),
    "references-by-source": (("retention",), references_by_source),
    "drift": (("drift",), loops.drift("kept")),
    "drift-recall": (("drift",), loops.drift("recalled")),
    "closed-loop-all": (("closed_loop",), loops.closed_loop_all),
    "closed-loop-model": (("closed_loop_gpu",), loops.by_model),
    "closed-loop-examples": (("closed_loop",), loops.loss_examples),
    "cache-cost-all": (("cache_cost",), loops.cache_cost),
    "engine": (("engine", "peers"), engine),
    "redaction": (("redaction",), redaction),
    "long-run": (("long_run",), long_run),
    "requests": (("requests",), requests),
    "stores": (("stores",), stores),
    "many-ray": (("many_ray",), many_ray),
    "rounds": (("rounds",), rounds),
    "mutation": (("mutation",), mutation),
    "machine": ((), machine),
}
"""Those that no page shows: `python -m benchmarks --print NAME`."""


def documents() -> list[Path]:
    """Those that have a table."""
    every = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    return [path for path in every if _BLOCK.search(path.read_text(encoding="utf-8"))]
