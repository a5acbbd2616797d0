"""What is kept beside a session: everything that others derived from it, and would have to read it again for.

Never part of the log: after reopening it is made anew by whoever asks first. It goes with the session, and
with the one it was made for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class Followers:
    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def of(self, owner: Any, make: Callable[[], T]) -> T:
        """What was made for `owner` (a class, or an object that lives as long as it is wanted); made when
        first asked for."""
        made = self._made.get(owner)
        if made is None:
            made = self._made[owner] = make()
        return made
