"""refold's own session files: a header line, then entries, one or several (as a list) on a line."""

from __future__ import annotations

from collections.abc import Iterable

from refold import format as stored
from refold.entries import AnyEntry, Info
from refold.errors import FormatError
from refold.protocols import Loaded, SessionInfo
from refold.transcripts.base import Head, Record, Source, is_blank, seconds

name = "refold"


def detect(head: Head) -> float:
    first = head.records[0] if head.records else {}
    if first.get("type") != "session" or not isinstance(first.get("version"), int):
        return 0.0
    return 0.98 if isinstance(first.get("id"), str) and "timestamp" not in first else 0.0


def read(source: Source) -> Loaded:
    lines = ((number, line) for number, line in source.lines() if not is_blank(line))
    number, first = next(lines, (0, b""))
    title = source.name or "the file"
    header = stored.read_header(first, title)
    version = stored.check_version(title, header.get("version"))
    entries: list[AnyEntry] = []
    for number, line in lines:
        for piece in stored.split(line) or [line]:
            try:
                entries.append(stored.decode(piece, version))
            except FormatError as error:
                source.problem(number, str(error), piece)
    loaded = source.loaded(entries)
    return Loaded(loaded.entries, loaded.problems, _info(header, loaded.entries))


def write(entries: Iterable[AnyEntry], info: SessionInfo) -> bytes:
    """The file of a session. It holds everything."""
    header = stored.header(info.id, info.created, info.name, info.cwd)
    return b"\n".join([header, *(stored.encode(entry) for entry in entries)]) + b"\n"


def _info(header: Record, entries: tuple[AnyEntry, ...]) -> SessionInfo:
    named = [entry.name for entry in entries if isinstance(entry, Info) and entry.name]
    placed = [entry.cwd for entry in entries if isinstance(entry, Info) and entry.cwd]
    title, cwd = header.get("name"), header.get("cwd")
    return SessionInfo(
        id=str(header.get("id", "session")),
        created=seconds(header.get("created")),
        updated=max((entry.time for entry in entries), default=0.0),
        name=named[-1] if named else (title if isinstance(title, str) else None),
        cwd=placed[-1] if placed else (cwd if isinstance(cwd, str) else None),
        entries=len(entries),
    )
