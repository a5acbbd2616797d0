"""Old names of things that were renamed: they work for one release, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def renamed(module: str, new_name: Callable[[str], Any], **names: str) -> Callable[[str], Any]:
    """A module's `__getattr__` for old names; `new_name` looks a new one up:
    `__getattr__ = renamed(__name__, globals().__getitem__, Old="New")`."""

    def lookup(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = names[name]
        warnings.warn(f"{module}.{name} is now called {new}", DeprecationWarning, stacklevel=2)
        return new_name(new)

    return lookup


def renamed_field(old: str, new: str) -> Any:
    """A property for the old name of a field."""

    def value(self: object) -> Any:
        warnings.warn(f"`{old}` is now called `{new}`", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(value)
