"""The table of `benchmarks.scale` in docs/scale.md."""

from __future__ import annotations

from typing import Any

from benchmarks.cells import markdown

STORES = ("16 partitions", "one table", "SQLite")
FEW = 20
"""Of fewer times, percentiles say nothing."""
NAMES = {
    "append": "`append`, one message",
    "append of 50": "`append`, fifty at once",
    "refresh": "`refresh`, one new entry",
    "recall, a rare word": "recall in all sessions, a word of one entry",
    "recall, words said together": "recall in all sessions, three words said together",
    "recall, common words": "recall in all sessions, two of the most common words",
    "a session by the beginning of its id": "a session by the beginning of its id",
    "the list of all sessions": "the list of all sessions",
}


def measured(size: dict[str, Any]) -> str:
    """p50 / p99 of each operation, by store."""
    stores = [name for name in STORES if name in size["ms"]["append"]]
    rows = [
        [title, *(_three(size["ms"][what].get(name)) for name in stores)] for what, title in NAMES.items()
    ]
    heads = [name if name == "SQLite" else f"PostgreSQL, {name}" for name in stores]
    return markdown([f"{size['entries']:,} entries, ms: p50 / p99", *heads], rows)


def _three(times: dict[str, float] | None) -> str:
    if times is None:
        return ""
    if times["n"] < FEW:
        return f"{_ms(times['p50'])}, at most {_ms(times['max'])} ({times['n']:.0f} times)"
    return " / ".join(_ms(times[mark]) for mark in ("p50", "p99"))


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"
