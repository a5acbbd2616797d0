"""refold as a capability of a pydantic-ai agent.

    OPENAI_API_KEY=… python examples/pydantic_ai_agent.py

The next call goes on where this one ended: the conversation is in agent.db.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent

from refold.integrations.pydantic_ai import Refolding

ID = "pydantic-ai"


def make_agent(model: Any, refolding: Refolding) -> Agent[Any, str]:
    return Agent(model, instructions="You are a helpful assistant.", capabilities=[refolding])


async def main() -> None:
    refolding = Refolding(window=272_000, store="sqlite:agent.db")
    agent = make_agent("openai:gpt-5.4", refolding)
    history = await refolding.history(ID)
    while text := await asyncio.to_thread(input, "> "):
        result = await agent.run(text, message_history=history, conversation_id=ID)
        history = result.all_messages()
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
