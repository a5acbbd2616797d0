"""The interface of importers.

A format is a module with three members (see `Format`). It gets a `TranscriptFile`, which reads in bounded
memory and records problems, and returns `Loaded`: entries in log order plus `source.problems`. An importer
never drops anything silently and never raises for a bad line; it raises `FormatError` only if nothing in the
file can be read.

Ids are the source's own, else `e<index>` (`index_id`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, BinaryIO, Protocol, TypeVar, cast

import msgspec

from refold.entries import AnyEntry, Info
from refold.errors import FormatError
from refold.protocols import Loaded, Problem, SessionInfo
from refold.session.repair import repaired
from refold.text.lenient_json import MAX_DEPTH, JsonObject, invalid, partial_json, storable
from refold.text.plural import counted
from refold.text.truncate import one_line

T = TypeVar("T")

HEAD_BYTES = 64 * 1024
"""Number of bytes available to detection."""
MAX_RECORD_BYTES = 64 * 1024 * 1024
MAX_PROBLEMS = 10_000
MAX_DOCUMENT = 1024 * 1024 * 1024
_SHOWN = 200
_BOM = b"\xef\xbb\xbf"


class Head:
    """The beginning of a file, for detection. `whole`: it is the entire file."""

    def __init__(self, raw: bytes, *, whole: bool) -> None:
        self.raw = raw
        self.whole = whole

    @cached_property
    def text(self) -> str:
        return recode(self.raw).decode("utf-8", "replace")

    @cached_property
    def records(self) -> tuple[JsonObject, ...]:
        """The JSON objects at the beginning, one per line; blank and comment lines are skipped. Empty for a
        document over several lines. The last one may be cut off."""
        lines = [line for line in self.text.split("\n") if not is_blank(line.encode("utf-8", "replace"))]
        found: list[JsonObject] = []
        for number, line in enumerate(lines):
            last = number == len(lines) - 1 and not self.whole
            try:
                value = partial_json(line) if last else loads(line.encode("utf-8", "replace"))
            except ValueError:
                if not found:
                    return ()
                continue
            if isinstance(value, dict):
                found.append(cast("JsonObject", value))
        return tuple(found)

    @property
    def first(self) -> Any:
        """The first record; where there are no records, the document."""
        return self.records[0] if self.records else self.value

    @cached_property
    def value(self) -> Any:
        """The JSON document as far as the head goes (open lists and objects closed); None if it is not
        JSON."""
        if self.whole:
            with suppress(ValueError):
                return loads(recode(self.raw))
        with suppress(ValueError):
            return partial_json(self.text)
        return None


SEVERAL_CONVERSATIONS = "conversations"
"""`where` of the notice that the file has several conversations and none was selected."""


PARENT_OUTSIDE = "its parent is not in this file; attached to the record before"
"""`text` of the notice that a record continues one in another file, which is named in `raw`."""


def problem_sentences(problems: Sequence[Problem]) -> list[str]:
    """Problems in words, for users."""
    outside = [problem for problem in problems if problem.text == PARENT_OUTSIDE]
    others = [one for one in problems if one.where != SEVERAL_CONVERSATIONS and one.text != PARENT_OUTSIDE]
    told = [
        f"the file {one.text} (`refold import FILE` takes all)"
        for one in problems
        if one.where == SEVERAL_CONVERSATIONS
    ]
    if outside:
        names, they = ("names", "it was") if len(outside) == 1 else ("name", "they were")
        records = f"{counted(len(outside), 'record')} {names} a parent that is not in this file"
        told.append(f"{records}; {they} attached to the record before")
    if others:
        first = f"{others[0].where}: {one_line(others[0].text, 160)}"
        more = "; the first" if len(others) > 1 else ""
        told.append(f"{counted(len(others), 'problem')} while reading{more}: {first}")
    return told


class TranscriptFile:
    """A file being read. Problems are collected in `problems`, for `Loaded`."""

    def __init__(
        self, stream: BinaryIO, *, name: str = "", max_line: int = MAX_RECORD_BYTES, index: int | None = None
    ) -> None:
        self.name = name
        self.index = index
        """Index of the wanted conversation, from 0; None: the first."""
        self.conversations = 1
        """Number of conversations in the file; known after reading."""
        self.problems: list[Problem] = []
        self._unlisted = 0
        self._whole: dict[str, tuple[Any, list[Problem]]] = {}
        self._stream = stream
        self._max_line = max_line

    def problem(self, where: str | int, text: str, raw: bytes | str = b"") -> None:
        """Records a problem. `where` is a line number or words. After ten thousand they are only counted."""
        if len(self.problems) >= MAX_PROBLEMS:
            self._unlisted += 1
            more = Problem("file", f"{self._unlisted} more problems, which are not listed")
            self.problems[MAX_PROBLEMS:] = [more]
            return
        if isinstance(raw, str):
            raw = raw[:_SHOWN].encode("utf-8", "replace")
        place = f"line {where}" if isinstance(where, int) else where
        self.problems.append(Problem(place, text, bytes(raw[:_SHOWN])))

    def at(self, index: int) -> TranscriptFile:
        """The same file, read for another of its conversations."""
        self._stream.seek(0)
        other = TranscriptFile(self._stream, name=self.name, max_line=self._max_line, index=index)
        other._whole = self._whole
        return other

    def once(self, what: str, read: Callable[[], T]) -> T:
        """What is read of the whole file: once for all of its conversations, each of which has the problems
        that were met."""
        if what not in self._whole:
            before = len(self.problems)
            value = read()
            self._whole[what] = value, self.problems[before:]
        else:
            value, problems = self._whole[what]
            for problem in problems:
                self.problem(problem.where, problem.text, problem.raw)
        return value

    def head(self) -> Head:
        """The beginning; reading still starts there."""
        raw = self._stream.read(HEAD_BYTES)
        self._stream.seek(0)
        return Head(raw, whole=len(raw) < HEAD_BYTES)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Line numbers (from 1) and lines without their ends. A line longer than the limit is a problem."""
        number = 0
        while line := self._stream.readline(self._max_line + 1):
            number += 1
            if number == 1:
                line = self._first(line)
            if len(line) > self._max_line and not line.endswith(b"\n"):
                self.problem(number, f"longer than {self._max_line} bytes: skipped", line)
                while (rest := self._stream.readline(1 << 20)) and not rest.endswith(b"\n"):
                    pass
                continue
            yield number, line.rstrip(b"\r\n")

    def records(self) -> Iterator[tuple[int, JsonObject]]:
        """The JSON objects, one per line, with line numbers; other lines become problems. Blank and comment
        lines (`//`, `#`) are skipped."""
        for number, line in self.lines():
            if is_blank(line):
                continue
            try:
                value = self._value(number, line)
            except ValueError as error:
                self.problem(number, f"not JSON ({_short(error)}): skipped", line)
                continue
            if isinstance(value, dict):
                yield number, cast("JsonObject", value)
            else:
                self.problem(number, f"{type(value).__name__} where an object was expected: skipped", line)

    def document(self) -> Any:
        """The whole file as one JSON value, as far as it goes; raises `FormatError` if it is not JSON."""
        title = self.name or "the file"
        data = self._stream.read(MAX_DOCUMENT + 1)
        if len(data) > MAX_DOCUMENT:
            raise FormatError(f"{title} is larger than {MAX_DOCUMENT >> 20} MB: split it first")
        try:
            return self._value("file", recode(data))
        except ValueError as error:
            with suppress(ValueError):
                if value := partial_json(recode(data).decode("utf-8", "replace")):
                    self.problem(
                        "file", f"is incomplete or damaged ({_short(error)}): read as far as it goes"
                    )
                    return value
            raise FormatError(f"{title} is not valid JSON: {_short(error)}") from error

    def choose(self, found: int) -> int:
        """The wanted one of `found` conversations; notes that there are more if none was selected."""
        index, self.conversations = self.index or 0, found
        if not 0 <= index < found:
            title = self.name or "the file"
            held = (
                "one conversation: choose 0"
                if found == 1
                else f"{found} conversations: choose 0 to {found - 1}"
            )
            raise FormatError(f"{title} holds {held}, not {index}")
        if found > 1 and self.index is None:
            self.problem(
                SEVERAL_CONVERSATIONS,
                f"holds {found} conversations; this is the first: name another as FILE#1 … FILE#{found - 1}",
            )
        return index

    def loaded(self, entries: Iterable[AnyEntry], header: JsonObject) -> Loaded:
        """The entries as a tree, with the problems: duplicate ids are changed, missing entries become holes.
        `header`: the file's information on its session."""
        tree = repaired(self._apart(entries))
        for problem in tree.problems:
            self.problem(problem.where, problem.text)
        return Loaded(tuple(tree.entries), tuple(self.problems), _info_of(header, tree.entries))

    def _apart(self, entries: Iterable[AnyEntry]) -> Iterator[AnyEntry]:
        seen: dict[str, int] = {}
        for entry in entries:
            id = entry.id
            while id in seen:
                seen[entry.id] += 1
                id = f"{entry.id}~{seen[entry.id]}"
            seen[id] = 1
            if id == entry.id:
                yield entry
            else:
                self.problem(f"entry {entry.id}", f"a second entry has this id: now called {id}")
                yield msgspec.structs.replace(entry, id=id)

    def _first(self, line: bytes) -> bytes:
        if line.startswith((b"\xff\xfe", b"\xfe\xff")):
            whole = recode(line + self._stream.read(MAX_DOCUMENT))
            self._stream = io.BytesIO(whole)
            return self._stream.readline(self._max_line + 1)
        return line.removeprefix(_BOM)

    def _value(self, where: str | int, data: bytes) -> Any:
        try:
            return loads(data)
        except UnicodeDecodeError:
            value = loads(data.decode("utf-8", "replace").encode())
            self.problem(where, "not UTF-8: unreadable characters were replaced", data)
            return value


class Format(Protocol):
    """The members of a format module."""

    name: str

    def detect(self, head: Head) -> float:
        """Confidence that the file has this format, 0 … 1. Fast; never raises."""
        ...

    def read(self, source: TranscriptFile) -> Loaded: ...


def loads(data: bytes) -> Any:
    """A JSON value, including unusual ones (lone surrogates, huge numbers, NaN); raises `ValueError`."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        try:
            value = storable(json.loads(data))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and invalid(value):
        raise ValueError("nested too deeply")
    return value


def recode(data: bytes) -> bytes:
    """The data as UTF-8, whatever Unicode encoding its byte-order mark announces."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data.removeprefix(_BOM)


def is_blank(line: bytes) -> bool:
    stripped = line.lstrip()[:2]
    return not stripped or stripped == b"//" or stripped[:1] == b"#"


def index_id(index: int) -> str:
    """Id of the entry at this position in a file whose entries have none; a header does not count."""
    return f"e{index}"


def seconds(value: Any) -> float:
    """Seconds since 1970 from an ISO text, seconds, or milliseconds; 0.0 where there is no time."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return 0.0
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e14:
        return value / 1000 if value > 1e11 else float(value)
    return 0.0


def _info_of(header: JsonObject, entries: Sequence[AnyEntry]) -> SessionInfo:
    """The header's information on its session, unless entries are newer."""
    infos = [entry for entry in entries if isinstance(entry, Info)]
    names = (*(info.name for info in reversed(infos)), header.get("name"))
    places = (*(info.cwd for info in reversed(infos)), header.get("cwd"))
    return SessionInfo(
        id=str(header.get("id", "session")),
        created=seconds(header.get("created", header.get("timestamp"))),
        updated=max((entry.time for entry in entries), default=0.0),
        name=next((name for name in names if name and isinstance(name, str)), None),
        cwd=next((place for place in places if place and isinstance(place, str)), None),
        entries=len(entries),
    )


def _short(error: Exception) -> str:
    return str(error).split("\n")[0][:120]
