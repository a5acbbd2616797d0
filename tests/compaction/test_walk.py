"""A walk over a view at one scale says of each item what its age allows, whatever shares a chunk with it."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence

import pytest

from refold.compaction.clips import CHUNK, Chunk, Piece, bare
from refold.compaction.grade import GRID, QUOTE, QUOTED, Curve, Grades, Walk, estimate, grade
from refold.shrink.clip import LEVELS, WORTH

CURVE = Curve()


class View:
    """Pieces that were made up, read some at a time."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.made, self.total = pieces, len(pieces)
        self.chunks: list[Chunk] = []
        self.sizes: list[int] = []

    def read(self) -> None:
        some = self.made[len(self.sizes) : len(self.sizes) + CHUNK]
        self.chunks.append(Chunk(len(self.sizes), [bare(piece, stale=piece.stale) for piece in some]))
        self.sizes += [piece.now for piece in some]

    def piece(self, place: int) -> Piece:
        return self.made[place]


def made_up(seed: int, *, odd: float) -> list[Piece]:
    chance = random.Random(seed)

    def piece() -> Piece:
        whole = int(chance.lognormvariate(5, 1.5)) + 4
        now = whole if chance.random() < 0.5 else min(whole, chance.choice(LEVELS[:24]) + 15)
        plain = Piece(whole, now, said=chance.random() < 0.4, stale=chance.random() < 0.1)
        if chance.random() > odd:
            return plain
        return plain._replace(
            cap=chance.choice((None, 0, max(now // 2, 1))),
            sealed=chance.choice((0, 0, 40)),
            kept=chance.choice((0, now // 3)),
            call=chance.choice((0, 0, 80, 400)),
        )

    return [piece() for _ in range(chance.randrange(1, 900))]


def one_by_one(pieces: list[Piece], scale: float, last: int) -> tuple[list[tuple[int | None, int]], int]:
    """Tokens (None: known once it is clipped) and level of each item that is reached, and the index of the oldest one
    in its place: by the rules, item after item."""
    depth = scale * CURVE.bend * max(CURVE.result * scale / LEVELS[0], 1.0) ** (1 / CURVE.result_decay)
    age, thought, place = 0.0, 0, None
    reached: list[tuple[int | None, int]] = []
    for number, piece in enumerate(pieces):
        index = len(pieces) - 1 - number
        if age > depth and index >= 0 and index + 1 <= last:
            break
        left, sealed = piece.call > CURVE.call * scale, 0
        if left:
            piece = piece._replace(cap=None, sealed=0)
        if piece.sealed and place is None:
            thought += piece.sealed
            if thought > CURVE.sealed * scale and index < last:
                place = index + 1
            else:
                sealed = piece.sealed
        quoted = left or (place is not None and piece.kept and piece.cap != 0)
        if quoted:
            cap = level(piece._replace(kept=0, cap=None), scale, age)
            cap = max(cap, QUOTE) if cap else 0
        else:
            cap = 0 if sealed else level(piece, scale, age)
        tokens = QUOTED + (cap or piece.now) if quoted else None if cap else piece.now + sealed
        reached.append((tokens, cap))
        age += min(piece.whole, CURVE.weight * scale)
    return reached, len(pieces) - len(reached) if place is None else place


def level(piece: Piece, scale: float, age: float) -> int:
    share, decay = (CURVE.said, CURVE.said_decay) if piece.said else (CURVE.result, CURVE.result_decay)
    most = scale * (share * max(age / (CURVE.bend * scale), 1.0) ** -decay) * (0.1 if piece.stale else 1.0)
    cap = LEVELS[max(bisect_right(LEVELS, most) - 1, 0)]
    if piece.cap == 0 or piece.now - piece.kept <= max(cap + WORTH, most):
        return 0
    return cap + piece.kept if piece.kept else max(cap, piece.cap or 0)


@pytest.mark.parametrize("odd", [0.0, 0.2], ids=["plain", "odd"])
def test_a_walk_gives_each_item_what_its_age_allows(odd: float) -> None:
    for seed in range(25):
        pieces = made_up(seed, odd=odd)
        last = random.Random(seed).randrange(max(len(pieces) - 20, 0), len(pieces) + 1)
        for scale in GRID[seed % 7 : 180 : 13]:
            reached, place = one_by_one(pieces, scale, last)
            walk, caps, whole = Walk(View(pieces), scale, CURVE, last), list[int](), 0
            while (part := walk.part()) is not None:
                caps += part.caps()
                whole += part.whole
            assert caps == [cap for _, cap in reached]
            assert whole == sum(tokens for tokens, _ in reached if tokens is not None)
            assert (walk.first, walk.place) == (len(pieces) - len(reached), place)


# ── the largest view that fits (R19, R20) ───────────────────────────────────────────────────────

LINE = 7
"""Tokens of the line of an item that is not in its place."""


def shown(now: int, cap: int) -> int:
    return min(cap, now) if cap else now


def graded(pieces: list[Piece], goal: int, *, known: bool) -> Grades:
    def record(begins: int, _: float) -> int:
        return LINE * begins

    def sizes(places: Sequence[int], cap: int) -> list[int | None]:
        return [shown(pieces[at].now, cap) if known and at % 2 else None for at in places]

    def size(_: int, now: int, cap: int) -> int:
        return shown(now, cap)

    view, last = View(pieces), len(pieces) - 1
    low = estimate(view, goal, record, CURVE, last, {}).scale
    return grade(view, goal, record, sizes, size, CURVE, last, low)


@pytest.mark.sample(12)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_R20_the_goal_is_used_and_a_larger_one_never_shows_less(seed: int, known: bool) -> None:
    pieces = made_up(seed, odd=0.0)
    total = sum(piece.now for piece in pieces)
    before: list[int] = []
    for share in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0):
        goal = int(total * share)
        found = graded(pieces, goal, known=known)
        sizes = [shown(piece.now, cap) for piece, cap in zip(pieces, reversed(found.caps), strict=False)]
        used = sum(sizes) + LINE * found.first
        assert used <= goal or len(pieces) < 20
        if found.first == 0:
            assert used == goal, "to the token"
        assert all(a <= b for a, b in zip(before, sizes, strict=False)) and len(before) <= len(sizes)
        before = sizes
    assert before == [piece.now for piece in pieces]
