"""An agent loop with the OpenAI SDK. refold keeps its prompt inside the window, the log in a file, and what
left the prompt within the model's reach.

    OPENAI_API_KEY=… python examples/openai_loop.py "What does this project do?"

The next call goes on where this one ended: the conversation is in agent.db.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI, BadRequestError

import refold
from refold import Engine, Session, presets
from refold import messages as m
from refold.recall import tool as recall_tool

SYSTEM = "You answer questions about the files in the current directory. Read them before you answer."
READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "The text of a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
        },
    },
}
TOOLS: list[Any] = [READ_FILE, recall_tool.for_openai()]


class Agent:
    def __init__(self, client: AsyncOpenAI, session: Session, *, model: str, window: int) -> None:
        self.client = client
        self.session = session
        self.model = model
        self.engine = Engine(presets.get("refold", window=window))

    async def turn(self, text: str) -> str:
        """Everything from a question to its answer."""
        self.session.append(m.user(text))
        while True:
            reply = await self.ask()
            if not reply.calls:
                return reply.text
            for call in reply.calls:
                self.session.append(self.perform(call))

    async def ask(self) -> m.Assistant:
        view = await self.engine.prepare(self.session, system=SYSTEM, tools=TOOLS)  # folds first if it must
        try:
            raw = await self.client.chat.completions.create(
                model=self.model,
                messages=view.to_openai(),  # type: ignore[arg-type]  # plain dicts
                tools=TOOLS,
            )
        except BadRequestError as error:
            if not self.engine.failed(self.session, error, model=self.model):
                raise
            return await self.ask()  # it was too long: folded and asked again; a second refusal raises
        return self.engine.observe(self.session, raw)

    def perform(self, call: m.Call) -> m.Result:
        if call.name == recall_tool.NAME:
            return recall_tool.result(self.session, call)
        try:
            return m.result(call.id, read_file(**call.arguments))
        except (OSError, TypeError, ValueError) as error:
            return m.result(call.id, str(error), is_error=True)


def read_file(path: str) -> str:
    found = Path(path).resolve()
    if not found.is_relative_to(Path.cwd()):
        raise ValueError(f"{path} is outside of this directory")
    return found.read_text(errors="replace")


async def main(text: str) -> None:
    session = refold.open("sqlite:agent.db", id="openai-loop")
    agent = Agent(AsyncOpenAI(), session, model="gpt-5.4", window=272_000)
    print(await agent.turn(text))


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "What is in this directory?"))
