"""Comparison of many transcripts: one job per file, which returns only figures.

A worker reads the file, folds it with every preset, and returns `Compared`: some kilobytes instead of the
folded sessions, so that thousands of transcripts fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from refold import loop, presets
from refold.batch import Batch, Ending, Executor, Job, StoredResults
from refold.batch.results import file_key, release, short_digest
from refold.compare.run import About, Compared, Comparison, ComparisonPlan, blanks, compare, variant
from refold.errors import RefoldError, StorageError, UsageError
from refold.registry import configuration
from refold.registry.sessions import named_session
from refold.session import Session
from refold.stores import is_store
from refold.transcripts.base import problem_sentences
from refold.transcripts.importing import ImportOutcome, conversations, find_transcripts

SessionOrError: TypeAlias = Session | RefoldError | OSError
"""A session, or the reason why there is none."""


def without_sessions(done: Comparison) -> Compared:
    """The comparison without its sessions, as a worker returns it."""
    cells = [msgspec.structs.replace(cell, done=None) for cell in done.cells]
    about = [About(*(getattr(t, name) for name in About.__struct_fields__)) for t in done.transcripts]
    return Compared(tuple(cells), tuple(about), done.unread)


def merge_compared(parts: Iterable[Compared]) -> Compared:
    """Several comparisons as one, in order."""
    listed = list(parts)
    return Compared(
        tuple(cell for part in listed for cell in part.cells),
        tuple(one for part in listed for one in part.transcripts),
        tuple(one for part in listed for one in part.unread),
        tuple(one for part in listed for one in part.notes),
        sum(part.skipped for part in listed),
    )


# ── jobs ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Task:
    """One file, given by name (`named`) or found in a folder."""

    file: str
    named: bool
    plan: ComparisonPlan
    fingerprint: str


def transcript_files(names: Iterable[str]) -> list[tuple[str, bool]]:
    """The files of names and folders without duplicates, and whether each was given by name."""
    found: dict[Path, tuple[str, bool]] = {}
    for name in names:
        if Path(name).is_dir():
            for path, named in find_transcripts([name]):
                found.setdefault(path.resolve(), (str(path), named))
        elif not found.get(Path(name).resolve(), ("", False))[1]:
            found[Path(name).resolve()] = name, True
    return list(found.values())


def jobs(files: Iterable[tuple[str, bool]], plan: ComparisonPlan) -> Iterator[Job]:
    """The jobs, made on demand, because the key of a job is read from its file."""
    asked = fingerprint(plan)
    for file, named in files:
        yield Job(Task(file, named, plan, asked), _key(file, named))


def fingerprint(plan: ComparisonPlan) -> str:
    """Identifies the results of a plan: everything that is set in it, and the release."""
    model = plan.model if isinstance(plan.model, str | None) else plan.model.name
    settings = [_settings(name) for name in plan.presets]
    return short_digest(release(), settings, list(plan.budgets), list(plan.passes), model, plan.prices)


def _settings(name: str) -> list[Any]:
    preset, given = variant(name)
    known = [setting.name for setting in presets.settings_of(preset)]
    return [
        preset,
        sorted({**configuration.load_configuration().preset_settings(preset, known), **given}.items()),
    ]


def _key(file: str, named: bool) -> str | None:
    """The key of a file; sessions of refold, which are read through their store, have none."""
    path = Path(file)
    try:
        if named and not path.is_file():
            path = path.with_name(path.name.rpartition("#")[0] or path.name)
        return None if named and is_store(file) else file_key(path, file, named)
    except (OSError, RefoldError, ValueError):
        return None


def work(task: Task) -> Any:
    """The work of a worker: `Compared` as JSON."""
    if fingerprint(task.plan) != task.fingerprint:
        raise UsageError(
            "this worker runs another release or configuration of refold: install the same one there"
        )
    done = [_one(name, session, task.plan) for name, session in sessions(task.file, task.named)]
    return msgspec.to_builtins(merge_compared(done) if done else Compared(skipped=1))


def sessions(
    file: str, named: bool, open: Callable[[str], Session] = named_session
) -> Iterator[tuple[str, SessionOrError]]:
    """The conversation of a named file, or the reason why there is none; for a file in a folder all
    conversations, none if it is not a transcript."""
    if named:
        try:
            yield file, open(file)
        except (RefoldError, OSError) as error:
            yield file, error
        return
    every = conversations(Path(file), named=False)
    found = [one for one in every if not (isinstance(one, ImportOutcome) and one.state == "skipped")]
    for number, one in enumerate(found):
        name = f"{file}#{number}" if len(found) > 1 else file
        yield name, StorageError(one.text) if isinstance(one, ImportOutcome) else one.session


def _one(file: str, session: SessionOrError, plan: ComparisonPlan) -> Compared:
    notes = [] if isinstance(session, Exception) else problem_sentences(session.problems)
    done = without_sessions(loop.run(compare([(file, session)], plan)))
    return msgspec.structs.replace(done, notes=tuple((file, note) for note in notes))


def endings(
    given: Iterable[Job], plan: ComparisonPlan, on: Executor, kept: StoredResults | None = None
) -> Iterator[Ending]:
    """Each file with its `Compared`, as they finish. Failures of a model are retried by the next run."""

    def keeps(value: Any) -> bool:
        return plan.model is None or not any(
            cell["tokens"] is None or (cell["fits"] and cell["error"]) for cell in value["cells"]
        )

    for ending in Batch(work, keeps=keeps).run(given, on, kept):
        if ending.error is not None:  # there is nothing of the file but a reason
            file = ending.job.argument.file
            cells = tuple(blanks(file, plan, ending.error))
            yield ending._replace(value=Compared(cells, unread=((file, ending.error),)))
        else:
            yield ending._replace(value=msgspec.convert(ending.value, Compared, strict=False))
