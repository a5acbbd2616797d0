"""The rules of spec page `rounds`, D1–D5 and D7–D9."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import rounds as benchmark
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.details import RoundsLine
from refold.compaction.plan import Plan
from refold.compaction.plan_context import finished, round_at
from refold.compaction.requests import ACKNOWLEDGEMENT
from refold.compaction.strategies.turn_lines import (
    HEADER,
    WORKSPACE,
    line_text,
    lines_size,
    merging,
    shown_lines,
)
from refold.digest.turn_line import short
from refold.engine.maintenance import maintain
from refold.errors import ModelError, SettingError
from refold.loop import run
from refold.models.scripted import Scripted, fail, stall
from refold.protocols import TokenCounter
from refold.session import View
from tests.presets.chains import check_wire, orphans
from tests.strategies import examples

COUNTER = tokens.get()


def merge(
    lines: Sequence[RoundsLine],
    budget: int,
    size: Callable[[Sequence[RoundsLine]], int],
    counter: TokenCounter,
) -> list[RoundsLine]:
    def sized(some: Sequence[RoundsLine]) -> int:
        return size(some)

    return merging(lines, budget, sized, counter)


def rounds(**given: Any) -> presets.Preset:
    return presets.get("rounds", **given)


def turn(number: int, *, steps: int = 1, size: int = 300) -> list[m.Message]:
    """One round; `steps` tool messages in it."""
    said: list[m.Message] = [m.user(f"Please fix part {number}.")]
    for step in range(steps):
        id = f"c{number}.{step}"
        said += [m.assistant("", m.call(id, "Edit", path=f"src/p{number}.py")), m.result(id, "r" * size)]
    return [*said, m.assistant(f"Part {number} is fixed.")]


def follow(engine: Engine, count: int, session: Session | None = None, **shape: Any) -> Session:
    """A conversation, each round followed as it ends."""
    session = session if session is not None else Session()
    start = len(session.turns)
    for number in range(start + 1, start + count + 1):
        for message in turn(number, **shape):
            session.append(message)
        run(maintain(engine.planner, session))
    return session


def lines(view: View) -> list[str]:
    parts = (part for item in view.items if item.fold for part in item.message.parts)
    texts = [part.text.removeprefix(HEADER + "\n") for part in parts if isinstance(part, m.Text)]
    return [text for text in texts if text.startswith("[Turn")]


def said(view: View) -> list[m.Message]:
    return [item.message for item in view.items if item.fold is None]


# ── lines ───────────────────────────────────────────────────────────────────────────────────────


def test_D1_one_line_is_stored_after_every_finished_turn() -> None:
    engine = Engine(rounds())
    session = follow(engine, 2)
    assert [(x.turn, x.text) for x in session.annotations(e.TurnLine)] == [
        (1, "Please fix part 1 → p1.py"),
        (2, "Please fix part 2 → p2.py"),
    ]
    session.append(m.user("Please fix part 3."))
    run(maintain(engine.planner, session))
    assert len(session.annotations(e.TurnLine)) == 2  # not finished yet
    session.append(m.assistant("Which one?"))
    run(maintain(engine.planner, session))
    run(maintain(engine.planner, session))
    assert [x.turn for x in session.annotations(e.TurnLine)] == [1, 2, 3]
    ends = session.position(session.annotations(e.TurnLine)[0].target or "")
    assert ends == session.turns[1] - 1


def test_D1_a_line_is_an_annotation_and_moves_nothing() -> None:
    engine = Engine(rounds(recent_conversation_rounds=5))
    session = follow(engine, 2)
    assert not session.annotations(e.Fold)
    assert session.tip == session.path[-1].id


def test_D1_by_model_where_there_is_one() -> None:
    model = Scripted(then=lambda r: "[Turn 9] the model's own words\nand more")
    session = follow(Engine(rounds(), model=model), 2)
    assert [x.text for x in session.annotations(e.TurnLine)] == ["the model's own words"] * 2
    assert {x.author for x in session.annotations(e.TurnLine)} == {"model"}
    assert [r.purpose for r in model.requests] == ["line", "line"]
    assert "fix part 2" in model.requests[1].messages[0].text
    assert "fix part 1" not in model.requests[1].messages[0].text


def test_D1_by_rule_where_the_setting_says_so_or_the_model_fails() -> None:
    session = follow(Engine(rounds(lines="rule"), model=Scripted()), 1)
    assert session.annotations(e.TurnLine)[0].author == "rule"
    failing = follow(Engine(rounds(), model=Scripted(fail(ModelError("down")), "", then="fine")), 2)
    assert [x.author for x in failing.annotations(e.TurnLine)] == ["rule", "rule"]
    assert len(failing.annotations(e.Failure)) == 2


async def watched(model: Scripted) -> Session:
    """A round that ends beside a watch, then the request of the next one, whose reply never comes."""
    engine, session = Engine(rounds(recent_conversation_rounds=0), model=model), Session()
    async with engine.watch(session):
        for message in turn(1)[:-1]:
            session.append(message)
        engine.observe(session, turn(1)[-1])
        session.append(m.user("Next."))
        await engine.prepare(session)  # would wait for the line where that is not written in the background
    return session


def test_D1_D10_the_line_of_a_round_is_written_as_it_ends_and_no_request_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("refold.engine.maintenance.LAST_NOTES", 0.05)
    session = run(watched(Scripted(stall())))
    assert [(x.turn, x.author) for x in session.annotations(e.TurnLine)] == [(1, "rule")]

    async def one_round() -> list[e.TurnLine]:
        session = Session()
        engine = Engine(rounds(), model=Scripted("the model's own words"))
        async with engine.watch(session):
            session.append(m.user("Please."))
            engine.observe(session, m.assistant("Done."))
        return list(session.annotations(e.TurnLine))

    monkeypatch.setattr("refold.engine.maintenance.LAST_NOTES", 10.0)
    assert [(x.turn, x.text) for x in run(one_round())] == [(1, "the model's own words")]


def test_D1_a_line_has_its_limit() -> None:
    engine = Engine(rounds(line_tokens=12))
    session = Session()
    for message in (m.user("word " * 500), m.assistant("answer " * 500)):
        session.append(message)
    run(maintain(engine.planner, session))
    assert 3 < COUNTER.text(session.annotations(e.TurnLine)[0].text) <= 12


LONG = "Found that the checkout service times out after 30 s because the pool is exhausted, which needs 12 connections."


@pytest.mark.parametrize("room", range(1, 30))
def test_D1_a_line_is_cut_between_words_and_says_that_it_goes_on(room: int) -> None:
    cut = short(LONG, room, COUNTER)
    assert COUNTER.text(cut) <= room
    if cut != LONG:
        words = cut.removesuffix("…")
        assert LONG.startswith(words) and bool(words) == cut.endswith("…")
        assert LONG[len(words)] in " .," or not words


def test_D1_a_range_says_something_or_nothing() -> None:
    paths = [
        RoundsLine(f"a{n}", f"b{n}", n, n, f"/very/long/path/to/some/file{n}.py → done") for n in range(1, 17)
    ]
    for line in merge(paths, 100, size, COUNTER):
        assert not line.text or any(len(word) > 1 for word in line.text.replace("/", " ").split())
        assert line.text.strip("/ ") == line.text or line.text.startswith("/very")


def test_D1_a_line_has_about_fifty_tokens_and_the_figures_of_the_answer() -> None:
    engine = Engine(rounds(lines="rule"))
    assert engine.preset.settings.line_tokens == 50
    session = Session()
    session.append(m.user("Why is the checkout slow?"))
    session.append(m.assistant("I looked at it. " + LONG))
    run(maintain(engine.planner, session))
    [line] = session.annotations(e.TurnLine)
    assert line.text == f"Why is the checkout slow → I looked at it. {LONG[:-1]}"
    model = Scripted(then=LONG)
    spoken = follow(Engine(rounds(), model=model), 1)
    assert [x.text for x in spoken.annotations(e.TurnLine)] == [LONG]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("```python\nprint('x')\n```\nDone: the script prints x.", "Done: the script prints x"),
        ("| a | b |\n|---|---|\n| 1 | 2 |\nBoth columns hold 1 figure.", "Both columns hold 1 figure"),
        (
            "## Result\n\n- The port is 4711 now.\n- Nothing else changed.",
            "The port is 4711 now. Nothing else changed",
        ),
    ],
)
def test_D1_code_tables_and_headings_make_no_line(answer: str, line: str) -> None:
    engine, session = Engine(rounds()), Session()
    for message in (m.user("Why?"), m.assistant(answer)):
        session.append(message)
    run(maintain(engine.planner, session))
    assert [x.text for x in session.annotations(e.TurnLine)] == [f"Why → {line}"]


def test_D1_interrupted_turns_say_so() -> None:
    engine = Engine(rounds())
    session = Session()
    for message in (m.user("Delete everything"), m.user("Stop, do not do that"), m.assistant("I stopped.")):
        session.append(message)
    run(maintain(engine.planner, session))
    assert [x.text for x in session.annotations(e.TurnLine)] == [
        "Delete everything → interrupted",
        "Stop, do not do that → I stopped",
    ]


# ── strategies ──────────────────────────────────────────────────────────────────────────────────


def test_D2_recent_only_is_the_default_and_keeps_three_rounds() -> None:
    engine = Engine(rounds())
    session = follow(engine, 8)
    view = engine.view(session)
    assert lines(view) == [f"[Turn {n}] Please fix part {n} → p{n}.py" for n in range(1, 6)]
    assert said(view) == [message for n in (6, 7, 8) for message in turn(n)]
    session.append(m.user("next"))
    assert said(run(engine.prepare(session)))[0] == m.user(
        "Please fix part 6."
    )  # the current turn comes on top


def test_D2_summary_only_shows_lines_and_the_current_turn() -> None:
    engine = Engine(rounds(history_strategy="summary-only"))
    session = follow(engine, 5)
    assert said(engine.view(session)) == []
    session.append(m.user("next"))
    view = run(engine.prepare(session))
    assert len(lines(view)) == 5
    assert said(view) == [m.user("next")]


def test_D2_compressed_keeps_whole_rounds_that_fit_with_older_results_cut() -> None:
    engine = Engine(rounds(history_strategy="compressed", compressed_budget=1000))
    session = follow(engine, 12, size=2000)
    view = engine.view(session)
    gone = len(lines(view))
    kept = [item.message for item in view.items if not item.fold or isinstance(item.message, m.Result)]
    assert sum(COUNTER.message(message) for message in kept) <= 1000
    results = [message for message in kept if isinstance(message, m.Result)]
    assert [len(r.text) for r in results[:-1]] == [200] * (len(results) - 1)
    assert len(results[-1].text) == 2000
    assert len(results) == 12 - gone > 2
    assert kept[0] == m.user(f"Please fix part {gone + 1}.")


def test_D2_compressed_keeps_as_many_as_fit_not_one_less() -> None:
    whole = sum(COUNTER.message(x) for n in (2, 3) for x in turn(n, steps=0))
    for budget, expected in ((whole, 2), (whole - 1, 1)):
        engine = Engine(rounds(history_strategy="compressed", compressed_budget=budget))
        assert len(said(engine.view(follow(engine, 3, steps=0)))) == 2 * expected


def test_D2_unknown_strategies_are_refused() -> None:
    with pytest.raises(SettingError, match="history_strategy"):
        rounds(history_strategy="everything")
    with pytest.raises(SettingError, match="compression_strategy"):
        rounds(compression_strategy="none")


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_D3_a_round_ends_before_the_next_user_message_however_long(steps: int) -> None:
    engine = Engine(rounds())
    session = follow(engine, 5, steps=steps)
    s = engine.planner.context(session)
    assert finished(s) == 5
    for index in range(5):
        round = round_at(s, index)
        own = [x.message for x in session.path[round.first : round.last + 1] if isinstance(x, e.MessageEntry)]
        assert own == turn(index + 1, steps=steps)
    view = engine.view(session)
    assert len(said(view)) == 3 * (2 + 2 * steps)
    assert orphans(view.items) == []
    check_wire(view)


def test_D3_a_round_is_over_with_its_final_answer_not_with_an_aborted_one() -> None:
    engine = Engine(rounds())
    for last, count in ((m.assistant("half of", stop="aborted"), 0), (m.assistant("all of it"), 1)):
        session = Session()
        session.append(m.user("go"))
        session.append(last)
        assert finished(engine.planner.context(session)) == count


# ── layout ──────────────────────────────────────────────────────────────────────────────────────


def test_D4_layout() -> None:
    engine = Engine(rounds())
    session = follow(engine, 6)
    block, read, *rest = (item.message for item in engine.view(session).items)
    texts = [part.text for part in block.parts if isinstance(part, m.Text)]
    assert texts[0].startswith(HEADER + "\n[Turn 1] ")
    assert [text.split("]")[0] for text in texts[1:3]] == ["[Turn 2", "[Turn 3"]
    assert texts[3].startswith(WORKSPACE + "\n")
    assert "- src/: p6.py, p5.py" in texts[3]
    assert read == ACKNOWLEDGEMENT
    assert rest[0].text == "Please fix part 4."
    assert not any(HEADER in message.text or WORKSPACE in message.text for message in rest)


def test_D10_the_lines_are_one_message_and_roles_alternate_on_every_wire() -> None:
    engine = Engine(rounds())
    session = follow(engine, 9, steps=0)
    session.append(m.user("next"))
    view = run(engine.prepare(session))
    assert len(lines(view)) == 6
    for wire in (view.to_openai(), view.to_anthropic()["messages"]):
        roles = [message["role"] for message in wire]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    check_wire(view)


@pytest.mark.parametrize("strategy", ["recent-only", "summary-only", "compressed"])
def test_D4_D10_the_workspace_is_rendered_from_the_first_turn_on(strategy: str) -> None:
    engine, session = Engine(rounds(history_strategy=strategy)), Session()
    session.append(session.make(e.State, name="branch", value="main"))
    for number in range(1, 6):
        session.append(m.user(f"Please fix part {number}."))
        view = run(engine.prepare(session))
        assert "- branch: main" in workspace(view)
        assert view.tokens == sum(COUNTER.message(item.message) for item in view.items)
        check_wire(view)
        session.append(m.assistant("", m.call(f"c{number}", "Edit", path=f"src/p{number}.py")))
        session.append(m.result(f"c{number}", "done"))
        view = run(engine.prepare(session))
        assert f"p{number}.py" in workspace(view)
        session.append(m.assistant("Done."))


def workspace(view: View) -> str:
    parts = [part for item in view.items for part in item.message.parts if isinstance(part, m.Text)]
    [text] = [part.text for part in parts if part.text.startswith(WORKSPACE)]
    return text


def test_D4_the_workspace_is_fresh_within_a_turn() -> None:
    engine = Engine(rounds())
    session = follow(engine, 6)
    before = prefix(engine.view(session))
    session.append(m.user("Please fix part 7."))
    assert "p7.py" not in workspace(run(engine.prepare(session)))
    session.append(m.assistant("", m.call("c7", "Edit", path="src/p7.py")))
    session.append(m.result("c7", "done"))
    view = run(engine.prepare(session))
    assert "p7.py" in workspace(view)
    assert prefix(view) == before
    folds = len(session.annotations(e.Fold))
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == folds  # nothing new, nothing done


def test_D4_the_workspace_shows_the_values_an_application_keeps() -> None:
    engine = Engine(rounds())
    session = follow(engine, 6)
    for name, value in (("branch", "main"), ("port", 8080), ("branch", "fix/login")):
        session.append(session.make(e.State, name=name, value=value))
    text = workspace(run(engine.prepare(session)))
    assert "State:\n- branch: fix/login\n- port: 8080" in text
    assert "main" not in text
    assert "p6.py" in text
    assert COUNTER.text(text) <= 150 + 20


def test_D4_an_application_may_render_the_workspace_itself() -> None:
    files = ["one"]
    engine = Engine(rounds(workspace=lambda session: f"{len(session.turns)} turns: {files[-1]}"))
    session = Session()
    for number in range(1, 5):
        for message in turn(number):
            session.append(message)
    assert workspace(run(engine.prepare(session))) == f"{WORKSPACE}\n4 turns: one"
    files.append("two " * 500)
    assert workspace(run(engine.prepare(session))).startswith(f"{WORKSPACE}\n4 turns: two two")
    assert COUNTER.text(workspace(run(engine.prepare(session)))) <= 150 + 20


def test_D4_where_an_application_cannot_render_ours_stands_in(caplog: pytest.LogCaptureFixture) -> None:
    def broken(session: Session) -> str:
        raise KeyError("no such project")

    texts = [
        workspace(run(e.prepare(follow(e, 6)))) for e in (Engine(rounds(workspace=broken)), Engine(rounds()))
    ]
    assert texts[0] == texts[1]
    assert "no such project" in caplog.text
    with pytest.raises(SettingError, match="workspace"):
        rounds(workspace="main.py")


def prefix(view: View) -> list[str]:
    """Everything in front of the workspace, byte for byte, as both dialects send it."""
    blocks = [
        block["text"]
        for message in view.to_anthropic(cache=False)["messages"]
        for block in message["content"]
        if block["type"] == "text"
    ]
    end = next((i for i, text in enumerate(blocks) if text.startswith(WORKSPACE)), 0)
    opening = view.to_openai()[:1] if end else []
    sent = [part["text"] for message in opening for part in message["content"]]
    assert blocks[:end] == sent[:end]
    return sent[:end]


@pytest.mark.sample(3)
@pytest.mark.parametrize("strategy", ["recent-only", "summary-only", "compressed"])
@pytest.mark.parametrize("merging", [False, True])
def test_D4_appending_a_line_never_changes_the_bytes_before_it(strategy: str, merging: bool) -> None:
    """Only merging lines into ranges does, and such a fold says that it resets the cache."""
    small = {"summaries_budget": 300} if merging else {}
    engine = Engine(rounds(history_strategy=strategy, compressed_budget=600, **small))
    session, before, merges = Session(), list[str](), 0
    for number in range(1, 40):
        follow(engine, 1, session)
        now = prefix(engine.view(session))
        newest = session.annotations(e.Fold)[-1:]
        if newest and newest[0].strategy == "merge":
            assert newest[0].details["cache_reset"]
            merges += 1
        else:
            assert now[: len(before)] == before, number
        before = now
    assert (merges > 0) is merging
    assert merging or len(before) > 20


def test_D5_a_turn_is_either_verbatim_or_a_line() -> None:
    engine, session = Engine(rounds()), Session()
    for _ in range(12):
        follow(engine, 1, session)
        view = engine.view(session)
        told = {int(line.split()[1].rstrip("]")) for line in lines(view)}
        shown = {int(x.text.split()[-1].rstrip(".")) for x in said(view) if isinstance(x, m.User)}
        assert told | shown == set(range(1, len(session.turns) + 1))
        assert not told & shown


# ── budgets ─────────────────────────────────────────────────────────────────────────────────────


def test_D7_past_the_budget_the_oldest_lines_become_ranges_and_the_block_never_exceeds_it() -> None:
    engine, session = Engine(rounds(summaries_budget=300)), Session()
    merges = 0
    for _ in range(60):
        follow(engine, 1, session, steps=1, size=10)
        s = engine.planner.context(session)
        _, shown = shown_lines(s)
        assert lines_size(shown, COUNTER) <= 300
        covered = [n for line in shown for n in range(line.start, line.end + 1)]
        assert covered == list(range(1, len(covered) + 1))
        folds = session.annotations(e.Fold)
        merges += bool(folds) and folds[-1].strategy == "merge"
    assert 3 <= merges <= 12
    texts = lines(engine.view(session))
    assert texts[0].startswith("[Turn 1-")
    assert texts[-1].startswith("[Turn 57] ")
    check_wire(engine.view(session))


def made(count: int, words: int) -> list[RoundsLine]:
    return [RoundsLine(f"a{n}", f"b{n}", n, n, " ".join(["word"] * words)) for n in range(1, count + 1)]


def size(lines: Any) -> int:
    return sum(COUNTER.text(line_text(line)) + 1 for line in lines)


def test_D7_one_pass_halves_the_oldest_half() -> None:
    before = made(16, 10)
    after = merge(before, size(before) - 1, size, COUNTER)
    assert [(x.start, x.end) for x in after] == [
        (1, 2),
        (3, 4),
        (5, 6),
        (7, 8),
        *((n, n) for n in range(9, 17)),
    ]
    assert after[4:] == before[8:]
    old = sum(COUNTER.text(x.text) for x in before[:8])
    assert sum(COUNTER.text(x.text) for x in after[:4]) <= old // 2


def test_D7_a_range_never_spans_a_round_that_is_shown_verbatim() -> None:
    apart = [line for line in made(9, 10) if line.start != 5]
    merged = merge(apart, 40, size, COUNTER)
    assert all(x.end < 5 or x.start > 5 for x in merged)
    assert (merged[0].start, merged[-1].end) == (1, 9)
    assert size(merged) <= 40


@settings(max_examples=examples(60))
@given(st.integers(1, 40), st.integers(0, 30), st.integers(20, 400))
def test_D7_any_block_fits_its_budget(count: int, words: int, budget: int) -> None:
    merged = merge(made(count, words), budget, size, COUNTER)
    assert size(merged) <= max(budget, 16)
    assert [n for x in merged for n in range(x.start, x.end + 1)] == list(range(1, count + 1))


@pytest.mark.slow
def test_D8_figures_of_the_generated_conversation() -> None:
    found = benchmark.run()
    assert 180 <= found["tokens_a_round"] <= 225  # the frames of calls and results count as on the wire
    for name, figures in found["strategies"].items():
        for ours, published in zip(figures["ours"], figures["published"], strict=True):
            assert ours < published, (name, figures)
    saved = 1 - found["strategies"]["recent-only"]["ours"][0] / found["everything"][0]
    assert saved >= 0.6
    assert benchmark.conversation(3) == benchmark.conversation(3)


def test_D9_which_strategy_when_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "presets" / "rounds.md").read_text(encoding="utf-8")
    told = page.partition("## Which strategy when")[2].partition("\n\nTokens")[0]
    for strategy in ("recent-only", "summary-only", "compressed"):
        assert f"`{strategy}`" in told
    assert "5 to 20 rounds" in told
    assert "50 rounds and more" in told
    assert "recall_conversation" in told


# ── unfolding, imports ──────────────────────────────────────────────────────────────────────────


def test_an_undone_line_stays_verbatim_and_later_turns_fold_on() -> None:
    engine = Engine(rounds())
    session = follow(engine, 5)
    engine.undo(session)
    assert m.user("Please fix part 2.") in said(engine.view(session))
    follow(engine, 3, session)
    view = engine.view(session)
    assert m.user("Please fix part 2.") in said(view)
    assert [line.split("]")[0] for line in lines(view)] == ["[Turn 1", "[Turn 3", "[Turn 4", "[Turn 5"]
    check_wire(view)
    engine.redo(session)
    assert "[Turn 2] Please fix part 2 → p2.py" in lines(engine.view(session))


def test_what_another_design_folded_stays_folded() -> None:
    session = Session()
    for number in range(1, 9):
        for message in turn(number, size=4000):
            session.append(message)
    pi = Engine(presets.get("pi", keep_recent_tokens=2500), model=Scripted("S", "S"))
    plan = pi.plan(session, force=True)
    assert isinstance(plan, Plan)
    run(pi.apply(session, plan))
    engine = Engine(rounds(recent_conversation_rounds=1))
    run(maintain(engine.planner, session))
    view = engine.view(session)
    assert view.items[0].message.text.startswith("The beginning of this conversation was folded")
    assert lines(view)
    assert said(view) == turn(8, size=4000)
    assert orphans(view.items) == []
    check_wire(view)


def test_a_system_prompt_in_the_log_is_never_folded() -> None:
    session = Session()
    session.append(m.system("You are a bot."))
    engine = Engine(rounds())
    follow(engine, 6, session)
    view = engine.view(session)
    assert view.items[0].message == m.system("You are a bot.")
    assert view.items[1].message.text.startswith(HEADER)
