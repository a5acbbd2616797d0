"""refold under LangGraph, the real thing against the local server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.recall import tool as recall_tool
from refold.testing.wire import WireServer
from tests.examples.kit import SECRET, WINDOW, answer, check, example, needs, question

needs("langgraph", "langchain", "langchain_openai")

TURNS = 14
RECALL = m.call("r1", recall_tool.NAME, query="code word of the vault")


@pytest.mark.parametrize("way", ["own_graph", "ready_made"])
def test_the_state_keeps_everything_and_the_model_sees_what_fits(way: str) -> None:
    from langchain_openai import ChatOpenAI

    module, session = example("langgraph_agent"), Session()

    async def talk(server: WireServer) -> Any:
        folding = module.Folding(Engine(presets.get("refold", window=WINDOW)), session)
        model = ChatOpenAI(model="gpt-5.4", base_url=server.v1, api_key="any", max_retries=0)
        agent = getattr(module, way)(model, folding, [folding.recall()], "You are a helpful agent.")
        state: dict[str, Any] = {"messages": []}
        for number in range(TURNS):
            new = {"role": "user", "content": question(number)}
            state = await agent.ainvoke({"messages": [*state["messages"], new]})
            assert state["messages"][-1].content == answer(number)
        new = {"role": "user", "content": "What is the code word?"}
        state = await agent.ainvoke({"messages": [*state["messages"], new]})
        await model.root_async_client.close()
        return state

    with WireServer(*map(answer, range(TURNS)), say("I will look.", RECALL), "heliotrope") as server:
        state = asyncio.run(talk(server))
    check(server, least=TURNS + 2)
    assert len(state["messages"]) == 2 * TURNS + 4
    assert [body["messages"][0]["role"] for body in server.bodies] == ["system"] * (TURNS + 2)
    assert SECRET in server.bodies[-1]["messages"][-1]["content"]
    assert session.annotations(e.Fold)
    said = [x for x in session.entries if isinstance(x, e.MessageEntry)]
    assert len(said) == 2 * TURNS + 3, "each message once, on one path; the last answer has not come back yet"
    assert not session.annotations(e.Leaf)
