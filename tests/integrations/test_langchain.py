"""The middleware for LangChain and LangGraph, the real thing against the local server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Hooks
from refold import entries as e
from refold.testing.wire import Http, WireServer
from tests.examples.kit import needs
from tests.integrations.kit import LAST, SYSTEM, again, answer, check, killed, model, question
from tests.integrations.talk import WAYS

needs("langgraph", "langchain", "langchain_openai")


@pytest.mark.parametrize("way", ["langchain", "langchain-async"])
def test_200_turns_in_two_threads_stay_inside_the_window(way: str, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'agent.db'}"

    async def talk(talking: Any, turns: int) -> None:
        for number in range(turns):
            assert await talking.turn(question(number), stream=number % 2 == 1) == answer(number)

    async def both(server: WireServer) -> None:
        one, other = (WAYS[way](server.url, store, name) for name in ("one", "other"))
        await asyncio.gather(talk(one, 200), talk(other, 20))
        assert await one.turn(LAST, stream=False) == "heliotrope"
        await one.close()
        await other.close()

    with WireServer(then=model) as server:
        asyncio.run(both(server))
    check(server)
    assert all(body["messages"][0] == {"role": "system", "content": SYSTEM} for body in server.bodies)
    for name, turns in (("one", 201), ("other", 20)):
        session = refold.open(store, id=name)
        assert len(session.turns) == turns, "each message once"
        assert not session.annotations(e.Leaf), "and on one path"


def test_a_killed_thread_goes_on_in_another_process(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 'agent.db'}"
    with WireServer(then=model) as server:
        said = killed("langchain", server.url, store, turns=16)
        assert said == [answer(number) for number in range(len(said))]
        assert again("langchain", server.url, store, len(said)) == answer(len(said))
    check(server)


def test_a_graph_of_ones_own_asks_what_to_send_and_a_refusal_is_folded() -> None:
    from langchain.agents import create_agent
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph

    from refold.integrations.langchain import RefoldMiddleware

    told: list[str] = []
    hooks = Hooks()
    hooks.on("after_compact", lambda event: told.append(event.session.id))
    said: list[Any] = []
    for number in range(20):
        said += [
            HumanMessage(f"{number}? " + "What of it? " * 60),
            AIMessage(f"{number}! " + "So it is. " * 60),
        ]
    said.append(HumanMessage("And now?"))
    refusal = Http.error(400, "prompt is too long: 7100 tokens > 3000 maximum")
    with WireServer("Fine.", refusal, "Good.") as server:
        chat = ChatOpenAI(model="gpt-5.4", base_url=server.v1, api_key="any", max_retries=0)
        folding = RefoldMiddleware(window=4000, hooks=hooks)

        def call_model(state: MessagesState) -> dict[str, Any]:
            return {"messages": [chat.invoke(folding.shown(state["messages"], system=SYSTEM))]}

        graph = StateGraph(MessagesState)
        graph.add_node("model", call_model)
        graph.add_edge(START, "model")
        state = graph.compile().invoke({"messages": said}, {"configurable": {"thread_id": "mine"}})
        assert state["messages"][-1].content == "Fine."

        wide = RefoldMiddleware(window=200_000, recall=False)
        agent = create_agent(chat, middleware=[wide])
        prompted = [SystemMessage("Be kind."), *said]
        assert agent.invoke({"messages": prompted})["messages"][-1].content == "Good."
        chat.root_client.close()
    assert told[0] == "mine"
    own, first, second = server.bodies
    assert own["messages"][0]["content"] == SYSTEM
    assert own["messages"][-1]["content"] == "And now?"
    assert first["messages"][0]["content"] == second["messages"][0]["content"] == "Be kind."
    assert len(str(second)) < len(str(first)) * 0.75
