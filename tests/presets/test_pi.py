"""The rules of spec page `pi`, B1–B14."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.overflow import in_error
from refold.compaction.plan import Failed, Plan
from refold.compaction.strategies.budget_summary import cut_by_budget, size_of
from refold.errors import OverflowAgain, SettingError
from refold.hooks import Change, Hooks
from refold.loop import run
from refold.models.scripted import Scripted, say
from refold.transcripts import pi_write, read, read_stream
from tests.data import shared
from tests.presets.chains import check_wire, orphans, prompts, summariser

MEASURE = tokens.get("utf16/4")
HEADER: dict[str, Any] = {
    "type": "session",
    "version": 3,
    "id": "s",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/x",
}


def load(name: str) -> Session:
    return Session.of(read(shared(f"pi/{name}")))


def chat(*sizes: int) -> Session:
    """User and assistant in turn, each message of so many tokens by this preset's estimate."""
    session = Session()
    for number, size in enumerate(sizes):
        said = "x" * (4 * size)
        session.append(m.user(said) if number % 2 == 0 else m.assistant(said))
    return session


def pi(**settings: Any) -> presets.Preset:
    return presets.get("pi", **settings)


# ── values to reproduce ─────────────────────────────────────────────────────────────────────────


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "messages", "estimates", "anchored", "cut", "start", "fold", "prefix", "read_", "modified"),
    [
        ("large-session", 914, 124_661, 177_657, 837, 834, 730, 3, 7, 20),
        ("before-compaction", 446, 375_427, 180_820, 946, 939, 383, 7, 2, 12),
    ],
)
def test_B8_B10_B12_values_of_the_sample_sessions(
    name: str, messages: int, estimates: int, anchored: int, cut: int, start: int, fold: int, prefix: int,
    read_: int, modified: int,
) -> None:  # fmt: skip
    session = load(f"{name}.jsonl")
    engine = Engine(pi())
    s = engine.planner.context(session)
    assert len(s.items) == messages
    assert sum(size_of(x, MEASURE) for x in session.path if isinstance(x, e.MessageEntry)) == estimates
    assert s.sizes.anchored(bare=True) == anchored
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.first_kept is not None
    assert session.position(plan.first_kept) == cut
    assert session.position(plan.turn_prefix[0]) == start
    assert plan.split
    assert (len(plan.fold), len(plan.turn_prefix)) == (fold, prefix)
    assert (len(plan.files.read), len(plan.files.modified)) == (read_, modified)
    assert plan.files.created == ()


@pytest.mark.data
def test_B3_context_of_the_sample_starts_with_the_newest_summary() -> None:
    items = Engine(pi()).planner.context(load("before-compaction.jsonl")).items
    roles = [item.message.role for item in items if item.fold is None]
    assert items[0].fold is not None
    assert sum(1 for item in items if item.fold) == 1
    assert {role: roles.count(role) for role in set(roles)} == {
        "user": 31,
        "assistant": 219,
        "tool": 192,
        "bash": 3,
    }


@pytest.mark.data
@pytest.mark.parametrize("name", ["large-session", "before-compaction"])
def test_B8_cuts_for_thirteen_budgets(name: str) -> None:
    session = load(f"{name}.jsonl")
    known = json.loads(shared(f"pi/cuts.{name}.json").read_text())
    assert len(known["cuts"]) == 13
    for row in known["cuts"]:
        cut = cut_by_budget(
            session.path, start=0, keep=row["keepRecentTokens"], size=lambda x: size_of(x, MEASURE)
        )
        false_split = name == "before-compaction" and row["keepRecentTokens"] <= 10_000
        assert cut.position == row["firstKeptEntryIndex"], row
        assert cut.split == (row["isSplitTurn"] and not false_split), row
        assert cut.turn_start == (-1 if false_split else row["turnStartIndex"]), row


def oracle() -> list[dict[str, Any]]:
    with gzip.open(shared("pi/oracle.json.gz")) as file:
        return json.load(file)["cases"]


def session_of(case: dict[str, Any], folder: Path) -> Session:
    path = folder / "case.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [HEADER, *case["entries"]]) + "\n")
    session = Session.of(read(path))
    session.move(case["leafId"])
    return session


def names(session: Session, ids: list[str] | tuple[str, ...]) -> list[str]:
    """Ids, but one mark for what the oracle names by its content (summaries, custom messages)."""
    special = (e.Note, e.BranchSummary, e.Fold)
    return ["*" if isinstance(session[id], special) else id for id in ids]


def marked(ids: list[str]) -> list[str]:
    return ["*" if ":" in id else id for id in ids]


@pytest.mark.data
def test_B1_to_B12_two_hundred_branched_sessions_as_pi_answers_them(tmp_path: Path) -> None:
    cases = oracle()
    assert len(cases) == 200
    for case in cases:
        check_case(case, session_of(case, tmp_path))


def check_case(case: dict[str, Any], session: Session) -> None:
    out = case["out"]
    assert [x.id for x in session.path] == out["path"]
    assert [
        MEASURE.message(x.message) if isinstance(x, e.MessageEntry) else None for x in session.path
    ] == out["tokens"]
    engine = Engine(pi(keep_recent_tokens=case["keepRecentTokens"]))
    s = engine.planner.context(session)
    check_context(session, s.items, out["context"]["messages"])
    keep = case["keepRecentTokens"]
    cut = cut_by_budget(session.path, start=0, keep=keep, size=lambda x: size_of(x, MEASURE))
    assert cut.position == out["cut"]["firstKeptEntryIndex"]
    assert cut.split == (out["cut"]["isSplitTurn"] and not case["false_split_cut"])
    check_preparation(case, session, engine.plan(session, force=True))


def check_context(session: Session, items: Any, expected: list[str]) -> None:
    """The same messages. What a fold put back verbatim counts as what it stands for."""
    by_text = {id: session[id].message for id in expected if ":" not in id}  # type: ignore[union-attr]
    assert len(items) == len(expected)
    for item, id in zip(items, expected, strict=True):
        if id in by_text:
            assert item.message == by_text[id]
        else:
            assert item.fold or isinstance(session[item.entries[-1]], (e.Note, e.BranchSummary))


def check_preparation(case: dict[str, Any], session: Session, plan: Any) -> None:
    expected = case["out"]["prep"]
    if expected is None:
        assert not plan
        return
    assert isinstance(plan, Plan)
    fold, prefix = marked(expected["messagesToSummarize"]), marked(expected["turnPrefixMessages"])
    if case["false_split"]:  # B10: a cut at a turn start is no split
        fold, prefix = fold + prefix, []
    assert plan.first_kept == expected["firstKeptEntryId"]
    assert names(session, plan.fold) == fold
    assert names(session, plan.turn_prefix) == prefix
    assert plan.split == (expected["isSplitTurn"] and not case["false_split"])
    assert plan.previous_summary == expected["previousSummary"]
    assert plan.measured_before == expected["tokensBefore"]
    assert list(plan.files.read) == expected["files"]["readFiles"]
    assert list(plan.files.modified) == expected["files"]["modifiedFiles"]


# ── worked examples ─────────────────────────────────────────────────────────────────────────────


def test_B8_worked_example_keeps_from_the_fourth_message() -> None:
    session = chat(500, 800, 1200, 3000, 5000, 8000, 4000, 2000)
    plan = Engine(pi(keep_recent_tokens=20_000)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.first_kept == session.path[3].id
    assert sum(size_of(x, MEASURE) for x in session.path[3:]) == 22_000


@pytest.mark.parametrize(
    ("keep", "first_kept"),
    [(1, 5), (999, 5), (1000, 5), (1001, 4), (1999, 4), (2000, 4), (2001, 3), (4999, 1), (5000, 1)],
)
def test_B8_the_budget_is_reached_when_it_is_met_exactly(keep: int, first_kept: int) -> None:
    """Six messages of a thousand: walking back ends at the message with which the sum is at least `keep`."""
    session = chat(*[1000] * 6)
    plan = Engine(pi(keep_recent_tokens=keep)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.first_kept == session.path[first_kept].id
    assert plan.split is (first_kept % 2 == 1)  # at an assistant message: its turn is cut through


@pytest.mark.parametrize("keep", [5001, 6000, 6001])
def test_B8_B9_what_a_budget_reaches_from_the_first_message_on_is_all_kept(keep: int) -> None:
    reason = Engine(pi(keep_recent_tokens=keep)).plan(chat(*[1000] * 6), force=True)
    assert (bool(reason), reason.code) == (False, "everything_fits")  # type: ignore[union-attr]


def with_usage(total: int, stop: m.Stop = "end") -> Session:
    session = chat(1000, 1000, 1000)
    session.append(m.assistant("ok", stop=stop), usage=m.Usage(input=total - 10, output=10), model="a:b")
    return session


@pytest.mark.parametrize(("total", "due"), [(95_000, True), (90_001, True), (90_000, False), (89_000, False)])
def test_B5_threshold_is_window_less_reserve_and_strict(total: int, due: bool) -> None:
    engine = Engine(pi(window=100_000, reserve_tokens=10_000, keep_recent_tokens=1500))
    assert bool(engine.plan(with_usage(total))) is due


def test_B4_disabled_never_folds_by_itself_but_on_request() -> None:
    engine = Engine(pi(enabled=False, window=100_000, keep_recent_tokens=1500))
    assert not engine.plan(with_usage(99_000))
    assert engine.plan(with_usage(99_000), force=True)


def test_B4_an_aborted_reply_does_not_trigger() -> None:
    engine = Engine(pi(window=100_000, keep_recent_tokens=1500))
    reason = engine.plan(with_usage(99_000, stop="aborted"))
    assert (bool(reason), reason.code) == (False, "aborted")  # type: ignore[union-attr]


def test_B4_usage_from_before_the_fold_never_triggers_again() -> None:
    session = with_usage(99_000)
    engine = Engine(pi(window=100_000, keep_recent_tokens=1500), model=Scripted("short", "short"))
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 1
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 1
    session.append(m.user("next"))
    assert engine.plan(session).code == "stale"  # type: ignore[union-attr]


def overflowing(session: Session) -> None:
    error = "prompt is too long: 213462 tokens > 200000 maximum"
    session.append(m.Assistant((), stop="error", error=error), model="anthropic:x")


def test_B4_overflow_hides_the_failed_message_folds_and_a_second_one_is_an_error() -> None:
    session = chat(3000, 3000, 3000, 3000, 3000)
    overflowing(session)
    failed = session.leaf
    engine = Engine(pi(keep_recent_tokens=4000), model=Scripted("short", "short"))
    view = run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 1
    assert failed not in {id for item in view.items for id in item.entries}
    overflowing(session)
    with pytest.raises(OverflowAgain):
        run(engine.prepare(session))


def test_B4_overflow_after_a_good_reply_folds_again() -> None:
    session = chat(3000, 3000, 3000, 3000, 3000)
    overflowing(session)
    engine = Engine(pi(keep_recent_tokens=4000), model=Scripted("short", "short", "short"))
    run(engine.prepare(session))
    session.append(m.assistant("fine " * 2000))
    session.append(m.user("go on " * 4000))
    overflowing(session)
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 2


def test_B4_overflow_counts_only_where_the_same_model_refused() -> None:
    session = chat(3000, 3000, 3000, 3000, 3000)
    overflowing(session)
    engine = Engine(pi(keep_recent_tokens=4000), model=Scripted())
    run(engine.prepare(session, model="other:y"))
    assert not session.annotations(e.Fold)


def test_B4_overflow_is_recovered_from_once_a_turn() -> None:
    session = chat(3000, 3000, 3000, 3000, 3000)
    overflowing(session)
    engine = Engine(pi(keep_recent_tokens=4000), model=summariser())
    run(engine.prepare(session))
    session.append(m.user("then something else " * 1000))  # a turn of its own
    overflowing(session)
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 2
    overflowing(session)
    with pytest.raises(OverflowAgain):
        run(engine.prepare(session))


def test_B4_an_aborted_reply_is_checked_again_before_a_new_prompt() -> None:
    session = with_usage(99_000)
    session.append(m.user("go"))
    session.append(m.assistant("half of", stop="aborted"), model="a:b")
    engine = Engine(pi(window=100_000, keep_recent_tokens=1500))
    assert engine.plan(session).code == "aborted"  # type: ignore[union-attr]
    assert engine.plan(session, incoming="and now?")
    session.append(m.user("and now?"))
    assert engine.plan(session)


def test_B5_overrides_per_model() -> None:
    own = {"b": {"reserve_tokens": 20_000, "keep_recent_tokens": 500}, "c": {"enabled": False}}
    engine = Engine(pi(window=100_000, reserve_tokens=10_000, keep_recent_tokens=1500, models=own))
    session = with_usage(85_000)  # answered by a:b
    plan = engine.plan(session)
    assert isinstance(plan, Plan)
    assert plan.first_kept == session.path[2].id  # 1500 would have kept one more
    assert engine.preset_for(session, "a:d").settings.reserve_tokens == 10_000
    assert engine.preset_for(session, "a:c").settings.enabled is False
    with pytest.raises(SettingError, match="reserve_tokens"):
        pi(window=1000, reserve_tokens=100, models={"b": {"reserve_tokens": 2000}})
    with pytest.raises(SettingError, match="models"):
        pi(models={"b": {"reserve": 2000}})
    assert (
        presets.make("pi", {"models": '{"b": {"reserve_tokens": 7}}'}).settings.models["b"].reserve_tokens
        == 7
    )


@pytest.mark.parametrize(
    "text", ["400 Too many tokens in the request", "Error: Token limit exceeded for this model"]
)
def test_B6_generic_wordings(text: str) -> None:
    assert in_error(text) is not None
    assert in_error(f"ThrottlingException: {text}, please wait") is None


def test_B7_last_usage_plus_estimate_of_what_follows() -> None:
    session = with_usage(5_000)
    session.append(m.user("x" * 400))
    assert Engine(pi()).planner.context(session).sizes.anchored() == 5_000 + 100


def test_B9_everything_fits_no_model_call() -> None:
    model = Scripted()
    engine = Engine(pi(keep_recent_tokens=100_000), model=model)
    reason = engine.plan(chat(10, 10, 10), force=True)
    assert (bool(reason), reason.code) == (False, "everything_fits")  # type: ignore[union-attr]
    assert model.requests == []


def test_B9_what_the_first_fold_kept_is_read_again_by_the_second() -> None:
    session = chat(3000, 3000, 3000, 3000)
    model = summariser()
    engine = Engine(pi(keep_recent_tokens=5000), model=model)
    first = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    kept = first.first_kept  # type: ignore[union-attr]
    for said in (m.user("y" * 12000), m.assistant("z" * 12000)):
        session.append(said)
    second = engine.plan(session, force=True)
    assert isinstance(second, Plan)
    assert kept in (*second.fold, *second.turn_prefix)


def test_B10_split_with_no_earlier_turn_keeps_the_previous_summary() -> None:
    session = chat(2000, 2000)
    model = Scripted(
        say("FIRST", purpose="summary"),
        say("PREFIX", purpose="turn_prefix"),
        say("PREFIX2", purpose="turn_prefix"),
    )
    engine = Engine(pi(keep_recent_tokens=100), model=model)
    session.append(m.user("a long turn begins " * 50))
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    for number in range(4):
        session.append(m.assistant("step " * 300, m.call(f"c{number}", "read", path="a")))
        session.append(m.result(f"c{number}", "file " * 300))
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.split
    fold = run(engine.apply(session, plan))
    assert isinstance(fold, e.Fold)
    assert "FIRST" in fold.summary
    assert "PREFIX" in fold.summary


@pytest.mark.data
def test_B11_update_prompt_merges_the_previous_summary_and_focus_reaches_split_turns() -> None:
    session = load("large-session.jsonl")
    model = summariser()
    engine = Engine(pi(keep_recent_tokens=20_000), model=model)
    run(engine.apply(session, engine.plan(session, force=True, instructions="the footer")))  # type: ignore[arg-type]
    assert all("the footer" in prompt for prompt in prompts(model) + prompts(model, "turn_prefix"))
    assert prompts(model, "turn_prefix")
    session.append(m.user("more " * 30_000))
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert "SUMMARY" in prompts(model)[-1]
    assert "<previous-summary>" in prompts(model)[-1]
    assert "<previous-summary>" not in prompts(model)[0]


SECTIONS = [
    "## Goal", "## Constraints and preferences", "## Progress", "### Done", "### In progress", "### Blocked",
    "## Key decisions", "## Next steps", "## Critical context",
]  # fmt: skip


def headings(text: str) -> list[str]:
    return [line for line in text.split("\n") if line in SECTIONS]


def test_B11_without_a_model_the_sections_are_pis_own() -> None:
    session, engine = Session(), Engine(pi(keep_recent_tokens=100))
    for number in range(1, 30):
        session.append(m.user(f"Please fix part {number}. Never touch the file{number}.cfg. " + "why " * 40))
        session.append(m.assistant("", m.call(f"c{number}", "edit", path=f"p{number}.py")))
        session.append(m.result(f"c{number}", "ok " * 80))
        session.append(m.assistant(f"Part {number} is fixed. " + "so " * 40))
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert headings(fold.summary.split("---")[0]) == SECTIONS
    assert "- [x] Please fix part 1 → p1.py" in fold.summary
    assert "Never touch the file1.cfg" in fold.summary
    for number in range(30, 60):
        session.append(m.user(f"Please fix part {number}. " + "why " * 60))
        session.append(m.assistant(f"Part {number} is fixed. " + "so " * 60))
    session.append(m.user("And the last one? " + "why " * 300))
    second = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(second, e.Fold)
    assert headings(second.summary.split("---")[0]) == SECTIONS
    assert "- [x] Please fix part 59" in second.summary
    assert "- [x] Please fix part 28" in second.summary  # of the summary before
    goal = second.summary.split("## Goal\n")[1].split("\n")[0]
    assert goal.startswith("Please fix part 1.")


@pytest.mark.parametrize("stopped", [m.assistant("Half of it is", stop="aborted"), None])
def test_B11_B18_without_a_model_an_interrupted_turn_is_not_ticked_as_done(stopped: m.Message | None) -> None:
    session, engine = Session(), Engine(pi(keep_recent_tokens=100))
    for number in range(1, 8):
        session.append(m.user(f"Please fix part {number}. " + "why " * 60))
        answer = m.assistant(f"Part {number} is fixed. " + "so " * 60) if number != 3 else stopped
        if answer:
            session.append(answer)
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert "- [x] Please fix part 2" in fold.summary
    assert "- [x] Please fix part 3" not in fold.summary
    assert "- [ ] Please fix part 3 → interrupted" in fold.summary


@pytest.mark.data
def test_B11_without_a_model_the_beginning_of_a_turn_has_its_sections() -> None:
    session = load("large-session.jsonl")
    engine = Engine(pi())
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    prefix = fold.summary.split("Beginning of the current turn")[1]
    for title in ("## Original request", "## Early progress", "## Needed for the kept part"):
        assert title in prefix
    assert tokens.get().text(fold.summary) <= int(1.3 * 16_384) + 50


def test_B12_files_are_carried_and_a_modified_file_is_not_listed_as_read() -> None:
    session = Session()
    for number, (tool, path) in enumerate(
        [("read", "a.ts"), ("read", "b.ts"), ("edit", "b.ts"), ("write", "c.ts")]
    ):
        session.append(m.user(f"do {tool} " + "x" * 4000))
        session.append(m.assistant("", m.call(f"c{number}", tool, path=path)))
        session.append(m.result(f"c{number}", "y" * 4000))
    session.append(m.user("and now?"))
    engine = Engine(pi(keep_recent_tokens=1), model=summariser())
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert (fold.files.read, fold.files.modified) == (("a.ts",), ("b.ts", "c.ts"))
    session.append(m.user("again " + "x" * 8000))
    session.append(m.assistant("done"))
    second = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(second, e.Fold)
    assert (second.files.read, second.files.modified) == (("a.ts",), ("b.ts", "c.ts"))
    assert "b.ts" in second.edits[0].put[0].text


FOREIGN = [
    ("claude-code/agentcmd-full-session-two.jsonl", True),
    ("claude-code/agentcmd-full-session-three.jsonl", True),
    ("gemini/agentcmd-session-2025-10-27T19-55.json", True),
    ("openhands/multi_swe_bench-example-output.jsonl", True),
    ("codex/rollout-2025-09-24T19-22-20-01997e76-d124-7592-9cac-2ec05abbca08.jsonl", True),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "any_"), FOREIGN)
def test_B12_files_of_other_agents_tools_are_listed(name: str, any_: bool) -> None:
    session = Session.of(read(shared(name)))
    plan = Engine(pi(keep_recent_tokens=1)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert bool(plan.files.read or plan.files.modified) is any_
    assert not plan.files.created


def test_B12_patches_in_shell_commands_count_for_other_agents_not_for_pi() -> None:
    patch = "apply_patch <<'P'\n*** Begin Patch\n*** Update File: a.txt\n+hi\n*** End Patch\nP"
    for name, listed in (("bash", ()), ("Bash", ("a.txt",)), ("shell", ("a.txt",))):
        session = Session()
        session.append(m.user("go"))
        session.append(m.assistant("", m.call("c", name, command=patch)))
        session.append(m.result("c", ""))
        session.append(m.user("and now?"))
        plan = Engine(pi(keep_recent_tokens=1)).plan(session, force=True)
        assert isinstance(plan, Plan)
        assert plan.files.modified == listed


def test_B13_tool_results_are_cut_with_the_number_cut_and_budgets_follow_the_reserve() -> None:
    session = chat(3000, 3000)
    session.append(m.assistant("", m.call("c", "read", path="a")))
    session.append(m.result("c", "r" * 5000))
    session.append(m.user("next " * 2000))
    model = summariser()
    engine = Engine(pi(keep_recent_tokens=100, reserve_tokens=10_000), model=model)
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    prompt = prompts(model)[0]
    assert "r" * 2000 in prompt
    assert "r" * 2001 not in prompt
    assert "3000 more characters" in prompt
    assert model.requests[0].max_tokens == 8_000


def test_B13_a_turn_that_is_cut_through_gets_half_of_the_reserve() -> None:
    session = chat(3000, 3000, 3000, 3000, 3000, 3000)
    model = summariser()
    engine = Engine(pi(keep_recent_tokens=100, reserve_tokens=10_000), model=model)
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    limits = {request.purpose: request.max_tokens for request in model.requests}
    assert limits == {"summary": 8_000, "turn_prefix": 5_000}


def test_B13_a_head_larger_than_the_summarisers_window_is_read_in_chunks() -> None:
    session = chat(*[3000] * 12)
    model = Scripted(
        then=lambda r: f"part about {r.messages[-1].text.count('x')} letters", context_window=8_000
    )
    engine = Engine(pi(keep_recent_tokens=100, reserve_tokens=1000), model=model, summariser="same")
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert fold.requests == len(model.requests) > 3
    counter = tokens.get()
    assert all(counter.text(r.messages[-1].text) < 8_000 for r in model.requests)
    seen = sum(r.messages[-1].text.count("x") for r in model.requests)
    assert seen >= sum(x.message.text.count("x") for x in session.path[:10] if isinstance(x, e.MessageEntry))


def test_B14_stored_and_an_error_appends_nothing_to_the_path() -> None:
    session = chat(3000, 3000, 3000)
    engine = Engine(pi(keep_recent_tokens=100), model=Scripted("", "S"))
    before = [x.id for x in session.path]
    failed = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(failed, Failed)
    assert [x.id for x in session.path] == before
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert fold.summary.startswith("S")
    assert fold.first_kept is not None
    assert fold.tokens_before > fold.tokens_after > 0
    assert fold.author == "scripted:script"


@pytest.mark.data
def test_B14_tokens_before_is_measured_as_pi_does() -> None:
    session = load("before-compaction.jsonl")
    engine = Engine(pi(), model=summariser())
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    assert fold.tokens_before == 180_820


# ── found by comparing random sessions with pi itself (tests/clients/test_pi.py) ─────────────────


def written(*records: dict[str, Any]) -> Session:
    """A session that pi wrote: entries n1, n2 … in one line."""
    rows = [HEADER]
    for number, record in enumerate(records, 1):
        parent = f"n{number - 1}" if number > 1 else None
        rows.append(
            {"id": f"n{number}", "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z", **record}
        )
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return Session.of(read_stream(io.BytesIO(data), name="session.jsonl"))


def spoken(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def compacted(first_kept: str, summary: str = "S") -> dict[str, Any]:
    return {"type": "compaction", "summary": summary, "firstKeptEntryId": first_kept, "tokensBefore": 1}


IMAGE = [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]


def test_B7_what_a_later_compaction_shows_again_counts_as_what_it_is() -> None:
    session = written(spoken("user", IMAGE), spoken("user", "word"), compacted("n2"), compacted("n1", "S2"))
    session.append(m.user("next"))
    assert Engine(pi()).planner.context(session).sizes.anchored(bare=True) == 1 + 1200 + 1 + 1


def test_B7_B14_tokens_before_take_no_usage_from_before_the_newest_compaction() -> None:
    usage = {"input": 900, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 900}
    reply = spoken("assistant", [{"type": "text", "text": "done"}], stopReason="stop", usage=usage)
    session = written(spoken("user", "go"), reply, compacted("n1"), spoken("user", "on"))
    plan = Engine(pi(keep_recent_tokens=1)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.measured_before == 4


def test_B8_summaries_of_older_compactions_take_no_room() -> None:
    said = [spoken("user", "x" * 40) for _ in range(3)]
    session = written(*said, compacted("n1", "s" * 4000), compacted("n1"), spoken("user", "y" * 40))
    plan = Engine(pi(keep_recent_tokens=20)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.first_kept == "n3"


def test_B8_metadata_in_front_of_the_cut_stays_with_it_across_the_newest_compaction() -> None:
    label = {"type": "label", "targetId": "n1", "label": "here"}
    session = written(spoken("user", "x" * 40), label, compacted("n1"), spoken("user", "y" * 40))
    plan = Engine(pi(keep_recent_tokens=1)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert (plan.first_kept, plan.fold, plan.split) == ("n2", ("n1",), False)


def test_B8_B10_an_empty_branch_summary_is_no_turn() -> None:
    empty = {"type": "branch_summary", "fromId": "root", "summary": ""}
    session = written(
        spoken("user", "x" * 40), empty, spoken("assistant", [{"type": "text", "text": "y" * 40}])
    )
    plan = Engine(pi(keep_recent_tokens=1)).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert (plan.first_kept, plan.fold, plan.turn_prefix) == ("n2", (), ("n1",))


def context_edit(target: str, text: str | None = None) -> dict[str, Any]:
    replacement = None if text is None else {"content": [{"type": "text", "text": text}]}
    return {"type": "context_edit", "targetId": target, "replacement": replacement}


def view_of(session: Session) -> list[str]:
    return [item.message.text for item in Engine(pi()).planner.context(session).items]


def test_B3_what_pi_hides_or_replaces_is_shown_so() -> None:
    said = [spoken("user", "one"), spoken("user", "two"), spoken("user", "three")]
    session = written(*said, context_edit("n2"), context_edit("n3", "3"), context_edit("n3", "III"))
    assert view_of(session) == ["one", "III"]
    assert not session.problems


def test_B3_a_message_that_a_compaction_keeps_can_be_hidden_after_it() -> None:
    session = written(
        spoken("user", "one"),
        spoken("user", "two"),
        compacted("n1"),
        context_edit("n1"),
        context_edit("n2", "2"),
    )
    [summary, second] = view_of(session)
    assert ("S" in summary, second) == (True, "2")


def test_B9_B12_what_is_hidden_is_not_summarised() -> None:
    call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "secret.txt"}}
    session = written(
        spoken("user", "the password is swordfish"),
        spoken("assistant", [call], stopReason="toolUse"),
        context_edit("n1", "the password is hidden"),
        context_edit("n2"),
        spoken("user", "x" * 400),
        spoken("user", "y" * 400),
    )
    model = summariser()
    engine = Engine(pi(keep_recent_tokens=1), model=model)
    fold = run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    assert isinstance(fold, e.Fold)
    [prompt] = prompts(model)
    assert "the password is hidden" in prompt
    assert "swordfish" not in prompt and "secret.txt" not in prompt
    assert fold.files == e.Files()


def test_B2_a_fold_of_ours_is_a_compaction_for_pi_though_a_model_was_chosen_first() -> None:
    change = {"type": "model_change", "provider": "p", "modelId": "a"}
    session = written(change, *(spoken("user", "x" * 400) for _ in range(3)))
    engine = Engine(pi(keep_recent_tokens=1), model=summariser())
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    data, lost = pi_write.write_pi_session(session.entries, session.info)
    assert json.loads(data.splitlines()[-1])["type"] == "compaction"
    assert not lost


def test_B2_prompts_usage_and_context_edits_of_todays_pi_survive_and_are_no_problem() -> None:
    usage = {"type": "usage", "kind": "cache_warm", "provider": "p", "model": "a", "usage": {"input": 1}}
    system = spoken("system", "", sections={"tools": "read"})
    session = written(system, spoken("user", "one"), usage, context_edit("n2", "1"), context_edit("n2"))
    assert not session.problems
    rows = [
        json.loads(row) for row in pi_write.write_pi_session(session.entries, session.info)[0].splitlines()
    ]
    assert rows[1]["message"] == system["message"]
    assert [row["type"] for row in rows[2:]] == ["message", "usage", "context_edit", "context_edit"]
    assert [row["replacement"] for row in rows[4:]] == [{"content": [{"type": "text", "text": "1"}]}, None]


def test_B17_a_hooks_prompt_keeps_the_focus() -> None:
    hooks, model = Hooks(), summariser()
    hooks.on("before_compact", lambda _: Change(prompt="In one sentence, please."))
    session = chat(3000, 3000, 3000)
    engine = Engine(pi(keep_recent_tokens=100), model=model, hooks=hooks)
    run(engine.apply(session, engine.plan(session, force=True, instructions="the footer")))  # type: ignore[arg-type]
    [prompt] = prompts(model)
    assert "In one sentence, please." in prompt
    assert "the footer" in prompt


def test_settings_are_checked_and_named() -> None:
    with pytest.raises(SettingError, match="reserve_tokens"):
        pi(window=1000, reserve_tokens=2000)
    with pytest.raises(SettingError, match="keep_recent"):
        pi(keep_recent_tokens="many")
    with pytest.raises(SettingError, match="no such setting"):
        pi(nonsense=1)
    assert presets.get("pi", keep_recent_tokens="123").settings.keep_recent_tokens == 123


# ── chains ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.data
@pytest.mark.parametrize("name", ["large-session", "before-compaction"])
def test_ten_folds_in_a_row_keep_pairs_newest_bytes_and_the_previous_summary(name: str) -> None:
    source = load(f"{name}.jsonl")
    messages = [x for x in source.path if isinstance(x, e.MessageEntry)]
    session, model = Session(), summariser()
    engine = Engine(pi(keep_recent_tokens=5_000), model=model)
    step, folds = len(messages) // 10, 0
    for number in range(10):
        for entry in messages[number * step : (number + 1) * step]:
            session.append(entry.message)
        plan = engine.plan(session, force=True)
        assert isinstance(plan, Plan), plan
        before = engine.view(session).items
        fold = run(engine.apply(session, plan))
        assert isinstance(fold, e.Fold), fold
        folds += 1
        after = engine.view(session)
        assert orphans(after.items) == []
        check_wire(after)
        kept = next(i for i, item in enumerate(before) if item.entries == (fold.first_kept,))
        assert [x.message for x in before[kept:]] == [x.message for x in after.items[1:]]
    assert folds == 10
    summaries = [f.summary for f in session.annotations(e.Fold)]
    updates = prompts(model)
    for earlier, prompt in zip(summaries, updates[1:], strict=False):
        assert earlier.split("\n")[0] in prompt
