"""Message lists of the providers, as files: repaired, so that a provider takes them as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold.format import dump_hostile
from refold.session import Item
from refold.session.dialects import Dialect
from refold.session.invariants import repair_by


def write(items: Sequence[Item], dialect: Dialect) -> bytes:
    rendered: Any = dialect.render(repair_by(dialect.rules, items))
    return _file({dialect.field: rendered} if isinstance(rendered, list) else rendered)


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
