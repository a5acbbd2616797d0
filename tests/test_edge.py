"""The typed edge: what a caller may pass is said by name, and what cannot be meant fails at once with a sentence."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import Engine, Session, presets, registry
from refold import entries as e
from refold import messages as m
from refold.errors import EntryNotFound, RefoldError, UnknownName, UnknownSetting, UsageError, WrongType
from refold.loop import run
from refold.models.openai import OpenAIChat
from refold.models.scripted import Scripted, say
from refold.recall import recall, search_logs
from refold.registry import search
from refold.registry.sessions import open as open_session
from refold.session.merge import Merged


def public_methods(kind: type) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, f) for name, f in inspect.getmembers(kind, callable) if not name.startswith("_")]


# ── keywords ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [Engine, Session])
def test_public_methods_name_all_their_arguments(kind: type) -> None:
    free = {
        name
        for name, method in public_methods(kind)
        if any(
            p.kind is p.VAR_KEYWORD and not str(p.annotation).startswith("Unpack[")
            for p in inspect.signature(method).parameters.values()
        )
    }
    assert free <= {"make", "planned", "recalled"}  # the fields of any entry; what goes with the next release


@pytest.mark.parametrize(
    "function",
    [
        refold.model,
        refold.wrap,
        registry.summariser,
        registry.preset,
        search.search_sessions,
        search.search_store,
        recall,
        search_logs,
    ],
)
def test_public_functions_name_all_their_arguments(function: Callable[..., Any]) -> None:
    free = [p for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_KEYWORD]
    assert all(str(p.annotation).startswith("Unpack[") for p in free)


@pytest.mark.parametrize(
    "call",
    [
        lambda engine, session: engine.prepare(session, sytem="be brief"),
        lambda engine, session: engine.call(session, Scripted("x"), max_token=5),
        lambda engine, session: engine.turn(session, str, Scripted("x"), tols=[]),
        lambda engine, session: engine.plan(session, forced=True),
        lambda engine, session: engine.recall(session, "x", key=["k"]),
        lambda engine, session: engine.watch(session, slep=None),
        lambda engine, session: engine.view(session, sytem="be brief"),
        lambda engine, session: engine.branch(session, None, summarise=True),
        lambda engine, session: session.append("x", usge=None),
        lambda engine, session: presets.get("refold", windw=8_000),
        lambda engine, session: presets.Refold(windw=8_000),
        lambda engine, session: Engine(modle="x"),
    ],
)
def test_a_misspelt_keyword_is_an_error_and_nothing_is_done(call: Callable[[Engine, Session], Any]) -> None:
    session = Session()
    with pytest.raises(TypeError):
        if inspect.isawaitable(made := call(Engine(), session)):
            run(made)
    assert not session.path


def test_an_unknown_setting_is_a_type_error_that_lists_what_there_is() -> None:
    with pytest.raises(UnknownSetting, match=r"windw: no such setting; there are: .*window") as caught:
        presets.get("refold", windw=8_000)
    assert isinstance(caught.value, (TypeError, RefoldError))


RIGHT = """
from refold import Engine, Fold, Hooks, Session, messages as m, presets
from refold.entries import MessageEntry
from refold.session.merge import Merged

async def right(session: Session) -> None:
    engine = Engine(presets.Refold(window=8_000, words_share=0.2), model="openai:gpt-5", hooks=Hooks())
    Engine(presets.get("pi", keep_recent_tokens=10_000, budget=5_000))
    Engine(presets.get(window=8_000))
    name: str = "whatever"
    Engine(presets.get(name, window=8_000))
    await engine.prepare(session, system="x", tools=[], incoming="y", instructions="z", cache_expiring=True)
    await engine.call(session, "openai:gpt-5", system="x", tools=[], max_tokens=1, temperature=0.0, timeout=1.0)
    await engine.turn(session, lambda call: "done", most=3, tools=[])
    engine.recall(session, "q", keys=["k"], turns=[1], since=0.0, until=1.0, tool="t", file="f", budget=9, limit=2)
    said: MessageEntry = session.append("hello")
    again: MessageEntry = session.append({"role": "user", "content": "hello"})
    reply: MessageEntry = session.append(m.assistant("hi"), model="x")
    fold: Fold = session.append(session.make(Fold, edits=(), preset="x"))
    merged: Merged = session.merge([])
    print(said, again, reply, fold, merged.appended[0].message, merged.branched)
"""
WRONG = """
from refold import Engine, Fold, Session, presets

async def wrong(session: Session, engine: Engine) -> None:
    presets.Refold(windw=1)
    presets.Pi(reserve_tokens="much")
    presets.Pi(keep_rounds=1)
    engine.plan(session, forced=True)
    await engine.prepare(session, sytem="x")
    await engine.call(session, max_token=1)
    await engine.turn(session, print, tols=[])
    engine.recall(session, "x", key=["k"])
    engine.watch(session, slep=1)
    session.append(42)
    session.append(session.make(Fold, edits=(), preset="x"), usage=None)
    session.merge([]).nonsense
    engine.context(session)
    Engine(42)
"""


@pytest.mark.slow
def test_a_misspelt_keyword_is_an_error_in_the_editor(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    package = Path(refold.__file__).parents[1]
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(package)], "typeCheckingMode": "standard", "pythonVersion": "3.11"})
    )
    asked = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "."]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {
        (Path(one["file"]).name, one["range"]["start"]["line"]): one["message"]
        for one in found
        if one["severity"] == "error"
    }
    assert {at: text for at, text in errors.items() if at[0] == "right.py"} == {}
    lines = WRONG.splitlines()
    expected = {number for number, line in enumerate(lines) if line.startswith("    ")}
    assert {number for _, number in errors} == expected


# ── what is given arrives ───────────────────────────────────────────────────────────────────────

TOOL = {"name": "look", "input_schema": {"type": "object"}}


@pytest.mark.parametrize("method", ["call", "turn"])
def test_every_option_of_a_call_reaches_the_model(method: str) -> None:
    model, session, engine = Scripted("done"), Session(), Engine()
    session.append("hi")
    run_tool = () if method == "call" else (str,)
    options = {"system": "be brief", "tools": [TOOL], "max_tokens": 7, "temperature": 0.5, "timeout": 3.0}
    run(getattr(engine, method)(session, *run_tool, model, **options))
    [request] = model.requests
    assert (request.system, request.max_tokens) == ("be brief", 7)
    assert (request.temperature, request.timeout) == (0.5, 3.0)
    assert [tool.name for tool in request.tools] == ["look"]


def test_a_turn_asks_at_most_as_often_as_it_is_told() -> None:
    model = Scripted(then=lambda request: say(m.call("c", "look")) if request.tools else "enough")
    session = Session()
    session.append("look")
    assert run(Engine().turn(session, str, model, most=2, tools=[TOOL])).text == "enough"
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("conditions", "hits"),
    [
        ({}, ["apple pie", "apple tree", "apple juice"]),
        ({"limit": 0}, []),
        ({"turns": [2]}, ["apple tree"]),
        ({"since": 2.0}, ["apple tree", "apple juice"]),
        ({"until": 2.0}, ["apple pie", "apple tree"]),
        ({"tool": "Read"}, []),
        ({"file": "pie"}, ["apple pie"]),
        ({"budget": 0}, []),
    ],
)
def test_every_condition_of_recall_counts(conditions: dict[str, Any], hits: list[str]) -> None:
    times = iter(range(100))
    session = Session(clock=lambda: float(next(times)))
    for text in ("apple pie", "apple tree", "apple juice"):
        session.append(text)
    found = Engine().recall(session, "apple", **conditions)
    assert sorted(hit.text for hit in found) == sorted(hits)
    [by_key] = Engine().recall(session, keys=[e.key(session.path[1].id)])
    assert by_key.text == "apple tree"


@pytest.mark.slow
def test_a_fold_ahead_of_cache_expiry_counts_the_system_prompt_of_the_last_call() -> None:
    system = "rules " * 5_000
    session, fold_now, folded, hooks = Session(), asyncio.Event(), asyncio.Event(), refold.Hooks()
    hooks.on("after_compact", lambda _: folded.set())

    async def sleep(_: float) -> None:
        await fold_now.wait()

    async def story() -> None:
        engine = Engine(presets.Refold(window=200_000, target=0.05), hooks=hooks)
        for number in range(60):
            session.append(f"question {number} " * 100)
            session.append(m.assistant(f"answer {number} " * 100))
        async with engine.watch(session, sleep=sleep):
            await engine.prepare(session, system=system)
            engine.observe(session, m.assistant("ok"))
            bare = engine.view(session).tokens
            fold_now.set()
            await folded.wait()
        [fold] = session.annotations(e.Fold)
        assert fold.tokens_before > bare + 4_000

    run(asyncio.wait_for(story(), 30))


# ── appending ───────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_a_message_of_the_user() -> None:
    session = Session()
    entry = session.append("hello")
    assert isinstance(entry, e.MessageEntry)
    assert entry.message == m.user("hello")
    assert session.leaf == entry.id


@pytest.mark.parametrize(
    ("wire", "messages"),
    [
        ({"role": "user", "content": "hi"}, [m.user("hi")]),
        ({"role": "developer", "content": "rules"}, [m.system("rules")]),
        ({"role": "tool", "tool_call_id": "c", "content": "42"}, [m.result("c", "42")]),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
                ],
            },
            [m.Assistant((m.call("c", "f", a=1),))],
        ),
        ({"type": "function_call_output", "call_id": "c", "output": "42"}, [m.result("c", "42")]),
        (
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                    {"type": "text", "text": "go on"},
                ],
            },
            [m.result("a", "1"), m.result("b", "2"), m.user("go on")],
        ),
    ],
    ids=["chat", "developer", "tool", "calls", "responses", "anthropic results"],
)
def test_a_dict_of_any_dialect_is_read(wire: dict[str, Any], messages: list[Any], tmp_path: Path) -> None:
    session = open_session(f"jsonl:{tmp_path / 's.jsonl'}")
    first = session.append("before")
    entry = session.append(wire, model="a:b")
    said = [x for x in session.path if isinstance(x, e.MessageEntry)][1:]
    assert [x.message for x in said] == messages
    assert said[0].parent == first.id
    assert said[-1] == entry and entry.model == "a:b"
    again = open_session(f"jsonl:{tmp_path / 's.jsonl'}", session.id)
    assert [x.id for x in again.path] == [x.id for x in session.path]


@pytest.mark.parametrize(
    "nonsense",
    [
        42,
        None,
        b"hello",
        ["hello"],
        {"content": "who says this?"},
        {"role": "robot", "content": "x"},
        {"role": 5, "content": "x"},
        {"role": "user", "contents": "misspelt"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
    ],
    ids=repr,
)
def test_anything_else_is_refused_with_a_sentence_and_appends_nothing(nonsense: Any) -> None:
    session = Session()
    with pytest.raises(WrongType) as caught:
        session.append(nonsense)
    assert isinstance(caught.value, TypeError)
    assert len(str(caught.value)) > 20
    assert len(session) == 0


def test_a_reply_of_an_sdk_is_shown_the_way_to_observe() -> None:
    from openai.types.chat import ChatCompletionMessage

    with pytest.raises(WrongType, match=r"engine\.observe"):
        Session().append(ChatCompletionMessage(role="assistant", content="hi"))


def test_an_entry_is_appended_as_it_is_and_returned() -> None:
    session = Session()
    note = session.make(e.Note, content=m.content("a note"))
    assert session.append(note) is note
    with pytest.raises(WrongType, match="can only be given with a message"):
        session.append(session.make(e.Note, content=()), model="a:b")


def test_merge_says_what_became_of_the_list() -> None:
    session = Session()
    merged = session.merge([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    assert isinstance(merged, Merged)
    assert [entry.message.text for entry in merged.appended] == ["a", "b"]
    assert not merged.branched
    assert session.merge([{"role": "user", "content": "other"}]).branched


def test_an_unknown_id_is_a_key_error_of_our_own() -> None:
    with pytest.raises(KeyError) as caught:
        Session()["x"]
    assert isinstance(caught.value, EntryNotFound)
    assert isinstance(caught.value, RefoldError)
    assert str(caught.value) == "no entry 'x' in this session"


# ── models by name ──────────────────────────────────────────────────────────────────────────────


def test_an_engine_takes_a_model_by_its_name(tmp_path: Path) -> None:
    script = tmp_path / "replies.txt"
    script.write_text("@always\nHello.")
    name = f"scripted:{script}"
    session = Session()
    session.append("hi")
    assert run(Engine(model=name).call(session)).text == "Hello."
    assert run(Engine().call(session, name)).text == "Hello."
    assert run(Engine().turn(session, str, name)).text == "Hello."


def test_a_named_model_needs_neither_key_nor_sdk_before_it_is_asked() -> None:
    model = Engine(model="openai:gpt-5").model
    assert isinstance(model, OpenAIChat)
    assert (model.name, model.context_window) == ("openai:gpt-5", 272_000)


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("gpt-5", UsageError, "PROVIDER:NAME"),
        ("nobody:gpt-5", UnknownName, "model provider"),
        ("", UsageError, "no model"),
    ],
)
def test_a_bad_name_fails_when_the_engine_is_made(name: str, error: type[RefoldError], said: str) -> None:
    with pytest.raises(error, match=said):
        Engine(model=name)


@pytest.mark.parametrize("nonsense", [42, object(), ["openai:gpt-5"]])
def test_what_is_no_model_is_refused(nonsense: Any) -> None:
    with pytest.raises(WrongType, match="expected a model"):
        Engine(model=nonsense)


def outcome(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_providers_are_loaded_by_the_first_name() -> None:
    code = "import sys; from refold import Engine; Engine('pi'); print('refold.registry.models' in sys.modules); "
    code += "Engine(model='openai:gpt-5'); print('refold.registry.models' in sys.modules, 'openai' in sys.modules)"
    assert outcome(code).split() == ["False", "True", "False"]


def test_an_engine_that_is_not_the_packages_says_where_to_get_one() -> None:
    code = (
        "from refold.engine import Engine\ntry: Engine(model='openai:gpt-5')\nexcept Exception as e: print(e)"
    )
    assert "from refold import Engine" in outcome(code)


# ── what is public ──────────────────────────────────────────────────────────────────────────────


def test_internals_are_not_public() -> None:
    names = {name for name in dir(Engine()) if not name.startswith("_")}
    assert names == {
        "apply", "branch", "call", "counter", "failed", "find_model", "hooks", "memory", "model",
        "objection", "observe", "pin", "plan", "planned", "planner", "prepare", "preset", "preset_for", "recall", "recalled", "redo",
        "summariser", "turn", "undo", "unpin", "view", "watch",
    }  # fmt: skip


def test_hooks_come_with_the_package() -> None:
    from refold.hooks import Hooks

    assert refold.Hooks is Hooks
