"""What others write (models, tools, files, servers) reaches the terminal as characters only, whatever it is; and no question is
answered unseen."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refold.testing.wire import WireServer
from refold.tools import sandbox
from tests.agent.terminal import Project, Terminal
from tests.agent.test_mcp_servers import SERVER
from tests.agent.test_terminal import check

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b]0;pwned\x07\x1b]8;;http://x\x07\x1b[2J\x1b[45m\x1b[201~\x1b[?1049h\x9b5m\u202eevil\u2066\x00\x08\x7f\r"
"""Clipboard, title, link, clear, colour, end of a paste, other screen, bidi, NUL, backspace, delete, return."""
FORBIDDEN = (
    "\x1b]",
    "\x1b[2J",
    "\x1b[45m",
    "\x1b[201~",
    "\x1b[?1049h",
    "\x9b",
    "\u202e",
    "\u2066",
    "\x00",
    "\x7f",
)


def harmless(run: Terminal) -> None:
    """Nothing came but characters and what the program itself sends; the prompt stands where it should."""
    run.settle()
    end = time.perf_counter() + 60
    while not at_prompt(run):
        run.pump(end)
    assert run.screen.oddities == []
    drawn = run.raw.replace("\x1b[2J\x1b[H", "")  # the prompt's own way of beginning anew
    assert [text for text in FORBIDDEN if text in drawn] == []


def at_prompt(run: Terminal) -> bool:
    rows = run.screen.shown.split("\n")
    return run.screen.cursor.x == 2 and rows[run.screen.cursor.y] == "›"


def test_what_models_tools_and_files_say(project: Project) -> None:
    (project.root / "evil.txt").write_text(EVIL + "\n" + "long " * 5_000 + "\n")
    (project.root / f"name{EVIL}".replace("\x00", "").replace("/", "")).write_text("x")
    command = "cat evil.txt; printf '\\033]0;pwned\\007\\033[2J'; sleep 0.3"
    calls = [
        ("Read", {"path": "evil.txt"}),
        ("LS", {"path": "."}),
        ("Bash", {"command": command}),
        (f"Nothing{EVIL}", {"path": EVIL}),
        ("TodoWrite", {"todos": [{"content": EVIL}]}),
        ("Write", {"path": "copy.txt", "content": EVIL + "\n"}),
        ("Task", {"description": EVIL, "prompt": EVIL}),
    ]
    lines = "".join(f"@call {name.splitlines()[0]} {json.dumps(given)}\n" for name, given in calls)
    said = EVIL.replace("\r", "").replace("\x1c", "")
    run = project.chat(
        f"{said}\n{lines}---\n{said}\n---\nDone.\n---\n@error refused {said}\n", "--permission", "all"
    )
    run.until("› ")
    run.say("Go", "Done.")
    harmless(run)
    run.say("My own words", "pwned")  # an error of the provider
    for command in (
        "/tree",
        "/recall evil",
        "/resume",
        "/diff",
        "/restore",
        "/cost",
        "/plan",
        "/expand",
        "/nonsense\x1b[2J",
    ):
        run.type(command)
        run.until("› ")
        harmless(run)
    assert run.leave() == 0


def test_what_a_question_shows(project: Project) -> None:
    calls = [("Write", {"path": "new.txt", "content": EVIL}), ("Bash", {"command": f"true {EVIL}"})]
    lines = "---\n".join(f"@call {name} {json.dumps(given)}\n" for name, given in calls)
    run = project.chat(f"{lines}---\nDone.")
    run.until("› ")
    run.type("Go")
    for _ in calls:
        run.until("? ", "n(o):")  # the prompt may be drawn twice, the question is not
        run.settle()
        assert run.screen.oddities == [] and "evil" in run.screen.shown
        run.type("n")
    run.until("Done.", "› ")
    harmless(run)
    run.leave()


def test_what_a_server_says(project: Project) -> None:
    path = project.home / "server.py"
    path.write_text(SERVER.replace('"description": f"Does {name}."', f'"description": {EVIL!r}'))
    (project.home / "refold").mkdir(exist_ok=True)
    (project.home / "refold" / "config.toml").write_text(
        f'[mcp.notes]\ncommand = "{sys.executable}"\nargs = ["{path}"]\n[mcp.gone]\ncommand = "/nothing/{json.dumps(EVIL[:-1])[1:-1].replace("x9b", "x")}"\n'
    )
    run = project.chat(f'@call mcp__notes__echo {{"text": {json.dumps(EVIL)}}}\n---\nDone.')
    run.until("› ")
    run.type("Go")
    run.until("MCP server gone is not available", "Run mcp__notes__echo?", "n(o):")
    run.say("y", "← mcp__notes__echo", "evil", "Done.")
    harmless(run)
    run.leave()


# ── nothing is answered unseen ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_pressed_before_a_question_is_there_does_not_answer_it(project: Project, at_once: bool) -> None:
    run = project.chat('@delay 0.5\n@call Write {"path": "x", "content": "y"}\n---\nThen not.')
    run.until("› ")
    if at_once:
        run.type("Go\ry")  # in one piece, as a paste would be
    else:
        run.type("Go")
        run.until("waiting for the model")
        run.type("y")
    run.until("n(o):")
    run.settle()
    assert not (project.root / "x").exists()
    assert run.screen.display[run.screen.cursor.y].rstrip().endswith("n(o):"), "it waits"
    run.say("n", "Then not.")
    run.leave()


def test_keys_pressed_during_a_turn_do_not_stand_in_its_text_but_in_the_next_prompt(project: Project) -> None:
    run = project.chat("@delay 0.7\nFirst.")
    run.until("› ")
    run.type("Go")
    run.until("waiting for the model")
    run.type("abc", end="")
    run.until("First.", "› ", "abc")
    run.settle()
    assert run.screen.shown.count("abc") == 1
    assert "\n› abc\n" in run.screen.shown
    run.kill()


@pytest.mark.parametrize("filler", ["x" * 3_000, "\\n" * 300, " " * 6_000])
def test_all_of_a_long_command_can_be_seen_before_it_is_allowed(project: Project, filler: str) -> None:
    run = project.chat(
        f'@call Bash {{"command": "echo {filler}; touch HIDDEN; echo {filler}"}}\n---\nThen not.'
    )
    run.until("› ")
    run.type("Run it")
    run.until("n(o)")
    run.settle()
    if "HIDDEN" not in run.seen:
        assert "d shows all" in run.screen.shown
        run.type("d")
        run.until("HIDDEN", "n(o)")
    run.say("n", "Then not.")
    run.leave()


# ── shapes of the window ────────────────────────────────────────────────────────────────────────


def test_a_window_of_twenty_columns(project: Project) -> None:
    text = (
        "Some **answer** with wide 日本語 words.\n\n```python\nprint('a line that is too long for it')\n```\n"
    )
    run = project.chat(
        f'{text}@call Edit {{"path": "a.py", "old_string": "return 1", "new_string": "return 2"}}\n---\nDone.',
        size=(24, 20),
    )
    run.until("› ")
    run.type("Go")
    run.until("n(o")
    run.say("y", "Done.")
    harmless(run)
    bar = run.screen.display[-1]
    assert "free" in bar, "what matters of the status line fits"
    assert all("Ctrl-C stops" not in row for row in run.screen.transcript)
    run.leave()


def test_a_window_that_changes_while_words_come(project: Project) -> None:
    words = "\n\n".join(f"Block {n} of many words that go on for a while." for n in range(12))
    run = project.chat(f"{words}\n@pace 0.01\n---\nDone.", size=(30, 100))
    run.until("› ")
    run.type("Go")
    for rows, columns, mark in ((20, 40, "Block 2"), (10, 70, "Block 5"), (30, 100, "Block 8")):
        run.until(mark)
        run.resize(rows, columns)
    run.until("Block 11", "› ")
    run.say("More", "Done.")
    assert run.screen.oddities == []
    run.settle()
    assert run.screen.display[run.screen.cursor.y].startswith("› ") and run.screen.cursor.x == 2
    run.leave()


# ── stopping, network, pictures ─────────────────────────────────────────────────────────────────

CONTROL_C = "\x03"
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
needs_sandbox = pytest.mark.skipif(
    sandbox.find_sandbox(Path.cwd()) is None, reason="no sandbox here: `make test-sandbox` installs one"
)


def test_control_c_at_a_sub_agent_stops_it_and_its_command(project: Project) -> None:
    script = (
        '@call Task {"description": "part", "prompt": "Do it."}\n---\n'
        '@call Bash {"command": "touch begun; sleep 600; touch ended"}\n---\nGoing on.'
    )
    run = project.chat(script)
    run.until("› ")
    run.type("Go")
    run.until("for the sub-agent “part”", "n(o):")
    run.type("y")
    run.until("running Bash")
    while not (project.root / "begun").exists():
        run.settle(0.05)
    run.type(CONTROL_C, end="")
    run.until("interrupted; the conversation so far is kept", "› ")
    run.say("And?", "Going on.")
    harmless(run)
    run.leave()
    check(project.session())


@needs_sandbox
def test_control_c_at_the_question_about_git_undoes_what_the_command_left(project: Project) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project.root, check=True)
    hook = ".git/hooks/post-commit"
    run = project.chat(
        f'@call Bash {{"command": "git --version; echo evil > {hook}"}}\n---\nGoing on.',
        "--permission",
        "all",
    )
    run.until("› ")
    run.type("Go")
    run.until("The command changed what git runs later", "Keep it?", "n(o):")
    run.type(CONTROL_C, end="")
    run.until("interrupted", "› ")
    assert not (project.root / hook).exists()
    run.say("And?", "Going on.")
    harmless(run)
    run.leave()
    check(project.session())


@needs_sandbox
def test_the_network_is_asked_for_and_refused_in_the_terminal(project: Project) -> None:
    call = '@call Bash {"command": "echo reached", "network": true}\n---\n'
    run = project.chat(call + "Then not.\n---\n" + call + "There.\n---\n" + call + "Again.")
    run.until("› ")
    run.type("Go")
    run.until("Run `echo reached` with the network?", "has the network", "only this command", "n(o):")
    run.say("n", "declined to let it use the network", "Then not.")
    run.type("Once more")
    run.until("n(o):")
    run.say("a", "reached", "There.")
    run.say("And again", "reached", "Again.")
    run.leave()


def test_a_picture_that_is_mentioned_goes_to_the_model_over_the_wire(project: Project) -> None:
    (project.root / "shot.png").write_bytes(PICTURE)
    (project.home / "refold").mkdir(exist_ok=True)
    config = '[models."openai:seeing"]\nimages = true\n'
    (project.home / "refold" / "config.toml").write_text(config)
    with WireServer("I see it.", "Not here.") as server:
        given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": server.v1}
        run = project.chat("", "--window", "100000", model="openai:seeing", **given)
        run.until("› ")
        run.say("What is on @shot.png?", "I see it.")
        assert "data:image/png;base64," in json.dumps(server.bodies[0]) and server.problems == []
        run.say("/model openai:blind", "Model: openai:blind")
        run.say("And @shot.png now?", "openai:blind may not accept pictures", "Not here.")
        run.leave()
