"""`refold undo` and `refold redo`."""

from __future__ import annotations

from typing import Literal

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("undo")
@file_argument
@click.argument("fold", required=False)
@json_option
def undo(file: str, fold: str | None, as_json: bool) -> None:
    """Take a fold back: the view is as if it had not happened. The log keeps both.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the newest active one by default.
    """
    _mark("undo", file, fold, as_json)


@click.command("redo")
@file_argument
@click.argument("fold", required=False)
@json_option
def redo(file: str, fold: str | None, as_json: bool) -> None:
    """Bring an undone fold back.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the one undone last by default.
    """
    _mark("redo", file, fold, as_json)


def _mark(deed: Literal["undo", "redo"], file: str, fold: str | None, as_json: bool) -> None:
    from refold.engine import Engine

    session, engine = own_session(file), Engine()
    mark = engine.undo(session, fold) if deed == "undo" else engine.redo(session, fold)
    tokens = engine.view(session).tokens
    if as_json:
        emit({deed: mark.fold, "entry": mark.id, "tokens": tokens})
    else:
        say(f"{deed[:2]}did fold {mark.fold}; the view has {tokens} tokens now")
