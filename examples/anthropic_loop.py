"""An agent loop with the Anthropic SDK: streaming, thinking, and a prompt that the provider's cache can keep.

    ANTHROPIC_API_KEY=… python examples/anthropic_loop.py "What is 2 ** 127 - 1?"

`view.to_anthropic()` sets the cache breakpoints: on the system prompt, at the end of the last fold and on the
two newest user turns. Between folds a view only grows at its end, so each request finds the one before it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from anthropic import AsyncAnthropic, BadRequestError

import refold
from refold import Engine, Session, presets
from refold import messages as m
from refold.recall import tool as recall_tool

SYSTEM = "You are a careful calculator."
POWER = {
    "name": "power",
    "description": "A power of an integer, exactly.",
    "input_schema": {
        "type": "object",
        "properties": {"base": {"type": "integer"}, "exponent": {"type": "integer"}},
        "required": ["base", "exponent"],
    },
}
TOOLS: list[Any] = [POWER, recall_tool.for_anthropic()]
THINKING: Any = {"type": "adaptive"}


class Agent:
    def __init__(self, client: AsyncAnthropic, session: Session, *, model: str, window: int) -> None:
        self.client = client
        self.session = session
        self.model = model
        self.engine = Engine(presets.get("refold", window=window))

    async def turn(self, text: str) -> str:
        self.session.append(m.user(text))
        while True:
            reply = await self.ask()
            if not reply.calls:
                return reply.text
            for call in reply.calls:
                self.session.append(self.perform(call))

    async def ask(self) -> m.Assistant:
        view = await self.engine.prepare(self.session, system=SYSTEM, tools=TOOLS)
        try:
            async with self.client.messages.stream(
                model=self.model, max_tokens=8192, thinking=THINKING, tools=TOOLS, **view.to_anthropic()
            ) as stream:
                async for text in stream.text_stream:
                    print(text, end="", flush=True)
                raw = await stream.get_final_message()
        except BadRequestError as error:
            if not self.engine.failed(self.session, error, model=self.model):
                raise
            return await self.ask()
        return self.engine.observe(self.session, raw)  # its thinking too, which the next request needs

    def perform(self, call: m.Call) -> m.Result:
        if call.name == recall_tool.NAME:
            return recall_tool.result(self.session, call)
        try:
            return m.result(call.id, str(power(**call.arguments)))
        except (TypeError, ValueError) as error:
            return m.result(call.id, str(error), is_error=True)


def power(base: int, exponent: int) -> int:
    if not (0 <= exponent <= 1000 and abs(base) <= 10**6):
        raise ValueError("base up to a million, exponent from 0 to 1000")
    return base**exponent


async def main(text: str) -> None:
    session = refold.open("sqlite:agent.db", id="anthropic-loop")
    agent = Agent(AsyncAnthropic(), session, model="claude-sonnet-5-5", window=1_000_000)
    await agent.turn(text)
    print()


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is 2 ** 127 - 1?"))
