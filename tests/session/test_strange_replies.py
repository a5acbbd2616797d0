"""A reply of a provider that is not as documented: `observe` reads what can be read, or says what is wrong in
an error of ours. What it appended is read back as it is."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from math import nan
from typing import Any

import pytest

from refold import format as fmt
from refold import messages as m
from refold import presets
from refold.engine import Engine
from refold.errors import RefoldError
from refold.protocols import SessionInfo
from refold.session import Session
from refold.session.dialects import DIALECTS
from refold.stores.memory import MemoryStore

REPLIES: dict[str, Any] = {
    "openai": {
        "id": "x",
        "object": "chat.completion",
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "Let me look."}],
                    "reasoning_content": "hm",
                    "refusal": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"path":"a"}'},
                        },
                        {"id": "c2", "type": "custom", "custom": {"name": "f", "input": "text"}},
                    ],
                },
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    },
    "anthropic": {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a", "n": 1}},
            {"type": "server_tool_use", "id": "s1", "name": "web", "input": {}},
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 3,
            "cache_read_input_tokens": 1,
            "cache_creation_input_tokens": 1,
        },
    },
    "responses": {
        "id": "x",
        "object": "response",
        "model": "gpt",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "error": {"message": "m"},
        "output": [
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
            {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path":"a"}'},
            {"type": "custom_tool_call", "call_id": "c2", "name": "f", "input": "x"},
            {"type": "web_search_call", "id": "w"},
        ],
        "usage": {
            "input_tokens": 9,
            "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 2},
        },
    },
}


class Trap:
    """An object of somebody's SDK that fails when it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


GONE = object()
STRANGE: tuple[Any, ...] = (
    GONE,
    None,
    True,
    7,
    -1.5,
    nan,
    "",
    "word",
    b"raw",
    b"\xff",
    [],
    [1],
    [[]],
    [[[[]]]],
    {},
    {1: 2},
    (1, 2),
    10**5000,
    "\ud800",
    Trap(),
    {"a": 1},
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from places(inner, (*at, key))


def mutants(reply: Any) -> Iterator[Any]:
    """The reply with one thing in it deleted, of another type, nested, or twice."""
    for place in places(reply):
        old = reply
        for key in place:
            old = old[key]
        for new in (*STRANGE, [old], {"x": old}, [old, old]):
            mutant = copy.deepcopy(reply)
            inside = mutant
            for key in place[:-1]:
                inside = inside[key]
            if new is GONE:
                del inside[place[-1]]
            else:
                inside[place[-1]] = new if isinstance(new, Trap) else copy.deepcopy(new)
            yield mutant


def test_every_dialect_has_a_reply() -> None:
    assert set(REPLIES) == set(DIALECTS)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", sorted(REPLIES))
def test_a_strange_reply_is_read_or_refused(dialect: str) -> None:
    engine = Engine(presets.get("refold", window=100_000))
    read = 0
    for mutant in mutants(REPLIES[dialect]):
        store = MemoryStore()
        store.create(SessionInfo(id="s"))
        session = Session(id="s", store=store)
        session.append("Go.")
        try:
            reply = engine.observe(session, mutant)
        except RefoldError as error:
            assert str(error) and len(session.entries) == 1
            continue
        read += 1
        loaded = store.load("s")
        assert loaded.problems == ()
        assert [fmt.encode(a) for a in loaded.entries] == [fmt.encode(b) for b in session.entries]
        assert reply == session.entries[-1].message
        for call in reply.calls:
            session.append(m.result(call.id, "ok"))
        view = engine.view(session)
        for name in DIALECTS:  # and it can be sent, whoever is asked next
            json.dumps(view.to(name), allow_nan=False, ensure_ascii=False).encode()
    assert read > 400  # strange, but most of them can be read


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


NO_REPLY: dict[str, Any] = {
    "none": None,
    "number": 5,
    "text": "text",
    "bytes": b"",
    "list": [],
    "deep": nested(5_000),
    "circle": circle(),
    "trap": Trap(),
    "empty": {},
    "number as a key": {1: 2},
    "class": object,
}


@pytest.mark.parametrize("kind", NO_REPLY)
def test_what_is_no_reply_at_all_is_refused_in_a_sentence(kind: str) -> None:
    session, raw = Session(), NO_REPLY[kind]
    for take in (Engine().observe, lambda s, x: s.append(x), lambda s, x: s.merge([x])):
        with suppress(RefoldError):
            take(session, raw)
    assert all(entry.message.text == "text" for entry in session.entries)
