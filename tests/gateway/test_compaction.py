"""OpenAI's compaction protocols, through the official SDK's own types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from pydantic import TypeAdapter

from refold.gateway.auth import RequestRefused
from refold.gateway.signed_reference import LIFE, ReferenceSigner
from refold.testing.wire import WireServer
from tests import sdk
from tests.gateway.kit import gateway, run
from tests.gateway.test_sessions import long_talk, sessions
from tests.gateway.test_sessions import said as said_in

TRIGGER = {"type": "compaction_trigger"}


def items(turns: int) -> list[dict[str, Any]]:
    talk = [{"type": "message", "role": role, "content": text} for role, text in long_talk(turns)]
    return [{"type": "message", "role": "developer", "content": "Rules."}, *talk]


async def post(client: ClientSession, path: str, **body: Any) -> tuple[int, Any]:
    async with client.post(path, json={"model": "m", **body}) as reply:
        data = await reply.read()
        if reply.content_type != "text/event-stream":
            return reply.status, json.loads(data)
        events = [block.partition(b"data: ")[2] for block in data.split(b"\n\n") if b"data: " in block]
        return reply.status, [json.loads(event) for event in events if event != b"[DONE]"]


def test_compaction_in_all_three_ways_gives_one_item_that_the_sdk_accepts() -> None:
    types = sdk.openai.types.responses

    async def work() -> None:
        async with gateway(server.url, window=32_000) as (_, client):
            status, whole = await post(client, "/v1/responses/compact", input=items(6))
            assert status == 200
            compacted = types.CompactedResponse.model_validate(whole)
            assert [item.type for item in compacted.output] == ["compaction"]
            status, whole = await post(client, "/v1/responses", input=[*items(6), TRIGGER])
            assert status == 200
            assert [item.type for item in types.Response.model_validate(whole).output] == ["compaction"]
            status, events = await post(client, "/v1/responses", input=[*items(6), TRIGGER], stream=True)
            reader: TypeAdapter[Any] = TypeAdapter(types.ResponseStreamEvent)
            kinds = [reader.validate_python(event).type for event in events]
            assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
            done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
            assert (
                [item["type"] for item in done]
                == ["compaction"]
                == [x["type"] for x in events[-1]["response"]["output"]]
            )
            assert done == events[-1]["response"]["output"]

    with WireServer() as server:
        run(work)
        assert server.requests == []


def test_a_compaction_item_stands_for_what_was_said_before(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, window=64_000, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            _, whole = await post(client, "/v1/responses/compact", input=items(12))
            rules, *said = items(12)
            rest: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "Go on."}]
            for answer in ("One.", "Two."):
                history = [rules, said[0], said[2], *whole["output"], *rest]
                status, _ = await post(client, "/v1/responses", input=history, stream=True)
                assert status == 200
                rest += [{"type": "message", "role": "assistant", "content": answer}]
                rest += [{"type": "message", "role": "user", "content": "And on."}]
        [session] = sessions(tmp_path / "a.db")
        texts = [text for _, text in said_in(session)]
        assert len(texts) == 25 + 4 and texts[-4:] == ["Go on.", "One.", "And on.", "Two."]

    with WireServer("One.", "Two.") as server:
        run(work)
        assert server.problems == []
    for n, body in enumerate(server.bodies):
        assert body["input"][0]["content"] == "Rules."
        assert "compaction" not in [item["type"] for item in body["input"]]
        assert body["input"][-1]["content"] == ("Go on." if n == 0 else "And on.")
        assert len(json.dumps(body)) < len(json.dumps(items(12)))
        assert "Question 0" in json.dumps(body)


@pytest.mark.parametrize("stream", [True, False])
def test_foreign_and_forged_items_are_refused(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setenv("SECRET", "of the signer")
        signer = ReferenceSigner(b"of the signer")
        async with gateway(server.url, secret_env="SECRET") as (_, client):
            good = signer.sign("no-such", "entry", "")
            other = signer.sign("s", "e", "bob")
            for forged in (
                "gAAAAA==",
                good[:-2] + "xx",
                good.replace("refold1", "refold2"),
                other,
                good,
                None,
                7,
            ):
                item = {"type": "compaction", "encrypted_content": forged}
                status, told = await post(client, "/v1/responses", input=[item, *items(1)], stream=stream)
                assert status == 400, forged
                assert told["error"]["code"] == "invalid_encrypted_content"
            status, _ = await post(client, "/v1/responses", input=[TRIGGER, *items(1)], stream=stream)
            assert status == 400

    with WireServer() as server:
        run(work)


def test_a_reference_expires() -> None:
    now = [1000.0]
    signer = ReferenceSigner(b"secret", clock=lambda: now[0])
    signed = signer.sign("s", "e", "ann")
    assert signer.verified(signed, "ann").leaf == "e"
    with pytest.raises(RequestRefused, match="another owner"):
        signer.verified(signed, "bob")
    with pytest.raises(RequestRefused, match="not made"):
        ReferenceSigner(b"other").verified(signed, "ann")
    now[0] += LIFE + 1
    with pytest.raises(RequestRefused, match="old"):
        signer.verified(signed, "ann")


def test_where_it_is_switched_off_the_upstream_answers() -> None:
    async def work() -> None:
        async with gateway(server.url, protocols=False) as (_, client):
            status, _ = await post(client, "/v1/responses/compact", input=items(1))
            assert status == 400  # of the scripted upstream, which knows no such address

    with WireServer() as server:
        run(work)
        assert [seen.path for seen in server.requests] == ["/v1/responses/compact"]
