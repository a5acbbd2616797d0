"""Two rungs that count messages: summarise a fixed window at the beginning, or just drop the oldest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refold import entries as e
from refold.compaction import answer, transcript
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.prompts import prompt
from refold.compaction.situation import Situation
from refold.compaction.transcript import Source, message_of_item
from refold.messages import system, user
from refold.protocols import Request
from refold.session.invariants import PAIRS, legal
from refold.text.frames import quote
from refold.text.truncate import head

STYLE = transcript.Style(
    user="[user] ",
    assistant="[assistant] ",
    thinking="",
    calls="[tool call] ",
    result="[tool result] ",
    system=None,
    text_limit=500,
    result_limit=200,
    total_limit=12_000,
    arguments=False,
    separator="\n",
)
HEADINGS = {"zh": "[对话摘要 - 早期上下文]"}
HEADING = "[Conversation summary: early context]"
LANGUAGES = {
    "auto": "Write in the language of the conversation.",
    "zh": "用中文书写，以「对话摘要：」开头。",
}


def safe_end(s: Situation, ideal: int, start: int = 0) -> int | None:
    """The largest number of items ≤ `ideal` that can be taken without parting a call from its results."""
    items = s.items
    for end in range(min(ideal, len(items)), start, -1):
        if end == len(items) or legal(items, end, PAIRS):
            return end
    return None


@dataclass(frozen=True)
class WindowSummary:
    window: int
    max_chars: int
    language: str = "auto"
    temperature: float = 0.3
    name: str = "summary"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        start = s.projection.first
        end = s.wanted_cut or safe_end(s, min(start + self.window, len(s.items) - 1), start)
        if end is None:
            return Reason("no_safe_end", "every end of the window would part a tool call from its results")
        taken = s.items[start:end]
        if len(taken) == 1 and taken[0].fold is not None:
            return Reason("nothing_to_fold", "the window holds nothing but the last summary")
        previous = next((s.projection.fold_of(item) for item in taken if item.fold), None)
        sources = tuple(Source(x.entries[-1], message_of_item(s.session, x)) for x in taken if x.fold is None)
        first, last = taken[0].entries[0], taken[-1].entries[-1]

        def finish(answers: Sequence[str]) -> Finished:
            text = head(answers[0], self.max_chars)
            heading = HEADINGS.get(self.language, HEADING)
            edit = e.Edit(first, last, (system(f"{heading}\n{head(quote(text), self.max_chars)}"),))
            return Finished(edits=(edit,), summary=text)

        earlier = previous.summary if previous else None
        kept = s.projection.size(s.counter, end) + s.projection.size(s.counter, 0, start)
        return Proposal(
            rung=self.name,
            finish=finish,
            asks=(self._ask(sources, earlier),),
            stretch=(first, last),
            fold=tuple(source.id for source in sources),
            first_kept=s.items[end].entries[0] if end < len(s.items) else None,
            previous=earlier,
            tokens_after=s.sizes.overhead + kept + self.max_chars,
            smaller=False,
        )

    def _ask(self, sources: tuple[Source, ...], previous: str | None) -> Ask:
        def render(sources: Sequence[Source], previous: str | None) -> Request:
            text = prompt(
                "window_summary",
                conversation=transcript.render(sources, STYLE),
                limit=str(self.max_chars),
                language=LANGUAGES.get(self.language, f"Write in: {self.language}."),
                previous=f"\nSummary of what came before:\n{transcript.inert(previous)}\n"
                if previous
                else "",
            )
            return Request(messages=(user(text),), temperature=self.temperature, purpose="summary")

        return Ask(
            sources=sources,
            render=render,
            previous=previous,
            target_tokens=self.max_chars // 4,
            accept=answer.plain,
        )


@dataclass(frozen=True)
class HardTrim:
    """Drop the oldest messages until at most `most` are left; pairs stay whole. Needs no model."""

    most: int
    name: str = "hard_trim"

    def propose(self, s: Situation, /) -> Proposal | Reason:
        items, start = s.items, s.projection.first
        surplus = len(items) - self.most
        if surplus <= 0:
            return Reason("below_cap", f"{len(items)} messages, at most {self.most} are allowed")
        end = next((i for i in range(start + surplus, len(items)) if legal(items, i, PAIRS)), None)
        if end is None:
            return Reason("no_safe_end", "every end would part a tool call from its results")
        dropped = items[start:end]
        first, last = dropped[0].entries[0], dropped[-1].entries[-1]
        edit = e.Edit(first, last, (), "trim")
        kept = s.projection.size(s.counter, end) + s.projection.size(s.counter, 0, start)
        return Proposal(
            rung=self.name,
            finish=lambda _: Finished(edits=(edit,)),
            stretch=(first, last),
            fold=tuple(id for item in dropped for id in item.entries),
            first_kept=items[end].entries[0],
            tokens_after=s.sizes.overhead + kept,
        )
