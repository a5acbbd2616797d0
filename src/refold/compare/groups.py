"""Cells of one kind over all transcripts: what a table of means is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean
from typing import NamedTuple

from refold.compare.forms import Form
from refold.compare.run import Cell


class Group(NamedTuple):
    """One design at one budget and number of passes, over all transcripts."""

    preset: str
    asked: str
    passes: int
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """The design, with its settings."""
        return self.preset.replace(":", ", ")

    @property
    def good(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.failed]

    @property
    def folded(self) -> list[Cell]:
        """What a design can be judged by: a transcript that was not folded must not speak for one that
        was."""
        return [cell for cell in self.good if not cell.untouched]

    @property
    def fitting(self) -> int:
        return sum(bool(cell.fits) for cell in self.good)

    def mean(self, value: Callable[[Cell], float | None]) -> float | None:
        return _mean(map(value, self.good))

    def kept(self, value: Callable[[Cell], float | None]) -> float | None:
        """The mean over the transcripts that were folded."""
        return _mean(map(value, self.folded))

    def form(self, form: Form) -> float | None:
        return self.kept(lambda cell: cell.share(form))

    @property
    def retention(self) -> float | None:
        """The mean of the user's words, the files, and the messages of which something is left."""
        gone = self.form("gone")
        words, files = self.kept(lambda cell: cell.constraints), self.kept(lambda cell: cell.artifacts)
        return _mean((words, files, None if gone is None else 1 - gone))

    @property
    def cost(self) -> float:
        return sum(cell.cost or 0.0 for cell in self.good)

    @property
    def cost_unfolded(self) -> float:
        return sum(cell.paid.none.dollars for cell in self.good if cell.paid)


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def groups(cells: Iterable[Cell]) -> list[Group]:
    found: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.preset, cell.asked, cell.passes), []).append(cell)
    return [Group(*key, tuple(listed)) for key, listed in found.items()]
