"""What goes wrong at a provider comes out as what it is, and never as a completion."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import sys
import traceback

import pytest

from refold.errors import ModelError, ModelUnavailable, Overflow, Transient, UsageError
from refold.messages import user
from refold.models import Retry, complete, say
from refold.models.anthropic import Anthropic
from refold.models.failures import retry_after
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.models.retry import NO_RETRY
from refold.protocols import Request
from refold.testing.wire import Broken, Http, WireServer

ASK = Request(messages=(user("Hello"),))
CANARY = "sk-canary-4f9a1c7be2d05538"
KINDS = (OpenAIChat, OpenAIResponses, Anthropic)


def make(kind, server: WireServer, **options):
    base = server.url if kind is Anthropic else server.v1
    return kind("m-test", api_key=CANARY, base_url=base, **options)


def ask(kind, *script, retries=NO_RETRY, request=ASK, **options):
    with WireServer(*script) as server:

        async def main():
            model = make(kind, server, **options)
            try:
                return await complete(model, request, retries=retries), server
            finally:
                await model.aclose()

        return asyncio.run(main())


@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Http.rate_limited(7), Transient),
        (Http.overloaded(), Transient),
        (Http.error(500, "Internal server error", "api_error"), Transient),
        (Http.error(503, "Service unavailable", "api_error"), Transient),
        (Http(502, "<html><body>Bad Gateway</body></html>"), Transient),
        (Http(413, "<html><head><title>413 Request Entity Too Large</title></head></html>"), ModelError),
        (Http.error(400, "prompt is too long: 213462 tokens > 200000 maximum"), Overflow),
        (Http.error(400, "temperature: range"), ModelError),
        (Http.error(401, "invalid x-api-key", "authentication_error"), ModelUnavailable),
        (Http.error(404, "model: m-test", "not_found_error"), ModelUnavailable),
        (Http.error(429, "You exceeded your current quota", "insufficient_quota"), ModelUnavailable),
        (Http.error(400, "Your credit balance is too low to access the API"), ModelUnavailable),
        (Broken("reset", say("Half of an ans")), Transient),
        (Broken("reset"), Transient),
        (Broken("malformed", say("Half")), Transient),
        (Broken("misshapen", say("Half")), Transient),
        (Broken("error", say("Half")), Transient),
    ],
    ids=repr,
)
def test_failures(kind, answer, error) -> None:
    with pytest.raises(ModelError) as caught:
        ask(kind, answer)
    assert type(caught.value) is error
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


PAGE = "<!DOCTYPE html>\n<html><head><title>502 Bad&nbsp;Gateway</title></head><body>" + "x" * 900


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Http.error(400, "temperature: range"),
            "the request was refused: HTTP 400: temperature: range",
        ),
        (Http(400, PAGE), "the request was refused: HTTP 400: "),
        (Http(502, PAGE), "HTTP 502: "),
    ],
    ids=["error", "page", "later"],
)
def test_a_failure_names_the_status_and_shows_no_page(kind, answer, said) -> None:
    with pytest.raises(ModelError) as caught:
        ask(kind, answer)
    assert str(caught.value).partition(":m-test: ")[2].startswith(said)
    assert "<" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_to_connect_names_the_address(kind) -> None:
    with WireServer() as server:
        pass
    with pytest.raises(Transient) as caught:
        asyncio.run(complete(make(kind, server), ASK, retries=NO_RETRY))
    assert f":m-test: Connection error at {server.url}: " in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", KINDS)
def test_overflow_learns_the_window(kind) -> None:
    with pytest.raises(Overflow) as caught:
        ask(kind, Http.error(400, "This model's maximum context length is 65536 tokens. However, …"))
    assert caught.value.window == 65536


@pytest.mark.parametrize("kind", KINDS)
def test_overflow_inside_a_stream(kind) -> None:
    text = "Your input exceeds the context window of this model."
    with pytest.raises(Overflow):
        ask(kind, Broken("error", say("x"), "invalid_request_error", text))


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_request_inside_a_stream_is_not_tried_again(kind) -> None:
    with pytest.raises(ModelError) as caught:
        ask(kind, Broken("error", say("x"), "invalid_request_error", "messages: no"), retries=Retry(base=0))
    assert type(caught.value) is ModelError


@pytest.mark.parametrize("kind", KINDS)
def test_transient_faults_are_tried_again_and_waits_are_honoured(kind) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    retry = Retry(base=1.0, jitter=0.0, sleep=sleep)
    reply, server = ask(
        kind,
        Http.rate_limited(7),
        Broken("reset", say("Half of an ans")),
        Http.overloaded(),
        "At last.",
        retries=retry,
    )
    assert reply.text == "At last."
    assert waits == [7.0, 2.0, 4.0]
    assert len({seen.raw for seen in server.requests}) == 1, "every attempt sends the same bytes"


@pytest.mark.parametrize("kind", KINDS)
def test_overflow_is_never_tried_again(kind) -> None:
    with pytest.raises(Overflow):
        ask(kind, Http.error(400, "prompt is too long"), retries=Retry(base=0))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_stall_is_ended_and_the_connection_freed(kind) -> None:
    with WireServer(Broken("stall", say("Half"))) as server:

        async def main() -> None:
            model = make(kind, server)
            await model.client()  # importing an SDK takes longer than the limit below
            with pytest.raises(Transient, match="no whole answer"):
                await complete(model, ASK, timeout=3, retries=NO_RETRY)
            freed = await asyncio.to_thread(server.hung_up.wait, 60)
            assert freed, "the connection was left open"
            await model.aclose()

        asyncio.run(main())


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_reply_counts_though_the_stream_stays_open(kind) -> None:
    """Nothing of it is lost, and nobody waits for an end that does not come."""
    reply, server = ask(kind, Broken("unended", say("All of it.")), retries=Retry(base=0))
    assert reply.text == "All of it." and len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_unreachable_server_is_transient(kind) -> None:
    async def main() -> None:
        model = kind("m", api_key=CANARY, base_url="http://127.0.0.1:9/v1")
        with pytest.raises(Transient):
            await complete(model, ASK, retries=NO_RETRY)

    asyncio.run(main())


def test_no_key_says_which_variable(monkeypatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    for kind, variable in ((OpenAIChat, "OPENAI_API_KEY"), (Anthropic, "ANTHROPIC_API_KEY")):
        with pytest.raises(ModelUnavailable, match=variable):
            asyncio.run(complete(kind("m"), ASK))


@pytest.mark.parametrize(("kind", "package"), [(OpenAIChat, "openai"), (Anthropic, "anthropic")])
def test_a_missing_sdk_says_what_to_install(kind, package, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelUnavailable, match=rf"refold\[{package}\]"):
        asyncio.run(complete(kind("m", api_key="kkkk"), ASK))


def test_failures_of_counting_are_translated_too() -> None:
    async def main() -> None:
        await Anthropic("m", api_key=CANARY, base_url="http://127.0.0.1:9").count(ASK)

    with pytest.raises(Transient) as caught:
        asyncio.run(main())
    assert caught.value.__context__ is None


def test_retry_after_in_all_its_spellings() -> None:
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    date = email.utils.formatdate(1_000_030, usegmt=True)
    assert retry_after({"retry-after": date}, now=1_000_000.0) == 30
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({"retry-after": "-3"}) == 0
    assert retry_after({}) is None


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_never_appear(kind, caplog) -> None:
    """Everything is raised once; the key is in no text, repr, traceback or log, however it got there."""
    caplog.set_level(logging.DEBUG)
    echo = f"Incorrect API key provided: {CANARY}. Header was 'Bearer {CANARY}'."
    script = [
        *(Http.error(status, echo, "authentication_error") for status in (400, 401, 403, 404, 422, 429, 500)),
        Http(502, f"<html>{echo}</html>"),
        Broken("error", say("x"), "api_error", echo),
        Broken("malformed", say(CANARY[:3])),
        Broken("misshapen"),
        Broken("reset"),
        Http.error(400, f"prompt is too long {CANARY}"),
    ]
    shown: list[str] = []
    for answer in script:
        try:
            ask(kind, answer)
        except ModelError as error:
            shown += [str(error), repr(error), "".join(traceback.format_exception(error)), str(vars(error))]
            walk = error.__context__, error.__cause__
            assert walk == (None, None)
        else:
            raise AssertionError("no error")
    model = kind("m", api_key=CANARY, base_url="http://127.0.0.1:9")
    shown += [repr(model), str(model), repr(model._secrets)]
    try:
        asyncio.run(complete(model, ASK, retries=NO_RETRY))
    except ModelError as error:
        shown.append("".join(traceback.format_exception(error)))
    with pytest.raises(UsageError, match="password") as caught:
        kind("m", base_url=f"http://me:{CANARY}@127.0.0.1:9")
    shown += [str(caught.value), repr(caught.value)]
    assert len(shown) > 40
    assert not [text for text in [*shown, caplog.text] if CANARY in text]
