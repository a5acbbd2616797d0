"""The tables of the page: presets, money, what the columns mean."""

from __future__ import annotations

from collections.abc import Sequence

from refold.compare.forms import FORM_WORDS, MessageForm, form_counts
from refold.compare.measures import MEASURES
from refold.compare.report.html import Child, Markup, el
from refold.compare.run import variant
from refold.compare.verdict import PresetGroup, change, dollars, percent

PRESET_COLUMNS: tuple[tuple[str, str], ...] = (
    ("kept", "the mean of words, files and names, as far as the log has some"),
    ("words", "words that the user typed: sentences that stand in the view word for word"),
    ("files", "files changed or created by a tool that names them, named in the view"),
    (
        "names",
        "names needed later: identifiers that calls in the last quarter of the log use, that stand before it "
        "and are not mentioned again in between; looked up in a view of the first three quarters",
    ),
    ("paths", "files that a tool read, changed, moved or deleted, named in the view"),
    ("calls", "calls whose files, command, pattern or arguments stand in the view"),
    ("numbers", "numbers of three digits and more that the user typed or the assistant said"),
    ("identifiers", "identifiers in the arguments of calls"),
    (
        "messages",
        "what became of them: whole; clipped in their own place; as one line of a summary; not shown",
    ),
    ("view", "tokens of the folded view"),
    (
        "cost",
        "dollars for every request of the log, folded whenever it has grown to four budgets, with list "
        "prices and a prompt cache of five minutes; beside it the difference to not folding, which can be "
        "cheaper: after a fold the context is cached anew",
    ),
)
SHAPES: dict[MessageForm, str] = {
    "whole": "f-whole",
    "clipped": "f-clipped",
    "lines": "f-line",
    "gone": "f-gone",
}
DASH = "–: nothing to measure by in this log."


def colour(preset: str) -> str:
    return f"p-{variant(preset)[0]}"


def presets(rows: Sequence[PresetGroup], best: PresetGroup | None) -> Markup:
    """Best first; presets that do not fit or failed come last and have no shares."""
    heads = [("preset", None), *PRESET_COLUMNS]
    named = [el("th", name, title=about, scope="col") for name, about in heads]
    body = el("tbody", [_row(group, best) for group in rows])
    return el("table", el("thead", el("tr", named)), body, cls="presets")


def _row(group: PresetGroup, best: PresetGroup | None) -> Markup:
    name = _name(
        group, el("span", "keeps most", cls="badge best") if best and group.preset == best.preset else None
    )
    if not group.fitting:
        error = group.cells[0].error or "does not fit"
        return el(
            "tr",
            name,
            el("td", error, colspan=len(PRESET_COLUMNS), cls="note quiet" if group.good else "note bad"),
        )
    return el(
        "tr",
        name,
        _share("kept", group.kept(), RANKED),
        [_counted(group, measure) for measure in MEASURES],
        _messages(group),
        _view(group),
        _cell("cost", el("span", dollars(group.cost)), _change(group.cost, group.cost_unfolded)),
    )


RANKED = "the mean of words, files and names"


def _name(group: PresetGroup, mark: Markup | None) -> Markup:
    swatch = el("span", cls=f"swatch {colour(group.preset)}")
    same = [el("small", f"and {name.replace(':', ', ')}") for name in group.same]
    return el("th", swatch, group.name, same, mark, scope="row")


def _cell(label: str, *children: Child, cls: str = "") -> Markup:
    return el("td", *children, data_label=label, cls=cls or None)


def _counted(group: PresetGroup, measure: str) -> Markup:
    count = group.total(measure)
    return _share(MEASURES[measure][0], count.share, f"{count.kept:,} of {count.of:,}")


def _share(label: str, value: float | None, title: str) -> Markup:
    if value is None:
        return _cell(label, el("span", "–", title="nothing to measure by", cls="quiet"))
    return _cell(label, el("span", percent(value), title=title), svg_bar(value, "share"))


def _messages(group: PresetGroup) -> Markup:
    counts: dict[MessageForm, int] = {form: group.form(form) for form in FORM_WORDS}
    whole = sum(counts.values())
    drawn = stack([(counts[form], SHAPES[form]) for form in FORM_WORDS], whole, form_counts(counts))
    return _cell("messages", el("span", f"{counts['gone']:,} not shown"), drawn, cls="messages")


def _view(group: PresetGroup) -> Markup:
    some = len(group.fitting) < len(group.cells)
    mark = el("small", f"fits {len(group.fitting)} of {len(group.cells)}", cls="bad") if some else None
    return _cell("view", el("span", f"{group.tokens:,}"), mark)


def _change(cost: float, none: float) -> Markup | None:
    told = change(cost, none)
    return el("small", told, cls="bad" if cost > none else "good") if told else None


def column_meanings() -> Markup:
    return el(
        "section",
        el("h2", "What the columns mean"),
        el("dl", [(el("dt", name), el("dd", about)) for name, about in PRESET_COLUMNS]),
    )


# ── bars ────────────────────────────────────────────────────────────────────────────────────────
# Colours come from the style sheet, so that they follow dark mode and print.


def svg_bar(share: float, cls: str = "") -> Markup:
    """A horizontal bar that fills its place."""
    width = max(0.0, min(1.0, share)) * 100
    return _strip(el("rect", width=width, height=8, cls=f"fill {cls}"), aria_hidden="true")


def stack(parts: Sequence[tuple[float, str]], whole: float, title: str = "") -> Markup:
    """Parts of a whole beside each other."""
    drawn: list[Markup] = []
    at = 0.0
    for size, cls in parts:
        width = 100 * size / whole if whole else 0.0
        drawn.append(el("rect", x=at, width=min(width, 100 - at), height=8, cls=cls))
        at = min(at + width, 100)
    return _strip(drawn, title=title, role="img")


def _strip(drawn: Child, title: str = "", **about: str) -> Markup:
    track = el("rect", width=100, height=8, cls="track")
    name = el("title", title) if title else None
    return el("svg", name, track, drawn, cls="bar", viewBox="0 0 100 8", preserveAspectRatio="none", **about)
