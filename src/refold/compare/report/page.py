"""The page: the verdict, all presets, the fate of every message, every transcript."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from refold.compare.measures import MEASURES
from refold.compare.report import message_details, tables
from refold.compare.report.html import Child, Markup, el
from refold.compare.run import Cell, Comparison, Transcript
from refold.compare.verdict import RULE, PresetGroup, Verdict, budget, dollars, preset_groups, verdicts


@cache
def _read(name: str) -> str:
    return files(__package__ or "").joinpath(name).read_text("utf-8")


def _allowed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page(done: Comparison) -> str:
    """The report as one HTML document. It loads nothing and runs only its own script."""
    style, script = _read("style.css"), _read("explorer.js")
    policy = (
        f"default-src 'none'; style-src {_allowed(style)}; script-src {_allowed(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    found = verdicts(done.cells)
    bests = [verdict.best for verdict in found if verdict.best]
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
        _presets(done, bests),
        _inside(done, bests),
        _each(done, bests),
        tables.column_meanings(),
        _footer(),
    )
    return f"<!doctype html>\n{el('html', head, el('body', main, el('script', Markup(script))), lang='en')}\n"


def with_code(text: str) -> Child:
    """A sentence with backticked names as code."""
    return [el("code", piece) if n % 2 else piece for n, piece in enumerate(text.split("`"))]


def _opening(done: Comparison, found: Sequence[Verdict]) -> Markup:
    count, names = len(done.transcripts), [name_of(t.file) for t in done.transcripts[:3]]
    holds = {words: sum(t.holds[name] for t in done.transcripts) for name, (_, words) in MEASURES.items()}
    about = (
        ", ".join(names) + (f" and {count - 3} more" if count > 3 else ""),
        f"{sum(t.messages for t in done.transcripts):,} messages",
        f"{sum(t.tokens for t in done.transcripts):,} tokens",
        f"{dollars(sum(t.dollars for t in done.transcripts))} without folding",
        "prices of " + ", ".join(dict.fromkeys(t.prices for t in done.transcripts)),
        *(f"{number:,} {words}" for words, number in holds.items() if number),
    )
    return el(
        "header",
        el("p", "refold compare", cls="eyebrow"),
        [
            (
                el("h2" if number else "h1", with_code(verdict.title)),
                el("ul", [el("li", with_code(line)) for line in verdict.lines], cls="verdict"),
            )
            for number, verdict in enumerate(found)
        ],
        el("p", " · ".join(about), cls="quiet") if count else None,
        [el("p", f"{name_of(file)}: {error}", cls="bad") for file, error in done.unread],
    )


def _presets(done: Comparison, bests: Sequence[PresetGroup]) -> Markup:
    many = "Sums over the logs that are larger than the budget. " if len(done.transcripts) > 1 else ""
    notes = el("p", many, RULE, " ", tables.DASH, cls="quiet")
    return el("section", el("h2", "All presets"), notes, _by_budget(done.cells, bests))


def _by_budget(cells: Sequence[Cell], bests: Sequence[PresetGroup]) -> Iterator[Markup]:
    listed = preset_groups(cells)
    for asked, passes in dict.fromkeys((cell.asked, cell.passes) for cell in cells):
        rows = [group for group in listed if group.kind == (asked, passes)]
        best = next((group for group in bests if group.kind == (asked, passes)), None)
        times = f", {passes} times" if passes > 1 else ""
        yield el("h3", f"Folded to {budget(asked)}{times}")
        yield tables.presets(rows, best) if rows else el("p", "fits as it is", cls="quiet")


def _inside(done: Comparison, bests: Sequence[PresetGroup]) -> Markup:
    """The reader that `explorer.js` fills; its data is embedded, compressed."""
    best = bests[0].cells[0] if bests else None
    share = 1 / max(len(done.transcripts), 1)
    names = [el("option", name_of(t.file), value=n) for n, t in enumerate(done.transcripts)]
    chosen = el("select", names, data_part="transcript", disabled=len(names) < 2)
    return el(
        "section",
        el("h2", "Look inside: every message before and after"),
        el(
            "noscript",
            el("p", "This part of the page needs JavaScript; the script is included.", cls="quiet"),
        ),
        el(
            "div",
            Markup(_read("explorer.html").replace("<!-- transcripts -->", chosen)),
            id="explorer",
            hidden=True,
            data_best=message_details.cell_title(best) if best else None,
        ),
        [message_details.transcript_section(t, done.of(t.file), share) for t in done.transcripts],
        id="inside",
    )


def _each(done: Comparison, bests: Sequence[PresetGroup]) -> Markup | None:
    if len(done.transcripts) < 2:
        return None
    parts = [_transcript(done.of(t.file), t, number, bests) for number, t in enumerate(done.transcripts)]
    return el("section", el("h2", "Every transcript"), parts)


def _transcript(cells: Sequence[Cell], t: Transcript, number: int, bests: Sequence[PresetGroup]) -> Markup:
    about = (
        f"{t.messages:,} messages, {short_number(t.tokens)} tokens{_told(cells, bests[0]) if bests else ''}"
    )
    return el(
        "details",
        el("summary", el("b", name_of(t.file)), " ", el("small", about)),
        el("button", "Look inside", type="button", data_open=number, hidden=True),
        _by_budget(cells, ()),
        cls="transcript",
    )


def _told(cells: Sequence[Cell], best: PresetGroup) -> str:
    """What the best preset does to one log."""
    kind = (best.preset, *best.kind)
    cell = next((cell for cell in cells if (cell.preset, cell.asked, cell.passes) == kind), None)
    if cell is None or cell.failed:
        return ""
    if not cell.needs_folding:
        return "; fits as it is"
    return f"; {short_number(cell.tokens or 0)} with {best.preset}" + ("" if cell.fits else ", does not fit")


def _footer() -> Markup:
    return el(
        "footer",
        el(
            "p",
            "All figures are counted in the log and looked up in the view, by code that shares nothing with "
            "what writes summaries. A check of a summary is literal: names, "
            "paths, numbers, commands and quotations occur in what it summarises; it cannot see that a test "
            "“passes” which failed. Money is a replay with list prices and a model of the prompt cache, not "
            "a bill. Secrets are redacted on this page. Nothing is ever deleted: the log keeps every "
            "message, and every fold can be undone.",
        ),
    )


def name_of(file: str) -> str:
    return file.rstrip("/").rpartition("/")[2] or file


def short_number(number: float) -> str:
    """1234 → 1.2k."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            value = number / limit
            return f"{value:.1f}".removesuffix(".0") + unit if value < 100 else f"{value:.0f}{unit}"
    return f"{number:.0f}"
