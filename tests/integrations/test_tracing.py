"""Spans of OpenTelemetry, as the SDK exports them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold import Session, presets, tracing
from refold import messages as m
from refold.errors import Transient
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, say
from refold.registry.engine import Engine
from refold.testing.wire import WireServer
from tests.examples.kit import needs

needs("opentelemetry.sdk")

from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402

SECRET = "the code word is heliotrope"


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.enable(provider)
    yield exporter
    tracing.disable()


def spans(exporter: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    finished = exporter.get_finished_spans()
    assert not any(SECRET in str(dict(span.attributes or {})) + str(span.events) for span in finished)
    return [(span.name, dict(span.attributes or {})) for span in finished]


def long_session() -> Session:
    session = Session(id="s")
    for number in range(20):
        session.append(m.user(f"{SECRET} {number} " + "and more words " * 60))
        session.append(m.assistant(f"answer {number} " + "in many words " * 60))
    session.append(m.user("go on"))
    return session


def test_a_call_and_the_fold_before_it_are_spans(exported: InMemorySpanExporter) -> None:
    model = Scripted(say("Done.", usage=m.Usage(10, 5, 80, 10)), name="openai-responses:gpt-x")
    asyncio.run(Engine(presets.get("refold", window=5_000)).call(long_session(), model))
    (fold, about), (chat, told) = spans(exported)
    assert fold == "fold refold" and about["gen_ai.conversation.id"] == "s"
    assert (
        about["gen_ai.conversation.compacted"] is True
        and about["refold.tokens.after"] < about["refold.tokens.before"]
    )
    assert chat == "chat gpt-x"
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.conversation.id": "s",
        "gen_ai.conversation.compacted": True,
        "gen_ai.response.finish_reasons": ("end",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 80,
        "gen_ai.usage.cache_creation.input_tokens": 10,
    }


def test_a_failure_is_named_by_its_kind_and_not_by_its_text(exported: InMemorySpanExporter) -> None:
    model = Scripted(then=lambda _: Transient(SECRET), name="openai:gpt-x")
    session = Session(id="s")
    session.append(m.user("hello"))
    with pytest.raises(Transient):
        asyncio.run(Engine("refold", model=model).call(session, retries=NO_RETRY))
    [(_, told)] = spans(exported)
    assert told["error.type"] == "Transient" and "gen_ai.conversation.compacted" not in told


def test_a_request_through_the_gateway_is_a_span(exported: InMemorySpanExporter, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    from tests.gateway.kit import gateway, run

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            body = {"model": "m", "messages": [{"role": "user", "content": SECRET}]}
            async with client.post("/v1/chat/completions", json=body) as reply:
                await reply.read()

    with WireServer("Done.") as server:
        run(work)
    assert ("chat m", {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m",
                       "http.response.status_code": 200}) in spans(exported)  # fmt: skip


def test_off_makes_none(exported: InMemorySpanExporter) -> None:
    tracing.disable()
    model = Scripted("Done.")
    asyncio.run(Engine(presets.get("refold", window=5_000)).call(long_session(), model))
    assert (
        spans(exported) == []
        and tracing.model_call("x") is tracing.OFF
        and tracing.fold("s", "p") is tracing.OFF
    )
