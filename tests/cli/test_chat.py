"""`refold chat` for scripts: one turn over the real command line, with a scripted model and real files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import refold
from refold import messages as m
from refold.cli import main
from refold.entries import Fold, MessageEntry
from refold.models.scripted import say
from refold.presets import NAMES
from refold.testing.wire import WireServer
from refold.tools.base import Envelope

EDIT = """Let me look.
@call Read {"path": "a.py"}
@call LS {"path": "."}
@usage 1200 80
---
Now I change it.
@call Edit {"path": "a.py", "old_string": "return 1", "new_string": "return 2"}
@usage 1400 60
---
`a.py` returns **2** now.
@usage 1500 20
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, with nothing of this machine around it."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (project / "a.py").write_text("def f():\n    return 1\n")
    return project


def script(folder: Path, text: str, name: str = "script") -> str:
    path = folder.parent / name
    path.write_text(text)
    return f"scripted:{path}"


def chat(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(main, ["chat", *arguments], input=input)


def as_json(*arguments: str, status: int = 0, **more: Any) -> dict[str, Any]:
    done = chat(*arguments, "--output-format", "json", **more)
    assert done.exit_code == status, done.output
    return json.loads(done.stdout)


def session_of(told: dict[str, Any]) -> refold.Session:
    return refold.open("sqlite:", id=told["session"])


def test_under_ask_a_script_says_that_no_user_could_be_asked_and_fails_where_that_stopped_the_work(
    folder: Path,
) -> None:
    told = as_json("-p", "Fix it.", "--model", script(folder, EDIT), status=1)
    assert "needs permission: Edit a.py" in told["error"]
    assert "no user is here to ask" in str([x.message for x in session_of(told).path[-2:-1]])  # type: ignore[union-attr]
    assert (folder / "a.py").read_text() == "def f():\n    return 1\n"
    done = chat("-p", "Fix it.", "--model", script(folder, EDIT))
    assert done.exit_code == 1
    assert "needs permission: Edit a.py return 1 return 2. Allow it with --permission" in done.output
    another_way = EDIT.replace("---\n`a.py`", '---\n@call TodoWrite {"todos": []}\n---\n`a.py`')
    assert as_json("-p", "Fix it.", "--model", script(folder, another_way))["error"] is None


# ── what is done and told ───────────────────────────────────────────────────────────────────────


def test_a_task_with_real_files_as_json(folder: Path) -> None:
    told = as_json("-p", "Fix it.", "--model", script(folder, EDIT), "--permission", "edits")
    assert (folder / "a.py").read_text() == "def f():\n    return 2\n"
    assert told["answer"] == "`a.py` returns **2** now."
    assert (told["stop"], told["error"], told["interrupted"], told["requests"]) == ("end", None, False, 3)
    assert [(call["name"], call["failed"]) for call in told["calls"]] == [
        ("Read", False),
        ("LS", False),
        ("Edit", False),
    ]
    assert told["usage"][0]["usage"] == {"input": 4100, "output": 160}
    assert set(told) == {
        "session", "model", "preset", "answer", "stop", "interrupted", "error", "requests", "calls", "folds", "tasks",
        "tokens", "window", "usage", "cost",
    }  # fmt: skip
    assert chat("-p", "x", "--model", script(folder, "Hi."), "--json").stdout.startswith("{")


def test_A21_by_default_everything_is_shown_in_full(folder: Path) -> None:
    out = chat("-p", "Fix it.", "--model", script(folder, EDIT), "--permission", "all").output
    assert "Let me look.\n" in out
    assert '→ Read {"path":"a.py"}\n' in out
    assert "2\t    return 1" in out.replace("2      ", "2\t  ") or "return 1" in out
    assert "+    return 2" in out
    assert out.endswith("`a.py` returns **2** now.\n")


def test_A21_compact_has_one_line_for_each_but_the_last(folder: Path) -> None:
    long = EDIT.replace("`a.py` returns **2** now.", "First line.\n\nSecond line.").replace(
        "Let me look.", "Let me\nlook."
    )
    out = chat("-p", "Fix it.", "--model", script(folder, long), "--permission", "all", "--compact").output
    lines = out.splitlines()
    assert [line[:8] for line in lines] == [
        "Let me l", "→ Read p", "→ LS pat", "← Read: ", "← LS: su", "Now I ch", "→ Edit p", "← Edit: ", "First li", "", "Second l",
    ]  # fmt: skip


@pytest.mark.parametrize("flags", [["--quiet"], ["--quiet", "--compact"]])
def test_A21_quiet_has_only_the_last_message_and_wins(folder: Path, flags: list[str]) -> None:
    done = chat("-p", "Fix it.", "--model", script(folder, EDIT), "--permission", "all", *flags)
    assert done.output == "`a.py` returns **2** now.\n"


def test_what_is_piped_in_is_the_prompt_or_goes_along_with_it(folder: Path) -> None:
    model = script(folder, "Fine.")
    first = session_of(as_json("--model", model, input="What is this?\n"))
    assert isinstance(first.path[0], MessageEntry)
    assert first.path[0].message.text == "What is this?\n"
    both = session_of(as_json("-p", "Explain", "--model", model, input="a log\n"))
    assert isinstance(both.path[0], MessageEntry)
    parts = both.path[0].message.parts
    assert [(part.text, part.origin) for part in parts if isinstance(part, m.Text)] == [
        ("Explain", None),
        ("a log\n", "attached"),
    ]


def test_without_a_terminal_there_are_no_colours_and_no_control_characters(folder: Path) -> None:
    (folder / "evil.txt").write_text("\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202eevil\x9b31m\n")
    evil = 'Text \x1b[31mred\x1b[0m \u202e\n@call Read {"path": "evil.txt"}\n---\nDone \x1b[2J.'
    for flags in ([], ["--compact"], ["--quiet"], ["--json"]):
        out = chat("-p", "x \x1b[1m", "--model", script(folder, evil), *flags).output
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert "\x9b" not in out


def test_errors_are_one_sentence_and_an_exit_code(folder: Path) -> None:
    done = chat("-p", "x")
    assert done.exit_code == 2
    assert "No model is configured" in done.output
    assert chat("-p", "  ", "--model", script(folder, "Hi.")).exit_code == 2
    assert chat("-p", "x", "--model", "nobody:x").exit_code == 2
    assert chat("-p", "x", "--model", script(folder, "Hi."), "--preset", "nonsense").exit_code == 2
    assert chat("-p", "x", "--model", script(folder, "Hi."), "--resume", "nonsense").exit_code == 2
    assert chat("-p", "x", "--model", script(folder, "Hi."), "--continue").exit_code == 2
    assert chat("-p", "x", "--resume", "a", "--continue").exit_code == 2
    failed = as_json("-p", "x", "--model", script(folder, "@error refused not today"), status=1)
    assert failed["error"] == "not today"
    assert failed["answer"] is None
    text = chat("-p", "x", "--model", script(folder, "@error refused not today"))
    assert text.exit_code == 1
    assert "refold: not today" in text.stderr


def test_json_is_for_scripts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refold.cli.chat._piped", lambda _: None)  # as with a terminal
    done = chat("--json")
    assert done.exit_code == 2
    assert "give one with -p" in done.output


def test_every_command_and_option_is_documented() -> None:
    from refold.cli.chat import command
    from refold.cli.chat_commands import CHAT_COMMANDS

    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()
    assert [name for name in CHAT_COMMANDS if f"`/{name}" not in page] == []
    options = [name for param in command.params for name in param.opts if name.startswith("--")]
    assert [name for name in options if f"{name}" not in page] == []


# ── going on ────────────────────────────────────────────────────────────────────────────────────


def test_resume_and_continue_go_on_with_the_same_conversation(folder: Path) -> None:
    first = as_json("-p", "One.", "--model", script(folder, "First."))
    again = as_json("-p", "Two.", "--model", script(folder, "Second."), "--resume", first["session"][:6])
    newest = as_json("-p", "Three.", "--model", script(folder, "Third."), "--continue")
    assert first["session"] == again["session"] == newest["session"]
    said = [entry.message.text for entry in session_of(first).path if isinstance(entry, MessageEntry)]
    assert said == ["One.", "First.", "Two.", "Second.", "Three.", "Third."]


def test_continue_is_about_this_folder(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = as_json("-p", "Here.", "--model", script(folder, "Yes."))
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    as_json("-p", "There.", "--model", script(folder, "Yes."))
    monkeypatch.chdir(folder)
    assert (
        as_json("-p", "Here again.", "--model", script(folder, "Yes."), "--continue")["session"]
        == here["session"]
    )


# ── permissions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mode", "written"), [("ask", False), ("read-only", False), ("edits", True), ("all", True)]
)
def test_what_the_agent_may_do_where_nobody_can_be_asked(folder: Path, mode: str, written: bool) -> None:
    text = '@call Write {"path": "new.txt", "content": "hello"}\n---\nDone.'
    model = script(folder, text)
    told = as_json("-p", "Write.", "--model", model, "--permission", mode, status=int(mode == "ask"))
    assert (folder / "new.txt").exists() == written
    assert told["calls"][0]["failed"] == (not written)
    assert told["answer"] == "Done."


def test_the_configuration_gives_the_defaults_and_options_win(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '@call Write {"path": "new.txt", "content": "hello"}\n---\nDone.'
    config = folder.parent / "config.toml"
    config.write_text(f'model = "{script(folder, text)}"\n[chat]\npermission = "edits"\nmax_iterations = 1\n')
    monkeypatch.setenv("REFOLD_CONFIG", str(config))
    assert as_json("-p", "Write.", "--permission", "read-only")["calls"][0]["failed"]
    assert not as_json("-p", "Write.")["calls"][0]["failed"]


# ── the context ─────────────────────────────────────────────────────────────────────────────────


def test_E12_mentioned_files_are_named_to_the_model_and_not_put_in(folder: Path) -> None:
    told = as_json("-p", "Look at @a.py, @nothing.py and @../script.", "--model", script(folder, "Yes."))
    [asked] = [x for x in session_of(told).path if isinstance(x, MessageEntry) and x.message.role == "user"]
    typed, reminder = (part for part in asked.message.parts if isinstance(part, m.Text))
    assert (typed.origin, reminder.origin) == (None, "program")
    assert [line for line in reminder.text.splitlines() if line.startswith("- ")] == ["- a.py"]
    assert "return 1" not in asked.message.text


def test_E13_reading_a_file_again_that_somebody_changed_says_so(folder: Path) -> None:
    """The agent's own edits are not external."""
    text = (
        '@call Read {"path": "a.py"}\n---\n@call Edit {"path": "a.py", "old_string": "1", "new_string": "22"}\n---\n'
        '@call Read {"path": "a.py"}\n---\n@call Bash {"command": "true"}\n---\n@call Read {"path": "a.py"}\n---\nDone.'
    )
    told = as_json("-p", "x", "--model", script(folder, text), "--permission", "all")
    reads = [
        x
        for x in session_of(told).path
        if isinstance(x, MessageEntry) and x.message.role == "tool" and x.message.name == "Read"
    ]  # pyright: ignore
    assert len(reads) == 3
    assert not any("modified externally" in entry.message.text for entry in reads)


def test_E14_a_model_without_tools_works_by_text(folder: Path) -> None:
    text = (
        'Thought: I look.\nAction: Read[{"path": "a.py"}]\n---\n'
        "Thought: now\nAction: Edit[{'path': 'a.py', 'old_string': 'return 1', 'new_string': 'return 2',}]\n---\n"
        "Thought: hm\n---\nThought: done\nAction: Finish[It returns 2.]"
    )
    told = as_json("-p", "Fix it.", "--model", script(folder, text), "--permission", "all", "--text-protocol")
    assert (folder / "a.py").read_text() == "def f():\n    return 2\n"
    assert told["answer"] == "It returns 2."
    assert [(call["name"], call["failed"]) for call in told["calls"]] == [
        ("Read", False), ("Edit", False), ("unreadable_action", True),
    ]  # fmt: skip
    last = [
        x.message.text
        for x in session_of(told).path
        if isinstance(x, MessageEntry) and x.message.role == "tool"
    ][-1]
    assert "Action: Tool[" in last, "how to write it"


@pytest.mark.parametrize("preset", NAMES)
def test_the_same_task_has_the_same_result_under_each_design(folder: Path, preset: str) -> None:
    told = as_json(
        "-p",
        "Fix it.",
        "--model",
        script(folder, EDIT),
        "--permission",
        "all",
        "--preset",
        preset,
        "--summariser",
        "digest",
    )
    assert told["preset"] == preset
    assert told["answer"] == "`a.py` returns **2** now."
    assert (folder / "a.py").read_text() == "def f():\n    return 2\n"


def test_a_fold_in_the_middle_of_a_tool_loop(folder: Path) -> None:
    (folder / "big.txt").write_text("".join(f"line {n} of a file that is rather long\n" for n in range(400)))
    steps = "".join(
        f'Part {n}.\n@call Read {{"path": "big.txt", "offset": {n * 40 + 1}, "limit": 120}}\n---\n'
        for n in range(8)
    )
    told = as_json(
        "-p",
        "Read it all.",
        "--model",
        script(folder, steps + "Done."),
        "--window",
        "8000",
        "--summariser",
        "digest",
    )
    assert told["answer"] == "Done."
    assert told["folds"]
    assert told["tokens"] <= told["window"] == 8000
    assert [call["failed"] for call in told["calls"]] == [False] * 8


def test_an_overflow_in_the_middle_of_a_tool_loop_is_recovered_from(folder: Path) -> None:
    (folder / "big.txt").write_text("".join(f"line {n} of a file that is rather long\n" for n in range(400)))
    text = (
        '@call Read {"path": "big.txt"}\n---\n@call LS {"path": "."}\n---\n'
        "@error overflow prompt is too long: 9000 tokens > 6000 maximum\n---\n"
        '@call Read {"path": "a.py"}\n---\nDone.'
    )
    told = as_json("-p", "Go.", "--model", script(folder, text), "--summariser", "digest")
    assert told["answer"] == "Done."
    assert told["folds"]
    assert [call["name"] for call in told["calls"]] == ["Read", "LS", "Read"]
    assert told["tokens"] <= told["window"] <= 6000


# ── sub-agents ──────────────────────────────────────────────────────────────────────────────────


def test_sub_agents_have_sessions_of_their_own(folder: Path) -> None:
    text = (
        '@call Task {"description": "look", "prompt": "Look at a.py."}\n---\n'
        '@call Read {"path": "a.py"}\n---\nIt returns 1.\n---\nThe other says: it returns 1.'
    )
    told = as_json("-p", "Ask somebody.", "--model", script(folder, text))
    assert told["answer"] == "The other says: it returns 1."
    [child] = told["tasks"]
    said = [x.message.text for x in refold.open("sqlite:", id=child).path if isinstance(x, MessageEntry)]
    assert said[0] == "Look at a.py."
    assert said[-1] == "It returns 1."
    mine = [x.message for x in session_of(told).path if isinstance(x, MessageEntry)]
    assert "It returns 1." in mine[2].text
    assert not any(isinstance(x, Fold) for x in session_of(told).path)


# ── real protocols ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.sample(1)
@pytest.mark.parametrize("provider", ["openai", "openai-responses", "anthropic"])
def test_a_task_over_each_providers_protocol(
    folder: Path, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        say("Let me look.", m.call("c1", "Read", path="a.py"), usage=m.Usage(1000, 20)),
        say(
            m.call("c2", "Edit", path="a.py", old_string="return 1", new_string="return 2"),
            usage=m.Usage(1100, 20),
        ),
        say("Done.", usage=m.Usage(1200, 5)),
    )
    with WireServer(*answers) as server:
        for name in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{name}_API_KEY", "k")
            monkeypatch.setenv(f"{name}_BASE_URL", server.url if name == "ANTHROPIC" else server.v1)
        told = as_json(
            "-p",
            "Fix @a.py.",
            "--model",
            f"{provider}:a-model",
            "--permission",
            "edits",
            "--window",
            "100000",
        )
        assert server.problems == []
        assert len(server.requests) == 3
    assert told["answer"] == "Done."
    assert (folder / "a.py").read_text() == "def f():\n    return 2\n"
    assert told["usage"][0]["usage"]["output"] == 45
    body = json.dumps(server.bodies[-1])
    assert "system-reminder" in body
    assert "coding agent" in body


def test_results_are_envelopes(folder: Path) -> None:
    told = as_json("-p", "Fix it.", "--model", script(folder, EDIT), "--permission", "all")
    for entry in session_of(told).path:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, m.Result):
            import msgspec

            assert msgspec.json.decode(entry.message.text, type=Envelope).status == "success"


@pytest.mark.parametrize(
    ("variables", "file", "chosen"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, "", "anthropic:claude-sonnet-5-5"),
        ({"OPENAI_API_KEY": "k"}, "", "openai:gpt-5"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "", None),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, "", None),
        ({"ANTHROPIC_API_KEY": "k"}, 'model = "openai:x"', "openai:x"),
        ({}, "", None),
    ],
)
def test_the_only_provider_with_a_key_answers(
    variables: dict[str, str], file: str, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from refold.registry.configuration import parse_configuration

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert parse_configuration(file).chat_model() == chosen


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "both set; choose a model: pass --model NAME"),
        (
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://h/v1"},
            "a base URL for openai is set, so name the",
        ),
        ({"OPENAI_BASE_URL": "http://h/v1"}, "(such as openai:MODEL)"),
    ],
)
def test_keys_that_do_not_choose_a_model_are_not_asked_for(
    variables: dict[str, str], sentence: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    output = chat("-p", "x").output.replace("\n", " ")
    assert sentence in " ".join(output.split())
    assert "set ANTHROPIC_API_KEY" not in output


def test_without_a_model_one_sentence_says_what_to_set_and_where(folder: Path) -> None:
    done = chat("-p", "x")
    assert done.exit_code == 2 and "set ANTHROPIC_API_KEY or OPENAI_API_KEY" in done.output
    assert "config.toml" in done.output.replace("\n", "")
