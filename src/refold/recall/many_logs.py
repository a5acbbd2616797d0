"""Search in several logs at once, ranked together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Unpack

import msgspec

from refold import entries as e
from refold.recall.index import Index
from refold.recall.query import DEFAULT_HITS, MAX_HITS, Conditions, Hit, search
from refold.recall.search import LoggedMessage, Reader

REACH = 3
"""Entries before and after a candidate that take part in its ranking."""


class SearchedLog(msgspec.Struct, frozen=True):
    """A session's log. In a large one only the `candidates` and their neighbours are ranked."""

    session: str
    entries: Sequence[e.AnyEntry]
    candidates: Container[str] | None = None


class Found(msgspec.Struct, frozen=True):
    """A hit and its session."""

    session: str
    hit: Hit


def search_logs(
    logs: Iterable[SearchedLog],
    query: str,
    *,
    limit: int = DEFAULT_HITS,
    each: int | None = None,
    **conditions: Unpack[Conditions],
) -> list[Found]:
    """The best hits in all logs, best first, ranked as in a single session; at most `each` per session.
    `conditions`: see `search`."""
    index = Index()
    names: list[tuple[str, str]] = []
    for log in logs:
        for said in _near(log):
            # Two sessions may use the same entry id.
            index.add(str(len(names)), said.message, said.turn, said.time, apart=said.apart)
            names.append((log.session, said.entry_id))
    hits = search(index, query, limit=limit if each is None else MAX_HITS, **conditions)
    found: list[Found] = []
    seen: Counter[str] = Counter()
    for hit in hits:
        session, entry_id = names[int(hit.entry_id)]
        seen[session] += 1
        if each is None or seen[session] <= each:
            found.append(Found(session, msgspec.structs.replace(hit, entry_id=entry_id, key=e.key(entry_id))))
    return found[:limit]


def _near(log: SearchedLog) -> Iterator[LoggedMessage]:
    """The candidates with their neighbours; a gap starts a new stretch."""
    reader = Reader()
    everything = [said for entry in log.entries if (said := reader.said(entry))]
    last = -1
    for at in _chosen(everything, log.candidates):
        yield everything[at] if at == last + 1 and at else everything[at]._replace(apart=True)
        last = at


def _chosen(everything: Sequence[LoggedMessage], candidates: Container[str] | None) -> Iterable[int]:
    if candidates is None:
        return range(len(everything))
    found = [at for at, said in enumerate(everything) if said.entry_id in candidates]
    reach = {near for at in found for near in range(max(0, at - REACH), at + REACH + 1)}
    return sorted(near for near in reach if near < len(everything))
