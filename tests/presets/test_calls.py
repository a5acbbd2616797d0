"""R19, M11: a call that stands in a view is the call that was made, byte for byte; a step whose call is too large leaves
with its batch, and the record quotes it."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold.data
from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.errors import DoesNotFit
from refold.loop import run
from refold.session import View
from refold.session.edits import said_by
from refold.session.invariants import settled
from refold.testing.validators import validate_anthropic, validate_view
from refold.transcripts import read_stream
from tests.data import DATA, all_transcripts
from tests.strategies import examples

COUNTER = tokens.get()
PRESETS = ("refold", "pi", "window", "augment", "rounds", "layered")
BUDGETS = (2_000, 3_000, 4_000, 8_000, 16_000, 32_000)
DIALECTS = ("openai", "anthropic", "responses")


# ── what a view shows of calls ──────────────────────────────────────────────────────────────────


def made(messages: Iterable[m.Message]) -> set[tuple[str, str, str]]:
    """Id, name and arguments of every call."""
    return {(call.id, call.name, m.arguments_json(call)) for x in messages for call in x.calls}


def sent(value: Any) -> set[tuple[str, str]]:
    """Name and arguments of every call in what is sent, in any dialect."""
    found: set[tuple[str, str]] = set()
    if isinstance(value, list):
        found.update(*map(sent, value))
    elif isinstance(value, dict):
        if value.get("type") == "tool_use":
            return {(value["name"], json.dumps(value["input"]))}
        if "name" in value and "arguments" in value:
            return {(value["name"], value["arguments"])}
        found.update(*map(sent, value.values()))
    return found


class Log:
    """The calls of a conversation, as they were made and as each dialect says them."""

    def __init__(self, messages: Iterable[m.Message]) -> None:
        self.messages = list(messages)
        self.made, whole = made(self.messages), Session()
        for message in self.messages:
            whole.append(message)
        view = Engine().view(whole)
        self.sent = {name: sent(view.to(name)) for name in DIALECTS}

    def altered(self, view: View) -> list[Any]:
        """Calls of a view that nobody made."""
        wire = [call for name in DIALECTS for call in sent(view.to(name)) - self.sent[name]]
        return [*(made(view.messages) - self.made), *wire]


@cache
def log_of(path: Path) -> Log:
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if path.suffix == ".gz" else raw
    session = Session.of(read_stream(io.BytesIO(raw), name=path.name.removesuffix(".gz")))
    return Log(message for x in session.path if (message := said_by(x)) is not None)


def altered(log: Log, preset: str, budget: int, folds: int) -> list[Any]:
    """Calls that nobody made, of the views after each piece of a conversation; where one does not fit, as far as it
    came."""
    session, engine, found = Session(), Engine(presets.get(preset, budget=budget)), list[Any]()
    step = -(-len(log.messages) // folds)
    for start in range(0, len(log.messages), step):
        for message in log.messages[start : start + step]:
            session.append(message)
        try:
            view = run(engine.prepare(session))
        except DoesNotFit:
            view = engine.view(session)
        found += log.altered(view)
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("budget", [2_000, 8_000])
@pytest.mark.parametrize("preset", PRESETS)
def test_R19_every_call_of_a_view_of_the_bundled_session_is_a_call_of_the_log(
    preset: str, budget: int
) -> None:
    assert altered(log_of(Path(refold.data.__file__).parent / "sample.jsonl.gz"), preset, budget, 3) == []


WAYS = [(budget, folds) for folds in (1, 3) for budget in BUDGETS]
TRANSCRIPTS = [*all_transcripts(), *sorted((DATA / "claude-code-compactions").glob("*"))]
of_every_transcript = pytest.mark.parametrize(
    "path", TRANSCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name[:30]}"
)


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@of_every_transcript
def test_M11_calls_of_views_of_every_transcript_are_calls_of_the_log(path: Path, preset: str) -> None:
    """Two of the twelve ways for each transcript and preset, other ones for the next."""
    log, first = log_of(path), TRANSCRIPTS.index(path) + PRESETS.index(preset)
    assert not any(altered(log, preset, *way) for way in WAYS[first % 6 :: 6])


@pytest.mark.data
@pytest.mark.torture
@of_every_transcript
def test_M11_every_call_of_every_view_of_every_transcript_is_a_call_of_the_log(path: Path) -> None:
    assert not any(altered(log_of(path), preset, *way) for preset in PRESETS for way in WAYS)


# ── made-up sessions with huge arguments ────────────────────────────────────────────────────────


def rows(name: str, size: int) -> str:
    return "\n".join(f"{name}, row {number}: {number * 7919 % 1009} of \\n {{}}" for number in range(size))


def call_of(id: str, name: str, kind: int, size: int) -> m.Call:
    """A call with arguments of about `size` rows."""
    body = rows(id, size)
    given: tuple[dict[str, Any], ...] = (
        {"path": f"src/{id}.py", "content": body},
        {"command": ["bash", "-lc", body], "timeout": 7.5},
        {"edits": [{"old": body[n : n + 40], "new": body[n : n + 90]} for n in range(0, len(body), 90)]},
        {"deep": [[[{"er": [body, None, True, {"": body[:9]}]}]]]},
        {"text": f"汉字🙂é\u2028{id}" * size, "名": body[: size * 5]},
    )
    return m.Call(id, name, given[kind]) if kind < len(given) else m.Call(id, name, raw=f'{{"path": "{body}')


Step = tuple[int, tuple[tuple[str, int, int, int], ...]]
"""Rows that it says, and for each call its name, the kind and the rows of its arguments, the rows of its result."""


class Work(NamedTuple):
    """A conversation in numbers: turns of steps, the last of which goes on."""

    turns: tuple[tuple[Step, ...], ...]
    thinks: str
    asks: bool

    def messages(self) -> list[m.Message]:
        said: list[m.Message] = []
        for turn, steps in enumerate(self.turns):
            said += [m.assistant(f"Turn {turn - 1} is done.")] if turn else []
            said.append(m.user(f"Request {turn}: never touch folder number {turn * 31}."))
            for number, (words, calls) in enumerate(steps):
                signed = self.thinks == "each" or (self.thinks == "first" and number == 0)
                id = f"c{turn}_{number}"
                thought = [m.thinking(f"thought {id}", f"sig {id}")] if signed else []
                text = [rows(f"why {id}", words)] if words else []
                made = [call_of(f"{id}_{n}", *call[:3]) for n, call in enumerate(calls)]
                said.append(m.assistant([*thought, *text, *made]))
                said += [
                    m.result(call.id, rows(f"out {call.id}", size), name=call.name)
                    for call, (*_, size) in zip(made, calls, strict=True)
                ]
        return [*said, m.assistant("All done."), m.user("And now?")] if self.asks else said


_calls = st.tuples(
    st.sampled_from(("Write", "Bash", "Edit")),
    st.integers(0, 5),
    st.sampled_from((0, 0, 0, 2, 12, 60, 400)),
    st.sampled_from((1, 1, 8, 60)),
)
_steps = st.tuples(st.sampled_from((0, 0, 3, 20)), st.lists(_calls, min_size=1, max_size=3).map(tuple))
works = st.builds(
    Work,
    st.lists(st.lists(_steps, min_size=1, max_size=7).map(tuple), min_size=1, max_size=3).map(tuple),
    st.sampled_from(("", "first", "each")),
    st.booleans(),
)


def session_of(messages: Iterable[m.Message]) -> Session:
    session = Session()
    for message in messages:
        session.append(message)
    return session


def folded(session: Session, budget: int) -> Engine:
    """The engine that has folded the view to a budget, where there was anything to fold."""
    engine = Engine(presets.get("refold", budget=budget))
    plan = engine.plan(session, force=True)
    if isinstance(plan, Plan):
        assert isinstance(run(engine.apply(session, plan)), e.Fold)
    return engine


@given(works, st.sampled_from((700, 1_500, 3_000, 6_000, 16_000)))
@settings(max_examples=examples(90), deadline=None)
def test_R2_R19_views_of_huge_calls_fit_and_show_no_call_that_nobody_made(work: Work, budget: int) -> None:
    session, log = session_of(work.messages()), Log(work.messages())
    view = folded(session, budget).view(session)
    assert view.tokens <= budget
    assert log.altered(view) == []
    assert validate_view(view) == []
    assert view.messages[-1].role in ("user", "tool"), "a model can be asked to go on"
    shown = view.text
    assert all(f"never touch folder number {turn * 31}." in shown for turn in range(len(work.turns)))


def forms(messages: list[m.Message], budget: int) -> dict[int, int]:
    """Tokens of every message in its place; 0: it is not there. Thinking goes with the turn, and is not counted."""
    session = session_of(messages)
    view = folded(session, budget).view(session)
    shown = {x.entries[0]: x.message for x in view.items if not is_record(x.message)}
    found = (shown.get(entry.id) for entry in session.path if isinstance(entry, e.MessageEntry))
    return {number: 0 if x is None else COUNTER.message(bare(x)) for number, x in enumerate(found)}


def is_record(message: m.Message) -> bool:
    return any(isinstance(part, m.Text) and part.origin == "summary" for part in message.parts)


def bare(message: m.Message) -> m.Message:
    if not isinstance(message, m.Assistant):
        return message
    return m.assistant([part for part in message.content if not isinstance(part, m.Thinking)])


@given(works, st.lists(st.integers(700, 9_000), min_size=2, max_size=4, unique=True))
@settings(max_examples=examples(90), deadline=None)
def test_R20_no_message_beside_huge_calls_is_in_a_lower_form_at_a_larger_budget(
    work: Work, budgets: list[int]
) -> None:
    found = [forms(work.messages(), budget) for budget in sorted(budgets)]
    for small, large in pairwise(found):
        assert [n for n, size in small.items() if large[n] < 0.9 * size - 4] == []


@pytest.mark.slow
@given(works, st.sampled_from((1_500, 4_000)))
@settings(max_examples=examples(45), deadline=None)
def test_R19_views_of_huge_calls_are_the_same_bytes_cold_and_warm_fold_after_fold(
    work: Work, budget: int
) -> None:
    warm, log = Session(), Log(work.messages())
    engine, asked = Engine(presets.get("refold", budget=budget)), 0
    for number, message in enumerate(log.messages):
        warm.append(message)
        if isinstance(message, m.Assistant) or number - asked < 5 or not settled(engine.view(warm).items):
            continue
        asked, cold = number, Session(warm.entries)
        view, other = run(engine.prepare(warm)), run(Engine(engine.preset).prepare(cold))
        assert view.to_openai() == other.to_openai()
        assert view.tokens <= budget and log.altered(view) == []


# ── a step that leaves ──────────────────────────────────────────────────────────────────────────


def work(*sizes: int, thinks: str = "") -> list[m.Message]:
    """One request and its steps; each writes so many rows. `thinks`: "first" or "each" reply starts with signed
    thinking."""
    said: list[m.Message] = [m.user("Write all parts, and never touch migrations/.")]
    for number, size in enumerate(sizes):
        signed = thinks == "each" or (thinks == "first" and number == 0)
        thought = [m.thinking(f"thought {number}", f"sig{number}")] if signed else []
        content = f"# begin {number}\n{rows(f'part{number}', size)}\n# end {number}"
        said += [
            m.assistant([*thought, m.call(f"w{number}", "Write", path=f"part{number}.py", content=content)]),
            m.result(f"w{number}", f"part{number}.py written", name="Write"),
        ]
    return said


def test_R19_a_step_that_is_too_large_leaves_with_its_batch_and_is_quoted_with_head_and_end() -> None:
    messages = work(2, 2, 2, 400, 2, 2)
    session = session_of(messages)
    view = folded(session, 2_000).view(session)
    [record, *others] = view.messages
    assert [call.id for x in others for call in x.calls] == ["w0", "w1", "w2", "w4", "w5"]
    assert "w3" not in {x.call_id for x in others if isinstance(x, m.Result)}
    assert "part3.py" in record.text and "# begin 3" in record.text and "# end 3" in record.text
    assert "part3.py written" in record.text and "#7" in record.text
    [hit] = Engine().recall(session, keys=["#7"])
    assert hit.entry_id == session.path[7].id


def test_R4_R19_a_step_that_left_is_quoted_by_its_age_after_later_folds_too() -> None:
    session = session_of(work(2, 2, 2, 400, 2, 2))
    engine = folded(session, 2_000)
    for number, size in enumerate((60, 2, 60)):
        for message in work(size)[1:]:
            id = f"x{number}"
            if isinstance(message, m.Result):
                session.append(m.result(id, message.text, name="Write"))
            else:
                session.append(m.assistant("", m.call(id, "Write", message.calls[0].arguments)))
        view = run(engine.prepare(session))
        assert view.tokens <= 2_000
        assert "part3.py" in view.messages[0].text
        assert number or ("# begin 3" in view.messages[0].text and "# end 3" in view.messages[0].text)


def test_R1_R19_a_step_that_left_comes_back_with_undo() -> None:
    session = session_of(work(2, 2, 2, 400, 2, 2))
    before = Engine().view(session).to_anthropic()
    engine = folded(session, 2_000)
    assert engine.view(session).to_anthropic() != before
    engine.undo(session)
    assert engine.view(session).to_anthropic() == before


@pytest.mark.sample(5)
@pytest.mark.parametrize("thinks", ["", "first", "each"])
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
def test_R2_no_session_is_stuck_by_a_call_that_is_larger_than_the_window(window: int, thinks: str) -> None:
    session, engine = Session(), Engine(presets.get("refold", window=window))
    for number, message in enumerate(work(*([3] * 8), 1_000, *([3] * 8), thinks=thinks)):
        session.append(message)
        if isinstance(message, m.Assistant):
            continue
        view = run(engine.prepare(session))
        assert view.tokens <= window
        assert validate_view(view) == []
        assert view.messages[-1].role in ("user", "tool")
        if message.text == "part8.py written":
            assert "part8.py written" in view.messages[-1].text
            assert "# begin 8" in view.text and "# end 8" in view.text
        if thinks == "each":
            assert validate_anthropic(view.to_anthropic(), thinking=True) == [], number


def test_R2_a_call_that_is_still_running_and_larger_than_the_window_is_said_to_be_so() -> None:
    session = session_of(work(3, 3, 1_000)[:-1])
    with pytest.raises(DoesNotFit):
        run(Engine(presets.get("refold", window=8_000)).prepare(session))


def test_R6_R19_in_an_open_loop_no_reply_stands_without_the_thinking_that_led_to_it() -> None:
    for large in range(6):
        sizes = [400 if number == large else 4 for number in range(9)]
        messages = work(*sizes, thinks="first")
        session = session_of(messages)
        view = folded(session, 3_000).view(session)
        shown = [call.id for x in view.messages for call in x.calls]
        assert "w0" in shown or shown == [f"w{n}" for n in range(9 - len(shown), 9)], large
        assert validate_view(view) == []
