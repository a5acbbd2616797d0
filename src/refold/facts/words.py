"""The user's own words (R8): what the user typed, verbatim, oldest first, each with its recall key.

Whose words a text is says its origin (`messages.Text`), not a guess made here. Nothing is lifted or
interpreted: words stand in their order and the later one speaks for itself. Only where they do not all fit
their share, some come before others: the first request, the newest, and sentences that forbid or require.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import accumulate, chain, groupby
from typing import NamedTuple

import msgspec

from refold.facts.lines import Row, joined
from refold.messages import Message, Text, is_typed
from refold.protocols import TokenCounter
from refold.text.patterns import lazy_pattern
from refold.text.truncate import boundary
from refold.tokens.fitting import largest, newest_within

SHARE, _LEAST_TOKENS, MOST = 0.1, 1_000, 4
"""Own words get a tenth of the goal, at least so many tokens, never over a quarter of the goal."""
GAP = "[…]"
"""Stands where words were left out."""
_LONGEST = 400
"""A sentence that does not end is cut here."""
_SHORT = 200
"""A message up to this length is there as a whole or not at all."""
_REPEATED = 40
"""Characters from which on the same words again say nothing new."""
_PASTED = 200
"""Characters from which on the same lines again are the same paste."""
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})(?s:.*?)(?:\n {0,3}\1.*$|\Z)", re.M)
"""A code block."""
_SET_IN = re.compile(r"^(?: {4}|\t)(?!\s*+(?:[-*•]|\d{1,3}[.)])\s).*$", re.M)
"""A line that is set in and no item of a list: code, or a pasted log."""
_READ = 20_000
"""Characters of a message in which demands are looked for: what is longer was pasted."""
_EDGES, _ALL = 600, 10**9
"""Characters of head and end of a message that come before more of any."""
_NUMBERED = 8
"""Messages that are not there whose numbers are told: the newest."""
_DENSEST = 8
"""More characters a token than these is no typed text."""
_LINES, _LINES_GAP = 10, "[… {} lines …]"
"""Where so many lines were left out their number is told."""

DEMANDS = {
    "English": "never, always, must, mustn't, shall, forbidden, required, ensure, avoid, without, do not,"
    " don't, shouldn't, cannot, only, make sure",
    "Deutsch": "nie, niemals, immer, muss, müssen, verboten, unbedingt, ohne, darf nicht, dürfen nicht, nur",
    "français": "jamais, toujours, doit, doivent, interdit, obligatoire, sans, ne pas, seulement, uniquement",
    "español": "nunca, siempre, debe, deben, prohibido, obligatorio, sin, solo, solamente",
    "português": "nunca, sempre, deve, devem, proibido, obrigatório, sem, somente, apenas",
    "русский": "никогда, всегда, должен, должна, должны, нельзя, запрещено, обязательно, без, только",
}
"""Words by which a sentence may forbid or require something. They rank; they decide nothing."""
DEMANDS_INSIDE = {
    "中文": "不得, 不准, 不许, 必须, 务必, 禁止, 严禁, 切勿, 请勿, 一定要, 千万, 不要, 不能, 不可, 只能",
    "日本語": "必ず, 禁止, いけません, してはいけない, 絶対, ないで, のみ, なければ",
    "한국어": "절대, 반드시, 금지, 항상, 마세요, 하지마, 해야, 오직",
}
"""The same for languages that are written without spaces around such words."""


def _any_of(lists: dict[str, str]) -> str:
    return "|".join(re.escape(word) for words in lists.values() for word in words.split(", "))


_DEMAND = lazy_pattern(rf"\b(?:{_any_of(DEMANDS)})\b|{_any_of(DEMANDS_INSIDE)}", re.I)
_END = lazy_pattern(
    r"\n+|(?<=[.!?…])(?<!\be\.g\.)(?<!\bi\.e\.)[\"'”’)\]]{0,4}[ \t]+"
    r"|(?<=[。！？；])[”’」』）]{0,4}(?![。！？；”’」』）])"
)
_AT_HAND = 20
"""Share of the request at hand, where that of all others is 10."""
_REACTION = 60
"""Characters of a message that may take back what was demanded in the one before."""

Span = tuple[int, int]


class Saying(msgspec.Struct, frozen=True, gc=False):
    """What the user typed in one entry."""

    position: int
    """Place of the entry on the path."""
    id: str
    text: str
    demands: tuple[Span, ...] = ()
    """Sentences that may forbid or require something."""


class Rendered(NamedTuple):
    rows: Sequence[Row]
    clipped: tuple[str, ...] = ()
    """Ids of entries of which some words are left out."""
    left_out: tuple[str, ...] = ()
    """Ids of entries of which nothing is there."""

    @property
    def text(self) -> str:
        return joined(self.rows)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Entries whose words are not all there."""
        return (*self.clipped, *self.left_out)


def once(sayings: Sequence[Saying], before: int) -> Sequence[Saying]:
    """What was typed before a position, without what was typed or pasted again in the same words: that stands
    where it was said first, or from the position on. A message that the next one repeats and goes on from
    (interrupted, and sent again with more) stands there. Short words (`continue`) mean something else each
    time.
    """
    at = bisect_left(sayings, before, key=lambda saying: saying.position)
    heard = {saying.text for saying in sayings[at:]}
    lines = {line for saying in sayings[at:] for line in _long(saying.text)}
    kept: list[Saying] = []
    for saying, following in zip(sayings[:at], (*sayings[1 : at + 1], None), strict=False):
        text = saying.text
        if len(text) < _REPEATED:
            kept.append(saying)
            continue
        more = following.text if following else ""
        if text in heard or (more.startswith(text) and more != text):
            continue
        heard.add(text)
        shown = _unrepeated(text, lines)
        lines.update(_long(text))
        if shown == text:
            kept.append(saying)
        elif shown != GAP:
            kept.append(Saying(saying.position, saying.id, shown, demands(shown)))
    return kept


def _long(text: str) -> list[str]:
    """The lines of a text that is long enough to hold a paste."""
    return text.split("\n") if len(text) >= _PASTED else []


def _unrepeated(text: str, lines: Set[str]) -> str:
    """The text with a mark in place of every stretch of known lines that is long enough to be a paste."""
    told: list[str] = []
    fences = {line for line in lines if line.lstrip().startswith(("```", "~~~"))}
    for known, run in groupby(_long(text), (lines - fences).__contains__):
        stretch = "\n".join(run)
        told.append(GAP if known and len(stretch) >= _PASTED else stretch)
    return "\n".join(told) if GAP in told else text


def room(goal: int, share: float = SHARE) -> int:
    """Tokens that own words may take of a view of `goal` tokens; none where nothing is to be shared."""
    return min(max(int(goal * share), _LEAST_TOKENS), goal // MOST) if share else 0


def typed(message: Message) -> str:
    """What the user typed in a message, verbatim."""
    own = [part.text for part in message.parts if isinstance(part, Text) and is_typed(message, part)]
    return "\n".join(own).strip("\r\n").rstrip() if any(not text.isspace() for text in own) else ""


def demands(text: str) -> tuple[Span, ...]:
    """The sentences of a text that may forbid or require something."""
    spans = _prose(text) if len(text) <= _READ else ()
    return tuple(span for span in spans if _DEMAND.search(text[slice(*span)].replace("’", "'")))


def sentences(text: str) -> Iterator[Span]:
    """The text as sentences and lines, without a gap between them, none longer than a limit. A short text
    is one piece: its sentences say little without each other."""
    start = 0
    for found in _END.finditer(text) if len(text) > _SHORT else ():
        yield from _bounded(text, start, found.end())
        start = found.end()
    yield from _bounded(text, start, len(text))


def _bounded(text: str, start: int, end: int) -> Iterator[Span]:
    while end - start > _LONGEST:
        space = text.rfind(" ", start + _LONGEST // 2, start + _LONGEST) + 1
        stop = space if space > 0 else max(boundary(text, start + _LONGEST), start + 1)
        yield start, stop
        start = stop
    if end > start:
        yield start, end


def rendering(
    sayings: Sequence[Saying], budget: int, counter: TokenCounter, *, at_hand: bool = False
) -> Rendered:
    """The words within `budget` tokens, each message with its number: all of them, or those that come
    first. `at_hand`: the newest is the request that is being worked on."""
    # Counted no further than the budget: cost does not grow with the log.
    fit = newest_within(sayings, budget + 1, lambda x: counter.text(_block(x, x.text)) + 1)
    if fit == len(sayings) and counter.text(joined(whole := _whole(sayings))) <= budget:
        return Rendered(whole)
    chosen = _chosen(sayings, budget * _DENSEST, at_hand=at_hand)
    fit = largest(len(chosen), lambda n: counter.text(_clipped(sayings, chosen[:n]).text) <= budget)
    return _clipped(sayings, chosen[:fit])


def _whole(sayings: Sequence[Saying]) -> list[Row]:
    return [Row(_block(saying, saying.text), (saying.position,)) for saying in sayings]


def _block(saying: Saying, shown: str) -> str:
    return f"[#{saying.position}]{chr(10) if chr(10) in shown else ' '}{shown}"


Piece = tuple[int, Span]
"""Index of a saying, and a sentence of it."""


def _chosen(sayings: Sequence[Saying], characters: int, *, at_hand: bool) -> list[Piece]:
    """The sentences that come first, so many characters of them: from each queue by its share. Their order
    does not depend on the room: a larger one shows the same and more."""
    chosen: dict[Piece, None] = {}
    queues = _queues(sayings)
    if at_hand:
        queues.append((_AT_HAND, _ends(sayings, (len(sayings) - 1,))))
    used = [0.0] * len(queues)
    while queues and characters > 0:
        at = min(range(len(queues)), key=used.__getitem__)
        share, queue = queues[at]
        piece = next((piece for piece in queue if piece not in chosen), None)
        if piece is None:
            del queues[at], used[at]
            continue
        _, (start, end) = piece
        used[at] += (end - start) / share
        characters -= end - start
        chosen[piece] = None
    return [*chosen]


def _queues(sayings: Sequence[Saying]) -> list[tuple[int, Iterator[Piece]]]:
    """All sentences in three orders, each with its share: the first request, demands, and the newest. Head
    and end of every message come before more of any: words around a paste stand there."""
    newest = range(len(sayings) - 1, -1, -1)
    # The first request is what was said up to the first words of some length: `/mode` is none.
    request = range(next((i + 1 for i, x in enumerate(sayings) if len(x.text) >= _REPEATED), len(sayings)))
    return [
        (3, _ends(sayings, request)),
        (3, _demanded(sayings)),
        (4, chain(_ends(sayings, newest, _EDGES), _ends(sayings, newest))),
    ]


def _demanded(sayings: Sequence[Saying]) -> Iterator[Piece]:
    """Demands, those of the newest message first, and those before and behind a paste before others; each
    behind the next message, if that is short: it may take them back."""
    for index in range(len(sayings) - 1, -1, -1):
        length = len(sayings[index].text)
        for span in sorted(sayings[index].demands, key=lambda span: min(span[0], length - span[1])):
            after = sayings[index + 1].text if index + 1 < len(sayings) else ""
            if 0 < len(after) <= _REACTION:
                yield index + 1, (0, len(after))
            yield index, span


def _ends(sayings: Sequence[Saying], indices: Iterable[int], most: int = _ALL) -> Iterator[Piece]:
    return ((index, span) for index in indices for span in _outside_in(sayings[index].text, most))


def _outside_in(text: str, most: int = _ALL) -> Iterator[Span]:
    """The sentences of a text, up to so many characters: from both ends, twice as much from its head."""
    spans, taken = deque(sentences(text)), [0, 0]
    while spans:
        at_end = taken[0] > 2 * taken[1]
        begin, stop = spans.pop() if at_end else spans.popleft()
        taken[at_end] += stop - begin
        if sum(taken) > most:
            return
        yield begin, stop


def _prose(text: str) -> Iterator[Span]:
    """The sentences of a text that do not stand in code."""
    places = sorted(found.span() for kind in (_FENCED, _SET_IN) for found in kind.finditer(text))
    ends = [0, *accumulate((end for _, end in places), max)]
    return (span for span in sentences(text) if span[0] >= ends[bisect_left(places, (span[0] + 1, 0))])


def _clipped(sayings: Sequence[Saying], chosen: Iterable[Piece]) -> Rendered:
    spans: dict[int, list[Span]] = {}
    for index, span in chosen:
        spans.setdefault(index, []).append(span)
    rows: list[Row] = []
    clipped: list[str] = []
    for index in sorted(spans):
        saying = sayings[index]
        shown = _verbatim(saying.text, sorted(spans[index]))
        if shown != saying.text:
            clipped.append(saying.id)
        rows.append(Row(_block(saying, shown), (saying.position,)))
    left_out = [saying for index, saying in enumerate(sayings) if index not in spans]
    if left_out and rows:
        newest, more = left_out[-_NUMBERED:], len(left_out) - _NUMBERED
        numbers = ", ".join(f"#{saying.position}" for saying in newest)
        older = f" and {more} older" if more > 0 else ""
        rows.append(Row(f"(Not shown for lack of room: {numbers}{older}.)"))
    return Rendered(rows, tuple(clipped), tuple(saying.id for saying in left_out))


def _verbatim(text: str, spans: Sequence[Span]) -> str:
    """These sentences as they stand in the text; a mark where something between them is missing. A code block
    that is cut ends there, and begins again: what stands outside of it would read as code."""
    fences = [*_FENCED.finditer(text)]

    def fence_at(place: int) -> re.Match[str] | None:
        return next((fence for fence in fences if fence.start() < place < fence.end()), None)

    shown, at = "", 0
    for begin, end in (*spans, (len(text), len(text))):
        if begin > at:
            lines = text.count("\n", at, begin)
            mark = GAP if lines < _LINES else _LINES_GAP.format(lines)
            left, entered = fence_at(at) if shown else None, fence_at(begin)
            closes = [left[1]] if left and left is not entered else []
            opens = [entered[0].split("\n", 1)[0]] if entered and entered is not left else []
            gap = "\n".join([mark, *closes, *opens] if closes else [*opens, mark])
            space = "\n" if lines or closes or opens else " "
            shown = f"{shown.rstrip()}{space if shown else ''}{gap}{space}"
        shown += text[begin:end]
        at = end
    return shown.rstrip() if spans and spans[-1][1] < len(text) else shown
