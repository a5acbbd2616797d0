"""pi's compactions as folds (B3): the newest on a path shows its summary, then everything from the first
kept entry on, whatever older compactions had folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import msgspec

from refold import entries as e
from refold import messages as m
from refold.session.edits import said_by
from refold.transcripts import patch, pi_write

FRAME = "[The conversation up to here was compacted. Summary:]\n\n<summary>\n{summary}\n</summary>"


def summary_message(summary: str) -> m.User:
    return m.user([m.text(FRAME.format(summary=summary), "summary")])


class Folds:
    """Gives every fold of a sound tree its edit. Parents are settled before children, whatever the order."""

    def __init__(self, entries: Sequence[e.AnyEntry]) -> None:
        self._entries = entries
        self._by_id = {entry.id: cast("e.AnyPathEntry", entry) for entry in entries if entry.on_path}
        self._depth: dict[str, int] = {}
        self._root: dict[str, str] = {}
        self._reach: dict[str, int] = {}
        """How deep, on the path to an entry, the folds above it reach (-1: nothing is folded)."""

    def done(self) -> list[e.AnyEntry]:
        for entry in self._entries:
            if entry.on_path:
                self._settle(entry.id)
        return [self._by_id.get(entry.id, entry) for entry in self._entries]

    def _settle(self, id: str) -> None:
        waiting: list[str] = []
        at: str | None = id
        while at is not None and at not in self._depth:
            waiting.append(at)
            at = self._by_id[at].parent
        for entry_id in reversed(waiting):
            self._place(self._by_id[entry_id])

    def _place(self, entry: e.AnyPathEntry) -> None:
        parent = entry.parent
        self._depth[entry.id] = 0 if parent is None else self._depth[parent] + 1
        self._root[entry.id] = entry.id if parent is None else self._root[parent]
        self._reach[entry.id] = -1 if parent is None else self._reach[parent]
        if isinstance(entry, e.Fold) and entry.author == "import:pi" and not entry.edits:
            self._by_id[entry.id] = self._folded(entry)

    def _folded(self, fold: e.Fold) -> e.AnyPathEntry:
        if fold.parent is None:  # nothing before it to replace: the summary itself is what was said
            return _as_note(fold)
        kept = self._kept(fold)
        start = self._depth[fold.id] - len(kept)
        end = max(start - 1, self._reach[fold.parent], 0)
        shown = [said_by(entry) for entry in kept if self._depth[entry.id] <= end]
        last = next(entry for entry in self._above(fold.parent) if self._depth[entry.id] == end)
        put = (summary_message(fold.summary), *(message for message in shown if message is not None))
        self._reach[fold.id] = end
        return msgspec.structs.replace(
            fold,
            edits=(e.Edit(first=self._root[fold.parent], last=last.id, put=put),),
            first_kept=fold.first_kept if kept else None,
            details=fold.details if kept else _remember(fold),
        )

    def _kept(self, fold: e.Fold) -> list[e.AnyPathEntry]:
        """The entries from the first kept one to the fold; none if that one is not on the way to it."""
        kept: list[e.AnyPathEntry] = []
        floor = self._depth.get(fold.first_kept or "", self._depth[fold.id])
        for entry in self._above(fold.parent):
            if self._depth[entry.id] < floor:
                break
            kept.append(entry)
        return kept[::-1] if kept and kept[-1].id == fold.first_kept else []

    def _above(self, id: str | None) -> Iterator[e.AnyPathEntry]:
        while id is not None:
            yield (entry := self._by_id[id])
            id = entry.parent


def _as_note(fold: e.Fold) -> e.Note:
    said = summary_message(fold.summary).content
    note = e.Note(id=fold.id, time=fold.time, content=said, kind="compaction")
    extra = patch.diff(pi_write.plain_record(note), pi_write.record(fold))
    return msgspec.structs.replace(note, meta={"pi": extra})


def _remember(fold: e.Fold) -> dict[str, object]:
    """Details that write the source's first kept id again although it is not on the path."""
    extra = dict(fold.details.get("pi", {}))
    extra["="] = {**extra.get("=", {}), "firstKeptEntryId": fold.first_kept}
    return {**fold.details, "pi": extra}
