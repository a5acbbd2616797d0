"""E4: what history keeps of a tool result, by kind of tool; as an envelope and as plain text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold.messages import Call, Result
from refold.shrink import RULES, Data, Limits, Rule, Shrinking, kind_of
from tests.data import all_transcripts
from tests.facts import readers
from tests.timing import within


def call(tool: str, **arguments: Any) -> Call:
    return m.call("c1", tool, arguments)


def shrink(
    call: Call, result: Result, limits: Limits | None = None, rules: dict[str, Rule] | None = None
) -> Result | None:
    return Shrinking(call, result, limits or Limits(), (rules or {}).get(kind_of(call))).at_once()


def enveloped(tool: Call, data: Data, limits: Limits | None = None, **more: Any) -> Data:
    """The shrunk envelope, parsed."""
    full = {
        "status": "success",
        "data": data,
        "text": "long text " * 50,
        "stats": {"time_ms": 3},
        "context": {"cwd": "."},
    }
    small = shrink(tool, m.result("c1", json.dumps(full | more)), limits)
    assert small is not None
    return json.loads(small.text)


def plain(tool: Call, text: str, limits: Limits | None = None) -> str:
    small = shrink(tool, m.result("c1", text), limits)
    assert small is not None
    return small.text


def rows(count: int, prefix: str = "line ") -> str:
    return "\n".join(f"{prefix}{index}" for index in range(1, count + 1))


def test_E4_text_stats_and_context_are_dropped_status_and_flags_survive() -> None:
    kept = enveloped(
        call("LS", path="src"), {"entries": [], "truncated": True, "applied": False, "fallback": "x"}
    )
    assert kept.keys() == {"status", "data"}
    assert kept["status"] == "success"
    assert (kept["data"]["truncated"], kept["data"]["applied"], kept["data"]["fallback"]) == (
        True,
        False,
        "x",
    )


def test_E4_errors_keep_code_and_message_in_full() -> None:
    message = "no such file: " + "x" * 5000
    kept = enveloped(
        call("Read", path="a"),
        {},
        status="error",
        error={"code": "NOT_FOUND", "message": message, "trace": "y" * 900},
    )
    assert kept == {"status": "error", "error": {"code": "NOT_FOUND", "message": message}}


def test_E4_ls_counts_and_first_ten_entries() -> None:
    entries = [{"path": f"f{i}", "type": "dir" if i % 3 == 0 else "file"} for i in range(30)]
    kept = enveloped(call("LS", path="src"), {"entries": entries})["data"]
    assert kept["entries"].splitlines()[:3] == ["src: 20 files, 10 folders", "f0/", "f1"]
    assert kept["entries"].splitlines()[10:] == ["f9/", "… (20 more)"]
    text = plain(
        call("list_directory", path="/x"),
        "\n".join(f"entry_{i:03d}{'/' if i < 5 else ''}" for i in range(40)),
    )
    assert text.splitlines()[0] == "/x: 35 files, 5 folders"
    assert text.splitlines()[-1] == "… (30 more)"


def test_E4_glob_pattern_hits_and_first_ten() -> None:
    kept = enveloped(call("Glob", pattern="**/*.py"), {"paths": [f"{i}.py" for i in range(33)]})["data"]
    assert kept["paths"].startswith("**/*.py: 33 hits\n0.py\n")
    assert kept["paths"].endswith("\n9.py\n… (23 more)")
    text = plain(call("glob", pattern="*.md"), rows(50, "docs/page-"))
    assert text.startswith("*.md: 50 hits\ndocs/page-1\n")
    assert len(text.splitlines()) == 12


def test_E4_grep_matches_files_and_first_five() -> None:
    matches = [{"file": f"f{i % 4}.py", "line": i, "text": "x = 1"} for i in range(20)]
    kept = enveloped(call("Grep", pattern="x"), {"matches": matches})["data"]
    assert kept["matches"].startswith("x: 20 matches in 4 files\nf0.py:0: x = 1\n")
    assert kept["matches"].endswith("\nf0.py:4: x = 1\n… (15 more)")
    text = plain(
        call("grep_search", query="todo"), "\n".join(f"src/f{i % 3}.py:{i}: # todo {i}" for i in range(1, 40))
    )
    assert text.startswith("todo: 39 matches in 3 files\nsrc/f1.py:1: # todo 1\n")
    assert len(text.splitlines()) == 7


def test_E4_read_keeps_the_piece_with_line_numbers_at_most_500() -> None:
    kept = enveloped(
        call("Read", path="a.py", offset=101), {"content": rows(700, "some_name = "), "mtime": 17.5}
    )["data"]
    assert kept["content"].splitlines()[0] == "101\tsome_name = 1"
    assert kept["content"].splitlines()[499:] == ["600\tsome_name = 500", "… (200 more lines were read)"]
    assert kept["mtime"] == 17.5
    text = plain(call("read_file", path="a.py"), "\n".join(f"{i:6}\tx = {i}" for i in range(1, 801)))
    assert text.splitlines()[0] == "     1\tx = 1"
    assert text.splitlines()[-1] == "… (300 more lines were read)"


def test_E4_mtime_survives_wherever_it_is() -> None:
    full = {
        "status": "success",
        "data": {"content": "x"},
        "text": "t" * 99,
        "stats": {"mtime": 5},
        "context": {},
    }
    small = shrink(call("Read", path="a"), m.result("c1", json.dumps(full)))
    assert small is not None
    assert json.loads(small.text)["data"]["mtime"] == 5


def test_E4_a_short_read_stays_as_it_is() -> None:
    assert shrink(call("Read", path="a"), m.result("c1", rows(400))) is None


def diff(changed: int) -> str:
    return f"--- a/x\n+++ b/x\n@@ -10,3 +10,{changed} @@\n" + rows(changed, "+new ") + "\n"


def test_E4_edit_fragment_of_thirty_lines_and_long_diffs_as_counts() -> None:
    kept = enveloped(call("Edit", path="x"), {"applied": True, "diff": diff(60)})["data"]
    assert kept["diff"].splitlines()[:2] == ["x: +60 -0 lines, at 10-69", "--- a/x"]
    assert (kept["applied"], len(kept["diff"].splitlines())) == (True, 32)
    kept = enveloped(call("MultiEdit", path="x"), {"applied": True, "diff": diff(150)})["data"]
    assert kept["diff"] == "x: +150 -0 lines, at 10-159\n--- a/x"
    text = plain(call("edit_file", target_file="x"), "Applied.\n" + diff(150))
    assert text == "x: +150 -0 lines, at 10-159\nApplied."
    assert len(plain(call("edit", path="x"), rows(90)).splitlines()) == 31


def test_E4_write_size_and_first_thirty_lines() -> None:
    tool = call("Write", path="a.md", content="x" * 77)
    kept = enveloped(tool, {"applied": True, "operation": "create", "diff_preview": rows(90)})["data"]
    assert kept["operation"] == "create"
    assert kept["diff_preview"].startswith("a.md: 77 bytes\nline 1\n")
    assert len(kept["diff_preview"].splitlines()) == 32


def test_E4_bash_edges_of_stdout_and_end_of_stderr() -> None:
    data = {
        "command": "make",
        "exit_code": 2,
        "stdout": rows(100),
        "stderr": rows(50, "warn "),
        "truncated": False,
    }
    kept = enveloped(call("Bash", command="make"), data)["data"]
    assert (kept["command"], kept["exit_code"], kept["truncated"]) == ("make", 2, False)
    assert kept["stdout"].splitlines() == [
        "$ make",
        "(100 lines)",
        *(f"line {i}" for i in range(1, 6)),
        "… (90 lines)",
        *(f"line {i}" for i in range(96, 101)),
        "stderr:",
        "… (30 lines)",
        *(f"warn {i}" for i in range(31, 51)),
    ]
    text = plain(
        call("execute_bash", command="make"), rows(100) + "\n[The command completed with exit code 1.]"
    )
    assert text.splitlines()[:3] == ["$ make", "(101 lines)", "line 1"]
    assert text.splitlines()[-1] == "[The command completed with exit code 1.]"


def test_E4_codex_results_are_envelopes_too() -> None:
    output = json.dumps({"output": rows(80), "metadata": {"exit_code": 3, "duration_seconds": 0.1}})
    small = shrink(call("shell", command=["bash", "-lc", "make all"]), m.result("c1", output))
    assert small is not None
    kept = json.loads(small.text)["data"]
    assert kept["exit_code"] == 3
    assert kept["output"].startswith("$ make all\n(80 lines)\nline 1\n")


def test_E4_todo_keeps_the_recap_only() -> None:
    todos = [
        {"content": "a", "status": "completed"},
        {"content": "b", "status": "in_progress"},
        {"content": "c", "status": "pending"},
    ]
    assert enveloped(call("TodoWrite", todos=todos), {"todos": todos, "recap": "[1/3] b"})["data"] == {
        "recap": "[1/3] b"
    }
    text = plain(call("TodoWrite", todos=todos), "Todos have been modified successfully. " * 5)
    assert text == "[1/3] In progress: b. Pending: c."


def test_E4_anything_else_is_cut_in_the_middle() -> None:
    text = plain(call("WebFetch", url="x"), "a" * 5000 + "END")
    assert len(text) <= 2000
    assert text.startswith("aaa")
    assert text.endswith("END")
    kept = enveloped(call("Frobnicate"), {"deep": ["x" * 100] * 100})["data"]
    assert len(kept["deep"]) <= 2000


def test_E4_limits_are_settable_and_rules_replaceable() -> None:
    assert len(plain(call("Glob", pattern="*"), rows(50), Limits(glob_hits=3)).splitlines()) == 5

    def loud(call: Call, text: str, limits: Limits) -> str:
        return text.upper()[:5]

    small = shrink(call("Glob", pattern="*"), m.result("c1", rows(50)), rules={"glob": loud})
    assert small is not None
    assert small.text == "LINE "


def result_of(tool: Call, text: str) -> str:
    small = shrink(tool, m.result("c1", text))
    assert small is not None
    return small.text


@pytest.mark.parametrize("more", [{}, {"request_id": "r1"}])
@pytest.mark.parametrize("space", ["", "\n  "])
def test_E4_an_envelope_is_known_whatever_stands_beside_its_data(more: Data, space: str) -> None:
    names = [f"a-file-of-some-length-{i}.py" for i in range(955)] + [f"folder{i}/" for i in range(5)]
    for data in ({"entries": names}, names):
        value = {"status": "ok", "data": data, **more}
        kept = json.loads(result_of(call("LS", path="src"), space + json.dumps(value)))
        shown = kept.pop("data")
        assert "955" in str(shown)
        assert kept == {"status": "ok", **more}
    assert result_of(call("LS", path="src"), space + json.dumps(names)).count("955 files, 5 folders") == 1


@pytest.mark.parametrize("listed", [False, True])
def test_E4_data_may_be_a_text_or_a_list(listed: bool) -> None:
    lines = [f"x{i} = {i}" for i in range(800)]
    text = result_of(
        call("Read", path="a.py"), json.dumps({"status": "ok", "data": lines if listed else "\n".join(lines)})
    )
    kept = json.loads(text)["data"]
    assert "x499 = 499" in kept
    assert "x500 = 500" not in kept
    names = [{"name": f"n{i}", "type": "file"} for i in range(960)]
    assert result_of(call("LS", path="."), json.dumps(names)).startswith(".: 960 files, 0 folders\nn0\n")


@pytest.mark.parametrize("ranges", ["10-20", ["10-20", "40-41"], [[10, 20]]])
def test_E4_ranges_of_an_edit_are_kept_in_any_form(ranges: Any) -> None:
    kept = enveloped(call("MultiEdit", path="a.py"), {"range": ranges, "ranges": ranges})
    assert (kept["data"]["range"], kept["data"]["ranges"]) == (ranges, ranges)


@pytest.mark.parametrize("name", ["range", "changed_range", "line_ranges", "changedRanges"])
@pytest.mark.parametrize("value", ["10-20", [10, 20], [{"start": 10, "end": 20}]])
@pytest.mark.parametrize("lines", [40, 160])
def test_E4_ranges_are_kept_whatever_they_are_called(name: str, value: Any, lines: int) -> None:
    diff = "\n".join(f"+line {number}" for number in range(lines))
    envelope = {"status": "ok", "data": {"path": "a.py", name: value, "diff": diff}}
    small = shrink(call("Edit", path="a.py"), m.result("c", json.dumps(envelope)))
    assert small is not None
    kept = json.loads(small.text)["data"]
    assert kept[name] == value
    assert kept["diff"].startswith(f"a.py: +{lines} -0 lines\n+line 0")
    assert ("+line 29" in kept["diff"]) is (lines <= 100)


def test_E4_flags_survive_in_every_rule() -> None:
    kept = enveloped(call("Frobnicate"), {"deep": ["x" * 100] * 100, "truncated": True})["data"]
    assert kept["truncated"] is True


def test_E4_the_tools_own_totals_are_kept() -> None:
    hits = [{"file": f"f{i}.py", "line": i, "text": "x"} for i in range(6)]
    grep = call("Grep", pattern="x")
    kept = enveloped(grep, {"matches": hits, "total_matches": 912})["data"]
    assert kept["matches"].startswith("x: 912 matches in at least 6 files\n")
    kept = enveloped(grep, {"matches": hits}, stats={"total_matches": 912, "total_files": 40})["data"]
    assert kept["matches"].startswith("x: 912 matches in at least 6 files\n")
    assert kept["total_files"] == 40
    kept = enveloped(call("Glob", pattern="*"), {"paths": ["a_module.py"] * 12, "total": 300})["data"]
    assert kept["paths"].startswith("*: 300 hits\n")


def test_E4_a_heading_is_no_hit() -> None:
    text = plain(call("Glob", pattern="*"), "Found 20 files\n" + rows(20, "src/f"))
    assert text.startswith("*: 20 hits\nsrc/f1")
    listing = "Found 912 files\n" + rows(30, "src/f") + "\n(Results are truncated.)"
    text = plain(call("Grep", pattern="x"), listing)
    assert text.startswith("x: 912 matches\nsrc/f1")
    assert text.endswith("… (907 more)\n(Results are truncated.)")
    matches = "Found 912 matches\n" + "\n".join(f"src/f{n}.py:{n}: x" for n in range(30))
    assert plain(call("Grep", pattern="x"), matches).startswith("x: 912 matches in at least 30 files\n")
    names = "\n".join(f"-rw-r--r-- 1 u g 0 Jan 1 00:00 f{n}.py" for n in range(30))
    text = plain(call("LS", path="src"), f"total 4096\n{names}")  # blocks of the disk
    assert text.startswith("src: 30 files, 0 folders\n-rw")
    assert text.endswith("… (20 more)")
    assert plain(call("LS", path="app"), rows(30, "page") + "\n(auth)").startswith("app: 31 files")


def test_E4_an_editor_is_known_by_its_command() -> None:
    assert shrink(call("str_replace_editor", command="view", path="a"), m.result("c1", rows(400))) is None
    assert shrink(call("frobnicate"), m.result("c1", rows(400))) is not None


def test_E4_pictures_and_identity_stay() -> None:
    picture = m.image("aGk=")
    result = Result("c9", (m.Text("x" * 9000), picture), name="WebFetch", is_error=True)
    small = shrink(call("WebFetch"), result)
    assert small is not None
    assert (small.call_id, small.name, small.is_error, small.content[1]) == ("c9", "WebFetch", True, picture)


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda p: f"{p.parent.name}/{p.name[:30]}")
def test_E4_real_results_only_get_shorter_and_once(path: Path) -> None:
    before = after = 0
    for conversation in readers.read(path)[:10]:
        calls = {c.id: c for message in conversation for c in message.calls}
        for result in conversation:
            if isinstance(result, Result) and result.call_id in calls:
                small = shrink(calls[result.call_id], result)
                before += len(result.text)
                after += len((small or result).text)
                if small:
                    again = shrink(calls[result.call_id], small)
                    assert again is None or len(again.text) < len(small.text)
    assert after <= before


@given(
    st.sampled_from(["LS", "Glob", "Grep", "Read", "Edit", "Write", "Bash", "TodoWrite", "X", "str_replace_editor", "apply_patch"]),
    st.one_of(
        st.text(max_size=3000),
        st.recursive(st.none() | st.integers() | st.text(max_size=200), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["content", "entries", "matches", "stdout", "todos", "diff", "path"]), inner), max_leaves=20).map(
            lambda data: json.dumps({"status": "success", "data": data if isinstance(data, dict) else {"content": data}, "text": "t" * 2000})
        ),
    ),
)  # fmt: skip
def test_E4_any_result_can_be_shrunk(tool: str, text: str) -> None:
    small = shrink(call(tool), m.result("c1", text))
    assert small is None or len(small.text) < len(text)


@pytest.mark.timing
@pytest.mark.parametrize("tool", sorted(RULES))
def test_E4_hostile_results_are_bounded(tool: str) -> None:
    name = {"ls": "LS", "editor": "str_replace_editor", "patch": "apply_patch", "other": "x"}.get(tool, tool)
    for text in (
        "x" * 1_000_000,
        "\n" * 1_000_000,
        "a:1:" * 250_000,
        "@@ -1 +1 @@\n" * 80_000,
        "{" * 200_000,
        "stderr: " * 100_000,
    ):
        with within(3):
            small = shrink(call(name), m.result("c1", text))
        assert small is not None
        assert len(small.text) < 300_000
