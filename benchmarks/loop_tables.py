"""The tables of `drift`, `closed_loop`, `closed_loop_gpu` and `cache_cost`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.cells import cell, markdown

KINDS = ("facts", "artefacts", "decisions", "continuation")


def share(figure: Sequence[float]) -> str:
    return f"{100 * figure[0]:.0f} ± {100 * figure[1]:.0f}"


def drift(key: str) -> Callable[[dict[str, Any]], str]:
    """Shares after 1 … 20 folds, by kind."""

    def table(found: dict[str, Any]) -> str:
        folds = list(next(iter(found["designs"].values())))
        head = ["view", *(f"{kind}, {' / '.join(folds)} folds" for kind in KINDS), "tokens"]
        rows: list[list[str]] = []
        for name, cells in found["designs"].items():
            listed = [cells[number] for number in folds]
            if not any(one["folds"][0] for one in listed) or not listed[-1]["worlds"]:
                why = (
                    listed[-1]["failed"][0] if listed[-1]["failed"] else "has nothing to fold here by itself"
                )
                rows.append([f"`{name}`", cell(why), *[""] * len(KINDS)])
                continue
            columns = [" / ".join(f"{100 * one[key][kind][0]:.0f}" for one in listed) for kind in KINDS]
            errors = [f" (± {100 * listed[-1][key][kind][1]:.0f})" for kind in KINDS]
            tokens = f"{listed[-1]['tokens'][0]:,.0f}"
            rows.append([f"`{name}`", *(a + b for a, b in zip(columns, errors, strict=True)), tokens])
        first, last = found["seeds"]
        return f"{markdown(head, rows)}\n\n*Budget {found['budget']:,}, seeds {first} to {last}.*"

    return table


def drift_presets(found: dict[str, Any]) -> str:
    """Shares after the fewest and the most folds; the presets as they are."""
    rows: list[list[str]] = []
    for name, cells in found["designs"].items():
        if ":" in name:
            continue
        first, *_, last = cells.values()
        shares = [f"{100 * first['kept'][kind][0]:.0f} / {share(last['kept'][kind])}" for kind in KINDS]
        rows.append([f"`{name}`", *shares, f"{last['tokens'][0]:,.0f}"])
    return markdown(["preset", *KINDS, "tokens"], rows)


def closed_loop(found: dict[str, Any]) -> str:
    """Every view in every window, without and with recall; what it costs in the middle one."""
    views, windows = found["views"], found["windows"]
    columns = [f"{window}/{recall}" for recall in ("no recall", "recall") for window in windows]
    middle = columns[len(windows) // 2]
    rows = [
        [name, *(share(views[f"{name}/{column}"]["success"]) if f"{name}/{column}" in views else "–" for column in columns),
         *_kept_and_paid(views[f"{name}/{middle}"])]
        for name in dict.fromkeys(title.partition("/")[0] for title in views if not title.startswith("no limit/"))
    ]  # fmt: skip
    free = views["no limit/1000000/no recall"]
    shares = [share(free["success"])] * len(windows) + ["–"] * len(windows)
    rows.append(["no limit", *shares, *_kept_and_paid(free)])
    named = [
        f"{window:,}{'' if at < len(windows) else ', recall'}" for at, window in enumerate([*windows] * 2)
    ]
    head = ["chores done", *named, *(f"{what}, {named[len(windows) // 2]}" for what in ("rules kept", "tokens sent", "dollars"))]  # fmt: skip
    return f"{markdown(head, rows)}\n\n{_worlds(found)}"


def _kept_and_paid(row: dict[str, Any]) -> list[str]:
    return [share(row["rules"]), f"{row['tokens'][0]:,.0f}", f"{row['dollars'][0]:.2f}"]


def _worlds(found: dict[str, Any]) -> str:
    worlds = max(row["worlds"] for row in found["views"].values())
    return f"*Per cent ± standard error over {worlds} worlds (seeds from 0), prices of {found['priced']}.*"


def closed_loop_known(found: dict[str, Any]) -> str:
    """The middle window: which facts the view gave, and what the reader did about the others."""
    middle = str(found["windows"][len(found["windows"]) // 2])
    rows = [
        [name, *_known(row)[:-1]]
        for name, window, recall, row in _cells(found)
        if window == middle and recall == "no"
    ]
    return markdown(["view", *_KNOWN[:-1]], rows)


def closed_loop_all(found: dict[str, Any]) -> str:
    head = ["view", "recall", "window", "chores done", *_KNOWN, "rules kept", "tokens sent", "dollars"]
    rows = [
        [name, recall, f"{int(window):,}", share(row["success"]), *_known(row), *_kept_and_paid(row)]
        for name, window, recall, row in _cells(found)
    ]
    return f"{markdown(head, rows)}\n\n{_worlds(found)}"


_KNOWN = ("known: said by the user", "by a tool", "by the agent", "wasted steps", "recalls")


def _known(row: dict[str, Any]) -> list[str]:
    known = [share(row[f"knows_{source}"]) for source in ("user", "tool", "agent")]
    return [*known, *(f"{100 * row[key][0]:.1f} %" for key in ("wasted", "recalls"))]


def _cells(found: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """View, window, whether recall is allowed, and what was measured."""
    for title, row in found["views"].items():
        name, window, recall = title.split("/")
        yield name, window, "yes" if recall == "recall" else "no", row


def losses(found: dict[str, Any]) -> str:
    """How often each kind of loss came about with `refold` and no recall, by window, with one example."""
    windows = found["windows"]
    cells = [found["views"][f"refold/{window}/no recall"] for window in windows]
    rows: list[list[str]] = []
    for kind in sorted({kind for row in cells for kind in row["why"]}):
        examples = (one for row in cells for one in row["examples"].values())
        one = next(one for one in examples if f"{one['kind']}: {one['why']}" == kind)
        rows.append([kind, " / ".join(f"{row['why'].get(kind, 0):,}" for row in cells), *_example(one)])
    times = f"times at {' / '.join(f'{window:,}' for window in windows)}"
    return markdown(["loss", times, "example", "needed", "read", "lines about it"], rows)


def loss_examples(found: dict[str, Any]) -> str:
    """One example of every loss of every view, by what was needed."""
    rows = [
        [name, recall, f"{int(window):,}", kind, f"{times:,}", row["examples"][kind]["why"], *_example(row["examples"][kind])]
        for name, window, recall, row in _cells(found)
        for kind, times in sorted(row["losses"].items(), key=lambda pair: -pair[1])
    ]  # fmt: skip
    return markdown(["view", "recall", "window", "loss", "times", "why", "example", "needed", "read", "lines about it"], rows)  # fmt: skip


def _example(one: dict[str, Any]) -> list[str]:
    what = f"the rule on {one['what']}" if one["kind"] == "rule broken" else one["what"]
    asked = f"seed {one['seed']}, step {one['step']}: {what}, said by the {one['source']}"
    told, _, lines = one["view"].removeprefix("read: ").partition(" | ")
    return [
        asked,
        cell(one["wanted"]),
        cell(told) if told != "None" else "nothing",
        cell(" ".join(lines.split())),
    ]


def by_model(found: dict[str, Any]) -> str:
    head = ["view", "window", "chores done", "values said by the user", "by a tool", "by the agent", "rules"]
    rows: list[list[str]] = []
    largest = max(int(window) for title in found["views"] if (window := title.partition("/")[2]))
    for title, row in found["views"].items():
        name, _, window = title.partition("/")
        if name != "no limit" and int(window) != largest:
            continue
        blanks = [share(row["blanks"][source]) for source in ("user", "tool", "agent", "rule")]
        size = "–" if name == "no limit" else f"{int(window):,}"
        rows.append([name, size, share(row["success"]), *blanks])
    chores = max(row["chores"] for row in found["views"].values())
    return f"{markdown(head, rows)}\n\n*{found['model']} on {found['device']}, {found['worlds']} worlds, {chores} chores for each view.*"


def cache_cost_short(found: dict[str, Any]) -> str:
    """What one provider takes, by way; a column group for each window."""
    ways: dict[str, list[dict[str, Any]]] = {}
    for title, row in found["ways"].items():
        ways.setdefault(title.rpartition("/")[0], []).append(row)
    windows = list(dict.fromkeys(int(title.rpartition("/")[2]) for title in found["ways"]))
    rows = [
        [way, *(text for row in listed for text in (f"{row['anthropic']['dollars']:.0f}, {share(row['anthropic']['share'])} %",
                                                    f"{row['anthropic']['dearer']}", _saved(row)))]
        for way, listed in ways.items()
    ]  # fmt: skip
    head = [f"{window:,}: {what}" for window in windows for what in ("dollars, share", "dearer in", "saved: predicted / replayed")]  # fmt: skip
    note = f"*{len(found['sessions'])} sessions, {found['models']['anthropic']}.*"
    return f"{markdown(['way', *head], rows)}\n\n{note}"


def _saved(row: dict[str, Any]) -> str:
    return f"{row['predicted']:.0f} / {row['real']:.0f}" if row["folds"] else f"– / {row['real']:.0f}"


def cache_cost(found: dict[str, Any]) -> str:
    head = ["way", "window", *(f"{model}: dollars, share of no folding, read from cache" for model in found["models"].values()), "dearer in",
            "folds", "a fold costs at once", "pays after (turns, median)", "saved: predicted / replayed"]  # fmt: skip
    rows: list[list[str]] = []
    for title, row in found["ways"].items():
        way, _, window = title.rpartition("/")
        paid = [
            f"{row[name]['dollars']:.2f}, {share(row[name]['share'])} %, {100 * row[name]['read']:.0f} %"
            for name in found["models"]
        ]
        folds = (
            [
                f"{row['folds']:,}",
                f"{row['costs_now'] / row['folds']:.3f}",
                f"{row['paid_after']}",
                f"{row['predicted']:.2f} / {row['real']:.2f}",
            ]
            if row["folds"]
            else ["", "", "", f"– / {row['real']:.2f}"]
        )
        rows.append(
            [way, f"{int(window):,}", *paid, f"{row['anthropic']['dearer']} of {row['sessions']}", *folds]
        )
    note = (
        f"*{len(found['sessions'])} sessions; left out: {len(found['left_out'])} (too short, or unreadable).*"
    )
    return f"{markdown(head, rows)}\n\n{note}"
