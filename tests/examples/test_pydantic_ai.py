"""refold as history processor of pydantic-ai, the real thing against the local server."""

from __future__ import annotations

import asyncio
from typing import Any

from openai import AsyncOpenAI

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.recall import tool as recall_tool
from refold.testing.wire import WireServer
from tests.examples.kit import SECRET, WINDOW, answer, check, example, needs, question

needs("pydantic_ai")

TURNS = 14
RECALL = m.call("r1", recall_tool.NAME, query="code word of the vault")


def agent_for(client: AsyncOpenAI, session: Session, window: int = WINDOW) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.capabilities import ProcessHistory
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    folding = example("pydantic_ai_agent").Folding(Engine(presets.get("refold", window=window)), session)
    return Agent(
        OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=client)),
        instructions="You are a helpful agent.",
        tools=[folding.recall()],
        capabilities=[ProcessHistory(folding)],
    )


def test_a_long_conversation_stays_inside_and_is_recorded_once() -> None:
    session = Session()

    async def talk(server: WireServer) -> str:
        async with AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            agent, history = agent_for(client, session), []
            for number in range(TURNS):
                result = await agent.run(question(number), message_history=history)
                assert result.output == answer(number)
                history = result.all_messages()
            return (await agent.run("What is the code word?", message_history=history)).output

    with WireServer(*map(answer, range(TURNS)), say("I will look.", RECALL), "heliotrope") as server:
        assert asyncio.run(talk(server)) == "heliotrope"
    check(server, least=TURNS + 2)
    assert all("You are a helpful agent." in str(body["messages"][0]) for body in server.bodies)
    assert SECRET in server.bodies[-1]["messages"][-1]["content"]
    said = [x for x in session.entries if isinstance(x, e.MessageEntry)]
    assert len(said) == 2 * TURNS + 3
    assert not session.annotations(e.Leaf)


def test_failing_tools_and_thinking_pass_through() -> None:
    from pydantic_ai import ModelRetry

    session = Session()

    async def talk(server: WireServer) -> str:
        def measure(length: int) -> str:
            if length < 1:
                raise ModelRetry("Only positive lengths.")
            return "42 cm"

        async with AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            agent = agent_for(client, session, 200_000)
            agent.tool_plain(measure)
            return (await agent.run("Measure it.")).output

    script = [
        say(m.thinking("Zero?"), m.call("c1", "measure", length=0)),
        say("Once more.", m.call("c2", "measure", length=1)),
        "42 cm",
    ]
    with WireServer(*script) as server:
        assert asyncio.run(talk(server)) == "42 cm"
    assert server.problems == []
    results = [x.message for x in session.path if isinstance(x, e.MessageEntry) and x.message.role == "tool"]
    assert [(r.call_id, r.is_error) for r in results] == [("c1", True), ("c2", False)]  # type: ignore[union-attr]
    assert "Only positive lengths." in results[0].text
