"""refold under the OpenAI Agents SDK: the runner asks it what to send before every call of the model.

    OPENAI_API_KEY=… python examples/openai_agents.py

The items of the SDK are OpenAI's response items, which refold reads and writes: there is nothing to convert.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner
from agents.run import CallModelData, ModelInputData

import refold
from refold import Engine, Session, presets
from refold import messages as m
from refold.recall import index_of
from refold.recall import tool as recall_tool


class Conversation:
    """A conversation with an agent that can go on for ever. It takes the place of the SDK's own sessions."""

    def __init__(self, agent: Agent[Any], engine: Engine, session: Session, *, max_turns: int = 50) -> None:
        self.agent = agent.clone(tools=[*agent.tools, self.recall()])
        self.engine = engine
        self.session = session
        self.max_turns = max_turns

    async def turn(self, text: str, **options: Any) -> Any:
        self.session.append(m.user(text))
        config = RunConfig(call_model_input_filter=self.shown, **options)
        start: Any = self.engine.view(self.session).to_responses()
        result = await Runner.run(self.agent, start, run_config=config, max_turns=self.max_turns)
        self.session.merge(result.to_input_list())
        return result.final_output

    async def shown(self, data: CallModelData[Any]) -> ModelInputData:
        """What the runner would send goes in; what fits comes out, the instructions in front."""
        self.session.merge(data.model_data.input)
        view = await self.engine.prepare(self.session, system=data.model_data.instructions)
        items: Any = view.to_responses()
        return ModelInputData(input=items, instructions=None)

    def recall(self) -> FunctionTool:
        """A tool with which the model reads what it no longer sees."""

        async def answer(_: Any, arguments: str) -> str:
            return recall_tool.answer(index_of(self.session), json.loads(arguments))

        spec = recall_tool.SPEC
        schema = dict(spec.parameters)
        return FunctionTool(spec.name, spec.description, schema, answer, strict_json_schema=False)


async def main() -> None:
    session = refold.open("sqlite:agent.db", id="openai-agents")
    agent = Agent(name="Assistant", instructions="You are a helpful assistant.", model="gpt-5.4")
    conversation = Conversation(agent, Engine(presets.get("refold", window=272_000)), session)
    while text := await asyncio.to_thread(input, "> "):
        print(await conversation.turn(text))


if __name__ == "__main__":
    asyncio.run(main())
