"""What a tool is called, what an entry is called, what a dict without a dialect is: one row a spelling."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.errors import EntryNotFound, SessionError, WrongType
from refold.session import toolnames, toolstatus
from refold.session.find import find
from refold.session.tree import messages_of


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Read", "read"),
        ("READ_FILE", "read"),
        ("mcp__files__read_file", "read"),
        ("functions.shell", "bash"),
        ("default_api.grep", "grep"),
        ("container.exec", "bash"),
        ("launch-process", "bash"),
        ("str replace editor", "editor"),
        ("apply_patch", "patch"),
        ("TodoWrite", "todo"),
        ("glob", "glob"),
        ("rm", "delete"),
        ("mv", "move"),
        ("create_file", "create"),
        ("write", "write"),
        ("edit", "edit"),
        ("ls", "ls"),
        ("reader", "other"),
        ("", "other"),
        ("x" * 199 + "__read", "other"),
        ("mcp__" + "x" * 300 + "__read", "other"),
    ],
)
def test_a_tool_is_known_by_any_of_its_names(name: str, kind: str) -> None:
    assert toolnames.kind(name) == kind


def test_further_names_win() -> None:
    assert toolnames.kind("fetch", {"fetch": "read"}) == "read"
    assert toolnames.kind("Read", {"read": "bash"}) == "bash"
    assert toolnames.kind("Read", {}) == "read"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"command": "ls -l"}, "ls -l"),
        ({"command": "", "cmd": "ls"}, "ls"),
        ({"command": ["bash", "-lc", "ls | wc", "x"]}, "ls | wc"),
        ({"command": ["/bin/sh", "-c", "ls"]}, "ls"),
        ({"command": ["bash", "-c"]}, "bash -c"),
        ({"command": ["bash", "a.sh", "b"]}, "bash a.sh b"),
        ({"command": ["python", "-c", "print(1)"]}, "python -c 'print(1)'"),
        ({"command": ["echo", "it's", "", 5]}, "echo 'it'\\''s' '' 5"),
        ({"command": {"x": 1}}, ""),
        ({"other": "ls"}, ""),
    ],
)
def test_the_command_of_a_call(arguments: dict[str, Any], line: str) -> None:
    assert toolnames.command_line(m.Call("c", "Bash", arguments)) == line


def test_a_command_that_is_no_object_is_what_came() -> None:
    assert toolnames.command_line(m.Call("c", "Bash", raw="ls")) == "ls"
    assert toolnames.command_line(m.Call("c", "Bash", {"command": "pwd"}, "ls")) == "pwd"
    assert toolnames.text_argument(m.Call("c", "Read", {"path": ["a"], "file": "b"}), ("path", "file")) == ""


@given(st.text("ab '\"\\$`|&;<>()*?[]#~\t\n", max_size=8))
def test_a_quoted_word_is_one_word(word: str) -> None:
    assert shlex.split(toolnames.shell_quoted(word)) == [word]
    assert not word.isalpha() or toolnames.shell_quoted(word) == word


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ("exit code: 1", 1),
        ("Exit code 0", 0),
        ("Command exited with code -9.", -9),
        ("Process exited with code 127", 127),
        ("[The command completed with exit code 2 after 3 s.]", 2),
        ("[Command finished with exit code 0]", 0),
        ("(exit 3)", 3),
        ("(exit code 4)", 4),
        ("<exit_code>5</exit_code>", 5),
        ("<returncode>6</returncode>", 6),
        ("exit code: 1 of 2", None),
        ("the exit code: 1", None),
        ("", None),
    ],
)
def test_how_a_command_ended(row: str, status: int | None) -> None:
    assert toolstatus.reported_status(row) == status
    assert toolstatus.is_framing(row) == (status is not None)


def test_where_the_shell_stands_and_whether_it_was_stopped() -> None:
    assert toolstatus.reported_folder("[Current working directory: /a/b]") == "/a/b"
    assert toolstatus.reported_folder("(Current directory: /a)") == "/a"
    assert toolstatus.reported_folder("/a") == ""
    assert toolstatus.stopped("Command timed out after 5 s") and not toolstatus.stopped("It timed out")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("out\nexit code: 0", "out"),
        ("out\nexit code: 1", "out\nexit code: 1"),
        ("out\n\nexit code: 1\n(exit 2)\n", "out\n(exit 2)"),
        ("  out\n\n(no output)\n[Current working directory: /a]\n", "  out"),
        ("exit code: 1", "exit code: 1"),
        ("\nexit code: 0", "\nexit code: 0"),
        ("out\nmore", "out\nmore"),
        ("out\n<system-reminder>\nx\n</system-reminder>", "out"),
        ("<system-reminder>\nx\n</system-reminder>", "<system-reminder>\nx\n</system-reminder>"),
        ("Command: ls\nDirectory: /a\nOutput: b", "b"),
        ("Command: ls\nDirectory: /a\n", "Command: ls"),
        ("a" + " " * 40 + "\nb", "a\nb"),
        ("a" + " " * 39 + "\nb", "a" + " " * 39 + "\nb"),
        ('{"status":"ok","data":{"paths":["a","b"],"text":"t\\n","stderr":"e\\n","exit_code":2},"text":"end"}', "a\nb\nt\nstderr:\ne\n(exit code 2)\nend"),
        ('{"status":"error","error":{"message":"no"}}', "no"),
        ('{"status":"ok","data":{"exit_code":0}}', '{"status":"ok","data":{"exit_code":0}}'),
        ('{"status":"ok","data":[]}', '{"status":"ok","data":[]}'),
        ('{"status":"ok","error":"x","text":"t"}', '{"status":"ok","error":"x","text":"t"}'),
        ('{"status":', '{"status":'),
    ],
)  # fmt: skip
def test_an_output_without_what_its_tool_put_around_it(text: str, left: str) -> None:
    assert toolstatus.bare_output(text) == left


def test_only_the_last_lines_are_the_tools() -> None:
    framed = "\n".join(["out", *["(exit 0)"] * 9])
    assert toolstatus.bare_output(framed) == "out\n(exit 0)"


def test_an_entry_is_found_by_id_number_label_and_key() -> None:
    session = Session()
    first, second = session.append(m.user("a")), session.append(m.assistant("b"))
    session.append(e.Label(id="l1", target=first.id, text="begin"))
    session.append(e.Label(id="l2", target=second.id, text="#9"))
    assert find(session, first.id) is first
    assert find(session, "#0") is first and find(session, "#1") is second
    assert find(session, "begin") is first
    assert find(session, "#9") is second, "no number on the path, but a label"
    assert find(session, e.key(second.id)) is second
    for name in ("#2", "#-1", "x0", "# 1", "nobody"):
        with pytest.raises(EntryNotFound):
            find(session, name)
    session.append(e.Label(id="l3", target=second.id, text="begin"))
    with pytest.raises(SessionError, match="2 entries have the label 'begin'"):
        find(session, "begin")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (5, "expected a message, got int"),
        ({}, "has no role"),
        ({"content": "x"}, "has no role"),
        ({"role": 5}, "has no role"),
        ({"role": "king", "content": "x"}, "unknown role 'king'"),
        ({"role": "user"}, "user message has no content"),
        ({"role": "tool"}, "tool message has no content"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(said: Any, why: str) -> None:
    with pytest.raises(WrongType, match=why):
        messages_of(said)


def test_what_is_a_message_is_taken() -> None:
    assert messages_of("hi") == (m.user("hi"),)
    assert messages_of(m.assistant("so")) == (m.assistant("so"),)
    assert messages_of({"role": "assistant"}) == [m.Assistant(())]
    assert messages_of({"type": "function_call", "call_id": "c", "name": "T"}) == [
        m.Assistant((m.Call("c", "T"),))
    ]
    assert messages_of({"role": "developer", "content": "be"}) == [m.system("be")]
    with pytest.raises(WrongType, match="meta must be a dict"):
        Session().append("hi", meta=[1])  # type: ignore[call-overload]
