"""Tables that the code reads: plain TOML, each line with its source."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def data_table(name: str) -> dict[str, Any]:
    """The table `name`.toml that came with this release."""
    import tomllib  # with much of the standard library: not needed to start with
    from importlib.resources import files

    return tomllib.loads(files(__package__ or "refold.data").joinpath(f"{name}.toml").read_text("utf-8"))
