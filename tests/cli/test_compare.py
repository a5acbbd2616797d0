"""`refold compare` and `refold demo`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold import presets
from refold.cli import demo, main
from refold.registry.sessions import save
from tests.compare.hostile import hostile_session
from tests.compare.sessions import agent_session

COLUMNS = {
    "file", "preset", "budget", "passes", "tokens", "fits", "constraints", "artifacts", "identifiers",
    "future_references", "whole", "clipped", "lines", "gone", "forms", "cost", "seconds", "requests", "error", "why", "money", "asked",
    "log_tokens", "counts", "paths", "calls", "numbers",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "agent.jsonl"
    save(agent_session(), path)
    return str(path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["compare", *arguments])


def test_json_has_the_documented_columns(file: str) -> None:
    result = run(file, "--budgets", "3k,40%", "--passes", "1,2", "--presets", "refold,pi", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert len(rows) == 8
    for row in rows:
        assert row.keys() == COLUMNS
        assert row["file"] == file and isinstance(row["tokens"], int) and isinstance(row["fits"], bool)
        assert row["money"]["no_compaction"] > 0
    assert {row["budget"] for row in rows if row["asked"] == "3k"} == {3_000}


def test_the_table_has_all_presets_and_says_why_something_does_not_fit(file: str) -> None:
    result = run(file, "--budgets", "3k")
    assert result.exit_code == 0, result.output
    for name in presets.NAMES:
        assert name in result.output
    assert "without folding" in result.output and "to preserve: " in result.output


def test_a_model_that_did_not_answer_is_said_in_the_table_and_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    sample = str(demo.unpack(tmp_path / "sample.jsonl"))
    given = sample, "--budgets", "10k", "--presets", "refold", "--model", "openai:gpt-5"
    printed, [row] = run(*given).output, json.loads(run(*given, "--json").stdout)["rows"]
    assert row["requests"] and row["fits"]
    assert re.search("refold: strateg.* summary.* failed: ", printed)
    assert row["why"] == row["error"] and row["error"] in printed


def test_A12_both_variants_of_augment_are_rows(file: str) -> None:
    from refold.cli.compare import _presets  # pyright: ignore[reportPrivateUsage]

    nested = "augment:carry_previous_summary=true"
    assert nested in _presets("all")
    rows = json.loads(run(file, "--budgets", "3k", "--presets", f"augment,{nested}", "--json").stdout)["rows"]
    assert [row["preset"] for row in rows] == ["augment", nested]
    assert all(row["tokens"] for row in rows)
    assert run(file, "--presets", "augment:colour=blue", "--json").exit_code == 2


def test_E15_compare_honours_the_environment(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []
    for kept in ("10", "0"):
        monkeypatch.setenv("REFOLD_LAYERED_KEEP_ROUNDS", kept)
        rows += json.loads(run(file, "--budgets", "3k", "--presets", "layered", "--json").stdout)["rows"]
    assert rows[0]["tokens"] > rows[1]["tokens"]


def test_html_is_written_where_asked(file: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    result = run(file, "--budgets", "3k", "--presets", "refold", "--html", str(target))
    assert result.exit_code == 0, result.output
    assert target.read_text("utf-8").startswith("<!doctype html>")
    assert target.name in result.output.replace("\n", "")


def test_a_report_is_not_written_over_without_force(file: str, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_text("mine", "utf-8")
    asked = (file, "--budgets", "3k", "--presets", "refold", "-o", str(target))
    result = run(*asked)
    assert result.exit_code == 2 and "--force" in result.output and target.read_text("utf-8") == "mine"
    assert run(*asked, "--force").exit_code == 0
    assert target.read_text("utf-8").startswith("<!doctype html>")


def test_the_tables_end_with_a_verdict_in_words(file: str) -> None:
    result = run(file, "--budgets", "3k", "--presets", "refold,pi")
    assert (
        "At 3k tokens, `refold` and `pi` keep the same amount: 29 of the 29 words you typed" in result.output
    )


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "[red]host\x1bile.jsonl"
    save(hostile_session(), path)
    result = run(str(path), "--budgets", "2k")
    assert result.exit_code == 0, result.output
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", result.output)
    assert "[red]host" in result.output.replace("\n", "")


def test_one_bad_file_does_not_stop_the_others(file: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    result = run(str(bad), file, "--budgets", "3k", "--presets", "refold", "--json")
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["rows"]
    assert first["error"] and first["tokens"] is None
    assert second["fits"] is True


def test_exit_code_is_1_where_nothing_could_be_compared(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.jsonl"), "--json")
    assert result.exit_code == 1
    rows = json.loads(result.stdout)["rows"]
    assert rows and all(row["error"] for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--budgets", "many"),
        ("--budgets", ","),
        ("--passes", "x"),
        ("--passes", "0"),
        ("--presets", "nope"),
        ("--presets", ""),
        ("--prices", "nope"),
    ],
)
def test_wrong_calls_are_usage_errors_in_one_sentence(file: str, arguments: tuple[str, ...]) -> None:
    result = run(file, *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.slow
def test_the_demo_folds_the_sample_and_says_where_the_report_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(demo.command, ["--out", str(out)])
    assert result.exit_code == 0, result.output
    flat = result.output.replace("\n", "")
    assert str(out / "report.html") in flat
    assert "never touch the files in migrations/" in result.output.replace("\n", " ")
    assert "提交信息必须用英文写" in result.output
    assert "changed harbour/reminders/job.py" in result.output
    bars = re.findall(r"(?m)^(before|after) +(█+) +([\d,]+) tokens$", result.output)
    (_, before, large), (_, after, small) = bars
    large, small = (int(figure.replace(",", "")) for figure in (large, small))
    assert abs(len(after) / len(before) - small / large) < 0.02
    forms = re.findall(r"(?m)^  (whole|clipped|as lines|not shown) +(\d+) messages of", result.output)
    assert [name for name, _ in forms] == ["whole", "clipped", "as lines", "not shown"]
    assert sum(int(count) for _, count in forms) == len(refold.load(out / "sample.jsonl").path)
    assert result.output.rindex("report.html") > result.output.rindex("All presets")
    assert (out / "report.html").stat().st_size > 50_000
    # Each of the commands that come next can be typed as it stands.
    *_, look, fold = result.output.splitlines()
    for line in (look, fold):
        program, *words = line.replace("YOUR-SESSION.jsonl", str(out / "sample.jsonl")).split()
        assert program == "refold" or Path(program).exists()
        words = [str(out / word) if word == "folded.jsonl" else word for word in words]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output


def test_the_sample_is_of_realistic_size_and_what_its_script_makes(tmp_path: Path) -> None:
    from benchmarks.make_sample import make

    from refold import tokens

    session = refold.load(demo.unpack(tmp_path / "sample.jsonl"))
    messages = [entry.message for entry in session.path]  # type: ignore[union-attr]
    assert messages == [entry.message for entry in make()]
    counter = tokens.get("o200k")
    assert 150 <= len(messages) <= 300
    assert sum(counter.message(message) for message in messages) > 100_000
