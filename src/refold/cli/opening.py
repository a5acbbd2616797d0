"""Sessions that commands are given."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from refold.cli.output import first_line, progress, say, waiting

if TYPE_CHECKING:
    from refold.session import Session


LISTED = 30
"""Conversations of a file that are offered at once: a screen of them."""


def open_session(file: str) -> Session:
    """A session from any supported file or store. Refold's own are opened for writing. Of several in one
    file, a person at a terminal chooses."""
    from refold.registry import sessions as opening
    from refold.transcripts.base import MANY

    with waiting(f"reading {file} …"):
        session = opening.session_of(file)
    several = any(problem.where == MANY for problem in session.problems)
    if several and is_interactive():
        return opening.session_of(f"{file}#{_picked(file)}")
    return session


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _picked(file: str) -> int:
    from refold.entries import MessageEntry
    from refold.preserve.words import typed
    from refold.transcripts import read_all

    titles: list[str] = []
    for _, loaded in progress("reading", list(read_all(file))):
        messages = (entry.message for entry in loaded.entries if isinstance(entry, MessageEntry))
        titles.append(next((said for message in messages if (said := typed(message))), ""))
    return _chosen(titles)


def _chosen(titles: Sequence[str]) -> int:
    """The number that is typed; words make the list shorter."""
    shown = list(range(len(titles)))
    while True:
        for number in shown[:LISTED]:
            say(f"{number:4}  {first_line(titles[number], 90)}")
        if len(shown) > LISTED:
            say(f"   …  and {len(shown) - LISTED} more")
        answer: str = click.prompt("Which conversation? A number, or words to search for", default="0")
        if answer.isdecimal() and int(answer) < len(titles):
            return int(answer)
        words = answer.casefold().split()
        found = (n for n, title in enumerate(titles) if all(word in title.casefold() for word in words))
        shown = list(found)
        if not shown:
            say(f"no first prompt has {answer!r}; the numbers are 0 to {len(titles) - 1}")


def own_session(file: str) -> Session:
    """A session that can be changed; foreign transcripts cannot."""
    session = open_session(file)
    if session.store is None:
        raise click.UsageError(
            f"{file} is a transcript of another program and is never changed: "
            "make a copy with `refold export FILE --to jsonl -o OUT` and work on that"
        )
    return session


def tell_problems(session: Session) -> None:
    """What could not be understood, or was not chosen, is said on standard error."""
    from refold.transcripts.base import sentences

    for sentence in sentences(session.problems):
        say(f"refold: {sentence}", err=True)
