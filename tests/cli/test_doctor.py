"""`refold doctor`: what is there, what is not, and the command that mends it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold as library
from refold import entries as e
from refold import messages as m
from refold.cli import main
from tests.rights import ordinary_rights

KEY = "sk-ant-api03-" + "Zq7Rt2Lp9X" * 8


def findings(code: int = 0) -> dict[str, list[dict[str, Any]]]:
    done = CliRunner().invoke(main, ["doctor", "--json"])
    assert done.exit_code == code, done.output
    assert KEY not in done.output
    by_area: dict[str, list[dict[str, Any]]] = {}
    for one in json.loads(done.stdout)["findings"]:
        by_area.setdefault(one["area"], []).append(one)
    return by_area


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("REFOLD_DATABASE", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text("[gateway]\nport = 1\n")  # nothing can listen there
    return tmp_path


def test_a_fresh_machine_has_nothing_wrong_and_every_absence_names_its_command(home: Path) -> None:
    found = findings()
    absent = [one for area in found.values() for one in area if one["state"] == "absent"]
    assert {"store", "keys", "gateway"} <= {one["area"] for one in absent}
    assert all(one["fix"] for one in absent)
    assert found["Python"][0]["state"] == "ok"


def test_what_is_there_is_found_and_no_key_is_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    (home / "claude").write_text("#!/bin/sh\necho 9.9.9\n")
    (home / "claude").chmod(0o755)
    refold = {"command": str(home / "claude"), "args": ["-m", "refold", "mcp"]}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"memory": refold}}))
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text("model = 'x'")
    session = library.open("sqlite:", id="mine")
    session.append(m.user("hello"))
    session.append(session.make(e.Failure, target=session.leaf or "", code="x", text=f"{KEY} was refused"))
    found = findings()
    assert {"anthropic: set"} <= {one["text"] for one in found["keys"]}
    assert [one["text"] for one in found["programs"]] == ["claude 9.9.9"]
    assert [(one["text"], one["state"]) for one in found["MCP"]] == [
        ("Claude Code: set up", "ok"),
        ("Codex: not set up", "absent"),
    ]
    assert "1 session" in found["store"][0]["text"] and "was refused" in found["last errors"][0]["text"]


def test_a_server_whose_command_is_gone_is_wrong(home: Path) -> None:
    refold = {"command": str(home / "gone" / "refold"), "args": ["mcp"]}
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"memory": refold}}))
    [one] = findings(code=1)["MCP"]
    assert (
        one["state"] == "wrong" and "which does not exist" in one["text"] and "claude mcp add" in one["fix"]
    )


def test_what_is_wrong_is_said_with_the_file_and_ends_with_1(home: Path) -> None:
    (home / "refold" / "config.toml").write_text("modle = 'x'")
    (home / "refold" / "sessions.db").write_text("no database " * 100)
    found = findings(code=1)
    assert {one["area"] for area in found.values() for one in area if one["state"] == "wrong"} == {
        "store",
        "configuration",
    }
    assert found["configuration"][0]["fix"].endswith("config.toml")
    assert found["store"][0]["fix"].endswith("sessions doctor --repair")


@pytest.mark.parametrize("place", [".", "refold"])
def test_a_store_folder_that_cannot_be_written_is_wrong(home: Path, place: str) -> None:
    if place == ".":
        shutil.rmtree(home / "refold")
    (home / place).chmod(0o500)
    with ordinary_rights():
        [one] = findings(code=1)["store"]
    assert one["state"] == "wrong" and "sessions.db cannot be written" in one["text"]
    assert one["fix"] == f"chmod u+rwx {home / place}"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("[presets.refold]\nword_share = 0.2", "word_share"),
        ("[presets.layered]\nkeep_rounds = -1", "keep_rounds"),
        ("preset = 'refolded'", "refolded"),
        ("[gateway.models.'gpt-5*']\npreset = 'laird'", "laird"),
    ],
)
def test_a_preset_that_commands_refuse_is_wrong(home: Path, written: str, told: str) -> None:
    (home / "refold" / "config.toml").write_text(written)
    [wrong] = findings(code=1)["configuration"]
    assert wrong["state"] == "wrong" and told in wrong["text"]


def test_presets_with_settings_that_commands_take_are_in_order(home: Path) -> None:
    (home / "refold" / "config.toml").write_text(
        "preset = 'layered'\n[presets.layered]\nkeep_rounds = 4\n[gateway]\nport = 1\npreset = 'rounds'"
    )
    assert [one["state"] for one in findings()["configuration"]] == ["ok"]
