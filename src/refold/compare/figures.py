"""Where the tokens of a conversation go, and suggestions: one rule per habit that costs tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec


class ToolUsage(msgspec.Struct):
    """All calls of one tool and the size of their results."""

    name: str
    calls: int = 0
    errors: int = 0
    call_tokens: int = 0
    result_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.call_tokens + self.result_tokens


class FileUsage(msgspec.Struct):
    """All calls on one file. A call on several files is divided among them."""

    path: str
    tokens: int = 0
    reads: int = 0
    changes: int = 0


class TurnUsage(msgspec.Struct):
    """A user message and everything up to the next one; turn 0 precedes the first."""

    turn: int
    entry_id: str
    text: str
    messages: int = 0
    calls: int = 0
    tokens: int = 0
    results: int = 0
    """Tokens of tool results."""
    total: int = 0
    """Size of the path up to the end of the turn."""
    prompt: int | None = None
    """Size of the turn's last prompt as the provider counted it."""


class LargeResult(msgspec.Struct, frozen=True):
    entry_id: str
    tool: str
    subject: str
    turn: int
    tokens: int


class RepeatedRead(msgspec.Struct):
    """A file that was read again in the same way although it had not changed."""

    path: str
    times: int = 0
    tokens: int = 0
    """Tokens of the repetitions, without the first reading."""
    entries: tuple[str, ...] = ()


class UsageTotals(msgspec.Struct, frozen=True):
    """Sum of the usage that the provider reported on the path."""

    requests: int
    input: int
    output: int
    cache_read: int
    cache_write: int


class Suggestion(msgspec.Struct, frozen=True):
    code: str
    text: str
    tokens: int
    """Upper bound of the saving."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    view: int
    """What the model sees, as it is sent."""
    added: int
    """The part of it that replaces missing results."""
    counter: str
    messages: int
    by_role: dict[str, int]
    by_part: dict[str, int]
    by_tool: dict[str, int]
    by_file: dict[str, int]
    tools: tuple[ToolUsage, ...]
    files: tuple[FileUsage, ...]
    turns: tuple[TurnUsage, ...]
    largest: tuple[LargeResult, ...]
    repeated: tuple[RepeatedRead, ...]
    usage: UsageTotals | None
    words_left_out: int = 0
    """Typed messages that the newest fold does not show in full."""
    suggestions: tuple[Suggestion, ...] = ()


MIN_SAVED_SHARE = 0.03
"""Minimum share of all tokens for a suggestion."""

SavingRule: TypeAlias = Callable[[Stats], Iterator[Suggestion]]


def suggest(stats: Stats) -> tuple[Suggestion, ...]:
    """Worthwhile suggestions, most valuable first."""
    every = (suggestion for rule in SAVING_RULES for suggestion in rule(stats))
    worth = (x for x in every if x.tokens >= MIN_SAVED_SHARE * max(stats.tokens, 1))
    return tuple(sorted(worth, key=lambda x: -x.tokens))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.0f} %"


def repeated_reads(stats: Stats) -> Iterator[Suggestion]:
    tokens = sum(repeat.tokens for repeat in stats.repeated)
    if tokens:
        times = sum(repeat.times - 1 for repeat in stats.repeated)
        yield Suggestion(
            "repeated-reads",
            f"files were read again {times:,} times although they had not changed; "
            "fold the older copies, or let the agent recall them",
            tokens,
        )


def large_results(stats: Stats) -> Iterator[Suggestion]:
    big = [result for result in stats.largest[:10] if result.tokens >= 2_000]
    tokens = sum(result.tokens for result in big)
    if big:
        yield Suggestion(
            "large-results",
            f"{len(big):,} tool results hold {_percent(tokens, stats.tokens)} of all tokens; "
            "limit what tools print (head, offset and limit, quieter flags)",
            tokens,
        )


def old_results(stats: Stats) -> Iterator[Suggestion]:
    """Results of old turns that are still in view."""
    if len(stats.turns) < 6 or stats.view < stats.tokens // 2:
        return
    old = sum(turn.results for turn in stats.turns[:-3])
    if old > stats.tokens // 5:
        yield Suggestion(
            "old-results",
            f"tool results older than three turns are {_percent(old, stats.tokens)} of all tokens; "
            "`refold plan FILE` shows what folding them saves",
            old,
        )


def failing_tools(stats: Stats) -> Iterator[Suggestion]:
    for tool in stats.tools:
        if tool.errors >= 5 and tool.errors * 3 >= tool.calls:
            yield Suggestion(
                "failing-tool",
                f"{tool.name} failed {tool.errors:,} of {tool.calls:,} times: "
                "its description may be misleading",
                tool.tokens * tool.errors // max(tool.calls, 1),
            )


def long_system(stats: Stats) -> Iterator[Suggestion]:
    tokens = stats.by_role.get("system", 0)
    if tokens > 3_000:
        yield Suggestion(
            "long-system-prompt",
            f"the system prompt has {tokens:,} tokens and is sent with every request",
            tokens,
        )


def cold_cache(stats: Stats) -> Iterator[Suggestion]:
    used = stats.usage
    if used is None or used.requests < 5:
        return
    prompt = used.input + used.cache_read + used.cache_write
    if prompt and used.cache_read < prompt // 2:
        yield Suggestion(
            "cold-cache",
            f"only {_percent(used.cache_read, prompt)} of the prompts came from the cache: "
            "keep the beginning of the context unchanged between requests",
            used.input,
        )


SAVING_RULES: tuple[SavingRule, ...] = (
    repeated_reads,
    large_results,
    old_results,
    failing_tools,
    long_system,
    cold_cache,
)
