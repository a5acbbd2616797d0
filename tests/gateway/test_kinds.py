"""What is no plain text survives a fold: pictures, files, sound, sealed thoughts, calls of every kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_sessions import PATHS, body, long_talk

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FIELDS = {"openai": "messages", "responses": "input", "anthropic": "messages"}
TAILS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
            {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin\n+ {x"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "tool", "tool_call_id": "c2", "content": "patched"},
        {"role": "user", "content": [
            {"type": "text", "text": "And these?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1"}},
        ], "name": "ann"},
    ],
    "responses": [
        {"type": "message", "role": "assistant", "id": "msg_1", "phase": "commentary", "status": "completed",
         "content": [{"type": "output_text", "text": "So.", "annotations": [
             {"type": "url_citation", "url": "https://x", "title": "t", "start_index": 0, "end_index": 2}]}]},
        {"type": "mcp_call", "id": "mc_1", "name": "n", "server_label": "s", "arguments": "{}", "output": "o"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed-thought"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin\n+ {x"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "patched"},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "And these?"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            {"type": "input_file", "file_id": "file-1"},
        ]},
    ],
    "anthropic": [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sealed-thought"},
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
            {"type": "text", "text": "So.", "citations": [
                {"type": "web_search_result_location", "url": "https://x", "title": "t", "cited_text": "c",
                 "encrypted_index": "e"}]},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}, "caller": {"type": "direct"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "seen"},
            {"type": "text", "text": "And these?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "document", "source": {"type": "file", "file_id": "file-1"}},
        ]},
    ],
}  # fmt: skip
TOOLS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "patch"}},
    ],
    "responses": [
        {"type": "function", "name": "look", "parameters": {"type": "object"}},
        {"type": "custom", "name": "patch", "format": {"type": "text"}},
    ],
    "anthropic": [{"name": "look", "input_schema": {"type": "object"}}],
}
KEPT = {
    "openai": (PNG, '"input_audio"', "file-1", "*** Begin"),
    "responses": ("sealed-thought", PNG, "file-1", "*** Begin"),
    "anthropic": ("sealed-thought", PNG, "file-1"),
}


@pytest.mark.parametrize("dialect", PATHS)
def test_what_came_last_is_sent_as_it_came_however_much_was_folded(dialect: str) -> None:
    seen: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read()))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=16_000) as (_, client):
            asked = body(dialect, long_talk(12), stream=False)
            asked[FIELDS[dialect]] += TAILS[dialect]
            asked["tools"] = TOOLS[dialect]
            async with client.post(PATHS[dialect], json=asked) as reply:
                assert reply.headers["x-refold"].startswith("fold"), reply.headers

    run(work)
    [sent] = seen
    listed = sent[FIELDS[dialect]]
    text = json.dumps(listed)
    for part in KEPT[dialect]:
        assert part in text, part
    assert _calls(listed) == _calls(TAILS[dialect])
    assert listed[-len(TAILS[dialect]) :] == TAILS[dialect]


def _calls(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Calls and results, in whatever they stand."""
    found: list[dict[str, Any]] = []
    for item in listed:
        found += item.get("tool_calls") or []
        content = item.get("content")
        found += [item] if "call_id" in item else []
        found += [{**item, "content": _text(content)}] if item.get("role") == "tool" else []
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_use":
                found.append(block)
            elif block.get("type") == "tool_result":
                found.append({"id": block["tool_use_id"], "text": _text(block["content"])})
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def test_a_folded_request_has_four_marks_for_caches_at_most_wherever_they_stand() -> None:
    seen: list[dict[str, Any]] = []
    mark = {"cache_control": {"type": "ephemeral"}}
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "x"},
        **mark,
    }

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read()))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=16_000) as (_, client):
            asked = body("anthropic", long_talk(12), stream=False)
            asked["system"] = [{"type": "text", "text": "Be brief.", **mark}]
            asked["messages"] += [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c", "content": [document, document], **mark}]},
                {"role": "assistant", "content": "So."},
                {"role": "user", "content": [document, document, {"type": "text", "text": "And?", **mark}]},
            ]  # fmt: skip
            async with client.post(PATHS["anthropic"], json=asked) as reply:
                assert reply.headers["x-refold"].startswith("fold"), reply.headers

    run(work)
    assert 1 <= json.dumps(seen).count('"cache_control"') <= 4


def test_the_pair_of_a_call_whose_result_was_folded_is_told() -> None:
    """What a fold makes of a screenshot is no screenshot: then the call is none either."""
    seen: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read()))
        return web.json_response({})

    words = " ".join(f"line-{n}" for n in range(2_000))

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=16_000) as (_, client):
            asked = body("responses", [("user", "Begin.")], stream=False)
            for n in range(12):
                asked["input"] += [
                    {
                        "type": "shell_call",
                        "call_id": f"k{n}",
                        "action": {"commands": ["ls"]},
                        "status": "completed",
                    },
                    {"type": "shell_call_output", "call_id": f"k{n}", "output": [{"stdout": words}]},
                ]
            asked["input"] += [{"role": "user", "content": "And now?"}]
            async with client.post(PATHS["responses"], json=asked) as reply:
                assert reply.headers["x-refold"].startswith("fold"), reply.headers

    run(work)
    calls = [item["call_id"] for item in seen[0]["input"] if item.get("type") == "shell_call"]
    outputs = [item["call_id"] for item in seen[0]["input"] if item.get("type") == "shell_call_output"]
    assert calls == outputs
    assert not any(str(item.get("type")).startswith("function_call") for item in seen[0]["input"])


def test_a_screenshot_takes_the_room_of_a_picture_and_stands_with_its_call() -> None:
    seen: list[dict[str, Any]] = []
    screen = {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG[:-4]}{'A' * 300_000}"}
    pair = [
        {"type": "computer_call", "id": "cu_1", "call_id": "k1", "status": "completed", "pending_safety_checks": [],
         "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "k1", "output": screen},
    ]  # fmt: skip

    async def answer(request: web.Request) -> web.Response:
        seen.append(json.loads(await request.read()))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=16_000) as (_, client):
            asked = body("responses", long_talk(12), stream=False)
            asked["input"] += pair
            async with client.post(PATHS["responses"], json=asked) as reply:
                assert reply.headers["x-refold"].startswith("fold"), reply.headers

    run(work)
    assert seen[0]["input"][-2:] == pair
