"""Choosing takes time in proportion to what there is to choose from, whatever that is."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from statistics import linear_regression

import pytest

from refold import messages as m
from refold.digest.facts import facts
from refold.digest.select import ranked, weigh
from refold.digest.source import Source
from refold.preserve.identifiers import Identifier, index
from refold.protocols import complete
from refold.tokens import get
from tests.timing import steps

SIZES = (2_000, 4_000, 8_000)
MOST = 1.6
LOSSES = 49
"""Times that a word can lose worth."""
CHANCE = random.Random(7)

NAMES: dict[str, Callable[[int], list[str]]] = {
    "numbers": lambda n: [f"{k:07d}" for k in range(n)],
    "paths": lambda n: [f"src/{k % 50}/module_{k}.py" for k in range(n)],
    "two letters": lambda n: ["".join(CHANCE.choices("a1", k=40)) for _ in range(n // 4)],
    "one inside the other": lambda n: ["a1" * (3 + k % 70) + f"{k:05d}" for k in range(n // 8)],
}


def exponent(work: Callable[[int], object]) -> float:
    """Of the time, where it is the least of three."""

    def seconds(n: int) -> float:
        began = time.process_time()
        work(n)
        return time.process_time() - began

    times = [min(seconds(n) for _ in range(3)) for n in SIZES]
    return linear_regression(list(map(math.log, SIZES)), list(map(math.log, times))).slope


@pytest.mark.parametrize("kind", NAMES)
def test_identifiers_are_told_apart_in_linear_time(kind: str) -> None:
    made = {n: [Identifier(name, "id") for name in NAMES[kind](n)] for n in SIZES}
    present = {n: " ".join(one.text[1:] for one in made[n][::2]) for n in SIZES}
    count = get().text
    assert exponent(lambda n: index(made[n], 4 * n, count, present[n])) < MOST


TALK: dict[str, Callable[[int], str]] = {
    "always the same": lambda _: "The zebra crossing wanders past some building slowly",
    "the same but for a number": lambda n: f"The zebra crossing wanders past building {n} slowly",
    "a few words in every order": lambda n: f"zebra{n % 97} giraffe{n % 89} walks past lion{n % 83}",
    "two words": lambda n: f"word {n}",
}


@pytest.mark.parametrize("kind", TALK)
def test_a_fact_is_weighed_again_no_oftener_than_its_words_lose_worth(kind: str) -> None:
    """However many there are: what a word is worth ends after some fifty times."""
    sources = [Source(message=m.user(TALK[kind](n))) for n in range(800)]
    found, _ = complete(facts(sources))
    worth = complete(weigh(found))
    words = max(len(fact.words) for fact in found)
    often = len(found) * (3 + LOSSES * words)
    assert steps(lambda: complete(ranked(found, worth, lambda _: 8, 8 * len(found)))) < often * (words + 9)
