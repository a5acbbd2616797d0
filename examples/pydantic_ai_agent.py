"""refold as the history processor of a pydantic-ai agent.

    OPENAI_API_KEY=… python examples/pydantic_ai_agent.py

pydantic-ai asks its history processors before every request and keeps what they return as the history. So the
next run hands back our own summaries, and `session.merge` recognises them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import refold
from refold import Engine, Session, presets
from refold import messages as m
from refold.recall import index_of
from refold.recall import tool as recall_tool


class Folding:
    """A history processor: `Agent(…, capabilities=[ProcessHistory(folding)])`."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.engine = engine
        self.session = session

    async def __call__(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        newest = messages[-1]
        system = newest.instructions if isinstance(newest, ModelRequest) else None
        provider = ctx.model.system if ctx.model else None
        self.session.merge(taken(messages))
        view = await self.engine.prepare(self.session, system=system)
        return list(given(view.messages, system, provider))

    def recall(self) -> Tool[Any]:
        """A tool with which the model reads what it no longer sees."""

        def answer(**arguments: Any) -> str:
            return recall_tool.answer(index_of(self.session), arguments)

        spec = recall_tool.SPEC
        return Tool.from_schema(answer, spec.name, spec.description, dict(spec.parameters))


def taken(messages: Sequence[ModelMessage]) -> Iterator[m.Message]:
    """pydantic-ai's messages as ours. System prompts stay with the agent."""
    for message in messages:
        if isinstance(message, ModelResponse):
            yield m.Assistant(tuple(_said(message)))
            continue
        for part in message.parts:
            match part:
                case UserPromptPart(content=str(text)):
                    yield m.user(text)
                case UserPromptPart(content=content):
                    yield m.user([text for text in content if isinstance(text, str)])
                case ToolReturnPart():
                    failed = part.outcome != "success"
                    text = part.model_response_str()
                    yield m.result(part.tool_call_id, text, name=part.tool_name, is_error=failed)
                case RetryPromptPart(tool_name=str(name)):
                    yield m.result(part.tool_call_id, part.model_response(), name=name, is_error=True)
                case RetryPromptPart():
                    yield m.user(part.model_response())
                case _:
                    pass


def _said(response: ModelResponse) -> Iterator[m.AnyPart]:
    for part in response.parts:
        match part:
            case TextPart(content=text):
                yield m.Text(text)
            case ThinkingPart(content=text):
                yield m.Thinking(text, part.signature, id=part.id)
            case ToolCallPart():
                yield m.call(part.tool_call_id, part.tool_name, part.args_as_dict())
            case _:
                pass


def given(
    messages: Sequence[m.Message], instructions: str | None, provider: str | None
) -> Iterator[ModelMessage]:
    """Our messages as pydantic-ai's, which joins neighbouring requests itself."""
    for message in messages:
        match message:
            case m.Assistant():
                yield ModelResponse([part for each in message.content for part in _shown(each, provider)])
            case m.Result():
                returned = ToolReturnPart(message.name or "tool", message.text, message.call_id)
                yield ModelRequest([returned], instructions=instructions)
            case _:
                yield ModelRequest([UserPromptPart(message.text)], instructions=instructions)


def _shown(part: m.AnyPart, provider: str | None) -> Iterator[Any]:
    match part:
        case m.Text(text=text):
            yield TextPart(text)
        case m.Thinking(text=text):
            yield ThinkingPart(text, id=part.id, signature=part.signature, provider_name=provider)
        case m.Call():
            yield ToolCallPart(part.name, part.arguments, part.id)
        case _:
            pass


async def main() -> None:
    session = refold.open("sqlite:agent.db", id="pydantic-ai")
    folding = Folding(Engine(presets.get("refold", window=272_000)), session)
    agent = Agent(
        "openai:gpt-5.4",
        instructions="You are a helpful assistant.",
        tools=[folding.recall()],
        capabilities=[ProcessHistory(folding)],
    )
    history: list[ModelMessage] = []
    while text := await asyncio.to_thread(input, "> "):
        result = await agent.run(text, message_history=history)
        history = result.all_messages()
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
