"""Jobs of workers: read a file, and fold again the view before one of its compactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from refold import tokens
from refold.batch import Batch, Ending, Executor, Job, StoredResults
from refold.batch.results import short_digest
from refold.compare.measures import readable_text
from refold.discover.session import LostCount, SessionFindings, examine_session, lost, views
from refold.messages import Message
from refold.session import Session
from refold.transcripts.importing import ImportOutcome, conversations

MIN_VIEW_TOKENS = 1_500
"""Tokens: smallest view that is folded to."""


class ScannedFile(msgspec.Struct, kw_only=True):
    """Contents of a file."""

    file: str
    bytes: int
    found: list[SessionFindings] = []
    problem: str = ""
    """Why it was not read, or not completely."""
    state: str = "read"
    """`read`, `in part`, `foreign` (not a transcript) or `unreadable`."""


class FoldJob(NamedTuple):
    """A compaction to repeat with refold."""

    file: Path
    session: str
    fold: str


class RefoldedView(msgspec.Struct, frozen=True):
    """refold's fold of the view before a compaction, in as many tokens as were left after it."""

    lost: dict[str, LostCount]


@cache
def token_counter() -> Any:
    return tokens.get("o200k")


def read_session_file(path: Path) -> Any:
    """Read a file into JSON; never raises for its content."""
    told = ScannedFile(file=str(path), bytes=0)
    try:
        told.bytes = path.stat().st_size
        broken = 0
        for number, one in enumerate(conversations(path, named=False)):
            if isinstance(one, ImportOutcome):
                told.state = "foreign" if one.state == "skipped" else "unreadable"
                told.problem = one.text
                continue
            broken += sum(bool(problem.raw) for problem in one.loaded.problems)
            found = examine_session(one.session, token_counter(), file=str(path), format=one.format)
            found.place = f"{path}#{number}"
            told.found.append(found)
        if len(told.found) == 1:
            told.found[0].place = told.found[0].place.removesuffix("#0")
        if told.found and (broken or told.problem):
            told.state = "in part"
            told.problem = told.problem or f"{broken} line(s) are damaged or half-written"
    except OSError as error:
        told.state, told.problem = "unreadable", error.strerror or str(error)
    return msgspec.to_builtins(told)


def fold_again(asked: FoldJob) -> Any:
    """`RefoldedView` as JSON; None if so few tokens are impossible or the file has changed."""
    for one in conversations(asked.file):
        session = None if isinstance(one, ImportOutcome) else one.session
        if session is None or session.id != asked.session:
            continue
        for real, before, after in views(session):
            if real.id == asked.fold:
                budget = sum(map(token_counter().message, after))
                return msgspec.to_builtins(_folded(before, max(budget, MIN_VIEW_TOKENS)))
    return None


def _folded(messages: list[Message], budget: int) -> RefoldedView | None:
    from refold import loop
    from refold.compare.replay import one_pass
    from refold.registry.engine import Engine
    from refold.registry.models import preset

    session = Session()
    for message in messages:
        session.append(message)
    engine = Engine(preset("refold", {}, budget=budget))
    loop.run(one_pass(engine, session))
    view = engine.view(session)
    if view.tokens > budget:
        return None
    return RefoldedView(lost(messages, readable_text(view.messages)))


def scan_files(files: Sequence[Path], on: Executor, kept: StoredResults | None) -> Iterator[Ending]:
    """All files, as they complete; a file that was read before is skipped if size and time are unchanged."""
    jobs = (Job(path, scan_key(path)) for path in files)
    return Batch(read_session_file).run(jobs, on, kept)


def folding(asked: Sequence[FoldJob], on: Executor, kept: StoredResults | None) -> Iterator[Ending]:
    jobs = (Job(one, scan_key(one.file, one.session, one.fold)) for one in asked)
    return Batch(fold_again, ordered=True).run(jobs, on, kept)


def scan_key(path: Path, *more: str) -> str | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return short_digest(str(path), state.st_size, state.st_mtime_ns, *more)
