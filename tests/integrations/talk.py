"""Programs that talk through each integration, as their users would write them: in tests, and as processes of
their own that can be killed (`python -m tests.integrations.talk WAY URL STORE SESSION FIRST LAST`)."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import refold
from refold.integrations import history, recalled
from refold.integrations.anthropic import RECALL as RECALL_ANTHROPIC
from refold.integrations.openai import RECALL, RECALL_RESPONSES
from tests.integrations.kit import SYSTEM, WINDOW, page, question

SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "side": {"type": "string"}},
    "required": ["number", "side"],
    "additionalProperties": False,
}
LOOK = {"name": "look", "description": "A page of the plan."}


class Chat:
    """OpenAI's chat completions. The synchronous client; the caller's list grows, until it is long."""

    LONG = 300
    """The SDK looks at every message of a list at every call: a thousand cost it a second."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from openai import OpenAI

        client = OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        self.client = refold.wrap(client, window=WINDOW, store=store, session=session)
        self.messages = self._begun()
        tool = {"type": "function", "function": {**LOOK, "parameters": SCHEMA, "strict": True}}
        self.options: Any = {"model": "gpt-5.4", "tools": [tool, RECALL]}

    def _begun(self) -> list[Any]:
        return [{"role": "developer", "content": SYSTEM}, *history(self.client)]

    async def turn(self, text: str, stream: bool) -> str:
        return await asyncio.to_thread(self._turn, text, stream)

    def _turn(self, text: str, stream: bool) -> str:
        if len(self.messages) > self.LONG:
            self.messages = self._begun()
        self.messages.append({"role": "user", "content": text})
        while True:
            message = self._ask(stream).choices[0].message
            self.messages.append(message)
            for call in message.tool_calls or ():
                done = {"role": "tool", "tool_call_id": call.id}
                self.messages.append(
                    recalled(self.client, call) or {**done, "content": looked(call.function.arguments)}
                )
            if not message.tool_calls:
                return message.content

    def _ask(self, stream: bool) -> Any:
        if not stream:
            return self.client.chat.completions.create(messages=self.messages, **self.options)
        return whole(self.client.chat.completions.create(messages=self.messages, stream=True, **self.options))

    async def close(self) -> None:
        self.client.close()


class Responses:
    """OpenAI's responses, asynchronous. Every turn begins with the history as refold shows it."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from openai import AsyncOpenAI

        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        self.client = refold.wrap(client, window=WINDOW, store=store, session=session)
        self.input: list[Any] = []
        tool = {"type": "function", **LOOK, "parameters": SCHEMA, "strict": True}
        self.options: Any = {"model": "gpt-5.4", "tools": [tool, RECALL_RESPONSES], "instructions": SYSTEM}

    async def turn(self, text: str, stream: bool) -> str:
        self.input = [*history(self.client, "responses"), {"role": "user", "content": text}]
        while True:
            reply = await self._ask(stream)
            self.input += [item.model_dump(exclude_none=True, exclude={"status"}) for item in reply.output]
            calls = [item for item in reply.output if item.type == "function_call"]
            for call in calls:
                done = {"type": "function_call_output", "call_id": call.call_id}
                self.input.append(recalled(self.client, call) or {**done, "output": looked(call.arguments)})
            if not calls:
                return reply.output_text

    async def _ask(self, stream: bool) -> Any:
        if not stream:
            return await self.client.responses.create(input=self.input, **self.options)
        events = await self.client.responses.create(input=self.input, stream=True, **self.options)
        # To its end: whoever leaves a stream has to close it.
        return [event.response async for event in events if event.type == "response.completed"][-1]

    async def close(self) -> None:
        await self.client.close()


class Messages:
    """Anthropic's messages, asynchronous. Every turn begins with the history as refold shows it."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from anthropic import AsyncAnthropic

        client = AsyncAnthropic(base_url=url, api_key="any", max_retries=0)
        self.client = refold.wrap(client, window=WINDOW, store=store, session=session)
        self.messages: list[Any] = []
        tool = {**LOOK, "input_schema": SCHEMA}
        cached = {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}
        self.options: Any = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 500,
            "tools": [tool, RECALL_ANTHROPIC],
            "system": [cached],
        }

    async def turn(self, text: str, stream: bool) -> str:
        self.messages = [*history(self.client), {"role": "user", "content": text}]
        while True:
            reply = await self._ask(stream)
            self.messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                return reply.content[-1].text
            results = [recalled(self.client, call) or self._result(call) for call in calls]
            self.messages.append({"role": "user", "content": results})

    def _result(self, call: Any) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": call.id, "content": page(**call.input)}

    async def _ask(self, stream: bool) -> Any:
        if not stream:
            return await self.client.messages.create(messages=self.messages, **self.options)
        async with self.client.messages.stream(messages=self.messages, **self.options) as events:
            return await events.get_final_message()

    async def close(self) -> None:
        await self.client.close()


class LangChain:
    """LangChain's agent, synchronous, with a checkpointer that keeps its state in a file."""

    def __init__(self, url: str, store: str, session: str) -> None:
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        saved = sqlite3.connect(f"{store.partition(':')[2]}.{session}.checkpoints", check_same_thread=False)
        self.saver: Any = SqliteSaver(saved)
        self.model, self.agent = langchain_agent(url, store, self.saver)
        self.config: Any = {"configurable": {"thread_id": session}}

    async def turn(self, text: str, stream: bool) -> str:
        return await asyncio.to_thread(self._turn, {"messages": [{"role": "user", "content": text}]}, stream)

    def _turn(self, new: Any, stream: bool) -> str:
        if not stream:
            return self.agent.invoke(new, self.config)["messages"][-1].content
        chunks = self.agent.stream(new, self.config, stream_mode="messages")
        return spoken(chunks)

    async def close(self) -> None:
        self.saver.conn.close()
        self.model.root_client.close()


class LangChainAsync:
    """The same agent, asynchronous."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        self.model, self.agent = langchain_agent(url, store, InMemorySaver())
        self.config: Any = {"configurable": {"thread_id": session}}

    async def turn(self, text: str, stream: bool) -> str:
        new: Any = {"messages": [{"role": "user", "content": text}]}
        if not stream:
            return (await self.agent.ainvoke(new, self.config))["messages"][-1].content
        chunks = self.agent.astream(new, self.config, stream_mode="messages")
        return spoken([chunk async for chunk in chunks])

    async def close(self) -> None:
        await self.model.root_async_client.close()


def langchain_agent(url: str, store: str, saver: Any) -> tuple[Any, Any]:
    """The model and the agent."""
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    from refold.integrations.langchain import RefoldMiddleware

    @tool
    def look(number: int, side: str) -> str:
        """A page of the plan."""
        return page(number, side)

    model = ChatOpenAI(model="gpt-5.4", base_url=f"{url}/v1", api_key="any", max_retries=0)
    folding = RefoldMiddleware(window=WINDOW, store=store)
    able = {"tools": [look], "system_prompt": SYSTEM, "middleware": [folding], "checkpointer": saver}
    return model, create_agent(model, **able)


def spoken(chunks: Any) -> str:
    """What the model said last in a stream of messages."""
    texts: dict[str, str] = {}
    for chunk, about in chunks:
        if about["langgraph_node"] == "model":
            texts[chunk.id] = texts.pop(chunk.id, "") + str(chunk.content)
    return list(texts.values())[-1]


class Agents:
    """The OpenAI Agents SDK."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from agents import Agent, OpenAIResponsesModel, function_tool
        from openai import AsyncOpenAI

        from refold.integrations.openai_agents import RefoldSession

        @function_tool
        def look(number: int, side: str) -> str:
            """A page of the plan."""
            return page(number, side)

        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        self.session = RefoldSession(session, window=WINDOW, store=store)
        self.agent: Any = Agent(
            name="Assistant",
            instructions=SYSTEM,
            model=OpenAIResponsesModel("gpt-5.4", self.client),
            tools=[look, self.session.recall()],
        )

    async def turn(self, text: str, stream: bool) -> str:
        from agents import Runner

        about: Any = {"session": self.session, "run_config": self.session.run_config(tracing_disabled=True)}
        if not stream:
            return (await Runner.run(self.agent, text, **about)).final_output
        result = Runner.run_streamed(self.agent, text, **about)
        async for _ in result.stream_events():
            pass
        return result.final_output

    async def close(self) -> None:
        await self.client.close()


class PydanticAI:
    """pydantic-ai, with the capability. The history of the program only grows."""

    def __init__(self, url: str, store: str, session: str) -> None:
        from openai import AsyncOpenAI
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        from refold.integrations.pydantic_ai import Refolding

        def look(number: int, side: str) -> str:
            """A page of the plan."""
            return page(number, side)

        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
        self.id = session
        self.refolding = Refolding(window=WINDOW, store=store)
        self.agent: Any = Agent(
            OpenAIChatModel("gpt-5.4", provider=OpenAIProvider(openai_client=self.client)),
            instructions=SYSTEM,
            tools=[look],
            capabilities=[self.refolding],
        )
        self.history: Any = None

    async def turn(self, text: str, stream: bool) -> str:
        if self.history is None:
            self.history = await self.refolding.history(self.id)
        about = {"message_history": self.history, "conversation_id": self.id}
        # Its `run_stream` ends with the first text, before the tools: events are how a whole run is streamed.
        handler = {"event_stream_handler": consumed} if stream else {}
        result = await self.agent.run(text, **about, **handler)
        self.history = result.all_messages()
        return result.output

    async def close(self) -> None:
        await self.client.close()


WAYS: dict[str, Any] = {
    "pydantic-ai": PydanticAI,
    "agents": Agents,
    "chat": Chat,
    "responses": Responses,
    "messages": Messages,
    "langchain": LangChain,
    "langchain-async": LangChainAsync,
}


async def consumed(_: Any, events: Any) -> None:
    async for _ in events:
        pass


def looked(arguments: str) -> str:
    return page(**json.loads(arguments))


def whole(chunks: Any) -> Any:
    """The completion that the chunks of a stream make up, as the SDK puts it together."""
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state = ChatCompletionStreamState()
    for chunk in chunks:
        state.handle_chunk(chunk)
    return state.get_final_completion()


async def main(way: str, url: str, store: str, session: str, first: int, last: int) -> None:
    talk = WAYS[way](url, store, session)
    for number in range(first, last):
        print(await talk.turn(question(number), stream=number % 2 == 1), flush=True)
    await talk.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5], *map(int, sys.argv[5:])))
