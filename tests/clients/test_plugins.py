"""The plug-ins in the real programs: from nothing to what a compaction gives back, and without a trace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from refold import messages as m
from refold.models.scripted import ScriptedReply
from refold.plugins.install import HERE
from refold.registry.sessions import stored
from refold.stores import open_store
from refold.testing.wire import WireServer
from tests.clients.kit import INSTALLED, ROOT, shows
from tests.clients.test_run import Run

pytestmark = pytest.mark.clients
SUMMARY = "What the program's own model wrote."
THINKS = 120.0
"""Seconds in which a model writes a summary, at most: it is done when the worker of the hooks is, so that a slow
machine changes nothing."""


class Plugged(Run):
    """A program started by itself, with refold on its PATH."""

    def __init__(self, program: str, folder: Path) -> None:
        super().__init__(program, folder)
        refold = folder / "bin" / "refold"
        refold.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m refold "$@"\n')
        refold.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
            "MCP_TIMEOUT": "60000",
            "MCP_CONNECTION_NONBLOCKING": "0",
        }
        return {**super().environment, **own}

    def program_says(self, *arguments: str) -> str:
        line = [str(self.binary), *arguments]
        with TemporaryFile("w+") as said:  # opencode ends before all of a long output is in a pipe
            done = subprocess.run(
                line, cwd=self.project, env=self.environment, stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT, timeout=300, check=False,
            )  # fmt: skip
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, text[-2000:]
        return text

    def settings(self) -> dict[str, bytes]:
        """Every file of the program's own folder that is no session, log or cache of its own."""
        own = {"claude": ".claude", "codex": ".codex", "opencode": ".config/opencode"}[self.program]
        files = [path for path in (self.home / own).rglob("*") if path.is_file()]
        places = {str(path.relative_to(self.home / own)): path.read_bytes() for path in files}
        return {
            name: data for name, data in places.items() if name.split("/")[0] not in ("tmp", ".tmp", "log")
        }


def answering(
    client: Run, steps: int, *, hooks: bool = True
) -> Callable[[dict[str, Any]], ScriptedReply | str]:
    """A model that takes so many steps. `hooks`: whether those of refold work."""
    numbers, later = iter(range(1, steps + 1)), count(1)
    texts = client.home / ".cache" / "refold" / "plugin"

    def then(body: dict[str, Any]) -> ScriptedReply | str:
        asked = json.dumps(body)
        if "detailed summary of the conversation so far" in asked or "CHECKPOINT COMPACTION" in asked:
            end = time.monotonic() + (THINKS if hooks else 0)
            while not any(texts.glob("*/decisions")) and time.monotonic() < end:  # the last one
                time.sleep(0.1)
            return f"<summary>{SUMMARY}</summary>"
        if not body.get("tools"):
            return SUMMARY if "context summarization" in asked else "A title"
        number = next(numbers, None)
        if number is None:
            return f"Answer {next(later)}."
        said = f"Step {number}. I decided to count to {number}000 because it is enough."
        return ScriptedReply(
            content=(m.Text(said), client.call(number)), usage=m.Usage(input=1_000 * number, output=10)
        )

    return then


def own_sessions(client: Run) -> list[str]:
    store = open_store(f"sqlite:{client.home / '.local/share/refold/sessions.db'}").store
    return [info.id for info in store.sessions()]


def test_claude_code_is_given_back_what_its_compaction_dropped(tmp_path: Path) -> None:
    client = Plugged("claude", tmp_path)
    (client.home / ".claude").mkdir()
    (client.home / ".claude" / "settings.json").write_text('{"cleanupPeriodDays":  99}')
    before = client.settings()
    with WireServer(then=answering(client, 4)) as server:
        client.set_up(server)
        assert "/refold:undo" in client.refold("plugin", "install", "claude-code", "--status-line")
        client.program_says("-p", "Count up, and never touch b.txt.", "--allowedTools", "Bash")
        client.program_says("-p", "/refold:pin never touch b.txt", "--continue")
        assert "Pinned" in json.dumps(server.bodies[-1]["messages"])
        client.program_says("-p", "/compact mind the numbers", "--continue")
        [compaction] = [json.dumps(body) for body in server.bodies if "detailed summary" in json.dumps(body)]
        assert "Pinned by the user, verbatim" in compaction and "mind the numbers" in compaction
        client.program_says("-p", "Go on.", "--continue")
        given = json.dumps(server.bodies[-1]["messages"])
        assert SUMMARY in given and given.count("[Tool result]") == 0
        _, _, context = given.partition("SessionStart hook additional context")
        for part in ("The user's own words", "Pinned by the user", "decisions and findings", "what was done"):
            assert context.count(part) == 1, part
        assert "never touch b.txt" in given and "seq 3000 3900" in given and not shows(3500, given)
        client.program_says("-p", '/refold:recall it\'s "3500" $HOME', "--continue")
        assert "3500" in json.dumps(server.bodies[-1]["messages"])
        client.program_says("-p", "/refold:ledger", "--continue")
        assert "left the context" in json.dumps(server.bodies[-1]["messages"])
        client.program_says("-p", "/refold:undo", "--continue")
        id = json.dumps(server.bodies[-1]["messages"]).split("Type /resume ")[1][:36]
        client.program_says("-p", "Once more.", "--resume", id)
        whole = json.dumps(server.bodies[-1]["messages"])
        assert "3500" in whole and SUMMARY not in whole
    assert len([name for name in own_sessions(client) if "~" not in name]) >= 1
    client.refold("plugin", "remove", "claude-code")
    after = client.settings()
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if "refold" in name and not name.startswith("projects/")]


def test_claude_code_calls_recall(tmp_path: Path) -> None:
    client = Plugged("claude", tmp_path)
    tool = "mcp__plugin_refold_refold__recall"
    calls = iter([m.assistant("Look.", m.call("r1", tool, query="b.txt"))])

    def then(body: dict[str, Any]) -> m.Assistant | str:
        names = {each["name"] for each in body.get("tools", ())}
        asked = tool in names and "What must not be touched?" in json.dumps(body["messages"])
        return (next(calls, None) if asked else None) or "Answer."

    with WireServer(then=then) as server:
        client.set_up(server)
        client.refold("plugin", "install", "claude-code", "--no-status-line")
        client.program_says("-p", "Never touch b.txt.")
        for _ in range(4):  # the program does not wait for its MCP servers to be up
            client.program_says("-p", "What must not be touched?", "--allowedTools", tool, "--continue")
            answered = "refold-record" in json.dumps(server.bodies[-1]["messages"][-1])
            if answered:
                break
    assert answered


@pytest.mark.parametrize("folder", [ROOT, HERE])
def test_claude_code_takes_the_plugin_from_a_marketplace(folder: Path, tmp_path: Path) -> None:
    client = Plugged("claude", tmp_path)
    with WireServer(then=lambda _: "Answer.") as server:
        client.set_up(server)
        assert "passed" in client.program_says("plugin", "validate", str(HERE / "refold"))
        client.program_says("plugin", "marketplace", "add", str(folder))
        client.program_says("plugin", "install", "refold@refold")
        assert "refold@refold" in client.program_says("plugin", "list")
        client.program_says("-p", "/refold:ledger")
    assert "refold: Claude Code has no session" in json.dumps(server.bodies[-1]["messages"])


@pytest.mark.parametrize("missing", ["program", "store"])
def test_a_hook_of_claude_code_never_harms(tmp_path: Path, missing: str) -> None:
    client = Plugged("claude", tmp_path)
    with WireServer(then=answering(client, 2, hooks=False)) as server:
        client.set_up(server)
        client.refold("plugin", "install", "claude-code", "--no-status-line")
        if missing == "program":
            (client.folder / "bin" / "refold").unlink()
        else:
            (client.home / ".local" / "share").mkdir(parents=True)
            (client.home / ".local" / "share" / "refold").write_text("no folder")
        told = client.program_says("-p", "Count up.", "--allowedTools", "Bash")
        client.program_says("-p", "/compact", "--continue")
        client.program_says("-p", "Go on.", "--continue")
    assert told.strip() == "Answer 1."
    assert SUMMARY in json.dumps(server.bodies[-1]["messages"])


def test_codex_is_given_back_what_its_compaction_dropped(tmp_path: Path) -> None:
    client = Plugged("codex", tmp_path)
    trusting = "--dangerously-bypass-hook-trust"
    with WireServer(then=answering(client, 6)) as server:
        client.set_up(server, compact_at=5_000)
        before = client.settings()
        assert "approve" in client.refold("plugin", "install", "codex")
        assert b"hook" not in client.settings()["config.toml"]  # approving them is the user's
        client.program_says("exec", trusting, "--skip-git-repo-check", "Count up, and never touch b.txt.")
        client.refold("plugin", "remove", "codex")
    given = [json.dumps(body["input"]) for body in server.bodies if SUMMARY in json.dumps(body["input"])]
    assert given and "The user's own words" in given[0] and "what was done" in given[0]
    after = client.settings()
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if "refold" in name]


def opencode(folder: Path, server: WireServer) -> Plugged:
    """With the package beside its plug-ins that it would fetch otherwise."""
    client = Plugged("opencode", folder)
    client.set_up(server)
    shutil.copytree(INSTALLED.parent / "opencode-plugin", client.home / ".config" / "opencode")
    (client.home / ".config" / "opencode" / "opencode.jsonc").write_text(
        '{"$schema": "https://opencode.ai/config.json"}'
    )
    config = json.loads((client.project / "opencode.json").read_text())
    config["provider"]["scripted"]["models"]["m"]["limit"] = {"context": 20_000, "output": 2_000}
    (client.project / "opencode.json").write_text(json.dumps(config))
    return client


def sizes(server: WireServer) -> list[int]:
    return [len(json.dumps(body["messages"])) for body in server.bodies if body.get("tools")]


def test_opencode_sends_a_folded_view_and_stores_what_was_said(tmp_path: Path) -> None:
    with WireServer(then=lambda body: then(body)) as server:
        client = opencode(tmp_path, server)
        then = answering(client, 12)
        client.refold("plugin", "install", "opencode")
        client.program_says("run", "--format", "json", "Count up, and never touch b.txt.")
        [id] = [word for word in client.program_says("session", "list").split() if word.startswith("ses_")]
        kept = client.program_says("export", id)
        sent = sizes(server)
        assert any(later < sooner for sooner, later in pairwise(sent))
        assert all(f"{number}500" in kept for number in range(1, 13))
        assert not shows(1500, json.dumps(server.bodies[-1]["messages"]))
        assert "never touch b.txt" in json.dumps(server.bodies[-1]["messages"])
        assert server.problems == []
        store = open_store(f"sqlite:{client.home / '.local/share/refold/sessions.db'}").store
        assert stored(store, f"live-{id}").path
        client.refold("plugin", "remove", "opencode")
    assert not list((client.home / ".config").rglob("refold*"))


def test_opencode_without_refold_sends_messages_as_they_are(tmp_path: Path) -> None:
    with WireServer(then=lambda body: then(body)) as server:
        client = opencode(tmp_path, server)
        then = answering(client, 3)
        client.refold("plugin", "install", "opencode")
        (client.folder / "bin" / "refold").unlink()
        client.program_says("run", "--format", "json", "Count up.")
    assert sizes(server) == sorted(sizes(server)) and "1500" in json.dumps(server.bodies[-1]["messages"])
