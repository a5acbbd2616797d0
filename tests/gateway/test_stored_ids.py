"""Where owners share the upstream's key: what the upstream keeps for one of them, no other reaches."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from tests.gateway.kit import gateway, run, upstream
from tests.gateway.test_auth import KEYS

ANN = {"x-refold-key": "secret-of-ann"}
BOB = {"Authorization": "Bearer secret-of-bob"}
PATH = "/v1/responses"


class Keeping:
    """An upstream that keeps all answers under one key, as providers do."""

    def __init__(self, ids: list[str] | None = None) -> None:
        self.kept: dict[str, str] = {}
        self.seen: list[bytes] = []
        self._ids = ids

    def _made(self, asked: dict[str, Any]) -> dict[str, Any]:
        id = self._ids.pop(0) if self._ids else f"resp_{len(self.kept)}"
        self.kept[id] = str(asked.get("input"))
        item = {
            "type": "message",
            "id": f"msg_of_{id}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Kept.", "annotations": []}],
        }
        ran = {"type": "code_interpreter_call", "id": f"ci_of_{id}", "container_id": f"cntr_of_{id}"}
        place = {"type": "container_reference", "container_id": f"shell_of_{id}"}
        shell = {"type": "shell_call", "id": f"sh_of_{id}", "call_id": "c", "environment": place}
        far = {"type": "mcp_call", "id": f"mcp_of_{id}", "output": "a text"}
        output = [ran, item, shell, far]
        return {"id": id, "object": "response", "status": "completed", "output": output}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked: dict[str, Any] = json.loads(raw) if raw else {}
        self.seen.append(raw)
        if request.method != "POST" or request.path != PATH:
            return web.json_response({"id": request.path.split("/")[3], "input": self.kept})
        made = self._made(asked)
        if not asked.get("stream"):
            return web.json_response(made)
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        for event in (
            {"type": "response.created", "response": {**made, "output": []}},
            {"type": "response.output_item.added", "output_index": 1, "item": made["output"][1]},
            {"type": "response.completed", "response": made},
        ):
            await reply.write(b"data: %s\r\n\r\n" % json.dumps(event).encode())
        return reply


@asynccontextmanager
async def shared(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> AsyncGenerator[ClientSession]:
    monkeypatch.setenv("UP_KEY", "of-the-upstream")
    settings = {"keys": KEYS, "upstream_key_env": "UP_KEY", **given}
    async with upstream(keeping.answer) as url, gateway(url, **settings) as (_, client):
        yield client


async def post(client: ClientSession, headers: dict[str, str], asked: dict[str, Any] | bytes) -> int:
    data = asked if isinstance(asked, bytes) else json.dumps({"model": "m", "input": "Hi.", **asked})
    async with client.post(PATH, data=data, headers=headers) as reply:
        await reply.read()
        return reply.status


async def status_of(client: ClientSession, headers: dict[str, str], method: str, rest: str) -> int:
    async with client.request(method, f"{PATH}/{rest}", headers=headers) as reply:
        await reply.read()
        return reply.status


ADDRESSES = [
    ("GET", ""),
    ("DELETE", ""),
    ("POST", "/cancel"),
    ("GET", "/input_items"),
    ("GET", "?stream=true"),
]


@pytest.mark.parametrize("stream", [False, True])
def test_an_address_is_its_owners_alone(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping = Keeping()

    async def work() -> None:
        async with shared(keeping, monkeypatch) as client:
            assert await post(client, ANN, {"stream": stream}) == 200
            for method, rest in ADDRESSES:
                for id in ("resp_0", "%72esp_0", "resp_unknown", "resp_0%2Fcancel"):
                    assert await status_of(client, BOB, method, id + rest) == 404
            assert len(keeping.seen) == 1
            for method, rest in ADDRESSES:
                assert await status_of(client, ANN, method, f"resp_0{rest}") == 200

    run(work)


REFERRING: dict[str, Any] = {
    "previous": {"previous_response_id": "resp_0"},
    "conversation": {"conversation": "resp_0"},
    "conversation object": {"conversation": {"id": "resp_0"}},
    "reference": {"input": [{"type": "item_reference", "id": "msg_of_resp_0"}]},
    "reference without a type": {"input": [{"id": "msg_of_resp_0"}]},
    "reference of null type": {"input": [{"type": None, "id": "msg_of_resp_0"}]},
    "reference with a role": {"input": [{"type": "item_reference", "role": "user", "id": "msg_of_resp_0"}]},
    "container of a shell": {"tools": [{"type": "shell", "environment": {
        "type": "container_reference", "container_id": "shell_of_resp_0"}}]},
    "container of a shell that ran": {"input": [{"type": "shell_call", "call_id": "c", "action": {}, "environment": {
        "type": "container_reference", "container_id": "cntr_of_resp_0"}}]},
    "a field of tomorrow": {"machines": {"container_ids": ["cntr_of_resp_0"]}},
    "an item whole": {"input": [{"type": "reasoning", "id": "msg_of_resp_0", "summary": []}]},
    "container": {"tools": [{"type": "code_interpreter", "container": "cntr_of_resp_0"}]},
    "container object": {"tools": [{"type": "code_interpreter", "container": {"id": "cntr_of_resp_0"}}]},
    "container of an item": {
        "input": [{"type": "code_interpreter_call", "id": "x", "container_id": "cntr_of_resp_0"}]
    },
}  # fmt: skip
ESCAPED = rb'{"model": "m", "input": "Hi.", "previous\u005fresponse\u005fid": "resp_0"}'
TWICE = b'{"model": "m", "input": "Hi.", "previous_response_id": null, "previous_response_id": "resp_0"}'


@pytest.mark.parametrize("asked", [*REFERRING.values(), ESCAPED, TWICE], ids=[*REFERRING, "escaped", "twice"])
@pytest.mark.parametrize(
    "given", [{}, {"store": False}, {"stream": True}], ids=["kept", "not kept", "stream"]
)
def test_what_refers_to_another_owners_answer_is_refused(
    given: dict[str, Any], asked: dict[str, Any] | bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers outlive answers that are not kept."""
    keeping = Keeping()

    async def work() -> None:
        async with shared(keeping, monkeypatch) as client:
            assert await post(client, ANN, given) == 200
            assert await post(client, BOB, asked) == 404
            assert len(keeping.seen) == 1
            assert await post(client, ANN, asked) == 200

    run(work)


def test_of_a_name_that_occurs_twice_the_upstream_sees_what_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some parsers take the first, others the last."""
    keeping, pair = Keeping(), b'"previous_response_id": "resp_%d"'
    twice = b'{"model": "m", "input": "Hi.", %s, %s}' % (pair % 0, pair % 1)

    async def work() -> None:
        async with shared(keeping, monkeypatch) as client:
            await post(client, ANN, {})
            await post(client, BOB, {})
            assert await post(client, BOB, twice) == 200

    run(work)
    assert b"resp_0" not in keeping.seen[-1] and b"resp_1" in keeping.seen[-1]


def test_ids_that_clients_make_up_are_no_references(monkeypatch: pytest.MonkeyPatch) -> None:
    item = {"type": "message", "role": "user", "id": "mine", "content": "Hi."}

    async def work() -> None:
        async with shared(Keeping(), monkeypatch) as client:
            assert await post(client, ANN, {"input": [item]}) == 200
            assert await post(client, BOB, {"input": [item]}) == 200

    run(work)


def test_an_id_that_the_upstream_gives_twice_is_both_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with shared(Keeping(["resp_1", "resp_1"]), monkeypatch) as client:
            for who in (ANN, BOB):
                assert await post(client, who, {}) == 200
            for who in (ANN, BOB):
                assert await post(client, who, {"previous_response_id": "resp_1"}) == 200

    run(work)


def test_owners_are_known_after_a_restart_and_to_other_gateways_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping, store = Keeping(), f"sqlite:{tmp_path / 'a.db'}"

    async def work() -> None:
        async with shared(keeping, monkeypatch, store=store) as second:
            async with shared(keeping, monkeypatch, store=store) as first:
                assert await status_of(second, ANN, "GET", "resp_0") == 404
                assert await post(first, ANN, {}) == 200
                assert await status_of(first, ANN, "GET", "resp_0") == 200
                assert await status_of(second, ANN, "GET", "resp_0") == 200
                assert await status_of(second, BOB, "GET", "resp_0") == 404
            async with shared(keeping, monkeypatch, store=store) as again:
                assert await status_of(again, BOB, "DELETE", "resp_0") == 404
                assert await status_of(again, ANN, "DELETE", "resp_0") == 200

    run(work)


def test_what_cannot_be_read_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    keeping = Keeping()
    packed = gzip.compress(json.dumps({"model": "m", **REFERRING["previous"]}).encode())

    async def work() -> None:
        async with shared(keeping, monkeypatch) as client:
            assert await post(client, {**BOB, "Content-Encoding": "gzip"}, packed) == 400
            assert await post(client, BOB, b"[]") == 400
            assert await post(client, BOB, b'{"previous_response_id": "resp_0"') == 400
        assert keeping.seen == []

    run(work)


@pytest.mark.parametrize("given", [{"keys": {}}, {"upstream_key_env": None}], ids=["no keys", "own keys"])
def test_elsewhere_the_upstream_tells_its_clients_apart(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = Keeping()

    async def work() -> None:
        async with shared(keeping, monkeypatch, **given) as client:
            assert await post(client, BOB, REFERRING["previous"]) == 200
            assert await status_of(client, BOB, "GET", "resp_5") == 200

    run(work)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("place", ["message_start", "message_delta"])
def test_a_container_of_messages_is_its_owners_alone(
    stream: bool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(await request.read())
        held = {"container": {"id": "container_0", "expires_at": "2030-01-01T00:00:00Z"}}
        message = {"id": "msg_0", "type": "message", "role": "assistant", "content": [], "stop_reason": None}
        if not stream:
            return web.json_response({**message, **held})
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await reply.prepare(request)
        events = {
            "message_start": {"message": {**message, **(held if place == "message_start" else {})}},
            "message_delta": {
                "delta": {"stop_reason": "end_turn", **(held if place == "message_delta" else {})}
            },
            "message_stop": {},
        }
        for kind, event in events.items():
            await reply.write(b"data: %s\n\n" % json.dumps({"type": kind, **event}).encode())
        return reply

    async def asks(client: ClientSession, headers: dict[str, str], **given: Any) -> int:
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}], **given}
        data = (
            json.dumps(asked).replace("ontainer", "\\u006fntainer")
            if given.pop("odd", 0)
            else json.dumps(asked)
        )
        async with client.post("/v1/messages", data=data, headers=headers) as reply:
            await reply.read()
            return reply.status

    async def work() -> None:
        monkeypatch.setenv("UP_KEY", "of-the-upstream")
        settings: dict[str, Any] = {"keys": KEYS, "upstream_key_env": "UP_KEY"}
        async with upstream(answer) as url, gateway(url, **settings) as (_, client):
            assert await asks(client, ANN) == 200
            for container in (
                "container_0",
                {"id": "container_0"},
                {"id": "container_0", "skills": []},
                "other",
            ):
                assert await asks(client, BOB, container=container) == 404
                assert await asks(client, BOB, container=container, odd=True) == 404
            assert len(seen) == 1
            assert await asks(client, ANN, container="container_0") == 200
            assert await asks(client, BOB, container={"skills": []}) == 200
            assert await asks(client, BOB) == 200

    run(work)
