"""Tables that the code reads: plain TOML, each line with its source."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def table(name: str) -> dict[str, Any]:
    """The table `name`.toml that came with this release."""
    return tomllib.loads(files(__package__ or "refold.data").joinpath(f"{name}.toml").read_text("utf-8"))
