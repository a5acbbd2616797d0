"""Exact request bodies, through the real SDKs, as the server received them.

To write them anew: `pytest -p inline_snapshot.pytest_plugin --inline-snapshot=fix tests/models/test_bodies.py`.
"""

from __future__ import annotations

import asyncio

import pytest
from inline_snapshot import snapshot

from refold.messages import assistant, call, result, user
from refold.models import complete
from refold.models.anthropic import Anthropic
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.models.retry import NO_RETRY
from refold.protocols import Request
from refold.testing.wire import WireServer

from .histories import HISTORIES, request


def sent(kind, asked: Request, **options) -> dict:
    """The body that the server got; the server has judged it."""
    with WireServer("Fine.") as server:

        async def main() -> None:
            base = server.url if kind is Anthropic else server.v1
            model = kind("m-1", api_key="k-test", base_url=base, **options)
            await complete(model, asked, retries=NO_RETRY)
            await model.aclose()

        asyncio.run(main())
        [body] = server.bodies
        return body


def messages(kind, history: str) -> list:
    body = sent(kind, request(history))
    return body.get("messages") or body["input"]


@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses, Anthropic])
@pytest.mark.parametrize("history", HISTORIES)
def test_every_history_is_accepted(kind, history) -> None:
    assert sent(kind, request(history))["model"] == "m-1"


def test_openai_chat_envelope() -> None:
    body = sent(OpenAIChat, request("plain", temperature=0.2))
    assert body == snapshot(
        {
            "model": "m-1",
            "stream": True,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello"},
                {"role": "assistant", "content": "Hi."},
                {"role": "user", "content": "Fix the bug."},
            ],
            "temperature": 0.2,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "Read",
                        "description": "Read a file.",
                        "parameters": {
                            "type": "object",
                            "properties": {"path": {"type": "string"}},
                            "required": ["path"],
                        },
                    },
                }
            ],
            "max_tokens": 100,
            "stream_options": {"include_usage": True},
        }
    )


def test_openai_itself_wants_another_name_for_the_limit() -> None:
    home = OpenAIChat("gpt-x", api_key="k", base_url="https://api.openai.com/v1")
    assert home.body(request("plain"))["max_completion_tokens"] == 100
    assert "max_tokens" not in home.body(request("plain"))


def test_openai_responses_envelope() -> None:
    assert sent(OpenAIResponses, request("plain"), reasoning=True) == snapshot(
        {
            "model": "m-1",
            "stream": True,
            "input": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Hello"},
                {"type": "message", "role": "assistant", "content": "Hi."},
                {"type": "message", "role": "user", "content": "Fix the bug."},
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "tools": [
                {
                    "type": "function",
                    "name": "Read",
                    "description": "Read a file.",
                    "parameters": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                    },
                    "strict": False,
                }
            ],
            "max_output_tokens": 100,
        }
    )


def test_anthropic_envelope() -> None:
    assert sent(Anthropic, request("plain", temperature=0.2)) == snapshot(
        {
            "max_tokens": 100,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral"}}],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Fix the bug.", "cache_control": {"type": "ephemeral"}}
                    ],
                },
            ],
            "model": "m-1",
            "stream": True,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            "tools": [
                {
                    "name": "Read",
                    "description": "Read a file.",
                    "input_schema": {
                        "type": "object",
                        "properties": {"path": {"type": "string"}},
                        "required": ["path"],
                    },
                }
            ],
            "temperature": 0.2,
        }
    )


def test_anthropic_cache_for_an_hour_and_none() -> None:
    assert sent(Anthropic, request("plain"), cache="1h")["system"] == snapshot(
        [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    )
    assert sent(Anthropic, request("plain"), cache=None)["system"] == snapshot(
        [{"type": "text", "text": "Be brief."}]
    )


def test_models_that_take_no_temperature_get_none() -> None:
    for kind in (OpenAIChat, OpenAIResponses, Anthropic):
        assert "temperature" not in sent(kind, request("plain", temperature=0.2), temperature=False)


def test_extra_fields_go_through() -> None:
    for kind in (OpenAIChat, OpenAIResponses, Anthropic):
        assert sent(kind, request("plain"), extra={"service_tier": "flex"})["service_tier"] == "flex"


def test_openai_chat_messages() -> None:
    assert {name: messages(OpenAIChat, name) for name in HISTORIES if name != "plain"} == snapshot(
        {
            "tools": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {
                    "role": "assistant",
                    "content": "Reading.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a.py"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
            ],
            "parallel": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a.py"}'},
                        },
                        {
                            "id": "c2",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"b.py"}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
                {"role": "tool", "tool_call_id": "c2", "content": "boom"},
                {"role": "assistant", "content": "One failed."},
                {"role": "user", "content": "Try again."},
            ],
            "thinking": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Why?"},
                {
                    "role": "assistant",
                    "content": "I see.",
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a.py"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "x = 1"},
            ],
            "sealed": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Why?"},
                {"role": "assistant", "content": "So."},
                {"role": "user", "content": "And?"},
            ],
            "image": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                    ],
                },
            ],
            "picture from a tool": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Shoot."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a.py"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "A shot:"},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Pictures of the tool result c1:"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                    ],
                },
            ],
            "fold": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": """\
Summary of the conversation so far:

## Goal
Fix the login bug.\
""",
                },
                {"role": "user", "content": "Go on."},
            ],
            "mask": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Look."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a.py"}'},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "[output of Read folded; key abc2345]"},
                {"role": "user", "content": "Ok."},
            ],
        }
    )


def test_openai_responses_items() -> None:
    assert {name: messages(OpenAIResponses, name) for name in HISTORIES if name != "plain"} == snapshot(
        {
            "tools": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Look."},
                {"type": "message", "role": "assistant", "content": "Reading."},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a.py"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "x = 1"},
            ],
            "parallel": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Look."},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a.py"}'},
                {"type": "function_call", "call_id": "c2", "name": "Read", "arguments": '{"path":"b.py"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "x = 1"},
                {"type": "function_call_output", "call_id": "c2", "output": "boom"},
                {"type": "message", "role": "assistant", "content": "One failed."},
                {"type": "message", "role": "user", "content": "Try again."},
            ],
            "thinking": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Why?"},
                {"type": "message", "role": "assistant", "content": "I see."},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a.py"}'},
                {"type": "function_call_output", "call_id": "c1", "output": "x = 1"},
            ],
            "sealed": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Why?"},
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [{"type": "summary_text", "text": "Hm."}],
                    "encrypted_content": "sealed==",
                },
                {"type": "message", "role": "assistant", "content": "So."},
                {"type": "message", "role": "user", "content": "And?"},
            ],
            "image": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "What is this?"},
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,iVBORw0KGgo=",
                            "detail": "auto",
                        },
                    ],
                },
            ],
            "picture from a tool": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Shoot."},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a.py"}'},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [
                        {"type": "input_text", "text": "A shot:"},
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,iVBORw0KGgo=",
                            "detail": "auto",
                        },
                    ],
                },
            ],
            "fold": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {
                    "type": "message",
                    "role": "user",
                    "content": """\
Summary of the conversation so far:

## Goal
Fix the login bug.\
""",
                },
                {"type": "message", "role": "user", "content": "Go on."},
            ],
            "mask": [
                {"type": "message", "role": "system", "content": "Be brief."},
                {"type": "message", "role": "user", "content": "Look."},
                {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a.py"}'},
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": "[output of Read folded; key abc2345]",
                },
                {"type": "message", "role": "user", "content": "Ok."},
            ],
        }
    )


def test_anthropic_messages() -> None:
    assert {name: messages(Anthropic, name) for name in HISTORIES if name != "plain"} == snapshot(
        {
            "tools": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "text", "text": "Reading."},
                        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "x = 1"}],
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ],
            "parallel": [
                {"role": "user", "content": [{"type": "text", "text": "Look."}]},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}},
                        {"type": "tool_use", "id": "c2", "name": "Read", "input": {"path": "b.py"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "x = 1"}],
                        },
                        {
                            "type": "tool_result",
                            "tool_use_id": "c2",
                            "is_error": True,
                            "content": [{"type": "text", "text": "boom"}],
                            "cache_control": {"type": "ephemeral"},
                        },
                    ],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "One failed."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Try again.", "cache_control": {"type": "ephemeral"}}
                    ],
                },
            ],
            "thinking": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Why?", "cache_control": {"type": "ephemeral"}}],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Because.", "signature": "sig-1"},
                        {"type": "text", "text": "I see."},
                        {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "x = 1"}],
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ],
            "sealed": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Why?", "cache_control": {"type": "ephemeral"}}],
                },
                {"role": "assistant", "content": [{"type": "text", "text": "So."}]},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}}],
                },
            ],
            "image": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                            "cache_control": {"type": "ephemeral"},
                        },
                    ],
                }
            ],
            "picture from a tool": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Shoot.", "cache_control": {"type": "ephemeral"}}],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [
                                {"type": "text", "text": "A shot:"},
                                {
                                    "type": "image",
                                    "source": {
                                        "type": "base64",
                                        "media_type": "image/png",
                                        "data": "iVBORw0KGgo=",
                                    },
                                },
                            ],
                            "cache_control": {"type": "ephemeral"},
                        }
                    ],
                },
            ],
            "fold": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "text",
                            "text": """\
Summary of the conversation so far:

## Goal
Fix the login bug.\
""",
                        },
                        {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
                    ],
                }
            ],
            "mask": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}],
                },
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a.py"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [{"type": "text", "text": "[output of Read folded; key abc2345]"}],
                        },
                        {"type": "text", "text": "Ok.", "cache_control": {"type": "ephemeral"}},
                    ],
                },
            ],
        }
    )


def test_anthropic_stable_end_gets_a_breakpoint() -> None:
    long = tuple(m for i in range(6) for m in (user(f"Question {i}"), assistant(f"Answer {i}")))
    body = sent(Anthropic, Request(messages=(*long, user("Last")), stable=3))
    marked = [i for i, m in enumerate(body["messages"]) if any("cache_control" in b for b in m["content"])]
    assert marked == [2, 10, 12]


def test_open_calls_are_never_sent() -> None:
    """A history that ends inside a batch is repaired before it goes out."""
    history = (
        user("Look."),
        assistant("", call("c1", "Read"), call("c2", "Read")),
        result("c1", "x"),
        user("Stop."),
    )
    for kind in (OpenAIChat, OpenAIResponses, Anthropic):
        sent(kind, Request(messages=history, max_tokens=10))


def test_counting_endpoint() -> None:
    with WireServer(tokens=1234) as server:

        async def main() -> int:
            model = Anthropic("m-1", api_key="k", base_url=server.url)
            try:
                return await model.count(request("tools", temperature=0.1))
            finally:
                await model.aclose()

        assert asyncio.run(main()) == 1234
        assert server.requests[0].path == "/v1/messages/count_tokens"
        assert set(server.bodies[0]) == {"model", "system", "messages", "tools"}
