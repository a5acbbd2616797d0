"""Gemini CLI sessions."""

from __future__ import annotations

import json

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.session import Session
from tests.data import shared
from tests.transcripts.foreign import counts, lines, load, results, session, spoken, view

FILE = "gemini/agentcmd-session-2025-10-27T19-55.json"


@pytest.mark.data
def test_real_session_has_the_independently_counted_content() -> None:
    loaded = transcripts.read(shared(FILE))
    parts = [part for entry in spoken(loaded) for part in entry.message.parts]
    assert loaded.problems == ()
    assert counts(loaded) == {"user": 3, "assistant": 15, "tool": 13, "calls": 13, "usage": 15, "notes": 0}
    assert sum(isinstance(part, m.Thinking) for part in parts) == 31
    assert sum(entry.usage.total for entry in spoken(loaded) if entry.usage) == 109261
    assert sum(result.is_error for result in results(loaded)) == 2
    assert spoken(loaded)[0].id == "18c1924b-2c10-4af0-a93d-97835c384747"
    assert results(loaded)[0].text == "Directory /Users/jnarowski/Dev/playground/src/test-project/ is empty."


HEAD = {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"}
USER = {
    "id": "u1",
    "type": "user",
    "content": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}],
}
REPLY = {
    "id": "g1",
    "type": "gemini",
    "content": "ok",
    "model": "gemini-x",
    "tokens": {"input": 100, "output": 7, "cached": 40, "thoughts": 3, "tool": 2, "total": 112},
    "toolCalls": [
        {"id": "c1", "name": "read_file", "args": {"path": "a"}, "status": "success", "result": [{"functionResponse": {"response": {"a": 1, "b": 2}}}]},
        {"id": "c2", "name": "shell", "args": {}, "status": "executing", "result": None},
    ],
}  # fmt: skip


def test_parts_usage_and_calls_without_result() -> None:
    loaded = load(
        json.dumps(
            {**HEAD, "messages": [USER, REPLY, {"type": "info", "content": "x"}, {"type": "odd"}]}
        ).encode()
    )
    user, reply, result = spoken(loaded)
    assert user.message.parts == (m.Text("look"), m.Image("image/png", "QQ=="))
    assert reply.usage == m.Usage(62, 10, 40) and reply.model == "google:gemini-x"
    assert [call.id for call in reply.message.calls] == ["c1", "c2"]
    assert (result.id, result.message.text, result.message.name) == ("c1", '{"a":1,"b":2}', "read_file")
    assert [problem.text for problem in loaded.problems] == [
        "1 record of the unknown type 'odd': kept unchanged"
    ]
    assert [entry.kind for entry in loaded.entries if isinstance(entry, e.Other)] == ["info", "odd"]


def test_records_one_a_line_with_a_rewind() -> None:
    more = [
        {"$set": {"summary": "Title"}},
        {"$rewindTo": "u2"},
        {"id": "u3", "type": "user", "content": "again"},
    ]
    found = session(
        lines(
            HEAD,
            {"id": "u1", "type": "user", "content": "one"},
            {"id": "u2", "type": "user", "content": "two"},
            *more,
        )
    )
    assert view(found) == [("user", "one"), ("user", "again")]
    assert found.name == "Title" and found.info.id == "s"
    assert [entry.id for entry in found.path_to("u2")] == ["u1", "u2"]


@pytest.mark.data
def test_document_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    data = shared(FILE).read_bytes()
    loaded = load(data[: len(data) // 2])
    assert "read as far as it goes" in loaded.problems[0].text
    assert 3 < len(spoken(loaded)) < 31
    assert Session.of(loaded).path
