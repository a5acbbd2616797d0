"""Repair of a damaged log: a `Hole` stands in for each missing entry, so that the rest is a tree.

Entries come from a store in the order they were written. An entry whose parent is missing becomes the child
of a `Hole` of that id; the hole's own parent is the entry before it, which in a log that grew entry by entry
is the lost entry's parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from itertools import count
from typing import NamedTuple, cast

import msgspec

from refold import entries as e
from refold.protocols import Problem

WHY_MISSING = "it is missing: only what refers to it is left"


class Repaired(NamedTuple):
    entries: list[e.AnyEntry]
    problems: list[Problem]


def repaired(
    entries: Iterable[e.AnyEntry], known: Mapping[str, e.AnyEntry] | None = None, leaf: str | None = None
) -> Repaired:
    """The entries as a tree below those that are `known`, and the problems that were repaired."""
    log = list(entries)
    return Repaired(log, []) if _is_tree(log, known or {}) else _Repair(log, known or {}, leaf).done()


def parent_of(entry: e.Entry) -> str | None:
    return cast("e.AnyPathEntry", entry).parent


def _is_tree(log: list[e.AnyEntry], known: Mapping[str, e.AnyEntry]) -> bool:
    """Whether ids are unique, and parents and targets stand before the entries that name them."""
    places: set[str | None] = {None, *(id for id, entry in known.items() if entry.on_path)}
    others: set[str] = {id for id, entry in known.items() if not entry.on_path}
    for entry in log:
        if entry.id in places or entry.id in others:
            return False
        if entry.on_path:
            if parent_of(entry) not in places or isinstance(entry, e.Hole):
                return False
            places.add(entry.id)
        elif isinstance(entry, e.Leaf) and entry.target not in places:
            return False
        else:
            others.add(entry.id)
    return True


class _Repair:
    def __init__(self, log: list[e.AnyEntry], known: Mapping[str, e.AnyEntry], leaf: str | None) -> None:
        self.problems: list[Problem] = []
        self.made: list[e.AnyEntry] = []
        self.leaf = leaf
        self.lifted: set[str] = set()
        self.tops: dict[str, str] = {}
        self.log = self._lifted(self._without_doubles(log, known))
        self.ids = {*known, *(entry.id for entry in self.log)}
        self.parents = {entry.id: parent_of(entry) for entry in (*known.values(), *self.log) if entry.on_path}
        self.cut = self._ends_of_cycles(self._named_before_they_come(known))

    def done(self) -> Repaired:
        for entry in self.log:
            if entry.on_path:
                self.made.append(placed := self._placed(entry))
                self.leaf = placed.id
            elif isinstance(entry, e.Leaf):
                self.made.append(moved := self._moved(entry))
                self.leaf = moved.target
            else:
                self.made.append(entry)
        return Repaired(self.made, self.problems)

    def _without_doubles(self, log: list[e.AnyEntry], known: Mapping[str, e.AnyEntry]) -> list[e.AnyEntry]:
        found: list[e.AnyEntry] = []
        log = self._renamed(log)
        seen = {**{entry.id: entry for entry in reversed(log) if entry.on_path}, **known}
        for entry in log:
            other = seen.setdefault(entry.id, entry)
            if other is entry:
                found.append(entry)
            elif entry.on_path or entry == other:
                self._say(entry.id, "another entry has this id, too: that one counts")
            else:  # no entry refers to an annotation: another id changes nothing
                name = next(name for n in count(2) if (name := f"{entry.id}-{n}") not in seen)
                self._say(entry.id, f"another entry has this id, too: this one is {name}")
                seen[name] = _with_id(entry, name)
                found.append(seen[name])
        return found

    def _renamed(self, log: list[e.AnyEntry]) -> list[e.AnyEntry]:
        """Gives an entry with a duplicate id the missing id that the entry after it names as its parent."""
        ids = Counter(entry.id for entry in log)
        follower: e.AnyEntry | None = None
        for at in range(len(log) - 1, -1, -1 if len(ids) < len(log) else -len(log)):
            entry = log[at]
            if not entry.on_path:
                continue
            name = parent_of(follower) if follower is not None else None
            if ids[entry.id] > 1 and name is not None and name not in ids:
                self._say(entry.id, f"a second entry has this id: one is {name}, by what follows it")
                ids[entry.id] -= 1
                ids[name] = 1
                log[at] = entry = _with_id(entry, name)
            follower = entry
        return log

    def _lifted(self, log: list[e.AnyEntry]) -> list[e.AnyEntry]:
        """An entry with children is a path entry even if its type is unknown."""
        named = {parent_of(entry) for entry in log if entry.on_path}
        named |= {entry.target for entry in log if isinstance(entry, e.Leaf)}
        for number, entry in enumerate(log):
            if isinstance(entry, e.Unknown) and not entry.on_path and entry.id in named:
                self.lifted.add(entry.id)
                log[number] = msgspec.structs.replace(entry, raw={**entry.raw, "parent": None})
        return log

    def _named_before_they_come(self, known: Container[str]) -> dict[str, None]:
        """Entries whose parent was written after them. Lists of other programs have such."""
        seen: set[str] = set()
        found: dict[str, None] = {}
        for entry in self.log:
            if entry.on_path:
                parent = parent_of(entry)
                if parent in self.parents and parent not in seen and parent not in known:
                    found[entry.id] = None
                seen.add(entry.id)
        return found

    def _ends_of_cycles(self, later: Iterable[str]) -> set[str]:
        """One entry of each cycle of parents: the cycle is cut there."""
        cut: set[str] = set()
        settled: set[str] = set()
        for start in later:
            climbed: dict[str, None] = {}
            at: str | None = start
            while at is not None and at not in settled and at not in climbed:
                climbed[at] = None
                at = self.parents.get(at)
            if at is not None and at in climbed:
                cut.add(at)
                self.parents[at] = None
            settled.update(climbed)
        return cut

    def _top(self, id: str) -> str:
        """The topmost known ancestor; remembered for every entry on the way."""
        climbed: list[str] = []
        while (above := self.tops.get(id) or self.parents.get(id)) and above in self.parents:
            climbed.append(id)
            id = above
        self.tops.update(dict.fromkeys(climbed, id))
        return id

    def _placed(self, entry: e.AnyEntry) -> e.AnyEntry:
        parent = parent_of(entry)
        if entry.id in self.cut:
            self._say(entry.id, "its parents lead back to itself: it stands after what came before it")
            return self._below(entry, self._home(entry.id))
        if parent is None and (isinstance(entry, e.Hole) or entry.id in self.lifted):
            return self._below(entry, self._home(entry.id))
        if parent is None or parent in self.parents:
            return entry
        if parent in self.ids:
            self._say(entry.id, f"its parent {parent} has no place: it stands after what came before it")
            return self._below(entry, self._home(entry.id))
        self._dig(parent)
        return entry

    def _moved(self, leaf: e.Leaf) -> e.Leaf:
        if leaf.target is None or leaf.target in self.parents:
            return leaf
        if leaf.target in self.ids:
            self._say(leaf.id, f"it moves to {leaf.target}, which has no place: not moved")
            return msgspec.structs.replace(leaf, target=self.leaf)
        self._dig(leaf.target)
        return leaf

    def _dig(self, id: str) -> None:
        self.parents[id] = None  # what names it stands below it
        hole = e.Hole(id=id, parent=self._home(id), why=WHY_MISSING)
        self.parents[id] = hole.parent
        self.ids.add(id)
        self.made.append(hole)
        self._say(id, WHY_MISSING)

    def _home(self, id: str) -> str | None:
        """The current leaf, unless that is a descendant of the entry."""
        return None if self.leaf is None or self._top(self.leaf) == id else self.leaf

    def _below(self, entry: e.AnyEntry, parent: str | None) -> e.AnyEntry:
        self.parents[entry.id] = parent
        if parent_of(entry) == parent:
            return entry  # the same object: unchanged
        if isinstance(entry, e.Unknown):
            return msgspec.structs.replace(entry, raw={**entry.raw, "parent": parent})
        return msgspec.structs.replace(cast("e.PathEntry", entry), parent=parent)  # pyright: ignore

    def _say(self, id: str, text: str) -> None:
        self.problems.append(Problem(f"entry {id}", text))


def _with_id(entry: e.AnyEntry, id: str) -> e.AnyEntry:
    raw = {"raw": {**entry.raw, "id": id}} if isinstance(entry, e.Unknown) else {}
    return msgspec.structs.replace(entry, id=id, **raw)
