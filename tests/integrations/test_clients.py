"""`refold.wrap`: the real clients of OpenAI and Anthropic against the local server."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import refold
from refold import Hooks, Session, presets
from refold import entries as e
from refold import messages as m
from refold.errors import UsageError, WrongType
from refold.integrations import engine_of, history, recalled, session_of
from refold.integrations.clients import conversation_of
from refold.models.scripted import say
from refold.recall.tool import NAME
from refold.testing.wire import Broken, Http, WireServer
from tests import sdk
from tests.integrations.kit import WINDOW

NEXT: Any = {"role": "user", "content": "Go on."}


def test_until_something_is_folded_a_request_is_what_the_caller_wrote() -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief.", "name": "boss"},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}], "name": "anna"},
    ]
    with WireServer("Hi.", "Bye.") as server:
        plain = sdk.openai.OpenAI(base_url=server.v1, api_key="any")
        client = refold.wrap(plain, window=WINDOW)
        assert isinstance(client, sdk.openai.OpenAI)
        reply = client.chat.completions.create(model="gpt-5.4", messages=messages, temperature=0.5)
        messages += [reply.choices[0].message, {"role": "user", "content": "Go."}]
        client.with_options(timeout=120).chat.completions.with_raw_response.create(
            model="gpt-5.4", messages=messages
        )
        plain.close()
    first, second = server.bodies
    assert first == {"model": "gpt-5.4", "messages": messages[:3], "temperature": 0.5}
    assert second["messages"][:3] == messages[:3]
    said = [x.message.text for x in session_of(client).path if isinstance(x, e.MessageEntry)]
    assert said == ["Hello.", "Hi.", "Go."], "a raw response is the caller's to read"


def test_marks_for_the_cache_and_what_we_have_no_word_for_stay_in_the_newest_messages() -> None:
    from anthropic import Anthropic

    mark = {"cache_control": {"type": "ephemeral"}}
    messages: list[Any] = []
    for number in range(12):
        messages += [
            {"role": "user", "content": f"Question {number}. " + "What about it? " * 80},
            {"role": "assistant", "content": f"Answer {number}. " + "It is as it is. " * 80},
        ]
    for number in range(3):
        messages += [
            {"role": "user", "content": f"{number}?"},
            {"role": "assistant", "content": f"{number}!"},
        ]
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A plan."}}
    messages.append({"role": "user", "content": [document, {"type": "text", "text": "And this?", **mark}]})
    with WireServer("Fine.") as server:
        client = refold.wrap(Anthropic(base_url=server.url, api_key="any"), window=4000)
        system: Any = [{"type": "text", "text": "Be brief.", **mark}]
        client.messages.create(model="claude-x", max_tokens=9, messages=messages, system=system)
        client.close()
    [body] = server.bodies
    assert body["system"] == system
    assert len(body["messages"]) < len(messages)
    assert body["messages"][-1] == messages[-1]
    assert str(body).count("cache_control") == 2


def test_an_answer_that_is_asked_for_again_is_on_a_branch() -> None:
    with WireServer("One.", "Another.", "Third.") as server:
        client = refold.wrap(sdk.openai.OpenAI(base_url=server.v1, api_key="any"), window=WINDOW)
        messages: list[Any] = [{"role": "user", "content": "Say a number."}]
        for _ in range(2):
            client.chat.completions.create(model="gpt-5.4", messages=messages)
        messages += [{"role": "assistant", "content": "One."}, {"role": "user", "content": "Next."}]
        client.chat.completions.create(model="gpt-5.4", messages=messages)
        client.close()
    assert server.bodies[1]["messages"] == messages[:1]
    assert server.bodies[2]["messages"] == messages
    assert [item["content"] for item in history(client)] == ["Say a number.", "One.", "Next.", "Third."]


def test_calls_that_overlap_in_one_conversation_keep_their_own_answers() -> None:
    async def ask(server: WireServer) -> tuple[list[str], Session]:
        client = refold.wrap(sdk.openai.AsyncOpenAI(base_url=server.v1, api_key="any"), window=WINDOW)

        async def one(number: int) -> str:
            messages: Any = [{"role": "user", "content": f"Say {number}."}]
            reply = await client.chat.completions.create(model="gpt-5.4", messages=messages)
            messages += [reply.choices[0].message, {"role": "user", "content": f"Again {number}."}]
            again = await client.chat.completions.create(model="gpt-5.4", messages=messages)
            return again.choices[0].message.content or ""

        answers = await asyncio.gather(*map(one, range(6)))
        await client.close()
        return answers, session_of(client)

    def echo(body: dict[str, Any]) -> Any:
        return say(" / ".join(message["content"] for message in body["messages"]), usage=m.Usage(input=9))

    with WireServer(then=echo) as server:
        answers, session = asyncio.run(ask(server))
    assert answers == [f"Say {n}. / Say {n}. / Again {n}." for n in range(6)]
    replies = [x for x in session.entries if isinstance(x, e.MessageEntry) and x.message.role == "assistant"]
    for reply in replies:
        asked = session[reply.parent or ""]
        assert isinstance(asked, e.MessageEntry)
        assert reply.message.text.endswith(asked.message.text), "on the branch where it was asked for"


def test_of_two_calls_at_once_the_second_waits_until_the_first_has_its_view() -> None:
    """A fold takes its time, and gives others their turn: they may not change what it reads."""
    seen: list[tuple[str, int]] = []
    second_came, hooks = threading.Event(), Hooks()

    async def folding(event: Any) -> None:
        seen.append(("begins", len(event.session)))
        for _ in range(1000):
            if second_came.is_set():
                break
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        seen.append(("goes on", len(event.session)))

    hooks.on("before_compact", folding)
    history: Any = [{"role": "user", "content": f"Note {n}. " + "Some words. " * 400} for n in range(9)]

    def ask(text: str) -> None:
        more = [*history, {"role": "user", "content": text}]
        client.chat.completions.create(model="gpt-5.4", messages=more)

    with WireServer("Noted.", "Noted, too.") as server, ThreadPoolExecutor(2) as threads:
        client = refold.wrap(sdk.openai.OpenAI(base_url=server.v1, api_key="any"), window=4000, hooks=hooks)
        first = threads.submit(ask, "First.")
        while not seen:
            time.sleep(0.005)
        second = threads.submit(ask, "Second.")
        while not conversation_of(client).lock._waiters:  # pyright: ignore
            time.sleep(0.005)
            if len(session_of(client)) != seen[0][1]:
                break  # without a lock it has done its work by now
        second_came.set()
        first.result()
        second.result()
        client.close()
    assert seen[0][1] == seen[1][1], "the second wrote while the first was folding"
    assert {str(body["messages"][-1]["content"]) for body in server.bodies} == {"First.", "Second."}


def test_a_refusal_for_length_is_folded_and_sent_once_more() -> None:
    messages: Any = []
    for number in range(30):
        messages += [{"role": "user", "content": f"Question {number}. " + "What about it? " * 30},
                     {"role": "assistant", "content": f"Answer {number}. " + "It is as it is. " * 30}]  # fmt: skip
    messages.append({"role": "user", "content": "And now?"})
    refusal = Http.error(400, "prompt is too long: 7100 tokens > 3000 maximum")
    with WireServer(refusal, "Fine.", refusal, refusal) as server:
        client = refold.wrap(
            sdk.openai.OpenAI(base_url=server.v1, api_key="any", max_retries=0), window=200_000
        )
        reply = client.chat.completions.create(model="gpt-5.4", messages=messages)
        assert reply.choices[0].message.content == "Fine."
        other = refold.wrap(
            sdk.openai.OpenAI(base_url=server.v1, api_key="any", max_retries=0), window=200_000
        )
        with pytest.raises(sdk.openai.BadRequestError):
            other.chat.completions.create(model="gpt-5.4", messages=messages)
        client.close()
        other.close()
    first, second, *_ = (len(str(body["messages"])) for body in server.bodies)
    assert second < first * 0.75


def test_a_stream_that_breaks_off_or_is_left_leaves_no_answer() -> None:
    with WireServer(Broken("reset", say("Hel")), "A long answer.", "Whole.") as server:
        client = refold.wrap(
            sdk.openai.OpenAI(base_url=server.v1, api_key="any", max_retries=0), window=WINDOW
        )
        messages: Any = [{"role": "user", "content": "Hello."}]
        with pytest.raises(Exception, match=r"."):
            list(client.chat.completions.create(model="gpt-5.4", messages=messages, stream=True))
        with client.chat.completions.create(model="gpt-5.4", messages=messages, stream=True) as stream:
            next(stream)
        assert [item["content"] for item in history(client)] == ["Hello."]
        with client.chat.completions.stream(model="gpt-5.4", messages=messages) as events:
            assert events.get_final_completion().choices[0].message.content == "Whole."
        assert [item["content"] for item in history(client)] == ["Hello.", "Whole."]
        client.close()


def test_history_that_the_provider_keeps_is_left_alone() -> None:
    with WireServer("One.") as server:
        client = refold.wrap(sdk.openai.OpenAI(base_url=server.v1, api_key="any"), window=WINDOW)
        client.responses.create(model="gpt-5.4", input=[NEXT], previous_response_id="resp_1")
        client.close()
    assert server.bodies[0]["input"] == [NEXT]
    assert len(session_of(client)) == 0


def test_hooks_are_told_of_folds() -> None:
    told: list[int] = []
    hooks = Hooks()
    hooks.on("after_compact", lambda event: told.append(len(event.fold.edits)))
    messages: Any = [{"role": "user", "content": f"Note {n}. " + "Some words. " * 400} for n in range(9)]
    with WireServer("Noted.") as server:
        client = refold.wrap(sdk.openai.OpenAI(base_url=server.v1, api_key="any"), window=4000, hooks=hooks)
        client.chat.completions.create(model="gpt-5.4", messages=messages)
        client.close()
    assert told
    assert engine_of(client).undo(session_of(client))


@pytest.mark.parametrize("asked", ["[" * 100_000, "{", "5", "", None, '{"query": [1], "keys": {"a": 1}}'])
def test_any_arguments_of_the_recall_tool_are_answered(asked: Any) -> None:
    """They are the model's: the caller's loop goes on."""
    plain, other = sdk.openai.OpenAI(api_key="any"), sdk.anthropic.Anthropic(api_key="any")
    client = refold.wrap(plain, window=WINDOW)
    called = {"name": NAME, "arguments": asked}
    assert recalled(client, {"id": "a", "function": called})["tool_call_id"] == "a"  # pyright: ignore
    assert recalled(client, {"call_id": "a", **called})["call_id"] == "a"  # pyright: ignore
    called = {"type": "tool_use", "id": "a", "name": NAME, "input": asked}
    assert recalled(refold.wrap(other, window=WINDOW), called)["tool_use_id"] == "a"  # pyright: ignore
    plain.close()
    other.close()


def test_what_cannot_be_meant_is_said_at_once() -> None:
    with pytest.raises(WrongType, match="expected a client, got"):
        refold.wrap(object())
    plain = sdk.openai.OpenAI(api_key="any")
    with pytest.raises(WrongType, match="is not wrapped"):
        history(plain)
    with pytest.raises(UsageError, match="setting of the preset"):
        refold.wrap(plain, preset=presets.Refold(window=9000), window=8000)
    plain.close()
