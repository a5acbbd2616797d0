"""Rows: the lines that every store keeps, and what it knows about each."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from refold import format as fmt
from refold.entries import AnyEntry, Info
from refold.errors import Conflict, FormatError
from refold.protocols import Loaded, Problem, SessionInfo
from refold.session.validation import validated
from refold.stores import damage
from refold.stores.schema import decoded_text

RAW_LIMIT = 4096
"""Maximum bytes of an unreadable line in a `Problem`."""
LAST_PLACE = 1 << 36
"""One more than the largest place in a session."""


class StoredLine(msgspec.Struct, frozen=True):
    """One stored line. If it is not an entry, `why` says so, and `entry` is its hole or None; the line is
    kept."""

    line: bytes
    entry: AnyEntry | None
    why: str = ""

    @property
    def moves(self) -> bool:
        return self.entry is not None and self.entry.moves


def of_entries(entries: Iterable[AnyEntry]) -> list[StoredLine]:
    return [StoredLine(_encoded(entry), entry) for entry in map(validated, entries)]


def of_lines(lines: Iterable[bytes], version: int = fmt.VERSION) -> list[StoredLine]:
    return [of_line(line, version) for line in lines]


def of_line(line: bytes, version: int = fmt.VERSION, id: str | None = None) -> StoredLine:
    """The row of a line. `id` is used if the store knows it from elsewhere."""
    try:
        return StoredLine(line, fmt.decode(line, version))
    except FormatError as error:
        return StoredLine(line, damage.hole_of(line, str(error), id), str(error))


@contextlib.contextmanager
def decoding() -> Generator[None]:
    """Decodes without garbage collection, which would run again and again for a hundred thousand new
    values."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def upgraded_line(line: bytes, version: int) -> bytes:
    """The line as this release would write it."""
    if version == fmt.VERSION:
        return line
    row = of_line(line, version)
    return line if row.entry is None else _encoded(row.entry)


def _encoded(entry: AnyEntry) -> bytes:
    line = fmt.encode(entry)
    fmt.check_size(entry.id, len(line))
    return line


class SessionTally(msgspec.Struct):
    """What a store knows about a session without reading it; in a database, the session's row."""

    id: str
    created: float = 0.0
    updated: float = 0.0
    name: str | None = None
    cwd: str | None = None
    entries: int = 0
    bytes: int = 0
    bad: int = 0
    tip: str | None = None

    @property
    def info(self) -> SessionInfo:
        return SessionInfo(**{name: getattr(self, name) for name in SessionInfo.__struct_fields__})

    def guard(self, rows: Sequence[StoredLine], after: str | None) -> None:
        """The compare-and-swap: raises `Conflict` unless `after` is still the last entry that moved the
        leaf."""
        if any(row.moves for row in rows):
            self.check(after)

    def check(self, after: str | None) -> None:
        """Raises `Conflict` if another writer has appended since."""
        if self.tip != after:
            raise Conflict(after, self.tip)

    def add(self, rows: Iterable[StoredLine]) -> None:
        for row in rows:
            self.bytes += len(row.line) + 1
            entry = row.entry
            if entry is None:
                self.bad += 1
                continue
            self.entries += 1
            if entry.moves:
                self.tip = entry.id
            elif isinstance(entry, Info):
                self.name = self.name if entry.name is None else entry.name
                self.cwd = self.cwd if entry.cwd is None else entry.cwd


TALLY_COLUMNS = ", ".join(SessionTally.__struct_fields__)


def tally_values(tally: SessionTally, text: Callable[[str | None], Any]) -> tuple[Any, ...]:
    """A tally as a database row; `text` converts strings."""
    values = msgspec.structs.astuple(tally)
    return tuple(text(value) if value is None or isinstance(value, str) else value for value in values)


def of_columns(row: Sequence[Any]) -> SessionTally:
    id, *others = (decoded_text(value) for value in row)
    return SessionTally(id or "", *cast("list[Any]", others))


def span(text: str) -> tuple[bytes, bytes]:
    """The range of byte strings with this prefix. (No text has a byte 0xFF.)"""
    data = text.encode("utf-8", "surrogatepass")
    return data, data[:-1] + bytes([data[-1] + 1]) if data else b"\xff"


def newest_time(rows: Sequence[StoredLine]) -> float:
    """Time of the newest entry; 0.0 if none has one. A conversation is as old as its messages, whenever it
    was stored."""
    return max([0.0, *(row.entry.time for row in rows if row.entry)])


def new_tally(info: SessionInfo, now: float) -> SessionTally:
    info = validated(info)
    created = info.created or now
    return SessionTally(id=info.id, created=created, updated=created, name=info.name, cwd=info.cwd)


def loaded(rows: Iterable[tuple[str, StoredLine]], start: int, tally: SessionTally) -> Loaded:
    """The session from `rows`: (where, row) from its beginning."""
    entries: list[AnyEntry] = []
    problems: list[Problem] = []
    for where, row in rows:
        if row.why:
            problems.append(Problem(where, row.why, row.line[:RAW_LIMIT]))
        if row.entry is None:
            continue
        if start > 0:
            start -= 1
        else:
            entries.append(row.entry)
    return Loaded(tuple(entries), tuple(problems), tally.info, tally.tip)


def rows_by_place(
    select: Callable[[int, int], Iterator[tuple[int, str | None, int, bytes]]],
    first: int,
    count: int,
    broken: type[Exception],
) -> Iterator[tuple[int, StoredLine]]:
    """(place, row) of a session's rows from a place on; there should be `count`. `select` returns (place, id,
    version, line) of a range. If it raises `broken`, rows are read one by one, because those on other pages
    can still be read."""
    at, whole = first, True
    try:
        for place, id, version, line in select(first, LAST_PLACE):
            if gap := place - at:
                yield at, StoredLine(b"", None, f"{gap} rows are missing")
            at = place + 1
            yield place, of_line(line, version, id)
    except broken:
        whole = False
    if whole and at < count:
        yield at, StoredLine(b"", None, f"the last {count - at} rows are missing")
    for place in range(at, at if whole else count):
        try:
            found = next(select(place, place + 1), None)
        except broken:
            yield place, StoredLine(b"", None, "its page of the database is damaged")
            continue
        if found is None:
            yield place, StoredLine(b"", None, "the row is missing")
        else:
            yield place, of_line(found[3], found[2], found[1])


# ── the header of a file ────────────────────────────────────────────────────────────────────────


def header_line(info: SessionInfo) -> bytes:
    return fmt.header(info.id, info.created, info.name, info.cwd)


def parse_header(line: bytes, what: str) -> tuple[SessionTally, int]:
    """Session and format version from a file's first line."""
    found = fmt.read_header(line, what)
    if "timestamp" in found and "created" not in found:  # pi's header; its versions are not ours
        raise FormatError(f"{what} is a session of another program: read it, but do not write to it")
    version = fmt.check_version(what, found.get("version"))
    id, created = found.get("id"), found.get("created")
    if not isinstance(id, str):
        raise FormatError(f"{what} is not a refold session: its header has no id")
    name, cwd = found.get("name"), found.get("cwd")
    return SessionTally(
        id=id,
        created=float(created) if isinstance(created, int | float) else 0.0,
        name=name if isinstance(name, str) else None,
        cwd=cwd if isinstance(cwd, str) else None,
    ), version


# ── several entries on one line ─────────────────────────────────────────────────────────────────


def join_lines(lines: Sequence[bytes]) -> bytes:
    """One line for entries that are appended together, all or none."""
    return lines[0] if len(lines) == 1 else b"[" + b",".join(lines) + b"]"


def split_line(line: bytes) -> list[bytes]:
    """The lines joined by `join_lines`, even if one of them is damaged. A line that is not a list of objects
    stays whole."""
    if not line.startswith(b"["):
        return [line]
    pieces = fmt.entries_in_line(line)
    whole = bool(pieces) and all(piece.startswith(b"{") for piece in pieces)
    return pieces if whole else damage.entries_in_damaged_line(line)


def told_name(rows: Iterable[StoredLine]) -> str | None:
    """The session's name as its entries tell it."""
    infos = (row.entry for row in rows if isinstance(row.entry, Info))
    names = [info.name for info in infos if info.name is not None]
    return names[-1] if names else None


def replaced(row: StoredLine, entries: Mapping[str, AnyEntry]) -> StoredLine:
    """The row, or that of the replacing entry."""
    new = entries.get(row.entry.id) if row.entry is not None else None
    return row if new is None else of_entries([new])[0]


def rows_to_replace(
    found: Iterable[tuple[int, StoredLine]], entries: Mapping[str, AnyEntry], tally: SessionTally
) -> list[tuple[int, StoredLine]]:
    """(place, new row) of the rows that are replaced; the tally says what all of them say then."""
    pairs = [(place, row, replaced(row, entries)) for place, row in found]
    tally.name = told_name(new for _, _, new in pairs)
    tally.bytes += sum(len(new.line) - len(row.line) for _, row, new in pairs)
    return [(place, new) for place, row, new in pairs if new is not row]
