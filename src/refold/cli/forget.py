"""`refold forget`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import cast

import click
from msgspec.structs import asdict

from refold.cli.chat_history import forget_prompts
from refold.cli.options import json_option, own_argument
from refold.cli.output import echo, emit, first_line, say_next
from refold.cli.session_argument import own_session
from refold.entries import Fold
from refold.messages import Message, argument_text
from refold.protocols import Placed
from refold.session import Session
from refold.session.edits import said_by
from refold.session.forget import Forgotten, forget, quotes
from refold.text.plural import counted
from refold.text.redact import redact


@click.command("forget")
@own_argument
@click.argument("entries", metavar="KEY…", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(file: str, entries: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete the content of entries for good: a secret that was read, a file that was pasted.

    KEY is a recall key, an entry id, a label or a number on the path (#12). A placeholder
    with the same id stays. Folds, lines and notes that contain the content lose it too; prompts of
    `refold chat` that repeat a line of it are deleted. This cannot be undone.
    """
    session = own_session(file)
    found = forget(session, entries, dry_run=True)
    quoting, remains, prompts = quotes(session, found.entries), _remains(session), 0
    if not as_json:
        _tell(session, found)
        for path in remains:
            echo(f"{path} has damaged lines and stays: delete it if it may contain it")
    done = not dry_run
    if done and not yes:
        if as_json:
            raise click.UsageError("--json cannot ask for confirmation; add --yes, or --dry-run to preview")
        done = click.confirm("Delete this for good?", default=False, err=True)
    if done:
        forget(session, found.entries)
        prompts = forget_prompts(quoting)
    if as_json:
        emit({"forgotten": done, **asdict(found), "prompts": prompts, "remains": remains})
    elif done:
        echo(f"deleted the content of {counted(len(found.entries), 'entry')}")
        if prompts:
            echo(f"deleted {counted(prompts, 'prompt')} that repeated it from the history of `refold chat`")
        say_next(f"show {quote(file)} --tree")
    elif not dry_run:
        raise SystemExit(1)


def _remains(session: Session) -> list[str]:
    """Files of damaged lines, which `refold sessions doctor` moved out of the store."""
    if not isinstance(session.store, Placed):
        return []
    path = Path(str(session.store.path))
    beside = path.glob("*.bad") if path.is_dir() else (Path(f"{each}.bad") for each in {path, path.resolve()})
    return sorted(str(each) for each in beside if each.exists())


def _calls(message: Message) -> str:
    return ", ".join(f"{call.name} {argument_text(call)}" for call in message.calls)


def _tell(session: Session, found: Forgotten) -> None:
    for id in found.entries:
        message = said_by(session[id])
        text = redact(message.text or _calls(message))[0] if message else ""
        echo(f"{id}  {message.role if message else session[id].__class__.__name__}  {first_line(text)}")
    if found.folds:
        contain = "contains" if len(found.folds) == 1 else "contain"
        echo(f"{counted(len(found.folds), 'fold')} that {contain} it will be undone:")
        for id in found.folds:
            fold = cast("Fold", session[id])
            sizes = f"{fold.tokens_before:,} → {fold.tokens_after:,} tokens"
            echo(f"  {id}  {redact(first_line(f'{fold.preset}, strategy {fold.strategy}'))[0]}: {sizes}")
    if found.quoting:
        echo(f"also removed from {len(found.quoting):,} more: {', '.join(found.quoting)}")
    if found.also:
        contain = "contains part of it and stays" if len(found.also) == 1 else "contain part of it and stay"
        echo(f"{counted(len(found.also), 'other message')} {contain}: {', '.join(found.also)}")
