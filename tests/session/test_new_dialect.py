"""A new dialect is one module and one row: everything that goes by the table knows it then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings

from refold import Engine, Session, load
from refold import messages as m
from refold.cli import main
from refold.protocols import ToolSpec
from refold.session.dialects import DIALECTS, Dialect, get, parse_reply
from refold.session.invariants import repair
from refold.testing.builders import conversation, items
from refold.testing.validators import validate, validate_view
from refold.transcripts.export import export
from tests import strategies
from tests.session import toy_dialect
from tests.strategies import examples


@pytest.fixture(autouse=True, scope="module")
def row() -> Any:
    toy: Dialect = toy_dialect
    patch = pytest.MonkeyPatch()
    patch.setitem(DIALECTS, toy.name, toy)
    yield
    patch.undo()


def talk() -> Session:
    session = Session(id="talk")
    for message in conversation(3):
        session.append(message)
    return session


def test_the_view_renders_it_repaired_by_its_rules() -> None:
    session = talk()
    session.append(m.user("two replies in a row follow"))
    for text in ("one", "two"):
        session.append(m.assistant(text))
    wire = Engine("pi").view(session, system="Be kind.").to("toy")
    assert wire["rules"] == [{"text": "Be kind."}]
    roles = [turn["role"] for turn in wire["contents"]]
    assert roles == [("user", "model")[i % 2] for i in range(len(roles))]
    assert wire["contents"][-1]["parts"] == [{"text": "one"}, {"text": "two"}]


def test_lists_and_replies_in_it_are_understood() -> None:
    session, engine = talk(), Engine("pi")
    given = engine.view(session).to("toy")["contents"]
    assert session.merge(given).appended == ()
    news = [*given, {"role": "user", "parts": [{"text": "and now?"}]}]
    assert [entry.message for entry in session.merge(news).appended] == [m.user("and now?")]
    raw = {
        "candidates": [
            {"role": "model", "parts": [{"call": {"id": "c", "name": "Read", "args": {"path": "x"}}}]}
        ],
        "usage": {"in": 12, "out": 3},
        "model": "toy:1",
    }
    assert parse_reply(raw)[1:] == (m.Usage(12, 3), "toy:1")
    reply = engine.observe(session, raw)
    assert [call.arguments for call in reply.calls] == [{"path": "x"}]


def test_the_command_line_shows_and_exports_it(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_bytes(export(talk(), "jsonl").data)

    def said(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    expected = Engine().view(load(file)).to("toy")
    assert json.loads(said("show", str(file), "--wire", "toy", "--json")) == expected
    assert json.loads(said("export", str(file), "--to", "toy")) == expected
    assert "toy" in said("show", "--help") and "toy" in said("export", "--help")
    refused = CliRunner().invoke(main, ["show", str(file), "--wire", "nobodys"])
    assert refused.exit_code == 2 and "toy" in refused.output


def test_what_it_cannot_hold_is_told_from_what_comes_back() -> None:
    session = Session()
    session.append(m.user("go"))
    session.append(m.assistant([m.thinking("hm"), "Look."], m.call("c", "Read")))
    session.append(m.Result("c", (m.image("aGk="),), is_error=True))
    lost = " ".join(export(session, "toy").lost)
    assert "1 thinking block " in lost and "1 picture moved out of results" in lost
    assert "marked as errors" not in lost


def test_tools_of_every_shape_go_into_it() -> None:
    spec = ToolSpec("Read", "Reads a file", {"type": "object", "properties": {"path": {"type": "string"}}})
    shown = get("toy").render_tools([spec])
    assert shown == [{"name": "Read", "description": "Reads a file", "schema": spec.parameters}]
    for dialect in DIALECTS.values():
        if dialect.name != "toy":
            assert get("toy").render_tools(dialect.render_tools([spec])) == shown


def test_the_validators_judge_it() -> None:
    view = Engine("pi").view(talk())
    assert validate_view(view) == []
    wire = view.to("toy")
    del wire["contents"][2]  # the answer to a call
    assert validate("toy", wire) == ["it has to be repaired once more"]
    assert validate("toy", {"contents": []}) == ["no messages"]
    assert validate("toy", {"contents": [{"role": "user", "parts": [{"text": object()}]}]}) != []


@settings(max_examples=examples(60))
@given(strategies.conversations())
def test_any_conversation_is_valid_in_it(messages: list[m.Message]) -> None:
    closed = items([*messages, m.user("and now?")])
    assert validate("toy", get("toy").render(repair(closed, "toy"))) == []
