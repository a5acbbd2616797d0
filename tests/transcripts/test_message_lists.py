"""Message lists of providers, plain lists, and refold's own files."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts as t
from refold.errors import FormatError, NewerFormat
from refold.protocols import Loaded
from refold.session import Session
from refold.text.lenient_json import partial_json
from refold.transcripts import refold_jsonl

CHAT: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "Read", "arguments": '{"path":"a"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "text"},
    {"role": "assistant", "content": "Done.", "feedback": 5},
]
ANTHROPIC: dict[str, Any] = {
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Look"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "text", "is_error": True},
                {"type": "text", "text": "Go on"},
            ],
        },
    ],
}
RESPONSES: list[Any] = [
    {"role": "user", "content": "Look"},
    {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "text"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
]
SHARED: dict[str, Any] = {
    "id": "42",
    "conversations": [{"from": "human", "value": "Look"}, {"from": "gpt", "value": "Done."}],
}

SHAPES = {
    "one line": lambda value: json.dumps(value),
    "indented": lambda value: json.dumps(value, indent=1),
    "lines": lambda value: "\n".join(
        json.dumps(item) for item in (value if isinstance(value, list) else [value])
    ),
    "commented": lambda value: (
        "// a comment\n\n"
        + "\n".join(json.dumps(item) for item in (value if isinstance(value, list) else [value]))
    ),
}


def load(text: str | bytes) -> Loaded:
    data = text.encode() if isinstance(text, str) else text
    return t.read_stream(io.BytesIO(data), name="folder/talk.json")


def said(loaded: Loaded) -> list[m.Message]:
    return [one.message for one in loaded.entries if isinstance(one, e.MessageEntry)]


def ids(loaded: Loaded) -> list[str]:
    return [one.id for one in loaded.entries if one.on_path]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("value", "format", "wanted"),
    [
        (CHAT, "openai", ["e0", "e1", "e2", "e3", "e4"]),
        ({"model": "gpt", "messages": CHAT}, "openai", ["e0", "e1", "e2", "e3", "e4"]),
        (ANTHROPIC, "anthropic", ["system", "e0", "e1", "e2", "e2.1"]),
        (RESPONSES, "openai-responses", ["e0", "e1", "e3", "e4"]),
        (SHARED, "plain", ["e0", "e1"]),
    ],
)
def test_every_shape_of_every_list(shape: str, value: Any, format: str, wanted: list[str]) -> None:
    text = SHAPES[shape](value)
    if shape == "commented" and text.count("\n") < 3:
        pytest.skip("a document is no list of lines")
    assert t.detect(text.encode()) == format
    loaded = load(text)
    assert ids(loaded) == wanted
    assert not loaded.problems
    assert [one.parent for one in Session.of(loaded).path] == [None, *wanted[:-1]]


def test_chat_messages_and_what_they_say_beyond() -> None:
    loaded = load(json.dumps(CHAT))
    system, user, call, result, reply = said(loaded)
    assert system == m.system("Be brief.")
    assert user.parts == (m.Text("Look"), m.Image("image/png", "aGk="))
    assert call.calls[0] == m.call("c1", "Read", path="a")
    assert result == m.result("c1", "text", name="Read")
    assert reply.text == "Done."
    assert isinstance(loaded.entries[-1], e.MessageEntry)
    assert loaded.entries[-1].meta == {"extra": {"feedback": 5}}


def test_anthropic_results_come_before_the_text() -> None:
    _, _, reply, result, user = said(load(json.dumps(ANTHROPIC)))
    assert reply.parts[0] == m.Thinking("hm", "s")
    assert result == m.result("c1", "text", name="Read", is_error=True)
    assert user == m.user("Go on")


def test_items_of_one_reply_are_one_message() -> None:
    _, reply, result, last = said(load(json.dumps(RESPONSES)))
    assert [type(part) for part in reply.parts] == [m.Thinking, m.Call]
    assert result == m.result("c1", "text", name="Read")
    assert last.text == "Done."


def test_unknown_roles_are_read_and_reported() -> None:
    loaded = load(json.dumps([{"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}]))
    assert [message.role for message in said(loaded)] == ["user", "user"]
    assert "narrator" in loaded.problems[0].text


def test_what_is_no_message_is_reported() -> None:
    loaded = load(json.dumps([*CHAT, 17, "x"]))
    assert len(said(loaded)) == 5
    assert [problem.where for problem in loaded.problems] == ["message 5", "message 6"]


def test_several_conversations() -> None:
    text = "\n".join(json.dumps({"messages": [{"role": "user", "content": f"number {i}"}]}) for i in range(3))
    assert said(load(text)) == [m.user("number 0")]
    assert "3 conversations" in load(text).problems[0].text
    third = t.read_stream(io.BytesIO(text.encode()), index=2)
    assert said(third) == [m.user("number 2")]
    assert not third.problems


def test_times_and_names_are_kept() -> None:
    loaded = load(
        json.dumps(
            {
                "title": "Talk",
                "messages": [{"role": "user", "content": "a", "timestamp": "2026-01-01T00:00:00Z"}],
            }
        )
    )
    assert loaded.info is not None
    assert loaded.info.name == "Talk"
    assert loaded.info.updated == 1767225600.0
    assert load(json.dumps(CHAT)).info.id == "talk"  # type: ignore[union-attr]  there is one, asserted above


# ── refold's own ────────────────────────────────────────────────────────────────────────────────


def test_own_files_are_read_back_as_they_were() -> None:
    session = Session(id="s1")
    session.append(m.user("one"))
    session.append(m.assistant("two", m.call("c", "Read", path="x")))
    session.append(session.make(e.Pin, target=session.entries[0].id))
    data = refold_jsonl.write_own_session(session.entries, session.info)
    assert t.detect(data) == "refold"
    loaded = load(data)
    assert loaded.entries == tuple(session.entries)
    assert loaded.info is not None
    assert loaded.info.id == "s1"


def test_own_files_with_several_entries_on_a_line() -> None:
    session = Session(id="s1")
    for text in "abc":
        session.append(m.user(text))
    header, *rows = refold_jsonl.write_own_session(session.entries, session.info).splitlines()
    assert load(header + b"\n[" + b",".join(rows) + b"]\n").entries == tuple(session.entries)


def test_own_files_report_torn_lines_and_refuse_newer_versions() -> None:
    session = Session(id="s1")
    session.append(m.user("a"))
    data = refold_jsonl.write_own_session(session.entries, session.info)
    loaded = load(data + b'{"type":"message","id":"x"')
    assert len(loaded.entries) == 1
    assert loaded.problems[0].where == "line 3"
    with pytest.raises(NewerFormat):
        load(data.replace(b'"version":1', b'"version":99'))


def test_unknown_entries_of_a_newer_release_are_kept() -> None:
    data = b'{"type":"session","version":1,"id":"s","created":1}\n{"type":"sparkle","id":"x","parent":null,"n":1}\n'
    loaded = load(data)
    assert isinstance(loaded.entries[0], e.Unknown)
    assert refold_jsonl.write_own_session(loaded.entries, loaded.info).splitlines()[1] == data.splitlines()[1]  # type: ignore[arg-type]


# ── documents that break off ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,2,{"b":"x', {"a": [1, 2, {}]}),
        ('[{"role":"user"},{"ro', [{"role": "user"}, {}]),
        ('{"a":1}{"b":2}', {"a": 1}),
        ('{"a":"\\"}', {}),
        ('{"a":{"b":1},"c":tr', {"a": {"b": 1}}),
    ],
)
def test_partial_json(text: str, value: Any) -> None:
    assert partial_json(text) == value


@pytest.mark.parametrize("text", ["", "x", "17", '"a"', "}{", "[}"])
def test_partial_json_of_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        partial_json(text)


def test_a_long_document_is_told_from_its_beginning() -> None:
    text = json.dumps(
        {
            "messages": [
                CHAT[0],
                CHAT[2],
                CHAT[3],
                *({"role": "user", "content": "x" * 1000} for _ in range(200)),
            ]
        }
    )
    assert t.detect(text.encode()[:65536]) == "openai"
    assert len(said(load(text))) == 203


def test_no_messages_at_all() -> None:
    with pytest.raises(FormatError):
        t.read_stream(io.BytesIO(b'{"messages": []}'), format="openai")
