"""M6: the replay with prices and a model of the prompt cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold import tokens
from refold.compare import money
from refold.compare.money import ReplayedRequest, RequestSeries, Summarising, ViewSizes
from refold.costs import Prices
from refold.messages import Usage
from refold.session import Session
from tests.compare.sessions import agent_session

PRICES = Prices(input=3.0, output=15.0)


def conversation(*sizes: int, pause: float = 20.0, fixed: int = 0) -> RequestSeries:
    """Entries of these sizes; before every second one there is a request."""
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    return RequestSeries(
        tuple(sums), fixed, tuple(ReplayedRequest(n, pause, sizes[n]) for n in range(1, len(sizes), 2))
    )


@pytest.mark.parametrize(("pause", "dollars"), [(299.0, 0.028455), (300.0, 0.040875)])
def test_M6_the_bill_is_what_was_added_up_by_hand(pause: float, dollars: float) -> None:
    """Prompts of 500, 3,600 and 5,700 tokens, replies of 100 (0.0015 each), dollars per million 3 and 15.

    500 are too few to cache: 0.0015. 3,600 are written for 3.75: 0.0135. Of 5,700 the cache has 3,600, read for
    0.3, and 2,100 are written: 0.00108 + 0.007875; after five minutes all are written: 0.021375."""
    found = money.bill(conversation(500, 100, 3_000, 100, 2_000, 100, pause=pause), PRICES)
    assert found.dollars == pytest.approx(dollars)
    assert (found.peak, found.prompt, found.folds) == (5_700, 9_800, 0)


@given(
    st.lists(st.integers(1, 3_000), min_size=4, max_size=60),
    st.integers(500, 30_000),
    st.integers(1, 3_000),
    st.integers(0, 3_000),
)
def test_M6_folds_keep_the_context_below_the_bill_without_folds(
    sizes: list[int], threshold: int, record: int, tail: int
) -> None:
    steps = conversation(*sizes)
    none = money.bill(steps, PRICES)
    folded = money.bill(steps, PRICES, threshold=threshold, shape=ViewSizes(0, record, tail))
    assert folded.prompt <= none.prompt and folded.peak <= none.peak
    if threshold >= none.peak:
        assert folded == none


def test_M6_a_fold_starts_the_cache_anew_so_folding_can_lose_money() -> None:
    steps = conversation(*[200] * 400)
    none = money.bill(steps, PRICES)
    often = money.bill(steps, PRICES, threshold=70_000, shape=ViewSizes(0, 2_000, 58_000))
    assert often.folds > 0 and often.dollars > none.dollars
    rarely = money.bill(steps, PRICES, threshold=20_000, shape=ViewSizes(0, 2_000, 3_000))
    assert rarely.dollars < none.dollars


def test_M6_summaries_are_paid_for() -> None:
    steps = conversation(*[500] * 200)
    shape = ViewSizes(0, 1_000, 2_000)
    free = money.bill(steps, PRICES, threshold=20_000, shape=shape)
    paid = money.bill(steps, PRICES, threshold=20_000, shape=shape, summarising=Summarising(PRICES, 1_000))
    assert paid.folds == free.folds > 0 and free.summaries == 0
    assert paid.dollars == pytest.approx(free.dollars + paid.summaries)
    least = paid.folds * PRICES.cost(Usage(input=10_000, output=1_000))
    assert paid.summaries > least


def test_M6_what_stays_at_the_beginning_is_still_cached_after_a_fold() -> None:
    steps = conversation(20_000, *[500] * 101, fixed=1)
    kept = money.bill(steps, PRICES, threshold=40_000, shape=ViewSizes(20_000, 1_000, 2_000))
    lost = money.bill(
        RequestSeries(steps.sums, 0, steps.steps), PRICES, threshold=40_000, shape=ViewSizes(0, 21_000, 2_000)
    )
    assert kept.folds == lost.folds > 0
    assert kept.prompt == lost.prompt
    assert kept.dollars < lost.dollars


def test_M6_pauses_come_from_the_times_and_are_capped() -> None:
    session = Session()
    for number, time in enumerate((0.0, 100.0, 160.0, 1e9, 5e8)):
        session.append(
            e.MessageEntry(id=str(number), parent=session.leaf, time=time, message=m.assistant("ok"))
        )
    pauses = [step.pause for step in money.steps(session, tokens.get("o200k")).steps]
    assert pauses == [
        money.DEFAULT_PAUSE_SECONDS,
        money.DEFAULT_PAUSE_SECONDS,
        60,
        money.MAX_PAUSE_SECONDS,
        0,
    ]


def test_requests_of_a_session_are_its_replies_and_system_prompts_are_fixed() -> None:
    session = agent_session(4)
    steps = money.steps(session, tokens.get("o200k"))
    assert len(steps.steps) == 9 and steps.fixed == 1
    assert steps.sums[-1] == steps.tokens
    assert steps.steps[0].entries == 2
