"""Values of foreign files, which may be anything: each is read through a function that gives a harmless one
where the file holds something else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from refold.session.dialects import common
from refold.transcripts.base import seconds


def as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def as_name(value: object) -> str | None:
    """A non-empty string, or None."""
    return value if isinstance(value, str) and value else None


def string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_list(value: object) -> bool:
    return isinstance(value, list)


def first(value: object) -> dict[str, Any]:
    return as_object(next(iter(as_list(value)), None))


def as_count(value: object) -> int:
    return common.as_count(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def time_of(raw: Mapping[str, Any]) -> float:
    return seconds(raw.get("timestamp"))


def without(record: Mapping[str, Any], used: frozenset[str]) -> dict[str, Any]:
    """What a record says beyond the keys that were understood."""
    return {key: value for key, value in record.items() if key not in used}
