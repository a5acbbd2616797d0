"""Where the tokens of a conversation go, and what could be saved. Pure: a session in, a value out.

Everything on the active path is counted in its original form; `view` is what the model sees.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from refold import entries as e
from refold import messages as m
from refold.compaction.details import words_left_out
from refold.facts.shell import operands, parse
from refold.facts.tools import actions, shown_by
from refold.protocols import TokenCounter
from refold.session import Projection, Session
from refold.session.edits import said_by
from refold.session.toolnames import MANY_PATHS, PATHS, canonical_tool_name, command_line, kind
from refold.session.wire_size import WireOverhead
from refold.text.plural import counted
from refold.text.truncate import one_line

TOP = 10


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


def stats(session: Session, counter: TokenCounter, *, top: int = TOP) -> Stats:
    """All statistics. `top` limits the lists of largest results and repeated reads."""
    book = PathCounter(session, counter)
    tools, files = _largest(book.tools.values()), _largest(book.files.values())
    projection = Projection(session)
    added = WireOverhead.of(projection, counter).total
    found = Stats(
        tokens=sum(book.roles.values()),
        view=projection.size(counter) + added,
        added=added,
        counter=counter.name,
        messages=book.messages,
        by_role=dict((+book.roles).most_common()),
        by_part=dict((+book.parts).most_common()),
        by_tool={tool.name: tool.tokens for tool in tools},
        by_file={file.path: file.tokens for file in files},
        tools=tools,
        files=files,
        turns=tuple(book.turns),
        largest=_largest(book.results)[: max(top, TOP)],
        repeated=_largest(book.repeats()),
        usage=book.spent(),
        words_left_out=words_left_out(session.path),
    )
    return msgspec.structs.replace(
        found, suggestions=suggest(found), largest=found.largest[:top], repeated=found.repeated[:top]
    )


Sized = TypeVar("Sized", ToolUsage, FileUsage, LargeResult, RepeatedRead)


def _largest(rows: Iterable[Sized]) -> tuple[Sized, ...]:
    return tuple(sorted(rows, key=lambda row: -row.tokens))


class _Call(msgspec.Struct):
    """A call whose result may still come."""

    call: m.Call
    paths: tuple[str, ...]
    reading: str
    """What it reads, if it only reads files: equal texts mean the same part of the same files."""
    tokens: int


class PathCounter:
    """The path of a session, counted entry by entry."""

    def __init__(self, session: Session, counter: TokenCounter) -> None:
        self.session = session
        self.counter = counter
        self.messages = 0
        self.roles: Counter[str] = Counter()
        self.parts: Counter[str] = Counter()
        self.turns: list[TurnUsage] = []
        self.results: list[LargeResult] = []
        self.usages: list[m.Usage] = []
        self._open: dict[str, _Call] = {}
        self.tools: dict[str, ToolUsage] = {}
        self.files: dict[str, FileUsage] = {}
        self._readings: dict[str, tuple[_Call, RepeatedRead]] = {}
        """Readings of files since their last change."""
        self._done: list[RepeatedRead] = []
        self._opened = ""
        for entry in session.path:
            self._take(entry)

    def _take(self, entry: e.AnyPathEntry) -> None:
        message = said_by(entry)
        if message is None:
            return
        size = self.session.cached_count(entry.id, message, self.counter)
        role = message.role if isinstance(entry, e.MessageEntry) else entry.__struct_config__.tag
        self.messages += 1
        self.roles[str(role)] += size
        self._turn(entry, message, size)
        calls = 0
        if isinstance(message, m.Assistant):
            calls = sum(self._call(call) for call in message.calls)
        if isinstance(message, m.Result):
            self._result(entry.id, message, size)
            self.parts["results"] += size
            return
        thought = sum(self.counter.text(part.text) for part in message.parts if isinstance(part, m.Thinking))
        self.parts["calls"] += min(calls, size)
        self.parts["thinking"] += min(thought, max(size - calls, 0))
        self.parts["text"] += max(size - calls - thought, 0)

    def _turn(self, entry: e.AnyPathEntry, message: m.Message, size: int) -> None:
        starts = isinstance(entry, e.MessageEntry) and isinstance(message, m.User)
        if starts or not self.turns:
            number = self.turns[-1].turn + 1 if self.turns else int(starts)
            total = self.turns[-1].total if self.turns else 0
            self.turns.append(TurnUsage(number, entry.id, one_line(message.text, 120), total=total))
        turn = self.turns[-1]
        turn.messages += 1
        turn.calls += len(message.calls)
        turn.tokens += size
        turn.results += size if isinstance(message, m.Result) else 0
        turn.total += size
        if isinstance(entry, e.MessageEntry) and entry.usage is not None:
            self.usages.append(entry.usage)
            turn.prompt = entry.usage.prompt

    def _tool(self, name: str) -> ToolUsage:
        return self.tools.setdefault(name, ToolUsage(name))

    def _call(self, call: m.Call) -> int:
        size = self.counter.text(call.name) + self.counter.text(m.arguments_json(call))
        tool = self._tool(call.name)
        tool.calls += 1
        tool.call_tokens += size
        done = actions(call, self._opened)
        if done and canonical_tool_name(call.name) in ("open", "create"):
            self._opened = done[-1].path  # SWE-agent's editor: later edits name no file
        paths = tuple(dict.fromkeys(action.path for action in done))
        changed = {action.path for action in done if action.verb != "view"}
        for path in paths:
            file = self._touch(path, size // len(paths))
            file.reads += path not in changed
            file.changes += path in changed
        folder = self.session.info.cwd or ""
        shown = shown_by(call)
        if shown == "bash":  # a command may change what it names
            line = command_line(call)
            read = {path for made, _ in self._readings.values() for path in made.paths}
            changed.update(path for path in read if posixpath.basename(path) in line)
        if changed:
            self._forget({posixpath.join(folder, path) for path in changed}, folder)
        reading = "" if changed or shown != "read" else reading_of(call, paths, folder)
        self._open[call.id] = _Call(call, paths, reading, size)
        return size

    def _touch(self, path: str, tokens: int) -> FileUsage:
        file = self.files.setdefault(path, FileUsage(path))
        file.tokens += tokens
        return file

    def _forget(self, changed: set[str], folder: str) -> None:
        for key, (made, reading) in list(self._readings.items()):
            if any(posixpath.join(folder, path) in changed for path in made.paths):
                self._done.append(reading)
                del self._readings[key]

    def _result(self, entry_id: str, message: m.Result, size: int) -> None:
        made = self._open.pop(message.call_id, None)
        name = made.call.name if made else message.name or "?"
        tool = self._tool(name)
        tool.errors += message.is_error
        tool.result_tokens += size
        subject = subject_of(made.call, made.paths) if made else ""
        self.results.append(LargeResult(entry_id, name, subject, self.turns[-1].turn, size))
        if made is None:
            return
        for path in made.paths:
            self._touch(path, size // len(made.paths))
        if made.reading and not message.is_error:
            self._read(entry_id, made, size)

    def _read(self, entry_id: str, made: _Call, size: int) -> None:
        _, reading = self._readings.setdefault(made.reading, (made, RepeatedRead(", ".join(made.paths[:3]))))
        reading.times += 1
        reading.entries = (*reading.entries, entry_id)
        if reading.times > 1:
            reading.tokens += size + made.tokens

    def repeats(self) -> Iterable[RepeatedRead]:
        every = (*self._done, *(reading for _, reading in self._readings.values()))
        return (reading for reading in every if reading.times > 1)

    def spent(self) -> UsageTotals | None:
        if not self.usages:
            return None
        names = ("input", "output", "cache_read", "cache_write")
        return UsageTotals(
            len(self.usages), *(sum(getattr(one, name) for one in self.usages) for name in names)
        )


def reading_of(call: m.Call, paths: Sequence[str], folder: str) -> str:
    """Which part of which files a call reads; empty if none. Whole files are the same with any tool."""
    if not paths:
        return ""
    whole = "\n".join(posixpath.join(folder, path) for path in paths)
    if kind(call.name) != "bash":
        alone = set(call.arguments) <= {*PATHS, *MANY_PATHS}
        return whole if alone else f"{call.name}\0{m.arguments_json(call)}"
    line = command_line(call)
    commands = [simple for simple in parse(line).commands if simple.program != "cd"]
    plain = len(commands) == 1 and commands[0].program == "cat"
    return whole if plain and len(operands(commands[0].words)) == len(commands[0].words) - 1 else line


def subject_of(call: m.Call, paths: Sequence[str]) -> str:
    """The subject of a call: its command, or its files."""
    if kind(call.name) == "bash":
        return one_line(command_line(call), 120)
    return ", ".join(paths[:3])


# ── suggestions: one rule per habit that costs tokens ──────────────────────────────────────────────

MIN_SAVED_SHARE = 0.03
"""Minimum share of all tokens for a suggestion."""


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
            f"{counted(len(big), 'tool result')} {'holds' if len(big) == 1 else 'hold'} "
            f"{_percent(tokens, stats.tokens)} of all tokens; "
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


SAVING_RULES: tuple[Callable[[Stats], Iterator[Suggestion]], ...] = (
    repeated_reads,
    large_results,
    old_results,
    failing_tools,
    long_system,
    cold_cache,
)
