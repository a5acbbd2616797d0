"""Which files a tool call touches (A16), and which of them pi lists (B12)."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from refold import messages as m
from refold.entries import Files
from refold.facts.tools import Action, actions, pi_files
from refold.messages import Message
from tests.data import shared
from tests.facts import readers
from tests.facts.steps import done, ran
from tests.timing import JUDGED

# ── pi (B12) ────────────────────────────────────────────────────────────────────────────────────


def pi_entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()][1:]


@pytest.mark.data
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


@pytest.mark.data
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


def _carried(branch: dict[str, Any], by_id: dict[str, Any]) -> Files:
    details = [e.get("details") or {} for e in map(by_id.__getitem__, branch["entries"]) if e["type"] == "branch_summary" and not e.get("fromHook")]  # fmt: skip
    return Files(
        read=tuple(f for d in details for f in d.get("readFiles", ())),
        modified=tuple(f for d in details for f in d.get("modifiedFiles", ())),
    )


def _messages(ids: list[str], by_id: dict[str, Any]) -> list[Message]:
    raw = [by_id[i]["message"] for i in ids if i in by_id and by_id[i]["type"] == "message"]
    return [message for message in map(readers.pi_message, raw) if message]


def _previous(case: dict[str, Any], by_id: dict[str, Any]) -> Files | None:
    path = [by_id[i] for i in case["out"]["path"]]
    last = next((e for e in reversed(path) if e["type"] == "compaction"), None)
    details = (last or {}).get("details") or {}
    if not last or last.get("fromHook"):
        return None
    return Files(read=tuple(details.get("readFiles", ())), modified=tuple(details.get("modifiedFiles", ())))


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
        ("functions.Write", {"file_path": "a.py", "content": ""}, "modified"),
        ("write_to_file", {"path": "a.py", "content": ""}, "modified"),
        ("write_file", {"file_path": "a.py", "content": ""}, "modified"),
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
    call = m.call("c", "frobnicate", path="a.py")
    assert actions(call) == ()
    assert actions(call, names={"frobnicate": "edit"}) == (Action("modify", "a.py"),)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sed -n '1,200p' 'app/(x)/a.ts'", ["app/(x)/a.ts"]),
        ("cd src && cat a.py b.py | head -3", ["src/a.py", "src/b.py"]),
        ("nl -ba a.py; head -50 b.py; tail -n 20 c.py", ["a.py", "b.py", "c.py"]),
        ("cat *.py; cat $FILE; cat `ls`", []),
        ("sed s/a/b/ x.c", []),
        ("echo 'a > b' && grep '>' file", []),
        ("diff <(ls a) <(ls b)", []),
    ],
)
def test_R10_files_that_a_command_line_prints(command: str, expected: list[str]) -> None:
    assert sorted(ran(command, "text").files().read) == expected


@pytest.mark.parametrize(
    ("command", "output", "read"),
    [
        ("cat a.json", "", False),
        ("cat a.json", "<shellId: 21 completed with exit code 0>", False),
        ("cat a.json", '{"output":"","metadata":{"exit_code":0}}', False),
        ("cat a.json", '{"output":"{}","metadata":{"exit_code":0}}', True),
        ('cat a.json 2>/dev/null | head -100 || echo "not found"', "", False),
        ('cat a.json 2>/dev/null | head -100 || echo "not found"', "not found", False),
        ('cat a.json 2>/dev/null | head -100 || echo "not found"', '{"a": 1}', False),
        ('cat a.json 2>/dev/null; echo "status: $?"', "status: 1", False),
        ('cat a.json 2>/dev/null; echo "status: $?"', '{"a": 1}\nstatus: 0', False),
        ("cat a.json || echo none", "cat: a.json: No such file or directory\nnone", False),
        ("cat a.json | head -3", "cat: a.json: No such file or directory", False),
        ("cat a.json 2>/dev/null; ls", "src", False),
        ("cat a.json 2>/dev/null | wc -l", "0", False),
        ("ls && cat a.json 2>/dev/null", "src\n{}\nExit code: 0", False),
        ("ls && cat a.json 2>/dev/null", "src", False),
        ("cat a.json 2>/dev/null; ls", "src\nExit code: 0", False),
        ("(cat a.json; ls) 2>/dev/null", "src", False),
        ("cat a.json; ls src 2>/dev/null", '{"a": 1}\nsrc', False),
        ("cat a.json && ls src", '{"a": 1}\nsrc', True),
    ],
)
def test_R10_a_command_line_read_what_its_output_proves(command: str, output: str, read: bool) -> None:
    assert ran(command, output).files().read == (("a.json",) if read else ())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("apply_patch <<'P'\n*** Begin Patch\n*** Add File: n.ts\n+x\n*** Delete File: o.ts\n*** Update File: u.ts\n*** Move to: v.ts\n*** End Patch\nP", {"created": ["v.ts"], "modified": ["n.ts"], "deleted": ["o.ts", "u.ts"]}),
        ("echo hi > out.txt; sed -i 's/a/b/' x.c; touch a.py; cp a.py d/; mv a b; rm -rf a b", {}),
        ("cat > f.py <<'EOF'\nrm -rf /\nEOF\npython f.py", {}),
        ("python - <<'E'\nopen('o.txt', 'w').write('x')\nE", {}),
        ("git checkout -- a.py && git mv a.py b.py", {}),
        ("curl -sL https://x.org/a -o a.tgz | tee b.log", {}),
    ],
)  # fmt: skip
def test_R10_of_command_lines_only_patches_change_files(command: str, expected: dict[str, list[str]]) -> None:
    files = ran(command).files()
    for kind in ("created", "modified", "deleted"):
        assert sorted(getattr(files, kind)) == expected.get(kind, []), kind


HOSTILE = ["<<a " * 50_000, "$(" * 100_000, "'" * 99_999, "a;" * 200_000, "\\" * 200_000, "x" * 1_000_000]
HOSTILE += [
    "a= " * 30_000,
    "rm " + "a/" * 400 + " b" * 20_000,
    "rm " + "{a,b}" * 10_000,
    "cat " + "../" * 10_000,
]
HOSTILE += ["--- " + "a" * 50_000, "*** Update File: a" + " " * 50_000 + "b", "edit 1:2\nx\n" * 5_000]


@pytest.mark.sample(6)
@pytest.mark.parametrize("line", HOSTILE, ids=range(len(HOSTILE)))
def test_R10_hostile_command_lines_are_bounded(line: str) -> None:
    started = time.process_time()
    ran(line)
    ran(f"apply_patch <<'E'\n{line}\nE")
    took = time.process_time() - started
    assert not JUDGED or took < 3
