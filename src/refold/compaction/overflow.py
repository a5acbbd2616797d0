"""Was the context too large? (Rule B6.)

Three signs: the provider's own words (a table of wordings, exclusions first), a prompt that was counted
larger than the window although an answer came, and a reply that stopped for length before it began.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from refold import entries as e
from refold.costs import same_model
from refold.data import data_table
from refold.messages import Assistant, Usage
from refold.session.history import History, last_model

LEARNED = 0.9
"""Share of a refused request that is taken for the window where the refusal names none."""
SMALLEST_WINDOW = 512
"""Tokens. No model has a smaller window: a number below says something else, and is not learned."""
_MAX_ERROR_CHARS = 8_000
"""Characters of an error text that are looked at."""
FULL = 0.99
"""A prompt of this share of the window fills it."""


HALF = 0.5
"""Of a request of this share of the window a refusal without reasons is believed to be about its size."""
REFUSAL_KEY = "overflow"
"""What the engine notes with a refused reply (`meta`): a `Refusal`."""


class Sign(msgspec.Struct, frozen=True):
    """An overflow that was recognised: whose wording it was, and the true window where it was stated."""

    provider: str
    window: int | None = None
    certain: bool = True
    """It speaks of nothing else: not an answer without a body."""


class Refusal(msgspec.Struct, frozen=True):
    """What is noted with a reply that failed."""

    counts: bool
    """It was about the size of the context."""
    declared: int
    """The window that the engine was told."""
    named: bool = False
    """It named the true window."""


def in_error(text: str) -> Sign | None:
    """The overflow an error text speaks of. Rate limits, throttling and service errors are none, even
    where they speak of tokens."""
    text = text[:_MAX_ERROR_CHARS]
    excluded, wordings = _patterns()
    if any(pattern.search(text) for pattern in excluded):
        return None
    for provider, pattern in wordings:
        if match := pattern.search(text):
            stated, imitated = match.groupdict().get("window"), _CONTEXT.search(text)
            window = _plausible(stated) or _plausible(imitated[1] if imitated else None)
            return Sign(provider, window, certain="no body" not in match[0])
    return None


def in_reply(
    message: Assistant, usage: Usage | None, window: int | None, full: float = FULL, *, silent: bool = True
) -> Sign | None:
    """The overflow that a reply betrays: an error text in it, a stop for length with nothing said and the
    window full, or (`silent`) a prompt that was counted larger than the window."""
    if message.error or message.stop == "error":
        return in_error(message.error or "")
    if usage is None or not usage.is_meant or not window:
        return None
    read = usage.input + usage.cache_read
    passed = silent and message.stop != "aborted" and read > window
    no_room = message.stop == "length" and usage.output == 0 and read >= full * window
    return Sign("usage") if passed or no_room else None


# ── what the log says of refusals (B4, R13) ─────────────────────────────────────────────────────


def failed_by_overflow(
    entry: e.MessageEntry, window: int, full: float = FULL, *, silent: bool = True
) -> bool:
    """Did this reply fail, or silently suffer, because the context was too long?"""
    message, noted = entry.message, _refusal(entry)
    if noted is not None or not isinstance(message, Assistant):
        return noted is not None and noted.counts
    return in_reply(message, entry.usage, window, full, silent=silent) is not None


def refused_by(session: History, entry: e.MessageEntry, model: str | None) -> bool:
    """Did the model answer that will be asked next (None: the log's newest)? Yes, where that is unknown."""
    asked = (model or last_model(session)) if entry.model else None
    return not entry.model or not asked or same_model(entry.model, asked)


def overflowed_twice(session: History, window: int, model: str | None = None) -> bool:
    """Did this model refuse the context twice in one turn, with no good reply in between and nothing new
    since: no fold, no message, no other window?"""
    last = session.replies[-2:]
    if len(last) < 2 or not all(_refused(session, session.path[at], window, model) for at in reversed(last)):
        return False
    if session.turns and session.turns[-1] > last[0]:
        return False
    later = session.path[session.replies[-1] + 1 :]
    return not any(isinstance(entry, (e.Fold, e.MessageEntry, e.Note, e.BranchSummary)) for entry in later)


def _refused(session: History, entry: e.AnyPathEntry, window: int, model: str | None) -> bool:
    if not isinstance(entry, e.MessageEntry) or getattr(entry.message, "stop", None) != "error":
        return False
    noted = _refusal(entry)
    same = noted is None or noted.declared == window
    return same and refused_by(session, entry, model) and failed_by_overflow(entry, window)


def _refusal(entry: e.MessageEntry) -> Refusal | None:
    try:
        return msgspec.convert(entry.meta[REFUSAL_KEY], Refusal)
    except (KeyError, msgspec.ValidationError):
        return None


def learned_window(session: History, declared: int, model: str | None = None) -> int | None:
    """The smallest window that refusals of this model taught; None: they taught nothing that holds."""
    notes = session.annotations(e.LearnedWindow)
    if not notes:
        return None
    asked = model or last_model(session)
    return min((x.tokens for x in notes if _holds(session, x, declared, asked)), default=None)


def _holds(session: History, note: e.LearnedWindow, declared: int, model: str | None) -> bool:
    """A note counts for the model it names; not where the refusal named no window and the request was small
    (0.1 wrote such notes), nor once that model has answered a larger request."""
    if note.tokens < SMALLEST_WINDOW or (note.model and model and not same_model(note.model, model)):
        return False
    refusal = session[note.target] if note.target and note.target in session else None
    if isinstance(refusal, e.MessageEntry) and isinstance(refusal.message, Assistant):
        noted, sign = _refusal(refusal), in_error(refusal.message.error or "")
        named = noted.named if noted else sign is not None and sign.window is not None
        if refusal.message.stop == "error" and not named and note.tokens < LEARNED * HALF * declared:
            return False
    for at in reversed(session.replies):
        reply = session.path[at]
        if not isinstance(reply, e.MessageEntry) or reply.time < note.time:
            break
        good = isinstance(reply.message, Assistant) and reply.message.stop not in ("error", "aborted")
        known = reply.model is None or not note.model or same_model(reply.model, note.model)
        if good and known and reply.usage and reply.usage.prompt > note.tokens:
            return False
    return True


# ── wordings ────────────────────────────────────────────────────────────────────────────────────


@cache
def _patterns() -> tuple[list[re.Pattern[str]], list[tuple[str, re.Pattern[str]]]]:
    rows: dict[str, Any] = data_table("overflow")
    excluded = [re.compile(row["pattern"], re.IGNORECASE) for row in rows["exclude"]]
    wordings = [(row["provider"], re.compile(row["pattern"], re.IGNORECASE)) for row in rows["overflow"]]
    return excluded, wordings


_CONTEXT = re.compile(r"maximum context length is ([\d,]{1,15}) tokens", re.IGNORECASE)
"""Many servers imitate OpenAI's sentence around a wording of their own."""


def _plausible(stated: str | None) -> int | None:
    digits = (stated or "").replace(",", "")
    return int(digits) if digits and int(digits) >= SMALLEST_WINDOW else None
