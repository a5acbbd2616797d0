"""The loops with the providers' own SDKs, against a server that refuses what the provider would refuse."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Session
from refold import entries as e
from refold import messages as m
from refold.errors import OverflowAgain
from refold.models.scripted import say
from refold.recall import tool as recall_tool
from refold.testing.wire import Http, WireAnswer, WireServer
from tests import sdk
from tests.examples.kit import SECRET, WINDOW, answer, check, example, question

RECALL = m.call("r1", recall_tool.NAME, query="code word of the vault")
TURNS = 14


def openai_agent(server: WireServer, session: Session, window: int = WINDOW) -> Any:
    client = sdk.openai.AsyncOpenAI(base_url=server.v1, api_key="any", max_retries=0)
    return example("openai_loop").Agent(client, session, model="gpt-5.4", window=window)


def anthropic_agent(server: WireServer, session: Session, window: int = WINDOW) -> Any:
    client = sdk.anthropic.AsyncAnthropic(base_url=server.url, api_key="any", max_retries=0)
    return example("anthropic_loop").Agent(client, session, model="claude-sonnet-5-5", window=window)


AGENTS = pytest.mark.parametrize("agent", [openai_agent, anthropic_agent], ids=["openai", "anthropic"])


@pytest.mark.sample(1)
@AGENTS
def test_a_long_conversation_stays_inside_and_what_left_can_be_recalled(agent: Any, tmp_path: Path) -> None:
    async def talk(server: WireServer) -> None:
        session = refold.open(f"sqlite:{tmp_path / 'agent.db'}", id="loop")
        talking = agent(server, session)
        for number in range(TURNS):
            assert await talking.turn(question(number)) == answer(number)
        assert session.annotations(e.Fold), "the first turns have left their place"
        assert await talking.turn("What is the code word?") == "heliotrope"
        assert session.annotations(e.Fold)
        await talking.client.close()

    script: list[WireAnswer] = [*map(answer, range(TURNS)), say("I will look.", RECALL), "heliotrope"]
    with WireServer(*script) as server:
        asyncio.run(talk(server))
    check(server, least=TURNS + 2)
    assert SECRET in str(server.bodies[-1]["messages"][-1]), "the tool found it"
    again = refold.open(f"sqlite:{tmp_path / 'agent.db'}", id="loop")
    assert [x.message.text for x in again.path if isinstance(x, e.MessageEntry)][-1] == "heliotrope"


@AGENTS
def test_a_refused_context_is_folded_and_sent_once_more(agent: Any) -> None:
    async def talk(server: WireServer, session: Session) -> None:
        for number in range(TURNS):
            session.append(m.user(question(number)))
            session.append(m.assistant(answer(number)))
        talking = agent(server, session, 200_000)
        assert await talking.turn("And now?") == "Fine."
        await talking.client.close()

    refusal = Http.error(400, "prompt is too long: 4100 tokens > 3000 maximum")
    session = Session()
    with WireServer(refusal, "Fine.") as server:
        asyncio.run(talk(server, session))
    first, second = (len(str(body["messages"])) for body in server.bodies)
    assert second < first * 0.75
    assert [w.tokens for w in session.annotations(e.LearnedWindow)] == [3000]


@AGENTS
def test_a_second_refusal_in_a_row_is_an_error(agent: Any) -> None:
    async def talk(server: WireServer) -> None:
        session = Session()
        for number in range(TURNS):
            session.append(m.user(question(number)))
            session.append(m.assistant(answer(number)))
        talking = agent(server, session, 200_000)
        with pytest.raises(OverflowAgain):
            await talking.turn("And now?")
        await talking.client.close()

    refusal = Http.error(400, "prompt is too long: 4100 tokens > 3000 maximum")
    with WireServer(refusal, refusal) as server:
        asyncio.run(talk(server))


@AGENTS
def test_other_refusals_are_raised(agent: Any) -> None:
    async def talk(server: WireServer) -> None:
        talking = agent(server, Session())
        with pytest.raises(Exception, match="temperature"):
            await talking.turn("Hello.")
        await talking.client.close()

    with WireServer(Http.error(400, "temperature: must be at most 2")) as server:
        asyncio.run(talk(server))


def test_a_file_is_read_and_a_wrong_path_is_told_to_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("forty-two")
    calls = [m.call("c1", "read_file", path="a.txt"), m.call("c2", "read_file", path="../b"),
             m.call("c3", "read_file", wrong=1)]  # fmt: skip
    with WireServer(say("Let me look.", *calls), "42") as server:

        async def talk() -> None:
            talking = openai_agent(server, Session())
            assert await talking.turn("What is in a.txt?") == "42"
            await talking.client.close()

        asyncio.run(talk())
    good, outside, wrong = (message["content"] for message in server.bodies[1]["messages"][-3:])
    assert good == "forty-two"
    assert "outside" in outside
    assert "unexpected keyword" in wrong


def test_thinking_goes_back_with_its_signature_and_the_prefix_is_cached() -> None:
    thought = m.thinking("A power of two, minus one.", signature="signed-1")
    call = m.call("c1", "power", base=2, exponent=10)
    with WireServer(say(thought, "I compute.", call), "1023", "You are welcome.") as server:

        async def talk() -> None:
            agent = anthropic_agent(server, Session(), 200_000)
            assert await agent.turn("What is 2 ** 10 - 1?") == "1023"
            await agent.turn("Thanks.")
            await agent.client.close()

        asyncio.run(talk())
    _, second, third = server.bodies
    assert second["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "A power of two, minus one.",
        "signature": "signed-1",
    }
    assert second["messages"][2]["content"][0]["content"] in ("1024", [{"type": "text", "text": "1024"}])
    for body in server.bodies:
        assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" in body["messages"][-1]["content"][-1]
    assert bare(third["messages"])[: len(second["messages"])] == bare(second["messages"]), "what was cached"


def bare(messages: list[dict[str, Any]]) -> list[Any]:
    """Without the marks, which move on."""
    return [
        (message["role"], [{**block, "cache_control": None} for block in message["content"]])
        for message in messages
    ]
