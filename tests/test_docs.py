"""Documentation that cannot rot: every command, setting, hook and error is documented; links lead somewhere."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

import click
import pytest

from refold import errors, presets
from refold.cli import COMMANDS, main

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


COMMAND = re.compile(r"(?m)^(?:\.venv/bin/)?refold [a-z].*$")
BLOCK = re.compile(r"(?ms)^```[a-z]*\n(.*?)^```")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_that_are_shown_exist_with_their_options(path: Path) -> None:
    for block in BLOCK.findall(path.read_text()):
        for line in COMMAND.findall(block):
            for typed in re.split(r"(?:\.venv/bin/)?refold (?=[a-z])", line.partition("  #")[0])[1:]:
                words = shlex.split(re.sub(r"[][]", " ", typed.partition(" | ")[0]))
                try:
                    parsed(main, words)
                except click.UsageError as error:
                    pytest.fail(f"{line}\n{error.format_message()}")


def parsed(command: click.Command, words: list[str]) -> None:
    """Raises `UsageError` where the words are no call of the command; what they name is not looked for."""
    context = click.Context(command, **command.context_settings)
    if isinstance(command, click.Group):
        name = next((word for word in words if word in command.list_commands(context)), None)
        if name is not None:
            sub = command.get_command(context, name)
            assert sub is not None
            parsed(sub, words[words.index(name) + 1 :])
            words = words[: words.index(name)]
        elif command is main:
            raise click.UsageError(f"no such command: {words[0]}")
    command.make_parser(context).parse_args(list(words))


def test_a_command_or_option_that_is_not_there_is_noticed() -> None:
    parsed(main, ["sessions", "--name", "x", "doctor", "--repair"])
    for words in (["compcat"], ["compact", "f", "--budgets", "3"], ["memory", "list", "--nothing"]):
        with pytest.raises(click.UsageError):
            parsed(main, words)


def test_the_page_of_attacks_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "design" / "attack.md").read_text()
    files = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert len(files) > 20 and all((ROOT / file).exists() for file in files)
    assert len(named) > 12 and named <= there, named - there


@pytest.mark.parametrize("page", ["AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    files = {
        str(path.relative_to(ROOT))
        for room in ("src", "tests", "benchmarks")
        for path in (ROOT / room).rglob("*.py")
    }
    named = re.findall(r"`([a-z_/]+\.py)`", (ROOT / page).read_text())
    assert [name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)] == []


def test_modules_of_the_gateway_in_the_table_of_rooms_exist() -> None:
    [row] = re.findall(r"(?m)^\| `gateway/` \|.*$", (ROOT / "ARCHITECTURE.md").read_text())
    named = set(re.findall(r"`(\w+)`", row))
    assert named <= {path.stem for path in (ROOT / "src" / "refold" / "gateway").glob("*.py")}
