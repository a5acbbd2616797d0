"""The real programs under `refold run`, against one scripted upstream that stands where their provider would."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.engine import Engine
from refold.models.scripted import ScriptedReply
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.edits import active_folds
from refold.stores import open_store
from refold.testing.wire import WireServer
from tests.clients import kit
from tests.clients.kit import ROOT
from tests.clients.test_opencode import OpenCode
from tests.clients.test_python import program as python_program
from tests.soon import until

pytestmark = pytest.mark.clients
WINDOW, SMALL = 100_000, 32_000
SUMMARY = "What the program's own model would have written."


class Run:
    """One program, with an empty home and a project, that `refold run` starts."""

    def __init__(self, program: str, folder: Path, window: int = WINDOW) -> None:
        self.program, self.folder, self.window = program, folder, window
        if program == "opencode":
            self.binary, names = OpenCode(folder).binary, ()
        elif program == "aider":
            self.binary, names = Path(python_program("aider", "aider")), ("home", "project", "bin")
        else:
            self.binary, names = (
                kit.binary({"claude": "claude-code"}.get(program, program)),
                ("home", "project"),
            )
        for name in (*names, "bin"):
            (folder / name).mkdir(exist_ok=True)
        self.home, self.project = folder / "home", folder / "project"
        (folder / "bin" / program).symlink_to(self.binary)

    def set_up(self, server: WireServer, compact_at: int | None = None) -> None:
        """The program's own settings, which name the upstream."""
        self.server = server
        if self.program == "opencode":
            OpenCode.set_up(self, server)  # pyright: ignore[reportArgumentType]
        if self.program == "codex":
            config = kit._CODEX.format(url=server.v1, project=self.project)
            limit = f"model_auto_compact_token_limit = {compact_at}\n" if compact_at else ""
            (self.home / ".codex").mkdir(exist_ok=True)
            (self.home / ".codex" / "config.toml").write_text(limit + config)

    @property
    def environment(self) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        url = self.server.url
        return {
            "HOME": str(self.home),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HTTPS_PROXY": nowhere,
            "HTTP_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "SCRIPTED_KEY": "key",
            **{
                "claude": {
                    "ANTHROPIC_BASE_URL": url,
                    "ANTHROPIC_API_KEY": "key",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "DISABLE_AUTOUPDATER": "1",
                },
                "opencode": {
                    "OPENCODE_DISABLE_AUTOUPDATE": "1",
                    "OPENCODE_DISABLE_MODELS_FETCH": "1",
                    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
                    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                },
                "aider": {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "key"},
            }.get(self.program, {}),
        }

    def start(self, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "refold", "run", "--store", f"sqlite:{self.folder / 'run.db'}"]
        line += ["--window", str(self.window), *options, self.program, *arguments]
        return subprocess.Popen(
            line, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *arguments: str, options: tuple[str, ...] = ()) -> tuple[str, str]:
        """What it printed, and the last line of standard error, which is refold's."""
        process = self.start(*arguments, options=options)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, (out + err)[-2000:]
        return out, err.strip().splitlines()[-1]

    def say(self, prompt: str, *, resume: bool = False, options: tuple[str, ...] = ()) -> tuple[str, str]:
        again = {
            "claude": ["--continue"],
            "codex": ["resume", "--last"],
            "opencode": ["--continue"],
            "aider": [],
        }
        line = {
            "claude": ["-p", prompt, "--allowedTools", "Bash"],
            "codex": ["--skip-git-repo-check", prompt],
            "opencode": ["--format", "json", prompt],
            "aider": ["--model", "openai/m", "--message", prompt, "--no-git", "--yes-always", "--no-check-update",
                      "--no-show-model-warnings", "--analytics-disable", "--no-pretty", "--no-stream"],
        }[self.program]  # fmt: skip
        first = {"codex": ["exec"], "opencode": ["run"]}.get(self.program, [])
        return self.run(*first, *(again[self.program] if resume else []), *line, options=options)

    def call(self, number: int) -> m.Call:
        command = f"seq {number}000 {number}900"
        if self.program == "claude":
            return m.call(f"c{number}", "Bash", command=command, description="run it")
        if self.program == "opencode":
            return m.call(f"c{number}", "bash", command=command, description="run it")
        return m.call(f"c{number}", "exec_command", cmd=command)

    def session(self) -> Session:
        """The longest one."""
        opened = open_store(f"sqlite:{self.folder / 'run.db'}").store
        return max((stored(opened, info.id) for info in opened.sessions()), key=len)

    def refold(self, *command: object) -> str:
        line = [sys.executable, "-m", "refold", *map(str, command)]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def written(self) -> dict[str, bytes]:
        """Every file of the program's settings."""
        places = [
            *self.project.rglob("*.json"),
            *self.home.rglob("settings*.json"),
            *self.home.rglob("*.toml"),
        ]
        return {str(path): path.read_bytes() for path in places}


def steps(client: Run, *, until: int, full: int = 0) -> Iterator[ScriptedReply]:
    """Calls with long results, then an answer; after the step `full` the provider counts a full window."""
    for number in range(1, until + 1):
        content = (m.Text(f"Step {number}."), client.call(number))
        used = m.Usage(input=99_000 if number == full else 1_000 * number, output=10)
        yield ScriptedReply(content=content, usage=used)


def answers(client: Run, **given: int) -> Any:
    """A step for each request of the conversation; for all others, what a model would say."""
    script, later = steps(client, **given), count(1)

    def then(body: dict[str, Any]) -> ScriptedReply | str:
        asked = json.dumps(body)
        if "CHECKPOINT COMPACTION" in asked or "detailed summary of the conversation so far" in asked:
            return f"<summary>{SUMMARY}</summary>"
        if not body.get("tools"):
            return SUMMARY if "context summarization" in asked else "A title"
        return next(script, None) or f"Answer {next(later)}."

    return then


@pytest.mark.parametrize("program", ["claude", "codex", "opencode", "aider"])
def test_a_program_talks_to_its_own_provider_through_a_gateway_that_ends_with_it(
    program: str, tmp_path: Path
) -> None:
    client = Run(program, tmp_path)
    with WireServer(then=answers(client, until=0) if program != "aider" else lambda _: "Answer 1.") as server:
        client.set_up(server)
        before = client.written()
        told, last = client.say("Say something.")
    assert "Answer 1." in told and server.problems == []
    assert "nothing was folded; `refold show" in last
    assert client.session().last_reply is not None
    changed = client.written()
    assert {path: changed[path] for path in before} == before
    keys = {seen.headers.get("authorization", seen.headers.get("x-api-key")) for seen in server.requests}
    assert keys <= {"key", "Bearer key"}
    assert not any("x-refold-key" in seen.headers or "/key/" in seen.path for seen in server.requests)


@pytest.mark.parametrize("program", ["claude", "codex", "opencode"])
def test_its_compaction_is_answered_without_its_model_and_can_be_undone(program: str, tmp_path: Path) -> None:
    client = Run(program, tmp_path)
    with WireServer(then=answers(client, until=8, full=8 if program == "opencode" else 0)) as server:
        client.set_up(server, compact_at=7_500)
        client.say("Do all the steps.")
        if program == "claude":
            client.run("-p", "/compact", "--continue")
        sent = len(server.requests)
        _, last = client.say("Go on.", resume=True)
        folded = server.requests[-1]
        session = client.session()
        where = f"sqlite:{tmp_path / 'run.db'}#{session.id}"
        for _ in active_folds(session.path):
            client.refold("undo", where)
        client.say("Go on once more.", resume=True)
        unfolded = server.requests[-1]
    assert len(server.requests) > sent and server.problems == []
    assert not any(SUMMARY.encode() in seen.raw or b"CHECKPOINT" in seen.raw for seen in server.requests)
    assert session.annotations(e.Fold), "nothing was folded"
    assert not kit.shows(1450, folded.raw) and kit.shows(1000, folded.raw)
    assert kit.shows(1450, unfolded.raw), "the undone fold shows still"
    assert Engine().recall(session, "1450")
    assert "refold show" in last


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_its_own_summary_is_one_option_away(program: str, tmp_path: Path) -> None:
    client = Run(program, tmp_path)
    with WireServer(then=answers(client, until=6)) as server:
        client.set_up(server, compact_at=5_500)
        client.say("Do all the steps.", options=("--own-summary",))
        if program == "claude":
            client.run("-p", "/compact", "--continue", options=("--own-summary",))
        client.say("Go on.", resume=True, options=("--own-summary",))
    assert SUMMARY.encode() in server.requests[-1].raw


def test_a_window_that_is_full_is_folded_and_told_of_at_the_end(tmp_path: Path) -> None:
    client = Run("claude", tmp_path, SMALL)
    with WireServer(then=answers(client, until=16)) as server:
        client.set_up(server)
        _, last = client.say("Do all the steps.")
    assert server.problems == [] and client.session().annotations(e.Fold)
    assert "fold" in last and "tokens fewer sent" in last and "net of cache" in last and "--ledger" in last


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_where_the_gateway_dies_the_program_and_the_user_are_told_how_to_go_on(
    program: str, tmp_path: Path
) -> None:
    client = Run(program, tmp_path)
    pause = f"6.{os.getpid():09}"  # by which this command is recognised
    call = m.call("c1", "Bash", command=f"sleep {pause}", description="wait") if program == "claude" else m.call(
        "c1", "exec_command", cmd=f"sleep {pause}", yield_time_ms=9000)  # fmt: skip
    with WireServer(m.assistant("Wait.", call), then=lambda _: "Never said.") as server:
        client.set_up(server)
        line = ["-p", "Wait.", "--allowedTools", "Bash"] if program == "claude" else [
            "exec", "--skip-git-repo-check", "Wait."]  # fmt: skip
        process = client.start(*line)
        asyncio.run(until(lambda: is_running("sleep", pause)))
        os.kill(gateway_of(process.pid), signal.SIGKILL)
        out, err = process.communicate(timeout=300)
    assert "the gateway of this run has ended" in out + err
    without = {"claude": "claude --continue", "codex": "codex resume --last"}[program]
    assert f"`{without}`" in err.splitlines()[-2]


def is_running(*command: str) -> bool:
    """Does the program run the command of its call? Then it has read the answer."""
    wanted = "\0".join((*command, "")).encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().endswith(wanted):
                return True
    return False


def gateway_of(parent: int) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line, stat = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        if b"refold.gateway.run" in line and int(stat.rpartition(")")[2].split()[1]) == parent:
            return int(folder.name)
    raise AssertionError("no gateway runs")
