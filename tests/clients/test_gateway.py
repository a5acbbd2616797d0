"""The real programs through `refold serve`, against a scripted upstream with a small window."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refold import entries as e
from refold import messages as m
from refold.engine import Engine
from refold.models.scripted import Line
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
        process.communicate(timeout=30)


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
    folded = len(engine.view(session))
    engine.undo(session)
    assert len(engine.view(session)) != folded


def test_codex_compacts_by_itself_against_an_upstream_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for compaction only where it takes the provider for OpenAI."""
    config = kit._CODEX.replace('name = "scripted"\nbase', 'name = "OpenAI"\nbase')
    monkeypatch.setattr(kit, "_CODEX", f"model_auto_compact_token_limit = 3000\n{config}")
    client = Client("codex", tmp_path)
    script = [
        Line(
            content=(m.Text(f"Step {n}."), client.call(f"c{n}", f"seq {n}000 {n}400")),
            usage=m.Usage(input=1000 * n, output=10),
        )
        for n in range(1, 7)
    ]
    with WireServer(*script, "All done.") as server, served(client, server, tmp_path / "g.db") as gateway:
        process = client.start(gateway, "Do all the steps.")  # pyright: ignore
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0 and "context compacted" in output, output[-2000:]
        assert server.problems == []
    kinds = {item.get("type") for body in server.bodies for item in body["input"]}
    assert kinds <= {"message", "function_call", "function_call_output"}
    opened = open_store(f"sqlite:{tmp_path / 'g.db'}").store
    session = max((stored(opened, info.id) for info in opened.sessions()), key=len)
    assert session.annotations(e.Fold)
    assert session.last_reply and session.last_reply.message.text == "All done."
