"""R10: the state of the work says what tool arguments, exit codes and todo lists say, and nothing else."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold import tokens
from refold.facts import state
from refold.facts.file_history import FileNote
from refold.facts.hunks import quoted_change
from refold.facts.lines import joined, lines_of
from refold.facts.state import WorkState
from refold.facts.state_text import Catalogue, Shows, render
from refold.messages import Message
from refold.text.redact import redact
from tests.facts.steps import Step, bash, conversation, done, ran
from tests.timing import JUDGED

COUNTER = tokens.get("o200k")
EDIT: Step = ("Edit", {"file_path": "src/a.py", "old_string": "a", "new_string": "b"}, "ok")
EDIT_A: Step = ("Edit", {"file_path": "a.py", "old_string": "5", "new_string": "6"}, "ok")
MARKS: Step = bash("false", "Exit code 1", failed=True)
"""A tool that marks what fails: what it does not mark did not."""


def everything(made: WorkState) -> Any:
    return made.files(), made.notes(), made.facts(), render(made, 800, COUNTER)


def note(made: WorkState, name: str) -> FileNote:
    return next(one for one in made.notes() if one.name == name)


def told(made: WorkState, title: str, budget: int = 2_000) -> list[str]:
    """The rows under a heading."""
    text = render(made, budget, COUNTER)
    part = text.split(f"{title}:\n", 1)[1].split("\n") if f"{title}:\n" in text else []
    rows: list[str] = []
    for row in part:
        if not row.startswith(("- ", "    ")):
            break
        rows.append(row.removeprefix("- "))
    return rows


CHECKS, ERROR, TODOS = "Builds and tests, last result", "Last error, not tried again", "Open todos"
RUNNING = "Running in the background, no end reported"


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def test_R10_files_are_what_edit_tools_say() -> None:
    made = done(
        ("Read", {"file_path": "old.py"}, "1 x"),
        ("Write", {"file_path": "old.py", "content": ""}, "The file old.py has been updated."),
        ("Write", {"file_path": "new.py", "content": ""}, "File created successfully at: new.py"),
        ("Edit", {"file_path": "new.py"}, "ok"),
        ("Write", {"file_path": "either.py", "content": ""}, "Successfully wrote 12 bytes"),
        ("Edit", {"file_path": "no.py"}, "String to replace not found", True),
        bash("echo x > shell.py; sed -i s/a/b/ other.py; cp a b; tee c < d"),
    )
    files = made.files()
    assert (files.read, files.modified, files.created, files.deleted) == (
        (), ("old.py", "either.py"), ("new.py",), ()
    )  # fmt: skip
    assert "no.py" not in render(made).split("Last error")[0]


def test_R10_a_write_of_our_own_agent_says_whether_it_made_the_file() -> None:
    answer = '{"status":"success","data":{"path":"a.py","operation":"%s"}}'
    files = done(
        ("Write", {"path": "a.py", "content": "x"}, answer % "created"),
        ("Write", {"path": "b.py", "content": "x"}, answer % "overwritten"),
    ).files()
    assert (files.created, files.modified) == (("a.py",), ("b.py",))


def test_R10_swe_agents_edits_change_the_file_that_their_answer_names() -> None:
    said = "[File: /w/src/a.py (20 lines total)]\n(Open file: /w/src/a.py)\n(Current directory: /w)\nbash-$"
    edit = {"command": "edit 3:4\nx = y > z\nrm b\nend_of_edit"}
    files = done(("open", {"path": "src/a.py"}, said), ("edit", edit, said)).files()
    assert (files.modified, files.created, files.deleted) == (("src/a.py",), (), ())
    refused = said.replace("[File", "Your proposed edit has introduced new syntax error(s).\n[File")
    assert done(("edit", edit, refused)).files().modified == ()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("patch rejected by user", False),
        ("The user doesn't want to proceed with this tool use.", True),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", False),
        ("apply_patch verification failed: no such context", False),
        ("Exit code: 1\nno", False),
    ],
)
def test_R10_a_rejected_edit_is_no_change(said: str, error: bool) -> None:
    patch = "*** Begin Patch\n*** Add File: a.ts\n+x\n*** End Patch"
    for name, arguments in (
        ("apply_patch", {"input": patch}),
        ("shell", {"command": ["apply_patch", patch]}),
    ):
        if name == "shell" and "verification" in said:
            continue  # a shell's output is the program's own matter; its exit code says that it failed
        step: Step = (name, arguments, said, True) if error else (name, arguments, said)
        assert done(step).files() == done().files()


def test_R10_what_has_no_answer_is_not_told() -> None:
    call = m.assistant("", m.call("c", "Write", file_path="a.py", content=""))
    assert state.of([call, m.user("go on")]).files().modified == ()
    assert state.of([call, m.user("go on"), m.result("c", "ok")]).files().modified == ("a.py",)


@pytest.mark.parametrize(
    ("command", "deleted", "changed"),
    [
        ("rm src/a.py", (), ()),
        ("cd src && rm -f a.py", (), ()),
        ("rm -rf /w/src", (), ()),
        ("git rm -q src/a.py", (), ()),
        ("rm src/*.py", (), ()),
        ("test -f x && (rm src/a.py)", (), ()),
        ("mv src lib", (), ()),
        ("git checkout src/a.py", (), ()),
        ("git checkout -- src", (), ()),
        ("git restore src/a.py && make", (), ()),
        ("git reset --hard HEAD~1", (), ()),
        ("git checkout .", (), ()),
        ("git stash", (), ()),
        ("git checkout -b src/a.py", (), ("src/a.py",)),
        ("git checkout main", (), ()),
        ("git checkout -- other.py", (), ("src/a.py",)),
        ("git restore --staged src/a.py", (), ("src/a.py",)),
        ("git reset --soft HEAD~1", (), ("src/a.py",)),
        ("git commit -m 'rm src/a.py'", (), ("src/a.py",)),
        ("rm other/a.py", (), ("src/a.py",)),
        ("echo rm src/a.py", (), ("src/a.py",)),
        ("cat <<'E'\nrm src/a.py\nE", (), ("src/a.py",)),
    ],
)
def test_R10_what_a_command_took_back_is_not_told_as_changed(
    command: str, deleted: tuple[str, ...], changed: tuple[str, ...]
) -> None:
    files = done(EDIT, bash(command), cwd="/w").files()
    assert (files.deleted, files.modified) == (deleted, changed)
    again = done(EDIT, bash(command), EDIT, cwd="/w").files()
    assert "src/a.py" in again.modified + again.created
    assert again.deleted == ()


SAVED, POPPED = "Saved working directory and index state WIP on main", "Dropped refs/stash@{0} (1a2b3c4)"
STASH, POP = bash("git stash", SAVED), bash("git stash pop", f"On branch main\n{POPPED}")
MAIN = bash("git checkout main", "Switched to branch 'main'\nYour branch is up to date.")
NO = "error: pathspec 'main' did not match\nExit code 1"


@pytest.mark.parametrize(
    ("steps", "undo"),
    [
        ([STASH], "`git stash` (#2)"),
        ([bash("git -C /w stash push -m 'wip'", SAVED)], "`git stash push -m wip` (#2)"),
        ([bash("git stash; make; git stash pop", "The stash entry is kept in case you need it again.")], "`git stash` (#2)"),
        ([bash("git stash && make", "error\nExit code: 1")], "`git stash` (#2)"),
        ([bash("git stash && make", "Command running in background with ID: b57.")], "`git stash` (#2)"),
        ([STASH, bash("git stash drop")], "`git stash` (#2)"),
        ([STASH, bash("git stash pop", "CONFLICT in a.py\nThe stash entry is kept\nExit code: 1")], "`git stash` (#2)"),
        ([MAIN, STASH, POP], "`git checkout main` (#2)"),
        ([STASH, MAIN, POP], "`git checkout main` (#4)"),
        ([MAIN, bash("git checkout -b next", "Switched to a new branch 'next'")], "`git checkout main` (#2)"),
        ([bash("git fetch && git checkout -b next origin/main", "Switched to a new branch 'next'")], "`git checkout -b next origin/main` (#2)"),
        ([bash("git switch main && git pull")], "`git switch main` (#2)"),
        ([bash("git checkout . | tail -1", "Updated 1 path from the index")], "`git checkout .` (#2)"),
        ([bash("git reset --hard HEAD~1", "HEAD is now at 1a2b3c4")], "`git reset --hard HEAD~1` (#2)"),
        ([bash("git clean -fd", "Removing src/a.py")], "`git clean -fd` (#2)"),
    ],
)  # fmt: skip
def test_R10_a_command_that_may_have_undone_all_changes_is_named(steps: list[Step], undo: str) -> None:
    made = done(EDIT, *steps, cwd="/w")
    assert made.files().modified == ()
    heading = f"Files changed before {undo}, which may have taken that back (1):"
    assert render(made, 2_000, COUNTER).startswith(f"{heading}\n- src/a.py")
    assert "Newest changes" not in render(made)
    assert told(done(EDIT, *steps, EDIT, cwd="/w"), "Files changed (1)") == ["src/a.py"]


@pytest.mark.parametrize(
    "step",
    [
        bash("git stash; make; git stash pop", f"{SAVED}\nok\n{POPPED}"),
        bash("git checkout -b next", "Switched to a new branch 'next'"),
        bash("git switch -c next", "Switched to a new branch 'next'"),
        bash("git checkout main", NO, True),
        bash("git checkout other.py", "Updated 1 path from the index"),
        bash("git stash list && git stash show"),
        bash("git reset src/b.py"),
        bash("cd /tmp/other && git checkout main", "Switched to branch 'main'"),
    ],
)
def test_R10_a_command_that_leaves_changes_as_they_are_is_not_named(step: Step) -> None:
    made = done(EDIT, step, cwd="/w")
    assert made.files().modified == ("src/a.py",)
    assert told(made, "Newest changes")[0] == "a.py #0"


def test_R22_what_changed_before_an_undo_is_not_told_of_a_later_change() -> None:
    first: Step = (
        "Edit",
        {"file_path": "a.py", "old_string": "x", "new_string": "def login():\n    y"},
        "ok",
    )
    assert told(done(first, MAIN, EDIT_A), "Newest changes")[0] == "a.py #4"
    assert told(done(first, EDIT_A), "Newest changes")[0] == "a.py #2 (in other changes: login)"


def test_R10_files_of_no_project_are_not_undone() -> None:
    plan: Step = ("Write", {"file_path": "/home/ann/.agent/plans/a.md", "content": "x"}, "File created")
    assert done(plan, MAIN, cwd="/home/ann/work").files().created == ("/home/ann/.agent/plans/a.md",)


@pytest.mark.parametrize(
    ("steps", "since"),
    [
        ([MAIN], ", before `git checkout main` (#4)"),
        ([STASH, POP], ""),
        ([bash("git checkout -b next", "Switched to a new branch 'next'")], ""),
        ([EDIT, MAIN], ", files changed since, before `git checkout main` (#6)"),
        ([bash("rm src/a.py"), bash("rm src/a.py")], ", files changed since"),
    ],
)
def test_R22_a_check_says_that_git_changed_the_files_since(steps: list[Step], since: str) -> None:
    made = done(EDIT, bash("pytest -q", "1 failed in 0.1s"), *steps)
    assert told(made, CHECKS)[-1] == f'pytest -q: "1 failed" #3{since}'
    again = done(EDIT, *steps, bash("pytest -q", "1 failed in 0.1s"))
    assert "since" not in told(again, CHECKS)[0] and "before" not in told(again, CHECKS)[0]


def test_R22_checks_and_changes_before_a_sub_agent_worked_say_so() -> None:
    task: Step = ("Task", {"subagent_type": "dev", "prompt": "Do task 1"}, "Files modified: a.py")
    looks: Step = ("Task", {"subagent_type": "Explore", "prompt": "Look at a.py"}, "It is fine.")
    checked = bash("pytest -q", "4 passed in 0.1s")
    made = done(EDIT, checked, task)
    assert told(made, CHECKS) == ['pytest -q: "4 passed" #3, a sub-agent worked since']
    assert told(made, "Newest changes (a sub-agent worked at #5)")[0] == "a.py #0"
    assert told(done(EDIT, task, EDIT, checked), "Newest changes")[0] == "a.py #4"
    assert told(done(EDIT, checked, looks), CHECKS) == ['pytest -q: "4 passed" #3']
    assert told(done(EDIT, looks), "Newest changes")[0] == "a.py #0"


def test_R22_marks_of_a_conflict_are_no_lines_of_a_file() -> None:
    old = "<<<<<<< HEAD\nleft = 1\n=======\nright = 2\n>>>>>>> other"
    merged: Step = ("Edit", {"file_path": "a.py", "old_string": old, "new_string": "left = 1"}, "ok")
    assert told(done(merged), "Newest changes") == ["a.py #0", "    - right = 2"]


def test_R10_an_edit_is_quoted_as_what_it_changed() -> None:
    rows = [f"row {n}" for n in range(12)]
    new = ["first", *rows[:6], *rows[7:]]
    given = {"file_path": "/w/a.py", "old_string": "\n".join(rows), "new_string": "\n".join(new)}
    told = "Edit /w/a.py\n+first\n row 0\n row 1\n…\n row 4\n row 5\n-row 6\n row 7\n row 8"
    assert quoted_change(m.call("a", "Edit", **given)) == told
    assert quoted_change(m.call("a", "Edit", **given, replace_all=False)) == told
    for other in (
        m.call("a", "Edit", **given, replace_all=True),  # said more than the lines say
        m.call("a", "Edit", **{**given, "old_string": ""}),
        m.call("a", "Write", file_path="/w/a.py", content="x"),
        m.call("a", "Bash", command="sed -i s/a/b/ a.py"),
    ):
        assert quoted_change(other) == ""


def test_R22_what_a_document_says_in_code_is_no_heading_of_it() -> None:
    text = "# Title\n```bash\n# Clean up\nrm x\n```\n## 4. `code`\n## Usage\n"
    wrote: Step = ("Write", {"file_path": "a.md", "content": text}, "File created successfully at: a.md")
    assert told(done(wrote), "Newest changes")[1:] == [
        "    7 lines",
        "    + # Title",
        *(f"    + ## {name}" for name in ("4. `code`", "Usage")),
    ]


def test_R22_edits_at_several_places_in_one_step_are_not_told_as_one() -> None:
    edits = [
        m.call(f"c{n}", "Edit", file_path="a.py", old_string=f"a{n}", new_string=f"b{n}") for n in (1, 2)
    ]
    messages = [m.assistant("", *edits), m.result("c1", "ok"), m.result("c2", "ok")]
    assert told(state.of(messages), "Newest changes")[1:] == [
        "    - a1",
        "    + b1 …",
        "    - a2",
        "    + b2",
    ]


def test_R22_a_failure_is_not_told_long_after_files_were_changed() -> None:
    failed = bash("npx tsc", "a.ts(1,2): error TS1: no\nExit code 2", True)
    looked = [bash(f"cat {n}.txt", "x") for n in range(60)]
    assert len(told(done(failed, *looked), CHECKS)) == 1
    assert len(told(done(failed, EDIT, *looked), CHECKS)) == 1
    assert told(done(failed, *looked, EDIT), CHECKS) == []


def test_R22_what_a_command_in_the_background_may_take_back_is_not_told() -> None:
    begun = bash("git stash && pytest -q", "Command running in background with ID: b57.")
    assert done(EDIT, begun).files().modified == ()


def test_R22_what_git_set_back_is_not_told_as_deleted() -> None:
    gone: Step = ("delete_file", {"path": "src/a.py"}, "ok")
    assert done(gone).files().deleted == ("src/a.py",)
    assert done(gone, bash("git reset --hard", "HEAD is now at 1a2b3c4")).files().deleted == ()
    assert done(gone, bash("git checkout .", "Updated 1 path from the index")).files().deleted == ()


def test_R10_a_command_that_failed_or_was_refused_deleted_nothing_for_sure() -> None:
    assert done(EDIT, bash("rm src/a.py", "Exit code 1\nrm: no", failed=True)).files().deleted == ()
    refused = bash("rm src/a.py", "The user doesn't want to proceed with this tool use.", failed=True)
    assert done(EDIT, refused).files().modified == ("src/a.py",)


@pytest.mark.parametrize(
    "step",
    [
        ("Read", {"file_path": "a.py"}, "File does not exist.", True),
        ("Read", {"file_path": "a.py"}, "<tool_use_error>File does not exist.</tool_use_error>"),
        (
            "str_replace_editor",
            {"command": "view", "path": "a.py"},
            "ERROR:\nInvalid `path` parameter: a.py.",
        ),
        bash("cat a.py", "cat: a.py: No such file or directory\nExit code 1", True),
        bash("cat a.py", '{"output":"cat: a.py: No such file","metadata":{"exit_code":1}}'),
    ],
)
def test_R10_a_failed_read_is_no_read(step: Step) -> None:
    assert done(step).files().read == ()


@pytest.mark.parametrize(
    "steps",
    [
        [("str_replace_editor", {"command": "view", "path": "/w/src"}, "Here's the files and directories up to 2 levels deep in /w/src:\n/w/src/\n/w/src/a.py")],
        [("view", {"path": "/w/src"}, "a.py\nb.py"), ("view", {"path": "/w/src/a.py"}, "x = 1")],
        [("view", {"path": "/w/src/a.py"}, "x = 1"), ("view", {"path": "/w/src"}, "a.py\nb.py")],
        [("read_file", {"path": "src/"}, "a.py\nb.py")],
        [("Read", {"file_path": "/w/src"}, "EISDIR: illegal operation on a directory, read", True)],
        [bash("cat src", "cat: src: Is a directory\nExit code 1", True)],
    ],
)  # fmt: skip
def test_R22_a_folder_is_no_file_that_was_read(steps: list[Step]) -> None:
    assert {*done(*steps, cwd="/w").files().read} <= {"/w/src/a.py"}


def test_R10_a_file_that_speaks_of_errors_was_read() -> None:
    text = "Error: what this page is about.\n" + "Exit code 1 means that something failed.\n" * 60
    assert done(("read", {"path": "errors.md"}, text)).files().read == ("errors.md",)


@pytest.mark.parametrize(
    ("cwd", "steps"),
    [
        ("/w/app", [("Read", {"file_path": "/w/app/src/a.py"}, "x"), ("edit", {"path": "src/a.py"}, "ok")]),
        ("/w/app", [("edit", {"path": "src/a.py"}, "ok"), bash("cd /w/app && cat src/a.py")]),
        ("", [bash("ls", "a\n[Current working directory: /w/app]"), ("edit", {"path": "/w/app/src/a.py"}, "ok"), bash("cat src/a.py", "x")]),
        ("", [("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/a.py\n+x\n*** End Patch", "workdir": "/w/app"}, "ok"), ("read", {"path": "/w/app/src/a.py"}, "x")]),
    ],
)  # fmt: skip
def test_R10_a_file_counts_once_however_it_is_spelled(cwd: str, steps: list[Step]) -> None:
    files = done(*steps, cwd=cwd).files()
    assert len(files.modified) == 1
    assert files.read == files.created == ()


def patch(path: str, workdir: str = "") -> Step:
    text = f"*** Begin Patch\n*** Update File: {path}\n+x\n*** End Patch"
    return ("apply_patch", {"input": text} | ({"workdir": workdir} if workdir else {}), "ok")


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        ([patch("src/a.py", "/w/app"), patch("src/a.py")], 1),
        ([patch("src/a.py"), patch("src/a.py", "/w/app")], 1),
        ([patch("src/a.py"), patch("b.py", "/w/app"), ("edit", {"path": "/w/app/src/a.py"}, "ok")], 2),
        ([patch("src/a.py"), bash("git stash"), patch("src/a.py", "/w/app"), bash("git stash pop")], 1),
        ([patch("src/a.py"), ("edit", {"path": "/w/app/src/a.py"}, "ok")], 2),
        ([patch("src/a.py", "/w/one"), patch("src/a.py", "/w/two"), patch("src/a.py")], 3),
        ([patch("a.py", "/w/app"), patch("src/a.py")], 2),
    ],
)
def test_R10_without_a_directory_of_the_session_a_file_counts_once_where_a_call_states_it(
    steps: list[Step], count: int
) -> None:
    made = done(*steps)
    assert len(made.notes()) == count
    assert sum(len(names) for names in (made.files().modified, made.files().read)) <= count


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
        ("Write", {"file_path": "a.py", "content": "import os\n\n\nclass A:\n    def f(self):\n        pass\n"}, "6 lines\n+ class A:\n+     def f(self):" ),
        ("Write", {"file_path": "a.json", "content": '{\n  "a": 1\n}'}, '3 lines\n+   "a": 1'),
        ("Write", {"file_path": "a.json", "content": '"abc"\n'}, '+ "abc"'),
    ],
)  # fmt: skip
def test_R10_the_newest_change_of_a_file(name: str, arguments: dict[str, Any], change: str) -> None:
    suffix = "a.json" if "a.json" in str(arguments) else "a.py"
    assert note(done((name, arguments, "ok")), suffix).change == change


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("How the record names the files of a session that nobody has touched", "How the record names the files of a session that nobody has"),
        ("What the gateway does where it is first asked for `GET /v1/models`", "What the gateway does where it is first asked for"),
        ("What the gateway does where it is asked for models (a list of all)", "What the gateway does where it is asked for models"),
        ("Short `name`", "Short `name`"),
    ],
)  # fmt: skip
def test_R10_a_heading_is_cut_at_a_word_and_through_no_quotation(heading: str, name: str) -> None:
    new = f"## {heading}\n\nText.\n"
    made = done(("Edit", {"file_path": "a.md", "old_string": "x", "new_string": new}, "ok"))
    assert note(made, "a.md").defines == (name,)


def test_R10_what_changed_in_a_file_is_named_over_all_its_changes() -> None:
    made = done(
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "def login(user):\n    x"}, "ok"),
        ("Edit", {"file_path": "a.py", "old_string": "y", "new_string": "class NoUser:\n    y"}, "ok"),
        ("Edit", {"file_path": "a.py", "old_string": "5", "new_string": "6"}, "ok"),
        ("Edit", {"file_path": "a.py", "old_string": "7", "new_string": "8"}, "old_string not found", True),
    )
    assert told(made, "Newest changes") == ["a.py #4 (in other changes: login, NoUser)", "    - 5", "    + 6"]


# ── checks ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "result", "row"),
    [
        ("make", "cc x.c\n[Command finished with exit code 0]", "make: passed #1"),
        ("make", "oh\nExit Code: 3", 'make: FAILED (exit 3), "oh" #1'),
        ("cd x && make", '{"output":"oh","metadata":{"exit_code":2}}', 'make (in x): FAILED (exit 2), "oh" #1'),
        ("make | tail", "cc x.c\n[Command finished with exit code 0]", ""),
        ("make; echo done", "done\n[Command finished with exit code 0]", ""),
        ("make || true", "cc x.c\n[Command finished with exit code 0]", ""),
        ("make", "cc x.c", ""),
        ("npm ci && npm test", "npm error no network\nExit code: 1", ""),
        ("pytest -q | tail -3", "1 failed, 4 passed in 0.1s\nExit code: 0", 'pytest -q: "1 failed, 4 passed" #1'),
        ("pytest -q", "5 passed in 1s\nCoverage too low\n[Command finished with exit code 1]", 'pytest -q: FAILED (exit 1), "5 passed" #1'),
        ("pytest -q; echo $?", "2 failed, 1 passed in 1s\n1", 'pytest -q: "2 failed, 1 passed" #1'),
        ("npm ci && npm test", "Tests: 1 failed, 4 passed, 5 total\nExit code: 1", 'npm test: "Tests: 1 failed, 4 passed, 5 total" #1'),
        ("go test ./... | tail", "ok  \ta/b\t0.1s\nok  \ta/c\t(cached)", 'go test ./...: "ok a/c (cached)" and others like it #1'),
        ("go test ./a | tail", "ok  \ta/b\t0.1s", 'go test ./a: "ok a/b 0.1s" #1'),
        ("npm run lint && npm test", "5 passed in 1s\nExit code: 0", 'npm run lint && npm test: passed, "5 passed" #1'),
        ("npm run check", "Checked 9 files. Fixed 1 file.\nChecked 3 files. No fixes applied.", 'npm run check: "Checked 3 files. No fixes applied." and others like it #1'),
    ],
)  # fmt: skip
def test_R10_a_check_is_told_as_far_as_it_was_decided(command: str, result: str, row: str) -> None:
    assert told(ran(command, result), CHECKS) == ([row] if row else [])


def test_R10_unknown_is_never_written() -> None:
    made = done(bash("make | tail", "x"), bash("pytest", "y"), bash("npx tsc 2>&1 | head", ""))
    assert render(made) == ""


def test_R10_a_tool_that_marks_failures_needs_no_exit_code_for_success() -> None:
    assert told(done(bash("make", "cc x.c")), CHECKS) == []
    assert told(done(bash("make", "cc x.c"), MARKS), CHECKS) == ["make: passed #1"]
    assert told(done(MARKS, bash("make", "cc x.c", failed=True)), CHECKS) == []  # failed without a code
    other: Step = ("shell", {"command": "make"}, "cc x.c")
    assert told(done(MARKS, other), CHECKS) == []


@pytest.mark.parametrize(
    "again",
    [
        "cd /w && pytest tests/test_a.py",
        "pytest tests/test_a.py 2>&1 | tail -20",
        "timeout 60 pytest tests/test_a.py",
        "npm ci && pytest tests/test_a.py",
        "bash -lc 'pytest tests/test_a.py'",
        "PYTHONPATH=src pytest tests/test_a.py > out.txt",
        "pytest 'tests/test_a.py'; echo done",
        "pytest tests/test_a.py && pytest tests/test_b.py",
        "pytest -q --tb=short tests/test_a.py | grep FAILED",
        "pytest tests/test_a.py -x -v 2>&1 | tail -5",
    ],
)
def test_R10_a_later_run_of_the_same_command_replaces_the_earlier_one(again: str) -> None:
    first = bash("pytest tests/test_a.py", "Exit code 1\n1 failed in 0.1s", True)
    assert "FAILED" in render(done(first, cwd="/w"))
    assert "FAILED" not in render(done(first, bash(again, "3 passed in 0.1s"), cwd="/w"))
    assert "FAILED" not in render(done(first, bash(again, "nothing said"), cwd="/w"))


@pytest.mark.parametrize(
    "other", ["pytest tests/test_b.py", "cd sub && pytest tests/test_a.py", "pytest tests/test_a.py -k slow"]
)
def test_R10_another_command_or_folder_replaces_nothing(other: str) -> None:
    first = bash("cd /w && pytest tests/test_a.py", "Exit code 1\n1 failed in 0.1s", True)
    rows = told(done(first, bash(other, "3 passed in 0.1s"), cwd="/w"), CHECKS)
    assert [row.split(": ")[1][:6] for row in rows] == ["passed", "FAILED"]


def test_R10_a_run_that_was_refused_replaces_nothing() -> None:
    refused = bash("pytest", "The user doesn't want to proceed with this tool use.", True)
    made = done(bash("pytest", "Exit code 1\n1 failed in 1s", True), refused)
    assert told(made, CHECKS) == ['pytest: FAILED (exit 1), "1 failed" #1']


def test_R10_a_run_that_was_stopped_replaces_nothing() -> None:
    stopped = bash("npm test", "compiling\n\nCommand aborted", True)
    made = done(bash("npm test", "Tests: 4 passed, 4 total\nExit code: 0"), stopped)
    assert told(made, CHECKS) == ['npm test: passed, "Tests: 4 passed, 4 total" #1']


def test_R22_files_outside_of_the_project_change_nothing_that_was_checked() -> None:
    for path in ("/home/ann/.agent/plans/a.md", "/tmp/try.py", "/root/.cache/x"):
        aside: Step = ("Write", {"file_path": path, "content": "x"}, "ok")
        made = done(EDIT, bash("pytest -q", "4 passed in 0.1s"), aside, cwd="/home/ann/work")
        assert told(made, CHECKS) == ['pytest -q: "4 passed" #3']
    made = done(EDIT, bash("pytest -q", "4 passed in 0.1s"), aside, EDIT, cwd="/root")
    assert told(made, CHECKS) == ['pytest -q: "4 passed" #3, files changed since']


def test_R10_a_run_of_several_checks_goes_when_one_of_them_ran_again() -> None:
    """It may be the one that gave what is quoted."""
    both = bash("npm run lint && npm test 2>&1 | tail -5", "Tests: 2 failed, 3 passed")
    rows = told(done(both, bash("npm test", "Tests: 5 passed")), CHECKS)
    assert rows == ['npm test: "Tests: 5 passed" #3']
    assert told(done(both, bash("npm run build", "ok")), CHECKS)


@pytest.mark.parametrize(
    "steps",
    [
        [bash("git stash && pytest -q; git stash pop", "1 failed, 4 passed in 0.1s")],
        [STASH, bash("pytest -q", "1 failed, 4 passed in 0.1s"), POP],
        [STASH, bash("pytest -q; git stash pop", f"1 failed, 4 passed in 0.1s\n{POPPED}")],
    ],
)
def test_R10_a_run_without_the_changes_says_so(steps: list[Step]) -> None:
    row = told(done(EDIT, *steps), CHECKS)[0]
    assert "git stash" in row
    assert '"1 failed, 4 passed"' in row


def test_R22_a_check_that_could_not_start_is_none() -> None:
    made = done(
        bash("golangci-lint run ./...", "Exit code 127\nbash: golangci-lint: command not found", True)
    )
    assert made.checks == ()
    assert made.error is not None


@pytest.mark.parametrize(
    "command", ["python3 -m venv tests", "python -m http.server", "python -m build_env x"]
)
def test_R22_a_module_that_checks_nothing_is_no_check(command: str) -> None:
    assert done(bash(command, "")).checks == ()


def test_R22_a_folder_is_told_as_the_log_has_it() -> None:
    made = state.WorkState()
    made.extend(conversation(bash("cd /srv/app && make", "oh\nExit Code: 3", True)))
    assert "(in /srv/app)" in render(made)


def test_R22_an_old_failure_is_not_told_where_files_were_changed_since() -> None:
    failed = bash("make", "oh\nExit Code: 3", True)
    edits = [
        ("Edit", {"file_path": "a.py", "old_string": f"{n}", "new_string": "x"}, "ok") for n in range(110)
    ]
    assert "make: FAILED" in render(done(failed, *edits[:50]))
    assert "make: FAILED" not in render(done(failed, *edits))


def test_R10_what_failed_is_tried_again_by_another_program() -> None:
    failed = bash("pip3 install six", "Exit code 1\nerror: externally-managed-environment", True)
    assert done(failed).error is not None
    assert (
        done(failed, bash(". venv/bin/activate && pip install six", "Successfully installed")).error is None
    )


def test_R10_a_check_says_whether_files_changed_since() -> None:
    run = bash("pytest -q", "1 failed in 0.1s")
    assert told(done(EDIT, run), CHECKS) == ['pytest -q: "1 failed" #3']
    assert told(done(run, EDIT), CHECKS) == ['pytest -q: "1 failed" #1, files changed since']
    failed: Step = (*EDIT[:2], "String to replace not found", True)  # type: ignore[assignment]
    assert told(done(run, failed), CHECKS) == ['pytest -q: "1 failed" #1']


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"output":"x","metadata":{"exit_code":2}}', 2),
        ("Command: x\nOutput: y\nExit Code: 12", 12),
        ("x\n\nCommand exited with code 1", 1),
        ("y\n[The command completed with exit code 0.]", 0),
        ("Exit code 1\nError: no", 1),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nx", 0),
        ("failed in sandbox MacosSeatbelt with execution error: denied, exit code: 2, stdout: , stderr: bash: x", 2),
        ("plain", None),
        ("a program that says: return code 7, exit status 9", None),
        ('{"status":"error","error":{"message":"no"}}', None),
    ],
)  # fmt: skip
def test_R10_exit_codes_are_what_tools_report(result: str, code: int | None) -> None:
    checks = ran("make", result).checks
    assert [check.exit for check in checks] == ([] if code is None else [code])


def test_R10_input_for_a_running_command_is_no_command() -> None:
    made = done(
        ("execute_bash", {"command": "python x.py"}, "Name?\n[The command has no new output after 10 seconds.]"),
        ("execute_bash", {"command": "Ada", "is_input": "true"}, "KeyError: 'Ada'\n[Command finished with exit code 1]"),
    )  # fmt: skip
    assert made.error is not None
    assert (made.error.what, made.error.exit) == ("python x.py", 1)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────

CRASH = 'Exit code 1\nTraceback (most recent call last):\n  File "x", line 1\nValueError: bad'


def test_R10_the_last_error_whose_command_was_not_tried_again() -> None:
    steps = [bash("python a.py", CRASH, True), bash("python b.py", "Exit code 1\nImportError: no b", True)]
    assert told(done(*steps), ERROR) == ["python b.py: exit 1: ImportError: no b #3"]
    assert told(done(*steps, bash("python b.py", "ok")), ERROR) == ["python a.py: exit 1: ValueError: bad #1"]
    assert told(done(*steps, bash("python b.py", "ok"), bash("cd . && python a.py 2>&1 | tail")), ERROR) == []
    begun = bash("python b.py", "Command running in background with ID: b57.")
    assert told(done(*steps, begun), ERROR) == ["python a.py: exit 1: ValueError: bad #1"]


def test_R10_an_error_is_not_told_after_twenty_steps() -> None:
    failed, later = bash("./deploy", "Exit code 1\nno route", True), ("Read", {"file_path": "a"}, "x")
    assert done(failed, *[later] * 20).error is not None
    assert done(failed, *[later] * 21).error is None


@pytest.mark.parametrize(
    "step",
    [
        bash("grep -n x a.py", "\n[Command finished with exit code 1]"),
        bash("ls nowhere", "Exit code 1\nls: nowhere: No such file or directory", True),
        bash("make 2>&1 | grep error", "Exit code 1", True),
        bash("git push", "The user doesn't want to proceed with this tool use.", True),
        bash("./deploy", "Command aborted", True),
        ("Read", {"file_path": "a.py"}, "File does not exist.", True),
        ("WebFetch", {"url": "https://x.org"}, "404", True),
    ],
)
def test_R10_what_is_no_error_of_the_work(step: Step) -> None:
    assert done(step).error is None


def test_R10_an_edit_that_failed_is_answered_by_any_try_on_the_file() -> None:
    failed: Step = ("Edit", {"file_path": "a.py", "old_string": "x"}, "String to replace not found", True)
    assert told(done(failed), ERROR) == ["Edit a.py: String to replace not found #1"]
    assert done(failed, ("Write", {"file_path": "a.py", "content": "y"}, "ok")).error is None


def test_R10_an_error_is_told_without_colours() -> None:
    made = ran("python a.py", "Exit code 1\n\x1b[1m\x1b[31mError: no such user\x1b[0m", True)
    assert made.error is not None
    assert made.error.error == "Error: no such user"


# ── lists, and what runs ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}, {"content": "c", "status": "pending"}]}),
        ("update_plan", {"plan": [{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}, {"step": "c", "status": "pending"}]}),
        ("task_tracker", {"command": "plan", "task_list": [{"title": "a", "status": "done"}, {"title": "b", "status": "in_progress"}, {"title": "c", "status": "pending"}]}),
        ("update_todo_list", {"todos": "- [x] a\n- [-] b\n- [ ] c\n"}),
    ],
)  # fmt: skip
def test_R10_open_todos_of_the_common_agents(name: str, arguments: dict[str, Any]) -> None:
    made = done((name, arguments, "ok"), ("TodoRead", {}, "ok"))
    assert told(made, TODOS) == ["b [in progress]", "c", "(1 of 3 done)"]


def test_R10_tasks_that_are_made_and_closed_one_by_one() -> None:
    steps: list[Step] = [
        ("TaskCreate", {"subject": "one"}, "Task #1 created successfully: one"),
        ("TaskCreate", {"subject": "two"}, "Task #2 created successfully: two"),
        ("TaskCreate", {"subject": "three"}, "Task #3 created successfully: three"),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status"),
        ("TaskUpdate", {"taskId": "2", "status": "in_progress"}, "Updated task #2 status"),
    ]
    assert told(done(*steps), TODOS) == ["two [in progress]", "three", "(1 of 3 done)"]
    listed: Step = (
        "TaskList",
        {},
        "#1 [completed] one\n#2 [completed] two\n#3 [pending] three [blocked by #2]",
    )
    assert told(done(*steps, listed), TODOS) == ["three", "(2 of 3 done)"]


def test_R10_a_plan_stands_until_a_list_takes_its_place() -> None:
    refused: Step = ("ExitPlanMode", {"plan": "# Bad plan"}, "User chose to stay in plan mode", True)
    agreed: Step = ("ExitPlanMode", {"plan": "# Good plan\n\n1. tests"}, "User has approved your plan.")
    assert render(done(refused)) == ""
    assert told(done(refused, agreed), "Plan") == ["#2", "    # Good plan", "    1. tests"]
    listed: Step = ("TodoWrite", {"todos": [{"content": "tests", "status": "completed"}]}, "ok")
    assert render(done(agreed, listed)) == ""


STARTED: Step = ("Bash", {"command": "npm test"}, "Command running in background with ID: b57. Output is …")
AGENT: Step = ("Task", {"description": "Review it", "prompt": "…"}, "Async agent launched successfully.\nagentId: a3e (internal)")  # fmt: skip
ENDED = "<task-notification>\n<task-id>a3e</task-id>\n<status>completed</status>\n</task-notification>"


def test_R10_commands_and_sub_agents_in_the_background_are_state() -> None:
    made = done(STARTED, AGENT)
    assert told(made, RUNNING) == ["npm test (b57) #1", "Review it (a3e) #3"]
    assert told(made, CHECKS) == []
    made.take(m.user(ENDED), 4)
    assert [running.id for running in made.running] == ["b57"]


@pytest.mark.parametrize(
    ("name", "arguments", "said", "ended"),
    [
        ("TaskOutput", {"task_id": "b57"}, "<task_id>b57</task_id>\n<status>running</status>", False),
        ("TaskOutput", {"task_id": "b57"}, "<task_id>b57</task_id>\n<status>completed</status>\n<exit_code>1</exit_code>\nTests: 1 failed, 1 total", True),
        ("KillShell", {"shell_id": "b57"}, '{"message":"Successfully killed shell: b57"}', True),
        ("KillShell", {"shell_id": "b58"}, '{"message":"Successfully killed shell: b58"}', False),
    ],
)  # fmt: skip
def test_R10_what_runs_is_told_until_its_end_is_reported(
    name: str, arguments: dict[str, Any], said: str, ended: bool
) -> None:
    made = done(STARTED, (name, arguments, said))
    assert [running.id for running in made.running] == ([] if ended else ["b57"])


def test_R10_a_check_in_the_background_is_judged_when_it_ends() -> None:
    said = "<task_id>b57</task_id>\n<status>completed</status>\n<exit_code>1</exit_code>\nTests: 1 failed, 1 total"
    made = done(STARTED, ("TaskOutput", {"task_id": "b57"}, said))
    assert told(made, CHECKS) == ['npm test: FAILED (exit 1), "Tests: 1 failed, 1 total" #3']


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def edit(old: str, new: str, path: str = "src/a.py") -> Step:
    return ("Edit", {"file_path": path, "old_string": old, "new_string": new}, "ok")


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
    assert "more)" in shown


def test_R25_the_root_that_names_share_is_said_once() -> None:
    made = done(
        ("Edit", {"file_path": "/w/app/a.py"}, "ok"),
        ("create_file", {"filePath": "/w/app/b.py"}, "ok"),
        ("Read", {"file_path": "/etc/hosts"}, "x"),
        cwd="/w/app",
    )
    assert render(made) == (
        "Files changed (1, relative to /w/app/):\n- a.py\nFiles created (1):\n- b.py\nFiles read (1):\n- /etc/hosts"
    )


def test_R10_files_that_share_only_the_root_are_named_in_full() -> None:
    paths = ("/srv/shop/app.py", "/home/dev/gate/limit.go")
    steps: list[Step] = [
        ("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, "ok") for path in paths
    ]
    assert render(done(*steps)).startswith(
        "Files changed (2):\n- /home/dev/gate/limit.go\n- /srv/shop/app.py\n"
    )


def test_R21_a_change_names_its_file_shortly_where_the_file_is_listed() -> None:
    paths = ("app/very/deep/one.py", "app/very/deep/page.py", "lib/very/deep/page.py")
    steps: list[Step] = [
        ("Edit", {"file_path": path, "old_string": "x", "new_string": path}, "ok") for path in paths
    ]
    said = render(done(*steps), 800, COUNTER)
    assert "- one.py #0\n" in said
    assert "- app/very/deep/page.py #2\n" in said


def test_R10_a_change_is_told_by_lines_that_say_something() -> None:
    rule = "\t// " + "=" * 60
    new = f"}}\n\n{rule}\n\t// Sessions\n{rule}\n\tbranch() {{\n\t}}"
    assert render(done(("edit", {"path": "a.ts", "oldText": "}", "newText": new}, "ok"))).endswith(
        f"#0\n    + // Sessions\n    + {rule.strip()}\n    + branch() {{"
    )


def test_R22_a_line_that_stays_is_no_change() -> None:
    old = "import fs\nimport os\nimport path\nimport sort\n\nrun()\nstop()"
    new = "import os\nimport path\n\nrun(fast)\nstop()"
    made = done(("Edit", {"file_path": "a.py", "old_string": old, "new_string": new}, "ok"))
    assert told(made, "Newest changes") == [
        "a.py #0", "    - import fs …", "    - import sort …", "    - run()", "    + run(fast)",
    ]  # fmt: skip


def test_R22_what_a_change_took_out_again_is_not_named() -> None:
    made = done(
        (
            "Edit",
            {"file_path": "a.go", "old_string": "x", "new_string": "func timeAgo() {\n}\nfunc b() {"},
            "ok",
        ),
        ("Edit", {"file_path": "a.go", "old_string": "func timeAgo() {\n}\n", "new_string": ""}, "ok"),
        ("Edit", {"file_path": "a.go", "old_string": "1", "new_string": "2"}, "ok"),
    )
    assert told(made, "Newest changes")[0] == "a.go #4 (in other changes: b)"


def test_R22_a_line_that_an_edit_only_stands_beside_is_not_named() -> None:
    made = done(
        ("Edit", {"file_path": "a.go", "old_string": "func old() {", "new_string": "func new() {\n}\n\nfunc old() {"}, "ok"),
        ("Edit", {"file_path": "a.go", "old_string": "1", "new_string": "2"}, "ok"),
    )  # fmt: skip
    assert told(made, "Newest changes")[0] == "a.go #2 (in other changes: new)"


def test_R21_the_same_change_of_several_files_is_told_once() -> None:
    edit = {"old_string": "call(a)", "new_string": "call(a, b)"}
    made = done(*(("Edit", {"file_path": f"{name}.go", **edit}, "ok") for name in "abc"))
    assert told(made, "Files changed (3)") == ["c.go", "b.go", "a.go"]
    assert told(made, "Newest changes") == ["c.go #4", "    - call(a)", "    + call(a, b)"]


def test_R22_a_change_that_is_cut_says_so() -> None:
    new = "\n".join(f"step_{n}()" for n in range(40))
    made = done(("Edit", {"file_path": "a.py", "old_string": "old()", "new_string": new}, "ok"))
    for budget in range(40, 200, 10):
        rows = told(made, "Newest changes", budget)
        assert not rows or rows[-1].endswith(" …")


def test_R22_a_change_in_little_room_shows_both_sides_or_none() -> None:
    made = done(("Edit", {"file_path": "a.py", "old_string": "gone = 1", "new_string": "put = 2"}, "ok"))
    texts = [render(made, budget, COUNTER) for budget in range(10, 60)]
    assert {"put = 2" in text for text in texts} == {True, False}
    assert all(("gone = 1" in text) == ("put = 2" in text) for text in texts)


def from_on(first: int) -> Shows:
    """A view that shows all entries from one on."""
    return lambda number, _: number >= first


def test_R10_a_task_that_only_its_number_names_is_told() -> None:
    made = done(
        ("TaskCreate", {"subject": "Mend the roof"}, "Task #7 created successfully: Mend the roof"),
        ("TaskUpdate", {"taskId": "7", "status": "in_progress"}, "Updated task #7 status"),
    )
    assert "Mend the roof" in joined(Catalogue(made).rows(1_500, COUNTER, from_on(2)))


def test_R10_what_the_view_shows_itself_is_not_said_again() -> None:
    made = done(
        ("Edit", {"file_path": "a.py", "old_string": "1", "new_string": "2"}, "ok"),
        ("Edit", {"file_path": "b.py", "old_string": "3", "new_string": "4"}, "ok"),
        bash("pytest", "Exit code 1\n1 failed in 1s", True),
        bash("python x.py", CRASH, True),
        ("TodoWrite", {"todos": [{"content": "c", "status": "pending"}]}, "ok"),
    )
    assert joined(Catalogue(made).rows(1_500, COUNTER, from_on(2))) == (
        "Files changed (2):\n- b.py\n- a.py\nNewest changes:\n- a.py #0\n    - 1\n    + 2"
    )
    assert all(said in render(made) for said in ("+ 4", "pytest: FAILED", "ValueError", TODOS))


PATHS = st.text(min_size=1, max_size=40)
STEPS = st.one_of(
    st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": PATHS, "content": st.text(max_size=60)}), st.sampled_from(["File created", "ok"])),
    st.tuples(st.just("Edit"), st.fixed_dictionaries({"file_path": PATHS, "old_string": st.text(max_size=30), "new_string": st.text(max_size=60)}), st.sampled_from(["ok", "Error: no"])),
    st.tuples(st.just("Read"), st.fixed_dictionaries({"file_path": PATHS}), st.text(max_size=40)),
    st.tuples(st.just("bash"), st.fixed_dictionaries({"command": st.one_of(st.text(max_size=60), st.sampled_from(["pytest", "rm -rf a", "mv a b", "cd x && make", "git checkout .", "git stash", "git stash pop", "cat a"]))}), st.sampled_from(["", "1 failed in 1s", "Exit code 1\nx", "x\n[Current working directory: /w]", "Command running in background with ID: b1"])),
    st.tuples(st.just("TodoWrite"), st.fixed_dictionaries({"todos": st.lists(st.fixed_dictionaries({"content": st.text(max_size=40), "status": st.sampled_from(["pending", "done"])}), max_size=4)}), st.just("")),
)  # fmt: skip


@given(st.lists(STEPS, max_size=25), st.integers(0, 300), st.integers(0, 50))
def test_R10_the_text_never_passes_its_budget(steps: list[Step], budget: int, first: int) -> None:
    assert COUNTER.text(joined(Catalogue(done(*steps)).rows(budget, COUNTER, from_on(first)))) <= budget


def test_R25_a_catalogue_that_was_asked_before_gives_the_lists_of_every_budget() -> None:
    edits = [
        ("Edit", {"path": f"src/m{n % 7}/p{n}.py", "old_string": "a", "new_string": "b"}, "ok")
        for n in range(60)
    ]
    state = done(*edits)
    files = Catalogue(state)
    for budget in (2_000, 60, 400, 2_000):
        assert files.rows(budget, COUNTER) == Catalogue(state).rows(budget, COUNTER)


class Greedy:
    """A counter for which the whole is more than its parts."""

    name = "greedy"

    def text(self, text: str) -> int:
        return int(len(text) ** 1.2)

    def message(self, message: Message) -> int:
        return self.text(message.text)


@given(st.lists(STEPS, max_size=25), st.integers(0, 600))
def test_R10_the_text_fits_by_any_counter(steps: list[Step], budget: int) -> None:
    assert Greedy().text(render(done(*steps), budget, Greedy())) <= budget  # type: ignore[arg-type]


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
    files = made.files()
    listed = [*files.read, *files.modified, *files.created, *files.deleted]
    assert len(listed) == len(made.notes()) or len(set(listed)) < len(listed)
    assert set(listed) == {note.name for note in made.notes()}


# ── cost, and hostile values ────────────────────────────────────────────────────────────────────


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


def test_R10_the_cost_of_a_message_does_not_follow_the_past() -> None:
    messages = conversation(*map(_step, range(6_000)))
    made, spent = WorkState("/w"), list[float]()
    for start in range(0, len(messages), 4_000):
        began = time.process_time()
        made.extend(messages[start : start + 4_000], start)
        spent.append(time.process_time() - began)
    assert not JUDGED or spent[2] < 3 * spent[0] + 0.5
    assert len(made.checks) <= 40
    began = time.process_time()
    render(made, 1500, COUNTER)
    took = time.process_time() - began
    assert not JUDGED or took < 0.5


HOSTILE: list[Any] = [None, 7, 10**6000, [], {}, [[]], {"a": []}, "", "\0" * 500, "a\n" * 50_000, "/" * 5_000, "../" * 900, "\ud800", ["x"] * 500, True]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_R10_hostile_calls_are_read(value: Any) -> None:
    names = ("Edit", "Write", "bash", "apply_patch", "str_replace_editor", "TodoWrite", "Read", "move", "ExitPlanMode", "TaskCreate", "TaskUpdate", "x")  # fmt: skip
    keys = ("file_path", "path", "command", "edits", "old_string", "new_string", "insert_line", "todos", "plan", "content", "input", "view_range", "offset", "limit", "workdir", "is_input", "task_id", "taskId", "status", "subject", "destination", "diff", "paths")  # fmt: skip
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


JWT = f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{'aZ3kQ9xP' * 24}.{'Rt7mW2cV' * 6}"


@pytest.mark.parametrize("before", range(20, 200, 12))
def test_R17_no_statement_holds_half_of_a_secret(before: int) -> None:
    words = "word " * (before // 5)
    steps: list[Step] = [
        bash(f"curl {words}-H 'Authorization: Bearer {JWT}' https://x.org", f"Exit code 1\nerror: {words}{JWT} refused", True),
        bash(f"deploy {words}--token {JWT} && pytest", f"Exit code 1\nerror: {words}{JWT} refused", True),
        ("Write", {"file_path": "a.env", "content": f"{words}{JWT}\n"}, "ok"),
        ("http", {"target": f"{words}{JWT}"}, f"Error: {words}{JWT}", True),
    ]  # fmt: skip
    text = redact(render(done(*steps)))[0]
    lines = [lines_of(message, lambda _: None) for message in conversation(*steps)]
    text += "".join(redact(line.text)[0] for made in lines for line in made)
    assert "aZ3kQ9xP" not in text
    assert "eyJ" not in text


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ("python run.py", "python3 run.py"),
        ("node x.js", "node ./x.js --verbose"),
        ("./deploy prod", "cd x && ./deploy --wait prod | tail -3"),
    ],
)
def test_R10_the_same_spelled_otherwise_is_tried_again(failed: str, again: str) -> None:
    error = bash(failed, "Exit code 2\nno", True)
    assert done(error, bash("python other.py")).error is not None
    assert done(error, bash(again)).error is None


def test_R10_a_task_that_was_cancelled_is_not_done() -> None:
    rows = [("a", "completed"), ("b", "pending"), ("c", "cancelled")]
    listed = [{"content": text, "status": status} for text, status in rows]
    assert told(done(("TodoWrite", {"todos": listed}, "ok")), TODOS) == ["b", "(1 of 3 done)"]


def test_R23_all_edits_of_one_step_to_a_file_are_its_newest_change() -> None:
    edits = [
        m.call(f"c{n}", "Edit", file_path="/w/a.py", old_string=f"x{n} = 1", new_string=f"x{n} = 2")
        for n in range(2)
    ]
    said = [m.assistant("", *edits), *(m.result(f"c{n}", "ok", name="Edit") for n in range(2))]
    [note] = WorkState("/w").extend(said).notes()
    assert "x0 = 2" in note.change and "x1 = 2" in note.change


def test_R10_a_file_that_was_named_before_the_folder_was_known_can_be_removed() -> None:
    """Without a folder to start from names stay as they are until a call states one."""
    result = done(
        ("Read", {"file_path": "a.py"}, "x = 1"),
        ("Read", {"file_path": "b.py", "workdir": "/x"}, "x = 1"),
        bash("rm a.py"),
    )
    assert result.files().read == ("b.py",)
