"""The plain client of OpenAI, wrapped: the same calls, and a history that always fits.

    OPENAI_API_KEY=… python examples/wrapped_client.py

The next call goes on where this one ended: the conversation is in agent.db. The client of Anthropic is
wrapped in the same way.
"""

from __future__ import annotations

from typing import Any

from openai import OpenAI

import refold
from refold.integrations import history, recalled
from refold.integrations.openai import RECALL


def turn(client: OpenAI, text: str) -> str:
    """Everything from a question to its answer."""
    messages: list[Any] = [*history(client), {"role": "user", "content": text}]
    while True:
        tools: Any = [RECALL]
        reply = client.chat.completions.create(model="gpt-5.4", messages=messages, tools=tools)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages += [message, *(recalled(client, call) for call in message.tool_calls)]


def main() -> None:
    client = refold.wrap(OpenAI(), window=272_000, store="sqlite:agent.db", session="wrapped")
    while text := input("> "):
        print(turn(client, text))


if __name__ == "__main__":
    main()
