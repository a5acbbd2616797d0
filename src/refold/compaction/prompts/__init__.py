"""Prompts are files beside this one. `fill` puts values into their `{{slots}}` in one pass, so that text
which happens to contain a slot stays as it is."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_SLOT = re.compile(r"\{\{(\w+)\}\}")


@cache
def load(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()


def fill(template: str, **values: str) -> str:
    return _SLOT.sub(lambda slot: values.get(slot[1], ""), template)


def prompt(name: str, **values: str) -> str:
    return fill(load(name), **values)


def focus_line(wish: str | None) -> str:
    """What the user wants a summary to look at, as a line of a prompt."""
    return f"\nPay special attention to: {wish}" if wish else ""
