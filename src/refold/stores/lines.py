"""Reading a session file line by line, from any position."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from refold.protocols import Problem
from refold.stores import damage, rows
from refold.stores.disk import Disk
from refold.stores.rows import SessionTally, StoredLine

MAX_LINE_BYTES = 512 * 1024 * 1024
"""Lines longer than this are reported and skipped, not read into memory."""
_CHUNK = 1 << 20


class ReadState(msgspec.Struct):
    """What is known of a file up to `end`."""

    inode: tuple[int, int]
    end: int
    """Everything before it has been read."""
    version: int
    tally: SessionTally
    number: int = 1
    """Number of lines so far, including the header."""
    torn: bool = False
    """True if the file does not end with a line end."""
    header: tuple[Problem, ...] = ()
    """What is wrong with the first line."""


def read_rows(disk: Disk, fd: int, known: ReadState) -> Iterator[tuple[int, StoredLine]]:
    """(line number, row) after `known.end`, which advances."""
    for line, ended in raw_lines(disk, fd, known):
        if len(line) > MAX_LINE_BYTES:
            found = [StoredLine(line[: rows.RAW_LIMIT], None, f"a line longer than {MAX_LINE_BYTES} bytes")]
        elif line.startswith(b"["):
            found = rows.of_lines(rows.split_line(line), known.version)
        elif line or not ended:
            found = [rows.of_line(line, known.version)]
            if found[0].why:
                found = rows.of_lines(damage.entries_in_damaged_line(line), known.version)
        else:
            continue
        if not ended and any(row.why for row in found):
            found = [StoredLine(line, None, damage.INTERRUPTED_APPEND)]
        known.tally.add(found)
        for row in found:
            yield known.number, row


def raw_lines(disk: Disk, fd: int, known: ReadState) -> Iterator[tuple[bytes, bool]]:
    r"""(line, whether it has a line end) from `known.end` on. Only \n ends a line."""
    held: list[bytes] = []
    length = 0
    at = known.end
    while chunk := disk.read(fd, _CHUNK, at):
        at += len(chunk)
        pieces = chunk.split(b"\n")
        for piece in pieces[:-1]:
            known.end += length + len(piece) + 1
            known.number += 1
            line = b"".join((*held, piece)) if held else piece
            held, length = [], 0
            yield line, True
        length += len(pieces[-1])
        if length <= MAX_LINE_BYTES + _CHUNK and pieces[-1]:
            held.append(pieces[-1])
    if held:
        known.end += length
        known.number += 1
        known.torn = True
        yield b"".join(held), False
