"""Which entries each line of a record comes from, so that anyone can check it (`refold show --why`).

Lines name entries by their numbers, and files that are listed are known to the state: a record can be read
back. Of what a model or a digest wrote no more is known than the stretch it stands for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from refold import entries as e
from refold.compaction.details import LineSource
from refold.compaction.reading import Reading
from refold.preserve.state_text import TODOS, catalogue
from refold.text.frames import quote

_MOST = 64
"""Ids that are stored for one line: the newest."""


def line_sources(
    text: str, parts: Sequence[tuple[str, str]], reading: Reading, stretch: tuple[int, int]
) -> list[LineSource]:
    """The sources of a record's lines. `parts`: its parts in order, by what they are; `stretch`: where the
    first and the last entry are that it stands for."""
    found: list[LineSource] = []
    path, at = reading.session.path, 0
    for kind, part in parts:
        shown = part if kind in ("words", "pins") else quote(part)
        place = text.find(shown, at)
        if not shown or place < 0:
            continue
        at = place
        told = _READERS.get(kind, _written)(reading, shown.split("\n"), stretch)
        for line, (numbers, through) in enumerate(told, text.count("\n", 0, place)):
            ids = [path[number].id for number in numbers[-_MOST:]]
            if found and found[-1].last == line - 1 and (found[-1].ids, found[-1].through) == (ids, through):
                found[-1] = msgspec.structs.replace(found[-1], last=line)
            elif ids:
                found.append(LineSource(line, line, ids, through))
    return found


_Stretch = tuple[int, int]
_Told = tuple[Sequence[int], bool]
"""Positions of entries, and whether all between the first and the last are meant."""
_NOTHING: _Told = ((), False)
_NUMBER = re.compile(r"#(\d{1,9})(?:–(\d{1,9}))?(?=$|:|, files changed)")


def _marked(pattern: re.Pattern[str]) -> Callable[[Reading, Sequence[str], _Stretch], Iterator[_Told]]:
    """A reader of blocks whose first line begins with a number."""

    def read(_: Reading, rows: Sequence[str], __: _Stretch) -> Iterator[_Told]:
        told, last = _NOTHING, -1
        for row in rows:
            if (found := pattern.match(row)) and int(found[1]) > last:
                last = int(found[1])
                told = (last,), False
            yield told if row else _NOTHING

    return read


def _pins(reading: Reading, rows: Sequence[str], _: _Stretch) -> Iterator[_Told]:
    keys = {e.key(id): reading.session.position(id) for id in reading.session.pins}
    told = _NOTHING
    for row in rows:
        number = next((number for key, number in keys.items() if key in row[:400]), None)
        told = ((number,), False) if number is not None else told
        yield told


def _lines(reading: Reading, rows: Sequence[str], _: _Stretch) -> Iterator[_Told]:
    told = _NOTHING
    for row in rows:
        if row.startswith("- ") and (found := [*_NUMBER.finditer(row)]):
            first, last = int(found[-1][1]), int(found[-1][2] or found[-1][1])
            told = ((first, last), True) if last > first else (reading.step_at(first), False)
        yield told if row.startswith(("- ", "  ")) else _NOTHING


def _state(reading: Reading, rows: Sequence[str], _: _Stretch) -> Iterator[_Told]:
    """A list of files comes from the calls that touched them last; other rows name their entry."""
    files = catalogue(reading.state)
    names = {
        name: note.number for note in files.notes for name in (note.name, note.name.removeprefix(files.root))
    }
    heading, told = "", _NOTHING
    for row in rows:
        if row.endswith(":") and not row.startswith(("- ", " ")):
            heading, told = row, _NOTHING
        elif heading.startswith("Files "):
            folder, mark, listed = row.removeprefix("- ").partition("/: ")
            some = [posixpath.join(folder, name) for name in listed.split(", ")] if mark else [folder]
            told = [names[name] for name in some if name in names], False
        elif heading.startswith(TODOS):
            told = [number for number in (reading.state.todos_at,) if number >= 0], False
        elif row.startswith("- ") and (found := _NUMBER.search(row)):
            told = reading.step_at(int(found[1])), False
        yield told


def _written(_: Reading, rows: Sequence[str], stretch: _Stretch) -> Iterator[_Told]:
    return ((stretch, True) if row and not row.startswith("## ") else _NOTHING for row in rows)


_READERS: dict[str, Callable[[Reading, Sequence[str], _Stretch], Iterator[_Told]]] = {
    "words": _marked(re.compile(r"\[#(\d{1,9})\]")),
    "pins": _pins,
    "State of the work": _state,
    "What was done": _lines,
    "Newest steps, quoted": _marked(re.compile(r"#(\d{1,9}) \w")),
}
