"""`refold redo`."""

from __future__ import annotations

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("redo")
@file_argument
@click.argument("fold", required=False)
@json_option
def command(file: str, fold: str | None, as_json: bool) -> None:
    """Bring an undone fold back.

    FOLD is the id of a fold (`refold show FILE --tree` lists them); the one undone last by default.
    """
    from refold.engine import Engine

    session = own_session(file)
    engine = Engine()
    mark = engine.redo(session, fold)
    view = engine.view(session)
    if as_json:
        emit({"redo": mark.fold, "entry": mark.id, "tokens": view.tokens})
    else:
        say(f"redid fold {mark.fold}; the view has {view.tokens} tokens now")
