"""Token counters of plug-ins: a result that is not a token count raises an error of refold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refold.errors import PluginGuard, WrongType, expect
from refold.messages import Message
from refold.protocols import TokenCounter

_LARGEST = 2**53


class Checked:
    """A counter whose results are validated. (NaN compares false with every budget: everything would fit.)"""

    def __init__(self, counter: TokenCounter) -> None:
        with PluginGuard("the counter"):
            if not isinstance(counter, TokenCounter):
                raise WrongType(
                    f"expected a token counter, got {type(counter).__name__}: "
                    "pass a name, or an object with name, text, message and tools"
                )
            self._counter = counter
            self.name = counter.name
            expect(self.name, str, "the name of a counter must be a string")
            self.exact = bool(getattr(counter, "exact", False))

    def text(self, text: str) -> int:
        return self._number(self._counter.text, text)

    def message(self, message: Message) -> int:
        return self._number(self._counter.message, message)

    def tools(self, tools: Sequence[Any]) -> int:
        return self._number(self._counter.tools, tools)

    def _number(self, count: Callable[[Any], object], what: object) -> int:
        with PluginGuard(f"the counter {self.name!r}"):
            number = count(what)
        if type(number) is not int or not 0 <= number < _LARGEST:
            raise WrongType(
                f"the counter {self.name!r} returned {number!r}: it must return a whole number of tokens"
            )
        return number
