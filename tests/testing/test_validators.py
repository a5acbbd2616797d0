"""The validators refuse what the providers refuse, and agree with the SDKs' own types."""

from __future__ import annotations

from typing import Any

import pytest

from refold.testing.validators import validate_anthropic, validate_openai, validate_responses
from tests.session.sdk_types import anthropic_problems, openai_problems, responses_problems

Wire = dict[str, Any]
USER: Wire = {"role": "user", "content": "go"}


def call(id: str = "a", **function: Any) -> Wire:
    return {"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}", **function}}


def asks(*calls: Wire) -> Wire:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def tool(id: str = "a", content: Any = "x") -> Wire:
    return {"role": "tool", "tool_call_id": id, "content": content}


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "too short"),
        ([USER, asks(call())], "without response"),
        ([USER, asks(call(), call("b")), tool(), USER], "without response messages: b"),
        ([USER, tool()], "no response to a preceding"),
        ([USER, asks(call()), tool(), tool()], "no response to a preceding"),
        ([USER, asks(call()), USER, tool()], "without response"),
        ([USER, asks(call("x" * 41)), tool("x" * 41)], "1 to 40"),
        ([USER, asks(call(name="a.b")), tool()], "function.name"),
        ([USER, asks(call(arguments="{")), tool()], "JSON text"),
        ([USER, asks(call(), call()), tool(), tool()], "duplicate ids"),
        ([USER, asks(), USER], "empty array"),
        ([USER, {"role": "assistant", "content": None}], "got null"),
        ([{"role": "bot", "content": "x"}], "roles"),
        ([{"role": "user", "content": []}], "empty array"),
        (
            [USER, asks(call()), tool("a", [{"type": "image_url", "image_url": {"url": "x"}}])],
            "no place here",
        ),
        ([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "image_url"),
    ],
)
def test_chat_rejections(messages: list[Wire], says: str) -> None:
    assert any(says in problem for problem in validate_openai(messages))


def test_chat_accepts_what_is_right_and_open_ends_only_when_asked() -> None:
    good = [{"role": "system", "content": "s"}, USER, asks(call(), call("b")), tool(), tool("b"), USER]
    assert validate_openai(good) == [] == openai_problems(good)
    assert validate_openai(good[:4], partial=True) == []
    assert validate_openai(good[:4]) != []


@pytest.mark.parametrize(
    ("name", "schema", "says"), [("a b", {"type": "object"}, "name"), ("ok", {"type": "string"}, "'object'")]
)
def test_chat_tools(name: str, schema: Wire, says: str) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": schema}}]
    assert any(says in p for p in validate_openai([USER], tools))
    assert any("unique" in p for p in validate_openai([USER], tools * 2))


def use(id: str = "a", **more: Any) -> Wire:
    return {"type": "tool_use", "id": id, "name": "Read", "input": {}, **more}


def gave(id: str = "a", **more: Any) -> Wire:
    return {"type": "tool_result", "tool_use_id": id, "content": "x", **more}


def said(text: str = "hi", **more: Any) -> Wire:
    return {"type": "text", "text": text, **more}


def user(*blocks: Wire) -> Wire:
    return {"role": "user", "content": list(blocks)}


def reply(*blocks: Wire) -> Wire:
    return {"role": "assistant", "content": list(blocks)}


THOUGHT: Wire = {"type": "thinking", "thinking": "hm", "signature": "s"}
MARK: Wire = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([], "at least one"),
        ([reply(said())], "first message"),
        ([user(said()), user(said())], "in a row"),
        ([user()], "non-empty content"),
        ([user(said(" \n"))], "non-whitespace"),
        ([user(said()), reply(said("x "))], "trailing whitespace"),
        ([user(said()), reply(use()), user(said())], "without tool_result"),
        ([user(said()), reply(use())], "without tool_result"),
        ([user(gave())], "unexpected tool_use_id"),
        ([user(said()), reply(said()), user(gave())], "unexpected tool_use_id"),
        ([user(said()), reply(use()), user(gave(), gave())], "single result"),
        ([user(said()), reply(use()), user(said(), gave())], "come first"),
        ([user(said()), reply(use(), use()), user(gave())], "unique"),
        ([user(said()), reply(use("a.b")), user(gave("a.b"))], "tool_use.id"),
        ([user(said()), reply(use(name="a.b")), user(gave())], "tool_use.name"),
        ([user(said()), reply(use(input="{}")), user(gave())], "dictionary"),
        ([user(said()), reply(said(), THOUGHT), user(said())], "cannot be thinking"),
        ([user(said()), reply({"type": "thinking", "thinking": "x"}, said())], "signature"),
        ([user(THOUGHT, said())], "belong to the assistant"),
        ([user(said()), reply({**THOUGHT, **MARK}, said())], "not permitted"),
        ([user(*[said(**MARK)] * 5)], "maximum of 4"),
        ([{"role": "system", "content": "x"}], "unexpected role"),
        (
            [user({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "A"}})],
            "media_type",
        ),
        ([user(said()), reply(use()), user(gave(content=[], is_error=True))], "is_error"),
        ([user(said()), reply(use()), user(gave(content=[said("")]))], "non-whitespace"),
    ],
)
def test_anthropic_rejections(messages: list[Wire], says: str) -> None:
    assert any(says in problem for problem in validate_anthropic({"system": [], "messages": messages}))


def test_anthropic_accepts_what_is_right() -> None:
    good = {
        "system": [said("rules", **MARK)],
        "messages": [
            user(said()),
            reply(THOUGHT, said("x "), use(), use("b")),
            user(gave(), gave("b"), said("go")),
        ],
        "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
    }
    assert validate_anthropic(good, thinking=True) == [] == anthropic_problems(good)
    half = {"system": [], "messages": [user(said()), reply(use(), use("b")), user(gave())]}
    assert validate_anthropic(half, partial=True) == []
    assert validate_anthropic(half) != []


def test_anthropic_loop_must_start_with_thinking_when_it_is_on() -> None:
    bare = {"messages": [user(said()), reply(use()), user(gave())]}
    assert any("expected thinking" in p for p in validate_anthropic(bare, thinking=True))
    assert validate_anthropic(bare) == []


def fcall(id: str = "a", **more: Any) -> Wire:
    return {"type": "function_call", "call_id": id, "name": "Read", "arguments": "{}", **more}


def fout(id: str = "a", output: Any = "x") -> Wire:
    return {"type": "function_call_output", "call_id": id, "output": output}


SEALED: Wire = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "empty"),
        ([USER, fcall()], "no tool output"),
        ([USER, fout()], "no tool call found"),
        ([USER, fcall(), fout(), fout()], "second output"),
        ([USER, fcall("x" * 65), fout("x" * 65)], "1 to 64"),
        ([USER, fcall(), fout(), fcall(), fout()], "used before"),
        ([USER, SEALED], "following item"),
        ([USER, SEALED, USER], "following item"),
        ([{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}], "no place here"),
        ([{"role": "user", "content": ""}], "empty"),
        ([USER, fcall(), fout("a", [{"type": "output_text", "text": "x"}])], "no place here"),
        ([USER, fcall(arguments="nope"), fout()], "JSON text"),
    ],
)
def test_responses_rejections(given: list[Wire], says: str) -> None:
    assert any(says in problem for problem in validate_responses(given))


def test_responses_accepts_what_is_right() -> None:
    good = [USER, SEALED, fcall(), fcall("b"), fout(), fout("b"), {"role": "assistant", "content": "done"}]
    assert validate_responses(good) == [] == responses_problems(good)
    assert validate_responses(good[:5], partial=True) == []
    assert validate_responses([*good[:5], USER], partial=True) != []


def test_the_sdk_types_really_judge() -> None:
    assert openai_problems([{"role": "user"}]) != []
    assert openai_problems([asks({"id": 1})]) != []
    assert anthropic_problems({"system": [{"type": "text"}], "messages": []}) != []
    assert anthropic_problems({"system": [], "messages": [user({"type": "tool_result"})]}) != []
    assert responses_problems([{"type": "function_call", "name": 3}]) != []
