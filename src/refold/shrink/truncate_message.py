"""A message with its long texts cut in the middle: the last resort, and the way to bound hostile input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from refold.messages import AnyPart, Bash, Call, Image, Message, Opaque, Text, Thinking, compact_json
from refold.text.truncate import middle

CUT = '[… cut here; recall_conversation(keys=["{key}"]) brings back all of it …]'
MAX_LIST_ITEMS = 200
"""Elements of a list argument that are kept."""
_LONG = 80
"""Characters of a text that takes a share of the room."""


def truncate_message(message: Message, characters: int, key: str) -> Message:
    """The same message with its long texts cut in the middle to about so many characters in all."""
    marker = CUT.format(key=key)
    texts = [part.text for part in message.parts if isinstance(part, Text | Thinking)]
    for call in message.calls:
        texts += [value for value in call.arguments.values() if isinstance(value, str)]
    long = sum(len(text) > _LONG for text in texts)
    share = max(characters // max(long, 1), len(marker) + 40)

    def short(text: str) -> str:
        return middle(text, share, marker)

    if isinstance(message, Bash):
        return msgspec.structs.replace(message, output=short(message.output))
    parts = tuple(_part(part, short, key) for part in message.parts)
    return msgspec.structs.replace(message, content=parts)


def _part(part: AnyPart, short: Callable[[str], str], key: str) -> AnyPart:
    match part:
        case Text(text=text):
            return Text(short(text))
        case Call(arguments=arguments):
            small: dict[str, Any] = _values(arguments, short)
            if len(compact := compact_json(small)) > MAX_LIST_ITEMS * 100:  # very many short values
                small = {"arguments": short(compact)}
            raw = None if part.raw is None else short(part.raw)
            return msgspec.structs.replace(part, arguments=small, raw=raw)
        case Thinking(signature=None, data=None):
            return msgspec.structs.replace(part, text=short(part.text))
        case Thinking() if len(short(part.text + (part.data or ""))) < len(part.text + (part.data or "")):
            return Text(f'[signed thoughts, which cannot be shortened; recall_conversation(keys=["{key}"])]')
        case Image() | Opaque():
            return Text(f'[{type(part).__name__.lower()} folded; recall_conversation(keys=["{key}"])]')
        case _:
            return part


def _values(value: Any, short: Callable[[str], str]) -> Any:
    """A value of JSON with its texts cut and its lists kept to their first elements."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, dict):
        return {key: _values(inner, short) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_values(inner, short) for inner in cast("list[Any]", value)[:MAX_LIST_ITEMS]]
    return value
