"""Documentation that cannot rot: every command, setting, hook and error is documented; links lead somewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from refold import errors, presets
from refold.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def page(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert f"refold {name}" in page("docs/commands.md")


@pytest.mark.parametrize(
    "name", [n for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, errors.RefoldError)]
)
def test_every_error_is_documented(name: str) -> None:
    if name != "RefoldError":
        assert f"`{name}`" in page("docs/errors.md")
    assert name in (errors.__doc__ or "")


@pytest.mark.parametrize("name", presets.NAMES)
def test_every_setting_is_documented(name: str) -> None:
    text = page(f"docs/designs/{name}.md")
    for setting in presets.settings_of(name):
        assert f"`{setting.name}`" in text, setting.name
        assert setting.meaning, setting.name


def test_every_hook_is_documented() -> None:
    from refold import hooks

    text = page("docs/hooks.md")
    for name in hooks.NAMES:
        assert f"`{name}`" in text


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} → {target}"


def test_agents_page_is_short() -> None:
    assert len(page("AGENTS.md").splitlines()) <= 150
