"""The page: the verdict, all designs, what was lost and where, size over time, money, every transcript."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from refold.compare.report import charts, inside, tables
from refold.compare.report.charts import short
from refold.compare.report.html import Child, Markup, el
from refold.compare.report.tables import colour
from refold.compare.run import Cell, Comparison, Transcript
from refold.compare.verdict import RULE, Group, Verdict, groups, verdict


@cache
def _read(name: str) -> str:
    return files(__package__ or "").joinpath(name).read_text("utf-8")


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page(done: Comparison) -> str:
    """The whole report as one HTML document. Nothing is loaded, and nothing runs but our own script."""
    style, script = _read("style.css"), _read("explorer.js")
    policy = (
        f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    found = verdict(done.cells, [t.tokens for t in done.transcripts])
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
    main = el(
        "main",
        _opening(done, found),
        _designs(done, found),
        _inside(done, found),
        _sizes(done, found),
        tables.money(done),
        _each(done, found),
        tables.columns(),
        _footer(),
    )
    return f"<!doctype html>\n{el('html', head, el('body', main, el('script', Markup(script))), lang='en')}\n"


def spoken(text: str) -> Child:
    """A sentence; names in backticks as code."""
    return [el("code", piece) if n % 2 else piece for n, piece in enumerate(text.split("`"))]


def _opening(done: Comparison, found: Verdict) -> Markup:
    count, names = len(done.transcripts), [name_of(t.file) for t in done.transcripts[:3]]
    messages = sum(t.messages for t in done.transcripts)
    about = (
        ", ".join(names) + (f" and {count - 3} more" if count > 3 else ""),
        f"{messages:,} messages",
        f"{sum(t.tokens for t in done.transcripts):,} tokens",
    )
    return el(
        "header",
        el("p", "refold compare", cls="eyebrow"),
        el("h1", spoken(found.title)),
        el("ul", [el("li", spoken(line)) for line in found.text], cls="verdict"),
        _before_after(done, found.best),
        el("p", " · ".join(filter(None, about)), cls="quiet"),
        [el("p", f"{name_of(file)}: {error}", cls="bad") for file, error in done.unread],
    )


def _before_after(done: Comparison, best: Group | None) -> Markup | None:
    if best is None:
        return None
    whole = sum(t.tokens for t in done.transcripts)
    left = sum(cell.tokens or 0 for cell in best.good)
    return el(
        "div",
        el("span", "before"),
        charts.stack([(whole, "none")], whole),
        el("b", short(whole)),
        el("span", "after"),
        charts.stack([(left, colour(best.preset))], whole),
        el("b", short(left)),
        cls="strips",
    )


def _designs(done: Comparison, found: Verdict) -> Markup:
    listed = groups(done.cells)
    kinds = dict.fromkeys((group.asked, group.passes) for group in listed)
    parts = [
        (
            el("h3", tables.budget(asked, passes)),
            tables.designs([g for g in listed if (g.asked, g.passes) == (asked, passes)], found.best),
        )
        for asked, passes in kinds
    ]
    many = (
        "Means over the transcripts that were folded; cost is the sum. " if len(done.transcripts) > 1 else ""
    )
    return el(
        "section", el("h2", "All designs"), el("p", many, RULE, cls="quiet"), parts, tables.dash(listed)
    )


def _inside(done: Comparison, found: Verdict) -> Markup:
    """The reader that `explorer.js` fills; the data lies beside it, compressed."""
    best = found.best.cells[0] if found.best else None
    share = 1 / max(len(done.transcripts), 1)
    names = [el("option", name_of(t.file), value=n) for n, t in enumerate(done.transcripts)]
    chosen = el("select", names, data_part="transcript", disabled=len(names) < 2)
    return el(
        "section",
        el("h2", "Look inside: before, after, and what was lost"),
        el(
            "noscript",
            el("p", "This part of the page needs its script, which is part of the page.", cls="quiet"),
        ),
        el(
            "div",
            Markup(_read("explorer.html").replace("<!-- transcripts -->", chosen)),
            id="explorer",
            hidden=True,
            data_best=inside.title(best) if best else None,
        ),
        [inside.block(t, done.of(t.file), share) for t in done.transcripts],
        id="inside",
    )


def _sizes(done: Comparison, found: Verdict) -> Markup | None:
    if not done.transcripts:
        return None
    longest = max(done.transcripts, key=lambda t: t.tokens)
    which = f"The longest transcript, {name_of(longest.file)}: e" if len(done.transcripts) > 1 else "E"
    text = (
        f"{which}very request, replayed on token counts: whenever the context passes the dashed threshold "
        "it is folded to what the design was measured to leave. Grey: without folding."
    )
    cells = done.of(longest.file)
    shown = found.best or cells[0]
    same = [cell for cell in cells if (cell.asked, cell.passes) == (shown.asked, shown.passes)]
    drawn = el("div", [_saw(cell, longest) for cell in same], cls="saws")
    return el("section", el("h2", "Size of the context"), el("p", text, cls="quiet"), drawn)


def _saw(cell: Cell, t: Transcript) -> Markup:
    paid, name = cell.paid, inside.title(cell)
    bill = paid.usual if paid else None
    told = "failed" if bill is None else "never folded"
    if bill and bill.folds:
        told = f"{bill.folds} fold{'s' if bill.folds > 1 else ''}, peak {short(bill.peak)}"
    limit = paid.threshold if paid and paid.by_threshold else None
    swatch = el("span", cls=f"swatch {colour(cell.preset)}")
    curve = bill.curve if bill else ()
    return el(
        "figure",
        el("figcaption", el("b", swatch, name), el("small", told)),
        charts.saw(curve, t.none.curve, limit, f"context size with {name}", colour(cell.preset)),
    )


def _each(done: Comparison, found: Verdict) -> Markup | None:
    if len(done.transcripts) < 2:
        return None
    parts = [_transcript(done, t, number, found) for number, t in enumerate(done.transcripts)]
    return el("section", el("h2", "Every transcript"), parts)


def _transcript(done: Comparison, t: Transcript, number: int, found: Verdict) -> Markup:
    cells = done.of(t.file)
    about = f"{t.messages:,} messages, {short(t.tokens)} tokens"
    return el(
        "details",
        el("summary", el("b", name_of(t.file)), " ", el("small", about, _told(cells, found.best))),
        el("button", "Look inside", type="button", data_open=number, hidden=True),
        tables.designs(groups(cells), None),
        cls="transcript",
    )


def _told(cells: Sequence[Cell], best: Group | None) -> str:
    """What the design of the verdict does to one transcript."""
    wanted = (best.preset, best.asked, best.passes) if best else None
    cell = next((cell for cell in cells if (cell.preset, cell.asked, cell.passes) == wanted), None)
    if cell is None or cell.failed:
        return ""
    if cell.untouched:
        return "; not folded" if cell.fits else "; does not fit"
    return f"; {cell.share('gone') or 0:.0%} gone, {short(cell.tokens or 0)} left" + (
        "" if cell.fits else ", does not fit"
    )


def _footer() -> Markup:
    return el(
        "footer",
        el(
            "p",
            "All figures are computed by code, without a judge. A check of a summary is literal: names, "
            "paths, numbers, commands and quotations occur in what it summarises; it cannot see that a test "
            "“passes” which failed. Money is a replay with list prices and a model of the prompt cache, not "
            "a bill. Secrets are redacted on this page. Nothing is ever deleted: the log keeps every "
            "message, and every fold can be undone.",
        ),
    )


def name_of(file: str) -> str:
    return file.rstrip("/").rpartition("/")[2] or file
