"""Bars as inline SVG. Colours come from the style sheet, so they follow dark mode and print."""

from __future__ import annotations

from collections.abc import Sequence

from refold.compare.report.html import Child, Markup, el


def short_number(number: float) -> str:
    """1234 → 1.2k."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            value = number / limit
            return f"{value:.1f}".removesuffix(".0") + unit if value < 100 else f"{value:.0f}{unit}"
    return f"{number:.0f}"


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
