"""refold's own session files: a header line, then entries, one or several (as a list) on a line."""

from __future__ import annotations

from collections.abc import Iterable

from refold import format as stored
from refold.entries import AnyEntry
from refold.errors import FormatError
from refold.protocols import Loaded, SessionInfo
from refold.transcripts.base import Head, TranscriptFile, is_blank
from refold.transcripts.values import as_object

name = "refold"


def detect(head: Head) -> float:
    first = as_object(head.first)
    if first.get("type") != "session" or not isinstance(first.get("version"), int):
        return 0.0
    return 0.98 if isinstance(first.get("id"), str) and "timestamp" not in first else 0.0


def read(source: TranscriptFile) -> Loaded:
    lines = ((number, line) for number, line in source.lines() if not is_blank(line))
    number, first = next(lines, (0, b""))
    title = source.name or "the file"
    header = stored.read_header(first, title)
    version = stored.check_version(title, header.get("version"))
    entries: list[AnyEntry] = []
    for number, line in lines:
        for piece in stored.entries_in_line(line) or [line]:
            try:
                entries.append(stored.decode(piece, version))
            except FormatError as error:
                source.problem(number, str(error), piece)
    return source.loaded(entries, header)


def write_own_session(entries: Iterable[AnyEntry], info: SessionInfo) -> bytes:
    """The file of a session. It holds everything."""
    header = stored.header(info.id, info.created, info.name, info.cwd)
    return b"\n".join([header, *(stored.encode(entry) for entry in entries)]) + b"\n"
