"""The headings of each design that a summary without a model stands under, and what is said below each."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from refold.digest.facts import Source
from refold.digest.turn_line import rule_line
from refold.facts import abridged
from refold.facts.call_text import conclusion
from refold.facts.shell import parse
from refold.facts.state import WorkState
from refold.facts.state_text import fails, verdict_text
from refold.facts.tools import actions
from refold.facts.words import demands, typed
from refold.protocols import TokenCounter
from refold.session.toolnames import command_line, kind
from refold.text.dates import in_utc
from refold.text.truncate import one_line

NONE = "(none)"
LINE = 60
"""Tokens of the line of a turn."""
GOAL = 400
"""Characters of a request where it stands as the goal."""
_DENIED = re.compile(
    r"\b(?:not yet|fail(?:s|ed|ing|ures?)?|cannot|can't|could not|couldn't|unable|still)\b|未|失败", re.I
)
"""Words of an answer that withhold the tick. What gives it are calls that ended well."""
_VARIABLE = re.compile(r"(?:^|[;&|]\s{0,8})(?:export\s{1,8})?([A-Z][A-Z0-9_]{1,60})=", re.M)


class Findings:
    """What `facts/` knows of a stretch of a conversation, as rows."""

    def __init__(self, sources: Sequence[Source], state: WorkState, counter: TokenCounter) -> None:
        self.sources, self.state, self.counter = sources, state, counter
        self.words = [text for source in sources if (text := typed(source.message))]
        """What the user typed."""
        turns = abridged.groups(((x.id, x.message) for x in sources), continues=False)
        self.turns = [
            turn for turn in turns if turn.user in self.words or turn.commands or turn.viewed or turn.modified
        ]
        """Where something was asked or done: what programs say in the user's role is no turn."""

    def goal(self) -> list[str]:
        return [one_line(text, GOAL) for text in self.words[:1]]

    def requests(self) -> list[str]:
        return [one_line(text, 1_000) for text in self.words]

    def wishes(self) -> list[str]:
        spans = ((text, span) for text in self.words for span in demands(text))
        return [f"- {one_line(text[slice(*span)], 300)}" for text, span in spans]

    def lines(self, *, over: bool) -> list[str]:
        """A line for each turn that came to its end, or for each that did not."""
        box = "x" if over else " "
        turns = (turn for turn in self.turns if turn.over is over)
        return [f"- [{box}] {rule_line([turn], LINE, self.counter)}" for turn in turns]

    def decisions(self) -> list[str]:
        worked = (turn for turn in self.turns if turn.modified or turn.created or turn.commands)
        return [f"- {told}" for turn in worked if (told := conclusion(turn.response))]

    def blocked(self) -> list[str]:
        """Checks that failed last, and what failed and was not tried again."""
        error = self.state.error
        checks = [f"- {x.command}: {verdict_text(x)}" for x in self.state.checks if fails(x)]
        return [*checks, *([f"- {error.what}: {one_line(error.error, 200)}"] if error else [])]

    def next_steps(self) -> list[str]:
        return [f"{n}. {todo.text}" for n, todo in enumerate(self.state.open_todos, 1)]

    def changed_files(self) -> list[str]:
        files, fates = self.state.files(), ("created", "modified", "deleted")
        return [f"- {path}: {fate}" for fate in fates for path in getattr(files, fate)]

    def for_the_kept_part(self) -> list[str]:
        return [*self.changed_files(), *self.blocked(), *self.next_steps()]

    # ── an archive (E9) ─────────────────────────────────────────────────────────────────────────

    def period(self) -> list[str]:
        return [period(source.time for source in self.sources)]

    def objectives(self) -> list[str]:
        """The original goal, and the turns that did not reach theirs."""
        return [f"Original goal: {''.join(self.goal()) or NONE}", *self.milestones(reached=False)]

    def milestones(self, *, reached: bool = True) -> list[str]:
        """`[✓] task - result`; the tick only where calls ended well and the answer does not deny it."""
        tick = "[✓] " if reached else ""
        return [
            f"- {tick}{one_line(turn.user, 120)} - {one_line(turn.response, 120) or 'interrupted'}"
            for turn in self.turns
            if turn.user.strip()
            and (turn.succeeded and not turn.state and not _DENIED.search(turn.response[:400])) is reached
        ]

    def insights(self) -> list[str]:
        return [*self.wishes(), *self.decisions()]

    def technical(self, place: str) -> list[str]:
        """Stack and environment as far as calls tell: kinds of files, programs, shell, names of variables."""
        calls = [call for source in self.sources for call in source.message.calls]
        runs = [call for call in calls if kind(call.name) == "bash"]
        lines = [command_line(call) for call in runs]
        paths = (action.path for call in calls for action in actions(call))
        endings = Counter(ending for path in paths if (ending := posixpath.splitext(path)[1]))
        programs = Counter(word for line in lines if (word := _program(line)))
        stack = [f"{name} ({n})" for counts in (endings, programs) for name, n in counts.most_common(8)]
        names = dict.fromkeys(name for line in lines for name in _VARIABLE.findall(line[:2_000]))
        return [
            f"Stack: {', '.join(stack) or '(unknown)'}",
            f"Environment: {place}; shell {_listed(dict.fromkeys(call.name for call in runs))}; "
            f"variables {_listed(list(names)[:10])}",
            f"Tools used: {_listed(sorted({call.name for call in calls})[:30])}",
        ]


def period(times: Iterable[float | None]) -> str:
    """From the first to the last of the times at which something was said."""
    known = [time for time in times if time]
    ends = (in_utc(time) for time in (min(known), max(known))) if known else ()
    return " to ".join(end.strftime("%Y-%m-%d %H:%M UTC") for end in ends) or "(times unknown)"


def _program(line: str) -> str:
    """The program that a command line is there for, behind folders and variables."""
    programs = (simple.program for simple in parse(line).commands)
    return one_line(next((name for name in programs if name not in ("", "cd", "export")), ""), 40)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or NONE


# ── headings ────────────────────────────────────────────────────────────────────────────────────


def nothing(_: Findings) -> tuple[str, ...]:
    return ()


class Section(NamedTuple):
    share: float
    """The most that it may take, of the whole."""
    rows: Callable[[Findings], Iterable[str]] = nothing
    newest: bool = False
    """Its end is kept where there is too much: the others keep their beginning."""
    first: int = 0
    """So many of its rows are kept even so, if they fit."""
    under: str = ""
    """The heading above it, where it is one of several."""
    rest: bool = False
    """Behind its rows stands what was said and done, in the room that the other sections leave."""


Template: TypeAlias = Mapping[str, Section]
"""Sections by title. One of them has the rest."""
CONVERSATION: Template = {"Facts": Section(1.0, rest=True)}
"""Where no tools are used."""
DIGEST: Template = {"Goal": Section(0.1, Findings.goal), "Done": Section(1.0, rest=True)}
CHECKPOINT: Template = {
    "Goal": Section(0.1, Findings.goal),
    "Constraints and preferences": Section(0.15, Findings.wishes),
    "Done": Section(0.25, partial(Findings.lines, over=True), newest=True, under="Progress"),
    "In progress": Section(0.08, partial(Findings.lines, over=False), newest=True, under="Progress"),
    "Blocked": Section(0.08, Findings.blocked, under="Progress"),
    "Key decisions": Section(0.1, Findings.decisions, newest=True),
    "Next steps": Section(0.05, Findings.next_steps),
    "Critical context": Section(1.0, rest=True),
}
"""pi's (B11)."""
PREFIX: Template = {
    "Original request": Section(0.2, Findings.requests),
    "Early progress": Section(1.0, rest=True),
    "Needed for the kept part": Section(0.2, Findings.for_the_kept_part, newest=True),
}
"""The beginning of a turn whose later part stays."""


def archive(place: str = "folder (unknown)") -> Template:
    """The layered design's (E9). `place`: operating system and folder."""
    return {
        "Period covered": Section(0.1, Findings.period),
        "Objectives and status": Section(0.125, Findings.objectives, newest=True, first=1),
        "Technical context": Section(0.25, partial(Findings.technical, place=place)),
        "Completed milestones": Section(0.25, Findings.milestones, newest=True),
        "Key insights and decisions": Section(1.0, Findings.insights, rest=True),
        "File-system state": Section(0.125, Findings.changed_files, newest=True),
    }
