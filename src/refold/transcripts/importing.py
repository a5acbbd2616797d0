"""Imports many transcripts into a store, each once, and only what is new.

Every file is compared with the store's session of its id: an equal one is left alone, a transcript that grew
(or an interrupted import) gets the rest, and a different one becomes a session of its own. So repeated
imports are cheap and safe.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple, cast

import msgspec

from refold import format as stored
from refold.entries import AnyEntry, Fold, Info, MessageEntry, PathEntry
from refold.errors import FormatError, RefoldError
from refold.protocols import Loaded, SessionInfo, Store
from refold.session import Session
from refold.session.forget import hole
from refold.transcripts import read_all
from refold.transcripts.base import problem_sentences
from refold.transcripts.embedded_fold import ORIGIN

_ENDINGS = (".jsonl", ".json", ".traj")
ENDINGS = (*_ENDINGS, *(f"{ending}.gz" for ending in _ENDINGS), "opencode.db")
_BATCH = 2_000

ImportState = Literal["imported", "grown", "unchanged", "skipped", "failed"]


class ImportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one conversation."""

    file: str
    state: ImportState
    id: str | None = None
    format: str | None = None
    entries: int = 0
    added: int = 0
    problems: int = 0
    text: str = ""


def find_transcripts(paths: Iterable[str | os.PathLike[str]]) -> list[tuple[Path, bool]]:
    """The files to read, and whether each was given by name or found in a folder. In folders, pipes and
    devices are skipped; a broken link is reported as unreadable."""
    found: dict[Path, bool] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            found[path] = True
            continue
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = Path(folder, name)
                if name.lower().endswith(ENDINGS) and (file.is_file() or not file.exists()):
                    found.setdefault(file, False)
    return list(found.items())


class ReadConversation(NamedTuple):
    """One conversation of a file."""

    format: str
    loaded: Loaded
    session: Session


def conversations(
    path: Path, *, named: bool = True, format: str | None = None
) -> Iterator[ReadConversation | ImportOutcome]:
    """All conversations of a file, or the result if there is nothing to import. A file in a folder that is
    not a transcript is skipped, not failed."""
    there = False
    try:
        for kind, loaded in read_all(path, format=format):
            if not any(entry.on_path for entry in loaded.entries):
                yield ImportOutcome(file=str(path), state="skipped", format=kind, text="no messages in it")
                continue
            session = Session.of(loaded)  # a log that is no tree is refused before anything is written
            there = True
            yield ReadConversation(kind, loaded, session)
    except FormatError as error:
        yield ImportOutcome(file=str(path), state="failed" if named or there else "skipped", text=str(error))
    except RefoldError as error:
        yield ImportOutcome(file=str(path), state="failed", text=str(error))


class ImportJob(NamedTuple):
    """A file to read, given by name (`named`) or found in a folder."""

    file: Path
    named: bool
    format: str | None = None


class Parcel(NamedTuple):
    """A conversation for transfer between processes, with its entries as they are stored. (Pickled values are
    written differently, because defaults are recognised by identity.)"""

    format: str
    info: SessionInfo
    lines: list[bytes]
    problems: int
    text: str
    """Description of the problems."""
    origin: str = ""
    """The session it was exported from, if any."""


def read_for_import(asked: ImportJob) -> list[Parcel | ImportOutcome]:
    """The work of a worker; `Importer.put` does the rest."""
    found: list[Parcel | ImportOutcome] = []
    for one in conversations(asked.file, named=asked.named, format=asked.format):
        if isinstance(one, ImportOutcome):
            found.append(one)
            continue
        loaded = one.loaded
        info = loaded.info or SessionInfo(id=asked.file.stem)
        infos = (entry.meta for entry in loaded.entries if isinstance(entry, Info))
        origin = next((meta[ORIGIN] for meta in infos if ORIGIN in meta), "")
        lines = list(map(stored.encode, loaded.entries))
        text = "; ".join(problem_sentences(loaded.problems))
        found.append(Parcel(one.format, info, lines, len(loaded.problems), text, origin))
    return found


class Importer:
    """Imports files into one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known = {info.id: info.entries for info in store.sessions()}

    def put(self, path: Path, found: Iterable[Parcel | ImportOutcome]) -> Iterator[ImportOutcome]:
        taken: set[str] = set()
        for one in found:
            try:
                yield one if isinstance(one, ImportOutcome) else self._conversation(path, one, taken)
            except RefoldError as error:
                yield ImportOutcome(file=str(path), state="failed", text=str(error))
                return

    def has(self, outcome: ImportOutcome) -> bool:
        """True if what was imported then is still there."""
        return outcome.id is None or self._known.get(outcome.id, -1) >= outcome.entries

    def _conversation(self, path: Path, parcel: Parcel, taken: set[str]) -> ImportOutcome:
        id = parcel.info.id
        wanted = id if id not in taken else f"{id}-{len(taken)}"
        taken.add(wanted)
        id, state, added = self._put(wanted, parcel)
        return ImportOutcome(
            file=str(path),
            state=state,
            id=id,
            format=parcel.format,
            entries=len(parcel.lines),
            added=added,
            problems=parcel.problems,
            text=parcel.text,
        )

    def _put(self, id: str, parcel: Parcel) -> tuple[str, ImportState, int]:
        lines = parcel.lines
        if parcel.origin in self._known and (came_back := self._continued(parcel)) is not None:
            return came_back
        for candidate in (id, f"{id}~{_digest(lines)}"):
            if candidate not in self._known:
                self.store.create(msgspec.structs.replace(parcel.info, id=candidate))
                self._known[candidate] = len(lines)
                append_all(self.store, candidate, map(stored.decode, lines))
                return candidate, "imported", len(lines)
            there = self.store.load(candidate).entries
            if (rest := _rest(there, lines)) is not None:
                append_all(self.store, candidate, rest, _tip(there))
                self._known[candidate] = len(there) + len(rest)
                return candidate, "grown" if rest else "unchanged", len(rest)
        raise FormatError(f"session {id} is in the store with other content, twice: give it another id")

    def _continued(self, parcel: Parcel) -> tuple[str, ImportState, int] | None:
        """Appends what another program added to an exported session. None if it does not continue that
        session."""
        there = self.store.load(parcel.origin).entries
        known = {entry.id for entry in there}
        entries = [entry for line in parcel.lines if isinstance(entry := stored.decode(line), PathEntry)]
        told = next((at for at, entry in enumerate(entries) if entry.id not in known), len(entries))
        places = {*known, *(entry.id for entry in entries)}
        if not told or any(x.id in known or x.parent not in places for x in entries[told:]):
            return None
        rest = entries[told:]
        if not any(isinstance(entry, MessageEntry | Fold) for entry in rest):
            return parcel.origin, "unchanged", 0
        append_all(self.store, parcel.origin, cast("list[AnyEntry]", rest), _tip(there))
        self._known[parcel.origin] += len(rest)
        return parcel.origin, "grown", len(rest)


def _rest(there: Sequence[AnyEntry], lines: Sequence[bytes]) -> list[AnyEntry] | None:
    """What a transcript has beyond the store; None if the store has another conversation. Annotations may
    differ, and what was forgotten since stays forgotten."""
    told = {entry.id: entry for entry in map(stored.decode, lines)}
    encoded = dict(zip(told, lines, strict=True))
    said = [entry for entry in there if isinstance(entry, PathEntry)]
    other = [entry for entry in said if encoded.get(entry.id, line := stored.encode(entry)) != line]
    altered = [entry for entry in other if not _is_forgotten(entry, told[entry.id])]
    if altered and (len(altered) == len(other) or any(isinstance(x, MessageEntry) for x in altered)):
        return None  # forgetting a message takes folds and notes apart, too, but no other message
    known = {entry.id for entry in there}
    rest = [entry for id, entry in told.items() if id not in known]
    goes_on = any(isinstance(entry, PathEntry) for entry in rest)
    return None if goes_on and any(entry.id not in told for entry in said) else rest


def _is_forgotten(entry: AnyEntry, told: AnyEntry) -> bool:
    """Is an entry of the store what forgetting leaves of the one that the transcript tells?"""
    return isinstance(told, MessageEntry) and stored.encode(hole(told)) == stored.encode(entry)


def append_all(store: Store, id: str, entries: Iterable[AnyEntry], tip: str | None = None) -> None:
    rest = iter(entries)
    while batch := list(islice(rest, _BATCH)):
        store.append(id, batch, after=tip)
        tip = _tip(batch) or tip


def _tip(entries: Sequence[AnyEntry]) -> str | None:
    return next((entry.id for entry in reversed(entries) if entry.moves), None)


def _digest(lines: Iterable[bytes]) -> str:
    total = hashlib.blake2b(digest_size=4)
    for line in lines:
        total.update(line + b"\n")
    return total.hexdigest()
