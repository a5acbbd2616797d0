"""Queries on an index: by words, key, turn, time, tool or file, or any combination; and snippets that show
why an entry was found."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import islice
from types import NoneType
from typing import TypeAlias, TypedDict, Unpack

import msgspec

from refold import tokens
from refold.errors import expect
from refold.messages import argument_text, searchable
from refold.protocols import TokenCounter
from refold.recall.index import Index
from refold.recall.rank import parse_question, rank
from refold.text import words
from refold.text.frames import visible
from refold.text.redact import redact
from refold.text.truncate import tail_words, text_window

DEFAULT_HITS = 5
MAX_HITS = 1000
Test: TypeAlias = Callable[[int], bool]
"""Accepts or rejects an entry's position."""
LITERAL = 200
"""Longest query without words that is searched literally."""


class Hit(msgspec.Struct, frozen=True):
    """An entry that was found. `text` is a snippet without secrets; `Index.doc(entry_id).message` is the
    whole message."""

    entry_id: str
    key: str
    turn: int
    score: float
    text: str
    role: str = ""
    time: float = 0.0


class Filters(TypedDict, total=False):
    """Conditions other than words; all of them must hold."""

    keys: Sequence[str]
    turns: Sequence[int]
    since: float | None
    """Seconds since 1970, like `until`."""
    until: float | None
    tool: str | None
    """Name of a tool."""
    file: str | None
    """A path, or the end of one."""


class Conditions(Filters, total=False):
    """Conditions of `search` other than words, limit and entry ids, for callers that pass them on."""

    budget: int | None
    counter: TokenCounter | None


def search(
    index: Index,
    query: str = "",
    *,
    within: Container[str] | None = None,
    limit: int = DEFAULT_HITS,
    budget: int | None = None,
    counter: TokenCounter | None = None,
    **filters: Unpack[Filters],
) -> list[Hit]:
    """The best matching entries, best first: at most `limit`, and at most `budget` tokens of text together.
    Without a query: entries that pass the filters, in log order. Words are literal, not patterns. `within`
    restricts the search to these entry ids."""
    expect(query, str, "the query must be a string")
    expect(limit, int, "the limit must be a whole number")
    expect(budget, (int, NoneType), "the budget must be a whole number of tokens")
    query, limit, terms = query.strip(), max(0, min(limit, MAX_HITS)), list[str]()
    tests = list(_tests(index, **filters))
    allowed = _all([*tests, lambda i: index.docs[i].entry_id in within] if within is not None else tests)
    if query:
        question = parse_question(index, query)
        terms = list(question.terms)
        found = rank(index, question, limit=limit, allowed=allowed) if terms else []
        if not (found or has_only_function_words(query)):
            found = _literally(index, query, limit, allowed)
    else:
        chosen = [i for i in range(len(index)) if allowed is None or allowed(i)] if tests else []
        found = [(i, 1.0) for i in chosen[-limit:]]
    hits: list[Hit] = []
    for i, score in found:
        doc, text = index.docs[i], _shown(index, i, terms)
        hits.append(Hit(doc.entry_id, doc.key, doc.turn, round(score, 4), text, doc.message.role, doc.time))
    return within_budget(hits, budget, counter)


def has_only_function_words(query: str) -> bool:
    """True for a query such as `the`, which nearly every entry has."""
    asked = query.lower().split()
    return bool(asked) and words.STOP.issuperset(asked)


def _all(tests: Sequence[Test]) -> Test | None:
    """All tests as one; None for no tests."""
    return (lambda i: all(test(i) for test in tests)) if tests else None


def _shown(index: Index, position: int, terms: Sequence[str]) -> str:
    """The snippet for a hit: a call with the end of its result, a result with its call and its own end."""
    said = searchable(index.docs[position].message)
    text = snippet(said, terms)
    if called := called_line(index, position):
        return f"{called} → {text}" + (f" … {_ending(said)}" if len(said) > SNIPPET else "")
    ends = [
        _ending(searchable(index.docs[at].message)) for at in index.steps.halves(position)[:SHOWN_RESULTS]
    ]
    return " → ".join([text, *filter(None, ends)])


def called_line(index: Index, position: int) -> str:
    """The call that a result answers, in one line without secrets; empty for other entries."""
    if (call := index.steps.call_of(position)) is None:
        return ""
    return snippet(f"{call.name} {argument_text(call)}"[:CALL_LINE_CHARS], (), CALL_LINE_CHARS)


def _ending(text: str) -> str:
    """The last words of an output, which say how a run ended."""
    end = text.rstrip()[-SECRET_CONTEXT_CHARS:]
    return tail_words(snippet(end, (), len(end)), CALL_LINE_CHARS)


def within_budget(hits: list[Hit], budget: int | None, counter: TokenCounter | None = None) -> list[Hit]:
    """The first hits whose texts fit the budget together, by the exact counter unless another is given."""
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


def _tests(
    index: Index,
    *,
    keys: Sequence[str] = (),
    turns: Sequence[int] = (),
    since: float | None = None,
    until: float | None = None,
    tool: str | None = None,
    file: str | None = None,
) -> Iterator[Test]:
    """The tests for an entry's position."""
    for names, kind in ((keys, str), (turns, int)):
        expect(names, Collection, "keys and turns must be lists")
        for name in names:
            expect(name, kind, "keys must be strings and turns whole numbers")
    for moment in (since, until):
        expect(moment, (int, float, NoneType), "since and until must be seconds since 1970")
    for name in (tool, file):
        expect(name, (str, NoneType), "the names of a tool and a file must be strings")
    docs = index.docs
    if keys:
        wanted = {doc.entry_id for name in keys if (doc := index.by_key(name))}
        yield lambda i: docs[i].entry_id in wanted
    if turns:
        numbers, path = frozenset(turns), index.on_path()
        yield lambda i: docs[i].turn in numbers and docs[i].entry_id in path
    if since is not None:
        yield lambda i: docs[i].time >= since
    if until is not None:
        yield lambda i: 0 < docs[i].time <= until
    if tool is not None:
        yield frozenset(index.tools.get(tool.lower(), ())).__contains__
    if file is not None:
        yield frozenset(_naming(index, file)).__contains__


def _naming(index: Index, file: str) -> list[int]:
    """Entries that contain the path, or a longer one ending with it."""
    asked = words.terms(file)
    if not asked:
        return []
    rarest = min((index.positions(term) for term in asked), key=len)
    low = file.lower()
    return [p >> 8 for p in rarest if low in searchable(index.docs[p >> 8].message).lower()]


def _literally(index: Index, query: str, limit: int, allowed: Test | None) -> list[tuple[int, float]]:
    """Entries that contain the text literally, newest first: for queries without words (`->`, `==`)."""
    wanted = query.strip()[:LITERAL].lower()
    newest = (i for i in reversed(range(len(index))) if allowed is None or allowed(i))
    found = (i for i in newest if wanted in searchable(index.docs[i].message).lower())
    return [(i, 1.0) for i in islice(found, limit)]


SNIPPET = 320
CALL_LINE_CHARS = 160
"""Characters shown of a result's call, and of its last words."""
SHOWN_RESULTS = 3
"""Parallel calls whose results' last words are shown."""
SCAN = 200_000
PLACES = 4
SECRET_CONTEXT_CHARS = 8_000
"""Characters before and after the snippet that are searched for secrets too: half a secret is not
recognised."""


def snippet(text: str, terms: Iterable[str], size: int = SNIPPET) -> str:
    """About `size` characters of `text` where most terms occur close together, on one line and without
    secrets. Terms are stems, so the start of a word is enough."""
    start = (best_start(text[:SCAN].lower(), list(terms), size) or 0) if len(text) > size else 0
    first = max(0, start - SECRET_CONTEXT_CHARS)
    text, secrets = redact(text[first : start + size + SECRET_CONTEXT_CHARS])
    start -= first
    shift = sum(len(s.mark) - (s.end - s.start) for s in secrets if s.end <= start)
    text = text_window(text, max(start + shift, 0), size) if len(text) > size else text
    return " ".join(visible(text).split())


def best_start(low: str, terms: Sequence[str], size: int) -> int | None:
    """Start of the window with the most terms, None if it has none; rarer terms come first and break ties."""
    places = [
        (found.start(), rank)
        for rank, term in enumerate(terms[:12])
        for found in islice(re.finditer(re.escape(term), low), PLACES)
    ]
    if not places:
        return None

    def worth(start: int) -> float:
        inside = {rank for at, rank in places if start <= at < start + size}
        return sum(1 / (2 + rank) for rank in inside)

    return max((max(0, at - size // 4) for at, _ in places), key=lambda start: (worth(start), -start))
