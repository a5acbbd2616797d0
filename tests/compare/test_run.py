"""Transcripts × presets × budgets × passes."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold import Engine, loop, presets
from refold import messages as m
from refold.compare import budgets
from refold.compare.jobs import transcript_files
from refold.compare.run import Cell, Comparison, ComparisonPlan, compare, row
from refold.errors import SettingError, StorageError
from refold.models.scripted import Scripted
from refold.registry.sessions import save
from refold.session import Session
from tests.compare.sessions import agent_session
from tests.data import shared
from tests.timing import within

COLUMNS = {
    "file", "preset", "budget", "passes", "tokens", "fits", "constraints", "artifacts", "identifiers",
    "future_references", "whole", "clipped", "lines", "gone", "forms", "cost", "seconds", "requests",
    "log_tokens", "counts", "paths", "calls", "numbers",
}  # fmt: skip


def run(plan: ComparisonPlan, *sessions: Session) -> Comparison:
    return loop.run(compare([(f"{number}.jsonl", one) for number, one in enumerate(sessions)], plan))


@pytest.mark.parametrize(
    ("text", "whole", "tokens"),
    [
        ("20k", 5, 20_000),
        ("8000", 5, 8_000),
        ("1.5k", 5, 1_500),
        ("20%", 1_000, 200),
        ("1m", 5, 1_000_000),
        ("100%", 7, 7),
    ],
)
def test_budgets_are_tokens_or_shares(text: str, whole: int, tokens: int) -> None:
    assert budgets.parse_budget(text).of(whole) == tokens


@pytest.mark.parametrize("text", ["", "k", "-3", "0", "0%", "101%", "12 tokens", "1e9", "٣k%", "9" * 40])
def test_other_budgets_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SettingError):
        budgets.parse_budget(text)


def test_a_design_does_all_that_its_trigger_asks_for_whatever_the_transcript_ends_with() -> None:
    session = agent_session(60, size=100)
    session.append(m.assistant("", m.call("last", "Bash", command="ls")))
    session.append(m.result("last", "a.py"))
    [cell] = run(ComparisonPlan(("window",), budgets.parse_budgets("50k")), session).cells
    assert cell.done is not None
    assert len(cell.done.folds) > 3
    assert len(Engine("window").view(cell.done.session)) < 40


def test_every_row_that_does_not_fit_says_why_in_the_words_of_the_design() -> None:
    session = agent_session()
    session.append(m.assistant("A very long answer. " * 400))
    plan = ComparisonPlan(("window", "rounds", "layered", "pi", "augment"), budgets.parse_budgets("800"))
    told = {cell.preset: row(cell) for cell in run(plan, session).cells}
    assert not any(cells["fits"] for cells in told.values())
    for preset, words in (
        ("layered", "finished round(s), and at least 10 stay"),
        ("rounds", "3 finished round(s) stay verbatim"),
        ("pi", "nothing was said since the last fold"),
        ("window", "messages of 40"),
        ("augment", "there is nothing before the exchanges that stay"),
    ):
        assert words in told[preset]["why"]
    assert all(cells["why"] == cells["error"] for cells in told.values())


def test_compare_knows_what_a_design_says_of_a_view_that_is_small_enough() -> None:
    """Archives that take half of the window (E6) are named in the comparison as in `refold compact`."""
    session = Session(id="s")
    for number in range(30):
        session.append(m.user(f"Question {number}: " + f"why does part {number} fail? " * 12))
        session.append(m.assistant(f"Answer {number}: " + f"part {number} fails at {number}00 ms. " * 12))
    [cell] = run(ComparisonPlan(("layered:keep_rounds=0",), budgets.parse_budgets("3k"), (5,)), session).cells
    assert cell.tokens is not None
    assert cell.tokens <= 3_000
    assert cell.fits is False
    assert "the archives alone take" in (cell.error or "")


def test_every_cell_is_there_in_order_with_all_columns() -> None:
    plan = ComparisonPlan(("refold", "pi"), budgets.parse_budgets("3k,50%"), (1, 2))
    done = run(plan, agent_session(), agent_session(6))
    assert len(done.cells) == 2 * 2 * 2 * 2
    assert [cell.preset for cell in done.cells[:2]] == ["refold", "pi"]
    for cell in done.cells:
        assert row(cell).keys() >= COLUMNS
        assert not cell.failed, cell.error
    fitting = [cell for cell in done.cells if cell.preset == "refold"]
    assert all(cell.fits and cell.tokens is not None and cell.tokens <= cell.budget for cell in fitting)
    assert all(cell.share("words") == 1.0 for cell in fitting)


def test_a_row_has_the_share_and_the_count_of_every_measure() -> None:
    [cell] = run(ComparisonPlan(("pi",), budgets.parse_budgets("3k")), agent_session(20)).cells
    found = row(cell)
    for column, measure in (
        ("constraints", "words"),
        ("artifacts", "files"),
        ("future_references", "needed"),
        ("calls", "calls"),
    ):
        count = found["counts"][measure]
        assert 0 <= count["kept"] <= count["of"] > 0
        assert found[column] == round(count["kept"] / count["of"], 4)


def test_all_presets_are_measured_by_the_same_log() -> None:
    done = run(ComparisonPlan(presets.NAMES, budgets.parse_budgets("2k")), agent_session(12))
    whole = {tuple((name, count.of) for name, count in sorted(cell.counts.items())) for cell in done.cells}
    assert len(whole) == 1


def test_a_row_is_there_once_however_its_budget_is_written() -> None:
    session = agent_session(20)
    size = run(ComparisonPlan(("pi",), budgets.parse_budgets("3k")), session).cells[0].log_tokens
    done = run(ComparisonPlan(("pi",), budgets.parse_budgets(f"3k,3000,{size // 2},50%")), session)
    assert [(cell.asked, cell.budget) for cell in done.cells] == [("3k", 3_000), (str(size // 2), size // 2)]


def test_a_file_that_is_given_twice_is_compared_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    save(agent_session(), file)
    detour = f"{tmp_path}/../{tmp_path.name}/a.jsonl"
    assert transcript_files([str(file), detour, str(tmp_path)]) == [(str(file), True)]
    assert [named for _, named in transcript_files([str(tmp_path), detour])] == [True]


def test_names_needed_later_count_only_where_the_first_part_has_to_be_folded() -> None:
    session = agent_session(20)
    tight, loose = run(ComparisonPlan(("refold",), budgets.parse_budgets("3k,1m")), session).cells
    assert tight.counts["needed"].of > 0
    assert "needed" not in loose.counts and row(loose)["future_references"] is None


def test_a_cell_that_fails_says_why_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    real = presets.make

    def broken(name: str, settings: object, **more: object) -> object:
        if name == "pi":
            raise ZeroDivisionError("oh")
        if name == "window":
            raise ModuleNotFoundError("No module", name="refold.presets.window")
        return real(name, settings, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(presets, "make", broken)
    done = run(ComparisonPlan(("pi", "window", "refold"), budgets.parse_budgets("3k")), agent_session())
    pi, window, good = done.cells
    assert pi.failed and pi.error == "ZeroDivisionError: oh"
    assert window.failed and window.error == "this preset is not installed (refold.presets.window)"
    assert not good.failed
    assert row(pi)["tokens"] is None and row(pi)["money"] is None


def test_a_file_that_cannot_be_read_has_its_cells_too() -> None:
    given: list[tuple[str, Session | StorageError]] = [
        ("bad", StorageError("no such file")),
        ("good", agent_session()),
    ]
    done = loop.run(compare(given, ComparisonPlan(("refold",), budgets.parse_budgets("3k"))))
    assert [cell.error for cell in done.cells] == ["no such file", None]
    assert done.unread == (("bad", "no such file"),)


def test_a_model_is_asked_and_its_requests_and_money_are_counted() -> None:
    def answer(_: object) -> str:
        return (
            "## Goal\nFix the login in src/module_00/handler.py.\n\n## Progress\nhandle_0_request was read."
        )

    model = Scripted(*[answer] * 8)
    done = run(ComparisonPlan(("refold",), budgets.parse_budgets("2500"), (1,), model), agent_session(20))
    [cell] = done.cells
    assert not cell.failed, cell.error
    assert cell.requests == 1 and len(model.requests) == 2
    assert cell.paid is not None and cell.paid.usual.summaries > 0


def test_sources_are_never_changed_and_runs_are_repeatable() -> None:
    session = agent_session()
    before = list(session.entries)
    plan = ComparisonPlan(("refold", "augment", "window"), budgets.parse_budgets("3k"))
    one, two = run(plan, session), run(plan, session)
    assert list(session.entries) == before

    def figures(cell: Cell) -> dict[str, object]:
        return {key: value for key, value in row(cell).items() if key != "seconds"}

    assert [figures(cell) for cell in one.cells] == [figures(cell) for cell in two.cells]


def test_what_a_replay_makes_has_the_same_ids_each_time() -> None:
    """They stand in views and reasons as keys, and keys have tokens."""
    session, plan = (
        agent_session(30),
        ComparisonPlan(("layered:keep_rounds=0", "refold"), budgets.parse_budgets("1k"), (3,)),
    )
    one, two = run(plan, session), run(plan, session)
    for first, second in zip(one.cells, two.cells, strict=True):
        assert first.done is not None and second.done is not None
        assert first.done.all_folds
        assert [e.id for e in first.done.session.entries] == [e.id for e in second.done.session.entries]
        assert {**row(first), "seconds": 0} == {**row(second), "seconds": 0}


def test_a_cell_is_counted_as_if_it_were_the_only_one() -> None:
    """Sizes are shared between the cells of a transcript; what each of them makes is its own."""
    session, listed = agent_session(20), budgets.parse_budgets("1k,2k")
    together = run(ComparisonPlan(("refold", "pi"), listed, (1, 2)), session).cells
    assert len(together) == 8
    for cell in together:
        assert cell.done is not None
        view = Engine("refold").view(Session(cell.done.session.entries))
        assert cell.tokens == view.tokens


@pytest.mark.parametrize("session", [Session(), agent_session(0), agent_session(1)], ids=["empty", "0", "1"])
def test_conversations_too_small_to_fold_are_no_error(session: Session) -> None:
    done = run(ComparisonPlan(presets.NAMES, budgets.parse_budgets("20k,20%")), session)
    assert len(done.cells) == 2 * len(presets.NAMES)
    for cell in done.cells:
        assert "Error" not in (cell.error or ""), cell


def test_unknown_prices_are_refused() -> None:
    with pytest.raises(SettingError, match="no prices for 'no-such-model'"):
        run(
            ComparisonPlan(("refold",), budgets.parse_budgets("3k"), prices="no-such-model"), agent_session(1)
        )


@pytest.mark.data
@pytest.mark.timing
@pytest.mark.parametrize(
    "name",
    [
        "claude-code/session-share-general-tool-calls.jsonl",
        pytest.param("pi/before-compaction.jsonl", marks=pytest.mark.torture),
    ],
)
def test_a_real_session_at_20k_gives_a_full_table_of_six_presets_in_30_seconds(name: str) -> None:
    session = refold.load(shared(name))
    with within(30):
        done = run(ComparisonPlan(presets.NAMES, budgets.parse_budgets("20k")), session)
    assert [cell.preset for cell in done.cells] == list(presets.NAMES)
    assert not [cell.error for cell in done.cells if cell.failed]
    ours = done.cells[0]
    assert ours.fits and ours.share("words") == 1.0
    for cell in done.cells:
        for measure in ("words", "files", "identifiers", "calls"):
            share = cell.share(measure)
            assert share is not None and 0 <= share <= 1
        assert cell.cost is not None and cell.cost > 0
