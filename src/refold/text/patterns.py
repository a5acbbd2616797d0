"""Regular expressions that are compiled at their first use: compiling takes longer than loading the modules
they stand in, and most conversations never need most of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "pattern", "flags")


class LazyPattern:
    """Stands for a `re.Pattern`, and has its methods once one of them was used."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self._given: tuple[Any, int] = source, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._given)
        self.__dict__.update({method: getattr(compiled, method) for method in _METHODS})
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later. A mistake in the expression shows at the first use."""
    return cast("re.Pattern[AnyStr]", LazyPattern(source, flags))
