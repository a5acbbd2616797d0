"""What was said and done where tools are used: what the user asked, what the agent answered, and each call
with how it ended, as `facts/lines.py` tells them (R11)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from refold.digest.facts import Source
from refold.digest.said import DigestForm
from refold.facts.call_text import CONCLUSION, conclusion, weight
from refold.facts.lines import WEIGHTY, from_root, lines_of, rows_of
from refold.facts.state import WorkState
from refold.facts.state_text import Catalogue
from refold.facts.words import typed
from refold.messages import Assistant, spoken
from refold.protocols import TokenCounter
from refold.text.truncate import in_short
from refold.tokens.fitting import largest, newest_within

REQUEST = 400
"""Characters of a request."""
_RECENT = 0.5
"""Part of the room that the newest steps have before others. Of older ones come first requests, then what
else is telling."""
_REQUESTS = 0.3
"""Part of the room that all requests together have at least: a plan is not told by how it begins."""
_DENSE = 3
"""Characters of a token, at least, of what is told at length."""


class _Step(NamedTuple):
    """A message in rows."""

    text: str
    answer: str = ""
    """What ended a turn, in full."""
    telling: bool = True
    """A request, an answer, or a finding on the way (R23)."""
    request: str = ""
    """What was asked, in full."""
    key: str = ""
    """Behind a request: what brings it back."""

    def asked(self, limit: int) -> _Step:
        """With a request in at most so many characters."""
        told = conclusion(self.request, limit) if limit > REQUEST < len(self.request) else ""
        return self._replace(text=f"User: {told}{self.key}") if told else self


class WorkLines:
    """The steps of a conversation, read once for texts of any size."""

    def __init__(self, sources: Sequence[Source], state: WorkState) -> None:
        self._root = Catalogue(state).root or (f"{state.home}/" if state.home else "")
        self._short = from_root(self._root)
        self._steps = self._read(sources)

    def _read(self, sources: Sequence[Source]) -> list[_Step]:
        calls = {call.id: call for source in sources for call in source.message.calls}
        outcomes, steps = dict[str, str](), list[_Step]()
        for source in reversed(sources):  # how a call ended is known where the call comes
            message = source.message
            if words := typed(message):
                key = f" [{source.key}]" if source.key else ""
                steps.append(_Step(f"User: {in_short(words, REQUEST)}{key}", request=words, key=key))
                continue
            said = spoken(message) if isinstance(message, Assistant) else ""
            telling = said != "" and (not message.calls or weight(said) >= WEIGHTY)
            if rows := [*rows_of(lines_of(message, calls.get, cwd=self._root.rstrip("/")), outcomes)]:
                text = self._short("\n  ".join([f"- {rows[0]}", *rows[1:]]))
                steps.append(_Step(text, "" if message.calls else said, telling))
        return steps[::-1]

    def lines(self, budget: int, counter: TokenCounter, form: DigestForm, beside: str) -> str:  # noqa: ARG002
        """As many steps as fit the budget, in their order, and how many do not. What was said is not repeated
        where it stands in the text `beside` it; where all fit, more is told of each answer."""
        requests = sum(step.request != "" for step in self._steps)
        limit = int(budget * _REQUESTS) * _DENSE // max(requests, 1)
        steps = [step.asked(limit) for step in self._steps if not (step.telling and step.text in beside)]
        sizes = [counter.text(step.text) + 1 for step in steps]
        recent = len(steps) - newest_within(sizes, int(budget * _RECENT), lambda size: size)
        order = sorted(
            range(len(steps)),
            key=lambda at: (at < recent, steps[at].request == "", not steps[at].telling, -at),
        )

        def some(count: int) -> str:
            return self._joined([steps[at].text for at in sorted(order[:count])], len(steps) - count)

        fit = largest(len(order), lambda count: counter.text(some(count)) <= budget)
        answers = sum(step.answer != "" for step in steps)
        if answers and fit == len(order):
            limit = CONCLUSION + _DENSE * max(budget - sum(sizes), 0) // answers
            longer = [
                self._short(f"- {conclusion(step.answer, limit)}") if step.answer else step.text
                for step in steps
            ]
            if counter.text(self._joined(longer, 0)) <= budget:
                return self._joined(longer, 0)
        return some(fit)

    def _joined(self, texts: Iterable[str], left_out: int) -> str:
        rows = [text + _times(same) for text, same in groupby(texts)]
        notes = [f"paths are given from {self._root}"] if self._root else []
        notes += [f"{left_out} steps are left out"] if left_out else []
        return "\n".join([*([f"({'; '.join(notes)})"] if notes and rows else []), *rows])


def _times(same: Iterable[str]) -> str:
    times = len(list(same))
    return f" ×{times}" if times > 1 else ""


def usual_folder(sources: Sequence[Source]) -> str:
    """Where most calls say that they run; empty where they say nothing."""
    stated = (call.arguments.get("workdir") for source in sources for call in source.message.calls)
    folders = Counter(x.rstrip("/") for x in stated if isinstance(x, str) and x.startswith("/"))
    return max(folders, key=folders.__getitem__, default="")
