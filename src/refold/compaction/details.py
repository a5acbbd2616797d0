"""What a fold writes down: notes of its design for later, the report of its verification, and the loss
ledger: what it takes out of the view, messages and files, and how to get it back.

In the log, notes and report are plain objects (`Fold.details`, `Fold.check`), which also hold what importers
and hooks put there. Nothing else reads or writes them by key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated, Any, Self, cast

import msgspec

from refold import entries as e
from refold.facts.tools import actions
from refold.messages import Call, Message, Result, compact_json
from refold.protocols import TokenCounter
from refold.session.edits import Position, active_folds, edit_stretches, said_by
from refold.session.history import History
from refold.session.items import Item


class Details(msgspec.Struct, frozen=True, omit_defaults=True):
    """Common to the notes of all designs. What was not noted, or is no such note, has its default."""

    @classmethod
    def of(cls, fold: e.Fold) -> Self:
        try:
            return msgspec.convert(fold.details, cls)
        except msgspec.ValidationError:  # an importer's or a hook's: they name things as they like
            return cls()

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)


class FoldDetails(Details, frozen=True):
    """What every fold notes, whatever its design."""

    reads_left: list[str] = []
    """Files whose text left the view, the most recently read last (R18)."""


class CalibrationNote(msgspec.Struct, frozen=True):
    """What a provider counts for what we count, as a line (R12)."""

    counter: str
    model: str
    line: Annotated[list[float], msgspec.Meta(min_length=3, max_length=3)]
    """Scale, fixed part, number of points."""


class LineSource(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The entries that some lines of a record come from."""

    first: int
    last: int
    """Lines, counted from 0."""
    ids: list[str]
    through: bool = False
    """All entries from the first to the last of them."""


class RefoldDetails(Details, frozen=True):
    calibration: CalibrationNote | None = None
    words_left_out: list[str] = []
    """Entries whose typed words are not all in the record (R8), the newest of them."""
    words_left_out_before: int = 0
    """How many there are before these."""
    sources: list[LineSource] | None = None
    """Which entries the lines of the record come from; None in folds of releases that did not note it."""


def words_left_out(path: Iterable[e.Entry]) -> int:
    """How many of the user's messages are not all there in what the newest fold on a path shows."""
    folds = active_folds(path)
    noted = RefoldDetails.of(folds[-1]) if folds else RefoldDetails()
    return len(noted.words_left_out) + noted.words_left_out_before


class AugmentDetails(Details, frozen=True):
    is_history_summary: bool = False


class LayeredDetails(Details, frozen=True):
    archive: bool = False
    notice: str = ""
    """What the user is told."""
    shrunk_through: str = ""
    """The last entry up to which tool results were looked at (E3)."""


class RoundsLine(msgspec.Struct, frozen=True, array_like=True):
    """What stands in for the rounds `start` … `end`, and the stretch of entries it replaces."""

    first: str
    last: str
    start: int
    end: int
    text: str


class RoundsDetails(Details, frozen=True):
    lines: list[RoundsLine] = []
    cache_reset: str = ""
    """Why what stood before the end of the view changed."""


class VerificationReport(msgspec.Struct, frozen=True):
    """Report of the verification of a summary (R5)."""

    verified: bool
    claims: int
    unverified: list[str] = []
    """Claims without support in the sources."""

    @classmethod
    def of(cls, fold: e.Fold) -> VerificationReport | None:
        """None where the design does not check its summaries."""
        try:
            return msgspec.convert(fold.check, cls)
        except msgspec.ValidationError:
            return None

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)


# ── the ledger ──────────────────────────────────────────────────────────────────────────────────


STRETCHES = 256
"""So many are written down; where there are more, neighbours become one."""


def left(
    session: History, before: Sequence[Item], after: Sequence[Item], counter: TokenCounter
) -> tuple[e.Left, ...]:
    """The stretches of entries that were shown verbatim before and are not any more."""
    stays = {item.entries[0] for item in after if item.fold is None}
    shown = (item for item in before if item.fold is None)
    runs = [list(run) for left, run in groupby(shown, lambda x: x.entries[0] not in stays) if left]
    step = -(-len(runs) // STRETCHES) or 1
    found: list[e.Left] = []
    for at in range(0, len(runs), step):
        run = [item for each in runs[at : at + step] for item in each]
        size = sum(session.cached_count(item.entries[0], item.message, counter) for item in run)
        found.append(e.Left(run[0].entries[0], run[-1].entries[0], len(run), size))
    return tuple(found)


def rows(session: History, fold: e.Fold, counter: TokenCounter) -> tuple[e.Lost, ...]:
    """One row for every entry that a fold took out of the view, read from the log."""
    if fold.ledger or not fold.left:
        return fold.ledger
    path = session.path_to(fold.parent)
    place = {entry.id: position for position, entry in enumerate(path)}
    taken, gone = _covered([fold], place.get), _covered(active_folds(path), place.get)
    found: list[e.Lost] = []
    for one in fold.left:
        stretch = path[place.get(one.first, 0) : place.get(one.last, -1) + 1]
        own = [entry for entry in stretch if place[entry.id] in taken and said_by(entry) is not None]
        news = [entry for entry in own if place[entry.id] not in gone]
        # A design may show what another's fold hides; then those entries left the view by this one.
        chosen = news if len(news) == one.entries else own
        found += [_row(session, entry.id, cast("Message", said_by(entry)), counter) for entry in chosen]
    return tuple(found)


def _covered(folds: Iterable[e.Fold], position: Position) -> set[int]:
    return {at for one in edit_stretches(folds, position) for at in range(one.first, one.last + 1)}


def _row(session: History, id: str, message: Message, counter: TokenCounter) -> e.Lost:
    body = compact_json(msgspec.to_builtins(message)).encode("utf-8", "surrogatepass")
    return e.Lost(
        id=id,
        kind=message.role,
        size=session.cached_count(id, message, counter),
        hash=hashlib.blake2b(body, digest_size=8).hexdigest(),
        key=e.key(id),
    )


# ── freshness (R18): a file whose text left the view has to be read again ───────────────────────

READS = 2_000
"""So many files are noted as no longer in view, the most recently read."""


def reads_left(before: Sequence[Item], after: Sequence[Item]) -> tuple[str, ...]:
    """Files whose text was in the view and is not any more, the most recently read last. A tool that
    answers "unchanged since you read it" must forget about these."""
    shown = set(_reads(after))
    newest_first = dict.fromkeys(path for path in reversed(_reads(before)) if path not in shown)
    return tuple(reversed(newest_first))[-READS:]


def _reads(items: Sequence[Item]) -> list[str]:
    """Files read in these items, by calls whose results are shown whole and were no failure."""
    calls: dict[str, Call] = {}
    paths: list[str] = []
    for item in items:
        calls.update((call.id, call) for call in item.message.calls)
        result = item.message
        if not isinstance(result, Result) or item.fold is not None or result.is_error:
            continue
        if not result.text.strip() or "\x00" in result.text:  # nothing to bring back
            continue
        call = calls.get(result.call_id)
        paths += [action.path for action in actions(call) if action.verb == "view"] if call else []
    return paths
