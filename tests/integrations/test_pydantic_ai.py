"""The capability for pydantic-ai, the real thing against the local server."""

from __future__ import annotations

import asyncio
from typing import Any

from refold import Hooks
from refold import messages as m
from refold.models.scripted import say
from refold.testing.wire import Http, WireServer
from tests import sdk
from tests.examples.kit import needs

needs("pydantic_ai")


def asked(server: WireServer, text: str, **about: Any) -> Any:
    """A run of an agent that goes on from what was said before."""
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def run() -> Any:
        async with sdk.openai.AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0) as client:
            model = OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, **about)
            return await agent.run(text, message_history=said_before(), conversation_id="mine")

    return asyncio.run(run())


def said_before() -> list[Any]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    said: list[Any] = []
    for number in range(20):
        prompt = [SystemPromptPart("Be kind.")] if number == 0 else []
        said.append(ModelRequest([*prompt, UserPromptPart(f"{number}? " + "What of it? " * 60)]))
        said.append(ModelResponse([TextPart(f"{number}! " + "So it is. " * 60)]))
    return said


def test_a_refusal_is_folded_and_system_prompts_stay_in_front() -> None:
    from refold.integrations.pydantic_ai import Refolding

    told: list[str] = []
    hooks = Hooks()
    hooks.on("after_compact", lambda event: told.append(event.session.id))
    refusal = Http.error(400, "prompt is too long: 7100 tokens > 3000 maximum")
    with WireServer(refusal, "Good.") as server:
        refolding = Refolding(window=200_000, hooks=hooks, recall=False)
        result = asked(server, "And now?", capabilities=[refolding])
        assert result.output == "Good."
        assert len(result.all_messages()) == 42, "the run keeps every message"
    first, second = server.bodies
    assert first["messages"][0]["content"] == second["messages"][0]["content"] == "Be kind."
    assert second["messages"][-1]["content"] == "And now?"
    assert len(str(second)) < len(str(first)) * 0.75
    assert told[0] == "mine"


def test_the_history_processor_gives_the_run_a_folded_history() -> None:
    from pydantic_ai import ModelRetry
    from pydantic_ai.capabilities import ProcessHistory

    from refold.integrations.pydantic_ai import Refolding

    def measure(length: int) -> str:
        if length < 1:
            raise ModelRetry("Only positive lengths.")
        return "42 cm"

    script = [
        say(m.thinking("Zero?"), m.call("c1", "measure", length=0)),
        say("Once more.", m.call("c2", "measure", length=1)),
        "42 cm",
    ]
    with WireServer(*script) as server:
        processor = ProcessHistory(Refolding(window=4000).process)
        result = asked(server, "Measure.", tools=[measure], capabilities=[processor])
        assert result.output == "42 cm"
    assert server.problems == []
    assert len(result.all_messages()) < 42
    assert "Only positive lengths." in str(server.bodies[-1])
    assert all(body["messages"][0]["content"] == "Be kind." for body in server.bodies)
