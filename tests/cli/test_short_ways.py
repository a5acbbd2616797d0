"""Short ways: what a new user types without knowing where anything is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import refold as library
from refold import messages as m
from refold.cli import main
from refold.registry import configuration


def refold(*arguments: str, **more: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env=more)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a session of Claude Code, one of a sub-agent that is newer, and one of pi that is older."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("REFOLD_DATABASE", raising=False)
    claude = tmp_path / ".claude" / "projects" / "-p"
    write(claude / "s.jsonl", claude_records("s"), 2000)
    write(claude / "agent-1.jsonl", claude_records("t"), 3000)
    write(claude / "notes.json", [{"no": "transcript"}], 4000)
    pi = [
        {"type": "session", "version": 3, "id": "p", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"},
        {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z",
         "message": {"role": "user", "content": "an older question", "timestamp": 1}},
    ]  # fmt: skip
    write(tmp_path / ".pi" / "agent" / "sessions" / "-p" / "p.jsonl", pi, 1000)
    return tmp_path


def claude_records(session: str) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for number in range(40):
        message = {"role": "user", "content": f"question {number} " + "and some words more " * 30}
        if number % 2:
            text = [{"type": "text", "text": f"answer {number} " + "in many words " * 30}]
            message = {"role": "assistant", "content": text, "model": "m", "id": f"r{number}"}
        records.append(
            {"type": message["role"], "uuid": f"{session}{number}", "sessionId": session, "cwd": "/p",
             "parentUuid": f"{session}{number - 1}" if number else None, "isSidechain": False,
             "timestamp": f"2026-01-01T00:00:{number:02}.000Z", "message": message}
        )  # fmt: skip
    return records


def write(path: Path, records: list[Any], time: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    os.utime(path, (time, time))


def test_import_without_arguments_finds_the_sessions_of_other_programs(home: Path) -> None:
    done = refold("import", "--json")
    rows = json.loads(done.stdout)["sessions"]
    assert {row["format"] for row in rows if row["state"] == "imported"} == {"claude-code", "pi"}
    again = refold("import")
    assert "next:" not in again.output  # nothing is new


def test_import_says_where_it_looked_when_there_is_nothing(tmp_path: Path) -> None:
    done = refold("import", HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path))
    assert done.exit_code == 2
    assert str(tmp_path / ".codex" / "sessions") in done.output and "opencode.db" in done.output


def test_last_is_the_newest_conversation_of_any_program_and_of_ones_own(home: Path) -> None:
    assert json.loads(refold("stats", "--last", "--json").stdout)["messages"] == 40
    assert "s.jsonl" in refold("recall", "--last", "question 12").stderr
    assert refold("undo", "--last").exit_code == 2  # there is none of the user's own yet
    session = library.open("sqlite:", id="mine")
    session.append(m.user("a newer question"))
    assert json.loads(refold("stats", "--last", "--json").stdout)["messages"] == 1
    pinned = refold("pin", "--last", session.path[0].id)
    assert "next: " in pinned.output and "plan mine" in pinned.output
    (home / "x.jsonl").write_text("")
    assert refold("show", "x.jsonl", "--last").exit_code == 2


def test_compact_last_resume_makes_a_session_and_prints_its_command(home: Path) -> None:
    before = set((home / ".claude").rglob("*.jsonl"))
    done = refold("compact", "--last", "--resume", "claude", "--budget", "3k")
    (new,) = set((home / ".claude").rglob("*.jsonl")) - before
    assert done.exit_code == 0 and f"next: cd /p && claude --resume {new.stem}" in done.output
    assert "there is no folder /p on this machine" in done.stderr
    refused = refold("compact", "--last", "--resume", "claude", "--run")
    assert refused.exit_code == 2 and "no folder /p, where this session goes on" in refused.stderr
    assert {new} == set((home / ".claude").rglob("*.jsonl")) - before
    assert refold("compact", "--last", "--resume", "claude", "--in-place").exit_code == 2


def test_compact_resume_opencode_writes_what_it_imports_and_prints_both_commands(home: Path) -> None:
    done = refold("compact", "--last", "--resume", "opencode", "--budget", "3k", "--json")
    new = json.loads(done.stdout)["resume"]
    file = Path(new["file"])
    document = json.loads(file.read_text())
    assert document["info"]["id"] == new["id"] and file.stat().st_mode & 0o77 == 0
    assert (
        new["command"] == f"cd /p && opencode import {quote(new['file'])} && opencode --session {new['id']}"
    )
    assert any(part["type"] == "compaction" for one in document["messages"] for part in one["parts"])


def test_compact_resume_run_starts_the_program_in_the_folder_of_the_session(home: Path) -> None:
    (home / "bin").mkdir()
    (home / "project").mkdir()
    (home / "bin" / "claude").write_text('#!/bin/sh\npwd > "$HOME/ran"; echo "$@" >> "$HOME/ran"\n')
    (home / "bin" / "claude").chmod(0o755)
    session = home / "mine.jsonl"
    write(session, [{**record, "cwd": str(home / "project")} for record in claude_records("r")], 1)
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    command = ["compact", str(session), "--budget", "3k", "--resume", "claude", "--run"]
    subprocess.run(
        [sys.executable, "-m", "refold", *command], env=environment, check=True, capture_output=True
    )
    folder, arguments = (home / "ran").read_text().splitlines()
    assert folder == str(home / "project") and arguments.startswith("--resume ")
    assert refold("compact", str(session), "--run").exit_code == 2


@pytest.mark.parametrize("command", ["compact", "plan"])
def test_a_budget_larger_than_the_window_is_an_error(home: Path, command: str) -> None:
    done = refold(command, "--last", "--budget", "20k", "--window", "8k")
    assert done.exit_code == 2 and "--budget 20,000 is larger than --window 8,000" in done.output


def test_config_init_writes_every_setting_as_a_comment_and_never_over_a_file(home: Path) -> None:
    done = refold("config", "init")
    path = home / "refold" / "config.toml"
    assert str(path) in done.output and configuration.load_configuration() == configuration.Configuration()
    assert refold("config", "init").exit_code == 2
    lines = [line.removeprefix("# ") for line in path.read_text().splitlines()[3:]]
    text = "\n".join(lines)
    configuration.parse_configuration(text)  # what is said there holds
    told = tomllib.loads(text)
    assert told.keys() == {field.name for field in msgspec.structs.fields(configuration.Configuration)}
    assert told["chat"].keys() == {x.name for x in msgspec.structs.fields(configuration.ChatSettings)}
    assert told["gateway"].keys() == {x.name for x in msgspec.structs.fields(configuration.GatewaySettings)}


def test_completion_is_installed_once(home: Path) -> None:
    for _ in range(2):
        assert refold("completion", "install", SHELL="/bin/bash").exit_code == 0
    line = (home / ".bashrc").read_text()
    assert line.count("completion of refold") == 1
    assert "_REFOLD_COMPLETE=bash_complete" in (home / "refold" / "completion.bash").read_text()
    assert refold("completion", "install", SHELL="/bin/sh").exit_code == 2


def test_a_prompt_that_fails_before_the_first_reply_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    script = home / "script"
    script.write_text("@error unavailable nothing works")
    done = refold("chat", "-p", "hello", "--model", f"scripted:{script}", "--json")
    assert done.exit_code == 1, done.output
    assert json.loads(done.stdout)["session"] is None
    assert json.loads(refold("sessions", "--json").stdout)["total"] == 0
