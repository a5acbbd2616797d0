"""Small conversations of tool calls."""

from __future__ import annotations

from typing import Any, TypeAlias

from refold import messages as m
from refold.facts.state import WorkState
from refold.messages import Message

Step: TypeAlias = tuple[str, dict[str, Any], str] | tuple[str, dict[str, Any], str, bool]
"""Name, arguments, result, failed."""


def conversation(*steps: Step, first: int = 0) -> list[Message]:
    """A call and its result for each step; `first` keeps ids apart where conversations are joined."""
    path: list[Message] = []
    for index, (name, arguments, result, *failed) in enumerate(steps, first):
        path.append(m.assistant("", m.call(f"c{index}", name, arguments)))
        path.append(m.result(f"c{index}", result, is_error=bool(failed)))
    return path


def done(*steps: Step, cwd: str = "") -> WorkState:
    return WorkState(cwd).extend(conversation(*steps))


def ran(command: str, result: str = "", failed: bool = False, cwd: str = "") -> WorkState:
    return done(bash(command, result, failed), cwd=cwd)


def bash(command: str, result: str = "", failed: bool = False) -> Step:
    return ("bash", {"command": command}, result, True) if failed else ("bash", {"command": command}, result)
