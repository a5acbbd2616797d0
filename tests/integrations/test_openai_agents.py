"""The session for the OpenAI Agents SDK, the real thing against the local server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import refold
from refold import Hooks
from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.testing.wire import WireServer
from tests.examples.kit import needs
from tests.integrations.kit import WINDOW, check, page

needs("agents")


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


STEPS = 40


def test_a_run_of_many_calls_is_folded_while_it_runs(tmp_path: Path) -> None:
    """The SDK asks a session for its history once a run: what comes during the run goes through the filter."""
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool
    from openai import AsyncOpenAI

    from refold.integrations.openai_agents import RefoldSession

    folds: list[int] = []
    hooks = Hooks()
    hooks.on("after_compact", lambda _: folds.append(len(server.bodies)))
    store = f"sqlite:{tmp_path / 'agent.db'}"

    @function_tool
    def look(number: int, side: str) -> str:
        """A page of the plan."""
        return page(number, side)

    async def run() -> list[str]:
        async with AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            session = RefoldSession("long", window=WINDOW, store=store, hooks=hooks)
            agent: Any = Agent(name="Assistant", model=OpenAIResponsesModel("gpt-5.4", client), tools=[look])
            config: Any = {"session": session, "run_config": session.run_config(tracing_disabled=True)}
            first = await Runner.run(agent, "Look at every part.", max_turns=STEPS + 1, **config)
            second = await Runner.run(agent, "Thanks.", **config)
            return [first.final_output, second.final_output]

    steps = [
        say(
            f"Part {number}.",
            m.call(f"a{number}", "look", number=number, side="left"),
            m.call(f"b{number}", "look", number=number, side="right"),
            usage=m.Usage(input=9, output=9),
        )
        for number in range(STEPS)
    ]
    with WireServer(*steps, "All is well.", "You are welcome.") as server:
        assert asyncio.run(run()) == ["All is well.", "You are welcome."]
    check(server)
    assert len([at for at in folds if 0 < at < STEPS]) >= 2, "in the middle of the first run"
    session = refold.open(store, id="long")
    assert not session.annotations(e.Leaf), "on one path"
    said = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    assert len(said) == 1 + 3 * STEPS + 1 + 2, "each message once"
    results = [x for x in said if isinstance(x, m.Result)]
    assert [x.text for x in results] == [page(n, side) for n in range(STEPS) for side in ("left", "right")]
