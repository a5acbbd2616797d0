"""`refold stats`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from refold import tokens
from refold.cli.options import WholeNumber, file_argument, json_option
from refold.cli.output import console, emit, first_line, path_end, styled, waiting
from refold.cli.session_argument import open_session, tell_problems
from refold.compare.stats import Stats, stats
from refold.session import redacted
from refold.text.plural import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_BARS = 40
"""Number of bars of the growth chart; longer conversations are grouped."""


@click.command("stats")
@file_argument
@click.option("--counter", default="o200k", show_default=True, help="Token counter.")
@click.option("--top", type=WholeNumber(1, 1000), default=10, show_default=True, help="Length of the lists.")
@json_option
def command(file: str, counter: str, top: int, as_json: bool) -> None:
    """Show where the tokens go: by role, tool and file; growth, repeated reads, largest results."""
    session = open_session(file)
    with waiting("counting …"):
        found = _without_secrets(stats(session, tokens.get(counter), top=top))
    if as_json:
        emit(found)
        return
    tell_problems(session)
    out = console()
    _summary(out, found, len(session))
    _bars(out, "by role", found.by_role.items(), found.tokens)
    _bars(out, "by tool", list(found.by_tool.items())[:top], found.tokens)
    _bars(
        out,
        "by file",
        [(path_end(path), size) for path, size in found.by_file.items()][:top],
        found.tokens,
    )
    _growth(out, found)
    _lists(out, found)


def _without_secrets(found: Stats) -> Stats:
    """The figures without secrets, also in names of files and commands."""
    files = {redacted.without_secrets(path): size for path, size in found.by_file.items()}
    clean = redacted.values({**msgspec.to_builtins(found), "by_file": files})
    return msgspec.convert(clean, type(found))


def _summary(out: Console, found: Stats, entries: int) -> None:
    used = found.usage
    out.print(
        styled(
            (f"{found.tokens:,}", "bold"),
            f" tokens in {counted(found.messages, 'message')} and {counted(len(found.turns), 'turn')} ",
            f"({counted(entries, 'entry')} in the log); the model sees ",
            (f"{found.view:,}", "bold"),
            f" ({found.counter})",
            f", {found.added:,} of it for missing results" if found.added else "",
        )
    )
    if found.words_left_out:
        out.print(f"{found.words_left_out:,} of the user's messages are clipped or left out of the view")
    if used is not None:
        prompt = used.input + used.cache_read + used.cache_write
        cached = 100 * used.cache_read / prompt if prompt else 0
        out.print(
            f"{counted(used.requests, 'request')}: {prompt:,} prompt tokens ({cached:.0f} % from the cache), "
            f"{used.output:,} output tokens"
        )


def _bars(out: Console, title: str, rows: Iterable[tuple[str, int]], whole: int) -> None:
    from rich.bar import Bar
    from rich.text import Text

    rows = list(rows)
    if not rows:
        return
    longest = max(size for _, size in rows) or 1
    table = _titled(title, min(out.width, 100))
    table.add_column(ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=3)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, size in rows:
        share = f"{100 * size / max(whole, 1):.0f} %"
        table.add_row(Text(first_line(name, 80)), Bar(longest, 0, size, color="cyan"), f"{size:,}", share)
    out.print()
    out.print(table)


def _titled(title: str, width: int | None = None) -> Table:
    from rich.table import Table

    look: dict[str, Any] = {"title_justify": "left", "box": None, "show_header": False, "pad_edge": False}
    return Table(title=title, width=width, **look)


def _about(subject: str) -> str:
    return subject if " " in subject else path_end(subject, 50)


def _growth(out: Console, found: Stats) -> None:
    step = -(-len(found.turns) // MAX_BARS) or 1
    shown = found.turns[step - 1 :: step]
    if found.turns and (not shown or shown[-1] is not found.turns[-1]):
        shown = (*shown, found.turns[-1])
    _bars(out, "growth by turn", [(f"{t.turn}  {t.text}", t.total) for t in shown], found.tokens)


def _lists(out: Console, found: Stats) -> None:
    largest = [(big.tokens, f"turn {big.turn:<4} {big.tool}  {_about(big.subject)}") for big in found.largest]
    repeated = [(one.tokens, f"{one.times} times  {path_end(one.path, 60)}") for one in found.repeated]
    _list(out, "largest results", largest)
    _list(out, "read again, unchanged", repeated)
    _list(out, "suggestions", [(one.tokens, one.text) for one in found.suggestions], wrap=True)


def _list(out: Console, title: str, rows: list[tuple[int, str]], *, wrap: bool = False) -> None:
    if not rows:
        return
    table = _titled(title)
    table.add_column(justify="right", no_wrap=True, min_width=9)
    table.add_column(no_wrap=not wrap, overflow="ellipsis")
    for size, said in rows:
        table.add_row(f"{size:,}", styled(first_line(said, 300)))
    out.print()
    out.print(table)
