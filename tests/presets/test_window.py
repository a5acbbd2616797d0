"""The rules of spec page `window`, C1–C9."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.cli import main
from refold.compaction.plan import Failed, Plan, Reason, SummarySource
from refold.compaction.strategies.window import STYLE, safe_end
from refold.compaction.transcript import render
from refold.errors import ModelError, SettingError
from refold.loop import run
from refold.models.scripted import Scripted, fail, say
from refold.transcripts import read
from tests.data import shared
from tests.presets.chains import check_wire, orphans, prompts, summariser
from tests.virtual import run_virtually


def window(**settings: Any) -> presets.Preset:
    return presets.get("window", **settings)


def chats(count: int) -> Session:
    """Chat messages; the newest one is the user's."""
    session = Session()
    for number in range(count):
        last = (count - number) % 2 == 1
        session.append(m.user(f"question {number}") if last else m.assistant(f"answer {number}"))
    return session


def transcript(*messages: m.Message) -> str:
    return render([SummarySource(str(i), message) for i, message in enumerate(messages)], STYLE)


def test_C1_defaults_and_the_rule_between_threshold_and_window() -> None:
    settings = window().settings
    assert (settings.max_history, settings.compact_threshold, settings.compact_window) == (50, 40, 30)
    assert settings.summary_max_chars == 1500
    with pytest.raises(SettingError, match="compact_threshold"):
        window(compact_threshold=39)
    assert window(compact_threshold=25, compact_window=15)


def test_C2_below_the_threshold_nothing_happens() -> None:
    session = chats(38)
    engine = Engine(window(), model=Scripted())
    view = run(engine.prepare(session))
    assert len(view) == 38
    assert not engine.plan(session)


def test_C2_checked_once_per_user_message_not_inside_a_turn() -> None:
    session = chats(45)
    session.append(m.assistant("", m.call("c", "ls")))
    session.append(m.result("c", "a"))
    assert Engine(window()).plan(session).code == "in_turn"  # type: ignore[union-attr]
    assert Engine(window()).plan(session, incoming="Stop. Do this instead.")


def test_C2_checked_also_when_the_reply_has_come() -> None:
    session = chats(39)
    session.append(m.assistant("and the reply"))
    before = Engine(window()).view(session).to_openai()[-10:]
    view = run(Engine(window(), model=Scripted("the summary")).prepare(session))
    assert len(view) == 11
    assert view.to_openai()[-10:] == before


def mixed(*kinds: str) -> Session:
    session = Session()
    for number, kind in enumerate(kinds):
        if kind == "chat":
            session.append(m.user(f"chat {number}"))
        elif kind == "call":
            session.append(m.assistant("", m.call("c1", "ls")))
        else:
            session.append(m.result("c1", "files"))
    return session


@pytest.mark.parametrize(
    ("kinds", "ideal", "end"),
    [
        (("chat", "chat", "call", "result", "chat"), 3, 2),
        (("chat", "chat", "call", "result", "chat"), 4, 4),
        (("chat",) * 5, 3, 3),
    ],
)
def test_C3_safe_end(kinds: tuple[str, ...], ideal: int, end: int) -> None:
    assert safe_end(Engine(window()).planner.context(mixed(*kinds)), ideal) == end


def test_C3_no_safe_end_means_no_summary_and_the_cap_acts_pair_safe() -> None:
    session = Session()
    calls = [m.call(f"c{i}", "ls") for i in range(60)]
    session.append(m.assistant("", *calls))
    for call in calls:
        session.append(m.result(call.id, "x"))
    session.append(m.user("next"))
    engine = Engine(window(), model=Scripted())
    view = run(engine.prepare(session))
    assert orphans(view.items) == []
    assert len(view) <= 50
    assert session.annotations(e.Fold)[-1].strategy == "hard_trim"


def test_C4_transcript_lines_and_limits() -> None:
    text = transcript(
        m.system("be nice"),
        m.user("X" * 1000),
        m.assistant("looking", m.call("c", "grep", pattern="secret")),
        m.result("c", "r" * 300),
    )
    lines = text.split("\n")
    assert "be nice" not in text
    assert lines[0].startswith("[user] " + "X" * 500)
    assert len(lines[0]) < 600
    assert "[assistant] looking" in text
    assert "[tool call] grep" in text
    assert "secret" not in text
    assert "[tool result] " + "r" * 200 in text
    assert "r" * 201 not in text


def test_C4_the_whole_is_cut_visibly_and_never_inside_a_character() -> None:
    text = transcript(*[m.user("汉😀" * 250) for _ in range(60)])
    assert len(text) <= 12_000
    assert "cut" in text[-80:]
    text.encode("utf-8")


def test_C5_the_call() -> None:
    model = summariser()
    session = chats(41)
    run(Engine(window(), model=model).prepare(session))
    request = model.requests[0]
    assert request.temperature == 0.3
    assert request.tools == ()
    for wanted in (
        "needs",
        "decisions",
        "problems",
        "paths, commands, configuration",
        "small talk",
        "long tool output",
    ):
        assert wanted in request.messages[0].text


def test_C5_language() -> None:
    model = summariser("对话摘要：")
    session = chats(41)
    run(Engine(window(language="zh"), model=model).prepare(session))
    assert "对话摘要：" in model.requests[0].messages[0].text


def test_C5_a_summary_without_a_model_opens_as_one_in_chinese() -> None:
    engine, session = Engine(window(language="zh")), Session()
    for round in range(3):
        for number in range(20):
            session.append(m.user(f"请修复第{number}个问题，端口是47{round}{number:02}。"))
            session.append(m.assistant(f"第{number}个问题已修复，用时{number}秒。"))
        text = run(engine.prepare(session)).items[0].message.text
        assert text.startswith("[对话摘要 - 早期上下文]\n对话摘要：\n## ")
        assert text.count("对话摘要：") == 1


@pytest.mark.parametrize(
    ("language", "heading"),
    [("auto", "[Conversation summary: early context]"), ("zh", "[对话摘要 - 早期上下文]")],
)
def test_C6_one_system_message_with_a_heading_in_place_of_the_window(language: str, heading: str) -> None:
    session = chats(41)
    view = run(Engine(window(language=language), model=Scripted("S" * 4000)).prepare(session))
    first = view.items[0].message
    assert isinstance(first, m.System)
    assert first.text == heading + "\n" + "S" * 1500
    assert "S" * 1500 in str(view.to_openai()[0])
    assert "S" * 1500 in str(view.to_anthropic())


def test_C6_the_next_summary_receives_the_last_one() -> None:
    model = summariser("NUMBER")
    session = chats(41)
    engine = Engine(window(), model=model)
    run(engine.prepare(session))
    for number in range(30):
        session.append(m.assistant(f"a{number}"))
        session.append(m.user(f"q{number}"))
    run(engine.prepare(session))
    assert "NUMBER 1" in prompts(model)[1]


@pytest.mark.parametrize("answer", ["", "null", fail(ModelError("down")), fail(TimeoutError())])
def test_C7_failure_becomes_a_hard_trim_and_never_a_crash(answer: Any) -> None:
    session = chats(61)
    engine = Engine(window(), model=Scripted(answer, then="late"))
    view = run(engine.prepare(session))
    assert len(view) <= 50
    assert session.annotations(e.Fold)[-1].strategy == "hard_trim"
    assert len(session.annotations(e.Failure)) == 1


def test_C7_fifty_messages_and_an_empty_reply_stay_fifty() -> None:
    session = chats(50)
    outcome = run(
        Engine(window(), model=Scripted("")).apply(session, Engine(window()).plan(session, force=True))
    )  # type: ignore[arg-type]
    assert isinstance(outcome, Failed)
    assert len(Engine(window()).view(session)) == 50


def test_C8_forty_chats_become_eleven_and_the_last_ten_are_byte_identical() -> None:
    session = chats(40)
    before = Engine(window()).view(session).to_openai()[-10:]
    view = run(Engine(window(), model=Scripted("the summary")).prepare(session))
    assert len(view) == 11
    assert view.items[0].fold is not None
    assert view.to_openai()[-10:] == before


def test_C7_a_summary_that_takes_longer_than_thirty_seconds_becomes_a_hard_trim() -> None:
    for seconds, strategy in ((29.0, "summary"), (31.0, "hard_trim")):
        session = chats(61)
        engine = Engine(window(), model=Scripted(then=say("late", delay=seconds)))
        _, waited = run_virtually(engine.prepare(session))
        assert session.annotations(e.Fold)[-1].strategy == strategy
        assert waited <= 30.5
    assert [x.code for x in session.annotations(e.Failure)] == ["timeout"]


def test_C7_the_hard_trim_keeps_the_summary_first() -> None:
    session = chats(41)
    engine = Engine(window(), model=Scripted("THE SUMMARY", then=""))
    summary = run(engine.prepare(session)).items[0].message
    for number in range(60):
        session.append(m.user(f"more {number}"))
    view = run(engine.prepare(session))
    assert session.annotations(e.Fold)[-1].strategy == "hard_trim"
    assert view.items[0].message == summary
    assert len(view) == 50
    assert view.items[-1].message == m.user("more 59")


@pytest.mark.parametrize("count", [34, 40, 12])
def test_C8_never_fewer_than_ten_are_kept_not_even_when_forced(count: int) -> None:
    session = chats(count)
    engine = Engine(window(), model=Scripted("the summary"))
    before = engine.view(session).to_openai()[-10:]
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    run(engine.apply(session, plan))
    view = engine.view(session)
    assert len(view) == max(count - 30, 10) + 1
    assert view.to_openai()[-10:] == before


def test_C8_the_reason_is_the_design_s_own_not_that_of_the_fall_back() -> None:
    assert Engine(window()).plan(chats(11), force=True) == Reason(
        "no_gain", "a summary would not be smaller than the messages"
    )


def test_C8_ten_messages_are_never_folded() -> None:
    assert not Engine(window()).plan(chats(10), force=True)


def test_C8_system_messages_do_not_count() -> None:
    session = Session()
    session.append(m.system("You are a bot."))
    for number in range(39):
        session.append(m.assistant(f"answer {number}") if number % 2 else m.user(f"question {number}"))
        if number == 35:
            session.append(m.system("The time is noon."))
    engine = Engine(window(), model=Scripted("the summary"))
    assert engine.plan(session).code == "below_threshold"  # type: ignore[union-attr]
    session.append(m.assistant("answer 39"))
    view = run(engine.prepare(session))
    own = [x.message for x in view.items if x.fold is None and not isinstance(x.message, m.System)]
    assert len(own) == 10


def test_C8_from_the_command_line_ten_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(Engine(window()).view(chats(34)).to_openai()))
    done = CliRunner().invoke(main, ["compact", str(file), "--preset", "window", "--json"])
    assert len(json.loads(done.output)["view"]["messages"]) == 11


def test_C8_nobody_is_asked_where_the_result_cannot_be_smaller() -> None:
    model = Scripted()
    for session in (chats(11), mixed(*["chat"] * 10)):
        assert not Engine(window(), model=model).plan(session, force=True)
    tiny = Session()
    for _ in range(12):
        tiny.append(m.user(""))
    reason = Engine(window(), model=model).plan(tiny, force=True)
    assert (bool(reason), model.requests) == (False, [])


@pytest.mark.parametrize(("settings", "bound"), [({}, 10), ({"max_tool_iterations": 3}, 3)])
def test_C9_the_tool_loop_is_bounded_and_the_turn_still_ends(settings: dict[str, int], bound: int) -> None:
    session = Session()
    session.append(m.user("look everywhere"))
    numbers = iter(range(1_000))
    chat = Scripted(
        then=lambda r: say(m.call(f"c{next(numbers)}", "ls")) if r.tools else "That is all I found."
    )
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
    reply = run(Engine(window(**settings)).turn(session, lambda call: f"ran {call.name}", chat, tools=tools))
    assert reply.text == "That is all I found."
    assert len(chat.requests) == bound + 1
    results = [x for x in session.path if isinstance(x, e.MessageEntry) and isinstance(x.message, m.Result)]
    assert len(results) == bound


def test_C9_a_turn_ends_as_soon_as_the_model_answers() -> None:
    session = Session()
    session.append(m.user("look"))

    async def tool(call: m.Call) -> m.Result:
        return m.result(call.id, "a.py")

    chat = Scripted(say(m.call("c1", "ls"), m.call("c2", "ls")), "Found a.py.")
    assert (
        run(Engine(window()).turn(session, tool, chat, tools=[{"name": "ls", "input_schema": {}}])).text
        == "Found a.py."
    )
    assert [x.message.role for x in session.path] == ["user", "assistant", "tool", "tool", "assistant"]  # type: ignore[union-attr]


def test_a_system_prompt_in_the_log_is_never_folded() -> None:
    session = Session()
    session.append(m.system("You are a bot."))
    for number in range(45):
        session.append(m.assistant(str(number)) if number % 2 else m.user(str(number)))
    view = run(Engine(window(), model=Scripted("S")).prepare(session))
    assert view.items[0].message == m.system("You are a bot.")
    assert view.items[1].fold is not None


@pytest.mark.data
@pytest.mark.parametrize("name", ["large-session", "before-compaction"])
def test_ten_folds_in_a_row(name: str) -> None:
    source = Session.of(read(shared(f"pi/{name}.jsonl")))
    model, session, folds = summariser(), Session(), 0
    engine = Engine(window(), model=model)
    for entry in source.path:
        if not isinstance(entry, e.MessageEntry):
            continue
        session.append(entry.message)
        plan = engine.plan(session)
        if not isinstance(plan, Plan):
            continue
        before = [item.message for item in engine.view(session).items]
        fold = run(engine.apply(session, plan))
        assert isinstance(fold, e.Fold)
        folds += 1
        view = engine.view(session)
        assert orphans(view.items) == []
        check_wire(view)
        assert [item.message for item in view.items[-10:]] == before[-10:]
    assert folds >= 8
    for number, prompt in enumerate(prompts(model)[1:], 1):
        assert f"SUMMARY {number} " in prompt
