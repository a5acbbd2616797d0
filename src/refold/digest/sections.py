"""The parts of a digest: their titles, their shares of the budget, and reading an earlier digest again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from refold.tokens.fitting import largest

Form: TypeAlias = Literal["readable", "dense"]
Name: TypeAlias = Literal["goal", "done", "facts"]

TITLES: dict[Name, str] = {"goal": "Goal", "done": "Done", "facts": "Facts"}
SHARES: dict[Name, float] = {"goal": 0.10, "done": 0.40}
"""The most a section may take of the whole. Facts get the rest."""
_KNOWN: dict[str, Name | None] = {
    "Goal": "goal",
    "Done": "done",
    "Facts": "facts",
    "Decisions": "facts",
    "Constraints": "facts",
    "Pinned": "facts",
    "Trail": "done",
    "History": "done",
    "Identifiers": None,
}
"""Sections by their titles, those of earlier releases too; identifiers are left out."""
_HEADING = re.compile(r"^## (\w+)[ \t]*$", re.M)


class Section(msgspec.Struct, frozen=True):
    name: Name
    text: str
    tokens: int

    def render(self) -> str:
        return f"## {TITLES[self.name]}\n{self.text}"


def parse(text: str) -> dict[Name, str]:
    """The sections of an earlier digest. Text under no known title (of another writer) counts as facts."""
    found: dict[Name, str] = {}
    name: Name | None = "facts"
    start = 0
    for match in _HEADING.finditer(text):
        if match.group(1) not in _KNOWN:
            continue
        _put(found, name, text[start : match.start()])
        name, start = _KNOWN[match.group(1)], match.end()
    _put(found, name, text[start:])
    return found


def _put(found: dict[Name, str], name: Name | None, text: str) -> None:
    if name and (text := text.strip("\n")):
        found[name] = f"{found[name]}\n{text}" if name in found else text


def cut_lines(text: str, budget: int, count: Callable[[str], int], *, newest: bool = False) -> str:
    """As many whole lines as fit: from the start, or, where the newest stand last, from the end."""
    if not text or count(text) <= budget:
        return text
    lines = text.split("\n")
    number = largest(len(lines), lambda some: count(_some(lines, some, newest)) <= budget)
    return _some(lines, number, newest)


def _some(lines: list[str], number: int, newest: bool) -> str:
    return "\n".join(lines[len(lines) - number :] if newest else lines[:number])


def cut_words(text: str, budget: int, count: Callable[[str], int]) -> str:
    """As many whole lines as fit from the start; where not even the first one does, its first words."""
    if budget <= 0:
        return ""
    lines = cut_lines(text, budget, count)
    if lines or not text:
        return lines
    words = text.split("\n", 1)[0].split(" ")[: budget + 1]
    while words and count(" ".join(words)) > budget:
        words = words[: len(words) * 4 // 5]
    return " ".join(words)
