"""TodoWrite: the recap only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from refold.messages import Call
from refold.session.dialects.common import listing
from refold.shrink.base import Data, Limits, first, flags, short


def data(call: Call, data: Data, limits: Limits) -> Data:
    recap = first(data, "recap", "summary") or recapped(listing(data.get("todos")) or _given(call), limits)
    return {"recap": recap, **flags(data)}


def plain(call: Call, text: str, limits: Limits) -> str:
    return recapped(_given(call), limits) or short(text, limits)


def _given(call: Call) -> list[Any]:
    return listing(first(call.arguments, "todos", "plan", "items", "tasks"))


def recapped(todos: list[Any], limits: Limits) -> str:
    """`[2/5] In progress: a. Pending: b; c.`"""
    rows: list[Mapping[str, Any]] = [cast("Data", todo) for todo in todos if isinstance(todo, dict)]
    if not rows:
        return ""
    by: dict[str, list[str]] = {}
    for row in rows:
        status = str(row.get("status") or "pending")
        by.setdefault(status, []).append(str(first(row, "content", "step", "text", "title") or ""))
    done = len(by.pop("completed", []))
    rest = " ".join(
        f"{status.replace('_', ' ').capitalize()}: {'; '.join(texts)}." for status, texts in by.items()
    )
    return short(f"[{done}/{len(rows)}] {rest}".strip(), limits)
