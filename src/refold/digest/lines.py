"""Facts as lines: one line per message, its speaker in front, the date where it changes, some keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from refold.digest.facts import Fact
from refold.protocols import Steps
from refold.text.dates import written

KEY_SHARE = 0.04
"""Keys may take this part of a section; with less room they stand on fewer lines."""
KEY_TOKENS = 8


def lines(facts: Sequence[Fact], text: Callable[[Fact], str], joint: str, budget: int) -> str:
    """`facts` in the order of the conversation."""
    in_order = sorted(facts, key=lambda fact: (fact.place.order, fact.number))
    groups = [(place, list(group)) for place, group in groupby(in_order, key=lambda fact: fact.place)]
    stride = key_stride(len(groups), budget)
    rendered: list[str] = []
    day, last_key = None, -stride
    for number, (place, group) in enumerate(groups):
        said = joint.join(filter(None, (text(fact) for fact in group)))
        if not said:
            continue
        front = f"{written(place.day)} " if place.day and place.day != day else ""
        day = place.day or day
        name = f"{place.speaker}: " if place.speaker else ""
        # Keys of an earlier digest stay: nothing else leads back to what it stood for.
        keyed = place.key and stride and (place.role == "earlier" or number - last_key >= stride)
        last_key = number if keyed else last_key
        rendered.append(f"{front}{name}{said}{f' [{place.key}]' if keyed else ''}")
    return "\n".join(rendered)


def key_stride(groups: int, budget: int) -> int:
    """A key on every so many lines."""
    affordable = int(budget * KEY_SHARE / KEY_TOKENS)
    return -(-groups // affordable) if affordable else 0


def fitted(
    ranked: Sequence[Fact], render: Callable[[Sequence[Fact]], str], count: Callable[[str], int], budget: int
) -> Steps[tuple[list[Fact], str]]:
    """The longest prefix of `ranked` whose rendering fits, and that rendering."""
    # Not quite monotonic (a key may move to another line); what is found fits all the same.
    size, high = 0, len(ranked)
    half = high  # mostly all of it fits
    while size < high:
        if count(render(ranked[:half])) <= budget:
            size = half
        else:
            high = half - 1
        half = (size + high + 1) // 2
        yield
    return list(ranked[:size]), render(ranked[:size])
