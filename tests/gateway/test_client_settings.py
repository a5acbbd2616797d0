"""What programs are told of a gateway, and what their own settings say; no program is started."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from refold.errors import UsageError
from refold.gateway import client_settings
from refold.gateway.client_settings import ProgramStart, Start

URL = "http://127.0.0.1:1/key/k"
CUSTOM = 'model_provider = "x"\n[model_providers.x]\nbase_url = "http://x.example/v1"\n'


def start(folder: Path, *arguments: str, files: dict[str, str] | None = None, **environment: str) -> Start:
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    home = {"HOME": str(folder), **environment}
    return Start("/bin/program", arguments, home, folder / "project")


SETTINGS = json.dumps({"env": {"ANTHROPIC_BASE_URL": "https://proxy.example"}})
BEDROCK = json.dumps({"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}})
OURS = {"ANTHROPIC_BASE_URL": URL}
CASES: list[tuple[Any, dict[str, Any], tuple[str, ...], ProgramStart | str]] = [
    (client_settings.claude, {}, (), ProgramStart("https://api.anthropic.com", [], OURS)),
    (
        client_settings.claude,
        {"ANTHROPIC_BASE_URL": "https://own.example"},
        (),
        ProgramStart("https://own.example", [], OURS),
    ),
    (
        client_settings.claude,
        {"files": {".claude/settings.json": SETTINGS}},
        (),
        ProgramStart("https://proxy.example", ["--settings", json.dumps({"env": OURS})], OURS),
    ),
    (
        client_settings.claude,
        {"files": {"project/.claude/settings.json": BEDROCK}},
        (),
        "CLAUDE_CODE_USE_BEDROCK",
    ),
    (
        client_settings.codex,
        {},
        (),
        ProgramStart("https://api.openai.com", ["-c", f'openai_base_url="{URL}/v1"']),
    ),
    (
        client_settings.codex,
        {"files": {".codex/config.toml": CUSTOM}},
        (),
        ProgramStart("http://x.example/v1", ["-c", f'model_providers.x.base_url="{URL}/v1"']),
    ),
    (client_settings.codex, {"files": {".codex/auth.json": '{"tokens": {"id_token": "t"}}'}}, (), "ChatGPT"),
    (
        client_settings.codex,
        {"files": {".codex/config.toml": 'model_provider = "gone"'}},
        (),
        "has no base_url",
    ),
    (
        client_settings.aider,
        {"OPENAI_API_KEY": "k"},
        ("--model", "gpt-5"),
        ProgramStart("https://api.openai.com", [], {"OPENAI_API_BASE": f"{URL}/v1"}),
    ),
    (
        client_settings.aider,
        {},
        ("--openai-api-base=http://x.example/v1",),
        ProgramStart(
            "http://x.example/v1", ["--openai-api-base", f"{URL}/v1"], {"OPENAI_API_BASE": f"{URL}/v1"}
        ),
    ),
    (
        client_settings.aider,
        {"OPENAI_API_KEY": "k"},
        ("--model", "anthropic/claude-sonnet-5"),
        ProgramStart("https://api.anthropic.com", (), {"ANTHROPIC_API_BASE": URL, "ANTHROPIC_BASE_URL": URL}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1] or 'plain'}")
def test_a_program_is_told_of_the_gateway_and_the_gateway_of_its_provider(case: Any, tmp_path: Path) -> None:
    tell, given, arguments, expected = case
    asked = start(tmp_path, *arguments, **given)
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            tell(asked, URL)
        return
    told = tell(asked, URL)
    assert (told.upstream, list(told.options), told.environment) == (
        expected.upstream,
        list(expected.options),
        expected.environment,
    )


def test_opencode_is_told_by_a_configuration_of_this_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"model": "x/m", "provider": {"x": {"options": {"baseURL": "http://x.example/v1"}}}}

    def shown(*_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess([], 0, json.dumps(config).encode())

    monkeypatch.setattr(subprocess, "run", shown)
    own = json.dumps({"theme": "t", "provider": {"x": {"options": {"apiKey": "k"}}}})
    told = client_settings.opencode(start(tmp_path, OPENCODE_CONFIG_CONTENT=own), URL)
    assert told.upstream == "http://x.example/v1"
    content = json.loads(told.environment["OPENCODE_CONFIG_CONTENT"])
    assert content["provider"]["x"]["options"] == {"apiKey": "k", "baseURL": f"{URL}/v1"}
    assert content["theme"] == "t"
    assert (
        client_settings.opencode(start(tmp_path, "-m", "openai/gpt-5"), URL).upstream
        == client_settings.OPENAI
    )
    with pytest.raises(UsageError, match="baseURL"):
        client_settings.opencode(start(tmp_path, "--model=other/m"), URL)


SCRIPT = """\
import os, signal, sys
signals = (signal.SIGINT, signal.SIGTERM)
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
if sys.argv[1] == "exit":
    sys.exit(7)
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
size = os.get_terminal_size() if sys.stdout.isatty() else ()
os.write(1, " ".join(["here", *map(str, size)]).encode() + b"\\n")
while signal.sigwait(signals) == signal.SIGINT:
    os.write(1, b"interrupted")
os._exit(9)
"""


class Started:
    """`refold run` with a script in the place of Claude Code."""

    def __init__(self, folder: Path) -> None:
        self.folder, script = folder, folder / "bin" / "claude"
        script.parent.mkdir()
        (folder / "claude.py").write_text(SCRIPT)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/claude.py" "$@"\n')
        script.chmod(stat.S_IRWXU)

    def __call__(self, argument: str, **given: Any) -> subprocess.Popen[str]:
        store, source = f"sqlite:{self.folder / 'a.db'}", Path(__file__).parents[2] / "src"
        line = [sys.executable, "-m", "refold", "run", "--store", store, "claude", argument]
        environment = {"HOME": str(self.folder), "PATH": str(self.folder / "bin"), "PYTHONPATH": str(source)}
        usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(line, env=environment, text=True, **{**usual, **given})


@pytest.mark.slow
def test_exit_code_and_signals_are_those_of_the_program(tmp_path: Path) -> None:
    started = Started(tmp_path)
    process = started("exit")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 7 and "no requests went through the gateway" in said
    process = started("die")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    process = started("stay")
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    os.kill(process.pid, signal.SIGINT)  # the program gets it from the terminal, not from here
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 9


@pytest.mark.slow
def test_the_terminal_is_the_programs(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    given = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "start_new_session": True}

    def own_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = Started(tmp_path)("stay", preexec_fn=own_terminal, **given)
    os.close(theirs)
    said = b""
    while b"here 77 33" not in said:
        said += os.read(ours, 1000)
    os.write(ours, b"\x03")
    while b"interrupted" not in said:
        said += os.read(ours, 1000)
    assert process.poll() is None
    process.terminate()
    assert process.wait(60) == 9
    os.close(ours)
