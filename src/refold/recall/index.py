"""The index of one conversation: the words of every entry, on any branch, folded or not.

It grows entry by entry and is never rebuilt. A term that occurs in one entry costs one integer; other terms
have an array of `entry << 8 | times` in log order. The index holds no text: snippets are read from the
messages.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from refold.entries import Entry, key
from refold.messages import Assistant, Message, Result, System, Text, User, searchable
from refold.recall.tool_calls import StepIndex
from refold.text import dates, words
from refold.text.sentences import speaker_of

# What is known of an entry apart from its words (bits of `Index.flags`).
ENDS_ASKING, ASKS, TELLS_TIME = 1, 2, 4
SILENT = 8
"""Explains nothing: a result, a bare call, a system prompt."""
BOILERPLATE = 16
"""Added by the client itself: reminders, help on commands."""
NEW_STRETCH_SECONDS = 3 * 3600
"""Seconds of silence after which a new stretch begins."""
PROSE_LIMIT = 4000
TIMES_LIMIT = 255

_remark = re.compile(r"\s*\[[^\[\]\n]{0,300}\]\s*$")
"""A bracketed remark at the end of a message (a picture, a laugh), which is not part of what is said."""


class Doc(msgspec.Struct, frozen=True):
    """An indexed entry. `turn` counts from 1 along the entry's own branch; 0: before the first."""

    entry_id: str
    message: Message
    turn: int = 0
    time: float = 0.0
    speaker: str = ""
    tool: str = ""
    """Name of the tool, for a result."""

    @property
    def key(self) -> str:
        return key(self.entry_id)


class Index:
    """Words of a log. Entries are added in log order; `rank.search` queries them."""

    def __init__(self) -> None:
        self.docs: list[Doc] = []
        self.flags = bytearray()
        self.sizes = array("I")
        """Number of terms per entry, repeats included."""
        self.total = 0
        self.stretch = array("I")
        self.dates: list[dates.When] = []
        """Day of each stretch."""
        self.speakers = Counter[str]()
        """Number of entries per speaker."""
        self.tool_entries = 0
        """Entries with a tool call or a result."""
        self.turns: dict[int, list[int]] = {}
        self.tools: dict[str, list[int]] = {}
        self.ids: dict[str, int] = {}
        self.numbered: Sequence[Entry] = ()
        """The path that entry and turn numbers refer to."""
        self._keys: dict[str, int] = {}
        self._keyed = 0
        self._postings: dict[str, int | array[int]] = {}
        self.steps = StepIndex()

    def __len__(self) -> int:
        return len(self.docs)

    def add(
        self,
        entry_id: str,
        message: Message,
        turn: int = 0,
        time: float = 0.0,
        *,
        apart: bool = False,
    ) -> None:
        """Add an entry, unless it is already indexed. `apart`: it does not follow the entry added before
        (another branch, another session)."""
        if entry_id in self.ids:
            return
        text = searchable(message)
        day, start = dates.heading(text)
        position = len(self.docs)
        works = isinstance(message, Result) or bool(message.calls)
        named = "" if works else speaker_of(text, start)[0]
        tools = self._tools_of(message)
        tool = tools[0] if tools and isinstance(message, Result) else ""
        doc = Doc(entry_id, message, turn, time, named.lower(), tool)
        self._place(doc, position, day, apart)
        terms = words.count(text)
        self._count(position, terms)
        self.flags.append(_flags(message, text[start:], terms))
        if doc.speaker:
            self.speakers[doc.speaker] += 1
        self.tool_entries += works
        for name in tools:
            self.tools.setdefault(name.lower(), []).append(position)
        for call in message.calls:
            self.steps.call(position, call)
        if isinstance(message, Result):
            self.steps.result(position, message.call_id)

    def positions(self, term: str) -> Sequence[int]:
        """`entry << 8 | times` for every entry with the term, in log order."""
        found = self._postings.get(term)
        return () if found is None else (found,) if isinstance(found, int) else found

    def doc(self, entry_id: str) -> Doc | None:
        position = self.ids.get(entry_id)
        return None if position is None else self.docs[position]

    def by_key(self, name: str) -> Doc | None:
        """The entry with this recall key or id, or this number on the path (`#12`). If two share a key: the
        newer."""
        name = name.strip()
        if name[:1] == "#" and name[1:].isdecimal() and int(name[1:]) < len(self.numbered):
            return self.doc(self.numbered[int(name[1:])].id)
        for position in range(self._keyed, len(self.docs)):
            self._keys[self.docs[position].key] = position
        self._keyed = len(self.docs)
        found = self._keys.get(name.lower())
        return self.docs[found] if found is not None else self.doc(name)

    def on_path(self) -> Container[str]:
        """Entries that turn numbers refer to: those on the path (other branches reuse the numbers), or all of
        them if there is no path."""
        return {entry.id for entry in self.numbered} if self.numbered else self.ids

    def of_turns(self, numbers: Iterable[int], within: Container[str] | None = None) -> dict[int, list[Doc]]:
        """Messages of these turns (on the path, or among these entries); empty for a turn that does not
        exist."""
        path = self.on_path() if within is None else within
        docs = {number: (self.docs[i] for i in self.turns.get(number, ())) for number in numbers}
        return {number: [doc for doc in of if doc.entry_id in path] for number, of in docs.items()}

    def no_turns(self, numbers: Sequence[int], within: Container[str] | None = None) -> str:
        """Says that these turns do not exist, and which ones do."""
        path = self.on_path() if within is None else within
        last = max((doc.turn for doc in self.docs if doc.entry_id in path), default=0)
        known = f"turns 1 to {last} exist" if last > 0 else "this conversation has no turns yet"
        named = ", ".join(str(number)[:40] for number in numbers[:6]) + " …" * (len(numbers) > 6)
        return f"There is no turn {named}; {known}."

    # ── the inside ──────────────────────────────────────────────────────────────────────────────

    def _place(self, doc: Doc, position: int, day: dates.When, apart: bool) -> None:
        before = self.docs[-1].time if self.docs else 0.0
        paused = before > 0 and doc.time - before > NEW_STRETCH_SECONDS
        if not self.docs or apart or paused or day != dates.NO_DATE:
            self.dates.append(day if day != dates.NO_DATE else dates.of_time(doc.time))
        self.docs.append(doc)
        self.stretch.append(len(self.dates) - 1)
        self.ids[doc.entry_id] = position
        self.turns.setdefault(doc.turn, []).append(position)

    def _count(self, position: int, terms: Mapping[str, int]) -> None:
        size = 0
        postings = self._postings
        get, high = postings.get, position << 8
        for term, times in terms.items():
            size += times
            packed = high | (times if times < TIMES_LIMIT else TIMES_LIMIT)
            known = get(term)
            if known is None:
                postings[term] = packed
            elif isinstance(known, int):
                postings[term] = array("I", (known, packed))
            else:
                known.append(packed)
        self.sizes.append(size)
        self.total += size

    def _tools_of(self, message: Message) -> tuple[str, ...]:
        if isinstance(message, Result):
            name = message.name or self.steps.tool(message.call_id)
            return (name,) if name else ()
        return tuple(dict.fromkeys(call.name for call in message.calls))


def _flags(message: Message, text: str, terms: Mapping[str, int]) -> int:
    if isinstance(message, Result):
        return SILENT
    calls = isinstance(message, Assistant) and bool(message.calls)
    prose = text if len(text) <= PROSE_LIMIT else text[:PROSE_LIMIT]
    flags = ENDS_ASKING if _remark.sub("", prose[-400:]).rstrip().endswith(("?", "？")) else 0
    if isinstance(message, System | User) and message.content and not _is_said(message):
        flags |= BOILERPLATE
    if isinstance(message, System) or (calls and not message.text.strip()):
        flags |= SILENT
    if calls or "?" in prose or "？" in prose:
        flags |= ASKS  # a tool call asks as well: its result answers
    return flags | TELLS_TIME if len(text) <= PROSE_LIMIT and dates.tells_time(terms) else flags


def _is_said(message: System | User) -> bool:
    """Whether any part comes from a human, a tool, a file or a summary rather than from the client."""
    return isinstance(message, User) and any(
        not isinstance(part, Text) or part.origin != "program" for part in message.content
    )
