"""The page: at a glance, size over time, retention, money, and every transcript with its folds."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files

from refold.compare.forms import Form
from refold.compare.groups import Group, groups
from refold.compare.report import bills, charts, folds
from refold.compare.report.charts import Point, bar, short
from refold.compare.report.html import Child, Markup, el, join
from refold.compare.run import Cell, Comparison, Transcript

TEXTS = 1_500_000
"""Characters of records on the whole page; each gets its share, within these limits."""
LEAST, MOST = 700, 14_000
SHARES: tuple[tuple[str, str, Callable[[Cell], float | None]], ...] = (
    ("words", "words that the user typed, verbatim in the view", lambda cell: cell.constraints),
    ("files", "files truly modified or created, named in the view", lambda cell: cell.artifacts),
)
SHAPES: tuple[tuple[Form, str], ...] = (
    ("whole", "messages that stand in the view as they were"),
    ("clipped", "messages that are shorter, in their own place"),
    ("lines", "messages of which a summary or a line says something"),
    ("gone", "messages that nothing in the view tells of"),
)


@cache
def _style() -> str:
    return files(__package__ or "").joinpath("style.css").read_text("utf-8")


def page(done: Comparison) -> str:
    """The whole report as one HTML document. No scripts, no links, no network."""
    style = _style()
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", "refold compare"),
        el("style", Markup(style)),
    )
    body = el("body", el("main", _header(done), _glance(done), _charts(done), _each(done), _footer()))
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _header(done: Comparison) -> Markup:
    tokens = sum(t.tokens for t in done.transcripts)
    messages = sum(len(t.steps.sums) - 1 for t in done.transcripts)
    count = len(done.transcripts)
    figures = (
        (f"{count:,}", "transcript" if count == 1 else "transcripts"),
        (f"{messages:,}", "messages"),
        (short(tokens), "tokens"),
        (str(len({cell.preset for cell in done.cells})), "designs"),
    )
    names = ", ".join(_name(t.file) for t in done.transcripts[:3]) + (" …" if count > 3 else "")
    return el(
        "header",
        el("p", "refold compare", cls="eyebrow"),
        el("h1", "What each design does to your conversation" + ("s" if count > 1 else "")),
        el("p", names, cls="quiet") if names else None,
        el("ul", [el("li", el("b", value), " ", label) for value, label in figures], cls="figures"),
    )


def _glance(done: Comparison) -> Markup:
    found = groups(done.cells)
    kinds = dict.fromkeys((group.asked, group.passes) for group in found)
    tables = [
        join(
            (
                el("h3", _budget(asked, passes)) if len(kinds) > 1 else None,
                _table([group for group in found if (group.asked, group.passes) == (asked, passes)]),
            )
        )
        for asked, passes in kinds
    ]
    only = next(iter(kinds), ("", 1))
    lead = "" if len(kinds) > 1 else f"{_budget(*only)}. "
    many = "Means over all transcripts; cost is the sum. " if len(done.transcripts) > 1 else ""
    return el(
        "section",
        el("h2", "At a glance"),
        el("p", f"{lead}{many}What the folded view holds of the conversation.", cls="quiet"),
        tables,
    )


def _budget(asked: str, passes: int) -> str:
    return f"Folded to {asked} {'of the transcript' if '%' in asked else 'tokens'}" + (
        f", {passes} times" if passes > 1 else ""
    )


def _table(rows: Sequence[Group]) -> Markup:
    largest = max((group.mean(lambda cell: cell.tokens) or 0 for group in rows), default=1) or 1
    heads = [
        ("design", ""),
        ("view", "tokens of the folded view"),
        *((name, about) for name, about, _ in SHARES),
        *SHAPES,
    ]
    heads += [
        ("cost", "dollars for the whole transcript"),
        ("time", "seconds"),
        ("calls", "requests to a summariser"),
    ]
    return el(
        "div",
        el(
            "table",
            el(
                "thead", el("tr", [el("th", name, title=about or None, scope="col") for name, about in heads])
            ),
            el("tbody", [_row(group, largest) for group in rows]),
        ),
        cls="scroll",
    )


def _row(group: Group, largest: float) -> Markup:
    name = el("th", el("span", cls=f"swatch p-{group.preset}"), group.preset, scope="row")
    if not group.good:
        return el("tr", name, el("td", group.cells[0].error or "failed", colspan=10, cls="bad note"))
    tokens = group.mean(lambda cell: cell.tokens) or 0
    fits = sum(bool(cell.fits) for cell in group.good)
    mark = None
    if fits < len(group.cells):
        why = "does not fit" if len(group.cells) == 1 else f"{fits} of {len(group.cells)} fit"
        mark = el("small", why, cls="bad")
    shares = [_share(group.mean(value)) for _, _, value in SHARES]
    shares += [_form(group.mean(lambda cell, form=form: cell.share(form)), form) for form, _ in SHAPES]
    return el(
        "tr",
        name,
        el("td", el("span", f"{tokens:,.0f}", mark), bar(tokens / largest, f"p-{group.preset}"), cls="n"),
        shares,
        _cost(group),
        el("td", f"{group.mean(lambda cell: cell.seconds) or 0:.1f} s", cls="n"),
        el("td", f"{group.mean(lambda cell: cell.requests) or 0:.0f}", cls="n"),
    )


def _share(value: float | None) -> Markup:
    if value is None:
        return el("td", "–", cls="n quiet")
    level = "high" if value >= 0.9 else "mid" if value >= 0.5 else "low"
    return el("td", el("span", f"{100 * value:.0f} %"), bar(value, level), cls="n")


def _form(value: float | None, form: Form) -> Markup:
    """Neither good nor bad in itself, but for what is gone."""
    if value is None:
        return el("td", "–", cls="n quiet")
    return el("td", el("span", f"{100 * value:.0f} %"), bar(value, "low" if form == "gone" else ""), cls="n")


def _cost(group: Group) -> Markup:
    paid = [cell.paid for cell in group.good if cell.paid]
    spent, none = sum(p.usual.dollars for p in paid), sum(p.none.dollars for p in paid)
    change = (spent - none) / none if none else 0.0
    note = (
        el("small", f"{change:+.0%}", cls="bad" if change > 0.005 else "good")
        if abs(change) > 0.005
        else None
    )
    return el("td", el("span", f"${spent:,.2f}", note), cls="n")


def _charts(done: Comparison) -> Markup:
    if not done.transcripts:
        return Markup("")
    longest = max(done.transcripts, key=lambda t: t.tokens)
    return join(
        (
            el(
                "section",
                el("h2", "Size of the context over the session"),
                el("p", _saw_text(longest, done), cls="quiet"),
                _saws(done, longest),
            ),
            el("div", _retention(done), _reading(), cls="two"),
            bills.section(done),
        )
    )


def _saw_text(t: Transcript, done: Comparison) -> str:
    which = f"The longest transcript, {_name(t.file)}: e" if len(done.transcripts) > 1 else "E"
    return (
        f"{which}very request, replayed on token counts: whenever the context passes the dashed threshold "
        "it is folded to what the design was measured to leave. Grey: without folding."
    )


def _saws(done: Comparison, t: Transcript) -> Markup:
    cells = done.of(t.file)
    first = (cells[0].asked, cells[0].passes) if cells else ("", 1)
    drawn = [cell for cell in cells if (cell.asked, cell.passes) == first]
    return el("div", [_saw(cell, t) for cell in drawn], cls="saws")


def _saw(cell: Cell, t: Transcript) -> Markup:
    paid = cell.paid
    bill = paid.usual if paid else None
    if bill is None:
        said = "failed"
    elif not bill.folds:
        said = "never folded"
    else:
        said = f"{bill.folds} fold{'s' if bill.folds > 1 else ''}, peak {short(bill.peak)}"
    limit = paid.threshold if paid and paid.by_threshold else None
    return el(
        "figure",
        el(
            "figcaption",
            el("span", cls=f"swatch p-{cell.preset}"),
            el("b", cell.preset),
            " ",
            el("small", said),
        ),
        charts.saw(
            bill.curve if bill else (),
            t.none.curve,
            limit,
            f"context size with {cell.preset}",
            f"p-{cell.preset}",
        ),
    )


def _retention(done: Comparison) -> Markup:
    points: list[Point] = []
    found = groups(done.cells)
    several = len({(group.asked, group.passes) for group in found}) > 1
    for group in found:
        tokens, kept = group.mean(lambda cell: cell.tokens), group.retention
        if tokens is None or kept is None:
            continue
        label = f"{group.preset} {group.asked}" + (f" ×{group.passes}" if group.passes > 1 else "")
        fits = all(cell.fits for cell in group.good)
        title = f"{label}: {tokens:,.0f} tokens, {kept:.0%} kept" + ("" if fits else ", does not fit")
        points.append(
            Point(tokens, kept, label if several else group.preset, f"p-{group.preset}", fits, title)
        )
    budgets = sorted({float(cell.budget) for cell in done.cells if cell.budget and "%" not in cell.asked})
    return el(
        "section",
        el("h2", "Retention against tokens"),
        el(
            "p",
            "Mean of words, files, and messages not gone. Up and left is better; hollow: over budget.",
            cls="quiet",
        ),
        charts.scatter(points, budgets, "retention against tokens"),
        _legend(dict.fromkeys(group.preset for group in found)) if len(points) > 12 else None,
    )


def _legend(names: Iterable[str]) -> Markup:
    return el("ul", [el("li", el("span", cls=f"swatch p-{name}"), name) for name in names], cls="legend")


def _each(done: Comparison) -> Markup:
    shown = sum(not cell.failed for cell in done.cells) * folds.SHOWN
    room = max(LEAST, min(MOST, TEXTS // max(shown, 1)))
    many = len(done.transcripts) > 1
    bad = [el("p", f"{_name(file)}: {error}", cls="bad") for file, error in done.unread]
    parts = [_transcript(done, t, room, many) for t in done.transcripts]
    return el("section", el("h2", "Every fold, before and after"), bad, parts)


def _transcript(done: Comparison, t: Transcript, room: int, many: bool) -> Markup:
    cells = done.of(t.file)
    inside: list[Child] = []
    if many:
        inside += [_table(groups(cells)), _saws(done, t)]
    inside += [_cell(cell, room, opened=not many and number == 0) for number, cell in enumerate(cells)]
    if not many:
        return join(inside)
    about = f"{len(t.steps.sums) - 1:,} messages, {short(t.tokens)} tokens"
    return el(
        "details", el("summary", el("b", _name(t.file)), " ", el("small", about)), inside, cls="transcript"
    )


def _cell(cell: Cell, room: int, *, opened: bool = False) -> Markup:
    about = "failed" if cell.failed else f"{cell.tokens:,} tokens" + ("" if cell.fits else ", does not fit")
    passes = f", {cell.passes} passes" if cell.passes > 1 else ""
    return el(
        "details",
        el(
            "summary",
            el("span", cls=f"swatch p-{cell.preset}"),
            el("b", cell.preset),
            " ",
            el("small", f"{cell.asked}{passes}: {about}"),
        ),
        folds.cell_folds(cell, room),
        cls="cell",
        open=opened,
    )


def _reading() -> Markup:
    money = (
        "dollars for every request of the transcript, folded whenever it has grown to four budgets; "
        "beside it the difference to not folding"
    )
    rows = (*((name, about) for name, about, _ in SHARES), *SHAPES, ("cost", money))
    return el(
        "section",
        el("h2", "What the columns mean"),
        el("dl", [(el("dt", name), el("dd", about)) for name, about in rows], cls="columns"),
        el(
            "p",
            "Computed by code, without a judge. A design that was made for another window may not fit a "
            "small budget; that is said, not hidden.",
            cls="quiet",
        ),
    )


def _footer() -> Markup:
    return el(
        "footer",
        el(
            "p",
            "“Verified” means that names, paths, numbers, commands and quotations of a summary occur in "
            "what it summarises; it cannot see that a test “passes” which failed. Money is a replay with "
            "list prices and a model of the prompt cache, not a bill. Nothing is ever deleted: the log "
            "keeps every message, and every fold can be undone.",
        ),
    )


def _name(file: str) -> str:
    return file.rstrip("/").rpartition("/")[2] or file
