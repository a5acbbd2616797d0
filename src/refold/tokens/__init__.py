"""Token counters.

A counter is a value with a name (`refold.protocols.TokenCounter`). Exact counters use a vocabulary; the
others are the estimates that well-known agents use.

    counter = tokens.get("o200k")
    counter.text("Hello"), counter.message(m.user("Hello")), counter.tools(TOOLS)
"""

from __future__ import annotations

from functools import lru_cache

from refold.deprecation import renamed
from refold.errors import UnknownName
from refold.protocols import TokenCounter
from refold.tokens.calibrated import Calibration
from refold.tokens.estimate import Bytes4, Chars, Estimate, Len3, Messages, Utf16
from refold.tokens.thoughts import forgotten

__all__ = ["DEFAULT", "Calibration", "checked_counter", "forgotten", "get", "is_exact", "names"]

DEFAULT = "o200k"

_ESTIMATES = {
    "bytes4": Bytes4,
    "utf16/4": Utf16,
    "chars": Chars,
    "messages": Messages,
    "len//3": Len3,
}
_ALIASES = {
    "exact": "o200k",
    "bytes/4": "bytes4",
    "utf16": "utf16/4",
    "utf16_4": "utf16/4",
    "characters": "chars",
    "len3": "len//3",
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
    name = _ALIASES.get(name, name)
    if name in _ESTIMATES:
        return _ESTIMATES[name]()
    from refold.tokens import exact

    vocabulary, _, pictures = name.partition("@")
    if vocabulary not in exact.VOCABULARIES or pictures not in ("", "openai", "anthropic"):
        raise UnknownName("token counter", name, names())
    return exact.vocabulary_counter(vocabulary, pictures or "openai")


def checked_counter(counter: TokenCounter) -> TokenCounter:
    """A counter of refold unchanged; any other wrapped so that it returns token counts or raises."""
    from refold.tokens.custom_counters import Checked
    from refold.tokens.exact import Exact

    return counter if isinstance(counter, (Estimate, Exact, Checked)) else Checked(counter)


def is_exact(counter: TokenCounter) -> bool:
    """True if the counter uses a real vocabulary."""
    return bool(getattr(counter, "exact", False))


__getattr__ = renamed(__name__, globals().__getitem__, checked="checked_counter")
