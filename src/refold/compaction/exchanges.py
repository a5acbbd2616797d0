"""Exchanges: a view read as requests and the replies they got.

A request is user text and/or tool results; its reply is text and/or tool calls. In an agent loop every
model call is one exchange. An unanswered request at the very end is no exchange.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, takewhile
from typing import NamedTuple

import msgspec

from refold import entries as e
from refold import messages as m
from refold.compaction import transcript
from refold.compaction.details import AugmentDetails
from refold.compaction.plan_context import PlanContext, last_reply
from refold.compaction.transcript import SummarySource, source_of
from refold.session.items import Item
from refold.text.truncate import middle
from refold.tokens.estimate import Chars
from refold.tokens.fitting import largest
from refold.tokens.parts import part_strings


class Exchange(NamedTuple):
    """The items `first` up to, not including, `last`."""

    first: int
    last: int
    size: int


class Characters(Chars):
    """Texts, names of tools, their arguments as compact JSON. Thoughts are not said."""

    name = "said"

    def message(self, message: m.Message) -> int:
        if isinstance(message, m.Bash):
            return super().message(message)
        parts = (part for part in message.parts if isinstance(part, (m.Text, m.Call)))
        return sum(len(text) for part in parts for text in part_strings(part))


CHARACTERS = Characters()


def exchange_starts(messages: Sequence[m.Message]) -> list[int]:
    """Where exchanges begin: where another speaks after the assistant."""
    replies = [isinstance(message, m.Assistant) for message in messages]
    return [n for n, reply in enumerate(replies) if not n or (replies[n - 1] and not reply)]


def newest_first(s: PlanContext) -> Iterator[Exchange]:
    """The exchanges of the view, from the last one back; what comes after it waits for an answer."""
    first, end = s.projection.first, last_reply(s) + 1
    for begin in reversed(exchange_starts([item.message for item in s.items[first:end]])):
        yield Exchange(first + begin, end, s.projection.size(CHARACTERS, first + begin, end))
        end = first + begin


def history_size(s: PlanContext) -> int:
    """Characters of all exchanges."""
    return s.projection.size(CHARACTERS, s.projection.first, last_reply(s) + 1)


# ── head and tail (A7, A8) ──────────────────────────────────────────────────────────────────────

SEGMENT = 266_666
"""Characters of JSON in a segment: a third of 800 000."""
STYLE = transcript.Style(thinking="", result_limit=0)


def last_of_head(newest_first: Iterable[Exchange], *, chars: int, at_least: int) -> Exchange | None:
    """The newest exchange that does not stay. Exchanges stay while all of them together are smaller than
    `chars`, and so many anyway."""
    total = 0
    for kept, exchange in enumerate(newest_first):
        if total + exchange.size >= chars and kept >= at_least:
            return exchange
        total += exchange.size
    return None


def head_sources(s: PlanContext, last: int) -> tuple[SummarySource, ...]:
    """What was said before item `last`; summary nodes say nothing."""
    head = s.items[s.projection.first : last]
    return tuple(source_of(s.session, x) for x in head if x.fold is None or node_of(s, x) is None)


def node_of(s: PlanContext, item: Item) -> e.Fold | None:
    """The fold whose summary node this item is a part of."""
    if item.fold is None:
        return None
    fold = s.projection.fold_of(item)
    return fold if AugmentDetails.of(fold).is_history_summary else None


def grouped(sources: Sequence[SummarySource]) -> list[tuple[SummarySource, ...]]:
    """Sources as exchanges."""
    starts = exchange_starts([source.message for source in sources])
    return [tuple(sources[at:end]) for at, end in zip(starts, [*starts[1:], len(sources)], strict=False)]


def bounded(head: Sequence[tuple[SummarySource, ...]], limit: int = SEGMENT) -> tuple[SummarySource, ...]:
    """The part of the head that is sent: all of it where it has fewer than four segments, otherwise its
    later ones. An exchange larger than a segment is cut in the middle."""
    fitted = [cut_exchange(exchange, limit) for exchange in head]
    parts = segments([json_size(exchange) for exchange in fitted], limit)
    chosen = parts[first_segment(len(parts)) :]
    sent = [source for part in chosen for index in part for source in fitted[index]]
    # What was cut away takes its calls along, and the results of calls that were cut away go as well.
    made = {call.id for source in sent for call in source.message.calls}
    ended, all_ended = (
        {x.message.call_id for x in rows if isinstance(x.message, m.Result)}
        for rows in (sent, chain.from_iterable(head))
    )
    kept = (x for x in sent if not isinstance(x.message, m.Result) or x.message.call_id in made)
    return tuple(_without_calls(x, all_ended - ended) for x in kept)


def segments(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Indexes of consecutive exchanges that stay within the limit together; none is empty."""
    parts: list[list[int]] = []
    used = 0
    for index, size in enumerate(sizes):
        if not parts or used + size > limit:
            parts.append([])
            used = 0
        parts[-1].append(index)
        used += size
    return parts


def first_segment(count: int) -> int:
    """Index of the first of so many segments that is sent."""
    return 0 if count < 4 else 2 * ((count - 2) // 2)


def json_size(exchange: Iterable[SummarySource]) -> int:
    return sum(len(m.compact_json(source.message)) for source in exchange)


def cut_exchange(exchange: tuple[SummarySource, ...], limit: int) -> tuple[SummarySource, ...]:
    """The exchange within the limit. A larger one is told as text: what was asked, and the last message, each
    cut in the middle where it is long."""
    if json_size(exchange) <= limit:
        return exchange
    asked, last = exchange[:-1], exchange[-1]
    parts = [(asked, m.user), ((last,), m.assistant)] if asked else [((last,), m.assistant)]
    told = [transcript.render(sources, STYLE) for sources, _ in parts]

    def cut(room: int) -> tuple[SummarySource, ...]:
        kept: list[SummarySource] = []
        for (sources, says), text in zip(parts, told, strict=True):
            if len(sources) == 1 and json_size(sources) <= room:
                kept += sources
            else:
                kept.append(SummarySource(sources[0].id, says(middle(text, room)), sources[0].time))
        return tuple(kept)

    return cut(largest(limit, lambda room: json_size(cut(room)) <= limit))


# ── calls and their results in what is sent (A17) ───────────────────────────────────────────────

FOLLOWS = "(Its result is in the part of the conversation that follows this one, word for word.)"


def paired(sources: Sequence[SummarySource], calls: Mapping[str, m.Call]) -> tuple[SummarySource, ...]:
    """A stretch of the conversation with the calls that its first results answer (`calls`: those of the
    view), and with a word for its last calls, whose results come after it."""
    if not sources:
        return ()
    first, last = sources[0], sources[-1]
    begin = [x.message for x in takewhile(lambda x: not isinstance(x.message, m.Assistant), sources)]
    again = [calls[x.call_id] for x in begin if isinstance(x, m.Result) and x.call_id in calls]
    opening = [SummarySource(first.id, m.assistant("", *again), first.time)] if again else []
    closing = [SummarySource(last.id, m.result(call.id, FOLLOWS), last.time) for call in last.message.calls]
    return (*opening, *sources, *closing)


def _without_calls(source: SummarySource, ids: Set[str]) -> SummarySource:
    message = source.message
    if not isinstance(message, m.Assistant) or not any(call.id in ids for call in message.calls):
        return source
    parts = tuple(part for part in message.parts if not isinstance(part, m.Call) or part.id not in ids)
    return msgspec.structs.replace(source, message=msgspec.structs.replace(message, content=parts))
