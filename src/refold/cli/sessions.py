"""`refold sessions`: what is in a store."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from refold.cli.common import clean, console, emit, first_line, json_option

if TYPE_CHECKING:
    from refold.protocols import SessionInfo, Store

F = TypeVar("F", bound=Callable[..., Any])
_UNITS = {"h": 3600, "d": 86400, "w": 7 * 86400}
_FOUND = 2000


def store_option(function: F) -> F:
    return click.option(
        "--store", "spec", metavar="STORE", help="sqlite:FILE, jsonl:FILE or jsonl:FOLDER/ [default: yours]"
    )(function)


@click.group("sessions", invoke_without_command=True)
@store_option
@click.option("--name", help="Only sessions whose name or id contains this.")
@click.option("--folder", help="Only sessions that worked in this folder or below.")
@click.option("--since", metavar="DATE", help="Changed since: 2026-05-31, 12h, 7d, 3w.")
@click.option("--until", metavar="DATE", help="Changed before.")
@click.option("--search", metavar="TEXT", help="Only sessions in which this was said.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
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

    Without a command: the sessions, newest first.
    """
    ctx.obj = spec
    if ctx.invoked_subcommand is not None:
        return
    with opened(spec) as store:
        found = list(store.sessions())
        begin, end = moment(since), moment(until)
        found = [info for info in found if _fits(info, name, folder, begin, end)]
        hits = said(store, search, found) if search else {}
        if search:
            found = sorted((info for info in found if info.id in hits), key=lambda info: -hits[info.id][0])
        rows = [_row(info, hits.get(info.id)) for info in found[:limit]]
        if as_json:
            emit({"store": spec or "sqlite:", "total": len(found), "sessions": rows})
        else:
            _print(rows, len(found))


@command.command("delete")
@click.argument("ids", metavar="ID…", nargs=-1, required=True)
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def delete(above: str | None, ids: tuple[str, ...], spec: str | None, yes: bool, as_json: bool) -> None:
    """Delete sessions for good. ID may be the beginning of one."""
    if as_json and not yes:
        raise click.UsageError("--json needs --yes: there is nobody to ask")
    with opened(spec or above) as store:
        known = {info.id: info for info in store.sessions()}
        chosen = [known[_resolve(id, known)] for id in ids]
        for info in chosen:
            if not as_json:
                click.echo(f"{clean(info.id)}  {first_line(info.name or '')}  {info.entries} entries")
        if not yes:
            click.confirm(f"Delete {len(chosen)} session(s)? This cannot be undone", abort=True)
        for info in dict.fromkeys(chosen):
            store.delete(info.id)
        if as_json:
            emit({"deleted": [info.id for info in chosen]})
        else:
            click.echo(f"{len(chosen)} deleted")


@command.command("doctor")
@store_option
@click.option("--repair", is_flag=True, help="Repair what can be repaired.")
@json_option
@click.pass_obj
def doctor(above: str | None, spec: str | None, repair: bool, as_json: bool) -> None:
    """Look for damage; with --repair, repair it. Says what cannot be repaired.

    Exit code 1 if something is left to do.
    """
    from refold.stores.doctor import examine

    with opened(spec or above) as store:
        findings = examine(store, repair=repair)
    counts = Counter(finding.state for finding in findings)
    if as_json:
        emit({"findings": findings, **{s: counts[s] for s in ("repaired", "repairable", "lasting")}})
    else:
        for finding in findings:
            click.echo(f"{finding.state:10}  {clean(finding.where)}: {first_line(finding.text, 300)}")
        if not findings:
            click.echo("nothing is wrong")
        elif counts["repairable"]:
            click.echo("run it again with --repair")
    if counts["repairable"] or counts["lasting"]:
        raise SystemExit(1)


@command.command("copy")
@click.argument("id")
@click.option("--to", "target", required=True, metavar="STORE", help="The store to copy into.")
@click.option("--move", is_flag=True, help="Delete it here after the copy was compared.")
@store_option
@json_option
@click.pass_obj
def copy(above: str | None, id: str, target: str, move: bool, spec: str | None, as_json: bool) -> None:
    """Copy a session into another store, with everything in it."""
    from refold.stores import moving, open_store

    with opened(spec or above) as store:
        chosen = _resolve(id, {info.id: info for info in store.sessions()})
        other = open_store(target).store
        info = (moving.move if move else moving.copy)(store, chosen, other)
        other.close()
    if as_json:
        emit({"session": info, "store": target})
    else:
        click.echo(f"{clean(info.id)}: {info.entries} entries are in {clean(target)}")


@command.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, exists=False))
@store_option
@json_option
@click.pass_obj
def backup(above: str | None, file: str, spec: str | None, as_json: bool) -> None:
    """A complete copy of a database, taken while others may write to it."""
    with opened(spec or above) as store:
        make = getattr(store, "backup", None)
        if make is None:
            raise click.UsageError("only databases have a backup; copy the files of other stores")
        make(file)
    if as_json:
        emit({"backup": file, "bytes": Path(file).stat().st_size})
    else:
        click.echo(f"{clean(file)}: {Path(file).stat().st_size:,} bytes")


# ── choosing ────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def opened(spec: str | None) -> Generator[Store]:
    """A store that exists. The user's own counts as empty before it is first used."""
    from refold.errors import StorageError
    from refold.stores import default_database, open_store
    from refold.stores.memory import MemoryStore

    if not spec and not default_database().exists():
        yield MemoryStore()
        return
    store = open_store(spec or "sqlite:").store
    path: Path | None = getattr(store, "path", None)
    if path is not None and not path.exists():
        raise StorageError(f"{path} does not exist")
    try:
        yield store
    finally:
        store.close()


def moment(text: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds since 1970 of a date, a date with a time, or a span of time ago."""
    if text is None:
        return None
    if span := re.fullmatch(r"(\d{1,6})([hdw])", text.strip()):
        return now() - int(span[1]) * _UNITS[span[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        raise click.UsageError(f"{clean(text)!r} is no date: use 2026-05-31, 12h, 7d or 3w") from None


def _fits(
    info: SessionInfo, name: str | None, folder: str | None, begin: float | None, end: float | None
) -> bool:
    if name and name.casefold() not in f"{info.name or ''}\n{info.id}".casefold():
        return False
    if folder and not (info.cwd and Path(info.cwd).is_relative_to(Path(folder).expanduser().absolute())):
        return False
    return (begin is None or info.updated >= begin) and (end is None or info.updated < end)


def said(store: Store, text: str, found: list[SessionInfo]) -> dict[str, tuple[int, str]]:
    """Session → (how many entries say it, the best of them as a line)."""
    from refold.protocols import Searchable

    if isinstance(store, Searchable):
        counts: Counter[str] = Counter()
        best: dict[str, str] = {}
        for hit in store.search(text.split(), limit=_FOUND):
            counts[hit.session] += 1
            best.setdefault(hit.session, hit.entry_id)
        shown = {info.id for info in found} & set(best)
        return {id: (counts[id], _line(store, id, best[id], text)) for id in shown}
    return {info.id: hit for info in found if (hit := _scan(store, info.id, text.casefold()))}


def _line(store: Store, session: str, entry_id: str, text: str) -> str:
    for entry in store.load(session).entries:
        if entry.id == entry_id:
            return _around(_text_of(entry), text)
    return ""


def _scan(store: Store, session: str, text: str) -> tuple[int, str] | None:
    lines = [told for entry in store.load(session).entries if text in (told := _text_of(entry)).casefold()]
    return (len(lines), _around(lines[0], text)) if lines else None


def _text_of(entry: Any) -> str:
    message = getattr(entry, "message", None)
    return message.text if message is not None else ""


def _around(told: str, text: str, width: int = 80) -> str:
    words = text.casefold().split()
    at = told.casefold().find(words[0]) if words else 0
    return first_line(told[max(0, at - width // 4) :][: 4 * width], width)


def _resolve(id: str, known: dict[str, SessionInfo]) -> str:
    from refold.errors import UnknownName

    if id in known:
        return id
    matching = [other for other in known if other.startswith(id)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise click.UsageError(f"{len(matching)} sessions begin with {clean(id)}: give more of the id")
    raise UnknownName("session", id)


# ── showing ─────────────────────────────────────────────────────────────────────────────────────


def _row(info: SessionInfo, hit: tuple[int, str] | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": info.id,
        "name": info.name,
        "cwd": info.cwd,
        "created": info.created,
        "updated": info.updated,
        "entries": info.entries,
        "bytes": info.bytes,
    }
    return row if hit is None else {**row, "matches": hit[0], "text": hit[1]}


def _print(rows: list[dict[str, Any]], total: int) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        click.echo("no sessions")
        return
    out = console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("session", "changed", "entries", "size", "name", "folder"):
        table.add_column(heading, justify="right" if heading in ("entries", "size") else "left")
    for row in rows:
        changed = datetime.fromtimestamp(row["updated"]).strftime("%Y-%m-%d %H:%M")
        cells = (row["id"], changed, f"{row['entries']:,}", _size(row["bytes"]), row["name"], row["cwd"])
        table.add_row(*(Text(first_line(cell or "", 60)) for cell in cells))
        if "text" in row:
            table.add_row(
                "", Text(f"{row['matches']} ×", style="dim"), "", "", Text(row["text"], style="dim")
            )
    out.print(table)
    if total > len(rows):
        out.print(Text(f"… and {total - len(rows)} more; --limit shows them", style="dim"))


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count = count // 1000 if unit == "B" else round(count / 1000)
    return f"{count} GB"
