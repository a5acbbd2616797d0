"""docs/questions.md: every answer runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from refold import Session
from refold import messages as m
from refold.cli import main
from refold.registry.sessions import save

PAGE = Path(__file__).resolve().parents[1] / "docs" / "questions.md"
ANSWERS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text()))
ASKED = {
    "Write a preset", "Count tokens my own way", "Pin something from Python", "Resume a folded session in Claude Code",
    "Find out why it folded", "Remove a secret", "Know what happens on overflow", "Know what a fold costs",
    "Choose a budget", "Move a store to another place or kind",
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    session = Session()
    session.append(m.user("Please tidy up, and never touch the files in migrations/."))
    session.append(m.user("The staging key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789."))
    for number in range(12):
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/module{number}.py")))
        session.append(m.result(f"c{number}", f"def f{number}(): pass\n" * 100, name="Read"))
        session.append(m.user(f"Thanks, now number {number + 1}."))
    session.append(m.assistant("All is done."))
    save(session, tmp_path / "session.jsonl")
    (tmp_path / "claude.jsonl").write_text(_claude(tmp_path))
    return tmp_path


def _claude(folder: Path) -> str:
    id = "7e570000-0000-4000-8000-000000000001"
    records: list[dict[str, object]] = []
    for number in range(40):
        role = "assistant" if number % 2 else "user"
        text = f"message {number}: " + "words about the gate " * 80
        message: dict[str, object] = {"role": role, "content": [{"type": "text", "text": text}]}
        if role == "assistant":
            message |= {"model": "claude-sonnet-4-5", "id": f"m{number}", "type": "message"}
        uuid = f"7e570000-0000-4000-8000-{number + 100:012}"
        records.append(
            {"type": role, "uuid": uuid, "parentUuid": records[-1]["uuid"] if records else None, "sessionId": id,
             "timestamp": f"2025-03-01T10:{number:02}:00.000Z", "cwd": str(folder), "version": "2.1.0", "message": message}
        )  # fmt: skip
    return "".join(json.dumps(record) + "\n" for record in records)


def test_every_question_has_its_answer() -> None:
    assert set(ANSWERS) == ASKED


@pytest.mark.sample(5)
@pytest.mark.parametrize("question", ANSWERS)
def test_the_answer_runs(question: str) -> None:
    blocks = re.findall(r"(?ms)^```(python|bash)\n(.*?)^```", ANSWERS[question])
    assert blocks
    for language, text in blocks:
        if language == "python":
            code = compile(text, f"{PAGE.name}: {question}", "exec", dont_inherit=True)
            exec(code, {"__name__": "answer"})
            continue
        for line in text.splitlines():
            done = CliRunner().invoke(main, shlex.split(line)[1:])
            assert done.exit_code == 0, f"{line}\n{done.output[-600:]}"
            assert done.output.strip() or " -o " in line, line
