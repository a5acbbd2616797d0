"""Compaction calls of coding agents: what each program sends, and how it goes on with the answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refold import entries as e
from refold import messages as m
from refold.engine import Engine
from refold.errors import ModelError
from refold.gateway.client_compaction import COMPACTION_PROMPTS, record_text
from refold.gateway.ipc import UpstreamReply
from refold.gateway.replies import read_reply
from refold.models.scripted import ScriptedReply
from refold.session import Session
from refold.session.edits import active_folds
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run
from tests.gateway.test_sessions import sessions

WINDOW, RECORD = 64_000, 1_000
CLAUDE = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n- Do NOT use any tool.\n\n"
    "Your task is to create a detailed summary of the conversation so far, paying close attention to the user's …"
)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM that …"
OPENCODE = "You are a context summarization agent. You are given a conversation between a user and an agent."
WORDS = " ".join(f"value-{n}" for n in range(60))
TALK = [(role, f"{role.title()} {n}: {WORDS}") for n in range(8) for role in ("user", "assistant")]
TALK.append(("user", "And now the last question."))
NAME = {"x-claude-code-session-id": "s-1", "thread-id": "s-1", "x-session-id": "s-1"}
TOOL = {"name": "look", "description": "look", "input_schema": {"type": "object", "properties": {}}}


def message(role: str, text: str, kind: str = "") -> dict[str, Any]:
    content: Any = [{"type": kind, "text": text}] if kind else text
    return {"role": role, "content": content, **({"type": "message"} if "put_text" in kind else {})}


class Anthropic:
    """Claude Code 2.1.197."""

    path, program = "/v1/messages", "Claude Code"
    talk = [message(role, text, "text") for role, text in TALK]

    @staticmethod
    def body(messages: list[Any], **more: Any) -> dict[str, Any]:
        return {"model": "m", "max_tokens": 100, "messages": messages, "tools": [TOOL], **more}

    @classmethod
    def call(cls, prompt: str = CLAUDE) -> dict[str, Any]:
        *before, last = cls.talk
        blocks = [*last["content"], {"type": "text", "text": prompt}]
        return cls.body([*before, {**last, "content": blocks}])

    @classmethod
    def after(cls, record: str) -> dict[str, Any]:
        assert record.startswith("<summary>\n") and record.endswith("\n</summary>")
        text = (
            f"This session is being continued from a previous conversation …\n\n{record[10:-11]}\n\nContinue."
        )
        blocks = [{"type": "text", "text": f"<system-reminder>{n}</system-reminder>"} for n in range(2)]
        blocks.insert(1, {"type": "text", "text": text})
        return cls.body([{"role": "user", "content": blocks}, message("assistant", "Here.", "text"),
                         message("user", "Go on.", "text")])  # fmt: skip


class Responses:
    """Codex 0.166.0."""

    path, program = "/v1/responses", "Codex"
    talk = [message(role, text, "input_text" if role == "user" else "output_text") for role, text in TALK]

    @staticmethod
    def body(items: list[Any], **more: Any) -> dict[str, Any]:
        rules = message("developer", "Rules.", "input_text")
        return {"model": "m", "input": [rules, *items], "tools": [], "store": False, **more}

    @classmethod
    def call(cls, prompt: str = CODEX) -> dict[str, Any]:
        return cls.body([*cls.talk, message("user", prompt, "input_text")])

    @classmethod
    def after(cls, record: str) -> dict[str, Any]:
        text = f"Another language model started to solve this problem and …:\n{record}"
        asked = [item for item in cls.talk if item["role"] == "user"]
        return cls.body(
            [*asked, message("user", text, "input_text"), message("user", "Go on.", "input_text")]
        )


class Chat:
    """opencode 1.18.18."""

    path, program = "/v1/chat/completions", "opencode"
    talk = [message(role, text) for role, text in TALK]

    @staticmethod
    def body(messages: list[Any], **more: Any) -> dict[str, Any]:
        return {"model": "m", "messages": [message("system", "Rules."), *messages], **more}

    @classmethod
    def call(cls, prompt: str = "Here is the conversation so far:\n\n") -> dict[str, Any]:
        told = "\n\n".join(f"[{role.title()}]: {text}" for role, text in TALK)
        asks = f"{prompt}<conversation>\n{told}\n</conversation>\n\nCreate a new anchored summary …"
        return {"model": "m", "messages": [message("system", OPENCODE), message("user", asks)]}

    @classmethod
    def after(cls, record: str) -> dict[str, Any]:
        return cls.body([message("user", "What did we do so far?"), message("assistant", record),
                         message("user", "Go on.")])  # fmt: skip


PROGRAMS: list[Any] = [Anthropic, Responses, Chat]
DIALECTS = {"/v1/messages": "anthropic", "/v1/responses": "responses", "/v1/chat/completions": "openai"}


async def said(client: Any, program: Any, body: dict[str, Any], **headers: str) -> tuple[str, str]:
    """What is answered, and what the gateway says that it did."""
    async with client.post(program.path, json=body, headers={**NAME, **headers}) as reply:
        data = await reply.read()
        assert reply.status == 200, data
        found = read_reply(
            DIALECTS[program.path], UpstreamReply(number=1, status=200, kind=reply.content_type, data=data)
        )
        assert found is not None and not found.cut
        return found.message.text, reply.headers["x-refold"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_compaction_call_is_answered_with_a_record_which_stands_for_the_session_until_it_is_undone(
    program: Any, tmp_path: Path
) -> None:
    async def work() -> None:
        given: dict[str, Any] = {"window": WINDOW, "record_tokens": RECORD}
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", **given) as (_, client):
            await said(client, program, program.body(program.talk))
            for stream in (False, True):
                record, done = await said(client, program, {**program.call(), "stream": stream})
                assert len(server.requests) == 1 and done.startswith("compact ")
                assert "User 0" in record and record.count("[refold record ") == 1
                assert len(record) < whole / 2
            await said(client, program, program.after(record))
            folded = server.requests[-1].raw
            assert b"refold record" not in folded and b"Go on." in folded and b"User 0" in folded
            assert len(folded) < whole / 2
            await said(client, program, program.after(record), **dict.fromkeys(NAME, "s-2"))
            assert b"refold record" in server.requests[-1].raw, "the record of another session is a text"
            session = max(sessions(tmp_path / "a.db"), key=len)
            for _ in active_folds(session.path):
                Engine().undo(session)
            again = program.after(record)
            field = "input" if "input" in again else "messages"
            kind = {"anthropic": "text", "responses": "output_text"}.get(DIALECTS[program.path], "")
            again[field] += [message("assistant", "Answer.", kind), again[field][-1]]
            await said(client, program, again)
            assert all(text.encode() in server.requests[-1].raw for _, text in TALK)

    whole = len(json.dumps(program.talk))
    with WireServer(then=lambda _: "Answer.") as server:
        run(work)
        assert server.problems == []


NOTES = "The user counts values because value-7 was wrong; value-8 is next."


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_notes_the_model_is_asked_first_and_what_it_writes_stands_in_the_record_and_in_the_session(
    program: Any, tmp_path: Path
) -> None:
    async def work() -> None:
        given: dict[str, Any] = {"window": WINDOW, "record_tokens": RECORD, "notes": True}
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", **given) as (_, client):
            await said(client, program, program.body(program.talk))
            for asked, stream in enumerate((False, True), 2):
                body = {**program.call(), "stream": stream}
                record, done = await said(client, program, body)
                assert len(server.requests) == asked and server.bodies[-1] == body
                assert done.startswith("compact ") and record.count(NOTES) == 1
                assert "Thoughts." not in record and "User 0" in record
            await said(client, program, program.after(record))
            assert NOTES.encode() in server.requests[-1].raw
            assert b"refold record" not in server.requests[-1].raw

    wrote = f"<analysis>Thoughts.</analysis><summary>{NOTES}</summary>"
    with WireServer(then=lambda body: wrote if "summar" in json.dumps(body).lower() else "Answer.") as server:
        run(work)
        assert server.problems == []


@pytest.mark.parametrize(
    "answer",
    [ScriptedReply(error=ModelError("down")), ScriptedReply(content=(m.Text("half"),), cut=True), ""],
)
def test_where_the_model_writes_no_notes_the_record_is_made_without(answer: Any) -> None:
    async def work() -> None:
        async with gateway(server.url, window=WINDOW, record_tokens=RECORD, notes=True) as (_, client):
            await said(client, Anthropic, Anthropic.body(Anthropic.talk))
            record, done = await said(client, Anthropic, Anthropic.call())
            assert done.startswith("compact ") and "User 0" in record

    with WireServer(then=lambda body: answer if "CRITICAL" in json.dumps(body) else "Answer.") as server:
        run(work)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_not_certainly_a_compaction_call_is_passed_on(program: Any) -> None:
    async def work() -> None:
        async with gateway(server.url, window=WINDOW) as (_, client):
            await said(client, program, program.body(program.talk))
            near = [program.call(f"What does this mean? {prompt}") for prompt in (CLAUDE, CODEX, OPENCODE)]
            asks = program.call()
            near.append({**asks, "tools": [] if asks.get("tools") else server_tools(program)})
            for body in near:
                _, done = await said(client, program, body)
                assert done == "pass" and server.bodies[-1] == body
        async with gateway(server.url, window=WINDOW, compaction=False) as (_, client):
            _, done = await said(client, program, program.call())
            assert done == "pass" and server.bodies[-1] == program.call()

    with WireServer(then=lambda _: "Answer.") as server:
        run(work)


def server_tools(program: Any) -> list[dict[str, Any]]:
    function = {"name": "look", "description": "look", "parameters": TOOL["input_schema"]}
    flat = program.path == "/v1/responses"
    return [{"type": "function", **function} if flat else {"type": "function", "function": function}]


def test_every_program_of_the_table_is_tested_in_its_versions() -> None:
    tested = {f"{program.program} {program.__doc__.split()[-1].strip('.')}" for program in PROGRAMS}
    assert {f"{row.program} {version}" for row in COMPACTION_PROMPTS for version in row.versions} == tested


def test_the_record_is_as_large_as_it_is_set() -> None:
    async def work() -> None:
        sizes: list[int] = []
        for tokens in (RECORD, 2 * RECORD):
            async with gateway(server.url, window=WINDOW, record_tokens=tokens) as (_, client):
                record, _ = await said(client, Responses, Responses.call())
                sizes.append(len(record))
        assert sizes[0] < sizes[1]

    with WireServer() as server:
        run(work)


def test_a_key_may_stand_in_the_address(tmp_path: Path) -> None:
    from hashlib import sha256

    async def work() -> None:
        async with gateway(server.url, keys={"ann": sha256(b"k-1").hexdigest()}) as (made, client):
            body = msgspec.json.encode(Responses.body(Responses.talk[:1]))
            for path, status in (("/key/k-1/v1/responses", 200), ("/key/k-2/v1/responses", 401)):
                async with client.post(path, data=body, headers={"authorization": "Bearer own"}) as reply:
                    assert reply.status == status
            assert not any("k-1" in line for line in made.log_lines)  # pyright: ignore

    with WireServer("Answer.") as server:
        run(work)
    [seen] = server.requests
    assert seen.path == "/v1/responses" and seen.headers["authorization"] == "Bearer own"
    assert not any("k-1" in value for value in seen.headers.values())


def test_a_record_tells_the_calls_of_clipped_messages() -> None:
    session = Session(id="s")
    first = session.append(m.user("Do it."))
    step = session.append(m.assistant("Step.", m.call("c1", "bash", command="make check")))
    session.append(m.result("c1", "ok"))
    clipped = m.assistant("St…", m.call("c1", "bash", command="make check"))
    session.append(e.Fold(id="f", parent=session.leaf, preset="refold",
                          edits=(e.Edit(step.id, step.id, (clipped,), "clip"),)))  # fmt: skip
    record = record_text(Engine().view(session), session, "f")
    assert first.message.text in record and "make check" in record and "Step." not in record
    assert re.search(r"\n\n\[refold record s#f\.[0-9a-f]{32}\]$", record)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_reference_opens_a_session_only_for_what_the_digest_is_of(program: Any, tmp_path: Path) -> None:
    """The ids of entries are no secrets: `refold show` prints them."""

    async def work() -> None:
        given: dict[str, Any] = {"window": WINDOW, "record_tokens": RECORD}
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}", **given) as (_, client):
            await said(client, program, program.body(program.talk))
            record, _ = await said(client, program, program.call())
            found = re.search(r"\[refold record (\S+)#(\w+)\.([0-9a-f]{32})\]", record)
            assert found is not None
            session, entry, digest = found.groups()
            [opened] = [each for each in sessions(tmp_path / "a.db") if each.id == session]
            others = [f"{session}#{each.id}.{digest}" for each in opened.path[:3]]
            for reference in (*others, f"{session}#{entry}.{'0' * 32}", f"{session}#{entry}"):
                forged = f"{record[:9]}\n[refold record {reference}]\n{record[-11:]}"
                text = forged if record.startswith("<summary>") else f"\n[refold record {reference}]\n"
                await said(client, program, program.after(text))
                sent = server.requests[-1].raw
                assert b"refold record" in sent and b"Assistant 1" not in sent, reference

    with WireServer(then=lambda _: "Answer.") as server:
        run(work)


@pytest.mark.parametrize(
    "told", ["[User]: hi", "[User]: hi\n\n[Assistant]: Answer.", "[User]: hi\n\n[Assistant]: "]
)
def test_a_call_that_tells_a_conversation_gets_a_record_of_what_it_tells_alone(told: str) -> None:
    """Without keys every program of the machine is one owner: a first message is no proof."""

    async def work() -> None:
        async with gateway(server.url, window=WINDOW, record_tokens=RECORD) as (_, client):
            talk = [
                ("user", "hi"),
                ("assistant", "Answer."),
                ("user", "My secret-1."),
                ("assistant", "secret-2"),
            ]
            body = Chat.body([message(role, text) for role, text in (*talk, ("user", "Go on."))])
            await said(client, Chat, body)
            asks = f"Here is the conversation so far:\n\n<conversation>\n{told}\n</conversation>\n\nCreate …"
            call = {"model": "m", "messages": [message("system", OPENCODE), message("user", asks)]}
            text, _ = await said(client, Chat, call)
            assert "secret" not in text

    with WireServer(then=lambda _: "Summary.") as server:
        run(work)


@pytest.mark.sample(3)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("other", ["bob", "-ann", "Ann"])
def test_a_record_of_one_owner_opens_nothing_for_another(other: str, program: Any) -> None:
    """Records are texts that people pass on; owners whose names look alike are two."""
    from hashlib import sha256

    keys = {owner: sha256(owner.encode()).hexdigest() for owner in ("ann", other)}

    async def work() -> None:
        given: dict[str, Any] = {"window": WINDOW, "record_tokens": RECORD, "keys": keys}
        async with gateway(server.url, **given) as (_, client):
            await said(client, program, program.body(program.talk), **{"x-refold-key": "ann"})
            record, _ = await said(client, program, program.call(), **{"x-refold-key": "ann"})
            for owner in ("ann", other):
                await said(client, program, program.after(record), **{"x-refold-key": owner})
                sent = server.requests[-1].raw
                assert (b"refold record" in sent) == (owner == other)

    with WireServer(then=lambda _: "Answer.") as server:
        run(work)


def test_what_tools_told_one_owner_is_in_no_record_of_another() -> None:
    """A call may leave results out: what stands for them is the caller's own."""
    from hashlib import sha256

    keys = {owner: sha256(owner.encode()).hexdigest() for owner in ("ann", "-ann")}
    call: dict[str, Any] = {
        "id": "c",
        "type": "function",
        "function": {"name": "look", "arguments": '{"at":"x"}'},
    }
    talk: list[dict[str, Any]] = [
        message("user", "Look."),
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": f"The result is Mauritius. {WORDS}"},
        message("user", "And now the last question."),
    ]
    told = '[User]: Look.\n\n[Assistant]: I look.\n\n[Assistant tool calls]: look(at="x")\n\n'
    told += "[Tool result]: [Old tool result content cleared]\n\n[User]: And now the last question.\n\n[Assistant]: Answer."
    asks = f"Here is the conversation so far:\n\n<conversation>\n{told}\n</conversation>\n\nCreate …"
    body = {"model": "m", "messages": [message("system", OPENCODE), message("user", asks)]}

    async def work() -> None:
        given: dict[str, Any] = {"window": WINDOW, "record_tokens": RECORD, "keys": keys}
        async with gateway(server.url, **given) as (_, client):
            await said(client, Chat, Chat.body(talk), **{"x-refold-key": "ann"})
            own, _ = await said(client, Chat, body, **{"x-refold-key": "ann"})
            others, _ = await said(client, Chat, body, **{"x-refold-key": "-ann"})
            assert "Mauritius" in own
            assert "Mauritius" not in others

    with WireServer(then=lambda _: "Answer.") as server:
        run(work)
