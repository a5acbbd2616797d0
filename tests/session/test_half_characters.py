"""Half characters (lone surrogates) anywhere in a conversation: every body is UTF-8, and signed thinking that
would have to change is not sent at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refold import Engine, Session, View, presets
from refold import messages as m
from refold.session import dialects
from refold.testing.anthropic_rules import validate_anthropic
from refold.testing.validators import validate

HALF = "a\ud83d"


def seen(session: Session, system: str | None = None) -> View:
    return Engine(presets.get("refold")).view(session, system=system)


def said(half: str) -> Session:
    session = Session()
    session.append(m.system(half))
    session.append(m.user([half, m.Image(half, data=half), m.Image(url=f"https://x/{half}")]))
    session.append(m.user([m.Opaque({"type": half, "text": half, half: [half]}), m.Image(data=half)]))
    call = m.call(f"c{half}", f"Read{half}", {half: half, "path": [half, {half: 1}]})
    session.append(m.Assistant((m.Thinking(half, "sig"), m.Text(half), call), "tool_use"))
    session.append(m.result(f"c{half}", half, name=half))
    session.append(m.Assistant((m.Thinking("fine", half), m.Call("d", "Bash", raw=half)), "tool_use"))
    session.append(m.result("d", [half, m.Image(data=half)], is_error=True))
    session.append(m.Assistant((m.Thinking(data=half), m.Text("done"))))
    session.append(m.Bash(half, half))
    session.append(m.Assistant((m.Thinking(half, None, half, half), m.Text("so"))))
    session.append(m.Assistant((m.Opaque({"type": "refusal", "refusal": half}), m.Text("so"))))
    session.append(m.user("And now?"))
    session.append(m.Assistant((m.Thinking("fine", half), m.call("e", "Bash", command=half)), "tool_use"))
    session.append(m.result("e", half))
    return session


TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "a", "description": HALF, "parameters": {HALF: HALF}}},
    {"name": HALF, "description": HALF, "input_schema": {"type": "object", HALF: HALF}},
    {"type": "function", "name": "b", "description": HALF, "parameters": {"type": HALF}},
    {"type": HALF, "name": "c"},
]


@pytest.mark.parametrize("dialect", dialects.DIALECTS)
def test_every_body_is_utf8(dialect: str) -> None:
    view = seen(said(HALF), HALF)
    json.dumps(view.to(dialect), ensure_ascii=False).encode()
    tools = dialects.get(dialect).render_tools(TOOLS)
    json.dumps(tools, ensure_ascii=False).encode()
    assert validate(dialect, view.to(dialect)) == []


def blocks(session: Session, kind: str) -> list[dict[str, Any]]:
    request = seen(session).to_anthropic()
    return [b for message in request["messages"] for b in message["content"] if b["type"] == kind]


def loop(*thoughts: m.Thinking) -> Session:
    session = Session()
    session.append(m.user("Fix it."))
    for number, thought in enumerate(thoughts):
        session.append(m.Assistant((thought, m.call(f"c{number}", "Bash", command="ls")), "tool_use"))
        session.append(m.result(f"c{number}", f"output {number}"))
    return session


def test_signed_thinking_is_never_sent_changed() -> None:
    session = loop(m.Thinking("well", "sig0"), m.Thinking(HALF, "sig1"), m.Thinking("then", "sig2"))
    assert [b["thinking"] for b in blocks(session, "thinking")] == ["well", "then"]


def test_what_was_done_without_its_thinking_is_still_told() -> None:
    """Without its thinking a call would be refused while the loop goes on: call and result become a record."""
    session = loop(m.Thinking(HALF, "sig0"), m.Thinking("then", "sig1"))
    assert [b["id"] for b in blocks(session, "tool_use")] == ["c1"]
    [_, *record] = [b["text"] for b in blocks(session, "text")]
    assert all(text.startswith("<refold-record") for text in record)
    assert "command=ls" in record[0]
    assert "output 0" in record[1]
    request = seen(session).to_anthropic()
    assert validate_anthropic(request, thinking=True) == []


def test_replies_that_go_on_without_thinking_of_their_own_go_with_it() -> None:
    session = loop(m.Thinking(HALF, "sig0"), m.Thinking(""), m.Thinking("then", "sig2"))
    assert [b["id"] for b in blocks(session, "tool_use")] == ["c2"]
    request = seen(session).to_anthropic()
    assert validate_anthropic(request, thinking=True) == []


def test_an_answer_only_loses_its_thinking() -> None:
    session = Session()
    session.append(m.user("Why?"))
    session.append(m.Assistant((m.Thinking(HALF, "sig"), m.Text("Because."))))
    session.append(m.user("I see."))
    assert blocks(session, "thinking") == []
    assert [b["text"] for b in blocks(session, "text")] == ["Why?", "Because.", "I see."]


def test_what_is_sent_of_the_settled_part_does_not_change_when_the_conversation_goes_on() -> None:
    session, before = loop(m.Thinking(HALF, "sig0"), m.Thinking("then", "sig1")), list[Any]()
    for text in ("Next.", "And?"):
        session.append(m.user(text))
        session.append(m.assistant("Done."))
        request = seen(session).to_anthropic(cache=False)
        sent = request["messages"]
        assert sent[: len(before)] == before
        before = sent


def test_R19_a_call_with_half_an_emoji_is_the_call_that_was_made() -> None:
    function = {"name": "Write", "arguments": '{"path": "note.md", "text": "done \\ud83d"}'}
    calls = [{"id": "c1", "type": "function", "function": function}]
    [reply] = dialects.parse({"role": "assistant", "content": None, "tool_calls": calls})
    assert reply.calls[0].arguments == {"path": "note.md", "text": "done \ud83d"}
    session = Session()
    session.append(m.user("Save the note."))
    session.append(reply)
    session.append(m.result("c1", "ok", name="Write"))
    sent = seen(session).to_openai()[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"path": "note.md", "text": "done \ufffd"}
    [again] = dialects.parse(seen(session).to_openai()[1])
    assert again.calls[0].arguments["path"] == "note.md"
