"""R10: the trail is computed from tool calls; every modified and created file is in it."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold import tokens
from refold.messages import Message
from refold.preserve import trail
from refold.preserve.shell import parse
from refold.preserve.commands import shell_actions
from refold.preserve.trail import Trail, pi_files
from tests.data import all_transcripts, shared
from tests.preserve import readers

COUNTER = tokens.get("o200k")


def done(*steps: tuple[str, dict[str, Any], str] | tuple[str, dict[str, Any], str, bool]) -> Trail:
    """A conversation of calls: name, arguments, result, failed."""
    path: list[Message] = []
    for index, (name, arguments, result, *failed) in enumerate(steps):
        path.append(m.assistant("", m.call(f"c{index}", name, arguments)))
        path.append(m.result(f"c{index}", result, is_error=bool(failed)))
    return trail.of(path)


def ran(command: str, result: str = "", failed: bool = False) -> Trail:
    return done(("bash", {"command": command}, result, *([True] if failed else [])))


# ── ground truth, computed another way ──────────────────────────────────────────────────────────

CHANGING = {"edit", "Edit", "MultiEdit", "write", "Write", "write_file", "replace", "create", "NotebookEdit"}


def truth(path: list[Message]) -> set[str]:
    """Files that succeeded to be changed, by plain string work on the calls (no parser of ours)."""
    failed = {r.call_id for r in path if isinstance(r, m.Result) and (r.is_error or r.text.startswith(("ERROR", "EXECUTION RESULT of [str_replace_editor]:\nERROR", "failed in sandbox")))}  # fmt: skip
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


@pytest.mark.parametrize("path", all_transcripts(), ids=lambda p: f"{p.parent.name}/{p.name[:40]}")
def test_R10_every_changed_file_of_the_real_transcripts(path: Path) -> None:
    total = 0
    for conversation in readers.read(path):
        made = trail.of(conversation)
        files = made.files()
        known = {*files.modified, *files.created, *files.deleted}
        assert truth(conversation) <= known
        total += len(known)
        shown = made.render(1500, COUNTER)
        assert COUNTER.text(shown) <= 1500
        assert all(Path(file).name in shown for file in (*files.modified, *files.created))
    assert total or path.parent.name in ("tau-bench", "codex", "claude-code", "swe-agent"), (
        "no changes found at all"
    )


@pytest.mark.parametrize("path", all_transcripts(), ids=lambda p: f"{p.parent.name}/{p.name[:40]}")
def test_R10_incremental_and_stored_equals_whole(path: Path) -> None:
    """In five passes, each continued from what a fold stored as JSON."""
    for conversation in readers.read(path)[:5]:
        whole = trail.of(conversation)
        grown = Trail()
        step = len(conversation) // 5 + 1
        for start in range(0, len(conversation), step):
            stored = json.loads(json.dumps(msgspec.to_builtins(grown)))
            grown = msgspec.convert(stored, Trail).extend(conversation[start : start + step])
        assert grown == whole


def test_R10_shell_files_of_a_real_session() -> None:
    """Checked by hand against the session's own shell commands."""
    (conversation,) = readers.read(shared("pi/large-session.jsonl"))
    files = trail.of(conversation).files()
    assert "~/.pi/agent/themes/custom-light.json" in files.created
    assert "~/.pi/agent/themes/custom.json" in files.deleted
    assert "packages/tui/test/editor.test.ts" in files.modified


# ── pi (B12) ────────────────────────────────────────────────────────────────────────────────────


def pi_entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()][1:]


@pytest.mark.parametrize(("name", "counts"), [("large-session", (7, 20)), ("before-compaction", (2, 12))])
def test_B12_files_of_the_sample_sessions(name: str, counts: tuple[int, int]) -> None:
    """7/20 and 2/12: the head that pi would summarise at its default budget, its turn prefix included."""
    entries = pi_entries(shared(f"pi/{name}.jsonl"))
    cuts = {"large-session": 837, "before-compaction": 946}
    last = max((i for i, e in enumerate(entries) if e["type"] == "compaction"), default=None)
    # A version-1 file: the index counts the header line.
    first = 0 if last is None else entries[last]["firstKeptEntryIndex"] - 1
    head = [readers.pi_message(e["message"]) for e in entries[first : cuts[name]] if e["type"] == "message"]
    files = pi_files([message for message in head if message])
    assert (len(files.read), len(files.modified)) == counts
    assert files.created == ()


def test_B12_the_oracles_file_lists() -> None:
    cases = json.loads(gzip.decompress(shared("pi/oracle.json.gz").read_bytes()))["cases"]
    checked = 0
    for case in cases:
        by_id = {e["id"]: e for e in case["entries"]}
        out = case["out"]
        if prep := out.get("prep"):
            ids = [*prep["messagesToSummarize"], *prep["turnPrefixMessages"]]
            previous = _previous(case, by_id)
            files = pi_files(_messages(ids, by_id), previous)
            assert list(files.read) == prep["files"]["readFiles"]
            assert list(files.modified) == prep["files"]["modifiedFiles"]
            checked += 1
        branch = out["branch"]
        ids = [entry["id"] for entry in _collected(branch, by_id)]
        files = pi_files(_messages(ids, by_id), _carried(branch, by_id))
        assert list(files.read) == branch["files"]["readFiles"]
        assert list(files.modified) == branch["files"]["modifiedFiles"]
    assert checked > 100


def _collected(branch: dict[str, Any], by_id: dict[str, Any]) -> list[dict[str, Any]]:
    """pi looks at a message's calls before it finds that the message passes the budget."""
    said = [
        entry
        for entry in map(by_id.__getitem__, branch["entries"])
        if entry["type"] in ("custom_message", "branch_summary", "compaction")
        or (entry["type"] == "message" and entry["message"]["role"] != "toolResult")
    ]
    return said[-len(branch["messages"]) - 1 :]


def _carried(branch: dict[str, Any], by_id: dict[str, Any]) -> trail.Files:
    details = [e.get("details") or {} for e in map(by_id.__getitem__, branch["entries"]) if e["type"] == "branch_summary" and not e.get("fromHook")]  # fmt: skip
    return trail.Files(
        read=tuple(f for d in details for f in d.get("readFiles", ())),
        modified=tuple(f for d in details for f in d.get("modifiedFiles", ())),
    )


def _messages(ids: list[str], by_id: dict[str, Any]) -> list[Message]:
    raw = [by_id[i]["message"] for i in ids if i in by_id and by_id[i]["type"] == "message"]
    return [message for message in map(readers.pi_message, raw) if message]


def _previous(case: dict[str, Any], by_id: dict[str, Any]) -> trail.Files | None:
    path = [by_id[i] for i in case["out"]["path"]]
    last = next((e for e in reversed(path) if e["type"] == "compaction"), None)
    details = (last or {}).get("details") or {}
    if not last or last.get("fromHook"):
        return None
    return trail.Files(
        read=tuple(details.get("readFiles", ())), modified=tuple(details.get("modifiedFiles", ()))
    )


# ── tools of other agents ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "modified"),
        ("MultiEdit", {"file_path": "a.py", "edits": []}, "modified"),
        ("NotebookEdit", {"notebook_path": "a.py"}, "modified"),
        ("replace", {"file_path": "a.py"}, "modified"),
        ("search_replace", {"file_path": "a.py"}, "modified"),
        ("replace_in_file", {"path": "a.py", "diff": ""}, "modified"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "modified"),
        ("str_replace_based_edit_tool", {"command": "insert", "path": "a.py"}, "modified"),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: a.py\n@@\n*** End Patch"}, "modified"),
        ("shell", {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a.py\n"]}, "modified"),
        ("edit_file", {"target_file": "a.py", "code_edit": ""}, "modified"),
        ("mcp__filesystem__edit_file", {"path": "a.py"}, "modified"),
        ("functions.Write", {"file_path": "a.py", "content": ""}, "created"),
        ("write_to_file", {"path": "a.py", "content": ""}, "created"),
        ("create_file", {"filePath": "a.py"}, "created"),
        ("str_replace_editor", {"command": "create", "path": "a.py"}, "created"),
        ("delete_file", {"target_file": "a.py"}, "deleted"),
        ("Read", {"file_path": "a.py"}, "read"),
        ("read_file", {"absolute_path": "a.py"}, "read"),
        ("read_many_files", {"paths": ["a.py"]}, "read"),
        ("open", {"path": "a.py"}, "read"),
    ],
)  # fmt: skip
def test_A16_tools_of_the_common_agents(name: str, arguments: dict[str, Any], kind: str) -> None:
    files = done((name, arguments, "ok")).files()
    assert getattr(files, kind) == ("a.py",)
    assert sum(len(getattr(files, k)) for k in ("read", "modified", "created", "deleted")) == 1


def test_A16_the_table_is_extensible() -> None:
    path = [m.assistant("", m.call("c", "frobnicate", path="a.py")), m.result("c", "ok")]
    assert trail.of(path).files().modified == ()
    assert trail.of(path, {"frobnicate": "edit"}).files().modified == ("a.py",)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("echo hi > out.txt", {"created": ["out.txt"]}),
        ("echo hi >> log.txt", {"modified": ["log.txt"]}),
        ("make 2>&1 | tee build.log", {"created": ["build.log"]}),
        ("npm test > /dev/null 2>&1", {}),
        ("sed -i 's/a/b/' x.c y.c", {"modified": ["x.c", "y.c"]}),
        ("sed -i '' -e 's/a/b/' x.c", {"modified": ["x.c"]}),
        ("sed -n '1,200p' 'app/(x)/a.ts'", {"read": ["app/(x)/a.ts"]}),
        ("perl -pi -e 's/a/b/' x.c", {"modified": ["x.c"]}),
        ("mv a.py b.py", {"created": ["b.py"], "deleted": ["a.py"]}),
        ("mkdir -p d && mv a.py b.py d", {"created": ["d/a.py", "d/b.py"], "deleted": ["a.py", "b.py"]}),
        ("cp a.py d/", {"created": ["d/a.py"], "read": ["a.py"]}),
        ("rm -rf a b", {"deleted": ["a", "b"]}),
        ("touch a.py", {"created": ["a.py"]}),
        ("git mv a.py b.py", {"created": ["b.py"], "deleted": ["a.py"]}),
        ("git rm -q a.py", {"deleted": ["a.py"]}),
        ("git checkout -- a.py", {"modified": ["a.py"]}),
        ("git checkout -b new", {}),
        ("cat > f.py <<'EOF'\nrm -rf /\nEOF\npython f.py", {"created": ["f.py"]}),
        ("cd src && cat > f.py <<EOF\nx\nEOF", {"created": ["src/f.py"]}),
        ("bash -lc 'cd a && touch b'", {"created": ["a/b"]}),
        ("sudo tee -a /etc/hosts < x", {"modified": ["/etc/hosts"]}),
        ("python - <<'E'\nopen('o.txt', 'w').write('x')\nE", {"created": ["o.txt"]}),
        ("python3 -c \"from pathlib import Path; Path('p.txt').write_text('x')\"", {"created": ["p.txt"]}),
        ("apply_patch <<'P'\n*** Begin Patch\n*** Add File: n.ts\n+x\n*** Delete File: o.ts\n*** Update File: u.ts\n*** Move to: v.ts\n*** End Patch\nP", {"created": ["n.ts", "v.ts"], "deleted": ["o.ts", "u.ts"]}),
        ("git apply <<'P'\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\nP", {"modified": ["x.c"]}),
        ("for f in a b; do mv $f.txt d/; done", {"created": ["d/a.txt", "d/b.txt"], "deleted": ["a.txt", "b.txt"]}),
        ("curl -sL https://x.org/a -o a.tgz", {"created": ["a.tgz"]}),
        ("echo 'a > b' && grep '>' file", {}),
        ("open a.py\n", {"read": ["a.py"]}),
        ("diff <(ls a) <(ls b)", {}),
    ],
)  # fmt: skip
def test_R10_shell_commands(command: str, expected: dict[str, list[str]]) -> None:
    files = ran(command).files()
    for kind in ("created", "modified", "deleted", "read"):
        if kind != "read" or "read" in expected:
            assert sorted(getattr(files, kind)) == sorted(expected.get(kind, [])), kind


def test_R10_swe_agents_edits_change_the_open_file() -> None:
    files = done(
        ("bash", {"command": "open src/a.py 10"}, "[File: src/a.py (20 lines total)]"),
        ("bash", {"command": "edit 3:4\nx = y > z\nrm b\nend_of_edit"}, "[File: src/a.py (20 lines total)]"),
    ).files()
    assert (files.modified, files.created, files.deleted) == (("src/a.py",), (), ())


def test_R10_last_known_state() -> None:
    made = done(
        ("Read", {"file_path": "old.py"}, "1 x"),
        ("Write", {"file_path": "old.py", "content": ""}, "updated"),
        ("Write", {"file_path": "new.py", "content": ""}, "created"),
        ("Edit", {"file_path": "new.py"}, "ok"),
        ("Write", {"file_path": "gone.py", "content": ""}, "created"),
        ("Bash", {"command": "rm gone.py"}, ""),
        ("Edit", {"file_path": "no.py"}, "String to replace not found", True),
    )
    files = made.files()
    assert (files.modified, files.created, files.deleted) == (("old.py",), ("new.py",), ("gone.py",))
    assert "Tried to change, without success (1):\n- no.py" in made.render()


def test_R10_an_unanswered_call_counts_as_done() -> None:
    made = trail.of([m.assistant("", m.call("c", "Write", file_path="a.py", content=""))])
    assert made.files().created == ("a.py",)


@pytest.mark.parametrize(
    ("command", "result", "failed", "passed"),
    [
        ("pytest -q", "2 failed, 3 passed in 0.1s", True, False),
        ("python -m pytest tests", "===== 5 passed in 1s =====", False, True),
        ("npm test 2>&1 | tail -5", "Tests: 1 failed, 4 passed, 5 total", False, False),
        ("cd x && go test ./...", "ok  \tx/y\t0.1s", False, True),
        ("cargo test", "test result: FAILED. 1 passed; 1 failed", False, False),
        (
            "pnpm --filter app test",
            '{"output":"Tests  245 passed (245)","metadata":{"exit_code":0}}',
            False,
            True,
        ),
        ("npx vitest run", "no output", False, None),
    ],
)
def test_R10_tests_with_their_last_result(
    command: str, result: str, failed: bool, passed: bool | None
) -> None:
    (test,) = ran(command, result, failed).tests
    assert test.passed is passed


@pytest.mark.parametrize(
    "command", ["npm run build", "ls tests", "cat test.py", "git commit -m 'run pytest'", "grep test x"]
)
def test_R10_what_is_no_test_run(command: str) -> None:
    assert ran(command).tests == ()


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ('{"output":"x","metadata":{"exit_code":2}}', 2),
        ("Command: x\nOutput: y\nExit Code: 127", 127),
        ("x\n\nCommand exited with code 1", 1),
        ("y\n[The command completed with exit code 0.]", 0),
        ("plain", None),
    ],
)
def test_R10_exit_status(result: str, code: int | None) -> None:
    assert ran("x", result).commands[0].exit == code


def test_R10_todos_and_last_error() -> None:
    made = done(
        (
            "TodoWrite",
            {"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]},
            "ok",
        ),
        (
            "Bash",
            {"command": "make"},
            'Traceback (most recent call last):\n  File "x", line 1\nValueError: bad',
            True,
        ),
    )
    assert [t.text for t in made.open_todos] == ["b"]
    assert made.error == "Bash: ValueError: bad"
    assert (
        made.extend([m.assistant("", m.call("n", "Bash", command="make")), m.result("n", "ok")]).error == ""
    )


def test_R10_a_hundred_changed_files_fit() -> None:
    made = done(*(("Edit", {"file_path": f"/home/someone/project/packages/core/src/module_{i % 7}/file_{i}.py"}, "ok") for i in range(100)))  # fmt: skip
    shown = made.render(1500, COUNTER)
    assert COUNTER.text(shown) <= 1500
    assert all(f"file_{i}.py" in shown for i in range(100))


@given(st.lists(st.text(min_size=1, max_size=40), max_size=30), st.integers(0, 300))
def test_R10_rendering_never_passes_its_budget(names: list[str], budget: int) -> None:
    made = done(*(("Write", {"file_path": name}, "ok") for name in names))
    assert COUNTER.text(made.render(budget, COUNTER)) <= budget


@given(st.text(alphabet="ab '\"\\$()`|&;<>\n#={}-EOF", max_size=200))
def test_R10_any_command_line_is_read(line: str) -> None:
    parse(line)
    shell_actions(line)


@pytest.mark.parametrize(
    "line", ["<<a " * 50_000, "$(" * 100_000, "'" * 99_999, "a;" * 200_000, "\\" * 200_000, "x" * 1_000_000]
)
def test_R10_hostile_command_lines_are_bounded(line: str) -> None:
    import time

    started = time.process_time()
    ran(line)
    assert time.process_time() - started < 3
