"""Regular expressions that are compiled at first use: compiling takes longer than loading their modules, and
most conversations need few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern", "flags")


class LazyPattern:
    """A `re.Pattern` that is compiled when one of its methods is called."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._given: tuple[Any, int] = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, deferred; a mistake in the expression shows at first use."""
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))
