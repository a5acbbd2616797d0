"""What holds for every integration: the real client or framework against the local server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import entries as e
from refold.testing.wire import WireServer
from tests.examples.kit import installed
from tests.integrations.kit import LAST, SYSTEM, again, answer, check, killed, model, question
from tests.integrations.talk import WAYS

CLIENTS = ("chat", "responses", "messages")
"""What needs no more than the clients themselves, and so runs in `make test`, too."""
FRAMEWORKS = {
    "langchain": "langchain_openai",
    "langchain-async": "langchain_openai",
    "agents": "agents",
    "pydantic-ai": "pydantic_ai",
}
assert {*CLIENTS, *FRAMEWORKS} == set(WAYS)
LONG = pytest.mark.torture
"""Of the clients; a framework is not there in `make test`, and tested at length wherever it is."""


async def talk(talking: Any, turns: int) -> None:
    for number in range(turns):
        assert await talking.turn(question(number), stream=number % 2 == 1) == answer(number)


def two_conversations(way: str, store: str, turns: int, beside: int) -> None:
    """Both at the same time; at the end the first is asked for what it no longer sees."""

    async def at_once(server: WireServer) -> None:
        one, other = (WAYS[way](server.url, store, name) for name in ("one", "other"))
        await asyncio.gather(talk(one, turns), talk(other, beside))
        assert await one.turn(LAST, stream=False) == "heliotrope"
        await one.close()
        await other.close()

    with WireServer(then=model) as server:
        asyncio.run(at_once(server))
    check(server)
    assert all(SYSTEM in str(body) for body in server.bodies)
    for name, said in (("one", turns + 1), ("other", beside)):
        session = refold.open(store, id=name)
        assert len(session.turns) == said, "each message once"
        assert not session.annotations(e.Leaf), "and on one path"


@pytest.mark.slow
@pytest.mark.parametrize("way", CLIENTS)
def test_two_conversations_at_once_stay_inside_the_window(way: str, tmp_path: Path) -> None:
    two_conversations(way, f"sqlite:{tmp_path / 'agent.db'}", 18, 5)


@pytest.mark.parametrize("way", [*(pytest.param(way, marks=LONG) for way in CLIENTS), *FRAMEWORKS])
def test_200_turns_in_two_conversations_stay_inside_the_window(way: str, tmp_path: Path) -> None:
    installed(FRAMEWORKS.get(way, "openai"))
    two_conversations(way, f"sqlite:{tmp_path / 'agent.db'}", 200, 20)


RESUMED = (
    "chat",
    *(pytest.param(way, marks=LONG) for way in CLIENTS[1:]),
    "langchain",
    "agents",
    "pydantic-ai",
)


@pytest.mark.slow
@pytest.mark.parametrize("way", RESUMED)
def test_a_killed_conversation_goes_on_in_another_process(way: str, tmp_path: Path) -> None:
    installed(FRAMEWORKS.get(way, "openai"))
    store = f"sqlite:{tmp_path / 'agent.db'}"
    with WireServer(then=model) as server:
        said = killed(way, server.url, store, turns=16)
        assert said == [answer(number) for number in range(len(said))]
        assert again(way, server.url, store, len(said)) == answer(len(said))
    check(server)
    session = refold.open(store, id="killed")
    texts = [x.message.text for x in session.path if isinstance(x, e.MessageEntry)]
    assert all(answer(number) in texts for number in range(len(said) + 1))
    assert SYSTEM in str(server.bodies[-1])
