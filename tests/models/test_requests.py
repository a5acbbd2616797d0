"""Summary requests: the cached prefix really is one."""

from __future__ import annotations

import asyncio
import json

import pytest

from refold.compaction.requests import cached_prefix
from refold.messages import assistant, user
from refold.models import complete, say
from refold.models.anthropic import Anthropic
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.models.retry import NO_RETRY
from refold.testing.wire import WireServer

from .histories import HISTORIES, request

INSTRUCTION = "Summarise the conversation so far. Do not call tools."


def both(kind, history: str) -> list[bytes]:
    """The bodies of a chat request and of the summary request that follows its reply."""
    with WireServer("Done, it works.", say("A summary.")) as server:

        async def main() -> None:
            base = server.url if kind is Anthropic else server.v1
            model = kind("m-1", api_key="k-test", base_url=base)
            chat = request(history)
            reply = await complete(model, chat, retries=NO_RETRY)
            asked = cached_prefix(chat, INSTRUCTION, since=[reply.message], max_tokens=50)
            assert (await complete(model, asked, retries=NO_RETRY)).text == "A summary."
            await model.aclose()

        asyncio.run(main())
        return [seen.raw for seen in server.requests]


def field(raw: bytes, key: str) -> bytes:
    """The bytes of one field of a JSON object, without the closing bracket of its list."""
    value = json.loads(raw)[key]
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode().removesuffix(b"]")


@pytest.mark.slow
def test_cached_prefix_shares_its_bytes_openai() -> None:
    for history in HISTORIES:
        chat, summary = both(OpenAIChat, history)
        assert field(summary, "messages").startswith(field(chat, "messages"))
        assert field(summary, "tools") == field(chat, "tools")
        rest = json.loads(summary)["messages"][len(json.loads(chat)["messages"]) :]
        assert [m["role"] for m in rest] == ["assistant", "user"]
        assert rest[-1]["content"] == INSTRUCTION


@pytest.mark.slow
def test_cached_prefix_shares_its_bytes_responses() -> None:
    for history in HISTORIES:
        chat, summary = both(OpenAIResponses, history)
        assert field(summary, "input").startswith(field(chat, "input"))
        assert field(summary, "tools") == field(chat, "tools")


def test_raw_bytes_are_shared_up_to_the_end_of_the_history() -> None:
    """Not only the values: the very bytes, from the first message to the last."""
    for kind, key in ((OpenAIChat, b'"messages":['), (OpenAIResponses, b'"input":[')):
        chat, summary = both(kind, "parallel")
        start = chat.index(key)
        history = chat[start : chat.index(b"Try again.") + len(b"Try again.")]
        assert summary[summary.index(key) :].startswith(history)


def test_cached_prefix_anthropic_moves_only_breakpoints() -> None:
    """Breakpoints are no content: the provider compares what stands before them. One of them stands where
    the chat request ended, so that its entry is found."""
    for history in HISTORIES:
        chat, summary = (json.loads(raw) for raw in both(Anthropic, history))
        end = len(chat["messages"])
        assert chat["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert summary["messages"][end - 1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
        assert bare(summary["messages"])[:end] == bare(chat["messages"])
        assert bare(summary["system"]) == bare(chat["system"])
        assert summary["tools"] == chat["tools"]
        assert summary["messages"][-1]["content"][-1]["text"] == INSTRUCTION


def bare(value):
    if isinstance(value, list):
        return [bare(one) for one in value]
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "cache_control"}
    return value


def test_cached_prefix_keeps_everything_that_a_cache_depends_on() -> None:
    chat = request("tools", temperature=0.3)
    asked = cached_prefix(chat, "x", since=[assistant("y")], max_tokens=7)
    assert (asked.system, asked.tools, asked.temperature) == (chat.system, chat.tools, chat.temperature)
    assert asked.messages == (*chat.messages, assistant("y"), user("x"))
    assert asked.stable == len(chat.messages)
    assert (asked.purpose, asked.max_tokens) == ("summary", 7)
