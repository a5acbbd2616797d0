"""One line per action (R11): what was said, each tool with its main argument, the outcome where it matters.

Lines are computed from a message alone, once, and kept beside its entry; `render` joins those of many
entries, newest kept first, and costs what it shows.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from refold.facts.call_text import (
    FINDING,
    command_in_short,
    conclusion,
    main_argument,
    report,
    said,
    weight,
)
from refold.facts.check_results import check_run, summary
from refold.facts.shell import parse, without_folder
from refold.facts.tool_outcome import LOOKS, ToolOutcome, outcome_of, outcome_of_run
from refold.facts.tools import actions
from refold.messages import Assistant, Bash, Call, Message, Result, is_typed, spoken
from refold.protocols import TokenCounter
from refold.session.toolnames import SUB_AGENTS, canonical_tool_name, command_line, kind
from refold.session.toolstatus import is_framing
from refold.text.truncate import in_short, one_line
from refold.tokens.fitting import largest

OUTCOME, REPORTED, REPORT, _SAME, _SHORT = 120, 240, 80, 40, 12
SHOWN_CHARS = 160
"""Characters of a command, or of a list of names, that are shown."""
OTHERS = " and others like it"
"""Where a runner sums up many parts, and one of them is quoted."""
_NOTHING = re.compile(r"\s*(?:No (?:matches|files|results)(?: were)? found\.?|\[\])?\s*")
_SEEN = 2_000
"""Characters at the end of an output among which something was printed, if anything was."""
WEIGHTY = 3
"""How much a finding weighs at least."""
CallOf: TypeAlias = Callable[[str], Call | None]


class Row(NamedTuple):
    """What a record is made of: text, and the entries that it comes from."""

    text: str
    """One line or several."""
    entries: Sequence[int] = ()
    """Numbers of the entries that it comes from."""
    through: bool = False
    """It stands for all entries from the first to the last of them."""


def joined(rows: Iterable[Row]) -> str:
    return "\n".join(row.text for row in rows)


class MessageLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    text: str
    call: str = ""
    """The call it is about; empty for words."""
    outcome: bool = False
    """How that call ended."""


class EntryLines(msgspec.Struct, frozen=True, gc=False):
    """The lines of one entry: its number on the path, which is its key, and that of the request before it."""

    number: int
    turn: int
    lines: tuple[MessageLine, ...]


def lines_of(message: Message, call_of: CallOf, *, cwd: str = "") -> tuple[MessageLine, ...]:
    """The lines of one message. `call_of` finds the call that a result answers; paths below `cwd` are given
    from there."""
    if isinstance(message, Assistant):
        words = said(spoken(message)) if message.calls else conclusion(spoken(message))
        acts = (
            MessageLine(f"{one_line(call.name, 60)} {main_argument(call, cwd)}".rstrip(), call.id)
            for call in message.calls
        )
        return (*((MessageLine(words),) if words else ()), *acts)
    if isinstance(message, Result):
        call = call_of(message.call_id)
        text = _outcome(message, call, cwd) if call else ""
        return (MessageLine(text, message.call_id, outcome=True),) if text else ()
    if isinstance(message, Bash):
        text = _ran(message.command, outcome_of_run(message))
        shown = command_in_short(without_folder(message.command))
        return (MessageLine(f"The user ran {in_short(shown, SHOWN_CHARS)}" + (f" → {text}" if text else "")),)
    return ()


def findings(
    messages: Iterable[tuple[int, Message | None]], most: int = 4, least: int = WEIGHTY
) -> list[EntryLines]:
    """What weighs most of what was said, and at `least` so much, newest first: what was found, and what
    follows from it (R23). Messages come with their numbers."""
    ranked: list[tuple[int, int, Assistant]] = []
    failed = set[str]()
    for number, message in messages:
        if isinstance(message, Result) and outcome_of(message).failed:
            failed.add(message.call_id)
        if isinstance(message, Assistant) and (rank := weight(spoken(message))) >= least:
            ranked.append((rank, number, message))
    heaviest = sorted(ranked, key=lambda found: found[:2])[-most:]
    rows = {
        conclusion(spoken(message), FINDING) + _tried(message, failed): number
        for _, number, message in sorted(heaviest, key=lambda found: found[1])
    }
    return [EntryLines(number, 0, (MessageLine(text),)) for text, number in reversed(rows.items())]


def _tried(message: Assistant, failed: Container[str]) -> str:
    """The edits that came with what was said, but for those that failed: one may have mended what is told."""
    edits = (
        f"{one_line(call.name, 60)} {posixpath.basename(action.path)}"
        for call in message.calls
        for action in actions(call)
        if action.verb != "view" and call.id not in failed
    )
    tried = in_short(", ".join(dict.fromkeys(edits)), REPORT)
    return f" (then {tried})" if tried else ""


def _outcome(result: Result, call: Call, cwd: str) -> str:
    what = kind(call.name)
    ended = outcome_of(result, what)
    if cwd:
        ended = msgspec.structs.replace(ended, error=ended.error.replace(f"{cwd}/", ""))
    if what == "bash":
        return _ran(command_line(call), ended)
    if ended.failed or ended.error:
        return _status(ended, ended.error)
    if what in ("grep", "glob") and _NOTHING.fullmatch(ended.body[:80]):
        return "nothing found"
    if any(is_typed(result, part) for part in result.parts):
        return "answered by the user"  # in words that stand among the user's own
    asked_the_user = call.arguments.keys() & {"question", "questions"}
    if what != "other" or (len(ended.body) < REPORT and not asked_the_user):
        return ""  # a short answer is a receipt
    if canonical_tool_name(call.name) in SUB_AGENTS:
        return conclusion(ended.body, REPORTED)
    # What a page says, unless it begins by repeating what it was asked.
    told, asked = report(ended.body, REPORTED), main_argument(call, cwd)[:_SAME]
    return "" if len(asked) > _SHORT and asked in told else told


def _ran(line: str, ended: ToolOutcome) -> str:
    """What the exit status says, and what a test, build or linter says of itself."""
    parsed = parse(line)
    if ended.exit == 1 and parsed.commands and parsed.commands[-1].program in LOOKS:
        # What looks around ends with 1 where it finds nothing, or a difference: no failure.
        missing = "No such file" in ended.error
        shown = ended.error or any(x.strip() and not is_framing(x) for x in ended.body[-_SEEN:].split("\n"))
        return _status(ended, ended.error) if missing else "" if shown else "nothing found"
    run = check_run(line)
    quote, others = summary(ended.body, failed=ended.failed) if run else ("", False)
    quote += OTHERS * others
    if quote and ended.failed and ended.exit is None:
        quote = f"failed: {quote}"
    if ended.failed or ended.error or quote:
        return _status(ended, quote or ended.error)
    return "exit 0" if run and run.zero_proves and ended.exit == 0 else ""


def _status(ended: ToolOutcome, said: str) -> str:
    """`exit 1: 2 failed, 11 passed`"""
    status = f"exit {ended.exit}" if ended.exit else "failed" if ended.failed and not said else ""
    return in_short(": ".join(filter(None, (status, said))), OUTCOME)


# ── many ────────────────────────────────────────────────────────────────────────────────────────


class _Block(NamedTuple):
    """The rows of an entry."""

    turn: int
    rows: tuple[str, ...]
    number: int


def render(entries: Iterable[EntryLines], budget: int, counter: TokenCounter, *, root: str = "") -> list[Row]:
    """The lines of consecutive entries, which come newest first, in their order, under a heading per turn
    where there are several turns: as many of the newest as fit the budget, in tokens of `counter`. Paths
    below `root` are given from there."""
    short = from_root(root)
    blocks, outcomes, left = list[_Block](), dict[str, str](), budget
    for entry in entries:
        rows = tuple(map(short, rows_of(entry.lines, outcomes)))
        left -= counter.text("\n".join(rows)) + 1 if rows else 0
        if left < 0:
            break
        blocks += [_Block(entry.turn, rows, entry.number)] if rows else []
    fit = largest(len(blocks), lambda count: counter.text(joined(_listed(blocks[:count]))) <= budget)
    return _listed(blocks[:fit])


def from_root(root: str) -> Callable[[str], str]:
    """Gives paths below `root`, which ends with a slash, from there."""
    below = re.compile(rf"(?<![\w./~-]){re.escape(root)}(?=[\w.])")
    return partial(below.sub, "") if root else str


def _listed(blocks: Sequence[_Block]) -> list[Row]:
    """Blocks that come newest first, in their order."""
    several = len({block.turn for block in blocks}) > 1
    listed: list[Row] = []
    turn: int | None = None
    for (said_in, (first, *rest)), same in groupby(reversed(blocks), key=lambda block: block[:2]):
        if several and said_in != turn:
            listed.append(Row(f"Request #{said_in}"))
            turn = said_in
        numbers = [number for _, _, number in same]
        again = f" ×{len(numbers)}" if numbers[1:] else ""
        entries = (numbers[0], numbers[-1])[: len(numbers)]
        text = "\n".join([f"- {first}{again} #{'–'.join(map(str, entries))}", *(f"  {row}" for row in rest)])
        listed.append(Row(text, entries, bool(again)))
    return listed


def rows_of(lines: Sequence[MessageLine], outcomes: dict[str, str]) -> Iterator[str]:
    """The rows of an entry; outcomes are remembered for the call that comes before them."""
    rows: list[str] = []
    for line in lines:
        if line.outcome:
            outcomes[line.call] = line.text
        else:
            ended = outcomes.pop(line.call, "") if line.call else ""
            rows.append(f"{line.text} → {ended}" if ended else line.text)
    for row, same in groupby(rows):
        times = len(list(same))
        yield f"{row} ×{times}" if times > 1 else row
