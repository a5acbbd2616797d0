"""A real model in this process. `make test-local` fetches the weights; without them these tests fail."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from refold.errors import ModelUnavailable, Overflow
from refold.messages import user
from refold.models.local import Local, weights
from refold.models.reply import complete
from refold.models.retry import NO_RETRY
from refold.protocols import Request

TALK = """User: The login page fails with error 500 when the password has an umlaut. Please fix it.
Assistant: I looked at auth.py. The password is encoded as latin-1 before hashing. I changed it to UTF-8.
User: Great, do the tests pass?
Assistant: Yes, all 14 tests in tests/test_auth.py pass now."""


@pytest.fixture(scope="module")
def smollm2() -> Local:
    return Local("smollm2", context_window=1024)


@pytest.mark.local
def test_a_real_local_model_writes_a_summary(smollm2) -> None:
    request = Request(
        messages=(user(f"{TALK}\n\nSummarise this conversation in two sentences."),),
        system="You write short factual summaries.",
        max_tokens=60,
        purpose="summary",
    )
    reply = asyncio.run(complete(smollm2, request, retries=NO_RETRY))
    assert len(reply.text.split()) >= 5
    assert reply.message.stop in ("end", "length")
    assert reply.usage is not None
    assert reply.usage.prompt > 60
    assert 0 < reply.usage.output <= 60


@pytest.mark.local
def test_too_large_a_request_is_overflow_and_names_the_window(smollm2) -> None:
    with pytest.raises(Overflow) as caught:
        asyncio.run(complete(smollm2, Request(messages=(user("word " * 3000),)), retries=NO_RETRY))
    assert caught.value.window == 1024


@pytest.mark.local
def test_cancelling_ends_the_work(smollm2) -> None:
    async def main() -> float:
        long = Request(messages=(user("Count from one to one thousand in words."),), max_tokens=700)
        first = asyncio.Event()

        async def read() -> None:
            async for _ in smollm2.stream(long):
                first.set()

        task = asyncio.ensure_future(read())
        await first.wait()
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begun

    assert asyncio.run(main()) < 10
    reply = asyncio.run(complete(smollm2, Request(messages=(user("Say hi."),), max_tokens=5)))
    assert reply.text


@pytest.mark.local
def test_same_request_same_answer(smollm2) -> None:
    request = Request(messages=(user("Name a colour."),), max_tokens=8)
    assert len({asyncio.run(complete(smollm2, request)).text for _ in range(2)}) == 1


def test_a_missing_file_says_so() -> None:
    with pytest.raises(ModelUnavailable, match="no such file"):
        weights("/nowhere/model.gguf")


def test_threads_leave_a_core_free(tmp_path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF")
    cores = os.cpu_count() or 2
    assert Local(str(path), threads=64)._threads == max(1, cores - 1)
    assert Local(str(path), threads=1)._threads == 1
    assert threading.active_count() < 50
