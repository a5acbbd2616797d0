"""Plug-ins come and go without a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from refold.cli import main
from refold.plugins import hook
from refold.plugins.install import HERE, PLUGINS
from tests.plugins.test_hooks import home

__all__ = ["home"]
SETTINGS = b'{"model": "opus",   "hooks": {}}'


def refold(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugin", *arguments])


def files(folder: Path) -> dict[str, bytes | None]:
    """Contents and rights."""
    return {
        f"{path} {path.stat().st_mode:o}": path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("settings", [None, SETTINGS])
@pytest.mark.parametrize("line", ["--status-line", "--no-status-line"])
def test_claude_code_is_as_it_was_before_byte_for_byte(home: Path, line: str, settings: bytes | None) -> None:
    (home / ".claude").mkdir()
    if settings is not None:
        (home / ".claude" / "settings.json").write_bytes(settings)
    before = files(home)
    assert refold("install", "claude-code", line).exit_code == 0
    folder = home / ".claude" / "skills" / "refold"
    assert (folder / ".claude-plugin" / "plugin.json").exists() and (folder / ".mcp.json").exists()
    assert str(folder) in refold("list").output
    shown: dict[str, object] = (
        json.loads((home / ".claude" / "settings.json").read_bytes()) if line == "--status-line" else {}
    )
    assert ("statusLine" in shown) == (line == "--status-line")
    hook.texts_folder("some-session").mkdir(parents=True)
    assert refold("remove", "claude-code").exit_code == 0
    assert files(home) == before
    assert "not installed" in refold("list").output


def test_settings_that_changed_since_lose_our_line_alone(home: Path) -> None:
    refold("install", "claude-code", "--status-line")
    file = home / ".claude" / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model": "sonnet"}))
    refold("remove", "claude-code")
    assert json.loads(file.read_text()) == {"model": "sonnet"}


def test_another_status_line_stays(home: Path) -> None:
    (home / ".claude").mkdir()
    own = b'{"statusLine": {"type": "command", "command": "mine"}}'
    (home / ".claude" / "settings.json").write_bytes(own)
    assert "stays" in refold("install", "claude-code", "--status-line").output
    assert (home / ".claude" / "settings.json").read_bytes() == own


def test_opencode_is_as_it_was_before(home: Path) -> None:
    (home / ".config" / "opencode").mkdir(parents=True)
    before = files(home)
    assert refold("install", "opencode").exit_code == 0
    assert (home / ".config" / "opencode" / "plugin" / "refold.js").exists()
    refold("remove", "opencode")
    assert files(home) == before


@pytest.mark.parametrize("name", ["claude-code", "opencode"])
def test_twice_is_said(home: Path, name: str) -> None:
    refold("install", name, "--no-status-line")
    again = refold("install", name, "--no-status-line")
    assert again.exit_code != 0 and f"refold plugin remove {name}" in str(again.output)
    refold("remove", name)
    assert "is not installed" in refold("remove", name).output


def test_codex_that_is_missing_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home))
    assert "npm install -g @openai/codex" in refold("install", "codex").output


def test_the_folders_are_what_the_programs_read() -> None:
    market = json.loads((HERE / ".claude-plugin" / "marketplace.json").read_text())
    root = json.loads((HERE.parents[2] / ".claude-plugin" / "marketplace.json").read_text())
    assert [each["name"] for each in market["plugins"]] == ["refold"]
    assert (HERE.parents[2] / root["plugins"][0]["source"]).resolve() == (
        HERE / market["plugins"][0]["source"]
    ).resolve()
    hooks = json.loads((HERE / "refold" / "hooks" / "hooks.json").read_text())["hooks"]
    commands = [one for groups in hooks.values() for group in groups for one in group["hooks"]]
    assert all(one["command"].endswith("2>/dev/null || true") and one["timeout"] == 3 for one in commands)
    named = [one["command"].split()[3] for one in commands]
    assert set(named) == set(hook.HOOK_NAMES)
    told = [one["command"].split()[3] for group in hooks["SessionStart"] for one in group["hooks"]]
    assert tuple(told) == hook.TEXT_HOOKS
    assert set(PLUGINS) == {"claude-code", "codex", "opencode"}
