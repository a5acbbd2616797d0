"""`refold undo`."""

from __future__ import annotations

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("undo")
@file_argument
@click.argument("fold", required=False)
@json_option
def command(file: str, fold: str | None, as_json: bool) -> None:
    """Take a fold back: the view is as if it had not happened. The log keeps both.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the newest active one by default.
    """
    from refold.engine import Engine

    session = own_session(file)
    engine = Engine()
    mark = engine.undo(session, fold)
    view = engine.view(session)
    if as_json:
        emit({"undo": mark.fold, "entry": mark.id, "tokens": view.tokens})
    else:
        say(f"undid fold {mark.fold}; the view has {view.tokens} tokens now")
