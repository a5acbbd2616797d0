"""What a compaction of another program is told, and what it is given back: texts that code can write.

    python -m refold.plugins.compaction_texts grow|before TRANSCRIPT SESSION

Takes what is new in the transcript into the user's store, and leaves the texts where the hooks look for them
(`hook.folder`): what a compaction would be told after every turn, all others before a compaction.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path

from refold import tokens
from refold.compaction.path_index import path_index
from refold.compaction.record import QUOTED_NOTE, WORDS, pins_text
from refold.compaction.transcript import message_of
from refold.compare.money import folds_saved
from refold.entries import Fold
from refold.errors import RefoldError
from refold.facts import words
from refold.facts.lines import findings, joined, render
from refold.plugins.hook import texts_folder
from refold.registry.sessions import load, stored
from refold.session import Session
from refold.stores import open_store
from refold.stores.disk import Disk, locked, make_folder, place_file
from refold.text.frames import defuse, frame, quote
from refold.transcripts.importing import Importer, ImportJob
from refold.transcripts.importing import read_for_import as read_file

MAX_HOOK_CHARS = 10_000
"""Maximum characters of one hook's output; beyond it, a program shows a file name instead."""
MAX_INSTRUCTION_CHARS = 4_000
"""Maximum characters of additional instructions for a compaction."""
FINDINGS = 64
"""Most decisions and findings that are told."""
IMPORT_SECONDS = 30.0
"""Seconds that one import of a session waits for another."""


def grow(transcript: Path, name: str) -> Session:
    """The session in the user's store, updated; the transcript itself if the store is not writable."""
    with suppress(RefoldError, OSError), _alone(name):
        store = open_store("sqlite:").store
        for outcome in Importer(store).put(transcript, read_file(ImportJob(transcript, named=True))):
            if outcome.id is not None:
                return stored(store, outcome.id)
    return load(transcript)


@contextmanager
def _alone(name: str) -> Generator[None]:
    make_folder(Disk(), texts_folder(name))
    lock = texts_folder(name) / "lock"
    fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with locked(fd, lock, shared=False, timeout=IMPORT_SECONDS):
            yield
    finally:
        os.close(fd)


def hook_texts(session: Session) -> Iterator[tuple[str, str]]:
    """The text of each hook, empty if there is none; the most urgent first."""
    told, counter, end = path_index(session), tokens.get(), len(session.path)
    sayings = [saying for saying in words.once(told.sayings, end) if saying.id not in session.pins]

    def own(room: int) -> str:
        return words.rendering(sayings, room, counter).text

    def decided(room: int) -> str:
        said = enumerate(map(message_of, session.path))
        return joined(render(findings(said, most=FINDINGS, least=1), room, counter))

    def state(room: int) -> str:
        return joined(told.catalogue.rows(room, counter))

    def lines(room: int) -> str:
        return joined(render(told.lines_before(end), room, counter))

    opened = [f"- {todo.text}" for todo in told.state.open_todos]
    pinned = pins_text(session)
    find = f'Full messages: the tool `recall` of refold with session="refold:{session.id}" and keys=["#12"].'
    yield "before", _within(MAX_INSTRUCTION_CHARS, lambda room: _before(defuse(own(room)), pinned, opened))
    yield "words", _within(MAX_HOOK_CHARS, lambda room: _joined(_titled(WORDS, defuse(own(room))), pinned))
    yield "state", _within(MAX_HOOK_CHARS, lambda room: _framed("state of the work", state(room)))
    yield "lines", _within(MAX_HOOK_CHARS, lambda room: _joined(_framed("what was done", lines(room)), find))
    yield "decisions", _within(MAX_HOOK_CHARS, lambda room: _framed("decisions and findings", decided(room)))


def _within(limit: int, make: Callable[[int], str]) -> str:
    """A text of at most so many characters; empty if none fits."""
    room = limit // 3
    while room > 20:
        text = make(room)
        if len(text) <= limit:
            return text
        room = min(room - 1, room * limit // len(text))
    return ""


def _before(own: str, pinned: str, opened: list[str]) -> str:
    rules = _titled("Keep in the summary what still holds of the user's own words:", own)
    return _joined(rules, pinned, _titled("Not done yet:", quote("\n".join(opened))))


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _titled(title: str, text: str) -> str:
    return f"{title}\n{text}" if text else ""


def _framed(kind: str, text: str) -> str:
    return frame(kind, quote(text), note=QUOTED_NOTE) if text else ""


def status_figures(session: Session) -> dict[str, float]:
    """Figures on a session's compactions for the status line."""
    folds = session.annotations(Fold)
    last = folds[-1] if folds else None
    _, _, money = folds_saved(session)
    return {
        "folds": len(folds),
        "before": last.tokens_before if last else 0,
        "after": last.tokens_after if last else 0,
        "money": money,
    }


def main(event: str, transcript: str, name: str) -> None:
    session = grow(Path(transcript), name)
    make_folder(Disk(), texts_folder(name))
    made = hook_texts(session) if event == "before" else islice(hook_texts(session), 1)
    for part, text in chain(made, [("status", json.dumps(status_figures(session)))]):
        place_file(Disk(), texts_folder(name) / part, text.encode("utf-8", "replace"), replace=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
