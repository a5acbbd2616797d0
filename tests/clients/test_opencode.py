"""The real opencode: its sessions are read, and it goes on with what is exported to it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import refold
from refold import entries as e
from refold import messages as m
from refold.models.scripted import say
from refold.session import Session
from refold.testing.wire import WireServer
from refold.transcripts import read
from refold.transcripts.export import export
from refold.transcripts.opencode import COMPACTION_REQUEST
from refold.transcripts.opencode_write import GO_ON, Importable
from tests.clients.kit import INSTALLED
from tests.transcripts.foreign import view

pytestmark = pytest.mark.clients


class OpenCode:
    """The program with an empty home and a project."""

    def __init__(self, folder: Path) -> None:
        found = sorted(INSTALLED.glob("opencode-*/bin/opencode"))
        found = [path for path in found if path.parts[-3] != "opencode-ai"]
        if not found:
            pytest.skip("opencode is not installed: `make test-clients` installs it (it needs npm)")
        self.binary, self.home, self.project = found[0], folder / "home", folder / "project"
        self.home.mkdir()
        self.project.mkdir()

    def set_up(self, server: WireServer) -> None:
        model = {"name": "m", "limit": {"context": 100_000, "output": 8_000}}
        options = {"baseURL": server.v1, "apiKey": "key"}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": options,
            "models": {"m": model},
        }
        config = {
            "$schema": "https://opencode.ai/config.json",  # it writes this line where it is missing
            "model": "scripted/m",
            "small_model": "scripted/m",
            "share": "disabled",
            "autoupdate": False,
        }
        allowed = {"permission": {"bash": "allow"}, "provider": {"scripted": provider}}
        (self.project / "opencode.json").write_text(json.dumps({**config, **allowed}))

    def run(self, *command: str) -> str:
        nowhere = "http://127.0.0.1:9"
        environment = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "HTTPS_PROXY": nowhere,
            "HTTP_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        done = subprocess.run(
            [str(self.binary), *command],
            cwd=self.project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
        return done.stdout


@pytest.fixture
def client(tmp_path: Path) -> OpenCode:
    return OpenCode(tmp_path)


def test_a_session_of_the_program_is_read(client: OpenCode, tmp_path: Path) -> None:
    call = say("Let me run it.", m.call("c1", "bash", command="echo hi", description="say hi"))

    def answers(body: dict[str, object]) -> object:
        if not body.get("tools"):
            return "A title"
        last = body["messages"][-1]  # pyright: ignore[reportIndexIssue]
        return "It printed hi." if last["role"] == "tool" else call

    with WireServer(then=answers) as server:  # pyright: ignore[reportArgumentType]
        client.set_up(server)
        client.run("run", "--format", "json", "say hi")
        [id] = [word for word in client.run("session", "list").split() if word.startswith("ses_")]
        (tmp_path / "out.json").write_text(client.run("export", id))
    loaded = read(tmp_path / "out.json")
    assert loaded.problems == () and loaded.info is not None
    assert (loaded.info.id, loaded.info.name, loaded.info.cwd) == (id, "A title", str(client.project))
    asked, *rest = view(Session.of(loaded))
    assert "say hi" in asked[1]
    assert rest == [("assistant", "Let me run it."), ("tool", "hi\n"), ("assistant", "It printed hi.")]


@pytest.mark.parametrize("folded", [True, False])
def test_the_program_goes_on_with_what_is_exported_to_it(
    client: OpenCode, tmp_path: Path, folded: bool
) -> None:
    session = Session(id="w")
    session.append(m.user("Repair the loader."))
    session.append(m.assistant("Look.", m.call("c1", "bash", command="ls")))
    session.append(m.result("c1", "a.py"))
    session.append(m.assistant("Done."))
    said = [("user", "Repair the loader."), ("assistant", "Look."), ("tool", "a.py"), ("assistant", "Done.")]
    if folded:
        first, _, last, end = (entry.id for entry in session.path)
        edit = e.Edit(first, last, (m.user("RECORD"),), "summary")
        session.append(e.Fold(id="f", parent=end, edits=(edit,), summary="RECORD", preset="refold"))
        said = [
            ("user", COMPACTION_REQUEST),
            ("assistant", "RECORD"),
            ("user", GO_ON),
            ("assistant", "Done."),
        ]
    written = export(session, "opencode", cwd=client.project)
    assert isinstance(written, Importable)
    (tmp_path / "in.json").write_bytes(written.data)
    with WireServer(then=lambda _: "Going on.") as server:
        client.set_up(server)
        assert written.id in client.run("import", str(tmp_path / "in.json"))
        client.run("run", "--session", written.id, "--model", "scripted/m", "--format", "json", "go on")
        asked = [body for body in server.bodies if body.get("tools")][-1]["messages"]
        (tmp_path / "out.json").write_text(client.run("export", written.id))
    sent = [
        (message["role"], str(message.get("content") or ""))
        for message in asked
        if message["role"] != "system"
    ]
    assert sent[:-1] == said and "go on" in sent[-1][1]
    again = refold.load(tmp_path / "out.json")
    assert view(again)[: len(said)] == said and view(again)[-1] == ("assistant", "Going on.")
