"""`refold recall`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import click
import msgspec

from refold.cli.options import Tokens, WholeNumber, file_argument, json_option
from refold.cli.output import console, echo, emit, styled, waiting
from refold.cli.session_argument import open_session, tell_problems
from refold.recall import Hit, LogIndex, index_of, search, within_budget
from refold.recall.query import DEFAULT_HITS, MAX_HITS, Filters, has_only_function_words
from refold.session import redacted
from refold.text.dates import in_utc
from refold.text.terminal import clean
from refold.text.words import search_words, stem

if TYPE_CHECKING:
    from rich.text import Text

_OPTIONS = {"file": "--path"}
"""Options with another name than their filter."""
_COLOURS = {"user": "green", "assistant": "cyan", "tool": "yellow", "bash": "magenta"}


@click.command("recall")
@file_argument
@click.argument("query", required=False, default="")
@click.option(
    "-k",
    "--limit",
    type=WholeNumber(1, 1000),
    help="Maximum number of hits.  [default: 5; all of the given turns or keys]",
)
@click.option("--keys", multiple=True, metavar="KEY[,KEY…]", help="Recall keys or entry ids.")
@click.option("--turns", multiple=True, metavar="N[-M][,…]", help="Turn numbers, counted from 1.")
@click.option("--tool", help="Only calls and results of this tool.")
@click.option("--path", help="Only entries that name this file.")
@click.option("--since", help="Only on or after this day (YYYY-MM-DD).")
@click.option("--until", help="Only on or before this day (YYYY-MM-DD).")
@click.option("--budget", type=Tokens(), help="Maximum tokens of all hits together.")
@click.option("--full", is_flag=True, help="Whole messages instead of snippets.")
@json_option
def command(
    file: str,
    query: str,
    limit: int | None,
    keys: tuple[str, ...],
    turns: tuple[str, ...],
    tool: str | None,
    path: str | None,
    since: str | None,
    until: str | None,
    budget: int | None,
    full: bool,
    as_json: bool,
) -> None:
    """Find what was said in a session, on all its branches, folded or not.

    QUERY is plain text: words, a question, a path, an identifier. Conditions narrow it down and may be
    used without a query.
    """
    if not (query.strip() or keys or turns or tool or path or since or until):
        raise click.UsageError("give a query, or --keys, --turns, --tool, --path, --since, --until")
    session = open_session(file)
    with waiting("reading the conversation …"):
        index = index_of(session)
    named = [key.strip() for given in keys for key in given.split(",") if key.strip()]
    if index.by_key(query):
        named, query = [*named, query.strip()], ""
    numbers = [number for given in turns for number in _turns(given)]
    whole = (numbers or named) and not query.strip()
    limit = limit or (MAX_HITS if whole else DEFAULT_HITS)
    filters = Filters(
        keys=named, turns=numbers, since=_day(since), until=_day(until, end=True), tool=tool, file=path
    )
    found = search(index, query, limit=limit, **filters)
    hits = within_budget([_whole(hit, index) for hit in found] if full else found, budget)
    unknown = [key for key in named if index.by_key(key) is None]
    missing = [number for number, docs in index.of_turns(numbers).items() if not docs]
    if as_json:
        emit({"hits": hits, "unknown": unknown, "unknown_turns": missing})
    else:
        tell_problems(session)
        print_hits(hits, query)
        if not hits and not missing and not unknown:
            too_small = f"the first hit is larger than --budget {budget}"
            why = too_small if found else _why_nothing(index, query, filters)
            echo(f"refold: Nothing found; {why}", err=True)
    for key in unknown:
        echo(f"refold: no entry has the key {key}", err=True)
    if missing:
        echo(f"refold: {index.no_turns(missing)}", err=True)
    if not hits:
        raise SystemExit(1)


def _why_nothing(index: LogIndex, query: str, filters: Filters) -> str:
    """Which condition no entry meets."""
    if has_only_function_words(query):
        return f"{query!r} has no word to search for"
    given = {_OPTIONS.get(name, f"--{name}"): (name, value) for name, value in filters.items() if value}
    for option, (name, value) in given.items():
        if not search(index, limit=1, **cast("Filters", {name: value})):
            return f"no entry meets {option}"
    if query and not search(index, query, limit=1):
        return "try other words"
    return f"no entry {'with these words ' if query else ''}meets {' and '.join(given)}"


def print_hits(hits: list[Hit], query: str) -> None:
    out = console()
    for hit in hits:
        when = f"  {in_utc(hit.time):%Y-%m-%d %H:%M}" if hit.time > 0 else ""
        role = (f"  {hit.role}", _COLOURS.get(hit.role, ""))
        place = (f"  {hit.key}{when}  {hit.score:.2f}", "dim")
        out.print(styled((f"turn {hit.turn}", "bold"), role, place))
        out.print(marked(hit.text, query))
        out.print()


def _whole(hit: Hit, index: LogIndex) -> Hit:
    doc = index.doc(hit.entry_id)
    return msgspec.structs.replace(hit, text=redacted.message_text(doc.message)) if doc else hit


def marked(text: str, query: str) -> Text:
    """The text with the words of the query highlighted."""
    said = styled(clean(text))
    stems = {re.escape(stem(word)) for word in search_words(query)}
    if stems:
        said.highlight_regex(re.compile(rf"(?i)(?<!\w)(?:{'|'.join(sorted(stems))})\w*"), style="bold red")
    return said


def _turns(given: str) -> list[int]:
    """Parses `3`, `3-6` and lists of these."""
    found: list[int] = []
    for part in given.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        if match is None:
            raise click.UsageError(f"--turns takes numbers or ranges such as 3 or 3-6, not {given!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise click.UsageError(
                f"--turns {part.strip()}: the first number is larger; write {last}-{first}"
            )
        found.extend(range(first, min(last, first + 10_000) + 1))
    return found


def _day(given: str | None, end: bool = False) -> float | None:
    if given is None:
        return None
    try:
        day = datetime.strptime(given, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError as error:
        raise click.UsageError(f"a day is written YYYY-MM-DD, not {given!r}") from error
    return day.timestamp() + (86_399.999 if end else 0)
