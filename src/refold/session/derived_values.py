"""Values derived from a session, cached beside it.

They are never part of the log; after reopening they are computed on first use. A value lives as long as the
session and its owner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class DerivedValues:
    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def of(self, owner: Any, make: Callable[[], T]) -> T:
        """The value of `owner` (a class, or an object that lives as long as needed), made on first use."""
        made = self._made.get(owner)
        if made is None:
            made = self._made[owner] = make()
        return made
