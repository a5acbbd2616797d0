"""docs/how-to.md: every answer runs."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from refold import Session, presets
from refold import messages as m
from refold.cli import main
from refold.registry.sessions import save

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to.md"
ANSWERS = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text()))
TASKS = {
    "Fold my last session", "See why something is missing", "Undo a fold", "Find what was said", "Keep a rule forever",
    "Choose a budget and know what it costs", "Use a cheaper model for summaries", "Write a preset", "Use it in LangChain",
    "Run Claude Code through it", "Resume in Claude Code or Codex",
    "Remove a secret", "Move a store", "Handle an overflow", "Share a session between processes", "Test an agent",
    "Fix an error", "Questions and limits",
}  # fmt: skip
BLOCKS = {
    title: found for title, text in ANSWERS.items()
    if (found := re.findall(r"(?ms)^```(python|bash)\n(.*?)^```", text))
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(presets, "_registered", {})  # an answer registers one, which would outlive its test
    numbers = itertools.count()
    session = Session(new_id=lambda: f"e{next(numbers)}")
    session.append(m.user("Please tidy up, and never touch the files in migrations/."))
    session.append(m.user("The staging key is sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789."))
    for number in range(12):
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/module{number}.py")))
        session.append(m.result(f"c{number}", f"def f{number}(): pass\n" * 100, name="Read"))
        session.append(m.user(f"Thanks, now number {number + 1}."))
    session.append(m.assistant("All is done."))
    save(session, tmp_path / "session.jsonl")
    (tmp_path / "summary.txt").write_text(
        "@always\n## Goal\nTidy up, and never touch the files in migrations/.\n"
    )
    (tmp_path / "claude.jsonl").write_text(_claude(tmp_path))
    newest = tmp_path / "home" / ".claude" / "projects" / "-p" / "7e570000-0000-4000-8000-000000000002.jsonl"
    newest.parent.mkdir(parents=True)
    newest.write_text(_claude(tmp_path).replace("000000000001", "000000000002"))
    return tmp_path


def _claude(folder: Path) -> str:
    id = "7e570000-0000-4000-8000-000000000001"
    records: list[dict[str, object]] = []
    for number in range(80):
        role = "assistant" if number % 2 else "user"
        text = f"message {number}: " + "words about the gate " * 80
        message: dict[str, object] = {"role": role, "content": [{"type": "text", "text": text}]}
        if role == "assistant":
            message |= {"model": "claude-sonnet-4-5", "id": f"m{number}", "type": "message"}
        uuid = f"7e570000-0000-4000-8000-{number + 100:012}"
        records.append(
            {"type": role, "uuid": uuid, "parentUuid": records[-1]["uuid"] if records else None, "sessionId": id,
             "timestamp": f"2025-03-01T10:{number % 60:02}:00.000Z", "cwd": str(folder), "version": "2.1.0", "message": message}
        )  # fmt: skip
    return "".join(json.dumps(record) + "\n" for record in records)


def test_every_task_has_its_answer() -> None:
    assert set(ANSWERS) == TASKS
    linked = set(re.findall(r"\]\((#[\w-]+)\)", PAGE.read_text()))
    assert {"#" + title.lower().replace(" ", "-") for title in TASKS} <= linked


@pytest.mark.sample(8)
@pytest.mark.parametrize("title", BLOCKS)
def test_the_answer_runs(title: str) -> None:
    key = ""
    for language, text in BLOCKS[title]:
        if language == "python":
            code = compile(text, f"{PAGE.name}: {title}", "exec", dont_inherit=True)
            exec(code, {"__name__": "answer"})
            continue
        for line in text.splitlines():
            words = shlex.split(line.partition("  #")[0])[1:]
            done = CliRunner().invoke(main, [key if word == "KEY" else word for word in words])
            assert done.exit_code == 0, f"{line}\n{done.output[-600:]}"
            assert done.output.strip() or " -o " in line, line
            if words[0] == "recall" and (hit := re.match(r"turn \d+ +\w+ +(\w+)", done.output)):
                key = hit[1]


def test_a_secret_is_gone_as_the_answer_says(folder: Path) -> None:
    def refold(*words: str) -> str:
        return CliRunner().invoke(main, words).output

    assert "sk-ant-api03-abc" in refold("show", "session.jsonl", "--full")
    test_the_answer_runs("Remove a secret")
    assert "sk-ant-api03-abc" not in refold("show", "session.jsonl", "--full")
    assert "sk-ant-api03-abc" not in (folder / "session.jsonl").read_text()


def test_the_program_for_langchain_is_whole() -> None:
    [text] = re.findall(r"(?ms)^```py\n(.*?)^```", ANSWERS["Use it in LangChain"])
    compile(text, PAGE.name, "exec")
    assert {"create_agent", "RefoldMiddleware", "InMemorySaver"} <= set(
        re.findall(r"\w+", text.split("\n\n")[0])
    )
