"""`refold explore` as it is typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refold.cli import main
from tests.compare.sessions import agent_session
from tests.explorer.kit import database, put


@contextmanager
def explore(*arguments: str) -> Generator[str]:
    """The address that it prints."""
    command = [sys.executable, "-m", "refold", "explore", "--no-browser", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        process.stdout.close()


def told(url: str, what: str) -> Any:
    with urllib.request.urlopen(f"{url}api/{what}", timeout=120) as reply:
        return json.load(reply)


@pytest.mark.slow
def test_a_store_a_file_and_a_folder_are_shown(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, agent_session(1), id="one")
    store.close()
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.json").write_text(
        json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
    )
    with explore(f"sqlite:{tmp_path / 'a.db'}#on") as url:
        assert url.startswith("http://127.0.0.1:")
        listed = told(url, "sessions")
        assert [row["name"] for row in listed["rows"]] == ["refold:one"] and listed["first"] == "refold:one"
    for place in (folder, folder / "a.json"):
        with explore(str(place)) as url:
            for _ in range(200):
                if rows := told(url, "sessions")["rows"]:
                    break
            assert [row["client"] for row in rows] == ["files"]


@pytest.mark.slow
def test_a_port_in_use_is_said() -> None:
    with explore("sqlite::memory:", "--own") as url:
        port = url.split(":")[2].split("/")[0]
        result = CliRunner().invoke(main, ["explore", "--own", "--port", port, "--no-browser"])
        assert result.exit_code == 2 and "choose another with --port" in result.output


def test_without_aiohttp_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("refold.explorer.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    result = CliRunner().invoke(main, ["explore", "--no-browser"])
    assert result.exit_code == 2 and 'pip install "refold[gateway]"' in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-session"], "no-such-session"),
        (["--gateway", "localhost:8787"], "did you mean http://localhost:8787"),
        (["--port", "70000"], "70000"),
    ],
)
def test_wrong_calls_are_told(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["explore", "--no-browser", *arguments])
    assert result.exit_code == 2 and said in result.output, result.output
