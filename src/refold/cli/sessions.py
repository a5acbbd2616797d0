"""`refold sessions`: the sessions of a store."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Any

import click
from msgspec.structs import asdict

from refold.cli import CommandGroup
from refold.cli.options import WholeNumber, json_option, session_names
from refold.cli.output import (
    byte_size,
    console,
    drop_columns,
    echo,
    emit,
    first_line,
    path_end,
    print_answer,
    progress,
    styled,
    text_table,
)
from refold.cli.recall import marked
from refold.errors import StorageError
from refold.protocols import Backups, Placed, SessionInfo, Store
from refold.recall import Hit
from refold.registry.search import search_store
from refold.registry.sessions import find_session, session_title
from refold.session import redacted
from refold.stores import default_database, open_store, transfer, without_password
from refold.stores.doctor import examine
from refold.text import dates
from refold.text.plural import counted
from refold.text.terminal import clean

_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_HITS = 3
"""Number of hits shown per session."""
_WIDTH = 240


store_option = click.option(
    "--store",
    "spec",
    metavar="STORE",
    help="Store: sqlite:FILE, jsonl:FILE, jsonl:FOLDER/ or postgres://… [default: yours]",
)


@click.group("sessions", invoke_without_command=True, cls=CommandGroup)
@store_option
@click.option("--name", help="Only sessions whose title or id contains this.")
@click.option("--folder", help="Only sessions of this folder or below.")
@click.option("--since", metavar="DATE", help="Only sessions active since: 2026-05-31, 12h, 7d, 3w.")
@click.option("--until", metavar="DATE", help="Only sessions last active before this.")
@click.option("--search", metavar="TEXT", help="Only sessions that contain any of these words, best first.")
@click.option("--limit", type=WholeNumber(1), default=50, show_default=True, help="Sessions to list at most.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    spec: str | None,
    name: str | None,
    folder: str | None,
    since: str | None,
    until: str | None,
    search: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List, search, check and delete stored sessions.

    Without a command, lists the sessions, newest first.
    """
    ctx.obj = spec
    if ctx.invoked_subcommand is not None:
        return
    with existing_store(spec) as store:
        begin, end = moment(since), moment(until)
        found = [info for info in store.sessions() if _fits(info, folder, begin, end)]
        titled = progress("reading", found if name else found[:limit])
        titles = {info.id: session_title(store, info) for info in titled}
        if name:
            found = [i for i in found if name.casefold() in f"{titles[i.id]}\n{i.id}".casefold()]
        search = search and search.strip()
        if search:
            total, rows = _said(store, search, found, limit)
        else:
            total, rows = len(found), [asdict(info) for info in found[:limit]]
        rows = [_without_secrets(row) for row in rows]
        for row in rows:
            row["title"] = titles.get(row["id"]) or row["name"] or ""
        if as_json:
            about = {"store": without_password(spec or "sqlite:"), "path": _path(store, spec)}
            emit({**about, "total": total, "sessions": rows})
        else:
            echo(f"store: {_path(store, spec)}")
            if found or name or folder or since or until:
                _print(rows, total, search)
            else:
                echo("it is empty; `refold import` imports the sessions of other programs")


@command.command("delete")
@click.argument("ids", metavar="ID…", nargs=-1, required=True, shell_complete=session_names)
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def delete(above: str | None, ids: tuple[str, ...], spec: str | None, yes: bool, as_json: bool) -> None:
    """Delete sessions for good. ID may be the beginning of one."""
    if as_json and not yes:
        raise click.UsageError("--json cannot ask for confirmation; add --yes")
    with existing_store(spec or above) as store:
        chosen = [find_session(store, id) for id in ids]
        for info in chosen:
            if not as_json:
                echo(f"{info.id}  {first_line(session_title(store, info))}  {counted(info.entries, 'entry')}")
        if not yes:
            click.confirm(f"Delete {counted(len(chosen), 'session')}? This cannot be undone", abort=True)
        for info in dict.fromkeys(chosen):
            store.delete(info.id)
        print_answer(
            {"deleted": [info.id for info in chosen]},
            f"Deleted {counted(len(chosen), 'session')}",
            as_json,
            next="sessions",
        )


@command.command("doctor")
@store_option
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@json_option
@click.pass_obj
def doctor(above: str | None, spec: str | None, repair: bool, as_json: bool) -> None:
    """Check a store for damage; --repair repairs it and says what cannot be repaired.

    The exit code is 1 if something is left to do.
    """
    with existing_store(spec or above) as store:
        findings = examine(store, repair=repair)
    counts = Counter(finding.state for finding in findings)
    if as_json:
        emit({"findings": findings, **{s: counts[s] for s in ("repaired", "repairable", "lost", "lasting")}})
    else:
        for finding in findings:
            echo(f"{finding.state:10}  {finding.where}: {first_line(finding.text, 300)}")
        if not findings:
            echo("no problems found")
        elif counts["repairable"]:
            echo("run it again with --repair")
    if counts["repairable"] or counts["lasting"]:
        raise SystemExit(1)


@command.command("copy")
@click.argument("id", shell_complete=session_names)
@click.option("--to", "target", required=True, metavar="STORE", help="Target store.")
@click.option("--move", is_flag=True, help="Delete the original after the copy is verified.")
@store_option
@json_option
@click.pass_obj
def copy(above: str | None, id: str, target: str, move: bool, spec: str | None, as_json: bool) -> None:
    """Copy a session into another store, with everything in it."""
    with existing_store(spec or above) as store:
        chosen = find_session(store, id).id
        other = open_store(target).store
        info = (transfer.move_session if move else transfer.copy_session)(store, chosen, other)
        other.close()
    told = f"{info.id}: copied {counted(info.entries, 'entry')} to {without_password(target)}"
    listing = f"sessions --store {quote(without_password(target))}"
    print_answer({"session": info, "store": without_password(target)}, told, as_json, next=listing)


@command.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, exists=False))
@store_option
@json_option
@click.pass_obj
def backup(above: str | None, file: str, spec: str | None, as_json: bool) -> None:
    """Back up a database; other programs may keep writing to it."""
    with existing_store(spec or above) as store:
        if not isinstance(store, Backups):
            raise click.UsageError(
                "backup works for SQLite only; copy JSONL files, and use pg_dump for PostgreSQL"
            )
        store.backup(file)
    size = Path(file).stat().st_size
    print_answer({"backup": file, "bytes": size}, f"{file}: {size:,} bytes", as_json)


# ── choosing ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def existing_store(spec: str | None) -> Generator[Store]:
    """A store that exists. The user's own counts as empty before its first use."""
    unused = not spec and not default_database().exists()
    store = open_store("memory:" if unused else spec or "sqlite:").store
    if isinstance(store, Placed) and not Path(str(store.path)).exists():
        raise StorageError(f"{store.path} does not exist")
    try:
        yield store
    finally:
        store.close()


def moment(text: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds since 1970 for a date, a date with a time, or a time span ago."""
    if text is None:
        return None
    if span := re.fullmatch(r"(\d{1,6})([hdw])", text.strip()):
        return now() - int(span[1]) * _UNITS[span[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        raise click.UsageError(f"{clean(text)!r} is not a date: use 2026-05-31, 12h, 7d or 3w") from None


def _without_secrets(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the list without secrets. Its id stays: refold makes ids, and other commands take them."""
    own = {key: value for key, value in row.items() if value == row["id"]}
    return {**redacted.values(row), **own}


def _path(store: Store, spec: str | None) -> str:
    if isinstance(store, Placed):
        return str(store.path)
    return without_password(spec) if spec else f"{default_database()} (not created yet)"


def _fits(info: SessionInfo, folder: str | None, begin: float | None, end: float | None) -> bool:
    if folder and not (info.cwd and Path(info.cwd).is_relative_to(Path(folder).expanduser().absolute())):
        return False
    return (begin is None or info.updated >= begin) and (end is None or info.updated < end)


def _said(
    store: Store, text: str, infos: Sequence[SessionInfo], limit: int
) -> tuple[int, list[dict[str, Any]]]:
    """The number of sessions with these words, and the best of them, each with its best hits."""
    known = {info.id: info for info in infos}
    result = search_store(store, text, limit=limit * _HITS, each=_HITS, sessions=known.keys())
    best: dict[str, list[Hit]] = {}
    for found in result.found:
        best.setdefault(found.session, []).append(found.hit)
    rows = [
        {**asdict(known[id]), "matches": result.matches[id], "text": hits[0].text, "hits": hits}
        for id, hits in best.items()
    ]
    return max(len(rows), len(result.matches)), rows[:limit]


# ── showing ─────────────────────────────────────────────────────────────────────────────────────


def _print(rows: list[dict[str, Any]], total: int, search: str | None) -> None:
    if not rows:
        echo(f"no session contains {search!r}" if search else "no matching sessions")
        return
    if search:
        _print_hits(rows, search)
    else:
        _print_table(rows)
        echo("`refold show ID` shows one; the beginning of its id is enough")
    if total > len(rows):
        console().print(f"… and {total - len(rows)} more; --limit shows them", style="dim")


_FIXED = 48
"""Columns taken by id, time, entries and size."""


def _print_table(rows: list[dict[str, Any]]) -> None:
    """On a terminal, one line each: the shortest unambiguous id, and as much of the rest as fits."""
    headings = ("session", "updated", "entries", "size", "title", "folder")
    out = console()
    ids = [row["id"] for row in rows]
    long = next((n for n in range(8, 40) if len({id[:n] for id in ids}) == len(ids)), 40)
    room = max(out.width - _FIXED - (long - 8), 20)
    title, folder = (60, 1_000) if out.is_piped else (min(room * 2 // 3, 60), room // 3 - 1)
    cells = (
        (row["id"] if out.is_piped else row["id"][:long], _day(row["updated"]), f"{row['entries']:,}",
         byte_size(row["bytes"]), first_line(row["title"], title), path_end(row["cwd"] or "", folder))
        for row in rows
    )  # fmt: skip
    table = text_table(headings, cells, right=("entries", "size"))
    drop_columns(table, out, ("folder", "size", "updated", "entries", "title"))
    out.print(table)


def _print_hits(rows: list[dict[str, Any]], search: str) -> None:
    out = console()
    for row in rows:
        about = f"  {_day(row['updated'])}  {first_line(row['title'], 60)}"
        out.print(styled((row["id"], "bold"), about, (f"  {row['matches']} ×", "dim")))
        for hit in row["hits"]:
            when = f"{_day(hit.time)}  " if hit.time > 0 else ""
            place = styled((f"  turn {hit.turn}  {hit.key}  {hit.role}  {when}", "dim"))
            out.print(place.append_text(marked(first_line(hit.text, _WIDTH), search)))
        out.print()


def _day(time: float) -> str:
    return dates.in_utc(time).astimezone().strftime("%Y-%m-%d %H:%M")
