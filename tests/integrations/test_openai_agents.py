"""The session for the OpenAI Agents SDK, the real thing against the local server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import refold
from refold import Hooks
from refold import entries as e
from refold.testing.wire import WireServer
from tests.examples.kit import needs
from tests.integrations.kit import LAST, WINDOW, again, answer, check, killed, model, question
from tests.integrations.talk import WAYS

needs("agents")


def test_200_turns_in_two_conversations_stay_inside_the_window(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'agent.db'}"

    async def talk(talking: Any, turns: int) -> None:
        for number in range(turns):
            assert await talking.turn(question(number), stream=number % 2 == 1) == answer(number)

    async def both(server: WireServer) -> None:
        one, other = (WAYS["agents"](server.url, store, name) for name in ("one", "other"))
        await asyncio.gather(talk(one, 200), talk(other, 20))
        assert await one.turn(LAST, stream=False) == "heliotrope"
        await one.close()
        await other.close()

    with WireServer(then=model) as server:
        asyncio.run(both(server))
    check(server)
    for name, turns in (("one", 201), ("other", 20)):
        session = refold.open(store, id=name)
        assert len(session.turns) == turns, "each message once"
        assert not session.annotations(e.Leaf), "and on one path"


def test_a_killed_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'agent.db'}"
    with WireServer(then=model) as server:
        said = killed("agents", server.url, store, turns=16)
        assert said == [answer(number) for number in range(len(said))]
        assert again("agents", server.url, store, len(said)) == answer(len(said))
    check(server)


def test_the_protocol_of_the_sdk(tmp_path: Path) -> None:
    from agents import Session

    from refold.integrations.openai_agents import RefoldSession

    folded: list[str] = []
    hooks = Hooks()
    hooks.on("after_compact", lambda event: folded.append(event.session.id))
    store = f"sqlite:{tmp_path / 'agent.db'}"

    async def use() -> None:
        session = RefoldSession("mine", window=WINDOW, store=store, hooks=hooks)
        assert isinstance(session, Session)
        assert await session.pop_item() is None
        items: Any = [{"role": "user", "content": "One."}, {"role": "assistant", "content": "Two."}]
        await session.add_items(items)
        await session.add_items([{"role": "user", "content": "One."}])
        assert len(await session.get_items()) == 3
        assert [item["content"] for item in await session.get_items(1)] in (["One."],)
        same = RefoldSession("mine", window=WINDOW, store=store)
        assert len(await same.get_items()) == 3
        newest: Any = await session.pop_item()
        assert newest["content"] == "One."
        await session.add_items([{"role": "user", "content": "Three. " * 9000}])
        await session.add_items(
            [{"role": "assistant", "content": "Four."}, {"role": "user", "content": "Five."}]
        )
        assert len(str(await session.get_items())) < 60_000
        await session.clear_session()
        assert await session.get_items() == []
        assert len(await RefoldSession("other", store=store).get_items()) == 0

    asyncio.run(use())
    assert folded == ["mine"] * len(folded) != []
    session = refold.open(store, id="mine")
    said = [x.message.text for x in session.entries if isinstance(x, e.MessageEntry)]
    assert said[:3] == ["One.", "Two.", "One."], "the log keeps what was taken back"
