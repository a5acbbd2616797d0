"""The real Claude Code and the real Codex, in a home of their own, against the scripted server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from refold import messages as m
from refold.session import dialects
from refold.testing.wire import WireServer
from refold.transcripts.codex_items import is_context
from refold.transcripts.read_back import spoken_texts

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(os.environ.get("REFOLD_CLIENTS") or ROOT / ".clients") / "node_modules"
PATTERNS = {
    "claude-code": ("@anthropic-ai/claude-code-*/claude", "@anthropic-ai/claude-code-*/claude.exe"),
    "codex": ("@openai/codex-*/vendor/*/bin/codex", "@openai/codex-*/vendor/*/codex/codex"),
}
_CODEX = """\
model = "scripted"
model_provider = "scripted"
sandbox_mode = "danger-full-access"
approval_policy = "never"
[model_providers.scripted]
name = "scripted"
base_url = "{url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
[projects."{project}"]
trust_level = "trusted"
"""


def binary(program: str) -> Path:
    found = [path for pattern in PATTERNS[program] for path in sorted(INSTALLED.glob(pattern))]
    if not found:
        pytest.skip(f"{program} is not installed: `make test-clients` installs it (it needs npm)")
    return found[0]


class Client:
    """One program with an empty home and a project."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.binary = binary(program)
        self.home = folder / "home"
        self.project = folder / "project"
        self.own = self.home / (".claude" if program == "claude-code" else ".codex")
        for path in (self.own, self.project):
            path.mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of whoever runs the tests, and no way out: everything but this machine goes to a proxy that is
        not there."""
        nowhere = "http://127.0.0.1:9"
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "CODEX_HOME": str(self.own) if self.program == "codex" else "",
            "HTTPS_PROXY": nowhere,
            "HTTP_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "SCRIPTED_KEY": "key",
        }

    def start(
        self, server: WireServer, prompt: str, resume: str | None = None, more: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        again = ["--resume", resume, *more] if resume else []
        command = [str(self.binary), *again, "-p", prompt, "--allowedTools", "Bash,mcp__refold__recall"]
        environment = self.environment | {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        if self.program == "codex":
            config = _CODEX.format(url=server.v1, project=self.project)
            (self.own / "config.toml").write_text(config)
            command = [str(self.binary), "exec", *(["resume", resume, *more] if resume else [])]
            command += ["--skip-git-repo-check", prompt]
        return subprocess.Popen(
            command,
            cwd=self.project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def say(
        self, server: WireServer, prompt: str, resume: str | None = None, more: Sequence[str] = ()
    ) -> None:
        process = self.start(server, prompt, resume, more)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output[-2000:]

    def refold(self, *command: object) -> subprocess.CompletedProcess[str]:
        """Our own command line, in the same home."""
        line = [sys.executable, "-m", "refold", *map(str, command)]
        return subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=300)

    def answer(self, *command: object) -> dict[str, Any]:
        done = self.refold(*command, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def files(self) -> list[Path]:
        where = "projects/*/*.jsonl" if self.program == "claude-code" else "sessions/*/*/*/*.jsonl"
        return sorted(self.own.glob(where))

    # ── what the program's model was asked ──────────────────────────────────────────────────────

    def call(self, id: str, command: str) -> m.Call:
        if self.program == "claude-code":
            return m.call(id, "Bash", command=command, description="run it")
        return m.call(id, "exec_command", cmd=command)

    def told(self, server: WireServer) -> list[tuple[str, ...]]:
        """What the last request says, without what the program says by itself."""
        body = server.bodies[-1]
        if self.program == "codex":
            found = dialects.get("responses").parse_list(body["input"])
        else:
            found = dialects.get("anthropic").parse_list(body["messages"])
        return in_order(message for message in map(_typed, found) if not _is_own(message))


def shows(number: int, sent: str | bytes) -> bool:
    """Whether this line of what `seq` printed stands there, with the next: an id holds four digits by chance."""
    text = sent.decode() if isinstance(sent, bytes) else sent
    return re.search(rf"{number}\D{{1,6}}{number + 1}", text) is not None


def in_order(messages: Iterable[m.Message]) -> list[tuple[str, ...]]:
    """What is said, the results of one reply sorted: Claude Code resumes parallel ones in an order of its own."""
    found: list[tuple[str, ...]] = []
    for kind, group in groupby(spoken_texts(messages), key=lambda word: word[0]):
        said = list(group)
        found += sorted(said) if kind == "result" else said
    return found


def _is_own(message: m.Message) -> bool:
    return isinstance(message, m.System) or is_context(message)


def _typed(message: m.Message) -> m.Message:
    """Without Claude Code's reminders."""
    if not isinstance(message, m.User):
        return message
    kept = [
        p for p in message.content if not (isinstance(p, m.Text) and p.text.startswith("<system-reminder>"))
    ]
    return m.User(tuple(kept))


def conversation(client: Client, steps: int) -> Sequence[m.Assistant | str]:
    """What the model does about the first prompt: pairs of calls with long results, then an answer."""
    replies = [
        m.assistant(
            f"Step {n}.",
            client.call(f"call_{n}_a", f"seq {n}000 {n}120"),
            client.call(f"call_{n}_b", f"echo only-{n}"),
        )
        for n in range(1, steps + 1)
    ]
    return [*replies, "All steps are done."]
