"""Cells and tables of Markdown: what every module that writes tables uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

NOT_YET = "*(not measured yet: `make bench`)*"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def milliseconds(figure: dict[str, Any] | None) -> str:
    if not figure:
        return "–"
    if "best" not in figure:
        return "too long"
    best = figure["best"]
    return f"{best:.2f}" if best < 1 else f"{best:.1f}" if best < 100 else f"{best:,.0f}"


def cell(text: str) -> str:
    return re.sub(r"[|\n]", " ", text)[:160]
