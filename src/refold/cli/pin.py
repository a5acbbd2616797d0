"""`refold pin`."""

from __future__ import annotations

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("pin")
@file_argument
@click.argument("entry")
@json_option
def command(file: str, entry: str, as_json: bool) -> None:
    """Keep an entry verbatim in every later fold.

    ENTRY is an entry id or a recall key.
    """
    from refold.engine import Engine

    session = own_session(file)
    mark = Engine().pin(session, entry)
    if as_json:
        emit({"pin": mark.target, "pins": session.pins})
    else:
        say(f"pinned {mark.target}; {len(session.pins)} pinned now")
