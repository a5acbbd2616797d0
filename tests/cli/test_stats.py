"""`refold stats` and what it computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold import entries as e
from refold import messages as m
from refold import tokens
from refold.cli import main
from refold.compare.stats import Stats, stats
from refold.session import Session
from tests.data import all_transcripts, shared

SESSION = "pi/large-session.jsonl"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["stats", *arguments])


def as_json(path: Path) -> dict[str, Any]:
    result = run(str(path), "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def count(*said: m.Message | e.Note, **options: Any) -> Stats:
    session = Session()
    for one in said:
        session.append(one)
    return stats(session, tokens.get("bytes4"), **options)


def read(id: str, path: str, out: str = "x" * 400) -> tuple[m.Message, m.Message]:
    return m.assistant("", m.call(id, "Read", path=path)), m.result(id, out)


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda path: f"{path.parent.name}-{path.name[-20:]}")
def test_parts_add_up_on_every_real_transcript(path: Path) -> None:
    found = as_json(path)
    assert found["tokens"] == sum(found["by_role"].values()) == sum(found["by_part"].values()) > 0
    assert found["turns"][-1]["total"] == found["tokens"] == sum(turn["tokens"] for turn in found["turns"])
    assert sum(turn["results"] for turn in found["turns"]) == found["by_part"].get("results", 0)
    assert sum(tool["result_tokens"] for tool in found["tools"]) == found["by_part"].get("results", 0)
    assert sum(turn["calls"] for turn in found["turns"]) == sum(tool["calls"] for tool in found["tools"])
    assert found["by_tool"] == {
        tool["name"]: tool["call_tokens"] + tool["result_tokens"] for tool in found["tools"]
    }
    sizes = [big["tokens"] for big in found["largest"]]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) <= 10


@pytest.mark.data
def test_usage_is_summed_over_the_path() -> None:
    name = "rollout-2025-09-24T19-22-20-01997e76-d124-7592-9cac-2ec05abbca08.jsonl"
    found = as_json(shared(f"codex/{name}"))
    used = found["usage"]
    assert (used["requests"], used["output"]) == (132, 99678)
    assert used["input"] + used["cache_read"] + used["cache_write"] == 7494343
    assert found["turns"][-1]["prompt"] > found["turns"][1]["prompt"] > 0


@pytest.mark.data
def test_folded_conversations_say_what_the_model_sees() -> None:
    found = as_json(shared("pi/before-compaction.jsonl"))
    assert 0 < found["view"] < found["tokens"]


def test_a_file_read_again_unchanged_is_repeated() -> None:
    found = count(
        m.user("go"), *read("1", "a.py"), *read("2", "b.py"), *read("3", "a.py"), *read("4", "a.py")
    )
    [again] = found.repeated
    assert (again.path, again.times) == ("a.py", 3)
    assert len(again.entries) == 3
    one = count(m.user("go"), *read("1", "a.py"))
    assert again.tokens == pytest.approx(2 * one.tools[0].tokens, abs=4)
    assert found.suggestions[0].code == "repeated-reads"


def test_a_file_that_changed_or_another_part_of_it_is_not_repeated() -> None:
    edit = (
        m.assistant("", m.call("e", "Edit", path="a.py", old_string="x", new_string="y")),
        m.result("e", "ok"),
    )
    part = m.assistant("", m.call("p", "Read", path="a.py", offset=100)), m.result("p", "y" * 400)
    found = count(m.user("go"), *read("1", "a.py"), *part, *edit, *read("2", "a.py"))
    assert found.repeated == ()
    [file] = found.files
    assert (file.path, file.reads, file.changes) == ("a.py", 3, 1)
    assert found.by_file == {"a.py": file.tokens}


def test_shell_commands_are_read_for_their_files() -> None:
    call = m.assistant("", m.call("1", "shell", command=["bash", "-lc", "sed -n 1,9p src/a.py"]))
    found = count(m.user("go"), call, m.result("1", "x" * 400))
    assert list(found.by_file) == ["src/a.py"]
    assert found.largest[0].subject == "sed -n 1,9p src/a.py"


def test_errors_thinking_and_notes_are_told_apart() -> None:
    note = e.Note(id="n", content=(m.Text("reminder " * 20),))
    thought = m.Assistant((m.Thinking("hm " * 100), m.Text("ok")))
    failed = m.assistant("", m.call("1", "Bash", command="false")), m.result("1", "no", is_error=True)
    session = Session([note])
    for one in (m.system("s" * 400), m.user("go"), thought, *failed):
        session.append(one)
    found = stats(session, tokens.get("bytes4"))
    assert set(found.by_role) == {"note", "system", "user", "assistant", "tool"}
    assert found.by_part["thinking"] == tokens.get("bytes4").text("hm " * 100)
    assert found.tools[0].errors == 1
    assert [turn.turn for turn in found.turns] == [0, 1]


def test_nothing_said_nothing_counted() -> None:
    found = count()
    assert (found.tokens, found.turns, found.usage, found.suggestions) == (0, (), None, ())


def test_large_results_and_a_cold_cache_are_suggested() -> None:
    session = Session()
    session.append(m.user("go"))
    for number in range(6):
        session.append(
            m.assistant("", m.call(str(number), "Bash", command="make")), usage=m.Usage(10_000, 5, 100)
        )
        session.append(m.result(str(number), "word " * 4_000))
    codes = [one.code for one in stats(session, tokens.get("bytes4")).suggestions]
    assert codes == ["cold-cache", "large-results"]


def test_terminal_output_has_bars_and_no_control_characters(tmp_path: Path) -> None:
    session = [
        {"role": "user", "content": "hello \x1b[31mred"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "ba\x1b[2Jsh", "arguments": '{"command":"ls"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x" * 9000},
    ]  # fmt: skip
    path = tmp_path / "list.json"
    path.write_text(json.dumps(session))
    result = run(str(path))
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    for part in ("by role", "by tool", "growth by turn", "largest results", "█"):
        assert part in result.output


@pytest.mark.data
def test_unknown_counter_and_missing_file_are_said_in_one_sentence() -> None:
    assert run(str(shared(SESSION)), "--counter", "nope").exit_code == 2
    missing = run("no-such-file.jsonl")
    assert missing.exit_code == 1 and "Traceback" not in missing.output


def test_stats_show_and_the_engine_count_the_view_in_one_way(tmp_path: Path) -> None:
    """What stands in for a result that never came is sent, so it counts."""
    file = tmp_path / "waiting.jsonl"
    session = refold.open(f"jsonl:{file}")
    session.append(m.user("Look."))
    session.append(m.assistant("", m.call("a", "Read", path="a.py"), m.call("b", "Read", path="b.py")))
    session.append(m.result("a", "text"))
    session.append(m.user("Go on."))
    seen = refold.Engine("refold").view(session).tokens
    told = {
        name: json.loads(CliRunner().invoke(main, [name, str(file), "--json"]).output)
        for name in ("stats", "show")
    }
    assert told["stats"]["view"] == told["show"]["tokens"] == seen
    assert told["stats"]["added"] == seen - told["stats"]["tokens"] > 0
