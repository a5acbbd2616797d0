"""What folds note for later, as values: one per design, and the report of the verification.

In the log these are plain objects (`Fold.details`, `Fold.check`), which also hold what importers and hooks
put there. Nothing else reads or writes them by key.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec

from refold import entries as e


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


class RefoldDetails(Details, frozen=True):
    calibration: CalibrationNote | None = None
    words_left_out: list[str] = []
    """Entries whose typed words are not all in the record (R8), the newest of them."""
    words_left_out_before: int = 0
    """How many there are before these."""


class AugmentDetails(Details, frozen=True):
    is_history_summary: bool = False
    by_hand: bool = False
    """Asked for explicitly."""


class LayeredDetails(Details, frozen=True):
    archive: bool = False
    notice: str = ""
    """What the user is told."""
    shrunk_through: str = ""
    """The last entry up to which tool results were looked at (E3)."""


class Line(msgspec.Struct, frozen=True, array_like=True):
    """What stands in for the rounds `start` … `end`, and the stretch of entries it replaces."""

    first: str
    last: str
    start: int
    end: int
    text: str


class RoundsDetails(Details, frozen=True):
    lines: list[Line] = []
    cache_reset: str = ""
    """Why what stood before the end of the view changed."""


class Check(msgspec.Struct, frozen=True):
    """Report of the verification of a summary (R5)."""

    verified: bool
    claims: int
    unverified: list[str] = []
    """Claims without support in the sources."""

    @classmethod
    def of(cls, fold: e.Fold) -> Check | None:
        """None where the design does not check its summaries."""
        try:
            return msgspec.convert(fold.check, cls)
        except msgspec.ValidationError:
            return None

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)
