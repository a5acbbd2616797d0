"""What workers do: read a file, and fold what one of its compactions had in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from refold import tokens
from refold.batch import Batch, Ending, Executor, Job, Kept
from refold.batch.kept import digest
from refold.compare.measures import readable
from refold.discover.session import Found, Lost, look, lost, views
from refold.session import Session
from refold.transcripts.importing import Outcome, conversations

SMALLEST = 1_500
"""Tokens: the least that a view is made of."""


class File(msgspec.Struct, kw_only=True):
    """What a file held."""

    file: str
    bytes: int
    found: list[Found] = []
    problem: str = ""
    """Why nothing of it, or not all, could be read."""
    state: str = "read"
    """`read`, `in part`, `foreign` (no transcript) or `unreadable`."""


class Asked(NamedTuple):
    """A compaction to do again."""

    file: Path
    session: str
    fold: str


class Folded(msgspec.Struct, frozen=True):
    """What refold makes of the view that a compaction began with, in as many tokens as were left after it."""

    tokens: int
    requests: int
    lost: dict[str, Lost]


@cache
def counter() -> Any:
    return tokens.get("o200k")


def read(path: Path) -> Any:
    """A file as JSON. Whatever is in it, there is an answer."""
    told = File(file=str(path), bytes=0)
    try:
        told.bytes = path.stat().st_size
        broken = 0
        for number, one in enumerate(conversations(path, named=False)):
            if isinstance(one, Outcome):
                told.state = "foreign" if one.state == "skipped" else "unreadable"
                told.problem = one.text
                continue
            broken += sum(bool(problem.raw) for problem in one.loaded.problems)
            found = look(one.session, counter(), file=str(path), format=one.format)
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


def fold(asked: Asked) -> Any:
    """`Folded` as JSON; None where it cannot be done in so few tokens, or the file is another one by now."""
    for one in conversations(asked.file):
        session = None if isinstance(one, Outcome) else one.session
        if session is None or session.id != asked.session:
            continue
        for real, before, after in views(session):
            if real.id == asked.fold:
                budget = sum(counter().message(message) for _, message in after)
                messages = [message for _, message in before]
                return msgspec.to_builtins(_folded(messages, max(budget, SMALLEST)))
    return None


def _folded(messages: Sequence[Any], budget: int) -> Folded | None:
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
    return Folded(view.tokens, 0, lost(list(messages), readable(view.messages)))


def reading(files: Sequence[Path], on: Executor, kept: Kept | None) -> Iterator[Ending]:
    """Every file, as they come; one that was read before and has the same size and time is not read again."""
    jobs = (Job(path, file_key(path)) for path in files)
    return Batch(read).run(jobs, on, kept)


def folding(asked: Sequence[Asked], on: Executor, kept: Kept | None) -> Iterator[Ending]:
    jobs = (Job(one, file_key(one.file, one.session, one.fold)) for one in asked)
    return Batch(fold, ordered=True).run(jobs, on, kept)


def file_key(path: Path, *more: str) -> str | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return digest(str(path), state.st_size, state.st_mtime_ns, *more)
