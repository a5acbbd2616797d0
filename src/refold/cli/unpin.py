"""`refold unpin`."""

from __future__ import annotations

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("unpin")
@file_argument
@click.argument("entry")
@json_option
def command(file: str, entry: str, as_json: bool) -> None:
    """Take a pin away; the entry may be folded again.

    ENTRY is an entry id or a recall key.
    """
    from refold.engine import Engine

    session = own_session(file)
    mark = Engine().unpin(session, entry)
    if as_json:
        emit({"unpin": mark.target, "pins": session.pins})
    else:
        say(f"unpinned {mark.target}; {len(session.pins)} pinned now")
