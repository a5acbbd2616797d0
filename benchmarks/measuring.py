"""What the retention measures share: the transcripts' folder, the counter, the tail."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from refold import tokens

DATA = Path(os.environ.get("REFOLD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COUNTER = tokens.get("o200k")


@cache
def count(text: str) -> int:
    return COUNTER.text(text)


def newest(texts: Sequence[str], budget: int) -> list[str]:
    """The newest texts that fit, in order."""
    start, room = len(texts), budget
    while start and room >= count(texts[start - 1]) + 1:
        start -= 1
        room -= count(texts[start]) + 1
    return list(texts[start:])


def percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 1) if listed else 0.0
