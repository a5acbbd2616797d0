"""Two strategies that count messages: summarise a fixed window at the beginning, or just drop the oldest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refold import entries as e
from refold.compaction import transcript
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.plan_context import PlanContext
from refold.compaction.requests import prompt
from refold.compaction.transcript import SummarySource, message_of_item
from refold.compaction.triggers import message_count
from refold.messages import System, system, user
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
SUMMARY_BEFORE = "Summary of what came before:"
KEEP = 10
"""At least this many messages stay as they are."""


class Wording(NamedTuple):
    """What a language changes."""

    request: str
    heading: str = "[Conversation summary: early context]"
    opening: str = ""
    """What a summary begins with."""


WORDINGS = {
    "auto": Wording("Write in the language of the conversation."),
    "zh": Wording("用中文书写，以「对话摘要：」开头。", "[对话摘要 - 早期上下文]", "对话摘要：\n"),
}


def kept_from(s: PlanContext) -> int:
    """Index of the first of the newest `KEEP` messages, which stay whatever happens; 0: all of them do."""
    at, kept = len(s.items), 0
    while at > 0 and kept < KEEP:
        at -= 1
        kept += message_count(s.items[at : at + 1])
    return at if kept == KEEP else 0


def safe_end(s: PlanContext, ideal: int, start: int = 0) -> int | None:
    """The largest number of items ≤ `ideal` that can be taken without parting a call from its results."""
    ends, whole = range(min(ideal, len(s.items)), start, -1), len(s.items)
    return next((end for end in ends if end == whole or legal(s.items, end, PAIRS)), None)


@dataclass(frozen=True)
class WindowSummary:
    window: int
    max_chars: int
    language: str = "auto"
    temperature: float = 0.3
    timeout: float = 30.0
    name: str = "summary"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        start, language = s.projection.first, self.language
        wording = WORDINGS.get(language) or Wording(f"Write in: {language}.")
        last_end = min(start + self.window, kept_from(s))
        if last_end <= start:
            return Reason("nothing_to_fold", f"only the {KEEP} newest messages are left, and they stay")
        end = s.wanted_cut or safe_end(s, last_end, start)
        if end is None:
            return Reason("no_safe_end", "every possible cut separates a tool call from its results")
        taken = s.items[start:end]
        if all(x.fold is not None or isinstance(x.message, System) for x in taken):
            return Reason("nothing_to_fold", "the window holds nothing but the last summary")
        if len(taken) < 2 or s.sizes.items(start, end) <= s.counter.message(system(wording.heading)):
            return Reason("no_gain", "a summary would not be smaller than the messages")
        previous = next((s.projection.fold_of(item) for item in taken if item.fold), None)
        sources = tuple(
            SummarySource(x.entries[-1], message_of_item(s.session, x)) for x in taken if x.fold is None
        )
        first, last = taken[0].entries[0], taken[-1].entries[-1]

        def finish(answers: Sequence[str]) -> Finished:
            text = head(answers[0], self.max_chars)
            shown = quote(text if s.has_model else wording.opening + text)
            edit = e.Edit(first, last, (system(f"{wording.heading}\n{head(shown, self.max_chars)}"),))
            return Finished(edits=(edit,), framed=True, summary=text)

        earlier = previous.summary if previous else None
        return Proposal(
            strategy=self.name,
            finish=finish,
            asks=(self._ask(sources, earlier, wording),),
            stretch=(first, last),
            fold=tuple(source.id for source in sources),
            first_kept=s.items[end].entries[0] if end < len(s.items) else None,
            previous_summary=earlier,
            tokens_after=s.sizes.tokens - s.projection.size(s.counter, start, end) + self.max_chars,
            smaller=False,
            timeout=self.timeout,
        )

    def _ask(self, sources: tuple[SummarySource, ...], previous: str | None, wording: Wording) -> Ask:
        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:
            text = prompt(
                "window_summary",
                conversation=transcript.render(sources, STYLE),
                limit=str(self.max_chars),
                language=wording.request,
                previous=f"\n{SUMMARY_BEFORE}\n{transcript.inert(previous)}\n" if previous else "",
            )
            return Request(messages=(user(text),), temperature=self.temperature, purpose="summary")

        return Ask(
            sources=sources,
            render=render,
            previous=previous,
            target_tokens=self.max_chars // 4,
        )


@dataclass(frozen=True)
class HardTrim:
    """Drop the oldest messages until at most `most` are left; pairs stay whole, a summary stays first. Needs
    no model."""

    most: int
    name: str = "hard_trim"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        items, start = s.items, s.projection.first
        surplus = message_count(items) - self.most
        if surplus <= 0:
            return Reason("below_cap", f"{surplus + self.most} messages; the limit is {self.most}")
        while start < len(items) and items[start].fold and s.projection.fold_of(items[start]).summary:
            start += 1
        end = next((i for i in range(start + surplus, len(items)) if legal(items, i, PAIRS)), None)
        if end is None:
            return Reason("no_safe_end", "every possible cut separates a tool call from its results")
        dropped = items[start:end]
        first, last = dropped[0].entries[0], dropped[-1].entries[-1]
        edit = e.Edit(first, last, (), "trim")
        return Proposal(
            strategy=self.name,
            finish=lambda _: Finished(edits=(edit,)),
            stretch=(first, last),
            fold=tuple(id for item in dropped for id in item.entries),
            first_kept=items[end].entries[0],
            tokens_after=s.sizes.tokens - s.projection.size(s.counter, start, end),
        )
