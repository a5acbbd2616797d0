"""Lines that are not entries: what can still be read of them.

A damaged line gives a `Hole` with the id, parent, role and call id that are readable; its bytes stay where
they are. An interrupted append (a line that stops in the middle of its JSON) was never acknowledged and gives
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from refold import format as fmt
from refold.entries import Hole, PathEntry, Unknown
from refold.errors import FormatError

INTERRUPTED_APPEND = "the last line is incomplete: its append was interrupted"

_STRING = rb'"((?:[^"\\]|\\.)*)"'
_HEAD = re.compile(
    rb'.{0,32}?"id":' + _STRING + rb'(?:,"time":[-+.eE0-9]{1,30})?(?:,"parent":' + _STRING + rb")?", re.S
)
_TYPE = re.compile(rb'\s*\{"type":"([a-z]{1,20})"')
_ROLE = re.compile(
    rb'"message":\{"role":"(user|assistant|tool|system|bash)"(?:,"call_id":' + _STRING + rb")?"
)
_FIRST = rb'(?=\{"type":"(?:' + "|".join(fmt.ENTRY_TYPES).encode() + rb')","id":")'
_OURS = re.compile(rb'[ \t]*\{"type":"[a-z]{1,20}","id":"[^"]{0,200}","(?:time|parent|message)":')
"""Beginnings of lines that only refold writes."""
_OUR_LINE = re.compile(rb"^\[?(?=" + _OURS.pattern + rb")", re.M)
_BEGIN = re.compile(rb"(?:(?<=\}).|(?<=[^:\[]),)" + _FIRST, re.S)
_reader = json.JSONDecoder()
_CUT_WORD = re.compile(r"[-+.eE0-9]*|t(r(u)?)?|f(a(l(s)?)?)?|n(u(l)?)?|N(a)?|\\u[0-9a-fA-F]{0,4}")


def hole_of(line: bytes, why: str, id: str | None = None) -> Hole | None:
    """The hole for a damaged line; None if it was not on the path, or has no id. `id` is used if it is known
    from elsewhere."""
    if id is None and is_torn(line):
        return None
    kind, name, parent = _facts(line)
    name = id or name
    has_place = kind is None or issubclass(fmt.ENTRY_TYPES.get(kind, Unknown), PathEntry | Unknown)
    if name is None or not has_place:
        return None
    role = _ROLE.search(line)
    return Hole(
        id=name,
        parent=parent,
        role=role.group(1).decode() if role else "",
        call_id=_text(role.group(2)) if role else None,
        why=why[:200],
    )


def is_torn(line: bytes) -> bool:
    """True if the line is an incomplete beginning, as a crash in the middle of a write leaves."""
    try:
        text = line.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        return error.end >= len(line) and error.reason == "unexpected end of data"
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            return True
        begin = error.pos - error.msg.startswith("Invalid \\u")  # which points behind the backslash
        return bool(text.strip()) and _CUT_WORD.fullmatch(text[begin:]) is not None
    except (ValueError, RecursionError):
        return False
    return False


def entries_in_damaged_line(line: bytes) -> list[bytes]:
    """The entries of a line that holds several (appended together, or a line end was lost). After a damaged
    one, reading continues where the next begins. A single entry is the line itself."""
    if line.startswith(b"[") and is_torn(line) and not _has_its_end(line):
        return [line]  # all of them are there, or none
    text = line.decode("latin-1")  # a character for every byte, and JSON's own signs are the same
    at = 0 if line.startswith(b"{") else 1
    found: list[bytes] = []
    while at < len(line) and text[at:] != "]":
        end = _end(text, at)
        if end is None:
            begin = _BEGIN.search(line, at + 1)
            end = begin.start() if begin else len(line) - line.endswith(b"]")
        found.append(line[at:end])
        following = text.find("{", end, end + 4)  # a comma, or brackets and a lost line end
        at = following if following > 0 else end + 1
    return found if len(found) > 1 else [line]


def _end(text: str, at: int) -> int | None:
    """The end of the object that begins here; None if there is none."""
    try:
        return _reader.raw_decode(text, at)[1] if text[at] == "{" else None
    except (ValueError, RecursionError):
        return None


def _has_its_end(line: bytes) -> bool:
    """True if the line only looks interrupted, because its last byte or a quotation mark is damaged."""
    try:
        fmt.load_json(line[:-1] + b"]")
    except FormatError as error:
        return line.endswith(b"}]") and "Unterminated" in str(error)
    return True


def split_header(head: bytes) -> tuple[bytes, int] | None:
    """What is left of a destroyed header, and where the entries begin, if they are certainly refold's."""
    line = head.partition(b"\n")[0]
    begin = re.search(rb"." + _FIRST, line, re.S)
    if begin is not None and begin.start() and _OURS.match(line, begin.end()):
        return line[: begin.start()], begin.end()
    first = _OUR_LINE.search(head)
    if first is None or b'"timestamp"' in head[: first.start()]:
        return None
    return head[: first.start()].rstrip(b"\n"), first.start()


def header_facts(header: bytes) -> dict[str, str]:
    """Id, name and folder from a destroyed header, as far as they are readable."""
    found = {key: re.search(rb'"' + key.encode() + rb'":' + _STRING, header) for key in ("id", "name", "cwd")}
    return {key: text for key, match in found.items() if match and (text := _text(match.group(1)))}


def _facts(line: bytes) -> tuple[str | None, str | None, str | None]:
    """Type, id and parent, as far as they are readable."""
    try:
        raw: Any = fmt.load_json(line)
    except FormatError:
        kind, head = _TYPE.match(line), _HEAD.match(line)
        told = kind.group(1).decode() if kind else None
        return (told, _text(head.group(1)), _text(head.group(2))) if head else (told, None, None)
    found = cast("Mapping[str, Any]", raw if isinstance(raw, Mapping) else {})
    kind, id, parent = (found.get(key) for key in ("type", "id", "parent"))
    if not isinstance(kind, str):
        return None, None, None
    return kind, id if isinstance(id, str) else None, parent if isinstance(parent, str) else None


def _text(inside: bytes | None) -> str | None:
    try:
        return None if inside is None else cast("str", json.loads(b'"' + inside + b'"'))
    except ValueError:
        return None
