"""refold under the OpenAI Agents SDK: a session of the SDK whose history always fits.

    OPENAI_API_KEY=… python examples/openai_agents.py

The next call goes on where this one ended: the conversation is in agent.db.
"""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, Runner

from refold.integrations.openai_agents import RefoldSession


def make_agent(model: Any, session: RefoldSession) -> Agent[Any]:
    return Agent(
        name="Assistant",
        instructions="You are a helpful assistant.",
        model=model,
        tools=[session.recall()],
    )


async def turn(agent: Agent[Any], session: RefoldSession, text: str) -> str:
    result = await Runner.run(agent, text, session=session, run_config=session.run_config(), max_turns=50)
    return result.final_output


async def main() -> None:
    session = RefoldSession("openai-agents", window=272_000, store="sqlite:agent.db")
    agent = make_agent("gpt-5.4", session)
    while text := await asyncio.to_thread(input, "> "):
        print(await turn(agent, session, text))


if __name__ == "__main__":
    asyncio.run(main())
