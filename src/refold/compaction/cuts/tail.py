"""The cut by characters: the newest exchanges stay, the rest is the head; a very large head is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from refold.compaction.exchanges import Exchange
from refold.compaction.plan import Source
from refold.compaction.squeeze import squeezed
from refold.entries import key
from refold.messages import compact_json

SEGMENT = 266_666
"""Characters of JSON in a segment: a third of 800 000."""
MARKUP = 400
"""Characters a message needs at least, its JSON included."""


def last_of_head(newest_first: Iterable[Exchange], *, chars: int, at_least: int) -> Exchange | None:
    """The newest exchange that does not stay. Exchanges stay while all of them together are smaller than
    `chars`, and so many anyway."""
    total = 0
    for kept, exchange in enumerate(newest_first):
        if total + exchange.size >= chars and kept >= at_least:
            return exchange
        total += exchange.size
    return None


def bounded(head: Sequence[tuple[Source, ...]], limit: int = SEGMENT) -> tuple[Source, ...]:
    """The part of the head that is sent: all of it where it has fewer than four segments, otherwise its
    later ones. An exchange larger than a segment is cut in the middle."""
    fitted = [cut_exchange(exchange, limit) for exchange in head]
    parts = segments([json_size(exchange) for exchange in fitted], limit)
    chosen = parts[first_segment(len(parts)) :]
    return tuple(source for part in chosen for index in part for source in fitted[index])


def segments(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Indexes of consecutive exchanges that stay within the limit together; none is empty."""
    found: list[list[int]] = []
    used = 0
    for index, size in enumerate(sizes):
        if not found or used + size > limit:
            found.append([])
            used = 0
        found[-1].append(index)
        used += size
    return found


def first_segment(count: int) -> int:
    return 0 if count < 4 else 2 * ((count - 2) // 2)


def json_size(exchange: Iterable[Source]) -> int:
    return sum(len(compact_json(source.message)) for source in exchange)


def cut_exchange(exchange: tuple[Source, ...], limit: int) -> tuple[Source, ...]:
    """The exchange with its longest messages cut in the middle until it fits."""
    sources = list(exchange)
    sizes = [json_size([source]) for source in sources]
    for factor in (0.9, 0.5, 0.1):  # text that is full of escapes is longer as JSON than it looks
        for index in sorted(range(len(sources)), key=lambda i: -sizes[i]):
            over = sum(sizes) - limit
            if over <= 0:
                return tuple(sources)
            room = int(max(sizes[index] - over, MARKUP) * factor)
            message = squeezed(sources[index].message, room, key(sources[index].id))
            smaller = msgspec.structs.replace(sources[index], message=message)
            if (size := json_size([smaller])) < sizes[index]:
                sources[index], sizes[index] = smaller, size
    return tuple(sources)
