"""R10: the state of the work is computed from tool calls; what a tool did not report is unknown."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold import tokens
from refold.messages import Message
from refold.preserve import state
from refold.preserve.filebook import FileNote
from refold.preserve.lines import lines_of
from refold.preserve.state import Check, WorkState
from refold.preserve.state_text import Shows, render, verdict_text
from refold.text.redact import redact
from tests.data import all_transcripts, shared
from tests.preserve import readers
from tests.preserve.steps import Step, bash, conversation, done, ran
from tests.timing import JUDGED

COUNTER = tokens.get("o200k")
OUTPUTS = Path(__file__).parent / "outputs"


def everything(made: WorkState) -> Any:
    return made.files(), made.notes(), made.facts(), render(made, 800, COUNTER)


def note(made: WorkState, name: str) -> FileNote:
    return next(one for one in made.notes() if one.name == name)


def last_check(made: WorkState) -> Check:
    return made.checks[-1]


# ── ground truth, computed another way ──────────────────────────────────────────────────────────

CHANGING = {"edit", "Edit", "MultiEdit", "write", "Write", "write_file", "replace", "create", "NotebookEdit"}


def truth(path: list[Message]) -> set[str]:
    """Files that succeeded to be changed, by plain string work on the calls (no parser of ours)."""
    failed = {r.call_id for r in path if isinstance(r, m.Result) and (r.is_error or r.text.startswith(("ERROR", "EXECUTION RESULT of [str_replace_editor]:\nERROR", "failed in sandbox", "patch rejected")))}  # fmt: skip
    found: set[str] = set()
    for call in (c for message in path for c in message.calls if c.id not in failed):
        arguments = call.arguments
        if call.name in CHANGING or (
            call.name == "str_replace_editor" and arguments.get("command") != "view"
        ):
            found.update(str(arguments[k]) for k in ("path", "file_path", "filename") if arguments.get(k))
        command = arguments.get("command")
        script = " ".join(map(str, command)) if isinstance(command, list) else str(command or "")
        found.update(re.findall(r"^\*\*\* (?:Add|Update) File: (.+)$", script, re.M))
        found.update(re.findall(r"\bcat > (\S+) *<<", script))
        found.update(re.findall(r"^create (\S+)$", script, re.M))
    return {re.sub(r"^\./", "", path) for path in found}


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda p: f"{p.parent.name}/{p.name[:40]}")
def test_R10_every_changed_file_of_the_real_transcripts(path: Path) -> None:
    total = 0
    for messages in readers.read(path):
        made = state.of(messages)
        files = made.files()
        known = {*files.modified, *files.created, *files.deleted}
        assert truth(messages) <= known
        assert not {*files.modified, *files.created, *files.read} & set(files.deleted)
        total += len(known)
        shown = render(made, 1500, COUNTER)
        assert COUNTER.text(shown) <= 1500
        assert all(Path(file).name in shown for file in (*files.modified, *files.created))
    assert total or path.parent.name in ("tau-bench", "codex", "claude-code", "swe-agent"), (
        "no changes found at all"
    )


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda p: f"{p.parent.name}/{p.name[:40]}")
def test_R10_message_by_message_and_looked_at_in_between_equals_the_whole(path: Path) -> None:
    for messages in readers.read(path)[:5]:
        grown = WorkState()
        for number, message in enumerate(messages):
            grown.take(message, number)
            if number % 37 == 0:
                everything(grown)  # looking changes nothing
        assert everything(grown) == everything(state.of(messages))


@pytest.mark.data
def test_R10_shell_files_of_a_real_session() -> None:
    """Checked by hand against the session's own shell commands."""
    (messages,) = readers.read(shared("pi/large-session.jsonl"))
    files = state.of(messages).files()
    assert "~/.pi/agent/themes/custom-light.json" in files.created
    assert "~/.pi/agent/themes/custom.json" in files.deleted
    assert "packages/tui/test/editor.test.ts" in files.modified


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def test_R10_swe_agents_edits_change_the_open_file() -> None:
    files = done(
        bash("open src/a.py 10", "[File: src/a.py (20 lines total)]"),
        bash("edit 3:4\nx = y > z\nrm b\nend_of_edit", "[File: src/a.py (20 lines total)]"),
    ).files()
    assert (files.modified, files.created, files.deleted) == (("src/a.py",), (), ())


def test_R10_last_known_state() -> None:
    made = done(
        ("Read", {"file_path": "old.py"}, "1 x"),
        ("Write", {"file_path": "old.py", "content": ""}, "updated"),
        ("Write", {"file_path": "new.py", "content": ""}, "created"),
        ("Edit", {"file_path": "new.py"}, "ok"),
        ("Write", {"file_path": "gone.py", "content": ""}, "created"),
        bash("rm gone.py"),
        ("Edit", {"file_path": "no.py"}, "String to replace not found", True),
    )
    files = made.files()
    assert (files.modified, files.created, files.deleted) == (("old.py",), ("new.py",), ("gone.py",))
    assert "Tried to change, without success (1):\n- no.py" in render(made)


def test_R10_a_tool_that_says_it_updated_a_file_did_not_create_it() -> None:
    made = done(
        ("Write", {"file_path": "a.py", "content": "x"}, "The file a.py has been updated successfully.")
    )
    assert made.files().modified == ("a.py",)


def test_R10_what_was_deleted_and_written_again_was_changed() -> None:
    patch = "*** Begin Patch\n*** Delete File: a.ts\n*** Add File: a.ts\n+x\n*** End Patch"
    assert done(("apply_patch", {"input": patch}, "ok")).files().modified == ("a.ts",)


@pytest.mark.parametrize(
    ("commands", "deleted", "kept"),
    [
        (["rm -rf src/old"], ["src/old", "src/old/a.py", "src/old/deep/b.py"], ["src/c.py"]),
        (["rm -rf src"], ["src", "src/c.py", "src/old/a.py", "src/old/deep/b.py"], []),
        (["cd src && rm -r old"], ["src/old", "src/old/a.py", "src/old/deep/b.py"], ["src/c.py"]),
        (["rm src/old/*.py"], ["src/old/a.py"], ["src/c.py", "src/old/deep/b.py"]),
        (["rm -rf src/old", "mkdir -p src/old"], ["src/old/a.py", "src/old/deep/b.py"], ["src/c.py"]),
        (["rm -rf src/old", "touch src/old/n.py"], ["src/old/a.py", "src/old/deep/b.py"], ["src/c.py", "src/old/n.py"]),
        (["mv src/old lib"], ["src/old", "src/old/a.py", "src/old/deep/b.py"], ["lib/a.py", "lib/deep/b.py", "src/c.py"]),
        (["mv src/old/*.py lib/"], ["src/old/a.py"], ["lib/a.py", "src/c.py", "src/old/deep/b.py"]),
        (["git rm -r src/old"], ["src/old", "src/old/a.py", "src/old/deep/b.py"], ["src/c.py"]),
    ],
)  # fmt: skip
def test_R10_what_lies_in_a_deleted_folder_is_gone(
    commands: list[str], deleted: list[str], kept: list[str]
) -> None:
    files = done(
        *(
            ("Write", {"file_path": p, "content": "x"}, "ok")
            for p in ("src/old/a.py", "src/old/deep/b.py", "src/c.py")
        ),
        *(bash(command) for command in commands),
    ).files()
    assert (sorted(files.deleted), sorted(files.created)) == (deleted, kept)
    assert (files.modified, files.read) == ((), ())


def test_R10_a_deleted_folder_is_named_once() -> None:
    made = done(
        ("Write", {"file_path": "build/a.o", "content": "x"}, "ok"),
        ("Write", {"file_path": "build/b.o", "content": "x"}, "ok"),
        bash("rm -rf build"),
    )
    assert render(made) == "Files deleted (1):\n- build/"


def test_R10_files_set_back_by_git_say_so() -> None:
    edits: list[Step] = [
        ("Edit", {"file_path": f"src/{n}.py", "old_string": "a", "new_string": "b"}, "ok") for n in "ab"
    ]
    made = done(*edits, bash("git checkout -- src"))
    assert made.files().modified == ("src/a.py", "src/b.py")
    assert note(made, "src/a.py").change == "set back by git checkout"
    text = render(done(*edits, bash("git reset --hard HEAD")))
    assert text == "Files set back to what git has (2):\n- src/a.py\n- src/b.py"


@pytest.mark.parametrize(
    "steps",
    [
        [("Read", {"file_path": "a.py"}, "File does not exist.", True)],
        [("Read", {"file_path": "a.py"}, "<tool_use_error>File does not exist.</tool_use_error>")],
        [
            (
                "str_replace_editor",
                {"command": "view", "path": "a.py"},
                "ERROR:\nInvalid `path` parameter: a.py.",
            )
        ],
        [bash("cat a.py", "cat: a.py: No such file or directory", True)],
        [bash("cat a.py", '{"output":"cat: a.py: No such file","metadata":{"exit_code":1}}')],
        [bash("cat b.py a.py; echo end", "text of b\ncat: a.py: No such file or directory\nend")],
    ],
)
def test_R10_a_failed_read_is_no_read(steps: list[Step]) -> None:
    assert "a.py" not in done(*steps).files().read


def test_R10_a_file_that_speaks_of_errors_was_read() -> None:
    text = "Error: what this page is about.\n" + "Exit code 1 means that something failed.\n" * 60
    assert done(("read", {"path": "errors.md"}, text)).files().read == ("errors.md",)


def test_R10_of_a_command_line_that_failed_only_the_beginning_is_sure() -> None:
    files = ran(
        "sed -i s/a/b/ x.c && cat > t.py <<'E'\nx\nE\npython t.py && rm y.c", "Traceback", True
    ).files()
    assert (files.modified, files.created, files.deleted) == (("x.c",), ("t.py",), ())
    assert ran("rm y.c", "rm: cannot remove", True).files().deleted == ()
    assert ran("pytest > out.txt", "Exit code 1", True).files().created == ("out.txt",)


def test_R10_a_folder_that_was_looked_at_is_no_file() -> None:
    made = done(
        ("str_replace_editor", {"command": "view", "path": "/w/src"}, "a.py"),
        ("str_replace_editor", {"command": "view", "path": "/w/src/a.py"}, "x"),
    )
    assert made.files().read == ("/w/src/a.py",)


def test_R10_an_unanswered_call_counts_as_done() -> None:
    call = m.assistant("", m.call("c", "Write", file_path="a.py", content=""))
    assert state.of([call]).files().created == ("a.py",)
    made = state.of([call, m.user("go on"), m.assistant("", m.call("d", "Edit", file_path="a.py", old_string="1", new_string="2")), m.result("d", "ok")])  # fmt: skip
    assert made.files().created == ("a.py",)
    assert note(made, "a.py").change == "- 1\n+ 2"


@pytest.mark.parametrize(
    ("cwd", "steps"),
    [
        ("/w/app", [("Read", {"file_path": "/w/app/src/a.py"}, "x"), bash("sed -i s/x/y/ src/a.py")]),
        ("/w/app", [("edit", {"path": "src/a.py"}, "ok"), bash("cd /w/app && cat src/a.py")]),
        ("", [bash("ls", "a\n[Current working directory: /w/app]"), ("edit", {"path": "/w/app/src/a.py"}, "ok"), bash("cat src/a.py", "x")]),
        ("", [bash("open src/a.py", "x\n(Current directory: /w/app)\nbash-$"), ("edit", {"path": "/w/app/src/a.py"}, "ok")]),
        ("", [("edit", {"path": "src/a.py"}, "ok"), bash("ls", "a\n(Current directory: /w/app)"), ("edit", {"path": "/w/app/src/a.py"}, "ok")]),
        ("", [("shell", {"command": "sed -i s/x/y/ src/a.py", "workdir": "/w/app"}, "ok"), ("read", {"path": "/w/app/src/a.py"}, "x")]),
    ],
)  # fmt: skip
def test_R10_a_file_counts_once_however_it_is_spelled(cwd: str, steps: list[Step]) -> None:
    files = done(*steps, cwd=cwd).files()
    assert len(files.modified) == 1
    assert files.read == files.created == ()


def test_R10_two_files_of_one_name_are_two_where_nothing_shows_they_are_one() -> None:
    files = done(("edit", {"path": "src/a.py"}, "ok"), bash("cd /w/other && touch src/a.py")).files()
    assert (files.modified, files.created) == (("src/a.py",), ("/w/other/src/a.py",))


# ── what last changed ───────────────────────────────────────────────────────────────────────────

BEFORE, AFTER = (
    "def login():\n    user = find()\n    return None\n",
    "def login():\n    user = find()\n    raise NoUser\n",
)


@pytest.mark.parametrize(
    ("name", "arguments", "change"),
    [
        ("Edit", {"file_path": "a.py", "old_string": BEFORE, "new_string": AFTER}, "- return None\n+ raise NoUser"),
        ("edit", {"path": "a.py", "oldText": "", "newText": "x = 1\n"}, "+ x = 1"),
        ("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": ""}, "- x = 1"),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}]}, "2 places, the last\n- c\n+ d"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "a", "new_str": "b"}, "- a\n+ b"),
        ("str_replace_editor", {"command": "insert", "path": "a.py", "insert_line": 4, "new_str": "b"}, "after line 4\n+ b"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n@@ def f\n-old\n+new\n@@ def g\n x\n-1\n+2\n+3\n*** End Patch"}, "- 1\n+ 2\n+ 3"),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a.py\n-1\n+2\n*** Update File: b.py\n-3\n+4\n"]}, "- 1\n+ 2"),
        ("replace_in_file", {"path": "a.py", "diff": "------- SEARCH\nx\ny\n=======\nx\nz\n+++++++ REPLACE\n"}, "- y\n+ z"),
        ("Write", {"file_path": "a.py", "content": "import os\n\n\nclass A:\n    def f(self):\n        pass\n"}, "6 lines\n+ class A:\n+     def f(self):"),
        ("Write", {"file_path": "a.json", "content": '{\n  "a": 1\n}'}, '3 lines\n+   "a": 1'),
        ("bash", {"command": "sed -i 's/a/b/' a.py"}, "sed s/a/b/"),
        ("bash", {"command": "cat > a.py <<'E'\nprint(1)\nE"}, "1 line\n+ print(1)"),
        ("bash", {"command": "echo 'x = 1' >> a.py"}, "+ x = 1"),
        ("bash", {"command": "mv b.py a.py"}, "moved from b.py"),
        ("bash", {"command": "cp b.py a.py"}, "copied from b.py"),
        ("bash", {"command": "open a.py\nedit 3:4\n    y = 2\nend_of_edit"}, "lines 3–4\n+ y = 2"),
    ],
)  # fmt: skip
def test_R10_the_newest_change_of_a_file(name: str, arguments: dict[str, Any], change: str) -> None:
    suffix = "a.json" if "a.json" in str(arguments) else "a.py"
    assert note(done((name, arguments, "ok")), suffix).change == change


def test_R10_the_newest_change_replaces_the_older() -> None:
    made = done(
        ("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"}, "ok"),
        ("Edit", {"file_path": "b.py", "old_string": "3", "new_string": "4"}, "ok"),
        ("Edit", {"file_path": "a.py", "old_string": "5", "new_string": "6"}, "ok"),
        ("Edit", {"file_path": "a.py", "old_string": "7", "new_string": "8"}, "old_string not found", True),
    )
    assert (
        render(made)
        .split("Newest changes:\n")[1]
        .startswith("- a.py #4\n    - 5\n    + 6\n- b.py #2\n    - 3\n    + 4")
    )


# ── verdicts ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "result", "failed", "passed"),
    [
        ("pytest -q", "2 failed, 3 passed in 0.1s", True, False),
        ("python -m pytest tests", "===== 5 passed in 1s =====", False, True),
        ("npm test 2>&1 | tail -5", "Tests: 1 failed, 4 passed, 5 total", False, False),
        ("cd x && go test ./...", "ok  \tx/y\t0.1s", False, True),
        ("cargo test", "test result: FAILED. 1 passed; 1 failed; 0 ignored", False, False),
        (
            "pnpm --filter app test",
            '{"output":"  Tests  245 passed (245)","metadata":{"exit_code":0}}',
            False,
            True,
        ),
        ("npx vitest run", "no output", False, None),
        ("pytest -q", "all tests passed, 0 errors", False, None),
    ],
)
def test_R10_verdict_of_a_run(command: str, result: str, failed: bool, passed: bool | None) -> None:
    (check,) = ran(command, result, failed).checks
    assert check.verdict.passed is passed


@pytest.mark.parametrize(
    "command",
    ["ls tests", "cat test.py", "git commit -m 'run pytest'", "grep test x", "pip install pytest", "npm install jest",
     "which pytest", "cat pytest.log", "poetry add pytest", "pytest --version"],
)  # fmt: skip
def test_R10_what_is_no_build_or_test(command: str) -> None:
    assert ran(command, "=== 5 passed in 1s ===" if command.startswith(("cat", "git")) else "").checks == ()


@pytest.mark.parametrize(
    "command",
    ["make", "npm run build", "pnpm --filter @x/y lint", "yarn test:unit", "npx tsc --noEmit", "./gradlew build", "bash tests/1.2.sh",
     "python test_x.py", "uv run pytest", "docker compose run web pytest -q", "python3 -m unittest", "cargo clippy", "go vet ./...",
     "bundle exec rspec", "./scripts/run_tests.sh", "mvn -q verify", "ruff check src", "node --test", "poetry run mypy src"],
)  # fmt: skip
def test_R10_what_is_a_build_or_test(command: str) -> None:
    assert len(ran(command).checks) == 1


@pytest.mark.parametrize(
    "again",
    [
        "cd /w && pytest tests/test_a.py",
        "pytest tests/test_a.py 2>&1 | tail -20",
        "timeout 60 pytest tests/test_a.py",
        "timeout -k 5 60s pytest -q tests/test_a.py",
        "pytest tests/test_a.py -v --tb=short",
        "PYTHONPATH=src pytest -x tests/test_a.py > out.txt",
        "bash -lc 'pytest tests/test_a.py'",
        "pytest ./tests/test_a.py; echo done",
        ".venv/bin/pytest tests/test_a.py",
        "pytest",
    ],
)
def test_R10_the_newest_result_of_a_command_supersedes_older_ones(again: str) -> None:
    made = done(
        bash("pytest tests/test_a.py", "1 failed in 0.1s", True),
        bash(again, "3 passed in 0.1s"),
        cwd="/w",
    )
    assert [check.verdict.line for check in made.checks] == ["3 passed"]
    assert made.error is None
    assert "FAILED" not in render(made)


@pytest.mark.parametrize(
    "other", ["pytest tests/test_b.py", "cd sub && pytest tests/test_a.py", "pytest tests/test_a.py -k slow"]
)
def test_R10_another_command_supersedes_nothing(other: str) -> None:
    made = done(
        bash("pytest tests/test_a.py", "1 failed in 0.1s", True), bash(other, "3 passed in 0.1s"), cwd="/w"
    )
    assert [check.verdict.passed for check in made.checks] == [False, True]


def test_R10_a_build_of_thousands_of_tests_shows() -> None:
    log = (OUTPUTS / "maven-passed.txt").read_text()
    made = done(bash("mvn -q test", "[INFO] BUILD FAILURE", True), bash("mvn test 2>&1 | tail -40", log))
    assert "mvn test: passed (BUILD SUCCESS, 7097 tests, 12 skipped) #3" in render(made, 200, COUNTER)


@pytest.mark.parametrize(
    ("command", "result", "said"),
    [
        ("make", "cc x.c\n[Command finished with exit code 0]", "exit 0"),
        ("make | tail", "cc x.c\n[Command finished with exit code 0]", "unknown (hidden by what ran after it)"),
        ("make; echo done", "done\n[Command finished with exit code 0]", "unknown (hidden by what ran after it)"),
        ("make || true", "cc x.c\n[Command finished with exit code 0]", "unknown (hidden by what ran after it)"),
        ("make", "cc x.c", "unknown (no error reported)"),
        ("make", "oh\nExit Code: 3", "exit 3: oh"),
        ("pytest -q", "5 passed in 1s\nCoverage too low\n[Command finished with exit code 1]", "passed (5 passed), but exit 1"),
        ("npm run check | head -60", "Checked 22 files in 24ms. No fixes applied.", "unknown; a part of it passed (Checked 22 files in 24ms. No fixes applied)"),
        ("npm run check", "Checked 22 files in 24ms. No fixes applied.", "passed (Checked 22 files in 24ms. No fixes applied)"),
        ("pytest", "no tests ran in 0.01s", "unknown (no tests ran)"),
    ],
)  # fmt: skip
def test_R10_verdicts_are_told_as_they_were_reported(command: str, result: str, said: str) -> None:
    assert verdict_text(last_check(ran(command, result))) == said


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"output":"x","metadata":{"exit_code":2}}', 2),
        ("Command: x\nOutput: y\nExit Code: 127", 127),
        ("x\n\nCommand exited with code 1", 1),
        ("y\n[The command completed with exit code 0.]", 0),
        ("Exit code 1\nError: no", 1),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx", 0),
        (
            "failed in sandbox MacosSeatbelt with execution error: denied, exit code: 2, stdout: , stderr: bash: x",
            2,
        ),
        ("plain", None),
        ("a program that says: return code 7, exit status 9", None),
        ('{"status":"error","error":{"message":"no"}}', None),
    ],
)
def test_R10_exit_status_as_reported(result: str, code: int | None) -> None:
    assert last_check(ran("make", result)).exit == code


def test_R10_a_command_that_goes_on_in_the_background_is_judged_when_it_ends() -> None:
    made = done(
        (
            "Bash",
            {"command": "npm test", "run_in_background": True},
            "Command running in background with ID: b57.",
        ),
        (
            "TaskOutput",
            {"task_id": "b57"},
            "<status>completed</status>\n<exit_code>1</exit_code>\nTests: 1 failed, 1 total",
        ),
    )
    assert [(check.verdict.line, check.times) for check in made.checks] == [("1 failed, 1 total", 2)]


def test_R10_input_for_a_running_command_is_no_command() -> None:
    made = done(
        (
            "execute_bash",
            {"command": "python x.py"},
            "Name?\n[The command has no new output after 10 seconds.]",
        ),
        (
            "execute_bash",
            {"command": "Ada", "is_input": "true"},
            "KeyError: 'Ada'\n[Command finished with exit code 1]",
        ),
    )
    assert made.error is not None
    assert (made.error.what, made.error.exit) == ("python x.py", 1)


# ── errors, todos ───────────────────────────────────────────────────────────────────────────────

CRASH = 'Traceback (most recent call last):\n  File "x", line 1\nValueError: bad'


def test_R10_the_last_error_that_no_success_answered() -> None:
    steps = [
        bash("python a.py", CRASH, True),
        bash("python b.py", "ImportError: no b", True),
        bash("python b.py", "ok"),
    ]
    made = done(*steps)
    assert made.error is not None
    assert (made.error.what, made.error.error, made.error.number) == ("python a.py", "ValueError: bad", 1)
    assert "Last error, not answered since:\n- python a.py: ValueError: bad #1" in render(made)
    assert done(*steps, bash("cd . && python3 a.py 2>&1 | tail -3", "ok")).error is None


@pytest.mark.parametrize(
    "step",
    [
        bash("grep -n x a.py", "\n[Command finished with exit code 1]"),
        bash("ls nowhere", "ls: nowhere: No such file or directory", True),
        bash("git diff --quiet", "[Command finished with exit code 1]"),
        ("Read", {"file_path": "a.py"}, "File does not exist.", True),
        ("Grep", {"pattern": "("}, "regex parse error", True),
    ],
)
def test_R10_looking_for_something_in_vain_is_no_error(step: Step) -> None:
    assert done(step).error is None


def test_R10_an_error_is_told_without_colours() -> None:
    made = ran("python a.py", "\x1b[1m\x1b[31mError: no such user\x1b[0m", True)
    assert made.error is not None
    assert made.error.error == "Error: no such user"


@pytest.mark.parametrize("said", ["patch rejected by user", "aborted by user after 2.1s"])
def test_R10_a_patch_that_was_not_let_through_changed_nothing(said: str) -> None:
    patch = "apply_patch <<'P'\n*** Begin Patch\n*** Add File: src/hook.ts\n+export const a = 1;\n*** End Patch\nP"
    made = ran(patch, said)
    assert note(made, "src/hook.ts").fate == "failed"
    assert made.error is not None
    assert (made.error.what, made.error.error) == ("apply_patch src/hook.ts", said)


def test_R10_an_edit_that_failed_is_answered_by_any_change_of_the_file() -> None:
    failed: Step = ("Edit", {"file_path": "a.py", "old_string": "x"}, "String to replace not found", True)
    assert done(failed).error is not None
    assert done(failed, bash("sed -i s/x/y/ a.py")).error is None


def test_R10_an_output_that_ends_in_a_traceback_is_an_error_though_nobody_says_so() -> None:
    made = ran("python a.py", f"loading\n{CRASH}\n\n(Open file: n/a)\n(Current directory: /w)\nbash-$")
    assert made.error is not None
    assert made.error.error == "ValueError: bad"
    assert ran("python a.py", f"{CRASH}\nbut it went on").error is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c", "status": "pending"}]}),
        ("update_plan", {"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}, {"step": "c", "status": "pending"}]}),
        ("task_tracker", {"command": "plan", "task_list": [{"title": "a", "status": "done"}, {"title": "b", "status": "in_progress"}, {"title": "c", "status": "todo"}]}),
        ("update_todo_list", {"todos": "- [x] a\n- [-] b\n- [ ] c\n"}),
    ],
)  # fmt: skip
def test_R10_open_todos_of_the_common_agents(name: str, arguments: dict[str, Any]) -> None:
    made = done((name, arguments, "ok"), ("TodoRead", {}, "ok"))
    assert [todo.text for todo in made.open_todos] == ["b", "c"]
    assert "Open todos:\n- b [in progress]\n- c" in render(made)
    assert "(1 of 3 done)" in render(made)


def test_R10_a_plan_stands_until_a_list_takes_its_place() -> None:
    refused: Step = ("ExitPlanMode", {"plan": "# Bad plan"}, "User chose to stay in plan mode", True)
    agreed: Step = ("ExitPlanMode", {"plan": "# Good plan\n1. tests"}, "User has approved your plan.")
    assert render(done(refused)) == ""
    assert "Good plan" in render(done(refused, agreed))
    listed: Step = ("TodoWrite", {"todos": [{"content": "tests", "status": "completed"}]}, "ok")
    assert render(done(agreed, listed)) == ""


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def test_R10_a_hundred_changed_files_fit() -> None:
    made = done(*(("Edit", {"file_path": f"/home/someone/project/packages/core/src/module_{i % 7}/file_{i}.py"}, "ok") for i in range(100)))  # fmt: skip
    shown = render(made, 1500, COUNTER)
    assert COUNTER.text(shown) <= 1500
    assert all(f"file_{i}.py" in shown for i in range(100))


def test_R10_what_does_not_fit_is_counted_and_the_newest_stays() -> None:
    made = done(*(("Edit", {"file_path": f"src/file_{i}.py"}, "ok") for i in range(100)))
    shown = render(made, 200, COUNTER)
    assert "Files changed (100):" in shown
    assert "file_99.py" in shown
    assert "file_0.py" not in shown
    assert re.search(r"- \(and \d\d more\)", shown)


def from_on(first: int) -> Shows:
    """A view that shows all entries from one on."""
    return lambda number, _: number >= first


def test_R10_what_the_view_shows_itself_is_not_said_again() -> None:
    made = done(
        ("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"}, "ok"),
        ("Edit", {"file_path": "b.py", "old_string": "3", "new_string": "4"}, "ok"),
        bash("pytest", "1 failed in 1s", True),
        bash("python x.py", CRASH, True),
        ("TodoWrite", {"todos": [{"content": "c", "status": "pending"}]}, "ok"),
    )
    assert (
        render(made, shows=from_on(2))
        == "Files changed (2):\n- b.py\n- a.py\nNewest changes:\n- a.py #0\n    - 1\n    + 2"
    )
    assert all(said in render(made) for said in ("+ 4", "pytest: FAILED", "ValueError", "Open todos"))


PATHS = st.text(min_size=1, max_size=40)
STEPS = st.one_of(
    st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": PATHS, "content": st.text(max_size=60)}), st.text(max_size=40)),
    st.tuples(st.just("Edit"), st.fixed_dictionaries({"file_path": PATHS, "old_string": st.text(max_size=30), "new_string": st.text(max_size=60)}), st.sampled_from(["ok", "Error: no"])),
    st.tuples(st.just("Read"), st.fixed_dictionaries({"file_path": PATHS}), st.text(max_size=40)),
    st.tuples(st.just("bash"), st.fixed_dictionaries({"command": st.one_of(st.text(max_size=60), st.sampled_from(["pytest", "rm -rf a", "mv a b", "cd x && make", "git checkout .", "cat a"]))}), st.sampled_from(["", "1 failed in 1s", "Exit code 1\nx", "x\n[Current working directory: /w]"])),
    st.tuples(st.just("TodoWrite"), st.fixed_dictionaries({"todos": st.lists(st.fixed_dictionaries({"content": st.text(max_size=40), "status": st.sampled_from(["pending", "done"])}), max_size=4)}), st.just("")),
)  # fmt: skip


@given(st.lists(STEPS, max_size=25), st.integers(0, 300), st.integers(0, 50))
def test_R10_the_text_never_passes_its_budget(steps: list[Step], budget: int, first: int) -> None:
    assert COUNTER.text(render(done(*steps), budget, COUNTER, from_on(first))) <= budget


class Greedy:
    """A counter for which the whole is more than its parts."""

    def text(self, text: str) -> int:
        return int(len(text) ** 1.2)

    def message(self, message: Message) -> int:
        return self.text(message.text)


@given(st.lists(STEPS, max_size=25), st.integers(0, 600))
def test_R10_the_text_fits_by_any_counter(steps: list[Step], budget: int) -> None:
    assert Greedy().text(render(done(*steps), budget, Greedy())) <= budget


@given(st.lists(STEPS, max_size=25), st.lists(st.integers(0, 50), max_size=4))
def test_R10_any_chunks_give_the_same_state(steps: list[Step], cuts: list[int]) -> None:
    messages = conversation(*steps)
    edges = sorted({0, len(messages), *(cut for cut in cuts if cut < len(messages))})
    grown = WorkState()
    for first, last in pairwise(edges):
        everything(grown.extend(messages[first:last], first))
    assert everything(grown) == everything(state.of(messages))


@given(st.lists(STEPS, max_size=25))
def test_R10_a_file_is_in_one_list_only(steps: list[Step]) -> None:
    made = done(*steps)
    names = [one.name for one in made.book.listed() if one.fate != "failed"]
    files = made.files()
    assert sorted({*files.read, *files.modified, *files.created, *files.deleted}) == sorted(set(names))


# ── cost ────────────────────────────────────────────────────────────────────────────────────────


def _step(i: int) -> Step:
    kinds: list[Step] = [
        bash(f"cd /w && pytest tests/test_{i % 900}.py 2>&1 | tail -20", "x\n" * 40 + "3 passed in 0.1s"),
        (
            "Edit",
            {"file_path": f"src/m{i % 500}.py", "old_string": "a\n" * 20, "new_string": "b\n" * 20},
            "ok",
        ),
        ("Read", {"file_path": f"src/m{i % 700}.py"}, "text\n" * 80),
        bash(f"rm -rf build/{i % 50} && touch build/{i % 50}/a", "Exit code 1\nno"),
    ]
    return kinds[i % 4]


@pytest.mark.timing
def test_R10_the_cost_of_a_message_does_not_follow_the_past() -> None:
    messages = conversation(*map(_step, range(12_000)))
    made, spent = WorkState("/w"), list[float]()
    for start in range(0, len(messages), 8_000):
        began = time.process_time()
        made.extend(messages[start : start + 8_000], start)
        spent.append(time.process_time() - began)
    assert spent[2] < 3 * spent[0] + 0.5
    assert len(made.checks) <= 40
    assert len(made._errors) <= 20
    assert len(made._pending) <= 256
    began = time.process_time()
    render(made, 1500, COUNTER)
    took = time.process_time() - began
    assert not JUDGED or took < 0.5


def test_R10_calls_that_are_never_answered_do_not_pile_up() -> None:
    made = state.of(
        m.assistant("", m.call(f"c{i}", "Write", file_path=f"{i}.py", content="x")) for i in range(2_000)
    )
    assert len(made._pending) <= 256
    assert len(made.files().created) == 2_000


HOSTILE: list[Any] = [None, 7, 10**6000, [], {}, [[]], {"a": []}, "", "\0" * 500, "a\n" * 50_000, "/" * 5_000, "../" * 900, "\ud800", ["x"] * 500, True]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_R10_hostile_calls_are_read(value: Any) -> None:
    names = (
        "Edit",
        "Write",
        "bash",
        "apply_patch",
        "str_replace_editor",
        "TodoWrite",
        "Read",
        "move",
        "ExitPlanMode",
        "x",
    )
    keys = ("file_path", "path", "command", "edits", "old_string", "new_string", "insert_line", "todos", "plan", "content", "input", "view_range", "offset", "limit", "workdir", "is_input", "task_id", "destination", "diff", "paths")  # fmt: skip
    began = time.process_time()
    made = done(*((name, dict.fromkeys(keys, value), "\n" * 20_000) for name in names))
    made.extend([m.Bash("make", "x", None), m.result("none", "x"), m.system("x")])
    render(made, 300, COUNTER)
    took = time.process_time() - began
    assert not JUDGED or took < 3


@pytest.mark.parametrize("text", ["\n" * 120_000, "{" * 100_000, '{"output":' + "[" * 50_000, "Traceback (most recent call last)\n" * 20_000, "Error: " * 50_000, "x" * 2_000_000, "No such file\n" * 50_000])  # fmt: skip
def test_R10_hostile_results_are_bounded(text: str) -> None:
    began = time.process_time()
    for failed in (True, False):
        done(bash("pytest a b c", text, failed), ("Read", {"file_path": "x"}, text, failed))
    took = time.process_time() - began
    assert not JUDGED or took < 2


# ── read by eye ─────────────────────────────────────────────────────────────────────────────────


def test_R21_a_file_in_two_spellings_is_one_file() -> None:
    patch = "*** Begin Patch\n*** Update File: apps/web/src/page.tsx\n@@\n-{old}\n+{new}\n*** End Patch"
    first = ("shell", {"command": ["apply_patch", patch.format(old="a", new="b")]}, "ok")
    second = (
        "shell",
        {"command": ["apply_patch", patch.format(old="b", new="c")], "workdir": "/home/me/mono"},
        "ok",
    )
    for steps in ((first, second), (second, first)):
        made = done(*steps)
        assert made.files().modified == ("apps/web/src/page.tsx",)
        assert render(made, 800, COUNTER).count("page.tsx") == 2  # the name, and its newest change
        assert made.notes()[0].number == 2
        assert made.home == "/home/me/mono"


def test_R10_what_is_known_of_a_file_survives_its_second_spelling() -> None:
    made = done(
        ("Write", {"file_path": "new.py", "content": "x"}, "File created"),
        ("Edit", {"file_path": "/w/new.py", "old_string": "x", "new_string": "y"}, "ok"),
        ("Read", {"file_path": "old.py"}, "text"),
        ("Write", {"file_path": "/w/old.py", "content": "z"}, "ok"),
        ("Read", {"file_path": "a/deep/folder.py"}, "text"),
        ("Read", {"file_path": "/w/a/deep/folder.py"}, "text"),  # now it is known where relative paths start
    )
    assert made.files().created == ("/w/new.py",)
    assert made.files().modified == ("/w/old.py",)
    assert note(made, "/w/new.py").change == "- x\n+ y"


def test_R10_short_names_are_not_taken_for_the_same_file() -> None:
    made = done(
        ("Edit", {"file_path": "src/index.ts", "old_string": "x", "new_string": "y"}, "ok"),
        ("Edit", {"file_path": "/w/other/src/index.ts", "old_string": "x", "new_string": "y"}, "ok"),
    )
    assert len(made.files().modified) == 2


def test_R10_names_are_told_from_one_root_however_they_are_spelled() -> None:
    made = done(
        ("Edit", {"file_path": "/w/a/one.py", "old_string": "x", "new_string": "y"}, "ok"),
        bash("touch b/two.py"),
        cwd="/w",
    )
    said = render(made, 800, COUNTER)
    assert "- a/one.py" in said
    assert "/w/a/one.py" not in said


def test_R10_what_a_tool_without_traces_refused_is_over_when_the_user_speaks() -> None:
    made = done(("Skill", {"skill": "commit"}, "<tool_use_error>Unknown skill: commit</tool_use_error>"))
    assert made.error is not None
    made.take(m.user("thanks, and now the other thing"))
    assert made.error is None
    failed = ran("./deploy", "no route to host", failed=True)
    failed.take(m.user("and now?"))
    assert failed.error is not None


def test_R10_a_change_in_little_room_tells_what_was_put_in() -> None:
    edit = {"file_path": "a.py", "old_string": "gone = 1", "new_string": "put = 2"}
    made = done(("Edit", edit, "ok"))
    texts = [render(made, budget, COUNTER) for budget in range(10, 60)]
    assert any("put = 2" in text and "gone = 1" not in text for text in texts)
    assert not any("gone = 1" in text and "put = 2" not in text for text in texts)


@pytest.mark.parametrize("word", ["failed", "passed"])
def test_R10_a_verdict_says_whether_files_changed_since(word: str) -> None:
    run = bash("pytest -q", f"1 {word} in 0.1s")
    edit: Step = ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "ok")
    assert f"(1 {word}) #3\n" in render(done(edit, run), 800, COUNTER) + "\n"
    assert f"(1 {word}) #1, files changed since" in render(done(run, edit), 800, COUNTER)


def test_R10_a_pattern_changes_the_files_that_it_stands_for() -> None:
    made = done(
        bash("mkdir -p src/parts && cp old/a.ts src/parts/ && cp old/b.ts src/parts/"),
        bash("sed -i 's/x/y/' src/parts/*.ts"),
    )
    assert made.files().created == ("src/parts/a.ts", "src/parts/b.ts")
    assert made.files().modified == ()
    assert note(made, "src/parts/b.ts").change == "sed s/x/y/"


def test_R10_a_script_in_the_line_that_is_written_anew_answers_the_one_that_failed() -> None:
    failed = bash("npx tsx -e \"import './a.js'; run()\"", "Error: Cannot find module './a.js'", failed=True)
    assert done(failed).error is not None
    assert done(failed, bash("npx tsx -e \"import './b.js'; run()\"", "ok")).error is None
    assert done(failed, bash("npx tsx other.ts", "ok")).error is not None


def test_R21_a_change_names_its_file_shortly_where_the_file_is_listed() -> None:
    edits: list[Step] = [
        ("Edit", {"file_path": path, "old_string": "x", "new_string": "y"}, "ok")
        for path in ("app/very/deep/one.py", "app/very/deep/page.py", "lib/very/deep/page.py")
    ]
    said = render(done(*edits), 800, COUNTER)
    assert "- one.py #0\n" in said
    assert "- app/very/deep/page.py #2\n" in said


def test_R10_a_change_is_told_by_lines_that_say_something() -> None:
    rule = "\t// " + "=" * 60
    change = {
        "path": "a.ts",
        "oldText": "}",
        "newText": f"}}\n\n{rule}\n\t// Sessions\n{rule}\n\tbranch() {{\n\t}}",
    }
    told = render(done(("edit", change, "ok")))
    assert told.endswith("    + // Sessions\n    + branch() {")


def test_R10_git_checkout_of_a_known_file_sets_it_back_and_of_a_branch_changes_nothing() -> None:
    edit: Step = ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, "ok")
    assert render(done(edit, bash("git checkout src/a.py"))) == (
        "Files set back to what git has (1):\n- src/a.py"
    )
    for line in ("git checkout feature/b.py", "git checkout -b src/a.py", "git checkout main"):
        assert render(done(edit, bash(line))) == render(done(edit))


def test_R10_a_file_that_was_set_back_and_changed_again_is_changed() -> None:
    edit: Step = ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, "ok")
    assert "Files changed (1):" in render(done(edit, bash("git checkout -- src/a.py"), edit))


def test_R10_what_is_moved_into_a_known_folder_keeps_its_name() -> None:
    read: Step = ("Read", {"file_path": "docs/b.md"}, "text")
    assert done(read, bash("mv report.pdf docs")).files().created == ("docs/report.pdf",)
    assert done(read, bash("rm -rf docs"), bash("mv report.pdf docs")).files().modified == ("docs",)


@pytest.mark.parametrize(
    "steps",
    [
        [bash("git stash && pytest -q; git stash pop", "1 failed, 4 passed in 0.1s")],
        [bash("git stash"), bash("pytest -q", "1 failed, 4 passed in 0.1s"), bash("git stash pop")],
        [bash("git stash push -u"), bash("pytest", "1 failed, 4 passed in 0.1s"), bash("git stash apply")],
    ],
)
def test_R10_a_run_without_the_changes_is_no_verdict_of_the_work(steps: list[Step]) -> None:
    before, after = bash("pytest -q", "5 passed in 0.1s"), bash("pytest -q", "2 failed, 3 passed in 0.1s")
    made = done(before, *steps)
    assert any(row.endswith("pytest -q: passed (5 passed) #1") for row in render(made).split("\n"))
    assert "stash" in last_check(made).command
    assert last_check(done(before, *steps, after)).command == "pytest -q"


def test_R10_a_verdict_names_the_check_and_not_the_steps_before_it() -> None:
    assert last_check(ran("sed -i s/a/b/ x.py && pytest -q", "3 passed in 0.1s")).command == "pytest -q"
    failed = ran("npm ci && npm test", "npm error code E404", failed=True)
    assert last_check(failed).command == "npm ci && npm test"


def test_R10_go_tests_with_the_race_detector_are_the_same_run() -> None:
    made = done(
        bash("go test ./...", "FAIL\tx.org/a\t0.1s\nFAIL"),
        bash("go test -race -count=1 ./...", "ok  \tx.org/a\t0.2s"),
    )
    assert [verdict_text(check) for check in made.checks] == ["passed (1 ok (packages))"]


NOTEBOOK = """---------------------------------------------------------------------------
AttributeError                            Traceback (most recent call last)
Cell In[7], line 1
----> 1 df['price'] = df.revenue / df.unit

AttributeError: 'DataFrame' object has no attribute 'unit'"""


def test_R10_an_exception_in_a_notebook_is_an_error_until_a_cell_runs() -> None:
    failed: Step = ("execute_cell", {"code": "df.unit"}, NOTEBOOK)
    error = done(failed).error
    assert error and error.error == "AttributeError: 'DataFrame' object has no attribute 'unit'"
    assert done(failed, ("execute_cell", {"code": "df.units"}, "0    1\n1    2")).error is None


JWT = f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{'aZ3kQ9xP' * 24}.{'Rt7mW2cV' * 6}"


@pytest.mark.parametrize("before", range(20, 200, 12))
def test_R17_no_statement_holds_half_of_a_secret(before: int) -> None:
    words = "word " * (before // 5)
    steps: list[Step] = [
        bash(
            f"curl {words}-H 'Authorization: Bearer {JWT}' https://x.org",
            f"error: {words}{JWT} refused",
            True,
        ),
        bash(f"deploy {words}--token {JWT} && pytest", f"error: {words}{JWT} refused", True),
        ("Write", {"file_path": "a.env", "content": f"{words}{JWT}\n"}, "ok"),
        ("http", {"target": f"{words}{JWT}"}, f"Error: {words}{JWT}", True),
    ]
    text = redact(render(done(*steps)))[0]
    lines = [lines_of(message, lambda _: None) for message in conversation(*steps)]
    text += "".join(redact(line.text)[0] for made in lines for line in made)
    assert "aZ3kQ9xP" not in text
    assert "eyJ" not in text


def test_R10_files_that_share_only_the_root_are_named_in_full() -> None:
    steps: list[Step] = [
        ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, "ok")
        for path in ("/srv/shop/app.py", "/home/dev/gate/limit.go")
    ]
    text = render(done(*steps))
    assert text.startswith("Files changed (2):\n- /home/dev/gate/limit.go\n- /srv/shop/app.py\n")
