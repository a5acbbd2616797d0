"""Charts as inline SVG. Colours come from the style sheet, so they follow dark mode and print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from refold.compare.report.html import Markup, el, join

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
    return el(
        "svg",
        el("rect", width=100, height=8, cls="track"),
        el("rect", width=width, height=8, cls=f"fill {cls}"),
        cls="bar",
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


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


def ticks(top: float, count: int = 4) -> list[float]:
    """Round numbers from 0 up to `top`."""
    if top <= 0:
        return [0]
    raw = top / count
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
    inside = [
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
    return _svg(W, H, title, inside)


class Point(NamedTuple):
    x: float
    y: float
    label: str
    cls: str
    fits: bool
    title: str


PW, PH = 460, 320


def scatter(points: Sequence[Point], budgets: Sequence[float], title: str) -> Markup:
    """Retention (0 … 1) against tokens (logarithmic). Hollow: the view does not fit its budget."""
    values = [p.x for p in points] + list(budgets) or [1.0]
    low, high = math.log10(max(min(values) * 0.8, 1)), math.log10(max(values) * 1.25 + 1)
    left, right, top, bottom = 42, 14, 14, 36

    def x(value: float) -> float:
        return left + (PW - left - right) * (math.log10(max(value, 1)) - low) / max(high - low, 1e-9)

    def y(value: float) -> float:
        return PH - bottom - (PH - top - bottom) * value

    rows = [
        (
            el("line", x1=left, x2=PW - right, y1=y(part / 4), y2=y(part / 4), cls="grid"),
            el("text", f"{25 * part} %", x=left - 6, y=y(part / 4) + 4, cls="tick end"),
        )
        for part in range(5)
    ]
    columns = [
        (
            el("line", x1=x(tick), x2=x(tick), y1=top, y2=PH - bottom, cls="grid"),
            el("text", short(tick), x=x(tick), y=PH - bottom + 15, cls="tick middle"),
        )
        for tick in _decades(10**low, 10**high)
    ]
    lines = [el("line", x1=x(b), x2=x(b), y1=top, y2=PH - bottom, cls="limit") for b in budgets]
    dots = [
        el(
            "circle",
            el("title", p.title),
            cx=x(p.x),
            cy=y(p.y),
            r=6,
            cls=f"dot {p.cls}" + ("" if p.fits else " hollow"),
        )
        for p in sorted(points, key=lambda p: p.fits)
    ]
    places = [(x(p.x), y(p.y), p) for p in points] if len(points) <= 12 else []
    labels = [
        el("text", p.label, x=at, y=down, cls=f"label {p.cls}" + (" end" if end else ""))
        for at, down, p, end in _apart(places)
    ]
    axis = el("text", "tokens of the view", x=PW - right, y=PH - 5, cls="tick end")
    return _svg(PW, PH, title, [rows, columns, lines, dots, labels, axis])


def _decades(low: float, high: float) -> list[float]:
    found = [
        times * 10**power
        for power in range(math.floor(math.log10(max(low, 1))), math.ceil(math.log10(max(high, 10))) + 1)
        for times in (1, 2, 5)
    ]
    there = [tick for tick in found if low <= tick <= high]
    return there if len(there) <= 8 else [tick for tick in there if math.log10(tick).is_integer()]


def _apart(places: Sequence[tuple[float, float, Point]]) -> list[tuple[float, float, Point, bool]]:
    """Labels beside their dots, moved down until none lies on another or on a dot."""
    taken = [(x - 8, x + 8, y + 4) for x, y, _ in places]
    found: list[tuple[float, float, Point, bool]] = []
    for x, y, point in sorted(places, key=lambda place: place[1]):
        width = 7.2 * len(point.label)
        end = x + 11 + width > PW - 4
        start = x - 11 - width if end else x + 11
        down = y + 4
        while any(start < b and a < start + width and abs(down - d) < 14 for a, b, d in taken):
            down += 2
        taken.append((start, start + width, down))
        found.append((x - 11 if end else x + 11, down, point, end))
    return found


def _svg(width: int, height: int, title: str, inside: Sequence[object]) -> Markup:
    return el(
        "svg",
        el("title", title),
        join(inside),  # pyright: ignore[reportArgumentType]  # nested tuples of markup
        cls="chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
    )
