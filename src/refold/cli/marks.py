"""`refold undo`, `redo`, `pin` and `unpin`: marks on the folds and the entries of a session."""

from __future__ import annotations

from typing import Literal

import click

from refold.cli.opening import own_session
from refold.cli.options import file_argument, json_option
from refold.cli.output import answer


@click.command("undo")
@file_argument
@click.argument("fold", required=False)
@json_option
def undo(file: str, fold: str | None, as_json: bool) -> None:
    """Take a fold back: the view is as if it had not happened. The log keeps both.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the newest active one by default.
    """
    _mark_fold("undo", file, fold, as_json)


@click.command("redo")
@file_argument
@click.argument("fold", required=False)
@json_option
def redo(file: str, fold: str | None, as_json: bool) -> None:
    """Bring an undone fold back.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the one undone last by default.
    """
    _mark_fold("redo", file, fold, as_json)


@click.command("pin")
@file_argument
@click.argument("entry")
@json_option
def pin(file: str, entry: str, as_json: bool) -> None:
    """Keep an entry verbatim in every later fold.

    ENTRY is an entry id or a recall key.
    """
    _mark_entry("pin", file, entry, as_json)


@click.command("unpin")
@file_argument
@click.argument("entry")
@json_option
def unpin(file: str, entry: str, as_json: bool) -> None:
    """Take a pin away; the entry may be folded again.

    ENTRY is an entry id or a recall key.
    """
    _mark_entry("unpin", file, entry, as_json)


def _mark_fold(deed: Literal["undo", "redo"], file: str, fold: str | None, as_json: bool) -> None:
    from refold.engine import Engine

    session, engine = own_session(file), Engine()
    mark = engine.undo(session, fold) if deed == "undo" else engine.redo(session, fold)
    tokens = engine.view(session).tokens
    told = f"{deed[:2]}did fold {mark.fold}; the view has {tokens} tokens now"
    answer({deed: mark.fold, "entry": mark.id, "tokens": tokens}, told, as_json)


def _mark_entry(deed: Literal["pin", "unpin"], file: str, entry: str, as_json: bool) -> None:
    from refold.engine import Engine

    session, engine = own_session(file), Engine()
    mark = engine.pin(session, entry) if deed == "pin" else engine.unpin(session, entry)
    told = f"{deed}ned {mark.target}; {len(session.pins)} pinned now"
    answer({deed: mark.target, "pins": session.pins}, told, as_json)
