"""The rules of spec page `augment`, A1–A18 and A23."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.cli.show import sequence_numbers
from refold.compaction.exchanges import (
    SEGMENT,
    bounded,
    cut_exchange,
    first_segment,
    history_size,
    json_size,
    newest_first,
    segments,
)
from refold.compaction.plan import Failed, Plan, Reason, SummarySource
from refold.compaction.preset import Flaw
from refold.compaction.requests import load
from refold.engine.summarise import ByModel
from refold.errors import SettingError
from refold.facts import abridged
from refold.loop import run
from refold.memory import MemoryParams
from refold.models.scripted import Scripted, say, stall
from refold.presets import parameters
from refold.presets.parameters import UnknownParameter
from tests.presets.chains import check_wire, orphans, summariser
from tests.soon import a_while, until

PROMPT = load("augment_summary")
WORKED = {
    "trigger_on_history_size_chars": 50_000,
    "trigger_on_history_size_chars_when_cache_expiring": 30_000,
    "history_tail_size_chars_to_exclude": 5_000,
    "cache_ttl_ms": 300_000,
    "buffer_time_before_cache_expiration_ms": 30_000,
    "prompt": PROMPT,
}


def augment(**settings: Any) -> presets.Preset:
    return presets.get("augment", **{"prompt": PROMPT, **settings})


def chat(*sizes: int) -> Session:
    """One exchange of each size: half asked, half answered."""
    session = Session()
    for number, size in enumerate(sizes):
        session.append(m.user(letter(number) * (size // 2)))
        session.append(m.assistant(letter(number).upper() * (size - size // 2)))
    return session


def letter(number: int) -> str:
    return chr(ord("a") + number % 26)


def loop(steps: int, size: int = 400) -> Session:
    """One user turn of many model calls."""
    session = Session()
    session.append(m.user("Please rename the module."))
    for number in range(steps):
        session.append(m.assistant(f"Step {number}.", m.call(f"c{number}", "Read", path=f"src/f{number}.py")))
        session.append(m.result(f"c{number}", letter(number) * size))
    return session


def fold(engine: Engine, session: Session, **given: Any) -> e.Fold:
    plan = engine.plan(session, force=True, **given)
    assert isinstance(plan, Plan), plan
    made = run(engine.apply(session, plan))
    assert isinstance(made, e.Fold), made
    return made


# ── switches ────────────────────────────────────────────────────────────────────────────────────


def test_A1_parameters_are_one_json_object() -> None:
    settings = presets.get("augment", params=json.dumps(WORKED)).settings
    assert settings.trigger_on_history_size_chars == 50_000
    assert settings.min_tail_exchanges == 1
    nested = presets.get("augment", params='{"abridged_history_params": {"total_chars_limit": 7}}').settings
    assert nested.abridged_history_params == abridged.OutlineLimits(total_chars_limit=7)


def test_A1_unknown_keys_are_ignored_with_a_warning() -> None:
    with pytest.warns(UnknownParameter, match="colour"):
        preset = presets.get("augment", params='{"colour": "blue", "min_tail_exchanges": 4}')
    assert preset.settings.min_tail_exchanges == 4
    with pytest.warns(UnknownParameter, match=r"abridged_history_params\.depth"):
        presets.get("augment", params='{"abridged_history_params": {"depth": 1}}')


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("{", "params"),
        ("[1]", "params"),
        ('{"min_tail_exchanges": "four"}', "min_tail_exchanges"),
        ('{"prompt": 3}', "prompt"),
        ('{"history_tail_size_chars_to_exclude": -1}', "history_tail_size_chars_to_exclude"),
        (
            '{"abridged_history_params": {"total_chars_limit": "x"}}',
            "abridged_history_params.total_chars_limit",
        ),
        ('{"abridged_history_params": 3}', "abridged_history_params"),
        ('{"history_summary_min_version": "1", "history_summary_params": "{"}', "history_summary_params"),
        ('{"memories_params": {"max_lines": "x"}}', "memories_params.max_lines"),
    ],
)
def test_A1_errors_name_the_key(text: str, key: str) -> None:
    with pytest.raises(SettingError) as raised:
        presets.get("augment", params=text)
    assert raised.value.key == key


def test_A1_inside_a_feature_flag_object() -> None:
    flags = {
        "history_summary_min_version": "0.500.0",
        "history_summary_params": json.dumps(WORKED),
        "memories_params": {"compression_target": 60},
    }
    settings = presets.get("augment", params=json.dumps(flags)).settings
    assert settings.trigger_on_history_size_chars == 50_000
    assert (settings.history_summary_min_version, settings.off) == ("0.500.0", "")
    assert settings.memories_params == MemoryParams(compression_target=60)
    beside = presets.get(
        "augment", params=json.dumps({**WORKED, "memories_params": '{"max_lines": 80}'})
    ).settings
    assert (beside.off, beside.memories_params) == ("", MemoryParams(max_lines=80))
    without = presets.get("augment", params=json.dumps({"history_summary_params": json.dumps(WORKED)}))
    assert "min_version" in without.settings.off


def test_A1_A24_null_is_the_default_and_a_whole_model_listing_is_read(
    recwarn: pytest.WarningsRecorder,
) -> None:
    nulls = {**WORKED, "cache_ttl_ms": None, "abridged_history_params": {"total_chars_limit": None}}
    settings = presets.get("augment", params=json.dumps(nulls)).settings
    assert (settings.cache_ttl_ms, settings.abridged_history_params) == (0, abridged.OutlineLimits())
    assert settings.trigger_on_history_size_chars == 50_000
    flags = {
        "history_summary_min_version": "0.500.0",
        "history_summary_params": json.dumps(WORKED),
        "memories_params": json.dumps({"max_lines": 80, "compression_target": None}),
        "another_feature": True,
    }
    listing = json.dumps({"default_model": "m", "models": [], "feature_flags": flags})
    settings = presets.get("augment", params=listing).settings
    assert (settings.off, settings.trigger_on_history_size_chars) == ("", 50_000)
    assert settings.memories_params == parameters.memory_params(listing) == MemoryParams(max_lines=80)
    assert presets.get("augment", params='{"feature_flags": {}}').settings.off
    assert not recwarn.list


def test_A1_parameters_may_be_swapped_at_run_time() -> None:
    session = chat(6000, 6000)
    engine = Engine(augment(trigger_on_history_size_chars=50_000), model=summariser())
    assert not engine.plan(session)
    engine.preset = augment(trigger_on_history_size_chars=10_000)
    assert engine.plan(session)
    run(engine.prepare(session))
    assert engine.view(session).items[0].fold
    engine.preset = augment(summary_version=4)
    assert engine.view(session).items[0].fold is None


def test_A1_a_setting_given_by_itself_wins_over_the_object() -> None:
    preset = presets.get(
        "augment", params='{"min_tail_exchanges": 4, "cache_ttl_ms": 5}', min_tail_exchanges=2
    )
    assert (preset.settings.min_tail_exchanges, preset.settings.cache_ttl_ms) == (2, 5)
    default = presets.get("augment", params='{"min_tail_exchanges": 4}', min_tail_exchanges=1)
    assert default.settings.min_tail_exchanges == 1, "its default, but given"
    made = presets.Augment(
        params='{"min_tail_exchanges": 4, "cache_ttl_ms": 5}', min_tail_exchanges=2
    ).build()
    assert (made.settings.min_tail_exchanges, made.settings.cache_ttl_ms) == (2, 5)
    assert made.resized(9_000).settings.min_tail_exchanges == 2
    assert (
        presets.make("augment", {"params": '{"cache_ttl_ms": 4}', "cache_ttl_ms": "0"}).settings.cache_ttl_ms
        == 0
    )


def test_A2_defaults() -> None:
    s = presets.get("augment").settings
    assert (s.trigger_on_history_size_chars, s.trigger_on_history_size_chars_when_cache_expiring) == (0, 0)
    assert (s.history_tail_size_chars_to_exclude, s.prompt, s.cache_ttl_ms) == (0, "", 0)
    assert (s.buffer_time_before_cache_expiration_ms, s.min_tail_exchanges, s.summary_version) == (0, 1, 3)
    assert s.summary_node_response_message == "Ok. I will continue the conversation from this point."
    a = s.abridged_history_params
    assert (a.total_chars_limit, a.user_message_chars_limit, a.agent_response_chars_limit) == (
        10_000,
        1_000,
        2_000,
    )
    counts = ("files_modified", "files_created", "files_deleted", "files_viewed", "terminal_commands")
    assert a.action_chars_limit == 200
    assert {getattr(a, f"num_{name}_limit") for name in counts} == {10}
    assert not s.carry_previous_summary


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"history_summary_min_version": ""}, "min_version"),
        ({"bot_type": 1}, "bot_type"),
        ({"bot_type": "CODE_REVIEW_EVAL_BOT"}, "bot_type"),
        ({"prompt": " "}, "prompt"),
        ({"trigger_on_history_size_chars": 0}, "trigger_on_history_size_chars"),
    ],
)
def test_A3_off_and_why(settings: dict[str, Any], why: str) -> None:
    engine = Engine(augment(**{"trigger_on_history_size_chars": 10, **settings}), model=Scripted())
    reason = engine.plan(chat(600, 600))
    assert isinstance(reason, Reason)
    assert reason.code == "off"
    assert why in reason.text


def test_A3_the_threshold_of_the_trigger_at_hand_counts() -> None:
    engine = Engine(augment(trigger_on_history_size_chars=10), model=Scripted())
    assert engine.plan(chat(600, 600))
    reason = engine.plan(chat(600, 600), cache_expiring=True)
    assert isinstance(reason, Reason)
    assert "when_cache_expiring" in reason.text


def test_A3_switched_off_it_does_not_fold_even_on_request() -> None:
    assert not Engine(augment(bot_type="CODE_REVIEW_BOT")).plan(chat(600, 600), force=True)
    assert Engine(augment(prompt="")).plan(chat(600, 600), force=True)  # asked by hand: the shipped prompt


def test_A4_a_template_without_summary_is_refused_with_a_logged_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        preset = augment(summary_node_request_message_template="only {abridged_history}")
    assert [r.levelname for r in caplog.records] == ["ERROR"]
    assert "{summary}" in caplog.text
    session = chat(600, 600)
    fold(Engine(preset, model=Scripted("THE SUMMARY")), session)
    text = Engine(preset).view(session).items[0].message.text
    assert "THE SUMMARY" in text
    assert text.startswith("<supervisor>")


# ── triggers ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("trigger", "due"), [(1200, True), (1201, False)])
def test_A5_total_size_at_least_the_threshold(trigger: int, due: bool) -> None:
    assert bool(Engine(augment(trigger_on_history_size_chars=trigger)).plan(chat(600, 600))) is due


def test_A5_checked_before_every_iteration_of_the_loop() -> None:
    session, model = loop(3), summariser()
    engine = Engine(augment(trigger_on_history_size_chars=1600), model=model)
    run(engine.prepare(session))
    assert not model.requests
    for number in (3, 4):
        session.append(m.assistant("More.", m.call(f"c{number}", "Read", path="b.py")))
        session.append(m.result(f"c{number}", "z" * 400))
    run(engine.prepare(session))
    assert len(model.requests) == 1


def test_A5_size_counts_texts_results_tool_names_and_compact_arguments() -> None:
    session = Session()
    session.append(m.user("12345"))
    session.append(m.assistant([m.thinking("not said"), "ab"], m.call("c", "Read", path="x")))
    session.append(m.result("c", "789"))
    session.append(m.assistant("z"))
    session.append(m.user("not answered yet"))
    s = Engine(augment()).planner.context(session)
    assert [x.size for x in newest_first(s)] == [4, 5 + 2 + 4 + len('{"path":"x"}')]
    assert history_size(s) == 4 + 23


@pytest.mark.parametrize(
    ("ttl", "buffer", "age", "delay"),
    [
        (300_000, 30_000, 0, 270),
        (300_000, 30_000, 200, 70),
        (300_000, 30_000, 270, None),
        (300_000, 60_000, 239.999, 0.001),
        (0, 0, 0, None),
    ],
)
def test_A6_the_timer_fires_ahead_of_the_expiry(
    ttl: int, buffer: int, age: float, delay: float | None
) -> None:
    settings = presets.Augment(cache_ttl_ms=ttl, buffer_time_before_cache_expiration_ms=buffer)
    assert settings.cache_delay(age) == delay


def test_A6_the_timer_of_the_worked_example() -> None:
    assert augment(**WORKED).cache_delay(0) == 270
    assert augment(**WORKED).cache_delay(270) is None


def test_A6_the_lower_threshold_applies_when_the_cache_is_about_to_expire() -> None:
    engine = Engine(augment(**WORKED))
    session = chat(*[4000] * 8)
    assert not engine.plan(session)
    plan = engine.plan(session, cache_expiring=True)
    assert isinstance(plan, Plan)
    assert plan.reason.code == "cache_expiring"


async def timed(session: Session, *, ask_again: bool) -> tuple[list[float], int]:
    """A reply, then time that passes as told; how long the timer waits, and how many folds there were."""
    waits: list[float] = []
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await over.wait()

    engine = Engine(augment(**WORKED), model=summariser(), clock=lambda: session.clock())
    watch = engine.watch(session)
    watch._sleep = sleep
    async with watch:
        engine.observe(session, m.assistant("done"))
        await asyncio.sleep(0)
        if ask_again:
            session.append(m.user("next"))
            await engine.prepare(session)
        over.set()
        await a_while()
    return waits, len(session.annotations(e.Fold))


@pytest.mark.parametrize(("ask_again", "folds"), [(False, 1), (True, 0)])
def test_A6_the_timer_is_armed_by_a_reply_and_cancelled_by_the_next_request(
    ask_again: bool, folds: int
) -> None:
    source = chat(*[4000] * 8)
    session = Session(source.entries, clock=lambda: 1000.0)
    session.append(m.user("one more thing"))
    waits, made = run(timed(session, ask_again=ask_again))
    assert waits == [270]
    assert made == folds


# ── split ───────────────────────────────────────────────────────────────────────────────────────


SIZES = (1200, 1200, 1300, 1300, 1300, 1300, 800, 800, 800, 800)


def test_A7_worked_example_head_seven_tail_three() -> None:
    session = chat(*SIZES)
    assert sum(SIZES) == 10_800
    engine = Engine(augment(trigger_on_history_size_chars=10_000, history_tail_size_chars_to_exclude=3000))
    plan = engine.plan(session)
    assert isinstance(plan, Plan)
    assert plan.fold == tuple(x.id for x in session.path[:14])
    assert plan.first_kept == session.path[14].id


def test_A7_below_the_threshold_nothing_is_summarised() -> None:
    engine = Engine(augment(trigger_on_history_size_chars=10_801, history_tail_size_chars_to_exclude=3000))
    assert not engine.plan(chat(*SIZES))


@pytest.mark.parametrize(("tail", "kept"), [(0, 1), (800, 1), (1600, 1), (1601, 2), (2401, 3), (100_000, 10)])
def test_A7_strictly_smaller_than_the_tail_and_one_anyway(tail: int, kept: int) -> None:
    plan = Engine(augment(history_tail_size_chars_to_exclude=tail)).plan(chat(*SIZES), force=True)
    assert (len(plan.fold) if isinstance(plan, Plan) else 0) == 2 * (10 - kept)


def test_A7_min_tail_exchanges_stay_whatever_their_size() -> None:
    plan = Engine(augment(min_tail_exchanges=4)).plan(chat(*SIZES), force=True)
    assert isinstance(plan, Plan)
    assert len(plan.fold) == 12


def source(text: str) -> tuple[SummarySource, ...]:
    return (SummarySource("x", m.user(text)),)


def exchange_of(size: int) -> tuple[SummarySource, ...]:
    """An exchange of so many characters of JSON."""
    return source("x" * (size - json_size(source(""))))


def test_A8_worked_example_five_segments_from_the_second() -> None:
    head = [exchange_of(24_000) for _ in range(50)]  # 1.2 MB
    parts = segments([json_size(x) for x in head], SEGMENT)
    assert [len(part) for part in parts] == [11, 11, 11, 11, 6]
    assert len(bounded(head)) == 50 - 22


@pytest.mark.parametrize(("count", "first"), [(1, 0), (3, 0), (4, 2), (5, 2), (6, 4), (7, 4), (8, 6)])
def test_A8_which_segment_is_the_first(count: int, first: int) -> None:
    assert first_segment(count) == first


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 250))
def test_A8_segments_are_complete_in_order_and_never_empty(sizes: list[int], limit: int) -> None:
    parts = segments(sizes, limit)
    assert [i for part in parts for i in part] == list(range(len(sizes)))
    assert all(parts)
    assert all(len(part) == 1 or sum(sizes[i] for i in part) <= limit for part in parts)


@pytest.mark.parametrize("text", ["x" * 400_000, '"\n' * 200_000, "汉😀" * 150_000])
def test_A8_a_single_larger_exchange_is_cut_in_the_middle(text: str) -> None:
    big = (SummarySource("a", m.user("START" + text + "END")), SummarySource("b", m.assistant("short")))
    cut = cut_exchange(big, SEGMENT)
    assert json_size(cut) <= SEGMENT
    assert cut[0].message.text.startswith("[User]: START")
    assert cut[0].message.text.endswith("END")
    assert cut[1] == big[1]
    assert json_size(cut) > SEGMENT // 20


def test_A8_what_is_sent_is_bounded_what_is_folded_is_not() -> None:
    session, model = chat(*[3000] * 10), summariser()
    engine = Engine(augment(head_segment_chars=7000), model=model)
    made = fold(engine, session)
    sent = model.requests[0].messages[:-1]
    assert len(sent) == 10  # nine exchanges in five segments: the last three of these
    assert sent[0].text == "e" * 1500
    assert session.position(made.edits[0].first) == 0


def batch(count: int, text: str = "x" * 60) -> list[m.Message]:
    calls = [m.call(f"call_{i:020}", "Read", path=f"src/{i}.py") for i in range(count)]
    return [m.assistant("look", *calls), *(m.result(call.id, text) for call in calls), m.assistant("seen")]


SIGNED = m.Assistant((m.Thinking("t" * 400_000, signature="s"), m.Text("done")))
MANY_KEYS = m.assistant("", m.call("c", "Edit", **{f"k{i}": i for i in range(60_000)}))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "messages",
    [
        [*batch(2_000)],
        [m.user("x"), SIGNED],
        [m.user("x"), m.Assistant((m.Thinking("", data="d" * 400_000),))],
        [m.user("x"), MANY_KEYS],
        [m.User(tuple(m.Text("y" * 60) for _ in range(6_000))), m.assistant("ok")],
    ],
    ids=["2000 results", "signed", "redacted", "arguments", "parts"],
)
@pytest.mark.parametrize("limit", [3_000, SEGMENT])
def test_A8_whatever_an_exchange_holds_it_is_cut_to_the_bound(messages: list[m.Message], limit: int) -> None:
    exchange = tuple(SummarySource(f"e{i}", message) for i, message in enumerate(messages))
    cut = cut_exchange(exchange, limit)
    assert json_size(cut) <= limit
    assert (cut[0].id, cut[-1].id) == (exchange[0].id, exchange[-1].id)


@pytest.mark.sample(1)
@pytest.mark.parametrize("limit", [3_000, 60_000, SEGMENT])
def test_A8_calls_and_results_are_cut_together(limit: int) -> None:
    session, model = Session(), summariser()
    for message in (m.user("go"), *batch(2_000), m.user("next"), m.assistant("fine")):
        session.append(message)
    fold(Engine(augment(head_segment_chars=limit), model=model), session)
    sent = model.requests[0].messages[:-1]
    calls = [call.id for message in sent for call in message.calls]
    results = [message.call_id for message in sent if isinstance(message, m.Result)]
    assert calls == results
    assert sum(len(m.compact_json(message)) for message in sent) <= 3 * limit
    assert "no result was recorded" not in m.compact_json(list(sent))


# ── the summary node ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("first", "last", "numbers"), [(0, 3, [3.5, 4.0, 5.0]), (2, 5, [0.0, 1.0, 6.0])])
def test_A9_the_mean_of_the_neighbours_at_the_end_the_number_of_entries(
    first: int, last: int, numbers: list[float]
) -> None:
    session = chat(10, 10, 10)
    ids = [entry.id for entry in session.path]
    edit = e.Edit(ids[first], ids[last], (m.user("a summary"),))
    session.append(session.make(e.Fold, edits=(edit,), preset="mine", summary="a summary"))
    assert sequence_numbers(session, Engine().view(session).items) == numbers


def test_A9_the_node_stands_directly_after_the_last_head_exchange_and_no_entry_is_renumbered() -> None:
    session = chat(*SIZES)
    before = [x.id for x in session.path]
    made = fold(Engine(augment(history_tail_size_chars_to_exclude=3000), model=Scripted("S")), session)
    items = Engine(augment()).view(session).items
    assert sequence_numbers(session, items) == [13.5, 13.5, *range(14, 20)]
    assert [item.fold for item in items[:2]] == [made.id, made.id]
    assert items[2].entries == (before[14],)


def test_A9_keys_are_those_of_the_view_after_undo_and_a_second_fold() -> None:
    session = chat(*SIZES)
    engine = Engine(augment(history_tail_size_chars_to_exclude=3000), model=summariser())
    fold(engine, session)
    engine.undo(session)
    assert sequence_numbers(session, engine.view(session).items) == list(range(20))
    fold(engine, session)
    for text in ("x" * 900, "y" * 900):
        session.append(m.user(text))
        session.append(m.assistant(text))
    fold(engine, session)
    items = engine.view(session).items
    keys = sequence_numbers(session, items)
    assert keys == sorted(keys)
    assert keys[:3] == [21.5, 21.5, 22], "folds and undoings have no number of their own"


def test_A10_request_frame_and_acknowledgement() -> None:
    session = chat(*SIZES)
    fold(Engine(augment(history_tail_size_chars_to_exclude=3000), model=Scripted("MY SUMMARY")), session)
    request, response = (item.message for item in Engine(augment()).view(session).items[:2])
    assert isinstance(request, m.User)
    assert request.text.startswith("<supervisor>")
    assert request.text.endswith("</supervisor>")
    for wanted in ("MY SUMMARY", "abridged", '"I" is you, the agent', "Carry on with the task", "<user>"):
        assert wanted in request.text
    assert response == m.assistant("Ok. I will continue the conversation from this point.")


def test_A10_slots_are_filled_in_one_pass_and_frames_cannot_be_closed_from_inside() -> None:
    session = chat(600, 600)
    template = "<supervisor>{summary}|{abridged_history}|{other}</supervisor>"
    engine = Engine(
        augment(summary_node_request_message_template=template),
        model=Scripted("{abridged_history} </supervisor>"),
    )
    fold(engine, session)
    text = engine.view(session).items[0].message.text
    assert text.startswith("<supervisor>{abridged_history} ‹/supervisor>|<user>")
    assert text.endswith("|{other}</supervisor>")


def test_A10_the_node_makes_the_calls_again_whose_results_begin_the_tail() -> None:
    session = loop(6)
    session.append(m.assistant("Done."))
    engine = Engine(augment(history_tail_size_chars_to_exclude=1000), model=Scripted("S"))
    made = fold(engine, session)
    view = engine.view(session)
    first = session[made.first_kept or ""]
    assert isinstance(first, e.MessageEntry)
    assert isinstance(first.message, m.Result)
    response = view.items[1].message
    assert [call.id for call in response.calls] == [first.message.call_id]
    assert orphans(view.items) == []
    check_wire(view)


def test_A10_no_calls_where_the_conversation_went_on_without_results() -> None:
    session = chat(600)
    session.append(m.user("try"))
    session.append(m.assistant("", m.call("c", "Bash", command="sleep 999")))
    session.append(m.user("stop that"))
    session.append(m.assistant("Stopped."))
    engine = Engine(augment(), model=Scripted("S"))
    fold(engine, session)
    assert engine.view(session).items[1].message.calls == ()
    check_wire(engine.view(session))


def test_A11_only_the_newest_node_of_the_current_version_counts() -> None:
    session = chat(600, 600, 600)
    three = Engine(augment(), model=Scripted("OLD", "NEW"))
    old = fold(three, session)
    assert (old.version, old.details["is_history_summary"]) == ("3", True)
    four = Engine(augment(summary_version=4), model=Scripted("FOUR"))
    assert [item.fold for item in four.view(session).items] == [None] * 6  # its exchanges come back
    made = fold(four, session)
    assert made.version == "4"
    assert {item.fold for item in four.view(session).items if item.fold} == {made.id}
    assert {item.fold for item in three.view(session).items if item.fold} == {old.id}


def test_A11_with_summarisation_off_every_summary_is_dropped() -> None:
    session = chat(600, 600, 600)
    run(Engine(augment(trigger_on_history_size_chars=10), model=summariser()).prepare(session))
    assert len(session.annotations(e.Fold)) == 1
    for off in ({"bot_type": 2}, {"history_summary_min_version": ""}):
        assert len(Engine(augment(**off)).view(session)) == 6
    assert len(Engine(augment()).view(session)) == 4


def test_A11_A24_a_blank_prompt_makes_no_new_node_and_keeps_those_that_are_there() -> None:
    session, model = chat(600, 600, 600), summariser()
    run(Engine(augment(trigger_on_history_size_chars=10), model=model).prepare(session))
    blank = Engine(augment(trigger_on_history_size_chars=10, prompt=" "), model=model)
    assert [item.fold is None for item in blank.view(session).items] == [False, False, True, True]
    run(blank.prepare(session))
    assert (len(model.requests), len(session.annotations(e.Fold))) == (1, 1)


def twice(**settings: Any) -> tuple[Session, Scripted, Engine]:
    session, model = chat(600, 600, 600), Scripted("FIRST NOTES", "SECOND NOTES")
    engine = Engine(augment(**settings), model=model)
    fold(engine, session)
    for number in range(3, 6):
        session.append(m.user(f"question {number} " + "q" * 300))
        session.append(m.assistant(f"answer {number}"))
    fold(engine, session)
    return session, model, engine


def test_A12_replace_do_not_nest() -> None:
    _, model, engine = twice()
    assert all("FIRST NOTES" not in message.text for message in model.requests[1].messages)
    text = engine.view(_).items[0].message.text
    assert "FIRST NOTES" not in text
    assert "SECOND NOTES" in text
    assert "aaa" in text  # what the first summary covered lives on in the abridged history


def test_A12_carry_previous_summary_turns_nesting_on() -> None:
    _, model, _engine = twice(carry_previous_summary=True)
    assert "FIRST NOTES" in model.requests[1].messages[-1].text


# ── abridged history ────────────────────────────────────────────────────────────────────────────


def groups(*messages: m.Message, continues: bool = True) -> tuple[abridged.Group, ...]:
    return abridged.groups(((f"e{i}", x) for i, x in enumerate(messages)), continues=continues)


def worked() -> list[m.Message]:
    return [
        m.user("Fix the bug"),
        m.assistant("", m.call("1", "Read", path="src/a.py"), m.call("2", "Edit", path="src/a.py", old_string="x", new_string="y")),
        m.result("1", "text"),
        m.result("2", "ok"),
        m.assistant("", m.call("3", "Bash", command="pytest -q")),
        m.result("3", "1 passed"),
        m.assistant("Fixed."),
        m.user("Now the docs"),
        m.assistant("", m.call("4", "Write", path="docs/new.md", content="# hi")),
        m.result("4", "written"),
    ]  # fmt: skip


def test_A13_one_group_per_user_message_as_blocks() -> None:
    found = groups(*worked())
    assert [g.user for g in found] == ["Fix the bug", "Now the docs"]
    text = abridged.xml(found)
    assert text == "\n".join(
        [
            "<user>", "Fix the bug", "</user>",
            "<agent_actions>", "<files_modified>", "src/a.py", "</files_modified>",
            "<files_viewed>", "src/a.py", "</files_viewed>",
            "<terminal_commands>", "pytest -q", "</terminal_commands>", "</agent_actions>",
            "<agent_response>", "Fixed.", "</agent_response>",
            "<user>", "Now the docs", "</user>",
            "<agent_actions>", "<files_created>", "docs/new.md", "</files_created>", "</agent_actions>",
            "<agent_continues/>",
        ]
    )  # fmt: skip


def test_A13_interrupted_or_still_at_work() -> None:
    assert groups(*worked(), continues=False)[-1].state == "agent_was_interrupted"
    assert (
        groups(m.user("a"), m.assistant("", m.call("1", "LS", path=".")), m.user("b"))[0].state
        == "agent_was_interrupted"
    )


def test_A13_an_aborted_reply_is_shown_as_interrupted() -> None:
    session = chat(600, 600, 600)
    session.append(m.user("Rename it."))
    session.append(m.assistant("I will ren", stop="aborted"))
    for message in (m.user("Go on."), m.assistant("Done. " * 100)):
        session.append(message)
    engine = Engine(augment(), model=Scripted("S"))
    fold(engine, session)
    text = engine.view(session).items[0].message.text
    assert "Rename it.\n</user>\n<agent_was_interrupted/>" in text.replace("\n\n", "\n")
    assert "I will ren" not in text


def test_A14_the_whole_log_before_the_tail_is_abridged_whatever_earlier_summaries_hide() -> None:
    session, _, engine = twice()
    text = engine.view(session).items[0].message.text
    assert text.count("<user>") == 5
    assert "supervisor" not in text.removeprefix("<supervisor>").removesuffix("</supervisor>")


def test_A14_newest_groups_up_to_the_limit_in_order() -> None:
    said = [(m.user(f"ask {i} " + "x" * 86), m.assistant("yes")) for i in range(9)]
    found = groups(*(message for pair in said for message in pair))
    sizes = {len(abridged.block(g, abridged.OutlineLimits())) for g in found}
    assert len(sizes) == 1
    size = sizes.pop()
    text = abridged.xml(found, abridged.OutlineLimits(total_chars_limit=3 * size))
    assert [line[:5] for line in text.split("\n") if line.startswith("ask")] == ["ask 6", "ask 7", "ask 8"]
    assert "ask 6" not in abridged.xml(found, abridged.OutlineLimits(total_chars_limit=3 * size - 1))


def test_A14_a_newest_group_that_is_too_large_is_cut_not_dropped() -> None:
    text = abridged.xml(
        groups(m.user("old"), m.user("B" * 900)), abridged.OutlineLimits(total_chars_limit=200)
    )
    assert len(text) == 200
    assert text.startswith("<user>\nBBB")


def test_A15_texts_are_cut_in_the_middle_and_the_marker_counts() -> None:
    limits = abridged.OutlineLimits(user_message_chars_limit=100, agent_response_chars_limit=80)
    text = abridged.xml(groups(m.user("A" * 500 + "Z" * 500), m.assistant("b" * 900)), limits)
    asked, answered = text.split("\n")[1], text.split("\n")[4]
    assert len(asked) <= 100
    assert asked[0] + asked[-1] == "AZ"
    assert len(answered) <= 80


def test_A15_lists_are_deduplicated_then_cut_newest_kept() -> None:
    calls = [m.call(str(i), "Read", path=f"f{i % 12}.py") for i in range(24)]
    results = [m.result(str(i), "x") for i in range(24)]
    [group] = groups(m.user("look"), m.assistant("", *calls), *results)
    assert group.viewed == tuple(f"f{i}.py" for i in range(12))
    shown = abridged.xml([group]).split("<files_viewed>\n")[1].split("\n</files_viewed>")[0].split("\n")
    assert shown == [f"f{i}.py" for i in range(2, 12)]


def test_A16_a_table_says_what_a_tool_does_and_can_be_extended() -> None:
    made = [
        m.call("1", "read_file", file_path="seen.py"),
        m.call("2", "str_replace_editor", command="str_replace", path="changed.py"),
        m.call("3", "create_file", path="made.py"),
        m.call("4", "remove_file", path="gone.py"),
        m.call("5", "shell", command=["bash", "-lc", "make test"]),
        m.call("6", "frobnicate", path="x.py"),
    ]
    done: list[m.Message] = [m.user("go"), m.assistant("", *made), *(m.result(c.id, "ok") for c in made)]
    [group] = groups(*done)
    assert (group.viewed, group.modified, group.created, group.deleted) == (
        ("seen.py",), ("changed.py",), ("made.py",), ("gone.py",),
    )  # fmt: skip
    assert group.commands == ("make test",)
    [more] = abridged.groups(((str(i), x) for i, x in enumerate(done)), names={"frobnicate": "edit"})
    assert more.modified == ("changed.py", "x.py")


def test_A16_the_preset_extends_the_table() -> None:
    session = Session()
    session.append(m.user("Please frobnicate x.py until the tests of the login pass."))
    session.append(m.assistant("", m.call("1", "Frobnicate_File", path="x.py")))
    session.append(m.result("1", "ok, line by line " * 20))
    session.append(m.assistant("done"))
    session.append(m.user("next"))
    session.append(m.assistant("so"))
    made = fold(Engine(presets.get("augment", tool_kinds={"frobnicate_file": "edit"})), session)
    assert "<files_modified>\nx.py\n</files_modified>" in made.edits[0].put[0].text
    with pytest.raises(SettingError) as raised:
        presets.get("augment", tool_kinds={"frobnicate": "explode"})
    assert raised.value.key == "tool_kinds"


# ── the model call ──────────────────────────────────────────────────────────────────────────────

TOOLS = [
    {"type": "function", "function": {"name": "Read", "description": "d", "parameters": {"type": "object"}}}
]


def test_A17_in_the_agents_own_mode_and_silent() -> None:
    session, model = chat(600, 600), Scripted("<summary>\nJust this.\n</summary>")
    said = [x.id for x in session.path]
    made = fold(Engine(augment(), model=model), session, system="You are an agent.", tools=TOOLS)
    request = model.requests[0]
    assert request.system == "You are an agent."
    assert [tool.name for tool in request.tools] == ["Read"]
    assert request.messages[:2] == tuple(x.message for x in session.path[:2] if isinstance(x, e.MessageEntry))
    assert request.stable == 2  # the provider has this in its cache
    assert request.messages[-1].text == PROMPT
    assert made.summary == "Just this."
    assert [x.id for x in session.path if isinstance(x, e.MessageEntry)] == said


@pytest.mark.parametrize(
    "answer", ["", "<summary> </summary>", m.assistant("", m.call("c", "Read", path="a"))]
)
def test_A17_an_empty_reply_or_a_call_is_a_failure(answer: Any) -> None:
    session = chat(600, 600)
    engine = Engine(augment(), model=Scripted(*[answer] * 7))
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    assert isinstance(run(engine.apply(session, plan)), Failed)
    assert len(engine.view(session)) == 4


def test_A24_the_summariser_may_call_what_reads_five_times_before_it_answers() -> None:
    def calling(count: int, name: str = "Read") -> list[Any]:
        return [say(m.call(f"x{n}", name, path="a.py")) for n in range(count)]

    async def read(call: m.Call) -> m.Result | None:
        return m.result(call.id, "def a(): ...") if call.name == "Read" else None

    for script, told, works in (
        (calling(5), "def a(): ...", True),
        (calling(1, "Write"), "Write the summary", True),
        (calling(6), "def a(): ...", False),
    ):
        model = Scripted(*script, "It is about a().")
        engine, session = Engine(augment(), model=model), chat(600, 600)
        assert isinstance(engine.summariser, ByModel)
        engine.summariser.run_tool = read
        plan = engine.plan(session, force=True, tools=TOOLS)
        made = run(engine.apply(session, plan))  # type: ignore[arg-type]
        assert (getattr(made, "summary", "") == "It is about a().") is works
        assert told in model.requests[1].messages[-1].text
        assert all(isinstance(x, m.User | m.Assistant) for x in engine.view(session).messages)


def test_A17_every_call_in_the_request_has_its_result_also_on_the_second_fold() -> None:
    session, model = loop(8), summariser()
    engine = Engine(augment(history_tail_size_chars_to_exclude=1_000), model=model)
    fold(engine, session)
    for number in range(8, 12):
        session.append(m.assistant("", m.call(f"c{number}", "Read", path="x.py")))
        session.append(m.result(f"c{number}", "y" * 400))
    fold(engine, session)
    for request in model.requests:
        results = [x for x in request.messages if isinstance(x, m.Result)]
        made = [call.id for x in request.messages for call in x.calls]
        assert made == [x.call_id for x in results]
        assert "follows" in results[-1].text
    first = model.requests[1].messages[0]
    assert first.calls
    assert not first.text, "the old node's words are no input of the new summary"


def test_A17_abortable() -> None:
    async def aborted(session: Session, model: Scripted) -> None:
        engine = Engine(augment(trigger_on_history_size_chars=10), model=model)
        task = asyncio.ensure_future(engine.prepare(session))
        await until(lambda: model.open)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    session, model = chat(600, 600), Scripted(stall("half a"))
    before = len(session.path)
    run(aborted(session, model))
    assert (model.open, len(session.path)) == (0, before)


def test_A18_the_shipped_prompt() -> None:
    for wanted in ("first person", "User requirements", "Actions", "Key decisions", "Pending tasks", "*why*",
                   "500 to 1000 words", "recent and the important first", "<summary>"):  # fmt: skip
        assert wanted in PROMPT


# ── checked before use ──────────────────────────────────────────────────────────────────────────


def items(**settings: Any) -> list[Flaw]:
    return augment(**settings).settings.problems()


def test_A23_the_worked_configuration_with_the_shipped_prompt_is_right() -> None:
    assert items(**WORKED) == []


@pytest.mark.parametrize(
    ("settings", "key", "said"),
    [
        ({"prompt": " "}, "prompt", "blank"),
        ({"prompt": PROMPT.replace("<summary>", "summary")}, "prompt", "<summary>"),
        ({"prompt": PROMPT.replace("first person", "style").replace('"I"', "it")}, "prompt", '"I"'),
        ({"prompt": 'Write in the first person, in <summary> tags.'}, "prompt", "sections"),
        ({"trigger_on_history_size_chars": 0}, "trigger_on_history_size_chars", "0"),
        ({"history_tail_size_chars_to_exclude": 50_000, "trigger_on_history_size_chars_when_cache_expiring": 0}, "history_tail_size_chars_to_exclude", "nothing left"),
        ({"buffer_time_before_cache_expiration_ms": 300_000}, "buffer_time_before_cache_expiration_ms", "never armed"),
        ({"memories_params": {"compression_prompt": " "}}, "memories_params", "blank"),
        ({"memories_params": {"compression_target": 200, "max_lines": 500}}, "memories_params", "50 to 100"),
        ({"memories_params": {"num_recent_memories_to_keep": 3}}, "memories_params", "10 to 20"),
        ({"trigger_on_history_size_chars_when_cache_expiring": 4_000}, "history_tail_size_chars_to_exclude", "ahead of cache expiry 4000"),
        ({"trigger_on_history_size_chars_when_cache_expiring": 20_000}, "abridged_history_params", "again after every exchange"),
        ({"prompt": "Write as \"I\". In <summary> tags, say what was done, in version 2. of it."}, "prompt", "names no sections"),
        ({"history_summary_min_version": ""}, "history_summary_min_version", "off"),
    ],
)  # fmt: skip
def test_A23_item_by_item(settings: dict[str, Any], key: str, said: str) -> None:
    [item] = items(**{**WORKED, **settings})
    assert item.key == key
    assert said in item.text


def test_A23_sections_may_be_numbered_in_a_sentence() -> None:
    prompt = (
        "Summarize: 1) what the user wants, 2) what I did ('I' is you), 3) what is open. Use <summary> tags."
    )
    assert items(**{**WORKED, "prompt": prompt}) == []


def test_A23_a_node_that_stays_above_the_trigger_is_said_to() -> None:
    own = {"trigger_on_history_size_chars": 10_000, "history_tail_size_chars_to_exclude": 3_000}
    flaws = items(prompt=PROMPT, **own)
    assert [flaw.key for flaw in flaws] == ["abridged_history_params"]
    smaller = {"abridged_history_params": {"total_chars_limit": 2_000}, "summary_tokens": 1_000}
    assert items(prompt=PROMPT, **own, **smaller) == []


# ── weaknesses and chains ───────────────────────────────────────────────────────────────────────


def test_chunked_where_the_head_passes_the_summarisers_window() -> None:
    session = chat(*[20_000] * 8)
    model = Scripted(then=lambda r: f"about {len(r.messages)} messages", context_window=16_000)
    made = fold(Engine(augment(), model=model, summariser="same"), session)
    assert made.requests == len(model.requests) > 1


def test_ten_folds_in_a_row_inside_one_long_turn() -> None:
    session, model = loop(4), summariser()
    engine = Engine(augment(history_tail_size_chars_to_exclude=1200), model=model)
    for number in range(10):
        before = engine.view(session).items
        made = fold(engine, session)
        view = engine.view(session)
        assert orphans(view.items) == []
        check_wire(view)
        kept = next(i for i, item in enumerate(before) if item.entries == (made.first_kept,))
        assert [x.message for x in before[kept:]] == [x.message for x in view.items[2:]]
        for step in range(3):
            id = f"d{number}.{step}"
            session.append(m.assistant("", m.call(id, "Read", path=f"g{number}.py")))
            session.append(m.result(id, "y" * 500))
    assert len(session.annotations(e.Fold)) == 10
