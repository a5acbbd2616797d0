"""Sessions given as arguments of commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shlex import quote

import click

from refold.cli.output import echo, first_line, progress, waiting
from refold.entries import MessageEntry
from refold.errors import UnknownName
from refold.facts.words import typed
from refold.registry import sessions as opening
from refold.session import Session
from refold.transcripts import read_all
from refold.transcripts.base import SEVERAL_CONVERSATIONS, problem_sentences

FORMAT_NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "pi": "pi",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "copilot": "Copilot CLI",
}
"""Format of sessions → name of the program."""


MAX_OFFERED = 30


def open_session(file: str) -> Session:
    """A session from any supported file or store. Refold's own are opened for writing. If a file has several,
    a user at a terminal chooses."""
    with waiting(f"reading {file} …"):
        try:
            session = opening.named_session(file)
        except UnknownName as error:
            path, mark, id = file.rpartition("#")
            if not mark:
                raise
            raise click.UsageError(
                f"{path} has no session {id!r}: # is followed by the id of a session; "
                f"`refold sessions --store {quote(path)}` lists them"
            ) from error
    several = any(problem.where == SEVERAL_CONVERSATIONS for problem in session.problems)
    if several and is_interactive():
        return opening.named_session(f"{file}#{_picked(file)}")
    return session


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _picked(file: str) -> int:
    titles: list[str] = []
    for _, loaded in progress("reading", list(read_all(file))):
        messages = (entry.message for entry in loaded.entries if isinstance(entry, MessageEntry))
        titles.append(next((said for message in messages if (said := typed(message))), ""))
    return _chosen(titles)


def _chosen(titles: Sequence[str]) -> int:
    """The number that the user types; words shorten the list."""
    shown = list(range(len(titles)))
    while True:
        for number in shown[:MAX_OFFERED]:
            echo(f"{number:4}  {first_line(titles[number], 90)}")
        if len(shown) > MAX_OFFERED:
            echo(f"   …  and {len(shown) - MAX_OFFERED} more")
        answer: str = click.prompt("Which conversation? A number, or words to search for", default="0")
        if answer.isdecimal() and int(answer) < len(titles):
            return int(answer)
        words = answer.casefold().split()
        found = (n for n, title in enumerate(titles) if all(word in title.casefold() for word in words))
        shown = list(found)
        if not shown:
            echo(f"no first prompt contains {answer!r}; the numbers are 0 to {len(titles) - 1}")


def own_session(file: str) -> Session:
    """A session that can be changed; transcripts of other programs cannot."""
    session = open_session(file)
    if session.store is None:
        raise click.UsageError(
            f"{file} is a transcript of another program, which refold never changes; "
            "make a copy with `refold export FILE --to jsonl -o OUT`"
        )
    return session


def tell_problems(session: Session) -> None:
    """Prints to standard error what could not be read, or was not chosen."""
    for sentence in problem_sentences(session.problems):
        echo(f"refold: {sentence}", err=True)
