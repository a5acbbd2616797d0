"""Cases that schemathesis makes up, against a gateway with keys: `make test-schema`.

    python -m tests.gateway.schema PROGRAM [CASES]

`PROGRAM` is the `st` of an environment of its own. No answer may be a 500, and without a key nothing is reached.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.gateway.kit import gateway, upstream
from tests.gateway.test_auth import KEYS

_TEXT: dict[str, Any] = {"type": "string"}
_BLOCK = {
    "type": "object",
    "properties": {"type": _TEXT, "text": _TEXT, "encrypted_content": _TEXT, "content": {}},
}
_CONTENT = {"anyOf": [_TEXT, {"type": "array", "items": _BLOCK}, {"type": "null"}]}
_MESSAGE = {
    "type": "object",
    "required": ["role"],
    "properties": {"role": _TEXT, "content": _CONTENT, "type": _TEXT},
}
_EDIT = {
    "type": "object",
    "properties": {
        "type": {
            "enum": [
                "compact_20260112",
                "clear_tool_uses_20250919",
                "clear_thinking_20251015",
                "compaction",
                "x",
            ]
        },
        "trigger": {"type": "object", "properties": {"type": _TEXT, "value": {"type": "integer"}}},
        "compact_threshold": {"type": "integer"},
        "keep": {},
    },
}
_MANAGED = {
    "anyOf": [
        {"type": "object", "properties": {"edits": {"type": "array", "items": _EDIT}}},
        {"type": "array", "items": _EDIT},
    ]
}


def _body(field: str) -> dict[str, Any]:
    fields = {"model": _TEXT, "stream": {"type": "boolean"}, "tools": {}, "system": {}, "metadata": {}}
    listed = {"anyOf": [{"type": "array", "items": _MESSAGE}, _TEXT]}
    return {"type": "object", "properties": {**fields, field: listed, "context_management": _MANAGED}}


def _operation(field: str | None) -> dict[str, Any]:
    names = ("X-Refold-Session", "thread-id", "x-claude-code-session-id")
    parameters = [{"name": name, "in": "header", "schema": _TEXT} for name in names]
    answers = {"default": {"description": "Whatever the upstream says, or a refusal."}}
    operation: dict[str, Any] = {"parameters": parameters, "responses": answers}
    if field is not None:
        content = {"application/json": {"schema": _body(field)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def description() -> dict[str, Any]:
    """Our doors, as OpenAPI."""
    fields = {"chat/completions": "messages", "responses": "input", "responses/compact": "input"}
    fields |= {"messages": "messages", "messages/count_tokens": "messages"}
    paths = {f"/v1/{name}": {"post": _operation(field)} for name, field in fields.items()}
    paths |= {f"/{name}": {"get": _operation(None)} for name in ("v1/models", "health", "metrics")}
    return {"openapi": "3.0.3", "info": {"title": "refold serve", "version": "1"}, "paths": paths}


async def main(program: str, cases: int) -> int:
    reached: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        reached.append(request.headers.get("x-refold-key", ""))
        await request.read()
        return web.json_response({})

    async with upstream(answer) as url, gateway(url, keys=KEYS, window=100, recall=True) as (made, _):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "openapi.json"
            file.write_text(json.dumps(description()))
            each = cases // len(description()["paths"]) + 1
            command = [program, "run", str(file), "--url", made.url, "--checks", "not_a_server_error"]
            command += ["--max-examples", str(each), "--phases", "fuzzing", "--mode", "all", "--seed", "1"]
            command += ["--suppress-health-check", "all", "--no-color"]
            failed = 0
            for key in ("", "secret-of-ann"):
                header = ["--header", f"x-refold-key: {key}"] if key else []
                done = await asyncio.to_thread(subprocess.run, [*command, *header])
                failed += done.returncode != 0
                if not key and reached:
                    print(f"{len(reached)} requests got past the door without a key")
                    failed += 1
        print(
            f"{made.counts['requests']} requests, {len(reached)} of them passed on, {made.counts['failed']} failed here"
        )
        return int(failed > 0 or made.counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5000)))
