"""Messages and entries without secrets (R17), for everything that leaves the log: summary requests,
exports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from refold import entries as e
from refold.messages import AnyPart, Call, Message, Opaque, Text, Thinking, compact_json, in_full
from refold.text.redact import redact

V = TypeVar("V")

MAX_REDACTED_DEPTH = 100
"""Depth to which values are searched one by one."""
_SEALS = ("signature", "data")
"""Fields that are valid only for unchanged thinking."""


def without_secrets(said: str) -> str:
    return redact(said)[0]


def message(said: Message) -> Message:
    """The message without secrets; the same object if it has none. Signed thinking that would change is
    dropped, because no provider accepts it."""
    if not hasattr(said, "content"):
        return values(said)  # a command of the user
    content = tuple(part for part in map(_part, said.parts) if part is not None)
    return said if content == tuple(said.parts) else msgspec.structs.replace(said, content=content)


def message_text(said: Message) -> str:
    """The text of a message without secrets, whether recognised by name or in the text."""
    return without_secrets(in_full(message(said)))


class KnownSecrets:
    """The secrets of a conversation. A fold may show part of a secret, or its value without the name that
    identifies it."""

    LEAST = 8
    """Minimum length of a recognised part of a secret; shorter secrets must match completely."""

    def __init__(self, said: Iterable[Message]) -> None:
        self._pieces: dict[str, str] = {}
        for message in said:
            self._learn(in_full(message))
        self._lengths = sorted({len(piece) for piece in self._pieces}, reverse=True)

    def _learn(self, said: str) -> None:
        for finding in redact(said)[1]:
            value = said[finding.start : finding.end]
            size = min(len(value), self.LEAST)
            pieces = (value[at : at + size] for at in range(len(value) - size + 1))
            # Blanks and rules stand in any text.
            telling = (piece for piece in pieces if len(set(piece)) > 3 and not any(map(str.isspace, piece)))
            self._pieces.update(dict.fromkeys(telling, finding.mark))

    def text(self, said: str) -> str:
        """The text without secrets and known parts of them."""
        clean = without_secrets(said)
        for size in self._lengths:
            clean = self._without(clean, size)
        return clean

    def _without(self, said: str, size: int) -> str:
        kept: list[str] = []
        end = -1
        """End of the last part found; adjacent parts are joined."""
        for start in range(len(said) - size + 1):
            mark = self._pieces.get(said[start : start + size])
            if mark is not None:
                if start > end:
                    kept += [said[max(end, 0) : start], mark]
                end = start + size
        return said if end < 0 else "".join((*kept, said[end:]))

    def entry(self, said: e.AnyEntry) -> e.AnyEntry:
        """An entry without secrets; for a fold, also without parts of them."""
        return entry(said, self.text if isinstance(said, e.Fold) else without_secrets)


def entry(said: e.AnyEntry, clean_text: Callable[[str], str] = without_secrets) -> e.AnyEntry:
    """Everything in an entry, cleaned: messages, metadata, folds with their summaries."""
    raw = msgspec.to_builtins(said)
    clean = values(raw, clean_text)
    return said if clean == raw else msgspec.convert(clean, type(said))


def values(value: V, clean: Callable[[str], str] = without_secrets, depth: int = 0) -> V:
    """A value with secrets removed from its texts; keys, ids and numbers stay. Deeper values become text."""
    if isinstance(value, str):
        return cast("V", clean(value))
    if isinstance(value, (Mapping, list, tuple)) and depth == MAX_REDACTED_DEPTH:
        return cast("V", clean(compact_json(value)))
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        made = {key: _named(key, inner, clean, depth) for key, inner in fields.items()}
        if fields.get("type") == "thinking" and made.get("text") != fields.get("text"):
            made = {key: inner for key, inner in made.items() if key not in _SEALS}
        return cast("V", made)
    if isinstance(value, (list, tuple)):
        return cast("V", [values(inner, clean, depth + 1) for inner in cast("list[Any]", value)])
    if isinstance(value, msgspec.Struct):
        return msgspec.convert(values(msgspec.to_builtins(value), clean), type(value))
    return value


def _named(key: str, value: Any, clean: Callable[[str], str], depth: int) -> Any:
    if key == "signature":  # of thinking: no secret, and worthless when changed
        return value
    if isinstance(value, str):
        # `{"password": "…"}`: only the name says what the value is.
        pair = f'"{key}": "{value}"'
        found = without_secrets(pair)
        if found != pair and without_secrets(value) == value and found.startswith(f'"{key}": "['):
            return found[len(key) + 5 : -1]
    return values(value, clean, depth + 1)


def _part(part: AnyPart) -> AnyPart | None:
    match part:
        case Text():
            return msgspec.structs.replace(part, text=without_secrets(part.text))
        case Thinking():
            clean = without_secrets(part.text)
            return part if clean == part.text else None
        case Call():
            raw = None if part.raw is None else without_secrets(part.raw)
            return msgspec.structs.replace(part, arguments=values(part.arguments), raw=raw)
        case Opaque():
            return Opaque(values(part.raw), part.source)
        case _:
            return part
