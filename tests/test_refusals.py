"""R13, B4: after an overflow nobody is stuck, and no more is learned from a refusal than it says."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.engine.summarise import ByModel
from refold.errors import ModelError, Overflow, OverflowAgain
from refold.loop import run
from refold.models.failures import Secrets, translate
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted, fail, say
from refold.protocols import Request
from refold.text.lenient_json import JsonObject
from refold.tokens import get as counter

NAMED = "prompt is too long: 30000 tokens > 9000 maximum"
VAGUE = "400 status code (no body)"
WINDOW = 60_000


def talk(turns: int = 8, words: int = 600) -> Session:
    session = Session()
    for number in range(turns):
        session.append(m.user(f"question {number} " + "word " * words))
        session.append(m.assistant(f"answer {number} " + "well " * words), model="a:big")
    session.append(m.user("and now?"))
    return session


def refold(window: int = WINDOW, **settings: Any) -> Engine:
    return Engine(presets.get("refold", window=window, **settings))


def twice(engine: Engine, session: Session, model: str = "a:big") -> None:
    for _ in range(2):
        assert engine.failed(session, "prompt is too long", model=model)
        try:
            run(engine.prepare(session))
        except OverflowAgain:
            return
    raise AssertionError("a second refusal in a row is said")


# ── never stuck ─────────────────────────────────────────────────────────────────────────────────


def test_R13_a_new_message_starts_afresh() -> None:
    session, engine = talk(), refold()
    twice(engine, session)
    with pytest.raises(OverflowAgain):
        run(engine.prepare(session))
    session.append(m.user("then something else"))
    run(engine.prepare(session))


def test_R13_another_model_starts_afresh() -> None:
    session, engine = talk(), refold()
    twice(engine, session)
    run(engine.prepare(session, model="b:larger"))
    assert run(engine.call(session, Scripted("fine", name="b:larger"))).text == "fine"


def test_R13_a_model_that_was_changed_in_the_log_starts_afresh() -> None:
    session, engine = talk(), refold()
    twice(engine, session)
    session.append(session.make(e.ModelChange, model="b:larger"))
    run(engine.prepare(session))


def test_R13_another_window_starts_afresh_also_when_reopened() -> None:
    session = talk()
    twice(refold(), session)
    run(refold(2 * WINDOW).prepare(Session(session.entries)))
    with pytest.raises(OverflowAgain):
        run(refold().prepare(Session(session.entries)))


def test_B4_only_the_model_that_refused_makes_it_an_overflow() -> None:
    session = talk()
    engine = Engine(presets.get("pi", window=WINDOW, keep_recent_tokens=2_000))
    engine.failed(session, "prompt is too long", model="a:big")
    run(engine.prepare(Session(session.entries), model="b:larger"))
    assert not session.annotations(e.Fold)
    run(engine.prepare(session, model="a:big"))
    assert [fold.reason[:8] for fold in session.annotations(e.Fold)] == ["overflow"]


# ── what is learned ─────────────────────────────────────────────────────────────────────────────


def learned(session: Session) -> list[tuple[str, int]]:
    return [(note.model, note.tokens) for note in session.annotations(e.LearnedWindow)]


def test_R13_a_number_is_learned_for_the_model_that_named_it() -> None:
    session, engine = talk(), refold()
    engine.failed(session, NAMED, model="a:big")
    assert learned(session) == [("a:big", 9_000)]
    assert engine.preset_for(session).window == 9_000
    assert engine.preset_for(session, "b:larger").window == WINDOW
    session.append(session.make(e.ModelChange, model="b:larger"))
    assert engine.preset_for(session).window == WINDOW


@pytest.mark.parametrize("design", ["pi", "refold"])
def test_R13_a_view_fits_what_the_model_that_is_asked_taught_though_more_is_said_meanwhile(
    design: str,
) -> None:
    session = talk()

    def summary(request: Request) -> str:
        if request.purpose == "summary" and len(session.annotations(e.Note)) == 0:
            session.append(session.make(e.Note, content=m.content("word " * 6_000), kind="note"))
        return "They spoke of words."

    writer = Scripted(then=summary, context_window=200_000)
    engine = Engine(
        presets.get(design, window=WINDOW), summariser=ByModel(writer, counter(), retries=NO_RETRY)
    )
    engine.failed(session, NAMED, model="a:big")
    session.append(session.make(e.ModelChange, model="b:larger"))
    session.append(m.user("and now?"))
    view = run(engine.prepare(session, model="a:big"))
    assert view.tokens <= 9_000


def test_R13_a_refusal_without_a_number_teaches_only_where_the_request_was_large() -> None:
    session = talk()
    size = Engine().view(session).tokens
    large = refold(int(1.9 * size))
    large.failed(twin := Session(session.entries), "prompt is too long", model="a:big")
    assert learned(twin) == [("a:big", int(0.9 * size))]
    small = refold(int(2.1 * size))
    assert small.failed(twin := Session(session.entries), "prompt is too long", model="a:big")
    assert learned(twin) == []


class Refused(Exception):
    """What an SDK raises."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status_code = status


@pytest.mark.parametrize("told", [VAGUE, translate("a:big", Refused(VAGUE, 400), Secrets())])
def test_R13_an_answer_without_a_body_to_a_small_request_is_no_overflow(told: str | Exception) -> None:
    session, engine = talk(2, 40), refold()
    before = len(session.path)
    for number in range(20):
        assert not engine.failed(session, told, model="a:big")
        session.append(m.user(f"again {number}"))
        run(engine.prepare(session))
    assert not learned(session) and not session.annotations(e.Fold)
    assert len(session.path) == before + 40


def test_R13_an_answer_without_a_body_is_raised_as_it_is() -> None:
    session = talk(2, 40)
    error = translate("a:big", Refused(VAGUE, 400), Secrets())
    with pytest.raises(Overflow, match="no body"):
        run(refold().call(session, Scripted(fail(error)), retries=NO_RETRY))
    assert session.path[-1].message == m.user("and now?")  # type: ignore[union-attr]


@pytest.mark.parametrize("number", [0, 1, 10, 128, 511])
def test_R13_a_number_that_is_no_window_is_not_learned(number: int) -> None:
    """A window of one token, and every later call ended in `DoesNotFit`."""
    session, engine = talk(2, 40), refold()
    for told in (
        f"prompt is too long: 9000 tokens > {number} maximum",
        f"This model's maximum context length is {number} tokens.",
        Overflow("prompt is too long", window=number or None),
    ):
        assert engine.failed(session, told, model="a:big")
    assert not learned(session) and engine.preset_for(session).window == WINDOW
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="a:big", tokens=number))
    session.append(m.user("next"))
    assert run(engine.call(session, Scripted(then="fine", name="a:big"))).text == "fine"


def test_R13_a_later_success_above_it_takes_it_back() -> None:
    session, engine = talk(), refold()
    engine.failed(session, NAMED, model="a:big")
    session.append(m.user("again"))
    session.append(m.assistant("fine"), model="a:big", usage=m.Usage(input=8_000, output=5))
    assert engine.preset_for(session).window == 9_000
    session.append(m.user("again"))
    session.append(m.assistant("fine"), model="b:larger", usage=m.Usage(input=9_500, output=5))
    assert engine.preset_for(session, "a:big").window == 9_000, "another model's success says nothing"
    session.append(m.user("again"))
    session.append(m.assistant("fine"), model="a:big", usage=m.Usage(input=9_001, output=5))
    assert engine.preset_for(session).window == WINDOW


def test_R13_notes_of_release_0_1_are_read_and_judged() -> None:
    """It wrote a note for every refusal: with the number, or with 0.9 of whatever had been sent."""
    session = talk()
    session.append(m.Assistant((), stop="error", error=VAGUE), model="a:big")
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="a:big", tokens=868))
    assert refold().preset_for(session).window == WINDOW
    session.append(m.Assistant((), stop="error", error=NAMED), model="a:big")
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="a:big", tokens=9_000))
    assert refold().preset_for(session).window == 9_000


# ── other signs ─────────────────────────────────────────────────────────────────────────────────


def test_R13_a_reply_that_stops_for_length_before_it_began_is_folded_and_tried_again() -> None:
    session = talk()
    size = Engine().view(session).tokens
    chat = Scripted(say(stop="length", usage=m.Usage(input=size)), "fine", name="a:big")
    engine = refold(int(1.5 * size))
    assert run(engine.call(session, chat)).text == "fine"
    assert len(session.annotations(e.Fold)) == 1


def test_R13_a_short_reply_and_one_to_a_small_request_are_taken_as_they_are() -> None:
    for reply, window in ((say("some", stop="length"), WINDOW), (say(stop="length"), 10 * WINDOW)):
        session, chat = talk(), Scripted(reply, name="a:big")
        assert run(refold(window).call(session, chat)).stop == "length"
        assert not session.annotations(e.Fold)


def test_R13_a_reply_that_the_caller_observed_counts_too() -> None:
    session = talk()
    size = Engine().view(session).tokens
    engine = refold(int(1.5 * size))
    raw: JsonObject = {
        "choices": [{"message": {"role": "assistant", "content": None}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": size, "completion_tokens": 0},
    }
    engine.observe(session, raw)
    run(engine.prepare(session))
    assert len(session.annotations(e.Fold)) == 1


@pytest.mark.parametrize("name", ["refold", "pi", "window", "layered", "augment"])
def test_R13_every_design_that_folds_by_size_recovers(name: str) -> None:
    settings = {
        "pi": {"keep_recent_tokens": 2_000},
        "layered": {"keep_rounds": 2},
        "augment": {
            "prompt": "Sum it up.",
            "trigger_on_history_size_chars": 10**9,
            "history_tail_size_chars_to_exclude": 2_000,
        },
    }.get(name, {})
    session, engine = talk(10), Engine(presets.make(name, {"window": WINDOW, **settings}))
    before = run(engine.prepare(session)).tokens
    assert not session.annotations(e.Fold)
    chat = Scripted(fail(Overflow("prompt is too long")), "fine", name="a:big")
    assert run(engine.call(session, chat, retries=NO_RETRY)).text == "fine"
    assert session.annotations(e.Fold)
    assert engine.view(session).tokens < before


def test_other_errors_teach_nothing_and_are_raised() -> None:
    session = talk()
    with pytest.raises(ModelError):
        run(refold().call(session, Scripted(fail(ModelError("gone"))), retries=NO_RETRY))
    assert not learned(session)
