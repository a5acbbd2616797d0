"""Sessions and folds: what was said is in the store, and what is too long is folded on its way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.registry.sessions import session_title, stored
from refold.session import Session
from refold.stores import open_store
from refold.testing.wire import Broken, Http, WireAnswer, WireServer
from tests.gateway.kit import gateway, run

PATHS = {"openai": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}


def body(dialect: str, said: list[tuple[str, str]], stream: bool = True) -> dict[str, Any]:
    messages = [{"role": role, "content": text} for role, text in said]
    if dialect == "responses":
        return {"model": "m", "stream": stream, "instructions": "Be brief.", "input": messages}
    if dialect == "openai":
        return {"model": "m", "stream": stream, "messages": [{"role": "system", "content": "Hi."}, *messages]}
    return {"model": "m", "stream": stream, "max_tokens": 100, "system": "Be brief.", "messages": messages}


async def ask(
    client: ClientSession, dialect: str, asked: dict[str, Any], **headers: str
) -> tuple[int, str, bytes]:
    async with client.post(PATHS[dialect], json=asked, headers=headers) as reply:
        return reply.status, reply.headers.get("x-refold", ""), await reply.read()


def sessions(path: Path) -> list[Session]:
    store = open_store(f"sqlite:{path}").store
    return [stored(store, info.id) for info in store.sessions()]


def said(session: Session) -> list[tuple[str, str]]:
    found = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    return [(message.role, message.text) for message in found]


def long_talk(turns: int) -> list[tuple[str, str]]:
    words = " ".join(f"value-{n}" for n in range(450))
    talk: list[tuple[str, str]] = []
    for n in range(turns):
        talk += [("user", f"Question {n}: {words}"), ("assistant", f"Answer {n}: {words}")]
    return [*talk, ("user", "And now the last question.")]


@pytest.mark.parametrize(
    ("dialect", "agent", "client", "told"),
    [
        ("anthropic", "claude-cli/2.1.197 (external, cli)", "claude-cli", "<env>\nWorking directory: /home/me/shop\n</env>"),
        ("responses", "codex_cli_rs/0.166.0 (Linux)", "codex_cli_rs", "<environment_context>\n<cwd>/home/me/shop</cwd>\n</environment_context>"),
        ("openai", "x", "x", ""),
    ],
)  # fmt: skip
def test_a_session_is_called_by_what_was_typed_and_by_its_client_and_knows_its_folder(
    dialect: str, agent: str, client: str, told: str, tmp_path: Path
) -> None:
    talk = [
        ("user", "<system-reminder>\nRead AGENTS.md.\n</system-reminder>"),
        ("user", "<command-name>/model</command-name>\n<command-message>model</command-message>"),
        ("user", "Repair the loader."),
    ]

    asked = body(dialect, talk)
    if dialect == "anthropic":
        asked["system"] = [{"type": "text", "text": told}]
        asked["messages"] = [
            {"role": "user", "content": [{"type": "text", "text": text} for _, text in talk]}
        ]
    elif told:
        asked["input"].insert(0, {"role": "user", "content": told})

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, caller):
            done = await ask(caller, dialect, asked, **{"User-Agent": agent})
            assert done[:2] == (200, "pass")

    with WireServer("Done.") as server:
        run(work)
    store = open_store(f"sqlite:{tmp_path / 'a.db'}").store
    [info] = store.sessions()
    assert session_title(store, info) == f"Repair the loader. · {client}"
    assert info.cwd == ("/home/me/shop" if told else None)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", PATHS)
def test_request_reply_and_usage_are_in_the_store(dialect: str, stream: bool, tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            talk = [("user", "One?")]
            for answer, question in (("First.", "Two?"), ("Second.", "")):
                status, done, _ = await ask(client, dialect, body(dialect, talk, stream))
                assert (status, done) == (200, "pass")
                talk += [("assistant", answer), *([("user", question)] if question else [])]

    with WireServer("First.", "Second.") as server:
        run(work)
    [session] = sessions(tmp_path / "a.db")
    assert said(session) == [
        ("user", "One?"),
        ("assistant", "First."),
        ("user", "Two?"),
        ("assistant", "Second."),
    ]
    assert session.last_reply and session.last_reply.usage == m.Usage(input=11, output=7)


@pytest.mark.parametrize("dialect", PATHS)
def test_a_retry_is_no_new_turn_and_a_fork_is_a_branch(dialect: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            one = [("user", "One?")]
            await ask(client, dialect, body(dialect, one))
            await ask(client, dialect, body(dialect, one))
            two = [*one, ("assistant", "Again."), ("user", "Two?")]
            await ask(client, dialect, body(dialect, two))
            fork = [*one, ("assistant", "First."), ("user", "Other?")]
            await ask(client, dialect, body(dialect, fork))
            await ask(client, dialect, body(dialect, [*two, ("assistant", "Second."), ("user", "Three?")]))

    with WireServer("First.", "Again.", "Second.", "Forked.", "Third.") as server:
        run(work)
    [session] = sessions(tmp_path / "a.db")
    users = [
        x.message.text for x in session.entries if isinstance(x, e.MessageEntry) and x.message.role == "user"
    ]
    assert users == ["One?", "Two?", "Other?", "Three?"]
    assert [text for _, text in said(session)] == ["One?", "Again.", "Two?", "Second.", "Three?", "Third."]


@pytest.mark.parametrize("turns", [0, 8])
def test_a_retry_is_known_after_a_restart_and_after_a_fold(turns: int, tmp_path: Path) -> None:
    asked = body("openai", long_talk(turns))

    async def work() -> None:
        for _ in range(2):
            async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", window=16_000) as (_, client):
                for _ in range(2):
                    _, done, _ = await ask(client, "openai", asked)
                    assert done.startswith("fold" if turns else "pass")

    with WireServer("One.", "Two.", "Three.", "Four.") as server:
        run(work)
    if turns:
        assert len({seen.raw for seen in server.requests}) == 1
    [session] = sessions(tmp_path / "a.db")
    users = [x for x in session.entries if isinstance(x, e.MessageEntry) and x.message.role == "user"]
    assert len(users) == turns + 1
    folds = session.annotations(e.Fold)  # one, said again where the branch of the retry needs it
    assert all(fold.edits == folds[0].edits for fold in folds) and bool(folds) == bool(turns)
    assert len(folds) <= 2
    assert said(session)[-2:] == [("user", "And now the last question."), ("assistant", "Four.")]


@pytest.mark.parametrize("dialect", PATHS)
def test_the_answer_of_a_cut_stream_is_kept_and_marked(dialect: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            with pytest.raises(Exception, match=r"payload|Connection|disconnect"):
                await ask(client, dialect, body(dialect, [("user", "One?")]))

    with WireServer(Broken("reset", say("Half an answer"))) as server:
        run(work)
    [session] = sessions(tmp_path / "a.db")
    reply = session.last_reply
    assert reply and isinstance(reply.message, m.Assistant) and reply.message.text == "Half an answer"
    assert reply.message.stop == "aborted"
    assert reply.meta == {"gateway": {"cut": True}}


def test_names_of_clients_are_names_of_sessions(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            talk = [("user", "One?")]
            await ask(client, "openai", body("openai", talk), **{"X-Refold-Session": "mine"})
            await ask(client, "openai", {**body("openai", talk), "prompt_cache_key": "k/1"})
            user = "user_1_account__session_11111111-2222-3333-4444-555555555555"
            await ask(client, "anthropic", {**body("anthropic", talk), "metadata": {"user_id": user}})
            await ask(client, "responses", body("responses", talk), session_id="thread-7")

    with WireServer("a", "b", "c", "d") as server:
        run(work)
        assert all("x-refold-session" not in seen.headers for seen in server.requests)
    names = sorted(session.id for session in sessions(tmp_path / "a.db"))
    assert names[0].startswith("11111111-2222-3333-4444-555555555555.")
    assert [name.partition(".")[0] for name in names[1:]] == ["k-1", "mine", "thread-7"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("dialect", PATHS)
def test_what_is_too_long_is_folded_and_everything_else_stays(dialect: str, tmp_path: Path) -> None:
    talk, window = long_talk(12), 16_000

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", window=window) as (made, client):
            asked = {**body(dialect, talk), "temperature": 0.25}
            status, done, _ = await ask(client, dialect, asked)
            assert status == 200 and done.startswith("fold "), done
            _, before, after, *_ = done.split()
            assert int(before) > window > int(after)
            more = [*talk, ("assistant", "Done."), ("user", "More?")]
            status, done, _ = await ask(client, dialect, {**asked, **body(dialect, more)})
            assert status == 200 and done.startswith("fold ")
            assert made.worker.counts["folded"] == 2

    with WireServer("Done.", "More.") as server:
        run(work)
        assert server.problems == []
    field = "input" if dialect == "responses" else "messages"
    for seen in server.bodies:
        assert {k: v for k, v in seen.items() if k != field} == {
            k: v for k, v in {**body(dialect, talk), "temperature": 0.25}.items() if k != field
        }
        assert len(json.dumps(seen)) < 4 * window
    first, second = (seen[field] for seen in server.bodies)
    assert second[: len(first) - 1] == first[:-1]  # what was cached stays as it was
    if dialect == "openai":
        assert first[0] == {"role": "system", "content": "Hi."}
    [session] = sessions(tmp_path / "a.db")
    assert said(session) == [*talk, ("assistant", "Done."), ("user", "More?"), ("assistant", "More.")]
    assert session.annotations(e.Fold)


TOO_LONG: WireAnswer = Http(
    400,
    {"error": {"message": "This model's maximum context length is 8000 tokens. However, your messages resulted in "
                          "20000 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}},
)  # fmt: skip


@pytest.mark.parametrize("dialect", PATHS)
def test_an_overflow_is_folded_and_tried_once_more(dialect: str) -> None:
    async def work() -> None:
        async with gateway(server.url, window=200_000) as (made, client):
            status, done, _ = await ask(client, dialect, body(dialect, long_talk(8)))
            assert status == 200 and done.startswith("fold ") and done.endswith(" retried"), done
            assert made.worker.counts["overflow"] == 1

    with WireServer(TOO_LONG, "Fits now.") as server:
        run(work)
        assert len(server.requests) == 2 and len(server.requests[1].raw) < len(server.requests[0].raw)


def test_an_overflow_that_cannot_be_folded_comes_as_it_is() -> None:
    async def work() -> None:
        async with gateway(server.url) as (_, client):
            status, _, said = await ask(client, "openai", body("openai", [("user", "short")]))
            assert status == 400 and json.loads(said) == TOO_LONG.body  # pyright: ignore

    with WireServer(TOO_LONG) as server:
        run(work)


@pytest.mark.parametrize("dialect", PATHS)
def test_what_can_never_fit_is_a_typed_error(dialect: str) -> None:
    async def work() -> None:
        async with gateway(server.url, window=2_000) as (_, client):
            asked = {**body(dialect, [("user", "x")])}
            asked["tools"] = [{"type": "function", "name": "f", "description": "word " * 30_000}]
            status, done, said = await ask(client, dialect, asked)
            assert status == 400 and done.startswith("refused")
            error = json.loads(said)["error"]
            assert error["type"] == "invalid_request_error" and "too long" in error["message"]

    with WireServer() as server:
        run(work)


@pytest.mark.slow  # two requests wait for the store as long as any does
def test_a_store_that_fails_passes_what_fits_and_refuses_what_does_not(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, window=16_000, store=f"sqlite:{tmp_path / 'no' / 'a.db'}") as (
            made,
            client,
        ):
            (tmp_path / "no").write_text("in the way")
            status, done, _ = await ask(client, "openai", body("openai", [("user", "x")]))
            assert (status, done) == (200, "pass")
            status, done, _ = await ask(client, "openai", body("openai", long_talk(2)))
            assert (status, done) == (200, "pass unread")
            status, _, said = await ask(client, "openai", body("openai", long_talk(24)))
            assert status == 503 and json.loads(said)["error"]["code"] == "try_again"
        assert made.worker.counts["unrecorded"] == 2

    with WireServer("a", "b") as server:
        run(work)
