"""Every part in every dialect, to the letter: what a provider writes is read, what we write is what it documents."""

from __future__ import annotations

from typing import Any

import pytest

from refold import messages as m
from refold.errors import UnknownName, UsageError, WrongType
from refold.protocols import ToolSpec
from refold.session import dialects
from refold.session.dialects import anthropic, common, openai_chat, openai_responses
from refold.session.dialects.tools import given_tools, json_schema, parse_tool, parse_tools

PNG = m.Image("image/png", data="AAAA")
WEB = m.Image(url="https://x/y.png")
ODD = {"type": "odd", "name": "thing"}
TOLD = "[odd thing: not shown here]"


def reads(dialect: Any, raw: dict[str, Any]) -> list[m.Message]:
    return dialect.parse_list([raw])


CHAT = [
    ({"role": "user", "content": "hi"}, m.user("hi")),
    ({"role": "system", "content": "be"}, m.system("be")),
    ({"role": "developer", "content": "be"}, m.system("be")),
    ({"role": "user", "content": ""}, m.User(())),
    ({"role": "user"}, m.User(())),
    ({"role": "user", "content": ["a", {"type": "text", "text": "b"}]}, m.User((m.Text("a"), m.Text("b")))),
    ({"role": "user", "content": [{"type": "input_text", "text": "b"}]}, m.user("b")),
    ({"role": "user", "content": [{"type": "output_text", "text": "b"}]}, m.user("b")),
    ({"role": "user", "content": [{"type": "text", "text": None}]}, m.User((m.Text(""),))),
    ({"role": "user", "content": [{"type": "text", "text": 5}]}, m.user("5")),
    ({"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}, m.user("no")),
    ({"role": "user", "content": [{"type": "image_url", "image_url": "https://x/y.png"}]}, m.User((WEB,))),
    (
        {
            "role": "user",
            "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        },
        m.User((PNG,)),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]},
        m.User((m.Opaque({"type": "image_url", "image_url": {"url": ""}}, "broken"),)),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": 5}}]},
        m.User((m.Opaque({"type": "image_url", "image_url": {"url": 5}}, "broken"),)),
    ),
    ({"role": "user", "content": [ODD]}, m.User((m.Opaque(ODD, "openai/user"),))),
    ({"role": "tool", "tool_call_id": "c", "content": "out"}, m.Result("c", (m.Text("out"),))),
    (
        {"role": "tool", "tool_call_id": "c", "name": "Read", "content": "out"},
        m.Result("c", (m.Text("out"),), "Read"),
    ),
    ({"role": "tool", "tool_call_id": "c", "name": 5, "content": "out"}, m.Result("c", (m.Text("out"),))),
    (
        {"role": "function", "name": "Read", "content": "out"},
        m.Result("function_Read", (m.Text("out"),), "Read"),
    ),
    ({"role": "function", "content": "out"}, m.Result("function_", (m.Text("out"),))),
    ({"role": "assistant", "content": "so"}, m.Assistant((m.Text("so"),))),
    (
        {"role": "assistant", "reasoning_content": "hm", "reasoning": "no", "content": "so"},
        m.Assistant((m.Thinking("hm"), m.Text("so"))),
    ),
    (
        {"role": "assistant", "reasoning_content": "", "reasoning": "hm", "content": "so"},
        m.Assistant((m.Thinking("hm"), m.Text("so"))),
    ),
    ({"role": "assistant", "reasoning": {"x": 1}, "content": "so"}, m.Assistant((m.Text("so"),))),
    ({"role": "assistant", "refusal": "no"}, m.Assistant((m.Text("no"),), "refusal")),
    (
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "Read", "arguments": '{"path":"a"}'}}, {}],
        },
        m.Assistant((m.call("c", "Read", path="a"),)),
    ),
    (
        {"role": "assistant", "tool_calls": [{"id": "c", "custom": {"name": "Run", "input": "ls"}}]},
        m.Assistant((m.Call("c", "Run", raw="ls"),)),
    ),
    (
        {"role": "assistant", "function_call": {"name": "Read", "arguments": "{}"}},
        m.Assistant((m.Call("function_Read", "Read"),)),
    ),
]
RESPONSES = [
    ({"role": "user", "content": "hi"}, m.user("hi")),
    ({"type": "message", "role": "developer", "content": "be"}, m.system("be")),
    ({"type": "message", "role": "system", "content": "be"}, m.system("be")),
    ({"type": "message", "role": "assistant", "content": "so"}, m.Assistant((m.Text("so"),))),
    ({"role": "user", "content": [{"type": "input_text", "text": "b"}]}, m.user("b")),
    ({"role": "user", "content": [{"type": "text", "text": "b"}]}, m.user("b")),
    ({"role": "user", "content": [{"type": "output_text", "text": "b"}]}, m.user("b")),
    ({"role": "user", "content": [{"type": "refusal", "refusal": "no"}]}, m.user("no")),
    ({"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y.png"}]}, m.User((WEB,))),
    (
        {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
        m.User((m.Opaque({"type": "input_image", "file_id": "f"}, "responses/user"),)),
    ),
    (
        {"role": "user", "content": [{"type": "odd", "image_url": "https://x/y.png"}]},
        m.User((m.Opaque({"type": "odd", "image_url": "https://x/y.png"}, "responses/user"),)),
    ),
    ({"type": "function_call_output", "call_id": "c", "output": "out"}, m.Result("c", (m.Text("out"),))),
    (
        {
            "type": "custom_tool_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": "out"}],
        },
        m.Result("c", (m.Text("out"),)),
    ),
    (
        {"type": "function_call", "call_id": "c", "name": "Read", "arguments": '{"path":"a"}'},
        m.Assistant((m.call("c", "Read", path="a"),)),
    ),
    (
        {"type": "custom_tool_call", "call_id": "c", "name": "Run", "input": "ls"},
        m.Assistant((m.Call("c", "Run", raw="ls"),)),
    ),
    (
        {"type": "reasoning", "id": "r", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "s"},
        m.Assistant((m.Thinking("a\n\nb", None, "s", "r"),)),
    ),
    (
        {"type": "reasoning", "summary": [], "content": [{"text": "open"}]},
        m.Assistant((m.Thinking("open"),)),
    ),
    (ODD, m.Assistant((m.Opaque(ODD, "responses/item"),))),
]
CLAUDE = [
    ({"role": "user", "content": "hi"}, m.user("hi")),
    ({"role": "user", "content": ""}, m.User(())),
    ({"role": "user", "content": []}, m.User(())),
    ({"role": "user", "content": ["a", {"type": "text", "text": "b"}]}, m.User((m.Text("a"), m.Text("b")))),
    ({"role": "system", "content": "be"}, m.system("be")),
    ({"role": "developer", "content": "be"}, m.system("be")),
    (
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "out"}]},
        m.Result("c", (m.Text("out"),)),
    ),
    (
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": True}]},
        m.Result("c", (), is_error=True),
    ),
    ({"role": "assistant", "content": "so"}, m.Assistant((m.Text("so"),))),
    ({"role": "assistant", "content": "so", "stop_reason": "end_turn"}, m.Assistant((m.Text("so"),), "end")),
    ({"role": "assistant", "content": "so", "stop_reason": "new"}, m.Assistant((m.Text("so"),), "other")),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        m.Assistant((m.Thinking("hm", "s"),)),
    ),
    (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
        m.Assistant((m.Thinking("hm"),)),
    ),
    (
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "s"}]},
        m.Assistant((m.Thinking(data="s"),)),
    ),
    (
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Read", "input": {"path": "a"}}]},
        m.Assistant((m.call("c", "Read", path="a"),)),
    ),
    (
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "AAAA"}}]},
        m.User((PNG,)),
    ),
    (
        {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "A"}}],
        },
        m.User((m.Image("image/gif", data="A"),)),
    ),
    (
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]},
        m.User((WEB,)),
    ),
    *(
        ({"role": "user", "content": [block]}, m.User((m.Opaque(block, "anthropic/user"),)))
        for block in ({"type": "image", "source": {"type": "file", "file_id": "f"}}, ODD)
    ),
    *(
        ({"role": "user", "content": [picture]}, m.User((m.Opaque(picture, "broken"),)))
        for picture in (
            {"type": "image", "source": {"type": "file", "data": "AAAA"}},
            {"type": "image", "source": {"type": "base64", "data": 5}},
            {"type": "image", "source": {"type": "file", "url": "https://x"}},
            {"type": "image", "source": {"type": "url", "url": 5}},
            {"type": "image"},
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "raw", "message"),
    [
        *((openai_chat, *row) for row in CHAT),
        *((openai_responses, *row) for row in RESPONSES),
        *((anthropic, *row) for row in CLAUDE),
    ],
)
def test_a_message_is_read_to_the_letter(dialect: Any, raw: dict[str, Any], message: m.Message) -> None:
    assert reads(dialect, raw) == [message]


LONG = "i" * 70
REPLY = m.Assistant(
    (
        m.Thinking("hm", "sig"),
        m.Thinking(data="sealed"),
        m.Thinking("seen", None, "enc", "r1"),
        m.Thinking("lost"),
        m.Text("so"),
        m.Text(" "),
        m.Opaque(ODD),
        m.Call("c/1", "a tool", {"x": 1}),
        m.Call(LONG, "T", raw="not json"),
        PNG,
    )
)
RESULT = m.Result("c", (m.Text("out"), m.Text(""), PNG, m.Opaque(ODD)))
FAILED = m.Result("c", (), is_error=True)
SAID = m.User(
    (m.Text("see"), m.Text(""), PNG, WEB, m.Image("image/tiff", data="A"), m.Image(), m.Opaque(ODD))
)
DATA = "data:image/png;base64,AAAA"


def test_chat_is_written_to_the_letter() -> None:
    short = common.short_id(LONG, 40)
    assert len(short) == 40 and short.startswith("i" * 31 + "_")
    assert openai_chat.render([m.system("be"), m.user("hi"), SAID], system="first") == [
        {"role": "system", "content": "first"},
        {"role": "system", "content": "be"},
        {"role": "user", "content": "hi"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": DATA}},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,A"}},
                {"type": "text", "text": "[image: image/png]"},
                {"type": "text", "text": TOLD},
            ],
        },
    ]
    assert openai_chat.render([REPLY]) == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "so"},
                {"type": "text", "text": " "},
                {"type": "text", "text": TOLD},
                {"type": "text", "text": "[image: image/png]"},
            ],
            "tool_calls": [
                {"id": "c/1", "type": "function", "function": {"name": "a_tool", "arguments": '{"x":1}'}},
                {"id": short, "type": "function", "function": {"name": "T", "arguments": '{"malformed_arguments":"not json"}'}},
            ],
        }
    ]  # fmt: skip
    assert openai_chat.render([m.Assistant((m.call("c", "T"),)), FAILED]) == [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "T", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]  # fmt: skip
    assert openai_chat.render([m.Assistant((m.Thinking("hm"),)), m.User(())]) == [
        {"role": "user", "content": ""}
    ]
    file = {"type": "file", "file": {"file_id": "f"}}
    assert openai_chat.render([m.User((m.Opaque(file),))]) == [{"role": "user", "content": [file]}]
    bare = m.Opaque({"type": "file", "file": "f", "filename": "a.pdf"})
    told = [{"type": "text", "text": "[file a.pdf: not shown here]"}]
    assert openai_chat.render([m.User((bare,))]) == [{"role": "user", "content": told}]


def test_chat_pictures_stand_behind_all_results_of_their_batch() -> None:
    calls = m.Assistant((m.call("a", "T"), m.call("b", "T")))
    batch = [calls, m.Result("a", (PNG,)), m.Result("b", (m.Text("x"), m.Text("y")))]
    shown = {
        "role": "user",
        "content": [
            {"type": "text", "text": "Pictures of the tool result a:"},
            {"type": "image_url", "image_url": {"url": DATA}},
        ],
    }
    rendered = openai_chat.render(batch)
    assert rendered[1:] == [
        {"role": "tool", "tool_call_id": "a", "content": "(the pictures follow)"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
        shown,
    ]  # fmt: skip
    assert openai_chat.render(batch[:2])[-1]["role"] == "tool", "the batch is still open"
    assert openai_chat.render([*batch, m.user("go")])[3:] == [shown, {"role": "user", "content": "go"}]


def test_responses_are_written_to_the_letter() -> None:
    short = common.short_id(LONG, 64)
    assert openai_responses.render([m.system("be"), m.user("hi"), SAID], system="first") == [
        {"type": "message", "role": "system", "content": "first"},
        {"type": "message", "role": "system", "content": "be"},
        {"type": "message", "role": "user", "content": "hi"},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": DATA, "detail": "auto"},
                {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                {"type": "input_image", "image_url": "data:image/tiff;base64,A", "detail": "auto"},
                {"type": "input_text", "text": "[image: image/png]"},
                {"type": "input_text", "text": TOLD},
            ],
        },
    ]
    assert openai_responses.render([REPLY, RESULT, FAILED]) == [
        {
            "type": "reasoning",
            "id": "r1",
            "summary": [{"type": "summary_text", "text": "seen"}],
            "encrypted_content": "enc",
        },
        {"type": "message", "role": "assistant", "content": "so"},
        {"type": "message", "role": "assistant", "content": TOLD},
        {"type": "function_call", "call_id": "c/1", "name": "a_tool", "arguments": '{"x":1}'},
        {
            "type": "function_call",
            "call_id": short,
            "name": "T",
            "arguments": '{"malformed_arguments":"not json"}',
        },
        {"type": "message", "role": "assistant", "content": "[image: image/png]"},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [
                {"type": "input_text", "text": "out"},
                {"type": "input_image", "image_url": DATA, "detail": "auto"},
                {"type": "input_text", "text": TOLD},
            ],
        },
        {"type": "function_call_output", "call_id": "c", "output": ""},
    ]
    search = {"type": "web_search_call", "id": "w", "status": "completed"}
    silent = m.Assistant(
        (m.Opaque(search), m.Opaque({"type": "web_search_call"}), m.Thinking("", None, "enc", "r2"))
    )
    assert openai_responses.render([silent]) == [
        search,
        {"type": "message", "role": "assistant", "content": "[web_search_call: not shown here]"},
    ]
    file = {"type": "input_file", "file_id": "f"}
    assert openai_responses.render([m.User((m.Opaque(file),))])[0]["content"] == [file]


def test_anthropics_is_written_to_the_letter() -> None:
    assert anthropic.render([m.system("be"), m.user("hi"), SAID], system="first") == {
        "system": [{"type": "text", "text": "first"}, {"type": "text", "text": "be"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "text", "text": "see"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                    },
                    {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
                    {"type": "text", "text": "[image: image/tiff]"},
                    {"type": "text", "text": "[image: image/png]"},
                    {"type": "text", "text": TOLD},
                ],
            }
        ],
    }
    [reply, results] = anthropic.render([REPLY, m.user("and"), RESULT, FAILED])["messages"]
    assert reply == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "so"},
            {"type": "text", "text": TOLD},
            {"type": "tool_use", "id": common.wire_id("c/1"), "name": "a_tool", "input": {"x": 1}},
            {
                "type": "tool_use",
                "id": common.wire_id(LONG),
                "name": "T",
                "input": {"malformed_arguments": "not json"},
            },
            {"type": "text", "text": "[image: image/png]"},
        ],
    }
    assert results == {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "content": [
                    {"type": "text", "text": "out"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                    },
                    {"type": "text", "text": TOLD},
                ],
            },
            {
                "type": "tool_result",
                "tool_use_id": "c",
                "is_error": True,
                "content": [{"type": "text", "text": "(no output)"}],
            },
            {"type": "text", "text": "and"},
        ],
    }
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    passed = anthropic.render(
        [m.User((m.Opaque(document), m.Opaque(search))), m.Assistant((m.Opaque(search),))]
    )
    assert passed["messages"] == [
        {"role": "user", "content": [document, {"type": "text", "text": "[server_tool_use web_search: not shown here]"}]},
        {"role": "assistant", "content": [search]},
    ]  # fmt: skip
    thought = anthropic.render([m.user("hi"), m.Assistant((m.Thinking("hm", "s"),)), m.user("ho")])
    assert thought["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "user", "content": [{"type": "text", "text": "ho"}]},
    ]


@pytest.mark.parametrize(
    ("ttl", "mark"),
    [(None, {"type": "ephemeral"}), ("1h", {"type": "ephemeral", "ttl": "1h"})],
)
def test_a_breakpoint_says_what_it_is(ttl: str | None, mark: dict[str, str]) -> None:
    request = anthropic.render([m.user("hi")], cache=True, ttl=ttl)
    assert request["messages"][0]["content"] == [{"type": "text", "text": "hi", "cache_control": mark}]
    assert "cache_control" not in anthropic.render([m.user("hi")], ttl=ttl)["messages"][0]["content"][0]


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}, m.Usage(9, 2)),
        (
            {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}},
            m.Usage(2, 2, 4, 3),
        ),
        ({"choices": [], "usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}}, m.Usage(4, 0, 5)),
        ({"choices": [], "usage": {"prompt_tokens": 1, "prompt_cache_hit_tokens": 5}}, m.Usage(0, 0, 5)),
        ({"choices": [], "usage": {}}, None),
        ({"output": [], "usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}}, m.Usage(5, 2, 4)),
        ({"output": []}, None),
        ({"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}}, m.Usage(1, 2, 3, 4)),
        ({"stop_reason": "end_turn"}, None),
        ({"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -3}}, m.Usage()),
        ({"choices": [], "usage": {"prompt_tokens": 1 << 60}}, m.Usage(1 << 53)),
    ],
)  # fmt: skip
def test_usage_is_read_in_every_spelling(raw: dict[str, Any], usage: m.Usage | None) -> None:
    assert dialects.parse_reply(raw)[1] == usage


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        ({"choices": [], "model": "gpt"}, "openai:gpt"),
        ({"output": [], "model": "gpt"}, "openai:gpt"),
        ({"stop_reason": None, "model": "claude"}, "anthropic:claude"),
        ({"choices": [], "model": ""}, None),
        ({"choices": [], "model": 5}, None),
        ({"choices": []}, None),
    ],
)
def test_the_model_that_answered_is_named(raw: dict[str, Any], model: str | None) -> None:
    assert dialects.parse_reply(raw)[2] == model


CALLED = {"message": {"tool_calls": [{"id": "c", "function": {"name": "T"}}]}}


@pytest.mark.parametrize(
    ("raw", "stop"),
    [
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}, "end"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "odd"}]}, "other"),
        ({"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]}, "length"),
        ({"choices": [{**CALLED, "finish_reason": "stop"}]}, "tool_use"),
        ({"choices": [{**CALLED, "finish_reason": None}]}, "tool_use"),
        ({"choices": [{**CALLED, "finish_reason": "length"}]}, "length"),
        ({"choices": [{"message": {"refusal": "no"}, "finish_reason": "stop"}]}, "refusal"),
        ({"output": [{"type": "function_call", "call_id": "c", "name": "T"}]}, "tool_use"),
        ({"output": [{"type": "message", "content": "x"}], "status": "completed"}, "end"),
        (
            {"output": [], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            "length",
        ),
        ({"output": [], "status": "incomplete"}, "other"),
        ({"output": [], "status": "cancelled"}, "aborted"),
        ({"output": [], "status": "failed", "error": {"message": "bad"}}, "error"),
        ({"stop_reason": "refusal"}, "refusal"),
        ({"type": "message", "model": "claude", "role": "assistant", "content": "x"}, "other"),
    ],
)
def test_why_a_reply_ended(raw: dict[str, Any], stop: str) -> None:
    message, _, _ = dialects.parse_reply(raw)
    assert message.stop == stop
    assert message.error == ("bad" if stop == "error" else None)


BLOCKS = {
    "anthropic": ("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"),
    "responses": ("input_text", "output_text", "input_image"),
    "openai": ("image_url", "file", "text", "odd"),
}


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        *(({"role": "user", "content": [{"type": kind}]}, name) for name, kinds in BLOCKS.items() for kind in kinds),
        ({"role": "tool"}, "openai"),
        ({"role": "function"}, "openai"),
        *(({"role": "assistant", key: 1}, "openai") for key in ("tool_calls", "function_call", "reasoning_content")),
        ({"choices": []}, "openai"),
        ({"type": "message", "role": "assistant", "model": "claude"}, "anthropic"),
        ({"type": "message", "role": "assistant", "stop_reason": None}, "anthropic"),
        ({"type": "message", "role": "assistant"}, "responses"),
        ({"type": "function_call"}, "responses"),
        ({"object": "response"}, "responses"),
        ({"output": []}, "responses"),
        ({"output": "x"}, "openai"),
        ({"stop_reason": "end_turn"}, "anthropic"),
        ({"system": "be", "messages": []}, "anthropic"),
        ({"system": "be"}, "openai"),
        ({"role": "user", "content": "x"}, "openai"),
    ],
)  # fmt: skip
def test_what_tells_a_dialect(raw: dict[str, Any], name: str) -> None:
    assert dialects.dialect_of(raw).name == name


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SPEC = ToolSpec("Read", "reads", SCHEMA)
CHAT_TOOL = {"type": "function", "function": {"name": "Read", "description": "reads", "parameters": SCHEMA}}
ITEM_TOOL = {
    "type": "function",
    "name": "Read",
    "description": "reads",
    "parameters": SCHEMA,
    "strict": False,
}
CLAUDE_TOOL = {"name": "Read", "description": "reads", "input_schema": SCHEMA}
OWN = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


@pytest.mark.parametrize("tool", [SPEC, CHAT_TOOL, ITEM_TOOL, CLAUDE_TOOL])
def test_a_tool_is_written_in_every_dialect(tool: Any) -> None:
    assert parse_tool(tool) == SPEC
    assert openai_chat.render_tools([tool, OWN]) == [CHAT_TOOL, OWN]
    assert openai_responses.render_tools([tool, OWN]) == [ITEM_TOOL, OWN]
    assert anthropic.render_tools([tool, OWN]) == [CLAUDE_TOOL, OWN]
    assert anthropic.render([], tools=[tool])["tools"] == [CLAUDE_TOOL]


def test_a_tool_that_was_given_is_sent_once_more_as_it_was() -> None:
    strict = {"type": "function", "function": {"name": "Read", "strict": True, "parameters": SCHEMA}}
    [given, own] = given_tools([strict, OWN])
    assert (given.name, given.parameters, own.name) == ("Read", SCHEMA, "web_search")
    assert openai_chat.render_tools([given, own]) == [strict, OWN]
    assert anthropic.render_tools([given]) == [{"name": "Read", "input_schema": SCHEMA}]
    cached = {**CLAUDE_TOOL, "cache_control": {"type": "ephemeral"}}
    assert anthropic.render_tools(given_tools([cached])) == [cached]
    assert parse_tools([OWN, strict]) == (ToolSpec("Read", "", SCHEMA),)
    assert given_tools([{"type": "bash"}])[0].name == "bash"
    assert parse_tools([{"type": "function", "name": "now"}]) == (ToolSpec("now", "", {}),)
    assert parse_tools([{"type": "bash", "name": "bash"}]) == ()


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": "string"}, {"type": "string"}),
    ],
)
def test_a_tool_without_parameters_takes_an_object(given: Any, schema: Any) -> None:
    assert json_schema(ToolSpec("T", "", given)) == {"name": "T", "input_schema": schema}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"type": "odd", "text": " t "}, " t "),
        ({"type": "odd", "text": " "}, "[odd: not shown here]"),
        ({"filename": "f", "title": "t", "name": "n"}, "[content f: not shown here]"),
        ({"title": "t", "name": "n"}, "[content t: not shown here]"),
        ({"type": 5, "name": 5}, "[content: not shown here]"),
    ],
)
def test_what_has_no_place_is_told(raw: dict[str, Any], text: str) -> None:
    assert common.describe_opaque(raw) == text


@pytest.mark.parametrize(
    ("url", "image"),
    [
        (DATA, PNG),
        ("data:;base64,AAAA", PNG),
        ("data:image/gif;x=y;base64,AA", m.Image("image/gif", data="AA")),
        ("data:image/gif,AA", m.Image(url="data:image/gif,AA")),
        ("http://x;base64,AA", m.Image(url="http://x;base64,AA")),
        ("data:;base64", m.Image(url="data:;base64")),
    ],
)
def test_a_picture_is_known_by_its_address(url: str, image: m.Image) -> None:
    assert common.parse_image(url) == image


@pytest.mark.parametrize(
    ("given", "call"),
    [
        (None, m.Call("c", "T")),
        ("", m.Call("c", "T")),
        ('{"a":1}', m.Call("c", "T", {"a": 1})),
        ({"a": 1}, m.Call("c", "T", {"a": 1})),
        ("[1]", m.Call("c", "T", raw="[1]")),
        ([1], m.Call("c", "T", raw="[1]")),
        ("{", m.Call("c", "T", raw="{")),
        ({"malformed_arguments": "{"}, m.Call("c", "T", raw="{")),
        ({"malformed_arguments": 1}, m.Call("c", "T", {"malformed_arguments": 1})),
        ({"malformed_arguments": "{", "b": 1}, m.Call("c", "T", {"malformed_arguments": "{", "b": 1})),
        ({"a": float("inf")}, m.Call("c", "T", raw='{"a":Infinity}')),
    ],
)
def test_arguments_are_read_as_far_as_they_are_an_object(given: Any, call: m.Call) -> None:
    assert common.parse_arguments("c", "T", given) == call


@pytest.mark.parametrize("limit", [40, 64])
def test_ids_and_names_fit_and_stay_different(limit: int) -> None:
    assert common.short_id("x" * limit, limit) == common.wire_id("x" * limit, limit) == "x" * limit
    for make in (common.short_id, common.wire_id):
        first, second = make("x" * (limit + 1), limit), make("x" * (limit + 2), limit)
        assert len(first) == len(second) == limit and first != second
        assert make("ä", limit) != make("ö", limit)
    assert common.short_id("a/b", limit) == "a/b" and common.wire_id("a/b", limit).startswith("a_b_")
    assert common.wire_name("x" * 64) == "x" * 64 and common.wire_name("x" * 65) == "x" * 64
    assert (common.wire_name("a b"), common.wire_name("")) == ("a_b", "tool")


def test_what_is_too_deep_or_no_number_for_others_becomes_text_or_nothing() -> None:
    deep: Any = "leaf"
    for _ in range(102):
        deep = [deep]
    copy: Any = common.json_copy(deep)
    for _ in range(100):
        [copy] = copy
    assert copy == '[["leaf"]]'
    assert common.json_copy({"a": [float("nan"), 1 << 13_000, (1 << 12_999)], 5: "x"}) == {
        "a": [None, m.compact_json(1 << 13_000), 1 << 12_999],
        "5": "x",
    }


def test_what_is_no_dialect_message_or_reply_says_so() -> None:
    with pytest.raises(UnknownName, match=r"dialect\b"):
        dialects.get("klingon")
    with pytest.raises(WrongType, match="expected a message, got int"):
        common.as_dict(5)
    with pytest.raises(UsageError, match="not a model reply"):
        dialects.parse_reply({"role": "user", "content": "x"})

    class Broken(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("boom")

    with pytest.raises(WrongType, match=r"reply cannot be read.*boom"):
        dialects.parse_reply(Broken(role="user"))
    assert common.to_list(None) == [] and common.to_list("x") == ["x"] and common.to_list((1, 2)) == [1, 2]
    assert common.to_list({"a": 1}) == [{"a": 1}] and common.to_list(x for x in (1,)) == [1]
