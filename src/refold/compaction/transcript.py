"""What a summariser reads (R17): which messages, as whose words, and all of them as text.

Notes of programs and summaries of branches are shown to the model in the user's role, but are not the user's
words: a file that was read again must not become a request. As text, everything is data: labelled, bounded,
cut by character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from refold import entries as e
from refold import messages as m
from refold.session import redacted
from refold.session.edits import BRANCH_NOTE, said_by
from refold.session.history import History
from refold.session.items import Item
from refold.text.frames import visible, without_tags
from refold.text.redact import redact
from refold.text.truncate import head, tail

if TYPE_CHECKING:
    from refold import digest

_NOTE_NAME = "note"
"""Name of the program whose output a note without a kind is."""


class SummarySource(msgspec.Struct, frozen=True, gc=False):
    """A message to be summarised, and the entry that holds it."""

    id: str
    message: m.Message
    time: float = 0.0


def message_of(entry: e.Entry) -> m.Message | None:
    """What an entry says, as who says it: a note counts as output of a program, a branch summary as the
    agent's own words."""
    match entry:
        case e.Note(content=content, kind=kind):
            return m.Result("", content, kind or _NOTE_NAME)
        case e.BranchSummary(summary=summary) if summary:
            return m.Assistant((m.Text(f"{BRANCH_NOTE}\n\n{summary}"),))
        case _:
            return said_by(entry)


def message_of_item(session: History, item: Item) -> m.Message:
    """The same for an item of the view: what a fold put there are the agent's own words."""
    if item.fold is not None:
        return m.Assistant(item.message.parts) if isinstance(item.message, m.User) else item.message
    return message_of(session[item.entries[-1]]) or item.message


def source_of(session: History, item: Item, message: m.Message | None = None) -> SummarySource:
    """What an item of the view says, or `message` instead."""
    id = item.entries[-1]
    return SummarySource(id, message or item.message, session[id].time)


def sources_of(entries: Iterable[e.Entry]) -> tuple[SummarySource, ...]:
    """What these entries say."""
    said = ((entry, message_of(entry)) for entry in entries)
    return tuple(SummarySource(entry.id, message, entry.time) for entry, message in said if message)


def sources(session: History, first: int = 0, last: int | None = None) -> tuple[SummarySource, ...]:
    """What a session's path says from position `first` up to, not including, `last`."""
    return sources_of(session.path[first:last])


def for_digest(sources: Sequence[SummarySource]) -> list[digest.Source]:
    """The same without secrets, as the embedded digest reads it."""
    from refold import digest

    said = ((x, redacted.message(x.message)) for x in sources)
    return [
        digest.Source(message=message, id=x.id, key=e.key(x.id), time=x.time or None) for x, message in said
    ]


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
    ends: bool = False
    """A result that is cut keeps its end, and a transcript its newest messages."""
    redacts: bool = True
    """Take secrets out (R17)."""
    separator: str = "\n\n"


FRAMES = ("conversation", "history", "messages-that-stay", "previous-notes", "previous-summary")
_CUT = "[… {cut} more characters cut]"
_LABEL = re.compile(
    r"^(?=[ \t]{0,8}\[(?:user|assistant(?: thinking| tool calls)?|tool (?:call|result)|system)\])",
    re.IGNORECASE | re.MULTILINE,
)


def inert(text: str, *, redacts: bool = True) -> str:
    """A text without secrets, unable to close the frame it is handed over in or to pose as
    another message."""
    return _LABEL.sub("› ", without_tags(visible(redact(text)[0] if redacts else text), *FRAMES))


def render(sources: Sequence[SummarySource], style: Style) -> str:
    """The transcript of the sources, one block a message."""
    blocks = [block for source in sources if (block := _block(source.message, style))]
    text = style.separator.join(blocks)
    if style.total_limit and len(text) > style.total_limit:
        if style.ends:
            return f"{_CUT.format(cut=len(text) - style.total_limit)}\n{tail(text, style.total_limit)}"
        marker = f"{style.separator}[… transcript cut at {style.total_limit} characters]"
        text = head(text, style.total_limit - len(marker)) + marker
    return text


AROUND = 8_000
"""Characters behind a cut that are looked through for secrets too: half a secret is not recognised."""


def _shown(text: str, limit: int, style: Style) -> str:
    """The beginning of a text (and its end, if so wanted), with the number of characters that were cut, ready
    to be handed over."""
    if not limit or len(text) <= limit:
        return inert(text, redacts=style.redacts)
    length = limit // 2 if style.ends else limit
    start, end = text[: length + AROUND], text[-length - AROUND :] if style.ends else ""
    if style.redacts:
        start, end = redact(start)[0], redact(end)[0]
    shown = f"{head(start, length)}\n{_CUT.format(cut=len(text) - limit)}"
    return inert(f"{shown}\n{tail(end, length)}" if end else shown, redacts=False)


def _block(message: m.Message, style: Style) -> str:
    match message:
        case m.Assistant():
            return "\n\n".join(_assistant(message, style))
        case m.Result():
            body = _shown(_text(message), style.result_limit, style)
            return style.result + body if body else ""
        case m.System():
            body = _shown(_text(message), style.text_limit, style)
            return "" if style.system is None else style.system + body
        case m.Bash():
            return style.user + _shown(message.text, style.result_limit or style.text_limit, style)
        case _:
            body = _shown(_text(message), style.text_limit, style)
            return style.user + body if body else ""


def _assistant(message: m.Assistant, style: Style) -> list[str]:
    blocks: list[str] = []
    thoughts = "\n".join(p.text for p in message.content if isinstance(p, m.Thinking) and p.text)
    if thoughts and style.thinking:
        blocks.append(style.thinking + _shown(thoughts, style.text_limit, style))
    if message.text:
        blocks.append(style.assistant + _shown(message.text, style.text_limit, style))
    if message.calls:
        names = (f"{c.name}({m.arguments_json(c)})" if style.arguments else c.name for c in message.calls)
        blocks.append(style.calls + inert("; ".join(names), redacts=style.redacts))
    return blocks


def _text(message: m.Message) -> str:
    told = (part for part in message.parts if isinstance(part, (m.Text, m.Image)))
    return "\n".join(filter(None, (x.text if isinstance(x, m.Text) else "[image]" for x in told)))
