"""What a digest reads: messages with their place in the conversation, and a bounded amount of their text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from refold.messages import Assistant, Bash, Message, Result, System, User

READ = 3_000_000
"""Characters of a conversation that are looked at for facts. Beyond it every message is cut alike."""
_CAPS = {"user": 12_000, "assistant": 8_000, "tool": 3_000, "bash": 2_000, "system": 0}

_TROUBLE = re.compile(
    r"\b(?:error|exception|traceback|failed|failure|fatal|cannot|denied|not found|panic|assert)"
    r"|错误|失败|异常",
    re.I,
)


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One message and what only its place gives it. `time` is seconds since 1970; `key` brings it back."""

    message: Message
    id: str = ""
    key: str = ""
    turn: int = 0
    time: float | None = None
    speaker: str | None = None


def texts(sources: Sequence[Source]) -> list[str]:
    """The text of each source that facts may come from, cut in the middle where it is long."""
    raw = [_said(source.message) for source in sources]
    total = sum(min(len(text), _CAPS[source.message.role]) for text, source in zip(raw, sources, strict=True))
    share = min(1.0, READ / max(1, total))
    return [
        cut_middle(text, int(_CAPS[source.message.role] * share))
        for text, source in zip(raw, sources, strict=True)
    ]


def _said(message: Message) -> str:
    match message:
        case User() | Assistant():
            return message.text
        case Bash():
            return f"$ {message.command[:400]}\n{trouble(message.output)}"
        case Result():
            return trouble(message.text)
        case System():
            return ""


def trouble(output: str, most: int = 4) -> str:
    """The lines of a tool's output that say something went wrong. Of the rest a digest keeps names only:
    output is bulk, and what the agent made of it stands in the agent's words."""
    window = cut_middle(output, 6_000)
    if not _TROUBLE.search(window):
        return ""
    lines = [line.strip()[:300] for line in window.split("\n") if _TROUBLE.search(line)]
    return "\n".join(lines[:1] + lines[1:][-(most - 1) :])


def cut_middle(text: str, most: int) -> str:
    """`text`, or its start and end with a line end between them."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]}\n{text[len(text) - (most - head) :]}" if most > 0 else ""
