"""Entry ⇄ JSON: the stored format, its version and its migrations (`docs/format.md`)."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from refold.entries import AnyEntry, Entry, Unknown
from refold.errors import FormatError

VERSION = 1

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEntry] = msgspec.json.Decoder(AnyEntry)


def encode(entry: AnyEntry) -> bytes:
    """One line of JSON, without the line end."""
    if isinstance(entry, Unknown):
        return dump_hostile(entry.raw).encode()
    try:
        return _encoder.encode(entry)
    except (UnicodeEncodeError, OverflowError, ValueError):
        return dump_hostile(msgspec.to_builtins(entry)).encode()


def decode(line: bytes | str) -> AnyEntry:
    """The entry of one line. Kinds we do not know come back as `Unknown`; `FormatError` if it is none."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(line)


def dump_hostile(value: Any) -> str:
    """JSON of values the fast encoder refuses (lone surrogates, huge integers)."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _decode_slowly(line: bytes | str) -> AnyEntry:
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("id"), str) or not isinstance(raw.get("type"), str):
        raise FormatError("not an entry: it needs at least an id and a type")
    known = {cls.__struct_config__.tag for cls in _entry_classes()}
    if raw["type"] not in known:
        return Unknown(id=raw["id"], raw=raw)
    try:
        return msgspec.convert(raw, AnyEntry)
    except msgspec.ValidationError as error:
        raise FormatError(f"{raw['type']} entry: {error}") from error


def _entry_classes() -> list[type[Entry]]:
    found: list[type[Entry]] = []
    todo: list[type[Entry]] = [Entry]
    while todo:
        cls = todo.pop()
        todo.extend(cls.__subclasses__())
        if isinstance(cls.__struct_config__.tag, str):
            found.append(cls)
    return found
