"""Whole, clipped, as a line, gone: in which form a message stands in a folded view."""

from __future__ import annotations

import pytest

from refold import entries as e
from refold import loop, presets
from refold import messages as m
from refold.compare import budgets
from refold.compare.forms import FORM_WORDS, RecordPart, forms_of, forms_sentence
from refold.compare.run import cell, prepare_transcript, row
from refold.session import Session
from tests.compare.sessions import agent_session


def talk() -> Session:
    session = Session()
    session.append(m.user("Please find out why the harbour lights stay off."))
    session.append(m.assistant("", m.call("1", "Read", path="harbour/lights/switch.py")))
    session.append(m.result("1", "def switch(): ...\nreturn OFF"))
    session.append(m.assistant("The switch always returns OFF. That is the whole story."))
    return session


def folded(
    session: Session, first: int, last: int, *put: m.Message, kind: str = "summary"
) -> list[str | None]:
    """The form of each message, by its place, after one more edit."""
    path = list(session.path)
    edit = e.Edit(path[first].id, path[last].id, put, kind)
    session.append(e.Fold(id="fold", parent=session.leaf, edits=(edit,), preset="p"))
    sizes = [10**place for place in range(len(path))]
    forms = forms_of(session, sizes)
    assert sum(part.messages for part in forms.values()) == len(sizes)
    return [next(form for form, part in forms.items() if part.tokens // size % 10) for size in sizes]


def test_what_no_edit_covers_is_whole() -> None:
    session = talk()
    assert forms_of(session, [1, 2, 3, 4]) == {
        **dict.fromkeys(FORM_WORDS, RecordPart()),
        "whole": RecordPart(4, 10),
    }


@pytest.mark.parametrize("kind", ["clip", "mask", "shrink"])
def test_something_shorter_in_its_place_is_clipped(kind: str) -> None:
    stub = m.result("1", "[removed]")
    assert folded(talk(), 2, 2, stub, kind=kind) == ["whole", "whole", "clipped", "whole"]


def test_a_summary_that_says_nothing_of_a_message_loses_it() -> None:
    assert folded(talk(), 0, 3, m.user("Some work was done.")) == ["gone"] * 4
    assert folded(talk(), 0, 3, kind="hide") == ["gone"] * 4


def test_words_that_stand_verbatim_in_a_summary_are_whole_and_single_sentences_lines() -> None:
    text = "Asked: Please find out why the harbour\nlights stay off. Found: The switch always returns OFF."
    assert folded(talk(), 0, 3, m.user(text)) == ["whole", "gone", "gone", "lines"]


def test_a_result_goes_with_its_call() -> None:
    assert folded(talk(), 0, 2, m.user("Read harbour/lights/switch.py")) == [
        "gone",
        "lines",
        "lines",
        "whole",
    ]


def test_a_number_or_key_says_nothing_of_a_message() -> None:
    session = talk()
    text = f"[#1] looked around [{e.key(session.path[0].id)}]"
    assert folded(session, 0, 2, m.user(text)) == ["gone", "gone", "gone", "whole"]


def test_a_call_that_is_issued_again_is_clipped() -> None:
    again = m.assistant("", m.call("1", "Read", path="switch.py"))
    assert folded(talk(), 0, 1, m.user("go on"), again) == ["gone", "clipped", "whole", "whole"]


@pytest.mark.parametrize("name", presets.NAMES)
def test_every_preset_is_told_in_the_same_four_words(name: str) -> None:
    session = agent_session(20)
    measured = loop.run(cell(prepare_transcript("a", session), name, budgets.parse_budget("2500"), 1))
    told = row(measured)
    assert sum(told[form] for form in FORM_WORDS) == pytest.approx(1, abs=1e-3)
    assert sum(part["messages"] for part in told["forms"].values()) == len(session.path)
    assert measured.done is not None
    assert (told["whole"] < 1) == bool(measured.done.session.annotations(e.Fold))


def test_one_message_that_is_not_shown_is_spoken_of_as_one() -> None:
    told = "of 3 messages: 2 whole, 1 not shown (recall finds it)"
    assert forms_sentence({"whole": 2, "clipped": 0, "gone": 1}) == told
    told = "of 2,001 messages: 1 clipped, 2,000 not shown (recall finds them)"
    assert forms_sentence({"clipped": 1, "gone": 2_000}) == told
    assert forms_sentence({"whole": 1, "clipped": 1, "gone": 0}) == "of 2 messages: 1 whole, 1 clipped"
