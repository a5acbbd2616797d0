"""The examples of frameworks: a conversation stays inside, and what left the view is recalled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import refold
from refold import messages as m
from refold.models.scripted import say
from refold.recall import tool as recall_tool
from refold.testing.wire import WireServer
from tests import sdk
from tests.examples.kit import SECRET, WINDOW, answer, check, example, installed, question

TURNS = 14
RECALL = m.call("r1", recall_tool.NAME, query="code word of the vault")
Talk = Callable[[WireServer, list[str]], list[str]]


def wrapped(server: WireServer, texts: list[str]) -> list[str]:
    client = refold.wrap(sdk.openai.OpenAI(base_url=server.v1, api_key="any", max_retries=0), window=WINDOW)
    answers = [example("wrapped_client").turn(client, text) for text in texts]
    client.close()
    return answers


def langgraph(server: WireServer, texts: list[str]) -> list[str]:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-5.4", base_url=server.v1, api_key="any", max_retries=0)
    agent = example("langgraph_agent").make_agent(model, window=WINDOW, store="memory:")
    thread = {"configurable": {"thread_id": "t"}}
    states = [agent.invoke({"messages": [{"role": "user", "content": text}]}, thread) for text in texts]
    model.root_client.close()
    return [state["messages"][-1].content for state in states]


def openai_agents(server: WireServer, texts: list[str]) -> list[str]:
    from agents import OpenAIResponsesModel, set_tracing_disabled

    from refold.integrations.openai_agents import RefoldSession

    set_tracing_disabled(True)
    module = example("openai_agents")

    async def talk() -> list[str]:
        async with sdk.openai.AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            session = RefoldSession("s", window=WINDOW)
            agent = module.make_agent(OpenAIResponsesModel("gpt-5.4", client), session)
            return [await module.turn(agent, session, text) for text in texts]

    return asyncio.run(talk())


def pydantic_ai(server: WireServer, texts: list[str]) -> list[str]:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from refold.integrations.pydantic_ai import Refolding

    async def talk() -> list[str]:
        async with sdk.openai.AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            model = OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=client))
            agent = example("pydantic_ai_agent").make_agent(model, Refolding(window=WINDOW))
            history, answers = [], []
            for text in texts:
                result = await agent.run(text, message_history=history, conversation_id="c")
                history = result.all_messages()
                answers.append(result.output)
            return answers

    return asyncio.run(talk())


@pytest.mark.parametrize(
    ("package", "talk"),
    [
        ("openai", wrapped),
        ("langchain_openai", langgraph),
        ("agents", openai_agents),
        ("pydantic_ai", pydantic_ai),
    ],
)
def test_a_conversation_stays_inside_and_what_left_it_is_recalled(package: str, talk: Talk) -> None:
    installed(package)
    texts = [*map(question, range(TURNS)), "What is the code word?"]
    with WireServer(*map(answer, range(TURNS)), say("I will look.", RECALL), "heliotrope") as server:
        assert talk(server, texts) == [*map(answer, range(TURNS)), "heliotrope"]
    check(server, least=TURNS + 2)
    last = server.bodies[-1]
    assert SECRET in str((last.get("messages") or last["input"])[-1])
