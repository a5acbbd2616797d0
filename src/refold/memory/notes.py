"""Notes: what is remembered across sessions, one a line, with date and source.

    [2026-11-15 user] Prefers tabs over spaces.
    [2026-11-15 tool WebFetch] “The API is limited to 60 requests a minute.”

A note that did not come from the user is kept as a quotation: whatever it says, it is something that was
read, not something that was asked for. A line without brackets is a note of unknown date and source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from refold.text.frames import RECORD_NOTE, defuse, frame, quote
from refold.text.truncate import middle

USER = "user"
NOTE_LIMIT = 2000
"""Characters of one note; the middle of a longer one is omitted."""
_line = re.compile(r"\[(\d{4}-\d\d-\d\d)(?: ([^\[\]\n]{1,120}))?\] ?(.*)")
_bullet = re.compile(r"^\s*+(?:[-*•]|\d{1,4}[.)])\s+")


class MemoryNote(msgspec.Struct, frozen=True):
    """One note. `date` is YYYY-MM-DD or empty; `source` says where it comes from: `user`, `tool NAME`,
    `session ID` …"""

    text: str
    date: str = ""
    source: str = ""

    @property
    def is_quoted(self) -> bool:
        """True if the words are not the user's own."""
        return self.source not in ("", USER)

    @property
    def line(self) -> str:
        said = f"“{self.text.strip('“”')}”" if self.is_quoted else self.text
        head = " ".join(part for part in (self.date, self.source) if part)
        return f"[{head}] {said}" if self.date else said


def note(text: str, *, date: str, source: str = USER) -> MemoryNote:
    """A new note: one line, defused, redacted, within the limit. `ValueError` if it is empty then."""
    said = " ".join(quote(text).split())  # without secrets: a memory outlives its session
    if not said.strip("“” "):
        raise ValueError("a note needs some text")
    said = middle(said, NOTE_LIMIT, " […] ", 2 / 3)
    where = re.sub(r"[\[\]\s]+", " ", defuse(source)).strip()[:120]
    return MemoryNote(said, date, where or "unknown")


def parse_notes(text: str) -> list[MemoryNote]:
    """The notes in a memory text, without empty lines."""
    return [_parsed(line) for line in text.splitlines() if line.strip()]


def _parsed(line: str) -> MemoryNote:
    match = _line.fullmatch(line.strip())
    if match is None:
        return MemoryNote(line.rstrip("\r\n"))
    date, source, said = match[1], match[2] or "", match[3]
    unquoted = said[1:-1] if source not in ("", USER) and said[:1] + said[-1:] == "“”" else said
    return MemoryNote(unquoted, date, source)


def written(notes: Iterable[MemoryNote]) -> str:
    return "".join(f"{each.line}\n" for each in notes)


def note_lines(text: str) -> list[str]:
    """The lines that are notes, unchanged."""
    return [line for line in text.splitlines() if line.strip()]


def unbulleted(line: str) -> str:
    """A line of a model's answer without list marks."""
    return _bullet.sub("", line, count=1).strip()


def quoted_memory(text: str) -> str:
    """The memory as shown to the model: a quoted record."""
    return frame("memory", text.rstrip("\n"), source="notes of earlier sessions", note=RECORD_NOTE)
