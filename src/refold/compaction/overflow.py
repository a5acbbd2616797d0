"""Was the context too large? (Rule B6.)

Three signs: the provider's own words (a table of wordings, exclusions first), a prompt that was counted
larger than the window although an answer came, and a reply that stopped for length before it began.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from refold.data import table
from refold.messages import Assistant, Usage

LIMIT = 8_000
"""Characters of an error text that are looked at."""
FULL = 0.99
"""A prompt of this share of the window fills it."""


class Sign(msgspec.Struct, frozen=True):
    """An overflow that was recognised: whose wording it was, and the true window where it was stated."""

    provider: str
    window: int | None = None


def in_error(text: str) -> Sign | None:
    """The overflow an error text speaks of. Rate limits, throttling and service errors are none, even
    where they speak of tokens."""
    text = text[:LIMIT]
    excluded, wordings = _patterns()
    if any(pattern.search(text) for pattern in excluded):
        return None
    for provider, pattern in wordings:
        if match := pattern.search(text):
            return Sign(provider, _stated_window(match) or _any_window(text))
    return None


def in_reply(message: Assistant, usage: Usage | None, window: int | None) -> Sign | None:
    """The overflow that a reply betrays: an error text in it, a prompt that was counted larger than the
    window, or a stop for length with nothing said and the window full."""
    if message.error or message.stop == "error":
        return in_error(message.error or "")
    if usage is None or not window:
        return None
    read = usage.input + usage.cache_read
    silent = message.stop != "aborted" and read > window
    no_room = message.stop == "length" and usage.output == 0 and read >= FULL * window
    return Sign("usage") if silent or no_room else None


@cache
def _patterns() -> tuple[list[re.Pattern[str]], list[tuple[str, re.Pattern[str]]]]:
    rows: dict[str, Any] = table("overflow")
    excluded = [re.compile(row["pattern"], re.IGNORECASE) for row in rows["exclude"]]
    wordings = [(row["provider"], re.compile(row["pattern"], re.IGNORECASE)) for row in rows["overflow"]]
    return excluded, wordings


def _stated_window(match: re.Match[str]) -> int | None:
    stated = match.groupdict().get("window")
    return _plausible(stated)


_CONTEXT = re.compile(r"maximum context length is ([\d,]{1,15}) tokens", re.IGNORECASE)


def _any_window(text: str) -> int | None:
    """Many servers imitate OpenAI's sentence around a wording of their own."""
    match = _CONTEXT.search(text)
    return _plausible(match[1]) if match else None


def _plausible(stated: str | None) -> int | None:
    digits = (stated or "").replace(",", "")
    return int(digits) if digits and int(digits) > 0 else None
