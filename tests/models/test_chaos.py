"""Chaos: seeded, and whatever it does no broken reply passes for a whole one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.errors import ModelError, Overflow, Transient
from refold.messages import Usage, user
from refold.models import Retry, Scripted, complete, say
from refold.models.chaos import FAULTS, Chaos
from refold.models.retry import NO_RETRY
from refold.protocols import Request
from refold.testing.model_contract import ModelContract

ASK = Request(messages=(user("x"),))
SAID = "A reply that is long enough to be broken in the middle of it, somewhere, by something."


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def once(fault: str, seed: int = 1):
    model = Chaos(Scripted(say(SAID, usage=Usage(1, 2))), seed, rate=1.0, faults=(fault,), sleep=no_sleep)
    return asyncio.run(complete(model, ASK, retries=NO_RETRY))


class TestCalm(ModelContract):
    """Without faults it is the model it wraps."""

    def answering(self, *lines):
        from contextlib import nullcontext

        return nullcontext(Chaos(Scripted(*lines), rate=0.0))


@pytest.mark.parametrize("fault", ["rate_limit", "reset", "cut", "stall"])
def test_broken_replies_are_transient(fault) -> None:
    with pytest.raises(Transient):
        once(fault)


def test_other_faults() -> None:
    with pytest.raises(Overflow):
        once("overflow")
    assert once("truncated").message.stop == "length"
    assert once("refusal").message.stop == "refusal"
    assert once("empty").message.content == ()
    assert once("slow").text == SAID


@given(st.integers(0, 10_000))
def test_a_reply_that_ends_well_is_whole(seed: int) -> None:
    model = Chaos(
        Scripted(then=SAID), seed, rate=0.7, faults=[f for f in FAULTS if f != "empty"], sleep=no_sleep
    )

    async def main() -> None:
        for _ in range(5):
            try:
                reply = await complete(model, ASK, retries=NO_RETRY)
            except ModelError:
                continue
            assert reply.message.stop in ("end", "length", "refusal")
            assert reply.message.stop != "end" or reply.text == SAID

    asyncio.run(main())


def test_a_seed_is_a_story() -> None:
    def story(seed: int):
        model = Chaos(Scripted(then=SAID), seed, rate=0.5, sleep=no_sleep)

        async def main() -> None:
            for _ in range(20):
                try:
                    await complete(model, ASK, retries=NO_RETRY)
                except ModelError:
                    pass

        asyncio.run(main())
        return model.injected

    assert story(7) == story(7)
    assert story(7) != story(8)
    assert len({i.fault for i in story(7)}) > 3


def test_retries_get_through() -> None:
    model = Chaos(Scripted(then=SAID), 3, rate=0.6, faults=("rate_limit", "reset", "cut"), sleep=no_sleep)
    retry = Retry(attempts=12, base=0.0, sleep=no_sleep)
    assert asyncio.run(complete(model, ASK, retries=retry)).text == SAID
