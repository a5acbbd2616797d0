"""What measures share: the transcripts' folder, the counter, the tail, and who does the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from refold import batch, tokens

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


def done(work: Callable[[Any], Any], arguments: Iterable[Any], on: str = "here") -> Iterator[Any]:
    """What the function of a module gives for each of them, in their order; `on` as in `refold compare --on`. What
    fails ends the measure."""
    with batch.open_executor(on) as who:
        for ending in batch.Batch(work, ordered=True).run(map(batch.Job, arguments), who):
            if ending.error is not None:
                raise RuntimeError(f"{ending.job.argument!r:.200}: {ending.error}")
            yield ending.value
