"""Nothing waits for ever: a store that others have locked, and a worker that does not answer, are in the way of
those alone who need them, and they are told to try again."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest

from refold.gateway import open_sessions, worker_client
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run
from tests.gateway.test_sessions import ask, body, long_talk
from tests.soon import until


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the workers that were started."""
    start, found = worker_client._process, list[int]()

    def process(there: Any) -> Any:
        worker = start(there)
        found.append(worker.join.__self__.pid)
        return worker

    monkeypatch.setattr(worker_client, "_process", process)
    monkeypatch.setattr(worker_client, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(worker_client, "DEAD_SECONDS", 8.0)
    monkeypatch.setattr(worker_client, "WORKER_END_SECONDS", 2.0)
    return found


@pytest.mark.slow
def test_a_worker_that_does_not_answer_is_replaced(pids: list[int], dialect: str = "openai") -> None:
    async def work() -> None:
        async with gateway(server.url, in_process=True, window=16_000) as (_, client):
            _, done, _ = await ask(client, dialect, body(dialect, long_talk(8)))
            assert done.startswith("fold")
            os.kill(pids[0], signal.SIGSTOP)
            status, _, data = await asyncio.wait_for(ask(client, dialect, body(dialect, long_talk(60))), 30)
            told = json.loads(data)["error"]
            assert status == 503 and "try again" in told["message"] and told["code"] == "try_again"
            await until(lambda: len(pids) > 1)
            _, done, _ = await ask(client, dialect, body(dialect, long_talk(8)))
            assert done.startswith("fold")

    with WireServer("One.", "Two.", "Three.", "Four.") as server:
        run(work)


@pytest.mark.slow
def test_a_stopped_worker_does_not_keep_the_gateway_from_ending(pids: list[int]) -> None:
    async def work() -> None:
        async with gateway(server.url, in_process=True, window=16_000) as (_, client):
            await ask(client, "openai", body("openai", long_talk(8)))
            os.kill(pids[0], signal.SIGSTOP)

    with WireServer("One.", "Two.") as server:
        run(lambda: asyncio.wait_for(work(), 90))


@pytest.mark.slow
def test_while_the_store_is_locked_what_fits_passes_and_the_rest_is_told_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_sessions.OpenSessions.within, "__defaults__", (1.0,))
    path = tmp_path / "a.db"

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{path}", window=16_000) as (_, client):
            await ask(client, "openai", body("openai", long_talk(8)))
            other = apsw.Connection(str(path))  # locks hold between connections of one library
            other.set_busy_timeout(5_000)
            other.execute("BEGIN IMMEDIATE")
            other.execute("CREATE TABLE somebody_else (x)")
            long = [
                ask(client, "openai", body("openai", [("user", f"{n}?"), *long_talk(60)])) for n in range(3)
            ]
            short = [ask(client, "openai", body("openai", [("user", f"{n}?")])) for n in range(3)]
            answers = await asyncio.wait_for(asyncio.gather(*short, *long), 30)
            assert {status for status, _, _ in answers[:3]} == {200}
            for status, done, data in answers[3:]:
                assert status == 503 and done == "refused try_again" and b"try again" in data
            other.execute("ROLLBACK")
            other.close()
            _, done, _ = await ask(client, "openai", body("openai", [("user", "0?"), *long_talk(60)]))
            assert done.startswith("fold")

    with WireServer(*(["Fine."] * 20)) as server:
        run(work)


def test_a_locked_session_is_in_nobody_elses_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_sessions.OpenSessions.within, "__defaults__", (20.0,))
    folder = tmp_path / "sessions"
    folder.mkdir()

    async def work() -> None:
        async with gateway(server.url, store=f"jsonl:{folder}", window=16_000) as (_, client):
            await ask(client, "openai", body("openai", long_talk(8)))
            [first] = folder.glob("*.jsonl")
            with first.open("rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                blocked = asyncio.ensure_future(ask(client, "openai", body("openai", long_talk(9))))
                await asyncio.sleep(0.3)
                _, done, _ = await ask(client, "openai", body("openai", [("user", "Else?"), *long_talk(8)]))
                assert done.startswith("fold")
                assert not blocked.done()
            _, done, _ = await blocked
            assert done.startswith("fold")

    with WireServer(*(["Fine."] * 20)) as server:
        run(work)
