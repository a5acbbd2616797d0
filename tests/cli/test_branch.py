"""`refold branch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refold import Session
from refold import messages as m
from refold.cli import main
from refold.registry.sessions import named_session, save


@pytest.fixture
def file(tmp_path: Path) -> str:
    session = Session(id="s")
    for said in (
        m.user("Fix the login bug."),
        m.assistant("Which one?"),
        m.user("The one with the \x1b[31mcookie."),
        m.assistant("Done.", m.call("c1", "Edit", file_path="/x/login.py")),
        m.result("c1", "ok"),
    ):
        session.append(said)
    save(session, tmp_path / "s.jsonl")
    return str(tmp_path / "s.jsonl")


def refold(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["branch", *arguments])


def ids(file: str) -> list[str]:
    return [entry.id for entry in named_session(file).path]


def test_B15_branch_moves_and_summarises(file: str) -> None:
    before = ids(file)
    done = refold(file, before[1], "--summarize", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["from"], found["author"], found["requests"]) == (before[4], "digest", 0)
    assert found["leaf"] == found["entry"] == named_session(file).leaf
    assert found["files"] == {"modified": ["/x/login.py"]}
    assert "cookie" in found["summary"]
    assert found["tokens"] > 0
    assert ids(file) == [*before[:2], found["entry"]]


def test_B15_branch_with_a_model(file: str, tmp_path: Path) -> None:
    script = tmp_path / "script.txt"
    script.write_text("@for branch\nA MODEL WROTE THIS\n")
    done = refold(file, ids(file)[1], "--summarize", "--model", f"scripted:{script}", "--focus", "cookies")
    assert done.exit_code == 0, done.output
    assert "A MODEL WROTE THIS" in done.output
    assert "/x/login.py" in done.output


def test_B15_a_failing_model_leaves_everything_as_it_was(file: str, tmp_path: Path) -> None:
    script = tmp_path / "script.txt"
    script.write_text("cut\n@stop length\n")
    before = Path(file).read_bytes()
    done = refold(file, ids(file)[1], "--summarize", "--model", f"scripted:{script}", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["failed"]["code"] == "truncated"
    assert Path(file).read_bytes() == before


def test_B16_branch_prints_the_message_to_be_said_again(file: str) -> None:
    before = ids(file)
    done = refold(file, before[2])
    assert done.exit_code == 0, done.output
    assert "cookie." in done.output
    assert "\x1b" not in done.output
    assert named_session(file).leaf == before[1]


def test_branch_says_what_is_wrong(file: str, tmp_path: Path) -> None:
    assert refold(file, "nowhere").exit_code == 1
    assert refold(file, ids(file)[1], "--focus", "x").exit_code == 2
    foreign = tmp_path / "chat.json"
    foreign.write_text('[{"role": "user", "content": "hi"}]')
    done = refold(str(foreign), "e0")
    assert done.exit_code == 2
    assert "never changes" in done.output
