"""Token counters.

A counter is a value with a name (`refold.protocols.TokenCounter`). Exact counters use a vocabulary; the
others are the estimates that well-known agents use.

    counter = tokens.get("o200k")
    counter.text("Hello"), counter.message(m.user("Hello")), counter.tools(TOOLS)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from refold.errors import PluginGuard, UnknownName, WrongType, expect
from refold.messages import Message
from refold.protocols import TokenCounter
from refold.tokens.calibrated import Calibration
from refold.tokens.estimate import Bytes4, Chars, Estimate, Len3, Messages, Utf16

__all__ = ["DEFAULT", "Calibration", "checked_counter", "get", "is_exact", "names"]

DEFAULT = "o200k"
_LARGEST = 2**53

_ESTIMATES = {
    "bytes4": Bytes4,
    "utf16/4": Utf16,
    "chars": Chars,
    "messages": Messages,
    "len//3": Len3,
}


def names() -> tuple[str, ...]:
    """All names that `get` accepts."""
    from refold.tokens import exact

    return (*exact.VOCABULARIES, *_ESTIMATES)


@lru_cache(maxsize=64)
def get(name: str = DEFAULT) -> TokenCounter:
    """The counter called `name`. `o200k@anthropic` counts pictures by Anthropic's rule instead of OpenAI's.

    Without the tokenizer library an exact name gives an estimate (UTF-8 bytes / 4) whose `exact` is False and
    whose name says so.
    """
    if name in _ESTIMATES:
        return _ESTIMATES[name]()
    from refold.tokens import exact

    vocabulary, _, pictures = name.partition("@")
    if vocabulary not in exact.VOCABULARIES or pictures not in ("", "openai", "anthropic"):
        raise UnknownName("token counter", name, names())
    return exact.vocabulary_counter(vocabulary, pictures or "openai")


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


def checked_counter(counter: TokenCounter) -> TokenCounter:
    """A counter of refold unchanged; any other wrapped so that it returns token counts or raises."""
    from refold.tokens.exact import Exact

    return counter if isinstance(counter, (Estimate, Exact, Checked)) else Checked(counter)


def is_exact(counter: TokenCounter) -> bool:
    """True if the counter uses a real vocabulary."""
    return bool(getattr(counter, "exact", False))
