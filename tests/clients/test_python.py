"""aider, LangChain and llm through `refold serve`, against a scripted upstream with a small window."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from refold import entries as e
from refold import messages as m
from refold.engine import Engine
from refold.registry.sessions import stored
from refold.session import Session
from refold.stores import open_store
from refold.testing.wire import WireServer

pytestmark = pytest.mark.clients
ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(os.environ.get("REFOLD_CLIENTS_PYTHON") or ROOT / ".clients-python")
WINDOW = 8_000
WORDS = " ".join(f"value-{n}" for n in range(400))


def program(name: str, command: str) -> str:
    found = INSTALLED / name / "bin" / command
    if not found.exists():
        pytest.skip(f"{name} is not installed: `make test-clients` installs it from PyPI")
    return str(found)


def environment(folder: Path) -> dict[str, str]:
    """Nothing of whoever runs the tests, and no way out."""
    return {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": "",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
        "LLM_USER_PATH": str(folder / "llm"),
    }


@contextmanager
def served(server: WireServer, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "refold", "serve", "--upstream", server.url, "--port", "0"]
    command += ["--store", f"sqlite:{folder / 'gateway.db'}", "--window", str(WINDOW)]
    own = {**environment(folder), "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=300)


def run(command: list[str], folder: Path, said: str = "") -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(folder), input=said, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def sessions_in(folder: Path) -> list[Session]:
    """The longest first. A client that changes how its list begins (aider, in another mode) begins another."""
    opened = open_store(f"sqlite:{folder / 'gateway.db'}").store
    return sorted((stored(opened, info.id) for info in opened.sessions()), key=len, reverse=True)


def check(server: WireServer, folder: Path, last: str) -> Session:
    """Folded, never too long, all of it there, and the last word was said."""
    assert server.problems == []
    assert max(len(seen.raw) for seen in server.requests) < 4 * WINDOW * 1.2
    sessions = sessions_in(folder)
    assert sessions[0].annotations(e.Fold), "nothing was folded"
    assert any(last in session.last_reply.message.text for session in sessions if session.last_reply)
    return sessions[0]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_agent_of_langchain_calls_tools_through_a_small_window(kind: str, tmp_path: Path) -> None:
    python, steps = program("langchain", "python"), 20
    calls = [m.call(f"call_{n}", "numbers", first=1000 * n, last=1000 * n + 400) for n in range(1, steps + 1)]
    script = [m.assistant(f"Step {n}.", call) for n, call in enumerate(calls)]
    with WireServer(*script, "All steps are done.") as server, served(server, tmp_path) as url:
        told = run([python, str(ROOT / "tests/clients/langchain_agent.py"), kind, url, str(steps)], tmp_path)
        assert "All steps are done." in told
        assert len(server.requests) == steps + 1
    session = check(server, tmp_path, "All steps are done.")
    assert [call.id for call in calls] == [
        call.id
        for x in session.path
        if isinstance(x, e.MessageEntry) and isinstance(x.message, m.Assistant)
        for call in x.message.calls
    ]
    assert Engine("refold").recall(session, "7399")


LLM = """\
- model_id: folded
  model_name: m
  api_base: {url}/v1
  api_key_name: openai
  supports_tools: true
  headers: {{X-Refold-Session: notes}}
"""


def test_llm_goes_on_in_a_conversation_and_calls_functions(tmp_path: Path) -> None:
    llm, turns = program("llm", "llm"), 12
    functions = tmp_path / "functions.py"
    functions.write_text('def total(a: int, b: int) -> int:\n    "Both together."\n    return a + b\n')
    script = [f"Answer {n}. {WORDS}" for n in range(turns)]
    called = m.assistant("", m.call("call_1", "total", a=2, b=3))
    with WireServer(*script, called, "It is 5.") as server, served(server, tmp_path) as url:
        (tmp_path / "llm").mkdir()
        (tmp_path / "llm" / "extra-openai-models.yaml").write_text(LLM.format(url=url))
        usual = [llm, "prompt", "--key", "key", "-m", "folded"]
        for number in range(turns):
            more = ["-c"] if number else []
            assert f"Answer {number}." in run([*usual, *more, f"Question {number}?"], tmp_path)
        assert "It is 5." in run([*usual, "-c", "--functions", str(functions), "What is 2 + 3?"], tmp_path)
    session = check(server, tmp_path, "It is 5.")
    assert any(isinstance(x, e.MessageEntry) and isinstance(x.message, m.Result) for x in session.path)


EDIT = """\
The file, once more.

notes.txt
```
{text}
```
"""


AIDER = """\
- name: openai/m
  edit_format: whole
  extra_params:
    extra_headers: {X-Refold-Session: project}
"""


def test_aider_edits_a_file_in_a_long_conversation(tmp_path: Path) -> None:
    aider, turns = program("aider", "aider"), 8
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.txt").write_text("begun\n")
    (project / ".aider.model.settings.yml").write_text(AIDER)
    script = [f"Answer {n}. {WORDS}" for n in range(turns)]
    with WireServer(*script, EDIT.format(text="the work is done")) as server, served(server, tmp_path) as url:
        command = [aider, "--openai-api-base", f"{url}/v1", "--openai-api-key", "key", "--model", "openai/m"]
        command += ["--max-chat-history-tokens", "1000000"]  # leaves it to the gateway
        command += ["--no-git", "--yes-always", "--no-show-model-warnings", "--no-check-update"]
        command += ["--analytics-disable", "--no-pretty", "--no-fancy-input", "notes.txt"]
        said = [f"/ask Question {n}?" for n in range(turns)] + ["Write into the file that the work is done."]
        run(command, project, "\n".join([*said, "/exit", ""]))
        assert len(server.requests) == turns + 1
    assert (project / "notes.txt").read_text() == "the work is done\n"
    check(server, tmp_path, "The file, once more.")
