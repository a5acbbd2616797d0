"""`refold discover`."""

from __future__ import annotations

import io
from pathlib import Path
from shlex import quote

import click
import msgspec

from refold.batch.results import release, short_digest
from refold.cli.batch import BatchTally, followed, keeping, usual_executor, working
from refold.cli.console import Screen
from refold.cli.options import json_option
from refold.cli.output import (
    byte_size,
    console,
    echo,
    emit,
    first_line,
    path_end,
    program,
    styled,
    text_table,
    write_private,
)
from refold.cli.session_argument import FORMAT_NAMES
from refold.discover import jobs, summary
from refold.discover.summary import DiscoverySummary
from refold.registry.client_sessions import RESUMABLE_CLIENTS, folders
from refold.text.dates import in_utc
from refold.text.plural import counted
from refold.transcripts.importing import find_transcripts

MAX_ROWS, MAX_TOOLS, MAX_NAMED = 8, 6, 3
"""Number of compactions, tools and other names shown."""
PAGE_WIDTH, _FIXED = 110, 72
"""Width of the page, and of everything but the titles."""
LOST = {"words": "your words", "paths": "file names", "commands": "commands", "numbers": "numbers"}
HEADINGS = ("words", "files", "commands", "numbers")
"""The same in short."""


@click.command("discover")
@click.argument("folder", required=False, type=click.Path(exists=True))
@click.option("--html", type=click.Path(dir_okay=False), help="Write an HTML page.")
@json_option
def command(folder: str | None, html: str | None, as_json: bool) -> None:
    """Show where the tokens of your sessions went, and what compactions lost.

    Looks where Claude Code, Codex, pi, Gemini CLI, opencode and Copilot CLI keep their sessions, or in
    FOLDER. Files are only read, nothing leaves the machine, and secrets are not shown.
    """
    total = scan_folder(folder)
    if html:
        page = _screen(total, folder)
        write_private(Path(html), page.export_html(inline_styles=True).encode())
    if as_json:
        emit(total)
        return
    _print(console(), total, folder)
    if html:
        echo(f"written to {html}")


def scan_folder(folder: str | None) -> DiscoverySummary:
    """Reads everything and adds it up."""
    places = [folder] if folder else [path for path in folders().values() if path.exists()]
    files = [path for path, _ in find_transcripts(places)]
    tally = BatchTally(usual_executor(len(files)))
    with (
        keeping(f"discover-{short_digest(release())}", None, anew=False) as kept,
        working(tally.on) as on,
    ):
        ended = followed(
            "reading", jobs.scan_files(files, on, kept), len(files), tally, lambda one: bool(one.error)
        )
        read = [
            jobs.ScannedFile(file=str(one.job.argument), bytes=0, state="unreadable", problem=one.error)
            if one.error
            else msgspec.convert(one.value, jobs.ScannedFile)
            for one in ended
        ]
        total = summary.summarise_files(read)
        asked = summary.asked(total)
        made = [
            msgspec.convert(one.value, jobs.RefoldedView | None) if not one.error else None
            for one in followed(
                "folding", jobs.folding(asked, on, kept), len(asked), BatchTally(tally.on), lambda _: False
            )
        ]
    total.instead = summary.compared(total, asked, made)
    return total


# ── the screen ──────────────────────────────────────────────────────────────────────────────────


def _screen(total: DiscoverySummary, folder: str | None) -> Screen:
    """The terminal output, recorded."""
    screen = console()
    screen.file, screen.record, screen.is_piped = io.StringIO(), True, False
    screen.soft_wrap, screen.width = False, PAGE_WIDTH
    _print(screen, total, folder)
    return screen


def _print(out: Screen, total: DiscoverySummary, folder: str | None) -> None:
    if not total.sessions:
        out.print("No sessions found" + (f" in {folder}." if folder else " in the usual places."))
        _unread(out, total)
        _next(out, "demo")
        return
    kinds = ", ".join(f"{FORMAT_NAMES.get(name, name)} {count:,}" for name, count in total.formats.items())
    size = f" ({kinds}): {byte_size(total.bytes)}, "
    tokens = (f"{_short(total.tokens)} tokens", "bold")
    out.print(
        styled(
            (counted(total.sessions, "session"), "bold"),
            size,
            tokens,
            f" in {counted(total.messages, 'message')}",
        )
    )
    _spent(out, total)
    _compactions(out, total)
    _instead(out, total)
    _unread(out, total)
    _next(out, _following(total))


def _spent(out: Screen, total: DiscoverySummary) -> None:
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
        for name, tool in list(total.tools.items())[:MAX_TOOLS]
    )
    headings = ("tool", "tokens", "share", "calls")
    shown = text_table(headings, rows, right=headings[1:])
    shown.show_header = False
    out.print(shown)
    if total.again:
        times, size = sum(one.times for one in total.again), sum(one.tokens for one in total.again)
        most = ", ".join(f"{path_end(one.path, 30)} ({one.times} ×)" for one in total.again[:MAX_NAMED])
        out.print(f"  Files read again without an edit in between: {times:,} times, {_short(size)} tokens.")
        out.print(f"    Most: {most}")
    cache = total.cache
    if cache.requests:
        read, missed = _percent(cache.read, cache.prompt), _short(cache.missed)
        out.print(
            f"  {cache.requests:,} requests sent {_short(cache.prompt)} tokens; "
            f"{read} of them came from the cache."
        )
        if cache.misses:
            out.print(f"    {cache.misses:,} missed the cache and paid for {missed} tokens again.")


def _compactions(out: Screen, total: DiscoverySummary) -> None:
    if not total.events:
        out.print("\nThese sessions were never compacted.")
        return
    sessions = len({event.session.file + event.session.id for event in total.events})
    where = f" in {counted(sessions, 'session')}. Lost from the view:"
    out.print(styled((f"\n{counted(len(total.events), 'compaction')}", "bold"), where))
    room = out.columns - _FIXED
    headings = ("when", "session", "tokens", *HEADINGS, "read again")
    rows = [
        (_day(event.compaction.time), first_line(event.session.title or event.session.id, max(room, 8)),
         f"{_short(event.compaction.before)} → {_short(event.compaction.after)}",
         *(_percent(lost.gone, lost.of) for lost in map(event.compaction.lost.__getitem__, LOST)),
         _short(sum(again.tokens for again in event.compaction.again)))
        for event in total.events[:MAX_ROWS]
    ]  # fmt: skip
    out.print(text_table(headings, rows, right=headings[2:]))
    if len(total.events) > MAX_ROWS:
        out.print(f"… and {len(total.events) - MAX_ROWS:,} more", style="dim")
    again = [again for event in total.events for again in event.compaction.again]
    tokens = _short(sum(one.tokens for one in again))
    every = ((what, total.lost[kind]) for kind, what in LOST.items())
    parts = (f"{_percent(lost.gone, lost.of)} of {what} ({_short(lost.of)})" for what, lost in every)
    out.print(f"In all: {', '.join(parts)}.")
    times = sum(one.times for one in again)
    out.print(f"Afterwards, {times:,} files were read a second time ({tokens} tokens).")
    each = (
        [one for kind in LOST for one in event.compaction.lost[kind].examples[:1]] for event in total.events
    )
    if examples := next(filter(None, each), None):
        out.print(f"Lost, for example: {' · '.join(first_line(one, 70) for one in examples)}", style="dim")


def _instead(out: Screen, total: DiscoverySummary) -> None:
    both = total.instead
    if not both.compactions:
        return
    newest = f", in the same number of tokens (newest {both.compactions:,}):"
    out.print(styled(("\nWhat folding would have kept", "bold"), newest))
    rows = (
        (f"  {name}", *(_percent(lost[kind].of - lost[kind].gone, lost[kind].of) for kind in LOST), cost)
        for name, lost, cost in (
            ("their summary", both.theirs, f"a model read {_short(both.tokens)} tokens"),
            ("refold", both.refold, "no model asked"),
        )
    )
    out.print(text_table(("", *HEADINGS, "cost"), rows, right=HEADINGS))


def _unread(out: Screen, total: DiscoverySummary) -> None:
    if total.unread:
        out.print()
    texts = {"unreadable": "Unreadable", "in part": "Partly read", "foreign": "Not transcripts"}
    for state, text in texts.items():
        files = [file for file in total.unread if file.state == state]
        if files:
            names = ", ".join(path_end(file.file, 40) for file in files[:MAX_NAMED])
            more = (
                f" and {len(files) - MAX_NAMED:,} more (--json lists all)" if len(files) > MAX_NAMED else ""
            )
            out.print(f"{text} ({len(files):,}): {names}{more}", style="yellow")


def _following(total: DiscoverySummary) -> str:
    newest = total.newest
    if newest is not None and newest.format in RESUMABLE_CLIENTS:
        return f"compact {quote(newest.place)} --budget 40k --resume {RESUMABLE_CLIENTS[newest.format]}"
    return f"compact {quote(newest.place)} --budget 40k -o folded.jsonl" if newest else "demo"


def _next(out: Screen, arguments: str) -> None:
    out.print(styled("\nnext: ", (f"{program()} {arguments}", "bold")), soft_wrap=True)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def _short(number: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}" if number < 10 * size else f"{number / size:.0f}{unit}"
    return str(number)


def _day(time: float) -> str:
    return in_utc(time).astimezone().strftime("%Y-%m-%d") if time else "?"
