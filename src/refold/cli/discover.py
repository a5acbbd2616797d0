"""`refold discover`."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click
import msgspec

from refold.cli.batch import Tally, followed, keeping, working
from refold.cli.compact import PROGRAMS
from refold.cli.options import json_option
from refold.cli.output import console, emit, first_line, path_end, program, say, styled, table, write_private

if TYPE_CHECKING:
    from refold.cli.screen import Screen
    from refold.discover.summary import Summary

FEW = 8
"""So many files are read sooner than others are started to read them."""
ROWS, TOOLS, NAMED = 8, 6, 3
"""Compactions, tools and other names that are shown."""
WIDTH, _FIXED = 110, 72
"""Columns of the page, and of all but the titles of sessions."""
NAMES = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "pi": "pi",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
    "copilot": "Copilot CLI",
}
LOST = {"words": "your words", "paths": "file names", "commands": "commands", "numbers": "numbers"}
HEADINGS = ("words", "files", "commands", "numbers")
"""The same in short."""


@click.command("discover")
@click.argument("folder", required=False, type=click.Path(exists=True))
@click.option("--html", type=click.Path(dir_okay=False), help="Write it as a page.")
@json_option
def command(folder: str | None, html: str | None, as_json: bool) -> None:
    """What the sessions on this machine show: where tokens went, and what compactions lost.

    Looks where Claude Code, Codex, pi, Gemini CLI, opencode and Copilot CLI keep their sessions, or in
    FOLDER. Files are only read, nothing leaves the machine, and secrets are not shown.
    """
    total = found_in(folder)
    if html:
        page = _screen(total, folder)
        write_private(Path(html), page.export_html(inline_styles=True).encode())
    if as_json:
        emit(total)
        return
    _print(console(), total, folder)
    if html:
        say(f"written to {html}")


def found_in(folder: str | None) -> Summary:
    """Everything, read and added up."""
    from refold.batch.kept import digest, release
    from refold.discover import jobs, summary
    from refold.registry.installed import folders
    from refold.transcripts.importing import find

    places = [folder] if folder else [path for path in folders().values() if path.exists()]
    files = [path for path, _ in find(places)]
    tally = Tally("processes" if len(files) > FEW else "here")
    with (
        keeping(f"discover-{digest(release())}", None, anew=False) as kept,
        working(tally.on) as on,
    ):
        ended = followed(
            "reading", jobs.reading(files, on, kept), len(files), tally, lambda one: bool(one.error)
        )
        read = [
            jobs.File(file=str(one.job.argument), bytes=0, state="unreadable", problem=one.error)
            if one.error
            else msgspec.convert(one.value, jobs.File)
            for one in ended
        ]
        total = summary.summed(read)
        asked = summary.asked(total)
        made = [
            msgspec.convert(one.value, jobs.Folded | None) if not one.error else None
            for one in followed(
                "folding", jobs.folding(asked, on, kept), len(asked), Tally(tally.on), lambda _: False
            )
        ]
    total.instead = summary.compared(total, asked, made)
    return total


# ── the screen ──────────────────────────────────────────────────────────────────────────────────


def _screen(total: Summary, folder: str | None) -> Screen:
    """As on a terminal, recorded."""
    screen = console()
    screen.file, screen.record, screen.is_piped = io.StringIO(), True, False
    screen.soft_wrap, screen.width = False, WIDTH
    _print(screen, total, folder)
    return screen


def _print(out: Screen, total: Summary, folder: str | None) -> None:
    if not total.sessions:
        out.print("No sessions were found" + (f" in {folder}." if folder else " where programs keep theirs."))
        _unread(out, total)
        _next(out, "demo")
        return
    kinds = ", ".join(f"{NAMES.get(name, name)} {count:,}" for name, count in total.formats.items())
    size = f" ({kinds}): {total.bytes / 1e6:,.0f} MB, "
    tokens = (f"{_short(total.tokens)} tokens", "bold")
    out.print(
        styled((_many(total.sessions, "session"), "bold"), size, tokens, f" in {total.messages:,} messages")
    )
    _spent(out, total)
    _compactions(out, total)
    _instead(out, total)
    _unread(out, total)
    _next(out, _following(total))


def _spent(out: Screen, total: Summary) -> None:
    tokens = sum(tool.tokens for tool in total.tools.values())
    out.print(styled(("\nWhere the tokens went", "bold")))
    out.print(f"  {_short(tokens)} tokens ({_percent(tokens, total.tokens)}) are tool output:")
    rows = (
        (
            f"    {first_line(name, 30)}",
            _short(tool.tokens),
            _percent(tool.tokens, total.tokens),
            f"{tool.calls:,} calls",
        )
        for name, tool in list(total.tools.items())[:TOOLS]
    )
    headings = ("tool", "tokens", "share", "calls")
    shown = table(headings, rows, right=headings[1:])
    shown.show_header = False
    out.print(shown)
    if total.again:
        times, size = sum(one.times for one in total.again), sum(one.tokens for one in total.again)
        most = ", ".join(f"{path_end(one.path, 30)} ({one.times} ×)" for one in total.again[:NAMED])
        out.print(f"  Files read again though no edit changed them: {times:,} times, {_short(size)} tokens.")
        out.print(f"    Most: {most}")
    cache = total.cache
    if cache.requests:
        read, missed = _percent(cache.read, cache.prompt), _short(cache.missed)
        out.print(
            f"  {cache.requests:,} requests sent {_short(cache.prompt)} tokens; the cache had {read} of them."
        )
        out.print(f"    {cache.misses:,} missed the cache and paid for {missed} tokens again.")


def _compactions(out: Screen, total: Summary) -> None:
    if not total.events:
        out.print("\nNo compaction happened in these sessions.")
        return
    sessions = len({event.session.file + event.session.id for event in total.events})
    where = f" in {_many(sessions, 'session')}. Gone from the view:"
    out.print(styled((f"\n{_many(len(total.events), 'compaction')}", "bold"), where))
    room = out.columns - _FIXED
    headings = ("when", "session", "tokens", *HEADINGS, "read again")
    rows = [
        (_day(event.compaction.time), first_line(event.session.title or event.session.id, max(room, 8)),
         f"{_short(event.compaction.before)} → {_short(event.compaction.after)}",
         *(_percent(lost.gone, lost.of) for lost in map(event.compaction.lost.__getitem__, LOST)),
         _short(sum(again.tokens for again in event.compaction.again)))
        for event in total.events[:ROWS]
    ]  # fmt: skip
    out.print(table(headings, rows, right=headings[2:]))
    if len(total.events) > ROWS:
        out.print(f"… and {len(total.events) - ROWS:,} more", style="dim")
    again = [again for event in total.events for again in event.compaction.again]
    tokens = _short(sum(one.tokens for one in again))
    every = ((what, total.lost[kind]) for kind, what in LOST.items())
    parts = (f"{_percent(lost.gone, lost.of)} of {what} ({_short(lost.of)})" for what, lost in every)
    out.print(f"In all: {', '.join(parts)}.")
    times = sum(one.times for one in again)
    out.print(
        f"Afterwards, files that had been read before were read again {times:,} times ({tokens} tokens)."
    )
    each = (
        [one for kind in LOST for one in event.compaction.lost[kind].examples[:1]] for event in total.events
    )
    if examples := next(filter(None, each), None):
        out.print(f"Gone, for example: {' · '.join(first_line(one, 70) for one in examples)}", style="dim")


def _instead(out: Screen, total: Summary) -> None:
    both = total.instead
    if not both.compactions:
        return
    newest = f", in as many tokens, at the newest {both.compactions}:"
    out.print(styled(("\nWhat folding would have kept", "bold"), newest))
    rows = (
        (f"  {name}", *(_percent(lost[kind].of - lost[kind].gone, lost[kind].of) for kind in LOST), cost)
        for name, lost, cost in (
            ("their summary", both.theirs, f"a model read {_short(both.tokens)} tokens"),
            ("refold", both.refold, "no model asked"),
        )
    )
    out.print(table(("", *HEADINGS, "cost"), rows, right=HEADINGS))


def _unread(out: Screen, total: Summary) -> None:
    if total.unread:
        out.print()
    texts = {"unreadable": "Not readable", "in part": "Read in part", "foreign": "No transcripts"}
    for state, text in texts.items():
        files = [file for file in total.unread if file.state == state]
        if files:
            names = ", ".join(path_end(file.file, 40) for file in files[:NAMED])
            more = f" and {len(files) - NAMED:,} more (--json names all)" if len(files) > NAMED else ""
            out.print(f"{text} ({len(files):,}): {names}{more}", style="yellow")


def _following(total: Summary) -> str:
    newest = total.newest
    resumes = {format: name for name, format in PROGRAMS.items()}
    if newest is not None and newest.format in resumes:
        return f"compact {quote(newest.place)} --budget 40k --resume {resumes[newest.format]}"
    return f"compact {quote(newest.place)} --budget 40k -o folded.jsonl" if newest else "demo"


def _next(out: Screen, arguments: str) -> None:
    out.print(styled("\nnext: ", (f"{program()} {arguments}", "bold")), soft_wrap=True)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _short(number: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number / size:.0f}{unit}"
    return str(number)


def _day(time: float) -> str:
    return datetime.fromtimestamp(time).strftime("%Y-%m-%d") if time else "?"
