"""A message with its long texts cut in the middle: the last resort, and the way to bound hostile input."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from refold.messages import AnyPart, Bash, Call, Image, Message, Opaque, Text, Thinking, compact_json
from refold.text.truncate import middle

CUT = '[… cut here; recall_conversation(keys=["{key}"]) brings back all of it …]'
MANY = 200
"""Elements of a list argument that survive squeezing."""


def squeezed(message: Message, characters: int, key: str) -> Message:
    """The same message with its long texts cut in the middle to about so many characters in all."""
    marker = CUT.format(key=key)
    texts = _long_texts(message)
    share = max(characters // max(len(texts), 1), len(marker) + 40)

    def short(text: str) -> str:
        return middle(text, share, marker) if len(text) > share else text

    if isinstance(message, Bash):
        return msgspec.structs.replace(message, output=short(message.output))
    parts = tuple(_squeezed_part(part, short, key) for part in message.parts)
    return msgspec.structs.replace(message, content=parts)


def _squeezed_part(part: AnyPart, short: Any, key: str) -> AnyPart:
    match part:
        case Text(text=text):
            return Text(short(text))
        case Call(arguments=arguments):
            small: dict[str, Any] = _short_values(arguments, short)
            if len(compact := compact_json(small)) > MANY * 100:  # very many short values
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


def _short_values(value: Any, short: Any) -> Any:
    if isinstance(value, str):
        return short(value)
    if isinstance(value, dict):
        return {key: _short_values(inner, short) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_short_values(inner, short) for inner in cast("list[Any]", value)[:MANY]]
    return value


def _long_texts(message: Message) -> list[str]:
    texts: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text) | Thinking(text=text):
                texts.append(text)
            case Call(arguments=arguments):
                texts += [v for v in arguments.values() if isinstance(v, str)]
            case _:
                pass
    return [text for text in texts if len(text) > 80]
