"""How a summary is asked for: stand-alone, or as a continuation of the chat that the provider has cached."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.cli.plan_cost import cost
from refold.compaction.plan import Plan
from refold.costs import same_model
from refold.engine.summarise import ByModel
from refold.errors import Overflow
from refold.models.anthropic import Anthropic
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, fail, say
from refold.testing.wire import WireServer

SYSTEM = "You are a careful agent."
NOTES = "## Goal\nThe user wants the parser fixed.\n## Next steps\n(none)"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
# Written as people write them: key order, `strict` and the provider's own tools have to survive.
TOOLS: dict[type, list[dict[str, Any]]] = {
    OpenAIChat: [{"function": {"strict": True, "name": "Read", "parameters": SCHEMA}, "type": "function"}],
    OpenAIResponses: [{"name": "Read", "strict": True, "type": "function", "parameters": SCHEMA}],
    Anthropic: [
        {"input_schema": SCHEMA, "name": "Read", "description": "Read a file."},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ],
}


def grow(session: Session, turns: int, model: str | None = "m-1", size: int = 900) -> None:
    for _ in range(turns):
        n = len(session.turns)
        session.append(m.user(f"Fix bug {n} in the parser."))
        session.append(m.assistant("Reading.", m.call(f"c{n}", "Read", path=f"p{n}.py")), model=model)
        session.append(m.result(f"c{n}", f"def p{n}():\n" + "    step()\n" * (size // 3), name="Read"))
        session.append(m.assistant(f"Bug {n} is fixed."), model=model)


def story(turns: int = 12, model: str | None = "m-1") -> Session:
    session = Session()
    grow(session, turns, model)
    session.append(m.user("What is left?"))
    return session


def engine(model: Any, **chosen: Any) -> Engine:
    chosen = {
        "window": 9_000,
        "output_reserve": 1_000,
        "summary_tokens": 400,
        "target": 0.05,
        **chosen,
    }
    model.context_window = chosen.pop("their_window", 20_000)
    summariser = ByModel(model, tokens.get(), retries=NO_RETRY)
    return Engine(presets.get("refold", **chosen), summariser=summariser)


def scripted(*lines: Any) -> Scripted:
    return Scripted(*lines, name="openai:m-1")


# ── on the wire ─────────────────────────────────────────────────────────────────────────────────


async def send(kind: type, server: WireServer, view: Any, tools: list[dict[str, Any]]) -> None:
    """The chat request as a user of the SDK sends it."""
    if kind is Anthropic:
        import anthropic

        client: Any = anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0)
        body = {**view.to_anthropic(), "max_tokens": 50}
        stream = await client.messages.create(model="m-1", stream=True, tools=tools, **body)
    else:
        import openai

        client = openai.AsyncOpenAI(api_key="k", base_url=server.v1, max_retries=0)
        if kind is OpenAIChat:
            stream = await client.chat.completions.create(
                model="m-1", stream=True, messages=view.to_openai(), tools=tools
            )
        else:
            stream = await client.responses.create(
                model="m-1", stream=True, input=view.to_responses(), tools=tools, store=False
            )
    async for _ in stream:
        pass
    await client.close()


def bodies(kind: type) -> tuple[bytes, bytes, Session]:
    """The last chat request and the summary request that follows it."""
    tools = TOOLS[kind]
    with WireServer("Looking.", say(NOTES)) as server:

        async def main() -> Session:
            model = kind("m-1", api_key="k", base_url=server.url if kind is Anthropic else server.v1)
            folding, session = engine(model), Session()
            grow(session, 6)
            session.append(m.user("Go on."))
            view = await folding.prepare(session, system=SYSTEM, tools=tools)
            assert not session.annotations(e.Fold)
            await send(kind, server, view, tools)
            session.append(m.assistant("Looking.", m.call("big", "Read", path="big.py")), model="m-1")
            session.append(m.result("big", "    step()\n" * 1_000, name="Read"))
            await folding.prepare(session, system=SYSTEM, tools=tools)
            await model.aclose()
            return session

        session = asyncio.run(main())
        assert server.problems == []
        chat, summary = (seen.raw for seen in server.requests)
        return chat, summary, session


def bare(value: Any) -> Any:
    """Without cache breakpoints: they are no content, and the newest ones move on."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if isinstance(value, dict):
        return {key: bare(one) for key, one in value.items() if key != "cache_control"}
    return value


@pytest.mark.parametrize(("kind", "key"), [(OpenAIChat, "messages"), (OpenAIResponses, "input")])
def test_R15_the_summary_request_repeats_the_bytes_of_the_last_chat_request(kind: type, key: str) -> None:
    chat, summary, session = bodies(kind)
    history = json.dumps(json.loads(chat)[key], separators=(",", ":"), ensure_ascii=False)[:-1].encode()
    assert history in chat
    assert history in summary
    offered = json.dumps(TOOLS[kind], separators=(",", ":")).encode()
    assert offered in chat
    assert offered in summary
    assert json.loads(summary)[key][-1]["content"] != json.loads(chat)[key][-1]["content"]
    assert session.annotations(e.Fold)[0].strategy == "summary"


def test_R15_anthropic_finds_the_chat_request_in_its_cache() -> None:
    chat, summary, _ = (json.loads(raw) if isinstance(raw, bytes) else raw for raw in bodies(Anthropic))
    end = len(chat["messages"])
    assert summary["tools"] == chat["tools"] == TOOLS[Anthropic]
    assert bare(summary["system"]) == bare(chat["system"])
    assert bare(summary["messages"])[:end] == bare(chat["messages"])
    # One breakpoint stands where the chat request ended, so that its entry is looked up.
    assert summary["messages"][end - 1]["content"][-1]["cache_control"] == {"type": "ephemeral"}


# ── which form ──────────────────────────────────────────────────────────────────────────────────


def form(folding: Engine, session: Session, **given: Any) -> str:
    plan = folding.plan(session, **{"force": True, "system": SYSTEM, **given})
    assert isinstance(plan, Plan)
    assert plan.strategy == "summary"
    return "cached-prefix" if plan.asks[0].prefix else "stand-alone"


def test_auto_continues_the_chat_only_where_a_cache_is_read() -> None:
    folding = engine(scripted())
    assert form(folding, story(model="m-1")) == "cached-prefix"
    assert form(folding, story(model="openai:m-1")) == "cached-prefix"
    assert form(folding, story(model="m-2")) == "stand-alone"
    assert form(folding, story(model=None)) == "stand-alone"
    assert form(folding, story(), system=None) == "stand-alone"  # nobody said what the chat was sent with
    late = story()
    folding.planner.clock = lambda: late.path[-2].time + 301
    assert form(folding, late) == "stand-alone"


def test_a_setting_decides_and_secrets_never_reach_another_model() -> None:
    assert form(engine(scripted(), summary_request="stand-alone"), story()) == "stand-alone"
    wanted = {"summary_request": "cached-prefix"}
    assert form(engine(scripted(), **wanted), story(model=None), system=None) == "cached-prefix"
    assert form(engine(scripted(), **wanted), story(model="m-2")) == "stand-alone"
    assert form(engine(scripted(), redact=False, **wanted), story(model="m-2")) == "cached-prefix"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("claude-sonnet-4-5-20250929", "anthropic:claude-sonnet-4-5", True),
        ("claude-sonnet-4.5", "anthropic:claude-sonnet-4-5", True),
        ("gpt-5-2025-08-07", "openai:gpt-5", True),
        ("gpt-5-mini", "openai:gpt-5", False),
        ("openai:gpt-5", "azure:gpt-5", False),
    ],
)
def test_names_of_one_model(one: str, other: str, same: bool) -> None:
    assert same_model(one, other) is same


def test_what_does_not_fit_the_summarisers_window_is_asked_stand_alone_in_chunks() -> None:
    model = scripted(*[say(NOTES)] * 9)
    folding, session = engine(model, their_window=3_000), story()
    assert form(folding, session) == "stand-alone"
    asyncio.run(folding.prepare(session, system=SYSTEM))
    assert session.annotations(e.Fold)[0].strategy == "summary"
    assert len(model.requests) > 1
    assert all(request.messages[0].text.startswith("<conversation>") for request in model.requests)


def test_a_refusal_as_too_long_falls_back_to_stand_alone() -> None:
    model = scripted(fail(Overflow("prompt is too long", 6_000)), *[say(NOTES)] * 9)
    folding, session = engine(model), story()
    asyncio.run(folding.prepare(session, system=SYSTEM))
    [fold] = session.annotations(e.Fold)
    assert (fold.strategy, fold.requests) == ("summary", len(model.requests))
    assert model.requests[0].messages[0].text == "Fix bug 0 in the parser."
    assert model.requests[1].messages[0].text.startswith("<conversation>")


def test_a_model_that_goes_on_working_is_asked_again_in_the_other_form() -> None:
    model = scripted(say("On it.", m.call("x", "Read", path="a")), say(NOTES))
    folding, session = engine(model), story()
    asyncio.run(folding.prepare(session, system=SYSTEM))
    [fold] = session.annotations(e.Fold)
    assert fold.strategy == "summary_half"
    assert [len(r.messages) > 1 for r in model.requests] == [True, False]


def test_claims_may_come_from_all_that_the_model_was_shown() -> None:
    text = f"{NOTES}\n## State of the work\nI read `p9.py` and `p0.py`, never `q7.py`."
    folding, session = engine(scripted(say(text))), story()
    asyncio.run(folding.prepare(session, system=SYSTEM))
    [fold] = session.annotations(e.Fold)
    assert fold.check["unverified"] == ["q7.py"]


def test_R15_break_even_is_that_of_the_form_that_will_be_used() -> None:
    session = story(60, model="claude-sonnet-4-5")
    writer = Scripted(name="anthropic:claude-sonnet-4-5")

    def now(**chosen: Any) -> float:
        folding = engine(writer, window=60_000, their_window=200_000, **chosen)
        plan = folding.plan(session, force=True, system=SYSTEM)
        assert isinstance(plan, Plan)
        return cost(plan).now or 0.0

    assert now() == now(summary_request="cached-prefix") < now(summary_request="stand-alone")
