"""The dialects read what providers send and write what they take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refold import messages as m
from refold.errors import UsageError
from refold.protocols import ToolSpec
from refold.session import dialects
from refold.session.dialects import anthropic, openai_chat, openai_responses
from refold.session.dialects.common import Given
from refold.session.dialects.tools import parse_tools
from refold.session.invariants import repair
from refold.session.items import Item
from refold.testing.builders import items
from refold.testing.validators import validate_anthropic, validate_openai, validate_responses
from tests.data import shared
from tests.session.identity import identity

# ── reading ─────────────────────────────────────────────────────────────────────────────────────


def test_chat_calls_with_malformed_arguments_keep_them() -> None:
    raw = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": '{"path": "x"}'}},
            {"id": "b", "type": "function", "function": {"name": "Read", "arguments": '{"path": '}},
            {"id": "c", "type": "function", "function": {"name": "Read", "arguments": "[1]"}},
            {"id": "d", "type": "function", "function": {"name": "Read", "arguments": ""}},
        ],
    }
    [message] = openai_chat.parse(raw)
    assert [(c.arguments, c.raw) for c in message.calls] == [
        ({"path": "x"}, None),
        ({}, '{"path": '),
        ({}, "[1]"),
        ({}, None),
    ]


@pytest.mark.parametrize("render", [openai_chat, openai_responses, anthropic])
def test_malformed_arguments_travel_as_an_object_and_come_back(render: Any) -> None:
    broken = m.Assistant((m.Call("a", "Read", raw='{"path": '),))
    back = render.parse_list(render.render([m.user("go"), broken, m.result("a", "x")]))
    assert back[1].calls == broken.calls


def test_chat_roles_and_parts() -> None:
    parsed = openai_chat.parse_list(
        [
            {"role": "developer", "content": "rules"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "hm",
                "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "Sh", "input": "ls -l"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "out"}]},
            {"role": "assistant", "refusal": "no"},
            {"role": "user", "content": [{"type": "video", "url": "x"}]},
        ]
    )
    assert parsed == [
        m.system("rules"),
        m.user(["see", m.image("AAAA", "image/jpeg")]),
        m.Assistant((m.thinking("hm"), m.Call("a", "Sh", raw="ls -l"))),
        m.result("a", "out"),
        m.Assistant((m.Text("no"),), "refusal"),
        m.User((m.Opaque({"type": "video", "url": "x"}, "openai/user"),)),
    ]


def test_calls_from_before_calls_had_ids_are_paired() -> None:
    parsed = openai_chat.parse_list(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "done"},
        ]
    )
    assert parsed[1].calls[0].id == parsed[2].call_id  # pyright: ignore
    assert validate_openai(openai_chat.render(repair(items(parsed), "openai"))) == []


def test_one_anthropic_message_with_several_results_is_several_messages() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "a", "content": "one"},
        {"type": "text", "text": "and go on"},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "two"}],
            "is_error": True,
        },
    ]
    assert anthropic.parse({"role": "user", "content": blocks}) == [
        m.result("a", "one"),
        m.result("b", "two", is_error=True),
        m.user("and go on"),
    ]


def test_anthropic_thinking_is_kept_to_the_letter() -> None:
    content = [
        {"type": "thinking", "thinking": "let me see", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
    ]
    request = {
        "system": "rules",
        "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": content}],
    }
    parsed = anthropic.parse_list(request)
    assert parsed[0] == m.system("rules")
    assert anthropic.render(parsed)["messages"][1]["content"] == content


def test_the_items_of_one_response_are_one_message() -> None:
    wire = [
        {"role": "user", "content": "go"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "plan"}],
            "encrypted_content": "gAAA",
        },
        {"type": "message", "role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "a", "name": "Read", "arguments": '{"path":"x"}'},
        {"type": "function_call", "call_id": "b", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
    ]
    parsed = openai_responses.parse_list(wire)
    assert [x.role for x in parsed] == ["user", "assistant", "tool", "tool"]
    assert parsed[1].parts[0] == m.Thinking("plan", None, "gAAA", "rs_1")
    back = openai_responses.render(parsed)
    assert [{k: v for k, v in x.items() if k != "type" or v != "message"} for x in back] == [
        {k: v for k, v in x.items() if k != "type" or v != "message"} for x in wire
    ]


def test_reasoning_without_its_following_item_is_not_sent() -> None:
    sealed = m.Thinking("", None, "gAAA", "rs_1")
    wire = openai_responses.render([m.user("go"), m.Assistant((m.Text("done"), sealed))])
    assert [x["type"] for x in wire] == ["message", "message"]


def test_the_dialect_of_a_message_is_recognised() -> None:
    use = {"type": "tool_use", "id": "a", "name": "b", "input": {}}
    call = {"type": "function_call", "call_id": "a", "name": "b", "arguments": "{}"}
    assert dialects.dialect_of({"role": "user", "content": "hi"}) is openai_chat
    assert dialects.dialect_of({"role": "assistant", "content": [use]}) is anthropic
    assert dialects.dialect_of(call) is openai_responses
    for nothing in (object(), "text", 7):
        with pytest.raises(UsageError):
            dialects.parse(nothing)


# ── replies ─────────────────────────────────────────────────────────────────────────────────────

CHAT = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "refusal": None,
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "Read", "arguments": '{"path":"x"}'}}
                ],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "total_tokens": 107,
        "prompt_tokens_details": {"cached_tokens": 60},
    },
}
CLAUDE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "x"}},
    ],
    "usage": {
        "input_tokens": 40,
        "output_tokens": 7,
        "cache_read_input_tokens": 60,
        "cache_creation_input_tokens": 5,
    },
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-x",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {
            "type": "message",
            "id": "msg",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc", "call_id": "a", "name": "Read", "arguments": '{"path":"x"}'},
    ],
    "usage": {
        "input_tokens": 100,
        "output_tokens": 7,
        "total_tokens": 107,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}


def sdk_object(kind: str, raw: dict[str, Any]) -> Any:
    if kind == "chat":
        from openai.types.chat import ChatCompletion as Type
    elif kind == "response":
        from openai.types.responses import Response as Type
    else:
        from anthropic.types import Message as Type
    return Type.model_validate(raw)


@pytest.mark.parametrize(("kind", "raw"), [("chat", CHAT), ("claude", CLAUDE), ("response", RESPONSE)])
def test_replies_of_every_provider_as_dict_and_as_sdk_object(kind: str, raw: dict[str, Any]) -> None:
    expected = m.assistant("Let me look.", m.call("a", "Read", path="x"))
    for given in (raw, sdk_object(kind, raw)):
        message, usage, model = dialects.parse_reply(given)
        assert message == expected
        assert usage == m.Usage(40, 7, 60, 5 if kind == "claude" else 0)
        assert model == ("anthropic:claude-x" if kind == "claude" else "openai:gpt-x")


def test_replies_that_are_messages_already() -> None:
    ours = m.assistant("hi")
    assert dialects.parse_reply(ours) == (ours, None, None)
    assert dialects.parse_reply({"role": "assistant", "content": "hi"})[0].text == "hi"
    with pytest.raises(UsageError):
        dialects.parse_reply({"role": "user", "content": "hi"})


def test_stop_reasons() -> None:
    def chat(reason: str) -> m.Stop | None:
        return dialects.parse_reply({"choices": [{"finish_reason": reason, "message": {"content": "x"}}]})[
            0
        ].stop

    assert [chat(r) for r in ("stop", "length", "content_filter", "?")] == [
        "end",
        "length",
        "refusal",
        "other",
    ]
    incomplete = {**RESPONSE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    failed = {**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "oops"}}
    assert dialects.parse_reply(incomplete)[0].stop == "length"
    assert dialects.parse_reply(failed)[0] == m.Assistant(
        dialects.parse_reply(RESPONSE)[0].content, "error", "oops"
    )


def test_sdk_objects_inside_dicts_are_read() -> None:
    block_list = sdk_object("claude", CLAUDE).content  # what every Anthropic loop appends
    [message] = dialects.parse({"role": "assistant", "content": block_list})
    assert message.calls[0].arguments == {"path": "x"}


@pytest.mark.parametrize("whole", [CHAT, CLAUDE, RESPONSE], ids=["chat", "anthropic", "response"])
def test_only_one_dialect_is_sure_of_a_reply(whole: dict[str, Any]) -> None:
    assert [d.speaks(whole) for d in dialects.DIALECTS.values()].count(True) == 1


def test_a_message_that_could_be_anybodys_is_read_like_its_neighbours() -> None:
    """Of a response the text may be spelled as a plain message; it belongs to the call that follows."""
    spread = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
    ]
    assert [x.role for x in dialects.parse_list(spread)] == ["user", "assistant", "tool"]
    mixed = [
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]},
        m.assistant("ours", m.call("b", "Read")),
        {"role": "tool", "tool_call_id": "b", "content": "y"},
        {"role": "assistant", "content": "one"},
        {"role": "assistant", "content": "two"},
    ]
    read = dialects.parse_list(mixed)
    assert [x.role for x in read] == ["user", "assistant", "tool", "assistant", "assistant"]
    assert read[1] is mixed[1] and read[2] == m.result("b", "y")


def test_requests_of_every_dialect_are_read() -> None:
    said: list[m.Message] = [
        m.system("rules"),
        m.user("go"),
        m.Assistant((m.call("a", "Read"),)),
        m.result("a", "x"),
    ]
    for dialect in dialects.DIALECTS.values():
        rendered = dialect.render(said)
        request = rendered if isinstance(rendered, dict) else {dialect.field: rendered}
        assert dialects.parse_list(request) == said


def test_an_output_item_alone_is_a_reply() -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    assert dialects.parse_reply(item) == (m.Assistant((m.Text("hi"),)), None, None)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────

TALK: list[m.Message] = [
    m.system("Be kind."),
    m.user("Look"),
    m.assistant("Looking.", m.call("c.1", "mcp.read", path="a"), m.call("c2", "Bash")),
    m.Result("c.1", (m.Text("see"), m.image("AAAA"))),
    m.result("c2", "", is_error=True),
    m.system("Be brief."),
    m.Bash("ls", "a\n", 1),
    m.Bash("secret", hidden=True),
    m.assistant("ok \n"),
]


def test_chat_pictures_of_results_follow_the_batch() -> None:
    wire = openai_chat.render(TALK)
    assert [x["role"] for x in wire] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "system",
        "user",
        "assistant",
    ]
    assert wire[5]["content"][1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert wire[2]["tool_calls"][0]["function"]["name"] == "mcp_read"
    assert wire[7]["content"] == "$ ls\na\n(exit 1)"
    assert validate_openai(wire) == []


def test_chat_pictures_wait_while_the_batch_is_open() -> None:
    wire = openai_chat.render(TALK[:4])
    assert [x["role"] for x in wire] == ["system", "user", "assistant", "tool"]


def test_anthropic_later_system_messages_stay_visible() -> None:
    wire = anthropic.render(TALK, system="First.")
    assert [b["text"] for b in wire["system"]] == ["First.", "Be kind."]
    said = wire["messages"][2]["content"]
    assert [b["type"] for b in said] == ["tool_result", "tool_result", "text", "text"]
    assert said[2]["text"] == "<system_message>\nBe brief.\n</system_message>"
    assert validate_anthropic(wire) == []


def test_anthropic_ids_are_sanitised_alike_on_call_and_result() -> None:
    wire = anthropic.render(TALK)
    use, result = wire["messages"][1]["content"][1], wire["messages"][2]["content"][0]
    assert use["id"] == result["tool_use_id"] != "c.1"
    assert (
        anthropic.render([m.user("x"), m.assistant("", m.call("c|1", "Read"))])["messages"][1]["content"][0][
            "id"
        ]
        != use["id"]
    )


def test_anthropic_final_reply_has_no_trailing_whitespace() -> None:
    assert anthropic.render(TALK)["messages"][-1]["content"] == [{"type": "text", "text": "ok"}]


def test_anthropic_breakpoints_are_on_the_stable_prefix() -> None:
    listed = [Item(x, (f"e{i}",), "f1" if i in (1, 2) else None) for i, x in enumerate(
        [m.system("s"), m.user("summary"), m.assistant("Ok."), m.user("a"), m.assistant("b"), m.user("c"), m.assistant("d"), m.user("e")]
    )]  # fmt: skip
    wire = anthropic.render(listed, cache=True, ttl="1h")
    marked = [i for i, x in enumerate(wire["messages"]) if "cache_control" in x["content"][-1]]
    assert marked == [1, 4, 6]
    assert wire["system"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert validate_anthropic(wire) == []
    assert "cache_control" not in json.dumps(anthropic.render(listed))


def test_anthropic_breakpoint_on_tools_where_there_is_no_system() -> None:
    wire = anthropic.render([m.user("a")], tools=[ToolSpec("Read")], cache=True)
    assert "cache_control" in wire["tools"][-1]


def test_half_characters_can_be_sent() -> None:
    hostile: list[m.Message] = [m.user("a\ud83d b"), m.assistant("", m.call("c", "Read", path="\udc00x"))]
    for render in (openai_chat.render, openai_responses.render, anthropic.render):
        json.dumps(render(hostile), ensure_ascii=False).encode()


def test_tool_definitions_in_every_shape() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    spec = ToolSpec("Read", "Reads a file", schema)
    to_openai, to_anthropic = openai_chat.render_tools, anthropic.render_tools
    for shape in (to_openai, openai_responses.render_tools, to_anthropic):
        assert parse_tools(shape([spec])) == (spec,)
        assert shape(to_openai([spec])) == shape([spec])
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert to_anthropic([search]) == [search] and parse_tools([search]) == ()
    assert to_anthropic([ToolSpec("Ping")])[0]["input_schema"] == {"type": "object", "properties": {}}
    assert validate_openai([{"role": "user", "content": "x"}], to_openai([spec])) == []


# ── real conversations ──────────────────────────────────────────────────────────────────────────


@pytest.mark.data
def test_real_conversations_are_valid_in_every_dialect() -> None:
    for run in json.loads(shared("tau-bench/gpt-4o-airline.first80.json").read_text())[:40]:
        parsed = openai_chat.parse_list(run["traj"])
        listed = items([*parsed, m.user("more")])
        assert validate_openai(openai_chat.render(repair(listed, "openai"))) == []
        assert validate_responses(openai_responses.render(repair(listed, "responses"))) == []
        assert validate_anthropic(anthropic.render(repair(listed, "anthropic"), cache=True)) == []
        back = openai_chat.parse_list(openai_chat.render(parsed))
        assert [identity(x) for x in back] == [identity(x) for x in parsed]


def test_a_long_run_of_output_items_is_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work grows with the length of the list, not with its square."""
    copied = 0

    def given(message: m.Message, wire: list[Any]) -> Given:
        nonlocal copied
        copied += len(message.parts) + len(wire)
        return Given(message, wire)

    monkeypatch.setattr(openai_responses, "Given", given)
    items = [{"type": "message", "role": "assistant", "content": "a"}] * 1_000
    [message] = openai_responses.parse_list(items)
    assert (message.text.replace("\n", ""), copied) == ("a" * 1_000, 2_000)
