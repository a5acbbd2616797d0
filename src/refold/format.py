"""Entry ⇄ JSON: the stored format, its version and its migrations (`docs/format.md`).

The fast way is msgspec. What it refuses or would change (lone surrogates, unknown kinds, and values that only
files of 0.1.0 hold) is read and written by `refold.text.lenient_json`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast, get_args

import msgspec

from refold.entries import AnyEntry, Entry, Unknown
from refold.errors import FormatError, NewerFormat, UsageError
from refold.text.lenient_json import LINE_DEPTH, dump_json, invalid, load_json, may_be_deep

VERSION = 1
MAX_ENTRY = 256 * 1024 * 1024
"""Bytes of an entry's line. Readers take lines of twice that."""

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""`MIGRATIONS[n]` turns the JSON object of an entry of version n into one of version n + 1."""

ENTRY_TYPES: dict[str, type[Entry]] = {
    str(kind.__struct_config__.tag): kind for kind in cast("tuple[type[Entry], ...]", get_args(AnyEntry))
}
"""What the `type` of an entry names."""

_encoder = msgspec.json.Encoder()


@cache
def _decoder() -> msgspec.json.Decoder[AnyEntry]:
    """Made at the first use: it takes as long as all classes of entries."""
    return msgspec.json.Decoder(AnyEntry)


def encode(entry: AnyEntry) -> bytes:
    """One line of JSON, without the line end."""
    if isinstance(entry, Unknown):
        return dump_json(_whole(entry)).encode()
    try:
        line = _encoder.encode(entry)
    except (UnicodeEncodeError, OverflowError):
        return dump_json(entry).encode()
    if b"null" in line and invalid(msgspec.to_builtins(entry), LINE_DEPTH):
        return dump_json(entry).encode()  # of a file of 0.1.0; the fast way writes NaN and infinities as null
    return line


def check_size(id: str, size: int) -> None:
    """`UsageError` for an entry that is too large to be read again."""
    if size > MAX_ENTRY:
        raise UsageError(
            f"entry {id[:40]!r} has {size:,} bytes; the limit is {MAX_ENTRY:,}: "
            "shorten it, or store it in a file and append the file name"
        )


def decode(line: bytes | str, version: int = VERSION) -> AnyEntry:
    """The entry of one line, written in format `version`. Kinds we do not know come back as `Unknown`;
    `FormatError` if it is no entry."""
    if version == VERSION:
        try:
            entry = _decoder().decode(line)
            deep = may_be_deep(line) and invalid(msgspec.to_builtins(entry), LINE_DEPTH)
            if type(entry) is not Unknown and not deep:
                return entry
        except (msgspec.DecodeError, UnicodeDecodeError, UnicodeEncodeError, RecursionError):
            pass
    return _decode_slowly(line, version)


def header(id: str, created: float, name: str | None, cwd: str | None) -> bytes:
    """The first line of a file."""
    named = {key: value for key, value in (("name", name), ("cwd", cwd)) if value is not None}
    fields = {"type": "session", "version": VERSION, "id": id, "created": created, **named}
    return dump_json(fields).encode()


def read_header(line: bytes, what: str) -> dict[str, Any]:
    try:
        raw: Any = load_json(line)
    except FormatError:
        raw = None
    if not isinstance(raw, dict) or cast("dict[str, Any]", raw).get("type") != "session":
        raise FormatError(f"{what} is not a refold session: its first line is not a session header")
    return cast("dict[str, Any]", raw)


def entries_in_line(line: bytes) -> list[bytes]:
    """The entries of a line: one, or several that were appended together; none where it cannot be read."""
    if not line.startswith(b"["):
        return [line]
    try:
        return [bytes(raw) for raw in msgspec.json.decode(line, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return [dump_json(item).encode() for item in load_json(line)]
    except FormatError:
        return []


def check_version(what: str, version: object) -> int:
    """The version that a header claims, if this release can read it."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{what} names no format version: it is not a refold session")
    if version > VERSION:
        raise NewerFormat(what, version, VERSION)
    return version


def upgrade(raw: dict[str, Any], version: int) -> dict[str, Any]:
    """The JSON object of an entry of format `version`, as this release writes it."""
    for step in range(version, VERSION):
        if step not in MIGRATIONS:
            raise FormatError(f"there never was a format version {step}")
        raw = MIGRATIONS[step](raw)
    return raw


def canonical_line(line: bytes | str) -> bytes:
    """Equal for two lines exactly when they hold the same JSON value: keys sorted, no spaces, ASCII."""
    return dump_json(load_json(line), sort=True).encode()


def _whole(entry: Unknown) -> dict[str, Any]:
    raw = entry.raw
    return raw if "id" in raw and "type" in raw else {"type": "unknown", "id": entry.id, **raw}


def _decode_slowly(line: bytes | str, version: int) -> AnyEntry:
    raw: Any = load_json(line)
    if not isinstance(raw, dict):
        raise FormatError("not an entry: not a JSON object")
    raw = upgrade(cast("dict[str, Any]", raw), version)
    if not isinstance(raw.get("id"), str) or not isinstance(raw.get("type"), str):
        raise FormatError("not an entry: it needs at least an id and a type")
    if ENTRY_TYPES.get(raw["type"], Unknown) is Unknown:
        return Unknown(id=raw["id"], time=_seconds(raw.get("time")), raw=raw)
    try:
        return cast("AnyEntry", msgspec.convert(raw, AnyEntry))
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise FormatError(f"{raw['type']} entry: {error}") from error


def _seconds(time: object) -> float:
    return float(time) if isinstance(time, int | float) and abs(time) < 1e12 else 0.0
