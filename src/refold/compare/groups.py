"""Cells of one kind over all transcripts: what a table of means is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import NamedTuple

from refold.compare.run import Cell


class Group(NamedTuple):
    """One design at one budget and number of passes, over all transcripts."""

    preset: str
    asked: str
    passes: int
    cells: tuple[Cell, ...]

    @property
    def good(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.failed]

    def mean(self, value: Callable[[Cell], float | None]) -> float | None:
        there = [found for cell in self.good if (found := value(cell)) is not None]
        return fmean(there) if there else None

    @property
    def retention(self) -> float | None:
        """The mean of the user's words, the files, and the messages of which something is left, each over the
        transcripts that have it: a transcript that was not folded must not speak for one that was."""
        gone = self.mean(lambda cell: cell.share("gone"))
        shares = (
            self.mean(lambda cell: cell.constraints),
            self.mean(lambda cell: cell.artifacts),
            None if gone is None else 1 - gone,
        )
        there = [share for share in shares if share is not None]
        return fmean(there) if there else None


def groups(cells: Iterable[Cell]) -> list[Group]:
    found: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.preset, cell.asked, cell.passes), []).append(cell)
    return [Group(*key, tuple(listed)) for key, listed in found.items()]
