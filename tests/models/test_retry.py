"""Retries: transient errors only, patiently, never past the total."""

from __future__ import annotations

import asyncio

import pytest

from refold.errors import ModelError, ModelUnavailable, Overflow, Transient
from refold.messages import user
from refold.models import Retry, Retrying, Scripted, complete, fail
from refold.protocols import Request, TextDelta

ASK = Request(messages=(user("x"),))


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def retry(self, **options) -> Retry:
        return Retry(clock=self, sleep=self.sleep, **{"random": lambda: 0.0, **options})


def ask(retry: Retry, *script):
    return asyncio.run(complete(Scripted(*script), ASK, retries=retry)).text


def test_waits_double_up_to_the_cap() -> None:
    clock = Clock()
    retry = clock.retry(attempts=6, base=1.0, cap=5.0)
    assert ask(retry, *[Transient("x")] * 5, "ok") == "ok"
    assert clock.waits == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_jitter_only_shortens() -> None:
    clock = Clock()
    assert ask(clock.retry(base=4.0, jitter=0.5, random=lambda: 1.0), Transient("x"), "ok") == "ok"
    assert clock.waits == [2.0]


def test_retry_after_is_a_lower_bound() -> None:
    clock = Clock()
    retry = clock.retry(base=1.0)
    assert ask(retry, Transient("x", retry_after=9.0), Transient("x", retry_after=0.1), "ok") == "ok"
    assert clock.waits == [9.0, 2.0]


def test_the_last_error_comes_out_when_attempts_run_out() -> None:
    clock = Clock()
    with pytest.raises(Transient, match="third"):
        ask(clock.retry(attempts=3), Transient("first"), Transient("second"), Transient("third"))


def test_no_attempt_starts_after_the_total() -> None:
    clock = Clock()
    with pytest.raises(Transient, match="second"):
        ask(clock.retry(base=4.0, total=10.0), Transient("first"), Transient("second"), "never asked")
    assert clock.waits == [4.0]
    with pytest.raises(Transient):
        ask(clock.retry(total=10.0), Transient("x", retry_after=60.0), "never asked")


@pytest.mark.parametrize("error", [Overflow("big"), ModelUnavailable("no key"), ModelError("bad request")])
def test_nothing_else_is_tried_again(error) -> None:
    clock = Clock()
    with pytest.raises(type(error)):
        ask(clock.retry(), error, "never asked")
    assert clock.waits == []


def test_retrying_model_tries_again_only_before_the_first_event() -> None:
    clock = Clock()
    model = Retrying(Scripted(Transient("x"), "Fine."), clock.retry())
    assert asyncio.run(complete(model, ASK)).text == "Fine."
    broken = Retrying(Scripted(fail(Transient("late"), "Half"), "never asked"), clock.retry())
    seen = []

    async def main() -> None:
        async for event in broken.stream(ASK):
            seen.append(event)  # noqa: PERF401

    with pytest.raises(Transient, match="late"):
        asyncio.run(main())
    assert seen[0] == TextDelta("Half")
