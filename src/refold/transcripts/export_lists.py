"""Message lists of the providers, as files: repaired, so that a provider takes them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.format import dump_hostile
from refold.session import Item
from refold.session.dialects import anthropic as anthropic_dialect
from refold.session.dialects import openai_chat, openai_responses
from refold.session.invariants import repair


def openai(items: Sequence[Item]) -> bytes:
    return _file({"messages": openai_chat.render(repair(items, "openai"))})


def responses(items: Sequence[Item]) -> bytes:
    return _file({"input": openai_responses.render(repair(items, "responses"))})


def anthropic(items: Sequence[Item]) -> bytes:
    return _file(anthropic_dialect.render(repair(items, "anthropic")))


def _file(value: dict[str, Any]) -> bytes:
    """One object, its messages a line each: easy to read, to compare and to cut."""
    members: list[str] = []
    for key, member in value.items():
        if isinstance(member, list) and member:
            rows = ",\n  ".join(_json(row) for row in member)  # pyright: ignore[reportUnknownVariableType] JSON
            members.append(f"{_json(key)}: [\n  {rows}\n ]")
        else:
            members.append(f"{_json(key)}: {_json(member)}")
    return ("{" + ",\n ".join(members) + "}\n").encode("utf-8")


def _json(value: Any) -> str:
    return dump_hostile(value)
