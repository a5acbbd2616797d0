"""The trigger of designs that look when the user speaks: what the last call used and what is new."""

from __future__ import annotations

from dataclasses import dataclass

from refold import entries as e
from refold.compaction.plan import Due, Reason
from refold.compaction.situation import Situation
from refold.messages import Assistant, User

CHARS = 3
"""Characters of new input that make a token."""


@dataclass(frozen=True)
class NewInput:
    """Tokens of the last call plus a third of the characters of the input reach a share of the window."""

    threshold: float = 0.8
    min_messages: int = 3

    def due(self, s: Situation, /) -> Due | Reason:
        text, before = _input(s)
        if text is None:
            return Reason("in_turn", "checked when new user input arrives")
        if len(s.items) < self.min_messages:
            return Reason("few_messages", f"{len(s.items)} messages, at least {self.min_messages} are needed")
        used = last_usage(s)
        if used is None:
            used = s.overhead + s.projection.size(s.measure, 0, before)
        tokens, limit = used + len(text) // CHARS, s.window * self.threshold
        if tokens < limit:
            return Reason("below_threshold", f"{tokens} tokens of {limit:.0f}")
        return Due("threshold", f"{tokens} tokens, {self.threshold:.0%} of {s.window} are {limit:.0f}")


def _input(s: Situation) -> tuple[str | None, int]:
    """The new input, and how many items came before it."""
    if s.incoming is not None:
        return s.incoming, len(s.items)
    if s.items and s.items[-1].fold is None and isinstance(s.items[-1].message, User):
        return s.items[-1].message.text, len(s.items) - 1
    return None, len(s.items)


def last_usage(s: Situation) -> int | None:
    """Everything the last call took, as the provider counted it. What was counted before an archive was made
    describes a view that is gone."""
    for entry in reversed(s.session.path):
        if isinstance(entry, e.Fold) and entry.details.get("archive"):
            return None
        if not isinstance(entry, e.MessageEntry) or not isinstance(entry.message, Assistant):
            continue
        if entry.usage is not None and entry.usage.total and entry.message.stop not in ("error", "aborted"):
            return entry.usage.total
    return None
