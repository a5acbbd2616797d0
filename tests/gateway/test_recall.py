"""Recall as a tool that the gateway answers itself: the client sees one answer and nothing of the calls."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from aiohttp import web

from refold import messages as m
from refold.entries import Fold
from refold.models.scripted import ScriptedReply
from refold.recall.tool import NAME
from refold.testing.wire import Http, WireServer
from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_sessions import PATHS, ask, body, long_talk, said, sessions

TOOLS: dict[str, dict[str, Any]] = {
    "openai": {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "own", "parameters": {"type": "object"}},
    "anthropic": {"name": "own", "input_schema": {"type": "object"}},
}
RECALL = m.call("r1", NAME, query="value-7 Question 2")
SETTINGS: dict[str, Any] = {"window": 16_000, "recall": True}


def long_body(dialect: str, stream: bool) -> dict[str, Any]:
    return {**body(dialect, long_talk(12), stream), "tools": [TOOLS[dialect]]}


def words(dialect: str, stream: bool, data: bytes) -> tuple[str, list[str], Any]:
    """What a client reads: the text, the names of calls, and why it ended."""
    if stream:
        blocks = [block.partition(b"data: ")[2] for block in data.split(b"\n\n") if b"data: " in block]
        events = [json.loads(block) for block in blocks if block != b"[DONE]"]
        return _streamed(dialect, events)
    whole = json.loads(data)
    if dialect == "openai":
        [choice] = whole["choices"]
        calls = [call["function"]["name"] for call in choice["message"].get("tool_calls") or []]
        return choice["message"]["content"] or "", calls, choice["finish_reason"]
    parts = whole["content"] if dialect == "anthropic" else whole["output"]
    return _parts(parts), [part["name"] for part in parts if "name" in part], whole.get("stop_reason")


def _parts(parts: list[dict[str, Any]]) -> str:
    flat = [inner for part in parts for inner in (part["content"] if part["type"] == "message" else [part])]
    return "".join(part.get("text", "") for part in flat)


def _streamed(dialect: str, events: list[dict[str, Any]]) -> tuple[str, list[str], Any]:
    if dialect == "responses":
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        output = events[-1]["response"]["output"]
        added = [event for event in events if event["type"] == "response.output_item.added"]
        assert [event["output_index"] for event in added] == list(range(len(output)))
        return _parts(output), [item["name"] for item in output if "name" in item], None
    if dialect == "anthropic":
        assert [event["type"] for event in events].count("message_start") == 1
        starts = [event for event in events if event["type"] == "content_block_start"]
        assert [event["index"] for event in starts] == list(range(len(starts)))
        texts = [event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta"]
        names = [event["content_block"]["name"] for event in starts if "name" in event["content_block"]]
        [end] = [event for event in events if event["type"] == "message_delta"]
        return "".join(texts), names, end["delta"]["stop_reason"]
    assert len({event["id"] for event in events}) == 1
    choices = [choice for event in events for choice in event["choices"]]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls") or []]
    names = [call["function"]["name"] for call in calls if call["function"].get("name")]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, names, next(choice["finish_reason"] for choice in choices if choice["finish_reason"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", PATHS)
def test_what_the_model_recalls_never_reaches_the_client(dialect: str, stream: bool, tmp_path: Any) -> None:
    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", **SETTINGS) as (made, client):
            status, done, data = await ask(client, dialect, long_body(dialect, stream))
            assert status == 200 and done.startswith("fold")
            text, calls, stop = words(dialect, stream, data)
            assert (text, calls) == ("Let me look. It was value-7.", [])
            assert stop in (None, "stop", "end_turn")
            assert NAME.encode() not in data
            assert made.worker.counts["recalled"] == 1

    first = ScriptedReply(content=(m.Text("Let me look. "), RECALL), usage=m.Usage(input=100, output=10))
    with WireServer(first, "It was value-7.") as server:
        run(work)
        assert server.problems == []
    again = json.dumps(server.bodies[1])
    assert NAME in json.dumps(server.bodies[0]["tools"]) and "Let me look." in again
    assert again.count("Question 2: value-0") > json.dumps(server.bodies[0]).count("Question 2: value-0")
    [session] = sessions(tmp_path / "a.db")
    assert said(session)[-1][1].replace("\n", "") == "Let me look. It was value-7."


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", PATHS)
def test_a_call_of_the_clients_beside_it_is_the_clients_turn(dialect: str, stream: bool) -> None:
    async def work() -> None:
        async with gateway(server.url, **SETTINGS) as (_, client):
            _, _, data = await ask(client, dialect, long_body(dialect, stream))
            text, calls, stop = words(dialect, stream, data)
            assert (text, calls) == ("Both. ", ["own"])
            assert stop in (None, "tool_calls", "tool_use")

    with WireServer(m.assistant("Both. ", RECALL, m.call("o1", "own", x=1))) as server:
        run(work)
        assert len(server.requests) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_rounds_are_bounded(dialect: str) -> None:
    async def work() -> None:
        async with gateway(server.url, **SETTINGS) as (_, client):
            status, _, data = await ask(client, dialect, long_body(dialect, True))
            assert status == 200
            text, calls, stop = words(dialect, True, data)
            assert (text, calls) == ("", []) and stop in (None, "stop", "end_turn")

    numbers = count()
    with WireServer(then=lambda _: m.assistant("", m.call(f"r{next(numbers)}", NAME, query="x"))) as server:
        run(work)
        assert len(server.requests) == 6
        assert server.problems == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", PATHS)
def test_a_round_that_fails_is_no_end_of_an_answer(dialect: str, stream: bool) -> None:
    async def work() -> None:
        async with gateway(server.url, **SETTINGS) as (_, client):
            if stream:
                with pytest.raises(Exception, match=r"payload|Connection|disconnect"):
                    await ask(client, dialect, long_body(dialect, stream))
                return
            status, _, data = await ask(client, dialect, long_body(dialect, stream))
            assert status == 502 and json.loads(data)["error"]["type"] == "api_error"

    with WireServer(m.assistant("Let me look.", RECALL), Http.error(500, "no", "api_error")) as server:
        run(work)


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_before_a_fold_and_where_it_is_off_nothing_is_offered(dialect: str) -> None:
    async def work() -> None:
        async with gateway(server.url, **SETTINGS) as (_, client):
            await ask(client, dialect, {**body(dialect, [("user", "x")]), "tools": [TOOLS[dialect]]})
        async with gateway(server.url, window=16_000) as (_, client):
            await ask(client, dialect, long_body(dialect, True))

    with WireServer("a", "b") as server:
        run(work)
    assert all(len(seen["tools"]) == 1 for seen in server.bodies)


COMPACT = m.call("c1", "compact_conversation", focus="the parser", keep=["port 8443"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", PATHS)
def test_a_model_has_its_conversation_folded_and_goes_on_in_the_same_answer(
    dialect: str, stream: bool, tmp_path: Any
) -> None:
    async def work() -> None:
        settings: dict[str, Any] = {
            "window": 64_000,
            "compact_tool": True,
            "store": f"sqlite:{tmp_path / 'a.db'}",
        }
        async with gateway(server.url, **settings) as (_, client):
            status, done, data = await ask(client, dialect, long_body(dialect, stream))
            assert (status, done.split()[0]) == (200, "pass")
            assert words(dialect, stream, data)[:2] == ("Folding. Going on.", [])
            assert b"compact_conversation" not in data

    first = ScriptedReply(content=(m.Text("Folding. "), COMPACT), usage=m.Usage(input=100, output=10))
    with WireServer(first, "Going on.") as server:
        run(work)
        assert server.problems == []
    sent, again = (json.dumps(body) for body in server.bodies)
    assert "compact_conversation" in sent and "is folded now" in again
    assert len(again) < 0.8 * len(sent) and "And now the last question." in again
    [session] = sessions(tmp_path / "a.db")
    assert any(isinstance(entry, Fold) for entry in session.path)
    assert said(session)[-1][1].replace("\n", "") == "Folding. Going on."


UNREADABLE = {"too deep": b'{"a":' * 1_500 + b"1" + b"}" * 1_500, "no UTF-8": b'"\xff"'}
WHOLE = {
    "openai": b'{"choices": [{"message": {"role": "assistant", "content": "Yes.", "x": %s}}]}',
    "responses": b'{"status": "completed", "output": [{"type": "function_call", "x": %s}]}',
    "anthropic": b'{"type": "message", "content": [{"type": "tool_use", "name": "own", "input": %s}]}',
}
STREAMED = {
    "openai": b'data: {"choices": [{"delta": {"content": "Yes.", "x": %s}}]}\n\ndata: [DONE]\n\n',
    "anthropic": b'data: {"type": "message_start", "message": {"x": %s}}\n\ndata: {"type": "message_stop"}\n\n',
}


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize(
    ("dialect", "stream"), [*((x, False) for x in WHOLE), *((x, True) for x in STREAMED)]
)
def test_an_answer_that_cannot_be_read_is_passed_on(dialect: str, stream: bool, value: str) -> None:
    """A model may nest the input of a call as deep as it likes. The answer is paid for: the client gets it."""
    answer = (STREAMED if stream else WHOLE)[dialect] % UNREADABLE[value]

    async def answered(request: web.Request) -> web.Response:
        await request.read()
        kind = "text/event-stream" if stream else "application/json"
        return web.Response(body=answer, headers={"content-type": kind})

    async def work() -> None:
        async with upstream(answered) as url, gateway(url, **SETTINGS) as (_, client):
            for _ in range(2):
                async with client.post(PATHS[dialect], json=long_body(dialect, stream)) as reply:
                    assert reply.status == 200, await reply.text()
                    assert UNREADABLE[value] in await reply.read()

    run(work)
