"""The summary node: one exchange in place of the head. It holds an abridged history, the model's own summary,
and once more the calls whose results the tail begins with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from refold import entries as e
from refold.compaction import exchanges
from refold.compaction.details import AugmentDetails
from refold.compaction.path_index import path_index
from refold.compaction.plan import Ask, Finished, Proposal, Reason
from refold.compaction.plan_context import PlanContext
from refold.compaction.requests import cached_prefix, focus_line
from refold.compaction.transcript import SummarySource, sources
from refold.facts import abridged
from refold.facts.tools import Names
from refold.messages import Assistant, Result, User, assistant, content
from refold.protocols import Request
from refold.session import redacted
from refold.session.dialects.tools import parse_tools
from refold.text.frames import quote

_SLOT = re.compile(r"\{(abridged_history|summary)\}")
_NODE_TAGS = ("supervisor", "summary", "abridged_history")
PREVIOUS = (
    "\n\nEarlier parts are known only from this previous summary; carry over what still matters:\n{text}"
)


@dataclass(frozen=True)
class SummaryNode:
    prompt: str
    template: str
    acknowledgement: str
    tail_chars: int
    min_tail: int = 1
    limits: abridged.OutlineLimits = abridged.OutlineLimits()
    carry_previous: bool = False
    """Give the previous summary to the model. Off: what it covered lives on in the abridged history alone."""
    segment: int = exchanges.SEGMENT
    summary_tokens: int = 2_000
    names: Names | None = None
    """What further tools do (A16)."""
    off: str = ""
    """Why this design does not fold at all, not even on request."""
    name: str = "summary_node"

    def propose(self, s: PlanContext, /) -> Proposal | Reason:
        if self.off:
            return Reason("off", self.off)
        last = exchanges.last_of_head(
            exchanges.newest_first(s), chars=self.tail_chars, at_least=self.min_tail
        )
        head = exchanges.head_sources(s, last.last) if last else ()
        if last is None or not head:
            return Reason("everything_fits", "there is nothing before the exchanges that stay")
        path, position = s.session.path, s.projection.position_of(last.last)
        nodes = (fold for item in reversed(s.items) if (fold := exchanges.node_of(s, item)))
        previous = next((node.summary for node in nodes), None) if self.carry_previous else None
        ask = self._ask(s, head, previous)
        first, end = path[s.projection.floor].id, path[position - 1].id
        after = s.items[last.last].message if last.last < len(s.items) else None
        # Calls of the last head exchange, unless the conversation went on without their results.
        at_work = s.items[last.first : last.last] if after is None or isinstance(after, Result) else ()
        calls = (call for x in at_work if isinstance(x.message, Assistant) for call in x.message.calls)
        response = assistant(self.acknowledgement, *calls)
        said = ((x.id, x.message) for x in sources(s.session, s.projection.floor, position))
        # Where the tail begins with tool results, the agent was still at work.
        goes_on = position < len(path) and not isinstance(after, User)
        groups = abridged.groups(said, continues=goes_on, names=self.names)
        outline = abridged.xml(groups, self.limits)
        node = s.counter.text(self.template) + s.counter.message(response) + 2 * self.summary_tokens
        node += s.counter.text(outline)
        files = path_index(s.session).state.files()

        def finish(answers: Sequence[str]) -> Finished:
            values = {"abridged_history": outline, "summary": quote(answers[0], *_NODE_TAGS)}
            request = User(content(_SLOT.sub(lambda slot: values[slot[1]], self.template)))
            edits = (e.Edit(first, end, (request, response)), *s.hidden_edits(after=position))
            details = AugmentDetails(is_history_summary=True).stored()
            return Finished(edits=edits, framed=True, summary=answers[0], files=files, details=details)

        return Proposal(
            strategy=self.name,
            finish=finish,
            asks=(ask,),
            stretch=(first, end),
            fold=tuple(source.id for source in head),
            first_kept=s.id_at(position),
            previous_summary=previous,
            files=files,
            tokens_after=s.sizes.fixed + s.sizes.kept_from(position) + node,
            smaller=False,
        )

    def _ask(self, s: PlanContext, head: tuple[SummarySource, ...], previous: str | None) -> Ask:
        system, tools = s.system, parse_tools(s.tools)
        focus = focus_line(s.instructions)

        def render(sources: Sequence[SummarySource], previous: str | None) -> Request:
            calls = {call.id: call for item in s.items for call in item.message.calls}
            earlier = PREVIOUS.format(text=redacted.without_secrets(previous)) if previous else ""
            sent = exchanges.bounded(exchanges.grouped(exchanges.paired(sources, calls)), self.segment)
            chat = Request(
                messages=tuple(redacted.message(x.message) for x in sent), system=system, tools=tools
            )
            return cached_prefix(chat, self.prompt + earlier + focus, max_tokens=2 * self.summary_tokens)

        return Ask(
            sources=head,
            render=render,
            previous=previous,
            target_tokens=self.summary_tokens,
            tools=True,
        )


def newest_node(folds: Sequence[e.Fold], *, version: str, off: bool) -> Sequence[e.Fold]:
    """Which folds count: of the summary nodes only the newest one of this version. Switched off, none."""
    nodes = {fold.id: fold.version for fold in folds if AugmentDetails.of(fold).is_history_summary}
    newest = [id for id, made_by in nodes.items() if made_by == version and not off][-1:]
    return [fold for fold in folds if fold.id not in nodes or fold.id in newest]
