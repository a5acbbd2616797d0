"""The examples that are run as programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from refold.testing.validators import validate_anthropic
from tests.data import shared
from tests.examples.kit import EXAMPLES


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.data
def test_a_claude_code_session_is_compacted(tmp_path: Path) -> None:
    source = shared("claude-code/session-share-general-tool-calls.jsonl")
    target = tmp_path / "folded.json"
    done = run("compact_claude_code.py", source, "--budget", 20_000, "-o", target)
    assert done.returncode == 0, done.stderr
    request = json.loads(target.read_text())
    assert validate_anthropic({**request, "messages": request["messages"][:-1]}) == []  # it ends with a call
    assert "tokens, #" in str(request["messages"]), "old results are clipped in their place"
    before, after = (line for line in done.stdout.splitlines() if "tokens" in line and "→" not in line)
    assert "folded by " in before
    assert "undone: 50,996 tokens" in after


@pytest.mark.slow
def test_what_cannot_be_compacted_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "short.json").write_text('[{"role": "user", "content": "Hello."}]')
    for source, reason in [("short.json", "nothing to fold"), ("missing.jsonl", "no session or file")]:
        done = run("compact_claude_code.py", tmp_path / source, "-o", tmp_path / "out.json")
        assert done.returncode == 1
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
def test_two_processes_share_a_session_and_nothing_is_lost(tmp_path: Path) -> None:
    done = run("multi_process.py", tmp_path / "agent.db", "--messages", 30)
    assert done.returncode == 0, done.stderr
    assert "60 messages on one path" in done.stdout
    assert "left: 30 messages" in done.stdout
    assert "right: 30 messages" in done.stdout
    seen = int(done.stdout.split("the model sees ")[1].split()[0])
    assert seen <= 4000
