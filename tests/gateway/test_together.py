"""Several gateways on one store, asked for one conversation at the same time: nothing goes unrecorded."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from refold import entries as e
from refold.errors import Conflict
from refold.gateway.open_sessions import OpenSession, OpenSessions
from refold.gateway.requests import ConversationRequest
from refold.protocols import SessionInfo
from refold.stores.sqlite import SqliteStore
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import KEYS
from tests.gateway.test_sessions import ask, body, said, sessions

Talk = list[tuple[str, str]]


async def answer(request: web.Request) -> web.Response:
    """Says which question it answers, so that every answer is one of its own."""
    asked = json.loads(await request.read())["messages"]
    message = {"role": "assistant", "content": f"Answer to: {asked[-1]['content']}"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return web.json_response({"id": "c", "model": "m", "choices": [choice], "usage": usage})


def together(folder: Path, rounds: int, seed: int) -> None:
    """Each round both are asked at once: for the same list, for two lists that part here, or the second for
    what comes after the answer of the first, without waiting until that was written down."""
    chance, asked, talk = random.Random(seed), set[str](), Talk()
    store = f"sqlite:{folder / 'a.db'}"

    async def say(client: ClientSession, before: Talk, text: str) -> Talk:
        asked.add(text)
        status, _, _ = await ask(client, "openai", body("openai", [*before, ("user", text)], stream=False))
        assert status == 200
        return [*before, ("user", text), ("assistant", f"Answer to: {text}")]

    async def work() -> None:
        nonlocal talk
        named = {"X-Refold-Session": "one", "x-refold-key": "secret-of-ann"}
        shared: dict[str, Any] = {"store": store, "keys": KEYS}
        async with upstream(answer) as url, gateway(url, **shared) as (one, first), gateway(url, **shared) as (two, second):  # fmt: skip
            for client in (first, second):
                client.headers.update(named)
            for number in range(rounds):
                kind = chance.choice(("same", "part", "after"))
                clients = chance.sample((first, second), 2)
                if kind == "after":
                    for client in clients:
                        talk = await say(client, talk, f"{number} {client is first}")
                    continue
                texts = [f"{number}"] * 2 if kind == "same" else [f"{number} left", f"{number} right"]
                talks = [say(client, talk, text) for client, text in zip(clients, texts, strict=True)]
                talk = (await asyncio.gather(*talks))[0]
        assert one.worker.counts["unrecorded"] + two.worker.counts["unrecorded"] == 0

    run(work)
    [session] = sessions(folder / "a.db")
    written = [x.message for x in session.entries if isinstance(x, e.MessageEntry)]
    counts = Counter((message.role, message.text) for message in written)
    for text in asked:
        assert counts["user", text] == 1, text
        assert counts["assistant", f"Answer to: {text}"] == 1, text
    ends = [session.path_to(x.id) for x in session.entries if isinstance(x, e.MessageEntry)]
    told = [
        [(x.message.role, x.message.text) for x in path if isinstance(x, e.MessageEntry)] for path in ends
    ]
    assert talk in told
    assert said(session)


def test_two_gateways_that_are_asked_at_once_write_everything_down(tmp_path: Path) -> None:
    together(tmp_path, 25, seed=1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
def test_two_gateways_that_are_asked_at_once_many_times(seed: int, tmp_path: Path) -> None:
    together(tmp_path, 60, seed)


def test_what_is_tried_again_keeps_its_turn_and_a_session_made_just_now_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where others of the same process went in between, two programs could be in each other's way for ever."""
    spec, order = f"sqlite:{tmp_path / 'a.db'}", list[str]()
    asked = ConversationRequest("openai", {}, [], [], "one")

    async def once(name: str, conflicts: int) -> str:
        left = conflicts

        async def write(_: OpenSession) -> str:
            nonlocal left
            order.append(name)
            left -= 1
            if left >= 0:
                raise Conflict("a", "b")
            return name

        return await open_sessions.within(asked, write)

    async def work() -> None:
        assert await asyncio.gather(once("first", 3), once("second", 0)) == ["first", "second"]
        await open_sessions.close()

    create = SqliteStore.create

    def late(store: SqliteStore, info: SessionInfo) -> None:
        create(SqliteStore(store.path), info)  # another program's
        create(store, info)

    open_sessions = OpenSessions(spec)
    monkeypatch.setattr(SqliteStore, "create", late)
    run(work)
    assert order == ["first"] * 4 + ["second"]
