"""Asking an index: by words, by key, by turn, by time, by tool, by file, and by any of these together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from types import NoneType
from typing import TypedDict

import msgspec

from refold import tokens
from refold.errors import expect
from refold.messages import searchable
from refold.protocols import TokenCounter
from refold.recall.index import Doc, Index
from refold.recall.rank import rank, read
from refold.recall.snippet import snippet
from refold.text import words

LIMIT = 5
MOST = 1000
LITERAL = 200
"""Longest text that is looked for literally when it has no words."""


class Hit(msgspec.Struct, frozen=True):
    """An entry that was found. `text` is a snippet without secrets; `Index.doc(entry_id).message` is all of
    it, as it was said."""

    entry_id: str
    key: str
    turn: int
    score: float
    text: str
    role: str = ""
    time: float = 0.0


class Conditions(TypedDict, total=False):
    """What `search` takes beside words, limit and entry ids, for whoever hands it on."""

    keys: Sequence[str]
    turns: Sequence[int]
    since: float | None
    until: float | None
    tool: str | None
    file: str | None
    budget: int | None
    counter: TokenCounter | None


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted. Conditions are all to be met; without a `query` hits come in log order."""

    query: str = ""
    keys: Sequence[str] = ()
    turns: Sequence[int] = ()
    since: float | None = None
    until: float | None = None
    tool: str | None = None
    file: str | None = None


def search(
    index: Index,
    query: str = "",
    *,
    keys: Sequence[str] = (),
    turns: Sequence[int] = (),
    since: float | None = None,
    until: float | None = None,
    tool: str | None = None,
    file: str | None = None,
    within: Container[str] | None = None,
    limit: int = LIMIT,
    budget: int | None = None,
    counter: TokenCounter | None = None,
) -> list[Hit]:
    """The entries that answer best, best first; never more than `limit`, and together never more than
    `budget` tokens of text. Words are taken literally: there are no patterns.

    `since` and `until` are seconds since 1970, `tool` a tool's name, `file` a path or the end of one;
    `within` restricts the answer to these entry ids.
    """
    expect(query, str, "a query is a text")
    expect(limit, int, "a limit is a whole number")
    expect(budget, (int, NoneType), "a budget is a whole number of tokens")
    for names, kind in ((keys, str), (turns, int)):
        expect(names, Collection, "keys and turns are lists")
        for name in names:
            expect(name, kind, "keys are texts, turns are whole numbers")
    for moment in (since, until):
        expect(moment, (int, float, NoneType), "since and until are seconds since 1970")
    for name in (tool, file):
        expect(name, (str, NoneType), "a tool and a file are named by a text")
    query = query.strip()
    ask = Ask(query=query, keys=keys, turns=turns, since=since, until=until, tool=tool, file=file)
    limit = max(0, min(limit, MOST))
    allowed = _allowed(index, ask, within)
    terms: Sequence[str] = ()
    if query:
        question = read(index, query)
        terms = tuple(question.terms)
        found = rank(index, question, limit=limit, allowed=allowed) if terms else []
        found = found or _literally(index, query, limit, allowed)
    else:
        chosen = [i for i in range(len(index)) if allowed is None or allowed(i)] if ask != Ask() else []
        found = [(i, 1.0) for i in chosen[-limit:]]
    hits = [_hit(index.docs[i], score, terms) for i, score in found]
    return within_budget(hits, budget, counter)


def _hit(doc: Doc, score: float, terms: Sequence[str]) -> Hit:
    text = snippet(searchable(doc.message), terms)
    return Hit(doc.entry_id, doc.key, doc.turn, round(score, 4), text, doc.message.role, doc.time)


def within_budget(hits: list[Hit], budget: int | None, counter: TokenCounter | None = None) -> list[Hit]:
    """The first hits whose texts have at most so many tokens together, by the exact counter if none is
    given."""
    if budget is None:
        return hits
    counter = counter or tokens.get()
    kept: list[Hit] = []
    for hit in hits:
        budget -= counter.text(hit.text)
        if budget < 0:
            break
        kept.append(hit)
    return kept


def _allowed(index: Index, ask: Ask, within: Container[str] | None) -> Callable[[int], bool] | None:
    """The test that an entry's position has to pass; None if every entry does."""
    tests: list[Callable[[int], bool]] = []
    docs = index.docs
    if ask.keys:
        wanted = {doc.entry_id for name in ask.keys if (doc := index.by_key(name))}
        tests.append(lambda i: docs[i].entry_id in wanted)
    if ask.turns:
        turns, path = frozenset(ask.turns), index.on_path()
        tests.append(lambda i: docs[i].turn in turns and docs[i].entry_id in path)
    if ask.since is not None:
        since = ask.since
        tests.append(lambda i: docs[i].time >= since)
    if ask.until is not None:
        until = ask.until
        tests.append(lambda i: 0 < docs[i].time <= until)
    if ask.tool is not None:
        used = frozenset(index.tools.get(ask.tool.lower(), ()))
        tests.append(used.__contains__)
    if ask.file is not None:
        naming = frozenset(_naming(index, ask.file))
        tests.append(naming.__contains__)
    if within is not None:
        tests.append(lambda i: docs[i].entry_id in within)
    return (lambda i: all(test(i) for test in tests)) if tests else None


def _naming(index: Index, file: str) -> list[int]:
    """Entries in which the path, or a longer one that ends with it, is written."""
    asked = words.terms(file)
    if not asked:
        return []
    rarest = min((index.positions(term) for term in asked), key=len)
    low = file.lower()
    return [p >> 8 for p in rarest if low in searchable(index.docs[p >> 8].message).lower()]


def _literally(
    index: Index, query: str, limit: int, allowed: Callable[[int], bool] | None
) -> list[tuple[int, float]]:
    """Entries that contain the text as it stands, newest first: for what has no words (`->`, `==`)."""
    wanted = query.strip()[:LITERAL].lower()
    found: list[tuple[int, float]] = []
    for i in range(len(index) - 1, -1, -1):
        if len(found) >= limit:
            break
        if (allowed is None or allowed(i)) and wanted in searchable(index.docs[i].message).lower():
            found.append((i, 1.0))
    return found
