"""refold under the OpenAI Agents SDK, the real thing against the local server."""

from __future__ import annotations

import asyncio
import json

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.recall import tool as recall_tool
from refold.testing.wire import WireServer
from tests.examples.kit import SECRET, WINDOW, answer, check, example, needs, question

needs("agents")

TURNS = 14
RECALL = m.call("r1", recall_tool.NAME, query="code word of the vault")


def test_a_conversation_goes_on_for_ever() -> None:
    session = Session()

    async def talk(server: WireServer) -> str:
        from agents import Agent, OpenAIResponsesModel, function_tool
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0)

        @function_tool
        def look(number: int) -> str:
            return f"Page {number}: " + "nothing new here, " * 150

        agent = Agent(
            name="Assistant",
            instructions="You are a helpful agent.",
            model=OpenAIResponsesModel("gpt-5.4", client),
            tools=[look],
        )
        engine = Engine(presets.get("refold", window=WINDOW))
        conversation = example("openai_agents").Conversation(agent, engine, session)
        for number in range(TURNS):
            assert await conversation.turn(question(number), tracing_disabled=True) == answer(number)
        await conversation.turn("Look at all pages.", tracing_disabled=True)  # folds in the middle of a run
        found = await conversation.turn("What is the code word?", tracing_disabled=True)
        await client.close()
        return found

    pages = [say(m.call(f"p{n}", "look", number=n)) for n in range(12)]
    script = [*map(answer, range(TURNS)), *pages, "Seen.", say("I will look.", RECALL), "heliotrope"]
    with WireServer(*script) as server:
        assert asyncio.run(talk(server)) == "heliotrope"
    check(server, least=len(script))
    assert SECRET in json.dumps(server.bodies[-1]["input"][-1])
    said = [x for x in session.entries if isinstance(x, e.MessageEntry)]
    assert len(said) == 2 * TURNS + (1 + 24 + 1) + 4, "each message once"
    assert not session.annotations(e.Leaf), "and on one path"
    assert len(session.annotations(e.Fold)) > 2
