"""What a record is made of: rows of text, each with the entries that it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    text: str
    """One line or several."""
    entries: Sequence[int] = ()
    """Numbers of the entries that it comes from."""
    through: bool = False
    """It stands for all entries from the first to the last of them."""


def joined(rows: Iterable[Row]) -> str:
    return "\n".join(row.text for row in rows)
