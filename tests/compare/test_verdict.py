"""The verdict says what to take, what is kept and lost, and what it costs."""

from __future__ import annotations

import re

from refold import loop, presets
from refold.compare import budgets
from refold.compare.forms import Form, Part
from refold.compare.run import Cell, Comparison, Plan, compare
from refold.compare.verdict import Verdict
from refold.compare.verdict import verdict as verdict_of
from refold.session import Session
from tests.compare.sessions import agent_session


def made(*sessions: Session, names: tuple[str, ...] = presets.NAMES, budget: str = "3k") -> Comparison:
    listed = [(f"{number}.jsonl", session) for number, session in enumerate(sessions)]
    return loop.run(compare(listed, Plan(names, budgets.parse_list(budget))))


def verdict(done: Comparison) -> Verdict:
    return verdict_of(done.cells, [t.tokens for t in done.transcripts])


def test_it_names_a_design_what_it_keeps_what_it_loses_and_the_money() -> None:
    found = verdict(made(agent_session(20)))
    assert re.fullmatch(r"Take `\w+` at 3k\.", found.title)
    text = " ".join(found.text)
    assert re.search(r"Keeps .*your own words.*changed files.*of 86 messages \d+ whole", text)
    assert "Lost: " in text
    assert re.search(r"Without folding \$\d+\.\d\d, with it \$\d+\.\d\d \([+−]\d+%|the same with it", text)


def test_the_one_taken_fits_and_none_that_fits_keeps_clearly_more() -> None:
    found = verdict(made(agent_session(20), agent_session(8)))
    assert found.best is not None and all(cell.fits for cell in found.best.cells)
    assert "It fits in 2 of 2 transcripts" in " ".join(found.text)


def test_where_nothing_needs_folding_nothing_is_recommended() -> None:
    found = verdict(made(agent_session(2), names=("refold",), budget="1m"))
    assert found.best is None and found.title == "Nothing needs folding."
    assert "fits 1m as it is" in found.text[0]


def test_a_design_that_folds_what_fits_anyway_is_not_recommended() -> None:
    done = made(agent_session(60, size=100), names=("refold", "window"), budget="1m")
    assert any(not cell.untouched for cell in done.cells)
    assert verdict(done).title == "Nothing needs folding."


def test_where_no_design_fits_that_is_said() -> None:
    found = verdict(made(agent_session(12), names=("rounds", "layered"), budget="200"))
    assert found.best is None and found.title == "No design fits."


def test_where_nothing_could_be_read_the_reason_is_given() -> None:
    done = loop.run(compare([("a", OSError("no such file"))], Plan(("refold",), budgets.parse_list("3k"))))
    found = verdict(done)
    assert found.title == "Nothing could be compared." and found.text == ("no such file",)


def test_within_two_points_the_cheaper_one_is_taken() -> None:
    def cell(asked: str, kept: float, cost: float) -> Cell:
        forms: dict[Form, Part] = {
            "whole": Part(1, 1),
            "clipped": Part(1, 1),
            "lines": Part(),
            "gone": Part(),
        }
        given = {"constraints": kept, "artifacts": kept, "cost": cost, "forms": forms}
        return Cell(file="a", preset="refold", budget=9, passes=1, asked=asked, tokens=9, fits=True, **given)  # pyright: ignore[reportArgumentType]

    done = Comparison((cell("1k", 0.5, 0.1), cell("2k", 0.99, 1.0), cell("4k", 1.0, 2.0)), ())
    assert verdict(done).title == "Take `refold` at 2k."
