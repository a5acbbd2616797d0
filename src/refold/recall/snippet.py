"""The part of a text that shows why it was found."""

from __future__ import annotations

from collections.abc import Iterable

from refold.text.frames import visible
from refold.text.redact import redact
from refold.text.truncate import window

SNIPPET = 320
SCAN = 200_000
PLACES = 4
AROUND = 8_000
"""Characters before and after that are looked through for secrets too: half a secret is not recognised."""


def snippet(text: str, terms: Iterable[str], size: int = SNIPPET) -> str:
    """About `size` characters of `text` around the place where most of the terms stand together, on
    one line and without secrets; terms are stems, so the beginning of a word is enough."""
    start = _best_start(text[:SCAN].lower(), list(terms), size) if len(text) > size else 0
    first = max(0, start - AROUND)
    text, secrets = redact(text[first : start + size + AROUND])
    start -= first
    shift = sum(len(s.mark) - (s.end - s.start) for s in secrets if s.end <= start)
    text = window(text, max(start + shift, 0), size) if len(text) > size else text
    return " ".join(visible(text).split())


def _best_start(low: str, terms: list[str], size: int) -> int:
    """Where the window with the most terms begins; rarer terms come first and break ties."""
    places = [(at, rank) for rank, term in enumerate(terms[:12]) for at in _find(low, term)]
    if not places:
        return 0

    def worth(start: int) -> float:
        inside = {rank for at, rank in places if start <= at < start + size}
        return sum(1 / (2 + rank) for rank in inside)

    return max((max(0, at - size // 4) for at, _ in places), key=lambda start: (worth(start), -start))


def _find(low: str, term: str) -> list[int]:
    found: list[int] = []
    at = low.find(term)
    while at >= 0 and len(found) < PLACES:
        found.append(at)
        at = low.find(term, at + 1)
    return found
