"""Counters that somebody else wrote: what they say is a number of tokens, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refold.errors import PluginGuard, WrongType, expect
from refold.messages import Message
from refold.protocols import TokenCounter

_LARGEST = 2**53


class Checked:
    """A counter whose answers are looked at. A NaN is smaller than no budget and larger than none: with it,
    everything would fit."""

    def __init__(self, counter: TokenCounter) -> None:
        with PluginGuard("the counter"):
            if not isinstance(counter, TokenCounter):
                raise WrongType(
                    f"a {type(counter).__name__} is no counter: pass a name, or name, text, message, tools"
                )
            self._counter = counter
            self.name = counter.name
            expect(self.name, str, "a counter is named by a text")
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
                f"the counter {self.name!r} said {number!r}: it must say a whole number of tokens"
            )
        return number
