"""Candidates for recall by PostgreSQL's full-text search.

The lexemes are those of the ranker (`text/search_text.py`), with single characters of scripts without spaces,
as in the SQLite store. Dictionaries of the server are not used, so every server finds the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from refold.entries import AnyEntry
from refold.stores import search_text
from refold.stores.postgres.connections import Link
from refold.text.words import UNSPACED, terms

MAX_BYTES = 600_000
"""Bytes of the lexemes of one entry; PostgreSQL's limit is a megabyte."""
TARGET_ROWS = 20_000
"""Approximate number of entries examined for a query. Words that would select more only affect the score, so
that a query with `the file` does not read half of a large database."""
MAX_SEARCHED_ROWS = 5 * TARGET_ROWS
"""Limit of entries if even the rarest word is common."""
FRESH = 600.0
"""Seconds after which statistics are refreshed."""
WEIGHED = 16
"""Number of the rarest words of a query that count."""


def vector(entry: AnyEntry | None) -> str | None:
    """The `tsvector` of an entry; None if it has no text."""
    text = search_text.of_entry(entry) if entry is not None else ""
    lexemes, size = list[str](), 0
    for term in _terms(text):
        size += len(term.encode())
        if size > MAX_BYTES:
            break
        lexemes.append(_quoted(term))
    return " ".join(lexemes) or None


def lexemes(asked: Iterable[str]) -> list[str]:
    some = islice(asked, search_text.MAX_TERMS)
    texts = (search_text.prepared(term[: search_text.MAX_TERM], query=True) for term in some)
    return list(dict.fromkeys(term for text in texts for term in _terms(text)))


def _terms(text: str) -> list[str]:
    """The terms of a prepared text, in which text without spaces is already in pairs."""
    return (
        terms(text)
        if text.isascii()
        else [*terms(UNSPACED.sub(" ", text)), *dict.fromkeys(UNSPACED.findall(text))]
    )


def best_entries(
    link: Link,
    asked: Iterable[str],
    limit: int,
    common: Mapping[str, float],
    *,
    key: int | None = None,
    every: bool = False,
) -> list[tuple[Any, ...]]:
    """(session id, entry id, score, version, line) of the entries with any of the terms (`every`: all), best
    first. BM25 with every word counted once: rare words weigh more, long entries less."""
    wanted = lexemes(asked)
    if not wanted or limit <= 0:
        return []
    choosing, weighed = _chosen(wanted, common if key is None else {})
    query = (" & " if every else " | ").join(map(_quoted, wanted if every else choosing))
    has = ", ".join(f"(words @@ %s::tsquery)::int AS has{n}" for n in range(len(weighed)))
    often = ", ".join(f"greatest(sum(has{n}), 1) AS often{n}" for n in range(len(weighed)))
    worth = " + ".join(f"has{n} * ln(1 + number / often{n})" for n in range(len(weighed)))
    return link.ask(
        f"""WITH hit AS MATERIALIZED (
              SELECT session, place, length(words) AS size, {has} FROM entries
              WHERE words @@ %s::tsquery {"" if key is None else "AND session = %s"} LIMIT %s
            ), every AS (SELECT count(*)::float8 AS number, avg(size) AS usual, {often} FROM hit
            ), best AS (
              SELECT session, place, ({worth})::float8 * 2.2 / (1.3 + 0.9 * size / usual)::float8 AS score
              FROM hit, every ORDER BY score DESC, session DESC, place DESC LIMIT %s
            )
            SELECT s.id, e.id, score, e.version, e.line FROM best
            JOIN entries e USING (session, place) JOIN sessions s ON s.key = best.session
            ORDER BY score DESC, best.session DESC, place DESC""",
        *map(_quoted, weighed),
        query,
        *(() if key is None else (key,)),
        MAX_SEARCHED_ROWS,
        limit,
    )


def _chosen(wanted: list[str], common: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """(lexemes that select entries, lexemes that only affect the score): all select, unless that would be too
    many entries."""
    wanted = sorted(wanted, key=lambda lexeme: common.get(lexeme, 0.0))
    choosing, entries = wanted[:1], common.get(wanted[0], 0.0)
    for lexeme in wanted[1:]:
        entries += common.get(lexeme, 0.0)
        if entries > TARGET_ROWS:
            break
        choosing.append(lexeme)
    return choosing, wanted[:WEIGHED]


class Statistics:
    """Approximate number of entries with a lexeme, for lexemes that the server knows as common."""

    def __init__(self) -> None:
        self._common: dict[str, float] = {}
        self._until = 0.0

    def common(self, link: Link) -> dict[str, float]:
        if time.monotonic() > self._until:
            found = link.ask(
                """SELECT lexeme, sum(share * reltuples)::float8
                   FROM pg_stats s JOIN pg_class c ON c.oid = to_regclass(quote_ident(s.tablename)),
                     unnest(most_common_elems::text::text[], most_common_elem_freqs) AS often(lexeme, share)
                   WHERE schemaname = current_schema() AND attname = 'words' AND lexeme IS NOT NULL
                     AND relkind = 'r'  -- parts; what is known of the whole would count them twice
                   GROUP BY lexeme HAVING sum(share * reltuples) > 1"""
            )
            self._common = {lexeme: float(count) for lexeme, count in found}
            self._until = time.monotonic() + FRESH
        return self._common


def _quoted(lexeme: str) -> str:
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
