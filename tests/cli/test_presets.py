"""`refold presets`, and presets as other commands take them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import presets
from refold.cli import main
from refold.compaction.requests import load

GOOD = {
    "trigger_on_history_size_chars": 10_000,
    "history_tail_size_chars_to_exclude": 3_000,
    "prompt": load("augment_summary"),
}


@pytest.fixture(autouse=True)
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFOLD_CONFIG", str(tmp_path / "none.toml"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def as_json(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    told: dict[str, Any] = json.loads(result.output)
    fits = arguments[0] != "compact" or told["fits"]
    assert result.exit_code == (0 if fits else 1), result.output[-400:]
    return told


def written(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def chat(path: Path, sizes: tuple[int, ...]) -> str:
    messages = [{"role": r, "content": "x" * (size // 2)} for size in sizes for r in ("user", "assistant")]
    path.write_text(json.dumps(messages))
    return str(path)


def test_all_presets_and_every_setting_with_default_meaning_and_origin() -> None:
    rows = as_json("presets")["presets"]
    assert [row["name"] for row in rows] == list(presets.NAMES)
    for row in rows:
        assert row["idea"]
        for setting in row["settings"]:
            assert setting["meaning"], setting
            assert "default" in setting
    for name in presets.NAMES:
        assert run("presets", name).exit_code == 0


def test_params_show_their_values(tmp_path: Path) -> None:
    file = written(tmp_path / "p.json", {**GOOD, "colour": "blue"})
    [row] = as_json("presets", "augment", "--params", file)["presets"]
    assert row["values"]["trigger_on_history_size_chars"] == 10_000
    assert row["ignored"] == ["unknown parameter colour is ignored"]
    assert "colour" in run("presets", "augment", "--params", file).output


def test_A23_check_says_what_would_go_wrong_and_exits_1(tmp_path: Path) -> None:
    wide = {**GOOD, "trigger_on_history_size_chars": 50_000}
    good = run("presets", "augment", "--params", written(tmp_path / "g.json", wide), "--check")
    assert (good.exit_code, good.output) == (0, "no problems found\n")
    bad = written(tmp_path / "b.json", {**GOOD, "history_tail_size_chars_to_exclude": 20_000})
    result = run("presets", "augment", "--params", bad, "--check", "--json")
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert not found["ok"]
    assert [item["key"] for item in found["items"]] == ["history_tail_size_chars_to_exclude"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("presets", "nonsense"),
        ("presets", "--check"),
        ("presets", "pi", "--check"),
        ("presets", "augment", "--params", "-"),
    ],
)
def test_wrong_calls_are_usage_errors(arguments: tuple[str, ...]) -> None:
    assert CliRunner().invoke(main, list(arguments), input="{").exit_code == 2


def test_A7_plan_of_the_worked_example(tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.json", (1200, 1200, 1300, 1300, 1300, 1300, 800, 800, 800, 800))
    params = written(tmp_path / "p.json", GOOD)
    plan = as_json("plan", file, "--preset", "augment", "--params", params)
    assert (len(plan["fold"]), plan["first_kept"], plan["due"]) == (14, "e14", True)
    same = as_json("plan", file, "--preset", "augment", "--set", "history_tail_size_chars_to_exclude=3000")
    assert (len(same["fold"]), same["due"]) == (14, False)


def test_unknown_parameters_are_told_on_standard_error(tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.json", (1200, 1200))
    params = written(tmp_path / "p.json", {"colour": 1})
    result = run("plan", file, "--preset", "augment", "--params", params, "--json")
    assert result.exit_code == 0
    assert "refold: unknown parameter colour is ignored" in result.stderr
    json.loads(result.stdout)


def test_E15_environment_reaches_the_commands_and_flags_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = chat(tmp_path / "chat.json", (600,) * 8)
    assert as_json("plan", file, "--preset", "layered")["reason"]["code"] == "few_rounds"
    monkeypatch.setenv("REFOLD_LAYERED_KEEP_ROUNDS", "5")
    assert len(as_json("plan", file, "--preset", "layered")["fold"]) == 6
    assert len(as_json("plan", file, "--preset", "layered", "--set", "keep_rounds=6")["fold"]) == 4


@pytest.mark.parametrize("name", ["augment", "rounds", "layered"])
def test_compact_tells_all_folds(tmp_path: Path, name: str) -> None:
    file = chat(tmp_path / "chat.json", (1600,) * 14)
    found = as_json("compact", file, "--preset", name, "--budget", "2500")
    assert found["folds"]
    assert found["view"]["tokens"] < 14 * 200
    assert found["fits"] is (found["view"]["tokens"] <= 2500)
    assert found["fits"] or found["why"]


def test_E6_compact_says_that_archives_are_too_large(tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.json", (3000,) * 14)
    found = as_json("compact", file, "--preset", "layered", "--set", "keep_rounds=1", "--window", "200")
    assert not found["fits"]
    assert found["why"]
