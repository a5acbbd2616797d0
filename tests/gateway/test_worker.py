"""The worker: a process of its own, whose end stops nobody; folds that are prepared ahead; overflow in streams."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from refold import entries as e
from refold import messages as m
from refold.gateway import spool, worker, worker_client
from refold.gateway.ipc import WorkerFailure, WorkerSettings
from refold.models.scripted import ScriptedReply
from refold.registry.configuration import GatewaySettings
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_sessions import PATHS, ask, body, long_talk, said, sessions
from tests.soon import until
from tests.timing import alarm

LONG = "prompt is too long: 20000 tokens > 8000 maximum"
OPENINGS: dict[str, list[dict[str, Any]]] = {
    "openai": [],
    "responses": [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.in_progress", "response": {"id": "r"}},
    ],
    "anthropic": [{"type": "message_start", "message": {"id": "m", "usage": {}}}, {"type": "ping"}],
}
ERRORS: dict[str, dict[str, Any]] = {
    "openai": {"error": {"message": LONG, "code": "context_length_exceeded"}},
    "responses": {
        "type": "response.failed",
        "response": {"error": {"code": "context_length_exceeded", "message": LONG}},
    },
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": LONG}},
}


def test_a_worker_whose_tasks_have_just_ended_finishes() -> None:
    """From Python 3.12 on waiting for tasks that have ended does not let the loop take another round."""

    async def finish() -> None:
        started = worker.GatewayWorker(
            WorkerSettings(settings=GatewaySettings(upstream="http://127.0.0.1:9"), secret=b""),
            lambda _: None,
        )
        task = started._begin(asyncio.sleep(0))
        await task
        started._tasks.add(task)
        asyncio.get_running_loop().call_soon(started._tasks.discard, task)
        await started.finish()

    with alarm(120):
        asyncio.run(finish())


def events(*payloads: dict[str, Any]) -> list[bytes]:
    named = [(f"event: {each['type']}\n" if "type" in each else "", each) for each in payloads]
    return [f"{name}data: {json.dumps(each)}\n\n".encode() for name, each in named]


@pytest.mark.sample(2)
@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("dialect", PATHS)
def test_an_overflow_told_inside_of_a_stream_is_folded_and_tried_once_more(
    dialect: str, opened: bool
) -> None:
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        sizes.append(len(await request.read()))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        opening = OPENINGS[dialect] if opened else []
        for event in events(*opening, ERRORS[dialect]) if len(sizes) == 1 else [b"data: fine\n\n"]:
            await response.write(event)
            await asyncio.sleep(0.02)
        return response

    async def work() -> None:
        # Where the bytes are more than the window has tokens, it is held back until an answer begins.
        async with (
            upstream(answer) as url,
            gateway(url, window=30_000 if opened else 200_000) as (made, client),
        ):
            status, done, data = await ask(client, dialect, body(dialect, long_talk(8)))
            assert (status, data) == (200, b"data: fine\n\n") and done.endswith("retried")
            assert made.worker.counts["overflow"] == 1
        assert sizes[1] < sizes[0]

    run(work)


def test_an_error_after_something_was_said_is_handed_on() -> None:
    text = events(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ERRORS["anthropic"],
    )

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in text:
            await response.write(event)
        return response

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=30_000) as (_, client):
            _, _, data = await ask(client, "anthropic", body("anthropic", long_talk(8)))
            assert data == b"".join(text)

    run(work)


@pytest.mark.slow
def test_a_desk_that_dies_stops_nobody_and_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "AGAIN_SECONDS", 0.1)
    pids: list[int] = []
    start = worker_client._process

    def process(there: Any) -> Any:
        worker = start(there)
        pids.append(worker.join.__self__.pid)
        return worker

    monkeypatch.setattr(worker_client, "_process", process)

    async def work() -> None:
        store = f"sqlite:{tmp_path / 'a.db'}"
        async with gateway(server.url, in_process=True, store=store, window=16_000) as (made, client):
            _, done, _ = await ask(client, "openai", body("openai", long_talk(8)))
            assert done.startswith("fold")
            os.kill(pids[0], signal.SIGKILL)
            await until(lambda: bool(made.worker.counts["worker_lost"]))
            _, done, _ = await ask(client, "openai", body("openai", [("user", "x")]))
            assert done == "pass"
            status, _, data = await ask(client, "openai", body("openai", long_talk(60)))
            assert status == 503 and json.loads(data)["error"]["code"] == "try_again"
            await until(lambda: len(pids) > 1)
            _, done, _ = await ask(client, "openai", body("openai", long_talk(8)))
            assert done.startswith("fold")
        assert made.worker.counts["unrecorded"] == 0

    with WireServer("One.", "Two.", "Three.") as server:
        run(work)
    [session] = [each for each in sessions(tmp_path / "a.db") if len(each) > 5]
    assert [text for role, text in said(session) if role == "user"].count("And now the last question.") == 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_desk_lets_go_of_the_line_at_its_end(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    """Also where it fails then, and with what it said last: nobody waits for a line that nobody holds."""
    said = WorkerFailure(number=1, error="x" * 4_000_000, counts=("last",))
    settings = GatewaySettings(upstream="http://127.0.0.1:1", store="memory:", window=100_000)
    opening = WorkerSettings(settings=settings, secret=b"")
    errors: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.append(args.exc_type))

    async def finish(self: worker.GatewayWorker) -> None:
        self._send(said)  # pyright: ignore[reportPrivateUsage]
        if fails:
            raise MemoryError("no more")

    async def work() -> None:
        line = worker_client.WorkerClient(opening, in_process=False)
        await line.open()
        await line.close()
        assert line.counts["last"] == 1

    monkeypatch.setattr(worker.GatewayWorker, "finish", finish)
    run(work)
    assert errors == ([MemoryError] if fails else [])


def test_too_much_that_waits_in_memory_is_not_taken_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MEMORY", 10)

    async def work() -> None:
        async with gateway(server.url) as (made, client):
            status, _, _ = await ask(client, "openai", body("openai", [("user", "x")]))
            assert status == 200
            assert made.worker.counts["unrecorded"] == 2

    with WireServer("One.") as server:
        run(work)


def test_a_fold_is_prepared_ahead_and_published_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R12: the summary is written after the reply that passed the soft threshold, before anybody needs it."""
    config = tmp_path / "refold.toml"
    monkeypatch.setenv("REFOLD_CONFIG", str(config))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    talk = long_talk(9)

    def answer(asked: dict[str, Any]) -> Any:
        if "summary-model" in asked["model"]:
            written.append(len(server.requests))
            return SUMMARY
        return "Fine."

    async def work() -> None:
        settings = {"store": f"sqlite:{tmp_path / 'a.db'}", "window": 36_000}
        async with gateway(server.url, **settings) as (_, client):
            _, done, _ = await ask(client, "openai", body("openai", talk))
            assert done == "pass"
            await until(lambda: bool(written))
            await asyncio.sleep(0.1)
            before = len(written)
            more = [*talk, ("assistant", "Fine."), *long_talk(2)]
            _, done, _ = await ask(client, "openai", body("openai", more))
            assert done.startswith("fold") and before and len(written) == before

    written: list[int] = []
    with WireServer(then=answer) as server:
        config.write_text(
            f'summariser = "openai:summary-model"\n[providers.openai]\nbase_url = "{server.v1}"\n'
        )
        run(work)
    [session] = sessions(tmp_path / "a.db")
    assert session.annotations(e.Fold)


SUMMARY = ScriptedReply(
    content=(m.Text("## Goal\nAnswer questions about values.\n## Progress\nQuestions 0 to 8 were answered."),)
)
