"""Choosing takes time in proportion to what there is to choose from, whatever that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from refold import messages as m
from refold.digest.facts import Source, facts
from refold.digest.said import ranked, weigh
from tests.timing import steps

LOSSES = 49
"""Times that a word can lose worth."""

TALK: dict[str, Callable[[int], str]] = {
    "always the same": lambda _: "The zebra crossing wanders past some building slowly",
    "the same but for a number": lambda n: f"The zebra crossing wanders past building {n} slowly",
    "a few words in every order": lambda n: f"zebra{n % 97} giraffe{n % 89} walks past lion{n % 83}",
    "two words": lambda n: f"word {n}",
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TALK)
def test_a_fact_is_weighed_again_no_oftener_than_its_words_lose_worth(kind: str) -> None:
    """However many there are: what a word is worth ends after some fifty times."""
    sources = [Source(message=m.user(TALK[kind](n))) for n in range(800)]
    found = facts(sources)
    worth = weigh(found)
    words = max(len(fact.words) for fact in found)
    often = len(found) * (3 + LOSSES * words)
    assert steps(lambda: ranked(found, worth, lambda _: 8, 8 * len(found))) < often * (words + 9)
