"""Asking an index: by words, by key, by turn, by time, by tool, by file, and by any of these together; and
the part of a text that shows why it was found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
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
from refold.text.truncate import text_window

DEFAULT_HITS = 5
MAX_HITS = 1000
Test: TypeAlias = Callable[[int], bool]
"""Of an entry's position."""
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


class Filters(TypedDict, total=False):
    """What is asked of an entry beside words; all is to be met."""

    keys: Sequence[str]
    turns: Sequence[int]
    since: float | None
    """Seconds since 1970, as `until`."""
    until: float | None
    tool: str | None
    """A tool's name."""
    file: str | None
    """A path, or the end of one."""


class Conditions(Filters, total=False):
    """What `search` takes beside words, limit and entry ids, for callers that pass it on."""

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
    """The entries that answer best, best first: never more than `limit`, and together never more than
    `budget` tokens of text; without a query, those that pass the filters, in log order. Words are taken
    literally: there are no patterns. `within` restricts the answer to these entry ids."""
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
        found = found or _literally(index, query, limit, allowed)
    else:
        chosen = [i for i in range(len(index)) if allowed is None or allowed(i)] if tests else []
        found = [(i, 1.0) for i in chosen[-limit:]]
    hits = [_hit(index, i, score, terms) for i, score in found]
    return within_budget(hits, budget, counter)


def _all(tests: Sequence[Test]) -> Test | None:
    """All tests as one; None where there is none."""
    return (lambda i: all(test(i) for test in tests)) if tests else None


def _hit(index: Index, position: int, score: float, terms: Sequence[str]) -> Hit:
    doc = index.docs[position]
    text = _shown(index, position, terms)
    return Hit(doc.entry_id, doc.key, doc.turn, round(score, 4), text, doc.message.role, doc.time)


def _shown(index: Index, position: int, terms: Sequence[str]) -> str:
    """Why an entry was found; a call with how its result ends, a result with its call and its own end."""
    said = searchable(index.docs[position].message)
    text = snippet(said, terms)
    if called := called_line(index, position):
        return f"{called} → {text}" + (f" … {_ending(said)}" if len(said) > SNIPPET else "")
    ends = [
        _ending(searchable(index.docs[at].message)) for at in index.steps.halves(position)[:SHOWN_RESULTS]
    ]
    return " → ".join([text, *filter(None, ends)])


def called_line(index: Index, position: int) -> str:
    """The call that a result answers, in one line without secrets; empty for anything else."""
    call = index.steps.call_of(position)
    return (
        ""
        if call is None
        else snippet(f"{call.name} {argument_text(call)}"[:CALL_LINE_CHARS], (), CALL_LINE_CHARS)
    )


def _ending(text: str) -> str:
    """The last words of an output: how a run ended."""
    end = text.rstrip()[-SECRET_CONTEXT_CHARS:]
    return snippet(end, (), len(end))[-CALL_LINE_CHARS:] if end else ""


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
    """The tests that an entry's position has to pass."""
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
    """Entries in which the path, or a longer one that ends with it, is written."""
    asked = words.terms(file)
    if not asked:
        return []
    rarest = min((index.positions(term) for term in asked), key=len)
    low = file.lower()
    return [p >> 8 for p in rarest if low in searchable(index.docs[p >> 8].message).lower()]


def _literally(index: Index, query: str, limit: int, allowed: Test | None) -> list[tuple[int, float]]:
    """Entries that contain the text as it stands, newest first: for what has no words (`->`, `==`)."""
    wanted = query.strip()[:LITERAL].lower()
    found: list[tuple[int, float]] = []
    for i in range(len(index) - 1, -1, -1):
        if len(found) >= limit:
            break
        if (allowed is None or allowed(i)) and wanted in searchable(index.docs[i].message).lower():
            found.append((i, 1.0))
    return found


SNIPPET = 320
CALL_LINE_CHARS = 160
"""Characters of the call before a result, and of its last words."""
SHOWN_RESULTS = 3
"""Results of calls made side by side whose last words are shown."""
SCAN = 200_000
PLACES = 4
SECRET_CONTEXT_CHARS = 8_000
"""Characters before and after that are looked through for secrets too: half a secret is not recognised."""


def snippet(text: str, terms: Iterable[str], size: int = SNIPPET) -> str:
    """About `size` characters of `text` around the place where most of the terms stand together, on
    one line and without secrets; terms are stems, so the beginning of a word is enough."""
    start = (best_start(text[:SCAN].lower(), list(terms), size) or 0) if len(text) > size else 0
    first = max(0, start - SECRET_CONTEXT_CHARS)
    text, secrets = redact(text[first : start + size + SECRET_CONTEXT_CHARS])
    start -= first
    shift = sum(len(s.mark) - (s.end - s.start) for s in secrets if s.end <= start)
    text = text_window(text, max(start + shift, 0), size) if len(text) > size else text
    return " ".join(visible(text).split())


def best_start(low: str, terms: Sequence[str], size: int) -> int | None:
    """Where the window with the most terms begins, None where none stands there; rarer terms come first and
    break ties."""
    places = [(at, rank) for rank, term in enumerate(terms[:12]) for at in _find(low, term)]
    if not places:
        return None

    def worth(start: int) -> float:
        inside = {rank for at, rank in places if start <= at < start + size}
        return sum(1 / (2 + rank) for rank in inside)

    return max((max(0, at - size // 4) for at, _ in places), key=lambda start: (worth(start), -start))


def _find(low: str, term: str) -> list[int]:
    found: list[int] = []
    at = low.find(term)
    while at >= 0 and len(found) < PLACES:
        found.append(at)
        at = low.find(term, at + 1)
    return found
