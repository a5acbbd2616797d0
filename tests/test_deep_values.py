"""Values that JSON has no words for are refused where they enter, in one error; what a provider sent is kept, as
text where it is no value; sessions of 0.1.0 that hold such values work as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.errors import InvalidValue
from refold.loop import run
from refold.models.reply import collect
from refold.protocols import Event, PartDone, Request, SessionInfo, Stopped
from refold.session.dialects import DIALECTS
from refold.stores import open_store, transfer
from refold.stores.memory import MemoryStore
from refold.transcripts.export import export, targets

GOLDEN = Path(__file__).parent / "golden" / "v1-limits.jsonl"


def nested(levels: int) -> Any:
    value: Any = ["bottom"]
    for _ in range(levels):
        value = [value]
    return value


IMPOSSIBLE: dict[str, Callable[[], Any]] = {
    "nan": lambda: nan,
    "infinity": lambda: [{"a": -inf}],
    "in a set": lambda: {nan},
    "a million digits": lambda: 10**1_000_000,
    "201 levels": lambda: nested(200),
    "100,000 levels": lambda: nested(100_000),
}
PLACES: dict[str, Callable[[Any], e.AnyEntry]] = {
    "arguments": lambda x: e.MessageEntry(id="a", message=m.Assistant((m.call("c", "Read", x=x),))),
    "a part as a dict": lambda x: e.MessageEntry(
        id="a",
        message=m.Assistant(({"type": "call", "id": "c", "name": "Read", "arguments": {"x": x}},)),  # type: ignore[arg-type]
    ),
    "opaque": lambda x: e.MessageEntry(id="a", message=m.Assistant((m.Opaque({"type": "x", "x": x}),))),
    "meta": lambda x: e.MessageEntry(id="a", message=m.user("x"), meta={"x": x}),
    "state": lambda x: e.State(id="a", name="x", value=x),
    "other": lambda x: e.Other(id="a", kind="x", raw={"x": x}),
    "unknown": lambda x: e.Unknown(id="a", raw={"type": "of-tomorrow", "id": "a", "x": x}),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("value", IMPOSSIBLE)
@pytest.mark.parametrize("place", PLACES)
def test_a_value_that_cannot_be_is_one_error_wherever_it_enters(place: str, value: str) -> None:
    store = MemoryStore()
    store.create(SessionInfo(id="s"))
    session = Session(id="s", store=store)
    entry = PLACES[place](IMPOSSIBLE[value]())
    with pytest.raises(InvalidValue, match=r"pass it as a text"):
        session.append(entry)
    with pytest.raises(InvalidValue):
        store.append("s", [entry], after=None)
    assert len(session) == 0 and store.load("s").entries == ()


class Wild:
    """A model of an application whose tool calls hold what JSON does not."""

    name = "wild"
    context_window = None

    def __init__(self, *parts: m.AnyPart) -> None:
        self.parts = parts

    async def stream(self, request: Request) -> Any:
        events: list[Event] = [*map(PartDone, self.parts), Stopped("tool_use")]
        for event in events:
            yield event


def test_what_a_model_said_is_kept_as_text_where_it_is_no_value() -> None:
    wild = Wild(
        m.Text("So."),
        m.call("c", "Plot", x=[nan, 1]),
        m.call("d", "Plot", x=nested(300)),
        m.Opaque({"type": "x", "n": inf, "deep": nested(300)}),
    )
    reply = run(collect(wild, Request(messages=(m.user("Go."),)))).message
    plotted, deep = reply.calls
    assert plotted.raw == '{"x":[NaN,1]}' and deep.raw is not None and deep.raw.count("[") == 301
    entry = Session().append(reply)
    assert entry.message == reply
    opaque = reply.content[-1]
    assert isinstance(opaque, m.Opaque) and opaque.raw["n"] == "Infinity" and opaque.raw["type"] == "x"
    assert "bottom" in json.dumps(opaque.raw)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text", ['{"x":NaN}', '{"x":%s}' % ("9" * 5_000), '{"x":%s}' % ("[" * 20_000), "[" * 99]
)
def test_arguments_of_a_provider_are_kept_as_they_came(dialect: str, text: str) -> None:
    if dialect == "anthropic":
        pytest.skip("arguments are an object there")
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
    chat = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": text}}]}
    session = Session()
    session.append("Go.")
    session.merge([m.user("Go."), *DIALECTS[dialect].parse_list([call if dialect == "responses" else chat])])
    (kept,) = session.entries[-1].message.calls
    assert kept.raw == text


# ── sessions of 0.1.0 ───────────────────────────────────────────────────────────────────────────


def golden() -> Session:
    store, named = open_store(str(GOLDEN))
    return Session.of(store.load(named or ""), store=store)


def test_an_old_session_can_be_sent_exported_and_recalled() -> None:
    session = golden()
    view = Engine().view(session)
    for dialect in DIALECTS:
        json.dumps(view.to(dialect), allow_nan=False)
    for target in targets():
        assert export(session, target, redact=True).data
    assert Engine().recall(session, "login")


@pytest.mark.parametrize("name", presets.NAMES)
def test_an_old_session_is_folded_by_every_preset(name: str, tmp_path: Path) -> None:
    place = tmp_path / GOLDEN.name
    place.write_bytes(GOLDEN.read_bytes())
    store, named = open_store(str(place))
    session = Session.of(store.load(named or ""), store=store)
    for turn in range(12):
        session.append(m.user(f"Part {turn}. " * 40))
        session.append(m.assistant(f"Done with {turn}. " * 40))
    engine = Engine(presets.get(name, budget=3_000))
    if plan := engine.plan(session, force=True):
        assert isinstance(run(engine.apply(session, plan)), e.Fold)


def test_an_old_session_is_copied_line_by_line() -> None:
    store, named = open_store(str(GOLDEN))
    other = MemoryStore()
    transfer.copy_session(store, named or "", other)
    assert list(other.lines(named or "")) == GOLDEN.read_bytes().splitlines()[1:]
