"""The verdict says which preset keeps most, by which counts, and where it loses."""

from __future__ import annotations

import re

from refold import loop, presets
from refold.compare import budgets
from refold.compare.forms import MessageForm, RecordPart
from refold.compare.measures import CountOf
from refold.compare.money import Paid, ReplayBill
from refold.compare.run import Cell, Comparison, ComparisonPlan, compare
from refold.compare.verdict import preset_groups, verdicts
from refold.session import Session
from tests.compare.sessions import agent_session


def cell(
    preset: str,
    words: int = 0,
    files: int = 0,
    *,
    of: tuple[int, int] = (12, 31),
    tokens: int = 9_848,
    log: int = 106_312,
    asked: str = "10k",
    fits: bool = True,
    file: str = "a",
    calls: int = 0,
    cost: float = 1.0,
    forms: dict[MessageForm, RecordPart] | None = None,
) -> Cell:
    """A row with these counts."""
    usual: dict[MessageForm, RecordPart] = {
        "whole": RecordPart(3, 9),
        "clipped": RecordPart(2, 5),
        "lines": RecordPart(),
        "gone": RecordPart(4, 8),
    }
    return Cell(
        file=file,
        preset=preset,
        budget=10_000,
        passes=1,
        asked=asked,
        log_tokens=log,
        tokens=tokens,
        fits=fits,
        counts={"words": CountOf(words, of[0]), "files": CountOf(files, of[1]), "calls": CountOf(calls, 80)},
        forms=forms or usual,
        cost=cost,
        paid=Paid(ReplayBill(2.28)),
    )


def said(*cells: Cell) -> str:
    """All verdicts, as they are printed."""
    return "\n".join(line for verdict in verdicts(cells) for line in (verdict.title, *verdict.lines))


def made(*sessions: Session, names: tuple[str, ...] = presets.NAMES, budget: str = "3k") -> Comparison:
    listed = [(f"{number}.jsonl", session) for number, session in enumerate(sessions)]
    return loop.run(compare(listed, ComparisonPlan(names, budgets.parse_budgets(budget))))


def test_the_reason_comes_first_with_its_counts_and_then_the_next_best() -> None:
    [verdict] = verdicts([cell("pi", 9, 31, tokens=8_700), cell("refold", 12, 31, cost=0.96)])
    assert verdict.title == (
        "At 10k tokens, `refold` keeps 12 of the 12 words you typed and 31 of 31 changed files, in 9,848 tokens."
    )
    assert verdict.lines == (
        "Next best is `pi` with 9 words and 31 files, in 8,700 tokens.",
        "106,312 tokens became 9,848. Of 9 messages: 3 whole, 2 clipped, 4 not shown (recall finds them).",
        "Saves 58 % ($2.28 → $0.960).",
    )
    assert verdict.best is not None and verdict.best.preset == "refold"


def test_a_preset_that_keeps_more_is_named_whoever_made_it() -> None:
    text = said(cell("refold", 3, 30), cell("pi", 9, 31))
    assert text.startswith("At 10k tokens, `pi` keeps 9 of the 12 words")
    assert "Next best is `refold` with 3 words and 30 files" in text


def test_a_tie_is_told_as_a_tie_and_what_tells_the_equals_apart() -> None:
    text = said(cell("refold", 12, 31, calls=3), cell("pi", 12, 31, calls=20), cell("window", 1, 1))
    assert text.startswith(
        "At 10k tokens, `pi` and `refold` keep the same amount: 12 of the 12 words you typed"
    )
    assert "Of the rest `pi` keeps most: 20 of 80 calls." in text
    assert "Next best is `window` with 1 word and 1 file" in text
    cheap = said(cell("refold", 12, 31, cost=3.0), cell("pi", 12, 31, tokens=9_000, cost=2.5))
    assert "`pi` costs least." in cheap
    assert "Costs 10 % more than not folding ($2.28 → $2.50)" in cheap


def test_where_the_winner_loses_is_said() -> None:
    text = said(cell("refold", 12, 31, calls=31), cell("pi", 9, 31, calls=64))
    assert "Where it loses: `pi` has 64 of 80 calls, `refold` 31." in text


def test_ten_tokens_of_13_709_are_not_called_nothing_lost() -> None:
    clipped: dict[MessageForm, RecordPart] = {
        "whole": RecordPart(), "clipped": RecordPart(1, 13_709), "lines": RecordPart(), "gone": RecordPart()
    }  # fmt: skip
    text = said(cell("refold", 0, 0, tokens=10, log=13_709, forms=clipped))
    assert "13,709 tokens became 10. Of 1 message: 1 clipped." in text
    assert "keeps 0 of the 12 words you typed and 0 of 31 changed files, in 10 tokens" in text
    assert "nothing" not in text.lower()


def test_a_budget_says_of_what() -> None:
    assert said(cell("pi", asked="10k")).startswith("At 10k tokens, ")
    assert said(cell("pi", asked="20%")).startswith("At 20% of the log, ")


def test_a_view_that_does_not_fit_keeps_nothing() -> None:
    large = cell("layered", 12, 31, tokens=50_000, fits=False)
    text = said(large, cell("pi", 9, 31))
    assert text.startswith("At 10k tokens, `pi` keeps 9")
    assert "Does not fit: `layered` (50,000 tokens)." in text
    assert said(large) == "No preset fits 10k tokens.\nNearest is `layered` with 50,000 tokens."
    both = said(cell("pi", 9, 31), cell("pi", 12, 31, file="b", fits=False))
    assert "`pi` keeps 9 of the 24 words you typed and 31 of 62 changed files" in both
    assert "It fits 1 of 2 conversations." in both


def test_presets_with_the_same_figures_are_one_row() -> None:
    listed = preset_groups(
        [cell("augment", 3, 3), cell("augment:carry_previous_summary=true", 3, 3), cell("pi", 3, 4)]
    )
    assert [(group.preset, group.same) for group in listed] == [
        ("pi", ()), ("augment", ("augment:carry_previous_summary=true",)),
    ]  # fmt: skip


def test_what_fits_as_it_is_is_said_once_for_all_presets_and_budgets() -> None:
    done = made(agent_session(60, size=100), names=("refold", "window"), budget="1m,2m")
    assert preset_groups(done.cells) == []
    [verdict] = verdicts(done.cells)
    assert verdict.title == "Nothing needs folding." and verdict.best is None
    assert "fits 1m tokens and 2m tokens as it is" in verdict.lines[0]
    assert verdict.lines[1] == "Presets that fold it anyway: `window`."


def test_logs_that_fit_as_they_are_do_not_speak_for_others() -> None:
    text = said(cell("pi", 9, 31), cell("pi", 12, 31, file="small", log=4_000))
    assert "`pi` keeps 9 of the 12 words you typed" in text


def test_every_budget_has_its_verdict() -> None:
    titles = [verdict.title for verdict in verdicts(made(agent_session(12), budget="2k,3k").cells)]
    assert [title.split(",")[0] for title in titles] == ["At 2k tokens", "At 3k tokens"]
    assert all(re.search(r"`\w+` .*\d+ of \d+ changed files", title) for title in titles)


def test_where_nothing_could_be_read_the_reason_is_given() -> None:
    done = loop.run(
        compare([("a", OSError("no such file"))], ComparisonPlan(("refold",), budgets.parse_budgets("3k")))
    )
    assert said(*done.cells) == "Nothing could be compared.\nno such file"
