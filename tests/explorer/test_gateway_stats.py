"""The meter of a gateway: what it counts, and that it claims nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from refold import messages as m
from refold.costs import known
from refold.entries import Fold
from refold.explorer import gateway_stats
from refold.messages import Usage
from refold.session import Session
from refold.stores import open_store
from tests.explorer.kit import database, own, page, run
from tests.gateway.kit import gateway, upstream

MODEL = "anthropic:claude-sonnet-5"


def conversation(*usages: Usage | None, fold_before: int | None = None, pause: float = 10.0) -> Session:
    """Replies that a provider counted so; before one of them, a fold that took 50,000 tokens away."""
    clock = iter(1_000.0 + pause * number for number in range(1_000))
    session = Session(clock=lambda: next(clock))
    for number, usage in enumerate(usages):
        session.append(m.user(f"question {number}"))
        if number == fold_before:
            session.append(
                session.make(Fold, edits=(), preset="refold", tokens_before=60_000, tokens_after=10_000)
            )
        session.append(m.assistant(f"answer {number}"), usage=usage, model=MODEL)
    return session


def test_tokens_are_those_that_providers_counted_and_silence_is_counted_too() -> None:
    session = conversation(Usage(input=10, output=5), None, Usage(input=20, output=7, cache_read=30))
    counted = gateway_stats.counts([session], 0.0)
    assert (counted.replies, counted.unmeasured) == (3, 1)
    assert (counted.prompt, counted.output, counted.cache_read) == (60, 12, 30)


def test_a_request_that_found_nothing_in_the_cache_is_a_miss() -> None:
    warm, cold = Usage(cache_read=9_000, cache_write=1_000), Usage(input=10_000)
    counted = gateway_stats.counts([conversation(cold, *[cold] * 17)], 0.0)
    assert counted.cache_misses == 17
    assert gateway_stats.counts([conversation(Usage(cache_write=10_000), warm, warm)], 0.0).cache_misses == 0


def test_only_replies_since_the_gateway_was_started_count() -> None:
    session = conversation(Usage(input=10), Usage(input=20))
    assert gateway_stats.counts([session], session.path[-1].time).prompt == 20
    assert gateway_stats.counts([session], session.path[-1].time + 1).replies == 0


def test_without_folding_is_net_of_the_cache() -> None:
    """Unfolded, nearly all of the prompt would have been read from the cache: so little was saved, and the first
    request after the fold cost more than it would have."""
    prices = known(MODEL).prices  # type: ignore[union-attr]
    assert prices
    first, after = Usage(cache_read=59_000, cache_write=1_000), Usage(cache_write=10_000)
    later = Usage(cache_read=10_000, cache_write=500)
    counted = gateway_stats.counts([conversation(first, after, fold_before=1)], 0.0)
    assert counted.dollars == pytest.approx(prices.cost(first) + prices.cost(after))
    assert counted.unfolded == pytest.approx(prices.cost(first) + prices.cost(Usage(cache_read=60_000)))
    assert counted.unfolded < counted.dollars, "one request does not pay for a fold"
    many = gateway_stats.counts([conversation(first, after, *[later] * 30, fold_before=1)], 0.0)
    assert many.unfolded > many.dollars
    naive = many.dollars + 31 * 50_000 * prices.input / 1e6
    assert many.unfolded < naive / 2, "tokens that a cache holds are not saved at the full price"


def test_a_cache_that_is_not_in_use_or_went_cold_is_not_assumed() -> None:
    prices = known(MODEL).prices  # type: ignore[union-attr]
    assert prices
    plain = Usage(input=10_000)
    counted = gateway_stats.counts([conversation(Usage(input=60_000), plain, fold_before=1)], 0.0)
    assert counted.unfolded == pytest.approx(prices.cost(Usage(input=60_000)) * 2)
    cold = gateway_stats.counts(
        [conversation(Usage(cache_write=60_000), Usage(cache_write=10_000), fold_before=1, pause=400)], 0.0
    )
    assert cold.unfolded == pytest.approx(prices.cost(Usage(cache_write=60_000)) * 2)


def test_an_unknown_price_is_no_money() -> None:
    session = Session()
    session.append(m.assistant("hello"), usage=Usage(input=10), model="nobody:unknown")
    counted = gateway_stats.counts([session], 0.0)
    assert (counted.dollars, counted.unfolded, counted.unpriced) == (0.0, 0.0, 1)


async def _reply(_: web.Request) -> web.Response:
    usage = {"prompt_tokens": 1200, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 1000}}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
    told = {"id": "x", "object": "chat.completion", "model": "gpt-5", "choices": [choice], "usage": usage}
    return web.json_response(told)


def test_a_running_gateway_is_read_and_its_sessions_appear(tmp_path: Any) -> None:
    spec = f"sqlite:{tmp_path / 'a.db'}"
    body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "hello there"}]})

    async def work() -> None:
        store = database(tmp_path / "a.db")
        async with (
            upstream(_reply) as url,
            gateway(url, store=spec) as (made, client),
            page(own(store), gateway=made.url) as here,
        ):
            before = await here.get("meter")
            assert before["requests"] == before["replies"] == 0 and before["added"] is None
            async with client.post("/v1/chat/completions", data=body) as reply:
                assert reply.status == 200
            for _ in range(200):
                told = await here.get("meter")
                if told["replies"]:
                    break
            assert (told["requests"], told["replies"], told["unmeasured"]) == (1, 1, 0)
            assert (told["prompt"], told["output"], told["cache_read"]) == (1200, 30, 1000)
            assert told["dollars"] > 0 and told["unfolded"] == told["dollars"] and told["folds"] == 0
            assert 0 < told["added"] < 60
            [row] = (await here.get("sessions"))["rows"]
            assert (await here.get("session", name=row["name"]))["points"]

    run(work)


def test_where_no_gateway_answers_that_is_said(tmp_path: Any) -> None:
    async def work() -> None:
        async with page(own(open_store("memory:").store), gateway="http://127.0.0.1:9") as here:
            assert "no gateway answers at http://127.0.0.1:9" in (await here.get("meter"))["error"]

    run(work)


def test_a_gateway_that_wants_a_key_gets_it(tmp_path: Any) -> None:
    import hashlib

    keys = {"ann": hashlib.sha256(b"key-of-ann").hexdigest()}

    async def work() -> None:
        async with upstream(_reply) as url, gateway(url, keys=keys) as (made, _):
            store = open_store("memory:").store
            async with page(own(store), gateway=made.url) as here:
                assert "REFOLD_GATEWAY_KEY" in (await here.get("meter"))["error"]
            async with page(own(store), gateway=made.url, gateway_key="key-of-ann") as here:
                assert "requests" in await here.get("meter")

    run(work)
