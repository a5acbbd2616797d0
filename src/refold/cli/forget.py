"""`refold forget`."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from refold.cli.opening import own_session
from refold.cli.options import json_option, own_argument
from refold.cli.output import emit, first_line, say, say_next

if TYPE_CHECKING:
    from refold.session import Session
    from refold.session.forget import Forgotten


@click.command("forget")
@own_argument
@click.argument("entries", metavar="KEY…", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(file: str, entries: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take the content of entries out of the log for good: a secret that was read, a file that was pasted.

    KEY is a recall key, an entry id, a label or a number on the path (#12). A marked hole stays, with the
    same id and place. Folds, lines and notes that hold the content lose it too. This cannot be undone.
    """
    from refold.session.forget import forget

    session = own_session(file)
    found = forget(session, entries, dry_run=True)
    if not as_json:
        _tell(session, found)
    done = not dry_run
    if done and not yes:
        if as_json:
            raise click.UsageError("--json does not ask: add --yes, or --dry-run to look")
        done = click.confirm("Forget this for good?", default=False, err=True)
    if done:
        forget(session, found.entries)
    if as_json:
        emit({"forgotten": done, **asdict(found)})
    elif done:
        say(f"forgot {len(found.entries)} entries")
        say_next(f"show {quote(file)} --tree")
    elif not dry_run:
        raise SystemExit(1)


def _tell(session: Session, found: Forgotten) -> None:
    from refold.session.edits import said_by
    from refold.text.redact import redact

    for id in found.entries:
        message = said_by(session[id])
        text = redact(message.text)[0] if message else ""
        say(f"{id}  {message.role if message else session[id].__class__.__name__}  {first_line(text)}")
    if found.folds:
        say(f"{len(found.folds)} fold(s) hold it; what they replaced shows again: {', '.join(found.folds)}")
    if found.quoting:
        say(f"it is taken out of {len(found.quoting)} more: {', '.join(found.quoting)}")
    if found.also:
        say(f"{len(found.also)} other message(s) say a part of it and stay: {', '.join(found.also)}")
