"""The tables of the page: designs, money, what the columns mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from refold.compare.forms import Form
from refold.compare.report.charts import bar, stack
from refold.compare.report.html import Child, Markup, el
from refold.compare.run import TIMES, Cell, Comparison, variant
from refold.compare.verdict import Group, groups, percent, ranked

COLUMNS: tuple[tuple[str, str], ...] = (
    ("kept", "the mean of the next three: your words, files, and messages that are not gone"),
    ("words", "words that the user typed, verbatim in the view"),
    ("files", "files truly modified or created, named in the view"),
    (
        "messages",
        "what became of them: whole; clipped in their own place; a line of a summary; gone, so that nothing "
        "in the view tells of them",
    ),
    ("view", "tokens of the folded view"),
    (
        "cost",
        "dollars for every request of the transcript, folded whenever it has grown to four budgets; beside "
        "it the difference to not folding",
    ),
    ("time", "seconds for folding"),
    ("calls", "requests to a summariser"),
)
SHAPES: tuple[tuple[Form, str], ...] = (
    ("whole", "f-whole"),
    ("clipped", "f-clipped"),
    ("lines", "f-line"),
    ("gone", "f-gone"),
)
SHARES: tuple[tuple[str, Callable[[Cell], float | None]], ...] = (
    ("words", lambda cell: cell.constraints),
    ("files", lambda cell: cell.artifacts),
)


def colour(preset: str) -> str:
    return f"p-{variant(preset)[0]}"


def budget(asked: str, passes: int) -> str:
    return f"Folded to {asked} {'of the transcript' if '%' in asked else 'tokens'}" + (
        f", {passes} times" if passes > 1 else ""
    )


def designs(rows: Sequence[Group], best: Group | None) -> Markup:
    """Best first; what was not folded, does not fit or failed comes last and has no colours."""
    good = ranked([group for group in rows if group.folded and group.fitting])
    rest = [group for group in rows if group not in good]
    heads = [("design", None), *COLUMNS]
    return _table("designs", heads, [_row(group, best) for group in (*good, *rest)])


def _table(cls: str, heads: Sequence[tuple[str, str | None]], rows: Sequence[Markup]) -> Markup:
    """`heads`: names of columns, and what they mean."""
    named = [el("th", name, title=about, scope="col") for name, about in heads]
    return el("table", el("thead", el("tr", named)), el("tbody", rows), cls=cls)


def _row(group: Group, best: Group | None) -> Markup:
    mark = el("span", "take this", cls="badge best") if best is not None and group == best else None
    name = _name(group, mark=mark)
    if not group.good:
        return el("tr", name, _note(group.cells[0].error or "failed", "bad"))
    if not group.folded:
        tokens = group.mean(lambda cell: cell.tokens) or 0
        fits = "not folded: it fits as it is" if group.fitting else "not folded, and does not fit"
        why = "" if group.fitting else f". {group.cells[0].error or ''}"
        return el("tr", name, _note(f"{fits} ({tokens:,.0f} tokens){why}", "quiet"))
    return el(
        "tr",
        name,
        _share("kept", group.retention),
        [_share(label, group.kept(value)) for label, value in SHARES],
        _messages(group),
        _view(group),
        _cost(group),
        _cell("time", f"{group.mean(lambda cell: cell.seconds) or 0:.1f} s", cls="less"),
        _cell("calls", f"{group.mean(lambda cell: cell.requests) or 0:.0f}", cls="less"),
        cls="" if group.fitting else "over",
    )


def _name(group: Group, more: str = "", mark: Markup | None = None) -> Markup:
    swatch, times = (
        el("span", cls=f"swatch {colour(group.preset)}"),
        f" ×{group.passes}" if group.passes > 1 else "",
    )
    return el("th", swatch, group.name, el("small", f"{group.asked}{times}{more}"), mark, scope="row")


def _note(text: str, cls: str) -> Markup:
    return el("td", text, colspan=len(COLUMNS), cls=f"note {cls}")


def _cell(label: str, *children: Child, cls: str = "") -> Markup:
    return el("td", *children, data_label=label, cls=cls or None)


def _share(label: str, value: float | None) -> Markup:
    if value is None:
        return _cell(label, el("span", "–", title="nothing to measure by", cls="quiet"))
    return _cell(label, el("span", f"{value:.0%}"), bar(value, "share"))


def _messages(group: Group) -> Markup:
    shares = [(name, cls, group.form(name) or 0.0) for name, cls in SHAPES]
    told = ", ".join(f"{name} {share:.0%}" for name, _, share in shares)
    drawn = stack([(share, cls) for _, cls, share in shares], 1.0, told)
    return _cell("messages", el("span", f"{group.form('gone') or 0:.0%} gone"), drawn, cls="messages")


def _view(group: Group) -> Markup:
    tokens, mark = group.mean(lambda cell: cell.tokens) or 0, None
    if group.fitting < len(group.cells):
        why = "does not fit" if len(group.cells) == 1 else f"{group.fitting} of {len(group.cells)} fit"
        mark = el("small", why, cls="bad")
    return _cell("view", el("span", f"{tokens:,.0f}"), mark)


def _cost(group: Group) -> Markup:
    return _cell("cost", el("span", f"${group.cost:,.2f}"), change(group.cost, group.cost_unfolded))


def change(cost: float, none: float) -> Markup | None:
    part = (cost - none) / none if none else 0.0
    return el("small", percent(part), cls="bad" if part > 0 else "good") if abs(part) > 0.005 else None


def dash(rows: Sequence[Group]) -> Markup | None:
    """What “–” means, where there is one."""
    lacking = [
        name for name, value in SHARES if any(group.folded and group.kept(value) is None for group in rows)
    ]
    why = {"words": "the user typed nothing of their own", "files": "no file was changed or created"}
    told = "; ".join(why[name] for name in lacking)
    return el("p", f"–: nothing to measure by ({told}).", cls="quiet") if lacking else None


# ── money ───────────────────────────────────────────────────────────────────────────────────────


class Priced(NamedTuple):
    """What all transcripts cost with one design, at thresholds of so many budgets."""

    group: Group
    totals: dict[int, float]
    summaries: float


def _priced(done: Comparison) -> Iterator[Priced]:
    """A transcript that never gets to a threshold costs what it costs."""
    for group in groups(done.cells):
        paid = [(cell.budget, cell.paid) for cell in group.good if cell.paid]
        if len(paid) < len(done.transcripts):
            continue
        bills = {
            times: [one.by_threshold.get(budget * times, one.none) for budget, one in paid]
            for times in TIMES
            if any(budget * times in one.by_threshold for budget, one in paid)
        }
        totals = {times: sum(bill.dollars for bill in listed) for times, listed in bills.items()}
        most = max((sum(bill.summaries for bill in listed) for listed in bills.values()), default=0.0)
        yield Priced(group, totals, most)


def money(done: Comparison) -> Markup | None:
    none = sum(t.dollars for t in done.transcripts)
    rows = list(_priced(done))
    columns = sorted({times for row in rows for times in row.totals})
    if not columns:
        return None
    heads = [(name, None) for name in ("folded at", *(f"{times} budgets" for times in columns))]
    return el(
        "section",
        el("h2", "Money"),
        el("p", _money_text(done, none, rows), cls="quiet"),
        _table("money", heads, [_money_row(row, none, columns) for row in rows]),
    )


def _money_row(row: Priced, none: float, columns: Sequence[int]) -> Markup:
    paid = f", summaries ${row.summaries:,.2f}" if row.summaries else ""
    return el("tr", _name(row.group, paid), [_sum(row.totals.get(at), none) for at in columns])


def _sum(total: float | None, none: float) -> Markup:
    if total is None:
        return el("td", el("span", "not reached", cls="quiet"))
    return el("td", el("span", f"${total:,.2f}"), change(total, none))


def _money_text(done: Comparison, none: float, rows: Sequence[Priced]) -> str:
    priced = ", ".join(dict.fromkeys(t.prices for t in done.transcripts))
    told = [f"${none:,.2f} without folding; prices of {priced}, prompt cache of five minutes."]
    told.append("Each column: folded whenever the context has grown to so many budgets.")
    over = sum(bool(t.priced.window and t.none.peak > t.priced.window) for t in done.transcripts)
    if over:
        which = "it" if len(done.transcripts) == 1 else f"{over} of {len(done.transcripts)} transcripts"
        told.append(f"Without folding {which} would not fit the model's window.")
    losing = [row.group.name for row in rows for total in row.totals.values() if total > none * 1.005]
    if losing:
        named = ", ".join(dict.fromkeys(losing))
        told.append(
            f"Folding loses money with {named}: cached tokens are cheap, and each fold starts the cache anew."
        )
    return " ".join(told)


def columns() -> Markup:
    return el(
        "section",
        el("h2", "What the columns mean"),
        el("dl", [(el("dt", name), el("dd", about)) for name, about in COLUMNS]),
    )
