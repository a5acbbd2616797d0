"""Recall in stored sessions: the store proposes entries, the ranker decides.

from refold.registry.search import search_sessions
for found in search_sessions(store, "why did we drop the cache?"):
    print(found.session, found.hit.turn, found.hit.text)
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Unpack

import msgspec

from refold.errors import UnknownName
from refold.messages import searchable
from refold.protocols import Candidate, Searchable, Store
from refold.recall import Conditions, Found, SearchedLog
from refold.recall import search_logs as ranked
from refold.recall.logs import Reader
from refold.text.words import search_words, stem, terms

SEARCH_HITS = 20
CANDIDATE_LIMITS = (400, 4000)
"""Number of entries requested from a store; the second if the first are all from a few sessions."""
MAX_SEARCHED_SESSIONS = 100
FEW_SESSIONS = 8
"""Number of sessions up to which each is queried separately."""


class Search(msgspec.Struct, frozen=True):
    found: tuple[Found, ...]
    """Best first."""
    matches: dict[str, int]
    """Session → number of its entries that the store proposed."""


class SearchOptions(Conditions, total=False):
    limit: int
    each: int | None
    """Maximum number of hits per session."""
    sessions: Collection[str] | None
    """Only these sessions."""


def search_sessions(store: Store, query: str, **options: Unpack[SearchOptions]) -> list[Found]:
    """The best hits in all sessions of a store (or the named ones), best first. Options include the
    conditions of `recall.search`: `since`, `until`, `tool`, `file`, `budget` …"""
    return list(search_store(store, query, **options).found)


def search_store(
    store: Store,
    query: str,
    *,
    limit: int = SEARCH_HITS,
    each: int | None = None,
    sessions: Collection[str] | None = None,
    **conditions: Unpack[Conditions],
) -> Search:
    """Like `search_sessions`, with the sessions that were searched."""
    proposed = _proposed(store, query, limit, sessions)
    matches = Counter(candidate.session for candidate in proposed)
    wanted: dict[str, set[str]] = {}
    for candidate in proposed:
        if candidate.session in wanted or len(wanted) < MAX_SEARCHED_SESSIONS:
            wanted.setdefault(candidate.session, set()).add(candidate.entry_id)
    found = ranked(_logs(store, wanted), query, limit=limit, each=each, **conditions)
    return Search(tuple(found), dict(matches))


def _logs(store: Store, wanted: dict[str, set[str]]) -> Iterator[SearchedLog]:
    for session, candidates in wanted.items():
        try:
            yield SearchedLog(session, store.load(session).entries, candidates)
        except UnknownName:
            continue  # deleted by another process since it was proposed


# ── candidates ──────────────────────────────────────────────────────────────────────────────────


def _proposed(store: Store, query: str, limit: int, sessions: Collection[str] | None) -> list[Candidate]:
    if not query.strip():
        return []
    if not isinstance(store, Searchable) or not terms(query):
        return _scanned(store, query, sessions)
    words = search_words(query) or query.split()
    if sessions is not None and len(sessions) <= FEW_SESSIONS:
        each = [_asked(store, words, session) for session in sessions]
        return sorted((one for some in each for one in some), key=lambda one: -one.score)
    found: list[Candidate] = []
    for most in CANDIDATE_LIMITS:
        every = store.search(words, limit=most)
        found = [one for one in every if sessions is None or one.session in sessions]
        if len(every) < most or len({one.session for one in found}) >= min(limit, MAX_SEARCHED_SESSIONS):
            break
    return found


def _asked(store: Searchable, words: Iterable[str], session: str) -> list[Candidate]:
    try:
        return store.search(words, session=session, limit=CANDIDATE_LIMITS[0])
    except UnknownName:
        return []


def _scanned(store: Store, query: str, sessions: Collection[str] | None) -> list[Candidate]:
    """Candidates of a store without search: every entry is read. Rare words weigh more."""
    asked = _looked_for(query)
    seen: list[tuple[str, str, list[str]]] = []
    for info in store.sessions():
        if sessions is None or info.id in sessions:
            seen.extend((info.id, id, having) for id, having in _having(store, info.id, asked))
    times = Counter(word for _, _, having in seen for word in having)
    worth = {word: math.log(1 + len(seen) / count) for word, count in times.items()}
    found = [Candidate(session, id, sum(worth[word] for word in having)) for session, id, having in seen]
    return sorted(found, key=lambda one: -one.score)[: CANDIDATE_LIMITS[-1]]


def _having(store: Store, session: str, asked: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    reader = Reader()
    try:
        entries = store.load(session).entries
    except UnknownName:
        return
    for entry in entries:
        if said := reader.said(entry):
            text = _folded(searchable(said.message))
            if having := [word for word in asked if word in text]:
                yield said.entry_id, having


def _looked_for(query: str) -> list[str]:
    """Prefixes of words: stems, whose last letter may differ (`agenci` for `agency`)."""
    stems = [found[:-1] if (found := stem(word)).endswith("i") else found for word in search_words(query)]
    return list(dict.fromkeys(map(_folded, stems or [query.strip()])))


def _folded(text: str) -> str:
    """The text without case, accents and underscores, so that `check_password` matches `checkPassword`."""
    text = text.lower().replace("_", "")
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
