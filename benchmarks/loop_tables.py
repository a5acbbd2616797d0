"""The tables of `drift`, `closed_loop`, `closed_loop_gpu` and `cache_cost`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def closed_loop_8000(found: dict[str, Any]) -> str:
    """The middle window, and no limit."""
    rows: list[list[str]] = []
    for title, row in found["views"].items():
        name, window, recall = title.split("/")
        if window == "8000" or name == "no limit":
            rows.append([name, "yes" if recall == "recall" else "no", share(row["success"]), share(row["rules"]),
                         f"{row['tokens'][0]:,.0f}", f"{row['dollars'][0]:.2f}"])  # fmt: skip
    head = ["view, 8,000 tokens", "recall", "chores done", "rules kept", "tokens sent", "dollars"]
    return f"{markdown(head, rows)}\n\n{_worlds(found)}"


def _worlds(found: dict[str, Any]) -> str:
    worlds = max(row["worlds"] for row in found["views"].values())
    return f"*Per cent ± standard error over {worlds} worlds (seeds from 0), prices of {found['priced']}.*"


def closed_loop(found: dict[str, Any]) -> str:
    head = [
        "view",
        "recall",
        "window",
        "chores done",
        "rules kept",
        "known: user",
        "tool",
        "agent",
        "wasted steps",
        "recalls",
        "tokens sent",
        "dollars",
    ]
    rows: list[list[str]] = []
    for title, row in found["views"].items():
        name, window, recall = title.split("/")
        known = [share(row[f"knows_{source}"]) for source in ("user", "tool", "agent")]
        spent = [f"{100 * row[key][0]:.1f} %" for key in ("wasted", "recalls")]
        size = "–" if name == "no limit" else f"{int(window):,}"
        rows.append([name, "yes" if recall == "recall" else "no", size, share(row["success"]), share(row["rules"]), *known, *spent,
                     f"{row['tokens'][0]:,.0f}", f"{row['dollars'][0]:.2f}"])  # fmt: skip
    return f"{markdown(head, rows)}\n\n{_worlds(found)}"


def losses(found: dict[str, Any]) -> str:
    """How often each loss came about with `refold` and no recall, and one example of each."""
    rows: list[list[str]] = []
    for title, row in found["views"].items():
        name, window, recall = title.split("/")
        if name != "refold" or recall == "recall":
            continue
        for kind, times in sorted(
            row["losses"].items(), key=lambda pair: (pair[0].partition(":")[0], -pair[1])
        ):
            one = row["examples"][kind]
            asked = f"seed {one['seed']}, step {one['step']} ({one['source']})"
            rows.append([f"{int(window):,}", kind, f"{times:,}", asked, cell(one["wanted"]), one.get("why", ""), cell(one["view"])])  # fmt: skip
    return markdown(["window", "loss", "times", "example", "needed", "why", "what the view said"], rows)


def by_model(found: dict[str, Any]) -> str:
    head = [
        "view",
        "window",
        "chores done",
        "user",
        "tool",
        "agent",
        "rules",
        "in the newest result",
        "tokens of a request",
    ]
    rows: list[list[str]] = []
    for title, row in found["views"].items():
        name, _, window = title.partition("/")
        blanks = [share(row["blanks"][source]) for source in ("user", "tool", "agent", "rule", "no need")]
        size = "–" if name == "no limit" else f"{int(window):,}"
        rows.append([name, size, share(row["success"]), *blanks, f"{row['tokens'][0]:,.0f}"])
    chores = max(row["chores"] for row in found["views"].values())
    return f"{markdown(head, rows)}\n\n*{found['model']} on {found['device']}, {found['worlds']} worlds, {chores} chores for each view.*"


def cache_cost_short(found: dict[str, Any]) -> str:
    """What one provider takes, in either window."""
    rows: list[list[str]] = []
    for title, row in found["ways"].items():
        way, _, window = title.rpartition("/")
        paid = row["anthropic"]
        says = f"{row['predicted']:.0f} / {row['real']:.0f}" if row["folds"] else f"– / {row['real']:.0f}"
        rows.append([way, f"{int(window):,}", f"{paid['dollars']:.0f}", share(paid["share"]), f"{paid['dearer']} of {row['sessions']}", says])  # fmt: skip
    model = found["models"]["anthropic"]
    return markdown(
        ["way", "window", f"dollars, {model}", "share", "dearer in", "saved: predicted / replayed"], rows
    )


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
