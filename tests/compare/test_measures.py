"""What a view still says of a log, against counts made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

import refold
from refold import messages as m
from refold.cli.demo import unpack
from refold.compare import measures
from refold.compare.measures import CountOf, log_of
from refold.session.edits import said_by
from tests.data import shared

HARBOUR: tuple[m.Message, ...] = (
    m.system("You are a coding agent with 20000 rules."),
    m.user(
        [
            m.text("lamp.py lists 4096 lamps.", "attached"),
            "Please fix the lamps in harbour/lamp.py. Never touch harbour/pier.py!",
        ]
    ),
    m.assistant("Reading all 1,250 lines.", m.call("1", "Read", file_path="/work/harbour/lamp.py")),
    m.result("1", "def dim_light(): ..."),
    m.assistant(
        "",
        m.call(
            "2", "Edit", file_path="/work/harbour/lamp.py", old_string="dim_light", new_string="bright_light"
        ),
    ),
    m.result("2", "The file has been updated."),
    m.assistant("", m.call("3", "Edit", file_path="/work/harbour/pier.py", old_string="a", new_string="b")),
    m.result("3", "Permission denied", is_error=True),
    m.assistant(
        "", m.call("4", "Write", file_path="notes/plan.md", content="See bright_light and order 9081726.")
    ),
    m.result("4", "ok"),
    m.assistant("", m.call("5", "Bash", command="make test-lamps", description="Run 2 tests")),
    m.result("5", "12000 passed"),
    m.user("Good. Now ship it to port 8080."),
)
"""A session with tools that name their files. By hand: 6 + 3 + 1 + 6 typed words; two files changed, since the edit of
pier.py failed; three touched; four calls, reading and editing lamp.py being about the same; the numbers 1,250 and 8080;
six identifiers: two absolute paths, notes/plan.md, dim_light, bright_light, 9081726."""

PATCHES: tuple[m.Message, ...] = (
    m.user("把日志改成英文。不要动 db.ts"),
    m.assistant(
        "",
        m.call(
            "1",
            "shell",
            workdir="/repo",
            command=[
                "bash",
                "-lc",
                "apply_patch <<'PATCH'\n*** Begin Patch\n*** Update File: src/log.ts\n@@\n-a\n+b\n"
                "*** Add File: src/log_en.ts\n+x\n*** Delete File: src/old.ts\n*** End Patch\nPATCH",
            ],
        ),
    ),
    m.result("1", "Success."),
    m.assistant(
        "",
        m.call(
            "2",
            "apply_patch",
            input="*** Begin Patch\n*** Update File: /repo/src/log.ts\n*** Move to: /repo/src/logger.ts\n*** End Patch",
        ),
    ),
    m.result("2", "Success."),
    m.assistant("", m.call("3", "shell", command=["bash", "-lc", "sed -n '1,200p' src/db.ts"])),
    m.result("3", "export const db = 1;"),
    m.user("continue"),
    m.user("continue"),
)
"""Patches in a shell and by a tool. By hand: 7 + 4 words (each Chinese character is one) and once `continue`; changed:
log.ts under two paths, log_en.ts, logger.ts; touched: old.ts as well; three calls; no number; seven identifiers:
apply_patch, four paths from src/ and two from /repo/."""

EDITOR: tuple[m.Message, ...] = (
    m.user("Round it."),
    m.assistant("", m.call("1", "open", path="src/fields.py", line_number=1474)),
    m.result("1", "[File: src/fields.py]"),
    m.assistant("", m.call("2", "edit", search="int(x)", replace="int(round(x))")),
    m.result("2", "Text replaced."),
    m.assistant("", m.call("3", "create", filename="reproduce.py")),
    m.result("3", "[File: reproduce.py]"),
    m.assistant("", m.call("4", "str_replace_editor", command="view", path="/testbed/setup.py")),
    m.result("4", "from setuptools import setup"),
    m.assistant("It prints 345 now.", m.call("5", "bash", command="python reproduce.py")),
)
"""An editor that keeps a file open. By hand: 2 words; changed: fields.py, reproduce.py; touched: setup.py too; four
calls, opening and editing fields.py being about the same; the number 345."""

CHAT: tuple[m.Message, ...] = (
    m.user("I need a flight to Oslo for order W2378156, at most 400 euros."),
    m.assistant("", m.call("1", "get_order", order_id="W2378156", user="anna_7")),
    m.result("1", "{}"),
    m.assistant("It costs 389.50 euros.", m.call("2", "think", thought="She pays\nby card.")),
)
"""A customer and an agent. By hand: 13 words; no file; two calls; the numbers 400 and 389.50 (W2378156 is none); the
identifiers W2378156 and anna_7."""


def totals(messages: Iterable[m.Message]) -> dict[str, int]:
    return {name: count.of for name, count in log_of(messages).kept("").items()}


@pytest.mark.parametrize(
    ("messages", "counted"),
    [
        (HARBOUR, {"words": 16, "files": 2, "paths": 3, "calls": 4, "numbers": 2, "identifiers": 6}),
        (PATCHES, {"words": 12, "files": 3, "paths": 4, "calls": 3, "numbers": 0, "identifiers": 7}),
        (EDITOR, {"words": 2, "files": 2, "paths": 3, "calls": 4, "numbers": 1, "identifiers": 3}),
        (CHAT, {"words": 13, "files": 0, "paths": 0, "calls": 2, "numbers": 2, "identifiers": 2}),
        ((), {"words": 0, "files": 0, "paths": 0, "calls": 0, "numbers": 0, "identifiers": 0}),
    ],
    ids=["tools", "patches", "editor", "chat", "nothing"],
)
def test_a_log_holds_what_was_counted_by_hand(messages: Sequence[m.Message], counted: dict[str, int]) -> None:
    assert totals(messages) == counted


def test_the_names_are_those_found_by_hand() -> None:
    harbour, patches = log_of(HARBOUR), log_of(PATCHES)
    assert harbour.files == {"lamp.py", "plan.md"}
    assert harbour.numbers == {"1,250", "8080"}
    assert harbour.identifiers == {
        "work/harbour/lamp.py", "work/harbour/pier.py", "notes/plan.md", "dim_light", "bright_light", "9081726",
    }  # fmt: skip
    assert patches.files == {"log.ts", "log_en.ts", "logger.ts"}
    assert patches.calls == {
        ("log.ts", "log_en.ts", "old.ts"), ("log.ts", "logger.ts"), ("sed -n '1,200p' src/db.ts",),
    }  # fmt: skip


def test_a_view_keeps_what_was_counted_by_hand() -> None:
    """The first sentence over two lines, lamp.py, the command and the port; harbour/lamp.py is no absolute path."""
    view = "Task: Please fix the lamps\n  in harbour/lamp.py. Ran make test-lamps. Port 8080, from 11,250."
    assert log_of(HARBOUR).kept(view) == {
        "words": CountOf(6, 16),
        "files": CountOf(1, 2),
        "paths": CountOf(1, 3),
        "calls": CountOf(2, 4),
        "numbers": CountOf(1, 2),
        "identifiers": CountOf(0, 6),
    }


def test_a_view_that_says_everything_keeps_everything_and_one_that_says_nothing_keeps_nothing() -> None:
    for messages in (HARBOUR, PATCHES, EDITOR, CHAT):
        kept = log_of(messages).kept(measures.readable_text(messages))
        assert all(count.kept == count.of for count in kept.values()), kept
        assert not any(count.kept for count in log_of(messages).kept("Some work was done.").values())


def test_a_file_is_named_by_the_shortest_end_no_other_file_has() -> None:
    files = ["src/a/handler.py", "src/b/handler.py", "/repo/src/b/view.py", "src/b/view.py", "/"]
    assert measures.short_names(files) == {
        "src/a/handler.py": "a/handler.py",
        "src/b/handler.py": "b/handler.py",
        "/repo/src/b/view.py": "view.py",
        "src/b/view.py": "view.py",
        "/": "/",
    }


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("view.py", "- src/b/: view.py, other", True),
        ("view.py", "src/b/view.py.", True),
        ("view.py", "review.py", False),
        ("view.py", "re-view.py view.py.bak", False),
        ("1250", "from -1250 on", True),
        ("1250", "0.1250 and 1250.5", False),
        ("max_tokens", "--max_tokens=3", True),
        ("不要动", "请不要动它", True),
        ("Ship it.", "Do not ship it. Ship it.", True),
    ],
)
def test_a_name_is_found_as_it_is_and_not_inside_a_longer_one(name: str, text: str, found: bool) -> None:
    assert measures.stands(name, text) is found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see src/app/main.py:12", ["src/app/main.py"]),
        ("the file main.py is", ["main.py"]),
        ("call get_user_id()", ["get_user_id"]),
        ("this.session.switchBranch(x)", ["switchBranch"]),
        ("class HTTPServer:", ["HTTPServer"]),
        ("order #W2378156, card credit_card_7", ["W2378156", "credit_card_7"]),
        ("commit 3f2a9bc1 on port 50051", ["3f2a9bc1", "50051"]),
        ("在文件src/核心.py和lib/core.py中", ["lib/core.py"]),
        ("plain words and/or numbers: 3.14, 1,000; e.g. ----- ..... /////", []),
    ],
)
def test_identifiers_are_paths_names_of_code_ids_and_long_numbers(text: str, names: list[str]) -> None:
    assert list(measures.identifiers(text)) == names


def test_M2_needed_names_are_used_later_known_before_and_not_repeated_between() -> None:
    messages = [
        m.user("Look at src/early_file.py, src/again_file.py and order 9081726."),
        m.assistant("ok"),
        m.user("src/again_file.py is the one."),
        m.assistant("", m.call("1", "Read", path="src/early_file.py", note="9081726 brand_new_name")),
        m.assistant("", m.call("2", "Read", path="src/again_file.py")),
        m.assistant("", m.call("3", "Read", path="src/early_file.py")),
    ]
    names = measures.needed(messages, 2)
    assert names == ("src/early_file.py", "9081726")
    assert measures.present(names, "… src/early_file.py …") == CountOf(1, 2)


def test_the_bundled_sample_holds_the_files_that_its_script_changes(tmp_path: Path) -> None:
    path = refold.load(unpack(tmp_path / "sample.jsonl")).path
    assert log_of(message for entry in path if (message := said_by(entry)) is not None).files == {
        "overlap.py", "rounding.py", "settings.py", "changes.md", "job.py", "pricing.py", "test_overlap.py", "test_rounding.py",
    }  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "counted"),
    [
        # Seven messages, an answer and a command of his own, 114 words; a plan and six files written, .gitignore only by the shell.
        ("claude-code/session-share-general-tool-calls.jsonl", {"words": 114, "files": 7}),
        # The files that the results of its patches list ("Success. Updated the following files").
        ("codex/rollout-2025-09-24T19-22-20-01997e76-d124-7592-9cac-2ec05abbca08.jsonl", {"files": 8}),
        # Nothing was changed: it read, and answered with findings.
        ("codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl", {"files": 0}),
    ],
)
def test_real_sessions_hold_what_was_counted_by_hand(name: str, counted: dict[str, int]) -> None:
    path = refold.load(shared(name)).path
    found = totals(message for entry in path if (message := said_by(entry)) is not None)
    assert {key: found[key] for key in counted} == counted
