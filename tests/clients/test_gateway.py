"""The real programs through `refold serve`, against a scripted upstream with a small window."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.engine import Engine
from refold.models.scripted import ScriptedReply
from refold.registry.sessions import stored
from refold.stores import open_store
from refold.testing.wire import WireServer
from tests.clients import kit
from tests.clients.kit import Client

pytestmark = pytest.mark.clients
WINDOW = 32_000
STEPS = 30


class Served:
    """What a client needs to know of a server."""

    def __init__(self, url: str) -> None:
        self.url, self.v1 = url, f"{url}/v1"


@contextmanager
def served(client: Client, server: WireServer, store: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "refold", "serve", "--upstream", server.url, "--port", "0"]
    command += ["--store", f"sqlite:{store}", "--window", str(WINDOW)]
    process = subprocess.Popen(
        command, env=client.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield Served(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.communicate(timeout=300)


@pytest.mark.parametrize("program", ["claude-code", "codex"])
def test_sixty_calls_through_a_small_window(program: str, tmp_path: Path) -> None:
    client, store = Client(program, tmp_path), tmp_path / "gateway.db"
    script = [
        m.assistant(
            f"Step {n}.", client.call(f"c{n}a", f"seq {n}000 {n}400"), client.call(f"c{n}b", f"echo only-{n}")
        )
        for n in range(1, STEPS + 1)
    ]
    with WireServer(*script, "All steps are done.") as server, served(client, server, store) as gateway:
        client.say(gateway, "Do all the steps, one after the other.")  # pyright: ignore
        assert server.problems == []
        assert len(server.requests) == STEPS + 1
    opened = open_store(f"sqlite:{store}").store
    session = max((stored(opened, info.id) for info in opened.sessions()), key=len)
    assert session.annotations(e.Fold), "nothing was folded"
    largest = max(len(seen.raw) for seen in server.requests)
    assert largest < 4 * WINDOW * 1.2
    calls = [
        part.id
        for x in session.path
        if isinstance(x, e.MessageEntry)
        for part in x.message.parts
        if isinstance(part, m.Call)
    ]
    assert len(calls) == 2 * STEPS
    assert session.last_reply and session.last_reply.message.text == "All steps are done."
    engine = Engine("refold")
    assert engine.recall(session, "only-7")
    folded = engine.view(session).text
    engine.undo(session)
    assert engine.view(session).text != folded
    earlier = session.path[9].id
    session.move(earlier)
    session.append(m.user("Another way."))
    assert session.path[-2].id == earlier and len(session.path) == 11


def test_codex_compacts_by_itself_against_an_upstream_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for compaction only where it takes the provider for OpenAI."""
    config = kit._CODEX.replace('name = "scripted"\nbase', 'name = "OpenAI"\nbase')
    monkeypatch.setattr(kit, "_CODEX", f"model_auto_compact_token_limit = 3000\n{config}")
    client = Client("codex", tmp_path)
    script = [
        ScriptedReply(
            content=(m.Text(f"Step {n}."), client.call(f"c{n}", f"seq {n}000 {n}400")),
            usage=m.Usage(input=1000 * n, output=10),
        )
        for n in range(1, 7)
    ]
    with WireServer(*script, "All done.") as server, served(client, server, tmp_path / "g.db") as gateway:
        process = client.start(gateway, "Do all the steps.")  # pyright: ignore
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0 and "context compacted" in output, output[-2000:]
        assert server.problems == []
    kinds = {item.get("type") for body in server.bodies for item in body["input"]}
    assert kinds <= {"message", "function_call", "function_call_output"}
    opened = open_store(f"sqlite:{tmp_path / 'g.db'}").store
    session = max((stored(opened, info.id) for info in opened.sessions()), key=len)
    assert session.annotations(e.Fold)
    assert session.last_reply and session.last_reply.message.text == "All done."


class AppServer:
    """What Codex's own terminal talks to: `/compact` is `thread/compact/start`."""

    def __init__(self, client: Client) -> None:
        self._process = subprocess.Popen(
            [str(client.binary), "app-server"],
            cwd=client.project,
            env=client.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._numbers = count(1)
        self.ask("initialize", clientInfo={"name": "test", "title": "test", "version": "1"})
        self._send({"method": "initialized"})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "codex ended"
        return json.loads(line)

    def ask(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        while (told := self._read()).get("id") != number:
            pass
        assert "error" not in told, told
        return told["result"]

    def until(self, method: str) -> list[dict[str, Any]]:
        """All that it says until then."""
        told = [self._read()]
        while told[-1].get("method") != method:
            told.append(self._read())
        return told

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def test_codex_compacts_when_it_is_told_to(tmp_path: Path) -> None:
    config = kit._CODEX.replace('name = "scripted"\nbase', 'name = "OpenAI"\nbase')
    client = Client("codex", tmp_path)
    words = " ".join(f"value-{n}" for n in range(2000))
    with (
        WireServer(f"First: {words}", f"Second: {words}", "Third.") as server,
        served(client, server, tmp_path / "g.db") as gateway,
    ):
        client.own.mkdir(parents=True, exist_ok=True)
        (client.own / "config.toml").write_text(config.format(url=gateway.v1, project=client.project))
        codex = AppServer(client)
        try:
            thread = codex.ask("thread/start", cwd=str(client.project))["thread"]["id"]
            for text in ("One?", "Two?"):
                codex.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
                codex.until("turn/completed")
            codex.ask("thread/compact/start", threadId=thread)
            told = codex.until("turn/completed")
            assert told[-1]["params"]["turn"]["status"] == "completed", told[-1]
            assert "contextCompaction" in json.dumps(told)
            codex.ask("turn/start", threadId=thread, input=[{"type": "text", "text": "Three?"}])
            assert codex.until("turn/completed")[-1]["params"]["turn"]["status"] == "completed"
        finally:
            codex.close()
        assert server.problems == []
        assert len(server.requests) == 3  # the upstream was never asked to compact
    assert "compaction" not in {item.get("type") for item in server.bodies[-1]["input"]}
    assert len(server.requests[-1].raw) < len(server.requests[1].raw) + len(words)
