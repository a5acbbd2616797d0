"""What a digest reads: messages with their place in the conversation, and a bounded amount of their text."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Bash, Message, Result, System, User
from refold.preserve.words import typed
from refold.protocols import Steps
from refold.text.truncate import level, middle

PIECE = 16
"""Messages that are read between two breaths."""
READ = 600_000
"""Characters of a conversation that are looked at for facts. Beyond it the longest are cut."""
_CAPS = {"user": 12_000, "assistant": 8_000, "tool": 3_000, "bash": 2_000, "system": 0}

_TROUBLE = (
    "error", "exception", "traceback", "fail", "fatal", "cannot", "denied", "not found", "panic", "assert",
    "错误", "失败", "异常",
)  # fmt: skip


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One message and what only its place gives it. `time` is seconds since 1970; `key` brings it back."""

    message: Message
    id: str = ""
    key: str = ""
    turn: int = 0
    time: float | None = None
    speaker: str | None = None


def texts(sources: Sequence[Source]) -> Steps[list[str]]:
    """The text of each source that facts may come from, cut in the middle where it is long."""
    raw: list[str] = []
    for source in sources:
        raw.append(_said(source.message))
        if len(raw) % PIECE == 0:
            yield
    caps = [min(len(text), _CAPS[source.message.role]) for text, source in zip(raw, sources, strict=True)]
    most = level(caps, READ)
    return [middle(text, min(cap, most), "\n", 2 / 3) for text, cap in zip(raw, caps, strict=True)]


def _said(message: Message) -> str:
    match message:
        case User():
            return typed(message)
        case Assistant():
            return without_code(message.text)
        case Bash():
            return f"$ {message.command[:400]}\n{trouble(message.output)}"
        case Result():
            return trouble(message.text)
        case System():
            return ""


def without_code(text: str) -> str:
    """Without fenced blocks: what the agent wrote stands in the files, what it meant stands around it."""
    if "```" not in text:
        return text
    return "\n".join(text.split("```")[::2])


def trouble(output: str, most: int = 4) -> str:
    """The lines of a tool's output that say something went wrong. Of the rest a digest keeps names only:
    output is bulk, and what the agent made of it stands in the agent's words."""
    window = middle(output, 100_000, "\n", 2 / 3)
    lowered = window.lower()
    if len(lowered) != len(window):  # a few letters grow when lowered; then positions do not match
        window = lowered
    signs = [sign for sign in _TROUBLE if sign in lowered]
    hits = {place for sign in signs for place in (lowered.find(sign), lowered.rfind(sign))}
    lines = list(dict.fromkeys(_line(window, place) for place in sorted(hits)))
    return "\n".join(lines[:1] + lines[1:][-(most - 1) :])


def _line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    return text[max(start, place - 150) : min(end if end >= 0 else len(text), place + 150)].strip()
