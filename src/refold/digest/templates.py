"""What a summary without a model is made of, and the headings of each design that it stands under."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from refold.digest.facts import Source
from refold.digest.turn_line import rule_line
from refold.facts import abridged
from refold.facts.call_text import conclusion
from refold.facts.lines import acts
from refold.facts.shell import parse
from refold.facts.state import WorkState
from refold.facts.tools import actions
from refold.facts.words import demands, typed
from refold.protocols import TokenCounter
from refold.session.toolnames import command_line, kind
from refold.text.dates import in_utc
from refold.text.truncate import one_line
from refold.tokens.fitting import newest_within

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
    """What was asked, said, done, changed and found in a stretch of a conversation, as rows for a text of
    `budget` tokens; each is looked for when it is wanted. `goal`: what an earlier summary states as such."""

    def __init__(
        self, sources: Sequence[Source], goal: Sequence[str], budget: int, counter: TokenCounter
    ) -> None:
        self.sources, self.earlier_goal, self.budget, self.counter = sources, goal, budget, counter

    @cached_property
    def words(self) -> list[str]:
        """What the user typed."""
        return [text for source in self.sources if (text := typed(source.message))]

    @cached_property
    def turns(self) -> tuple[abridged.Group, ...]:
        return abridged.groups(((x.id, x.message) for x in self.sources), continues=False)

    @cached_property
    def state(self) -> WorkState:
        return WorkState().extend(source.message for source in self.sources)

    # ── what was asked ──────────────────────────────────────────────────────────────────────────

    def goal(self) -> list[str]:
        """The first request, where no goal is known yet."""
        return [one_line(text, GOAL) for text in self.words[: not self.earlier_goal]]

    def goal_and_newest(self) -> list[str]:
        return [*self.goal(), *(one_line(text, GOAL) for text in self.words[-1:])]

    def requests(self) -> list[str]:
        return [one_line(text, 1_000) for text in self.words]

    def wishes(self) -> list[str]:
        spans = ((text, span) for text in self.words for span in demands(text))
        return [f"- {one_line(text[slice(*span)], 300)}" for text, span in spans]

    # ── what came of it ─────────────────────────────────────────────────────────────────────────

    def lines(self, *, over: bool) -> list[str]:
        """A line for each turn that came to its end, or for each that did not."""
        box = "x" if over else " "
        turns = (turn for turn in self.turns if turn.over is over)
        return [f"- [{box}] {rule_line([turn], LINE, self.counter)}" for turn in turns]

    def progress(self) -> list[str]:
        """All of it as the line of one turn, and what was called."""
        return [f"- {rule_line(self.turns, LINE, self.counter)}", *self.acts()]

    def blocked(self) -> list[str]:
        error = self.state.error
        return [f"- {error.what}: {one_line(error.error, 200)}"] if error else []

    def decisions(self) -> list[str]:
        worked = (turn for turn in self.turns if turn.modified or turn.created or turn.commands)
        return [f"- {told}" for turn in worked if (told := conclusion(turn.response))]

    def next_steps(self) -> list[str]:
        return [f"{n}. {todo.text}" for n, todo in enumerate(self.state.open_todos, 1)]

    def acts(self, share: float = 0.2) -> list[str]:
        """What was called and how it ended."""
        newest_first = [f"- {row}" for row in acts([source.message for source in self.sources])]
        return self._newest(newest_first[::-1], share)

    # ── an archive (E9) ─────────────────────────────────────────────────────────────────────────

    def period(self) -> list[str]:
        return [period(source.time for source in self.sources)]

    def objectives(self) -> list[str]:
        """The original goal, and the turns that did not reach theirs."""
        goal = one_line(self.words[0], GOAL) if self.words else NONE
        return [f"Original goal: {goal}", *self._newest(self._told(reached=False), 0.125)]

    def milestones(self) -> list[str]:
        return self._newest(self._told(reached=True), 0.25)

    def insights(self) -> list[str]:
        return [*self.wishes(), *self.decisions(), *self.acts()]

    def changed_files(self) -> list[str]:
        files, fates = self.state.files(), ("created", "modified", "deleted")
        return self._newest([f"- {path}: {fate}" for fate in fates for path in getattr(files, fate)], 0.125)

    def _told(self, *, reached: bool) -> list[str]:
        """`[✓] task - result`; the tick only where calls ended well and the answer does not deny it."""
        tick = "[✓] " if reached else ""
        return [
            f"- {tick}{one_line(turn.user, 120)} - {one_line(turn.response, 120) or 'interrupted'}"
            for turn in self.turns
            if turn.user.strip()
            and (turn.succeeded and not turn.state and not _DENIED.search(turn.response[:400])) is reached
        ]

    def _newest(self, rows: Sequence[str], share: float) -> list[str]:
        room = int(self.budget * share)
        left = len(rows) - newest_within(rows, room, lambda row: self.counter.text(row) + 1)
        return [*([f"- ({left} earlier left out)"] if left else []), *rows[left:]]

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
    under: str = ""
    """The heading above it, where it is one of several."""
    facts: bool = False
    """Behind its rows stand the sentences that tell most, in the room that the other sections leave."""


class Template(NamedTuple):
    sections: Mapping[str, Section]
    """By title. One of them has the facts."""
    terse: bool = False
    """Sections that say nothing are left out, facts have no bullets, those of an earlier summary compete with
    new ones, and its newest request is none any more. Otherwise all that an earlier summary says stays as it
    is, as long as there is room."""


CONVERSATION = Template({"Facts": Section(1.0, facts=True)}, terse=True)
"""Where no tools are used."""
DIGEST = Template(
    {
        "Goal": Section(0.1, Findings.goal_and_newest),
        "Done": Section(0.4, partial(Findings.acts, share=0.4), newest=True),
        "Facts": Section(1.0, facts=True),
    },
    terse=True,
)
CHECKPOINT = Template(
    {
        "Goal": Section(0.1, Findings.goal),
        "Constraints and preferences": Section(0.15, Findings.wishes),
        "Done": Section(0.25, partial(Findings.lines, over=True), newest=True, under="Progress"),
        "In progress": Section(0.08, partial(Findings.lines, over=False), under="Progress"),
        "Blocked": Section(0.08, Findings.blocked, under="Progress"),
        "Key decisions": Section(0.1, Findings.decisions, newest=True),
        "Next steps": Section(0.05, Findings.next_steps),
        "Critical context": Section(0.5, Findings.acts, facts=True),
    }
)
"""pi's (B11)."""
PREFIX = Template(
    {
        "Original request": Section(0.2, Findings.requests),
        "Early progress": Section(0.4, Findings.progress),
        "Needed for the kept part": Section(0.5, facts=True),
    }
)
"""The beginning of a turn whose later part stays."""


def archive(place: str = "folder (unknown)") -> Template:
    """The layered design's (E9). `place`: operating system and folder."""
    return Template(
        {
            "Period covered": Section(0.1, Findings.period),
            "Objectives and status": Section(0.25, Findings.objectives),
            "Technical context": Section(0.25, partial(Findings.technical, place=place)),
            "Completed milestones": Section(0.3, Findings.milestones),
            "Key insights and decisions": Section(0.5, Findings.insights, facts=True),
            "File-system state": Section(0.2, Findings.changed_files),
        }
    )
