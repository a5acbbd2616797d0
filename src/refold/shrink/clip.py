"""A message clipped to a number of tokens (R19): head and end are kept, calls lose only whole values.

A clip is computed from the message itself, never from an earlier clip, at a few fixed levels (`LEVELS`), so
the
same entry gives the same bytes cold and warm. What is missing is marked with its size and the entry's number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import msgspec

from refold.messages import (
    AnyPart,
    Assistant,
    Bash,
    Call,
    Content,
    Message,
    Result,
    Text,
    Thinking,
    User,
    compact_json,
)
from refold.protocols import TokenCounter
from refold.session.toolnames import kind
from refold.text.truncate import head, tail

LEVELS: tuple[int, ...] = tuple(round(24 * 2 ** (step / 4)) for step in range(64))
"""Sizes in tokens that a message may be clipped to, its frame on the wire not counted."""
FRAME = 40
"""Tokens that a clipped message has at most beyond its level: wire, names and short arguments of a call."""
WORTH = 20
"""A clip that saves less than this is not made."""
_MARK = "[… {cut} tokens, {key} …]"
_MARK_TOKENS = 10
_VALUE = "[{size} tokens, {key}]"
_SHORT = 24
"""Words or an argument of at most so many tokens stay: a path or a command tells more than a marker."""
_QUOTE = 32
"""Least tokens with which a value that was dropped from a call is quoted beside it."""
_HEADS = {"bash": 0.5, "ls": 0.85, "glob": 0.85, "grep": 0.85}
"""Share of what is kept that stands at the beginning. A log says at its end how it went, a list is sorted by
worth if by anything."""
_HEAD = 0.65


def level(cap: float) -> int:
    """The largest level that is not above `cap`; 0 where none is."""
    found = bisect_right(LEVELS, cap)
    return LEVELS[found - 1] if found else 0


def text_size(message: Message, counter: TokenCounter) -> int:
    """Tokens of the text that a clip of the message is made of; 0 where `clipped` counts for itself."""
    match message:
        case Result() | User():
            return counter.text(_joined(message.content))
        case Bash():
            return counter.text(message.output)
        case _:
            return 0


def clipped(
    message: Message,
    tokens: int,
    counter: TokenCounter,
    *,
    key: str,
    call: Call | None = None,
    size: int = 0,
) -> Message:
    """The message in about `tokens` tokens. `key` names its entry, `call` is what it answers, if it does;
    `size` is its `text_size`, where that is known."""
    match message:
        case Assistant():
            return _reply(message, tokens, counter, key)
        case Result() | User():
            share = _HEADS.get(kind(call.name), _HEAD) if call else _HEAD
            content = _texts(message.content, tokens, counter, key, share, size)
            return msgspec.structs.replace(message, content=content)
        case Bash():
            output = clip_text(message.output, tokens, counter, key=key, size=size, share=_HEADS["bash"])
            return msgspec.structs.replace(message, output=output)
        case _:
            return message


def clip_text(
    text: str, tokens: int, counter: TokenCounter, *, key: str, size: int = 0, share: float = _HEAD
) -> str:
    """Beginning and end of a text in at most `tokens` tokens, cut at line ends where one is near."""
    if len(text) <= tokens:
        return text
    size = size or counter.text(text)
    if size <= tokens:
        return text
    room = max(tokens - _MARK_TOKENS, 1)
    chars = max(int(len(text) * room / size), 4)
    for _ in range(6):
        first = _line_end(head(text, int(chars * share)))
        last = _line_start(tail(text, chars - int(chars * share)))
        used = counter.text(first) + counter.text(last)
        if used <= room:
            break
        chars = int(chars * min(0.95, room / used))
    else:
        first, last = head(text, max(room // 2, 1)), ""
        used = counter.text(first)
    mark = _MARK.format(cut=max(size - used, 1), key=key)
    return "\n".join(part for part in (first, mark, last) if part)


def _line_end(text: str) -> str:
    """Without the started line or word at the end, where that is a small part."""
    at = text.rfind("\n")
    if at <= 0.7 * len(text):
        at = text.rfind(" ")
    return text[:at] if at > 0.7 * len(text) else text


def _line_start(text: str) -> str:
    at = text.find("\n")
    if not 0 <= at < 0.3 * len(text):
        at = text.find(" ")
    return text[at + 1 :] if 0 <= at < 0.3 * len(text) else text


def _joined(parts: Sequence[AnyPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _texts(
    parts: Sequence[AnyPart], tokens: int, counter: TokenCounter, key: str, share: float, size: int
) -> Content:
    """Parts with their texts joined and clipped; what is no text (a picture) goes, and is said."""
    texts = [part for part in parts if isinstance(part, Text)]
    short = clip_text(_joined(texts), tokens, counter, key=key, size=size, share=share)
    others = len(parts) - len(texts)
    note = f"[{others} part(s) that are no text, {key}]" if others else ""
    body = "\n".join(part for part in (short, note) if part)
    return (msgspec.structs.replace(texts[0] if texts else Text(""), text=body),) if body else ()


def _reply(message: Assistant, tokens: int, counter: TokenCounter, key: str) -> Assistant:
    """What was said, then the calls. Thinking is dropped: whoever clips a reply made sure that it may be."""
    calls, text = message.calls, message.text
    sizes = [counter.text(compact_json(call.arguments) if call.raw is None else call.raw) for call in calls]
    said = counter.text(text) if text else 0
    room = min(said, max(tokens // 2, tokens - sum(sizes), _SHORT))
    rest = max(tokens - room, 0)
    words = [clip_text(text, max(room, 8), counter, key=key, size=said)] if text else []
    kept: list[Call] = []
    for call, size in zip(calls, sizes, strict=True):
        small, quotes = _call(call, size, rest * size // max(sum(sizes), 1), counter, key)
        kept.append(small)
        words += quotes
    others = sum(not isinstance(part, (Text, Call, Thinking)) for part in message.content)
    words += [f"[{others} part(s) that are no text, {key}]"] if others else []
    parts = (*([Text("\n".join(words))] if words else []), *kept)
    return msgspec.structs.replace(message, content=parts)


def _call(call: Call, size: int, tokens: int, counter: TokenCounter, key: str) -> tuple[Call, list[str]]:
    """The call with its longest values dropped as a whole, so that no mangled one is imitated, and what room
    there is of them as quotations, to stand beside it."""
    if size <= max(tokens, _SHORT):
        return call, []
    given: dict[str, Any] = call.arguments if call.raw is None else {"arguments": call.raw}
    texts = {name: value if isinstance(value, str) else compact_json(value) for name, value in given.items()}
    sizes = {name: counter.text(text) for name, text in texts.items()}
    dropped: dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if size <= tokens or sizes[name] <= _SHORT:
            break
        dropped[name] = _VALUE.format(size=sizes[name], key=key)
        size -= sizes[name] - 10
    if call.raw is not None:
        small = msgspec.structs.replace(call, raw=None, arguments=dropped)
    else:
        small = msgspec.structs.replace(call, arguments={**call.arguments, **dropped})
    left = tokens - size
    whole = sum(sizes[name] for name in dropped)
    quotes = [
        f"[{name}:]\n{clip_text(texts[name], share - 6, counter, key=key, size=sizes[name])}"
        for name in given
        if name in dropped and (share := left * sizes[name] // whole) >= _QUOTE
    ]
    return small, quotes
