"""`refold models`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from refold.cli import main

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    for variable in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "REFOLD_CONFIG",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(*arguments: str):
    return CliRunner().invoke(main, ["models", *arguments])


def test_nothing_is_configured() -> None:
    result = run("--json")
    assert result.exit_code == 0
    found = json.loads(result.output)
    states = {row["name"]: row["missing"] for row in found["providers"]}
    assert states["openai"] == "OPENAI_API_KEY"
    assert states["anthropic"] == "ANTHROPIC_API_KEY"
    assert found["models"] == []
    assert "OPENAI_API_KEY" in run().output


def test_a_key_makes_models_ready_and_is_never_printed(monkeypatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    result = run("--json")
    rows = {row["name"]: row for row in json.loads(result.output)["models"]}
    assert rows["claude-opus-4-5"]["window"] == 200_000
    assert rows["claude-opus-4-5"]["cache_write_1h"] == 10
    assert not [name for name in rows if name.startswith("gpt")]
    human = run().output
    assert "claude-opus-4-5" in human
    assert KEY not in result.output + human


def test_passwords_in_addresses_are_not_printed(monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://me:{KEY}@proxy.example/v1")
    assert KEY not in run("--json").output + run().output
    assert "proxy.example" in run().output


def test_one_model_and_one_that_nobody_knows() -> None:
    [row] = json.loads(run("openai:gpt-5", "--json").output)["models"]
    assert (row["name"], row["input"]) == ("gpt-5", 1.25)
    result = run("openai:nobody")
    assert result.exit_code == 2
    assert "unknown model 'openai:nobody'; `refold models --all`" in result.output


def test_all_lists_everything(tmp_path) -> None:
    rows = json.loads(run("--all", "--json").output)["models"]
    assert len(rows) > 40


def test_own_models_are_listed(tmp_path) -> None:
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text("[models.mine]\nwindow = 9000\n", "utf-8")
    rows = {row["name"]: row for row in json.loads(run("--all", "--json").output)["models"]}
    assert rows["mine"]["window"] == 9000
    assert rows["mine"]["input"] is None
    assert "mine" in run("--all").output
