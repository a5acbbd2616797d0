"""`context_management` of Anthropic and OpenAI, through the official SDKs' own types."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from aiohttp import ClientSession
from pydantic import TypeAdapter

from refold import messages as m
from refold.gateway.context_management import CLEARED_RESULT, ContextEdits, cleared, context_edits_of
from refold.testing.wire import WireServer
from tests import sdk
from tests.gateway.kit import gateway, run
from tests.gateway.test_sessions import long_talk

COMPACT = {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 5000}}


@cache
def event_type(path: str) -> TypeAdapter[Any]:
    """What the SDK reads of a stream."""
    if path == "/v1/messages":
        return TypeAdapter(sdk.anthropic.types.beta.BetaRawMessageStreamEvent)
    return TypeAdapter(sdk.openai.types.responses.ResponseStreamEvent)


async def post(client: ClientSession, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    async with client.post(path, json={"model": "m", **body}) as reply:
        data = await reply.read()
        if reply.content_type != "text/event-stream":
            return reply.status, json.loads(data)
        events = [json.loads(block.partition(b"data: ")[2]) for block in data.split(b"\n\n") if block]
        events = [event for event in events if event["type"] != "ping"]  # no type of the SDK
        for event in events:
            if path == "/v1/messages" or "compaction" in str(event.get("item")):  # what is ours, at least
                event_type(path).validate_python(event)
        return reply.status, events


def talk(turns: int) -> list[dict[str, Any]]:
    return [{"role": role, "content": text} for role, text in long_talk(turns)]


def tool_talk(uses: int, thinking: bool = False) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [{"role": "user", "content": "Read the files."}]
    for n in range(uses):
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "read" if n else "keep",
            "input": {"n": n},
        }
        thought = [{"type": "thinking", "thinking": f"hm {n}", "signature": "s"}] if thinking else []
        said.append({"role": "assistant", "content": [*thought, {"type": "text", "text": f"file {n}"}, call]})
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"text {n} " + "word " * 200}
        said.append({"role": "user", "content": [result]})
    return said


def anthropic(messages: list[dict[str, Any]], *edits: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"max_tokens": 100, "messages": messages, "context_management": {"edits": list(edits)}, **more}


@pytest.mark.parametrize("stream", [True, False])
def test_old_tool_results_are_cleared_and_the_reply_says_so(stream: bool) -> None:
    edit: dict[str, Any] = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "tool_uses", "value": 3},
        "keep": {"type": "tool_uses", "value": 2},
        "exclude_tools": ["keep"],
    }
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "keep")]

    async def work() -> None:
        async with gateway(server.url) as (_, client):
            body = anthropic(tool_talk(5), edit, stream=stream, tools=tools)
            status, told = await post(client, "/v1/messages", body)
            assert status == 200
            applied = _managed(told, stream)
            assert [(one["type"], one["cleared_tool_uses"]) for one in applied] == [(edit["type"], 2)]
            assert applied[0]["cleared_input_tokens"] > 300
            status, told = await post(
                client, "/v1/messages", anthropic(tool_talk(2), edit, stream=stream, tools=tools)
            )
            assert _managed(told, stream) == []

    with WireServer("Done.", "Done.") as server:
        run(work)
        assert server.problems == []
    assert all("context_management" not in body for body in server.bodies)
    results = [b["content"] for each in server.bodies[0]["messages"] for b in each["content"] if isinstance(b, dict)
               and b["type"] == "tool_result"]  # fmt: skip
    assert [text == CLEARED_RESULT for text in results] == [False, True, True, False, False]


def _managed(told: Any, stream: bool) -> list[dict[str, Any]]:
    if not stream:
        sdk.anthropic.types.beta.BetaMessage.model_validate(told)
        return told["context_management"]["applied_edits"]
    [delta] = [event for event in told if event["type"] == "message_delta"]
    return delta["context_management"]["applied_edits"]


def test_thoughts_of_old_turns_are_cleared() -> None:
    wire = [
        *tool_talk(2, thinking=True),
        {"role": "user", "content": "And now?"},
        *tool_talk(2, thinking=True)[1:],
    ]

    def count(messages: Any) -> int:
        return len(json.dumps(messages))

    for keep, left in (({"type": "thinking_turns", "value": 1}, 2), ("all", 4), ({"type": "all"}, 4)):
        edits = [{"type": "clear_thinking_20251015", "keep": keep}]
        wish = context_edits_of("anthropic", {"context_management": {"edits": edits}})
        assert isinstance(wish, ContextEdits)
        after, applied = cleared(wire, wish, count)
        assert json.dumps(after).count('"thinking":') == left
        assert [one["cleared_thinking_turns"] for one in applied] == ([1] if left == 2 else [])


@pytest.mark.parametrize("stream", [True, False])
def test_compaction_from_a_size_on_gives_a_block_that_later_requests_go_on_from(stream: bool) -> None:
    async def work() -> None:
        async with gateway(server.url) as (made, client):
            body = anthropic(talk(8), COMPACT, stream=stream)
            _, told = await post(client, "/v1/messages", body)
            message = told if not stream else _message(told)
            sdk.anthropic.types.beta.BetaMessage.model_validate(message)
            kinds = [block["type"] for block in message["content"]]
            assert kinds == ["compaction", "text"]
            assert [step["type"] for step in message["usage"]["iterations"]] == ["compaction", "message"]
            block = message["content"][0]
            assert "Question 0" in block["content"]
            more = [
                *talk(8),
                {"role": "assistant", "content": message["content"]},
                {"role": "user", "content": "On."},
            ]
            status, told = await post(client, "/v1/messages", anthropic(more, COMPACT, stream=False))
            assert status == 200 and [block["type"] for block in told["content"]] == ["text"]
            # A client that does not keep the signed reference still has the text.
            block = {"type": "compaction", "content": block["content"]}
            more = [{"role": "assistant", "content": [block, {"type": "text", "text": "So."}]}, *talk(0)]
            status, _ = await post(client, "/v1/messages", anthropic(more))
            assert status == 200
            block = {"type": "compaction", "content": "x", "encrypted_content": "forged"}
            more = [{"role": "assistant", "content": [block]}, *talk(0)]
            status, told = await post(client, "/v1/messages", anthropic(more))
            assert status == 400 and "compaction" in told["error"]["message"]
            assert made.worker.counts["compacted"] == 1

    with WireServer("One.", "Two.", "Three.") as server:
        run(work)
        assert server.problems == []
    sizes = [len(seen.raw) for seen in server.requests]
    assert max(sizes) < len(json.dumps(talk(8)))
    assert server.bodies[1]["messages"][-1]["content"][-1]["text"] == "On."
    assert '"compaction"' not in json.dumps([body["messages"] for body in server.bodies])


def _message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The events put together."""
    message: dict[str, Any] = events[0]["message"]
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            block = message["content"][event["index"]]
            delta = {key: value for key, value in event["delta"].items() if key != "type"}
            for key, value in delta.items():
                block[key] = (block.get(key) or "") + value
        elif event["type"] == "message_delta":
            message |= {**event["delta"], "usage": message["usage"] | event["usage"]}
    return message


@pytest.mark.parametrize("stream", [True, False])
def test_a_pause_after_compaction_asks_nobody(stream: bool) -> None:
    async def work() -> None:
        async with gateway(server.url) as (_, client):
            body = anthropic(talk(8), {**COMPACT, "pause_after_compaction": True}, stream=stream)
            _, told = await post(client, "/v1/messages", body)
            message = told if not stream else _message(told)
            sdk.anthropic.types.beta.BetaMessage.model_validate(message)
            assert [block["type"] for block in message["content"]] == ["compaction"]
            assert message["stop_reason"] == "compaction"

    with WireServer() as server:
        run(work)
        assert server.requests == []


@pytest.mark.parametrize("stream", [True, False])
def test_openai_compacts_from_a_threshold_on(stream: bool) -> None:
    async def work() -> None:
        async with gateway(server.url) as (_, client):
            said = [{"type": "message", **each} for each in talk(8)]
            managed = [{"type": "compaction", "compact_threshold": 5000}]
            body = {"input": said, "stream": stream, "context_management": managed}
            _, told = await post(client, "/v1/responses", body)
            whole = told[-1]["response"] if stream else told
            sdk.openai.types.responses.ResponseCompactionItem.model_validate(whole["output"][0])
            assert [item["type"] for item in whole["output"]] == ["compaction", "message"]
            if stream:
                assert [event["sequence_number"] for event in told] == list(range(len(told)))
                done = [event for event in told if event["type"] == "response.output_item.done"]
                assert [event["output_index"] for event in done] == [0, 1]
            more = [*said, *whole["output"], {"type": "message", "role": "user", "content": "On."}]
            status, told = await post(client, "/v1/responses", {"input": more, "context_management": managed})
            assert status == 200 and [item["type"] for item in told["output"]] == ["message"]

    with WireServer("One.", "Two.") as server:
        run(work)
        assert server.problems == []
    assert max(len(seen.raw) for seen in server.requests) < len(json.dumps(talk(8)))
    assert all("context_management" not in body for body in server.bodies)


def test_the_real_sdks_read_it() -> None:
    async def work() -> None:
        async with gateway(server.url) as (made, _):
            claude = sdk.anthropic.AsyncAnthropic(api_key="k", base_url=made.url, max_retries=0)
            given: Any = {"edits": [COMPACT]}
            async with claude.beta.messages.stream(
                model="m",
                max_tokens=100,
                messages=talk(8),
                context_management=given,
                betas=["compact-2026-01-12"],
            ) as stream:  # pyright: ignore
                message = await stream.get_final_message()
            assert [block.type for block in message.content] == ["compaction", "text"]
            other = {"X-Refold-Session": "other"}  # the first one is folded by now
            gpt = sdk.openai.AsyncOpenAI(
                api_key="k", base_url=f"{made.url}/v1", max_retries=0, default_headers=other
            )
            threshold: Any = [{"type": "compaction", "compact_threshold": 5000}]
            said: Any = [{"type": "message", **each} for each in talk(8)]
            async with gpt.responses.stream(model="m", input=said, context_management=threshold) as events:
                response = await events.get_final_response()
            assert [item.type for item in response.output] == ["compaction", "message"]
            await claude.close()
            await gpt.close()

    with WireServer("One.", "Two.") as server:
        run(work)


@pytest.mark.parametrize(
    "given",
    [
        {"edits": [{"type": "none_20300101"}]},
        {"edits": 7},
        7,
        {"edits": [{"type": "compact_20260112", "x": 1}]},
    ],
)
def test_what_nobody_can_do_is_a_400(given: Any) -> None:
    async def work() -> None:
        async with gateway(server.url) as (_, client):
            body = {"max_tokens": 9, "messages": talk(0), "context_management": given}
            status, told = await post(client, "/v1/messages", body)
            assert status == 400 and "context_management" in told["error"]["message"]

    with WireServer() as server:
        run(work)


@pytest.mark.parametrize("protocols", [False, None])
def test_where_the_upstream_does_it_itself_nothing_is_changed(protocols: bool | None) -> None:
    from refold.gateway.compaction import handles_compaction

    assert handles_compaction(protocols, "https://api.anthropic.com", "anthropic") is False
    assert handles_compaction(protocols, "https://api.openai.com/v1", "responses") is False
    assert handles_compaction(protocols, "http://127.0.0.1:8000", "anthropic") is (protocols is None)

    async def work() -> None:
        async with gateway(server.url, protocols=False) as (_, client):
            await post(client, "/v1/messages", anthropic(talk(0), COMPACT))

    with WireServer(m.assistant("x")) as server:
        run(work)
    assert server.bodies[0]["context_management"] == {"edits": [COMPACT]}
