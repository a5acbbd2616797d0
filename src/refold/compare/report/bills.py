"""The section about money: every design at every threshold, against not folding at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from refold.compare.groups import groups
from refold.compare.report.charts import bar
from refold.compare.report.html import Markup, el
from refold.compare.run import Bill, Cell, Comparison


class Priced(NamedTuple):
    """What all transcripts cost with one design: at each threshold, in budgets."""

    preset: str
    asked: str
    totals: dict[int, float]
    summaries: float


def _priced(done: Comparison) -> list[Priced]:
    found: list[Priced] = []
    for group in groups(done.cells):
        cells = [cell for cell in group.good if cell.paid]
        if len(cells) < len(done.transcripts):
            continue
        reached = sorted({_times(cell, at) for cell in cells if cell.paid for at in cell.paid.by_threshold})
        bills = {times: [_bill(cell, times) for cell in cells] for times in reached}
        asked = group.asked + (f" ×{group.passes}" if group.passes > 1 else "")
        totals = {times: sum(bill.dollars for bill in listed) for times, listed in bills.items()}
        most = max((sum(bill.summaries for bill in listed) for listed in bills.values()), default=0.0)
        found.append(Priced(group.preset, asked, totals, most))
    return found


def _times(cell: Cell, threshold: int) -> int:
    return round(threshold / max(cell.budget, 1))


def _bill(cell: Cell, times: int) -> Bill:
    """At that many budgets; a transcript that never gets there costs what it costs."""
    assert cell.paid is not None
    found = {_times(cell, at): bill for at, bill in cell.paid.by_threshold.items()}
    return found.get(times, cell.paid.none)


def section(done: Comparison) -> Markup:
    none = sum(t.none.dollars for t in done.transcripts)
    rows = _priced(done)
    most = max([none, *(total for row in rows for total in row.totals.values())]) or 1
    several = len({row.asked for row in rows}) > 1
    return el(
        "section",
        el("h2", "Money"),
        el("p", _verdict(done, none, rows), cls="quiet"),
        el(
            "div",
            el("div", _money_head("no compaction", "", "none"), _money_bar("all", none, none, most, "none")),
            [_money_rows(row, none, most, several) for row in rows],
            cls="money",
        ),
    )


def _money_rows(row: Priced, none: float, most: float, several: bool) -> Markup:
    about = [row.asked if several else "", f"summaries ${row.summaries:,.2f}" if row.summaries else ""]
    if not row.totals:
        about.append("never folded")
    bars = [
        _money_bar(f"at {times}×", total, none, most, f"p-{row.preset}")
        for times, total in row.totals.items()
    ]
    return el("div", _money_head(row.preset, ", ".join(filter(None, about)), f"p-{row.preset}"), bars)


def _money_head(name: str, about: str, cls: str) -> Markup:
    return el("h4", el("span", el("span", cls=f"swatch {cls}"), name), el("small", about) if about else None)


def _money_bar(at: str, total: float, none: float, most: float, cls: str) -> Markup:
    change = (total - none) / none if none else 0.0
    note = None
    if at and abs(change) > 0.005:
        note = el("small", f"{change:+.0%}", cls="bad" if change > 0 else "good")
    return el(
        "div",
        el("small", at, cls="at"),
        bar(total / most, cls),
        el("span", f"${total:,.2f}", cls="sum"),
        note or el("small"),
        cls="row",
    )


def _verdict(done: Comparison, none: float, rows: Sequence[Priced]) -> str:
    priced = ", ".join(dict.fromkeys(t.prices.name for t in done.transcripts))
    said = [f"Prices of {priced}; prompt cache of five minutes, pauses from the transcript."]
    said.append("Folded when the context has grown to 2, 4 or 8 times the budget.")
    over = sum(bool(t.prices.window and t.none.peak > t.prices.window) for t in done.transcripts)
    if over:
        which = "it" if len(done.transcripts) == 1 else f"{over} of {len(done.transcripts)} transcripts"
        said.append(f"Without folding {which} would not fit the model's window.")
    totals = [total for row in rows for total in row.totals.values()]
    losing = [row.preset for row in rows for total in row.totals.values() if total > none * 1.005]
    if not totals:
        said.append("No threshold was reached: nothing is folded, nothing is saved.")
    elif losing:
        named = ", ".join(dict.fromkeys(losing))
        said.append(f"Folding loses money with {named} at {len(losing)} of {len(totals)} thresholds:")
        said.append("cached tokens are cheap, and each fold starts the cache anew.")
    elif none:
        said.append(f"Folding saves up to {1 - min(totals) / none:.0%} here.")
    return " ".join(said)
