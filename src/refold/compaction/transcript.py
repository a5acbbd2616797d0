"""A conversation as text for a summariser. Everything in it is data: labelled, bounded, cut by character."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from refold.compaction.plan import Source
from refold.messages import Assistant, Bash, Image, Message, Result, System, Text, Thinking, arguments_json
from refold.text.frames import visible, without_tags
from refold.text.truncate import head


@dataclass(frozen=True)
class Style:
    """Labels and limits of a transcript. A limit of 0 means none."""

    user: str = "[User]: "
    assistant: str = "[Assistant]: "
    thinking: str = "[Assistant thinking]: "
    calls: str = "[Assistant tool calls]: "
    result: str = "[Tool result]: "
    system: str | None = "[System]: "
    """None: system messages are left out."""
    text_limit: int = 0
    result_limit: int = 2_000
    total_limit: int = 0
    arguments: bool = True
    separator: str = "\n\n"


FRAMES = ("conversation", "history", "previous-notes", "previous-summary")
_LABEL = re.compile(
    r"^(?=[ \t]{0,8}\[(?:user|assistant(?: thinking| tool calls)?|tool (?:call|result)|system)\])",
    re.IGNORECASE | re.MULTILINE,
)


def inert(text: str) -> str:
    """What somebody said, unable to close the frame it is handed over in or to pose as another message."""
    return _LABEL.sub("› ", without_tags(visible(text), *FRAMES))


def render(sources: Sequence[Source], style: Style) -> str:
    """The transcript of the sources, one block a message."""
    blocks = [block for source in sources if (block := _block(source.message, style))]
    text = style.separator.join(blocks)
    if style.total_limit and len(text) > style.total_limit:
        marker = f"{style.separator}[… transcript cut at {style.total_limit} characters]"
        text = head(text, style.total_limit - len(marker)) + marker
    return text


def cut(text: str, limit: int) -> str:
    """The beginning of a text, with the number of characters that were cut."""
    if not limit or len(text) <= limit:
        return text
    start = head(text, limit)
    return f"{start}\n[… {len(text) - len(start)} more characters cut]"


def _block(message: Message, style: Style) -> str:
    match message:
        case Assistant():
            return "\n\n".join(_assistant(message, style))
        case Result():
            body = inert(cut(_said(message), style.result_limit))
            return style.result + body if body else ""
        case System():
            return "" if style.system is None else style.system + inert(cut(_said(message), style.text_limit))
        case Bash():
            return style.user + inert(cut(message.text, style.result_limit or style.text_limit))
        case _:
            body = inert(cut(_said(message), style.text_limit))
            return style.user + body if body else ""


def _assistant(message: Assistant, style: Style) -> list[str]:
    blocks: list[str] = []
    thoughts = "\n".join(p.text for p in message.content if isinstance(p, Thinking) and p.text)
    if thoughts and style.thinking:
        blocks.append(style.thinking + inert(cut(thoughts, style.text_limit)))
    if message.text:
        blocks.append(style.assistant + inert(cut(message.text, style.text_limit)))
    if message.calls:
        names = (f"{c.name}({arguments_json(c)})" if style.arguments else c.name for c in message.calls)
        blocks.append(style.calls + inert("; ".join(names)))
    return blocks


def _said(message: Message) -> str:
    parts = [
        p.text if isinstance(p, Text) else "[image]"
        for p in message.parts
        if (isinstance(p, Text) and p.text) or isinstance(p, Image)
    ]
    return "\n".join(parts)
