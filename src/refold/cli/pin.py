"""`refold pin` and `refold unpin`."""

from __future__ import annotations

from typing import Literal

import click

from refold.cli.common import emit, file_argument, json_option, own_session, say


@click.command("pin")
@file_argument
@click.argument("entry")
@json_option
def pin(file: str, entry: str, as_json: bool) -> None:
    """Keep an entry verbatim in every later fold.

    ENTRY is an entry id or a recall key.
    """
    _mark("pin", file, entry, as_json)


@click.command("unpin")
@file_argument
@click.argument("entry")
@json_option
def unpin(file: str, entry: str, as_json: bool) -> None:
    """Take a pin away; the entry may be folded again.

    ENTRY is an entry id or a recall key.
    """
    _mark("unpin", file, entry, as_json)


def _mark(deed: Literal["pin", "unpin"], file: str, entry: str, as_json: bool) -> None:
    from refold.engine import Engine

    session, engine = own_session(file), Engine()
    mark = engine.pin(session, entry) if deed == "pin" else engine.unpin(session, entry)
    if as_json:
        emit({deed: mark.target, "pins": session.pins})
    else:
        say(f"{deed}ned {mark.target}; {len(session.pins)} pinned now")
