"""How much an entry matters, by rules: user words, decisions, errors, and what later steps came back to."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from refold.messages import Assistant, Bash, Message, Result, System, User
from refold.preserve.identifiers import called_text, identifiers

_DECISION = re.compile(
    r"\b(?:decid|agreed?\b|settled on"
    r"|(?:let's|we'll|i'll|will|should) (?:use|go with|keep|switch|drop)"
    r"|going with|chose|chosen|instead of|switched to|the plan is|root cause|turns out|conclusion|confirmed)"
    r"|决定|改用|采用|选择|方案|结论|原因是|确认",
    re.I,
)
_ROLE = {"user": 1.0, "assistant": 0.5, "bash": 0.5, "tool": 0.25, "system": 0.1}
_READ = 20_000


def decides(text: str) -> bool:
    """Whether somebody states a choice or a finding."""
    return _DECISION.search(text) is not None


def importance(messages: Sequence[Message]) -> list[float]:
    """One score per message, 0 … about 3. Deterministic; linear in the text that is read."""
    referred = references(messages)
    return [_score(message, later) for message, later in zip(messages, referred, strict=True)]


def _score(message: Message, later: int) -> float:
    score = _ROLE[message.role] + 0.3 * math.log1p(later)
    match message:
        case User() | Assistant():
            score += 0.5 if decides(message.text[:_READ]) else 0.0
        case Result(is_error=True):
            score += 0.4
        case Bash(exit_code=code) if code:
            score += 0.4
        case System() | Result() | Bash():
            pass
    return score


def references(messages: Sequence[Message]) -> list[int]:
    """For each message, how many identifiers it was the first to name that a later call used."""
    first: dict[str, int] = {}
    counted = [0] * len(messages)
    for position, message in enumerate(messages):
        used = {name for call in message.calls for name, _ in identifiers(called_text(call)[:_READ])}
        for name in used:
            if name in first:
                counted[first[name]] += 1
        for name, _ in identifiers(message.text[:_READ]):
            first.setdefault(name, position)
        for name in used:
            first.setdefault(name, position)
    return counted
