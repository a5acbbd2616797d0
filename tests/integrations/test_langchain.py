"""The middleware for LangChain and LangGraph, the real thing against the local server."""

from __future__ import annotations

from typing import Any

from refold import Hooks
from refold import messages as m
from refold.models.scripted import say
from refold.testing.wire import Http, WireServer
from tests.examples.kit import needs
from tests.integrations.kit import SYSTEM

needs("langgraph", "langchain", "langchain_openai")


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


def test_runs_that_name_no_thread_read_nothing_of_each_other() -> None:
    from langchain.agents import create_agent
    from langchain_core.messages import HumanMessage
    from langchain_openai import ChatOpenAI

    from refold.integrations.langchain import RefoldMiddleware

    call = m.call("c1", "recall_conversation", query="harbour called")
    with WireServer("Fine.", say("", call), "Good.") as server:
        chat = ChatOpenAI(model="gpt-5.4", base_url=server.v1, api_key="any", max_retries=0)
        agent = create_agent(chat, middleware=[RefoldMiddleware(window=200_000)])
        for text in ("My harbour is called Mauritius.", "What is my harbour called?"):
            agent.invoke({"messages": [HumanMessage(text)]})
        chat.root_client.close()
    assert "Mauritius" in str(server.bodies[0])
    assert "names no conversation" in str(server.bodies[2])
    assert "Mauritius" not in str(server.bodies[1:])
