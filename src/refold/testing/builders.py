"""Conversations for tests: short to write, easy to read."""

from __future__ import annotations

from collections.abc import Iterable

from refold import messages as m
from refold.session.items import Item


def items(messages: Iterable[m.Message]) -> list[Item]:
    """Items of a view without folds; entry ids are `e0`, `e1` …"""
    return [Item(message, (f"e{i}",)) for i, message in enumerate(messages)]


def turn(ask: str, *steps: tuple[str, str, str], answer: str = "Done.") -> list[m.Message]:
    """A user turn: what was asked, tool steps as (call id, tool, output), and the answer."""
    found: list[m.Message] = [m.user(ask)]
    for id, name, output in steps:
        found += [m.assistant("", m.call(id, name, path=f"{id}.py")), m.result(id, output, name=name)]
    return [*found, m.assistant(answer)]


def conversation(turns: int, *, steps: int = 2, size: int = 80) -> list[m.Message]:
    """A well-formed coding conversation of `turns` turns, the same every time."""
    found: list[m.Message] = []
    for t in range(turns):
        calls = [
            (f"call_{t}_{s}", ("Read", "Bash", "Edit")[s % 3], f"line {t}.{s}\n" * (size // 9 + 1))
            for s in range(steps)
        ]
        found += turn(f"Please do step {t}: fix src/module_{t}.py", *calls, answer=f"Step {t} is done.")
    return found
