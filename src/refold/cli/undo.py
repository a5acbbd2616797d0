"""`refold undo`, `redo`, `pin` and `unpin`: marks on the folds and the entries of a session."""

from __future__ import annotations

from shlex import quote
from typing import Literal

import click

from refold.cli.options import json_option, own_argument
from refold.cli.output import print_answer
from refold.cli.session_argument import own_session
from refold.registry.engine import Engine


def _of_fold(deed: Literal["undo", "redo"], about: str, which: str) -> click.Command:
    @click.command(
        deed, help=f"{about}\n\nFOLD is the id of a fold (`refold show FILE --tree` lists them); {which}."
    )
    @own_argument
    @click.argument("fold", required=False)
    @json_option
    def command(file: str, fold: str | None, as_json: bool) -> None:
        session, engine = own_session(file), Engine()
        mark = engine.undo(session, fold) if deed == "undo" else engine.redo(session, fold)
        tokens = engine.view(session).tokens
        told = f"{deed[:2]}did fold {mark.fold}; the view now has {tokens:,} tokens"
        back = f"{'redo' if deed == 'undo' else 'undo'} {quote(file)} {mark.fold}"
        print_answer({deed: mark.fold, "entry": mark.id, "tokens": tokens}, told, as_json, next=back)

    return command


def _of_entry(deed: Literal["pin", "unpin"], about: str) -> click.Command:
    @click.command(deed, help=f"{about}\n\nENTRY is an entry id or a recall key.")
    @own_argument
    @click.argument("entry")
    @json_option
    def command(file: str, entry: str, as_json: bool) -> None:
        session, engine = own_session(file), Engine()
        mark = engine.pin(session, entry) if deed == "pin" else engine.unpin(session, entry)
        told = f"{deed}ned {mark.target}; {len(session.pins):,} pinned now"
        print_answer({deed: mark.target, "pins": session.pins}, told, as_json, next=f"plan {quote(file)}")

    return command


_UNDO = "Undo a fold: the view is as it was before. The log keeps both."
undo = _of_fold("undo", _UNDO, "default: the newest active one")
redo = _of_fold("redo", "Redo an undone fold.", "default: the one undone last")
pin = _of_entry("pin", "Keep an entry verbatim in every later fold.")
unpin = _of_entry("unpin", "Remove a pin; the entry may be folded again.")
