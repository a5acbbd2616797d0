"""Patterns that are compiled when they are first used: large ones cost milliseconds each, and most runs of a
command never need most of them."""

from __future__ import annotations

import re
from typing import Any, cast

_METHODS = ("search", "match", "fullmatch", "sub", "split", "findall", "finditer")


class _Lazy:
    """Stands for a pattern. The first use compiles it and puts its methods here: later ones are direct."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`, later."""
    return cast("re.Pattern[str]", _Lazy(pattern, flags))
