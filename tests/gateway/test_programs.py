"""What programs are told of a gateway, and what their own settings say; no program is started."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from refold.errors import UsageError
from refold.gateway import programs
from refold.gateway.programs import Start, Told

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
CASES: list[tuple[Any, dict[str, Any], tuple[str, ...], Told | str]] = [
    (programs.claude, {}, (), Told("https://api.anthropic.com", [], OURS)),
    (
        programs.claude,
        {"ANTHROPIC_BASE_URL": "https://own.example"},
        (),
        Told("https://own.example", [], OURS),
    ),
    (
        programs.claude,
        {"files": {".claude/settings.json": SETTINGS}},
        (),
        Told("https://proxy.example", ["--settings", json.dumps({"env": OURS})], OURS),
    ),
    (programs.claude, {"files": {"project/.claude/settings.json": BEDROCK}}, (), "CLAUDE_CODE_USE_BEDROCK"),
    (
        programs.codex,
        {},
        (),
        Told("https://api.openai.com", ["-c", f'openai_base_url="{URL}/v1"']),
    ),
    (
        programs.codex,
        {"files": {".codex/config.toml": CUSTOM}},
        (),
        Told("http://x.example/v1", ["-c", f'model_providers.x.base_url="{URL}/v1"']),
    ),
    (programs.codex, {"files": {".codex/auth.json": '{"tokens": {"id_token": "t"}}'}}, (), "ChatGPT"),
    (
        programs.codex,
        {"files": {".codex/config.toml": 'model_provider = "gone"'}},
        (),
        "has no base_url",
    ),
    (
        programs.aider,
        {"OPENAI_API_KEY": "k"},
        ("--model", "gpt-5"),
        Told("https://api.openai.com", [], {"OPENAI_API_BASE": f"{URL}/v1"}),
    ),
    (
        programs.aider,
        {},
        ("--openai-api-base=http://x.example/v1",),
        Told("http://x.example/v1", ["--openai-api-base", f"{URL}/v1"], {"OPENAI_API_BASE": f"{URL}/v1"}),
    ),
    (
        programs.aider,
        {"OPENAI_API_KEY": "k"},
        ("--model", "anthropic/claude-sonnet-5"),
        Told("https://api.anthropic.com", (), {"ANTHROPIC_API_BASE": URL, "ANTHROPIC_BASE_URL": URL}),
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
    told = programs.opencode(start(tmp_path, OPENCODE_CONFIG_CONTENT=own), URL)
    assert told.upstream == "http://x.example/v1"
    content = json.loads(told.environment["OPENCODE_CONFIG_CONTENT"])
    assert content["provider"]["x"]["options"] == {"apiKey": "k", "baseURL": f"{URL}/v1"}
    assert content["theme"] == "t"
    assert programs.opencode(start(tmp_path, "-m", "openai/gpt-5"), URL).upstream == programs.OPENAI
    with pytest.raises(UsageError, match="baseURL"):
        programs.opencode(start(tmp_path, "--model=other/m"), URL)


@pytest.mark.slow
def test_exit_code_and_signals_are_those_of_the_program(tmp_path: Path) -> None:
    """A script stands for Claude Code."""
    script = tmp_path / "bin" / "claude"
    script.parent.mkdir()
    code = (
        "import os, signal, sys, time\n"
        "if sys.argv[1] == 'exit': sys.exit(7)\n"
        "if sys.argv[1] == 'die': os.kill(os.getpid(), signal.SIGKILL)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('here', flush=True); time.sleep(60)\n"
    )
    script.write_text(f"#!{sys.executable}\n{code}")
    script.chmod(stat.S_IRWXU)
    environment = {
        "HOME": str(tmp_path),
        "PATH": str(script.parent),
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
    }

    def started(*arguments: str) -> subprocess.Popen[str]:
        store = f"sqlite:{tmp_path / 'a.db'}"
        line = [sys.executable, "-m", "refold", "run", "--store", store, "claude", *arguments]
        return subprocess.Popen(
            line, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    process = started("exit")
    _, said = process.communicate(timeout=60)
    assert process.returncode == 7 and "no request came through the gateway" in said
    process = started("die")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    process = started("stay")
    assert process.stdout is not None and process.stdout.readline() == "here\n"
    os.kill(process.pid, signal.SIGINT)  # the program gets it from the terminal, not from here
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 9
