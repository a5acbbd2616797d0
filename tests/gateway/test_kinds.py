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
        ]},
    ],
    "responses": [
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
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}},
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
