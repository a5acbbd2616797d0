"""Charts as inline SVG. Colours come from the style sheet, so they follow dark mode and print."""

from __future__ import annotations

import math
from collections.abc import Sequence

from refold.compare.report.html import Child, Markup, el

POINTS = 180
"""Points of a curve that are drawn; of longer ones the extremes."""


def short(number: float) -> str:
    """1234 → 1.2k."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            value = number / limit
            return f"{value:.1f}".removesuffix(".0") + unit if value < 100 else f"{value:.0f}{unit}"
    return f"{number:.0f}"


def bar(share: float, cls: str = "") -> Markup:
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


def thinned(curve: Sequence[int], points: int = POINTS) -> list[tuple[int, int]]:
    """(place, value) of at most `points` values: of every piece the lowest and the highest, in order."""
    if len(curve) <= points:
        return list(enumerate(curve))
    pieces = points // 2
    chosen: set[int] = {0, len(curve) - 1}
    for number in range(pieces):
        piece = range(len(curve) * number // pieces, len(curve) * (number + 1) // pieces)
        chosen |= {min(piece, key=curve.__getitem__), max(piece, key=curve.__getitem__)}
    return [(place, curve[place]) for place in sorted(chosen)]


def ticks(top: float) -> list[float]:
    """Round numbers from 0 up to `top`."""
    if top <= 0:
        return [0]
    raw = top / 4
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * times for times in (1, 2, 2.5, 5, 10) if power * times >= raw)
    return [step * number for number in range(int(top / step) + 1)]


W, H = 320, 170
LEFT, RIGHT, TOP, BOTTOM = 38, 8, 10, 22


def saw(curve: Sequence[int], none: Sequence[int], threshold: int | None, title: str, cls: str) -> Markup:
    """Size of the context at every request, with and without folding. All charts of a row share `none`, and
    so their axes."""
    top = max([*none, *curve, 1])
    last = max(len(none), len(curve), 2) - 1

    def x(place: float) -> float:
        return LEFT + (W - LEFT - RIGHT) * place / last

    def y(size: float) -> float:
        return H - BOTTOM - (H - TOP - BOTTOM) * size / top

    def line(points: Sequence[int]) -> str:
        return " ".join(f"{x(place):.1f},{y(size):.1f}" for place, size in thinned(points))

    base = f"{x(len(curve) - 1):.1f},{y(0):.1f} {x(0):.1f},{y(0):.1f}"
    grid = [
        (
            el("line", x1=LEFT, x2=W - RIGHT, y1=y(tick), y2=y(tick), cls="grid"),
            el("text", short(tick), x=LEFT - 5, y=y(tick) + 3.5, cls="tick end"),
        )
        for tick in ticks(top)
    ]
    inside: list[Child] = [
        grid,
        el("polyline", points=line(none), cls="none"),
        el("polygon", points=f"{line(curve)} {base}", cls=f"area {cls}") if curve else None,
        el("polyline", points=line(curve), cls=f"curve {cls}") if curve else None,
        el("line", x1=LEFT, x2=W - RIGHT, y1=y(threshold), y2=y(threshold), cls="limit")
        if threshold and threshold < top
        else None,
        el("text", "1", x=LEFT, y=H - 7, cls="tick"),
        el("text", f"request {last + 1:,}", x=W - RIGHT, y=H - 7, cls="tick end"),
    ]
    return el("svg", el("title", title), inside, cls="chart", viewBox=f"0 0 {W} {H}", role="img")
