"""Read: part of a text file with line numbers, bounded, however large the file is."""

from __future__ import annotations

import codecs
import os
from itertools import accumulate
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec

from refold.text.plural import counted
from refold.text.truncate import head
from refold.tools.base import Envelope, ToolContext, success, tool
from refold.tools.workspace import ToolRefused, Version

MAX_LINES = 2_000
READ_LINE_CHARS = 2_000
READ_CHARS = 100_000
"""Maximum characters shown by one call."""
SCANNED = 1 << 30
"""Maximum bytes scanned by one call."""
_CHUNK = 1 << 16


class ReadArguments(msgspec.Struct, frozen=True):
    path: Annotated[str, msgspec.Meta(description="The file, relative to the working folder.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="First line, counted from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description=f"Number of lines (default {MAX_LINES}).")] = (
        MAX_LINES
    )


class FilePiece(NamedTuple):
    lines: list[str]
    total: int | None
    """Number of lines of the file; None if it is too large to count."""
    encoding: str


@tool("Read", "read")
def read_tool(arguments: ReadArguments, place: ToolContext) -> Envelope:
    """Read a text file. Every line has its number in front, which is not part of the file. Long files come in
    pieces: go on with offset."""
    path, workspace = arguments.path, place.workspace
    with workspace.open(path) as file:
        status = os.fstat(file.fileno())
        piece = _piece(file, arguments, status.st_size)
    name, version = workspace.name(path), Version.of(status)
    note = f"Note: {name} was modified externally." if workspace.changed(path, version) else ""
    workspace.seen[name] = version
    if piece.total is not None and arguments.offset > max(piece.total, 1):
        raise ToolRefused(
            "out_of_range",
            f"`{path}` has {counted(piece.total, 'line')}: there is no line {arguments.offset:,}.",
        )
    return _envelope(name, arguments, piece, status, note)


def _envelope(
    name: str, arguments: ReadArguments, piece: FilePiece, status: os.stat_result, note: str
) -> Envelope:
    shown = _within(piece.lines)
    start, end = arguments.offset, arguments.offset + len(shown) - 1
    rest = piece.total is None or end < piece.total
    data: dict[str, Any] = {
        "path": name,
        "content": "\n".join(f"{start + i}\t{line}" for i, line in enumerate(shown)),
        "start_line": start,
        "end_line": end,
        **({"total_lines": piece.total} if piece.total is not None else {}),
        "mtime": round(status.st_mtime, 3),
        **({"encoding": piece.encoding} if piece.encoding != "utf-8" else {}),
        **({"truncated": True} if rest and len(shown) < arguments.limit else {}),
    }
    more = f"There is more: go on with offset {end + 1}." if rest else ""
    empty = "The file is empty." if not piece.total and not shown else ""
    return success(data, " ".join(filter(None, (note, empty, more))), size=status.st_size)


def _within(lines: list[str]) -> list[str]:
    sizes = accumulate(len(line) + 8 for line in lines)
    return [line for line, size in zip(lines, sizes, strict=True) if size <= READ_CHARS]


def _piece(file: BinaryIO, arguments: ReadArguments, size: int) -> FilePiece:
    start = file.read(_CHUNK)
    encoding = encoding_of(start)
    if encoding is None:
        raise ToolRefused(
            "binary", f"`{arguments.path}` is no text ({size} bytes): look at it with a program through Bash."
        )
    file.seek(0)
    if encoding == "utf-16":
        rows = file.read(SCANNED // 8).decode(encoding, "replace").splitlines()
        wanted = rows[arguments.offset - 1 :][: arguments.limit]
        return FilePiece([_cut(row) for row in wanted], len(rows), encoding)
    return _lines(file, arguments)


def encoding_of(start: bytes) -> str | None:
    """The encoding of a file, by its first bytes; None if it is not text."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return None if b"\0" in start else "utf-8"


def _lines(file: BinaryIO, arguments: ReadArguments) -> FilePiece:
    """The requested lines, then the total number. No line is held in memory as a whole."""
    lines: list[str] = []
    number, encoding = 0, "utf-8"
    while number < arguments.offset + arguments.limit - 1 and (row := file.readline(_CHUNK)):
        number += 1
        first = row
        while not row.endswith(b"\n") and len(row) == _CHUNK and file.tell() < SCANNED:
            row = file.readline(_CHUNK)
        if file.tell() >= SCANNED:
            return FilePiece(lines, None, encoding)
        if number >= arguments.offset:
            text, encoding = _decoded(first, encoding)
            lines.append(text)
    return FilePiece(lines, _count(file, number), encoding)


def _decoded(row: bytes, encoding: str) -> tuple[str, str]:
    try:
        text = row.decode()
    except UnicodeDecodeError as error:
        text = row.decode(errors="replace")
        if error.start < _CHUNK - 4:  # a character that the chunk cut in two says nothing
            encoding = "unknown, shown as utf-8"
    return _cut(text.removeprefix("\ufeff").rstrip("\r\n")), encoding


def _cut(line: str) -> str:
    if len(line) <= READ_LINE_CHARS:
        return line
    return head(line, READ_LINE_CHARS) + f"… [{len(line) - READ_LINE_CHARS} more characters in this line]"


def _count(file: BinaryIO, number: int) -> int | None:
    """Number of lines of the whole file, of which `number` have been read."""
    last = b"\n"
    while chunk := file.read(1 << 20):
        if file.tell() >= SCANNED:
            return None
        number += chunk.count(b"\n")
        last = chunk[-1:]
    return number + (last != b"\n")
