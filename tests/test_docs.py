"""Documentation that cannot rot: every command, setting, hook and error is documented; links lead somewhere."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

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
    text = page(f"docs/presets/{name}.md") + page("docs/presets.md")
    for setting in presets.settings_of(name):
        assert f"`{setting.name}`" in text, setting.name
        assert setting.meaning, setting.name


def test_every_hook_is_documented() -> None:
    from refold import hooks

    text = page("docs/hooks.md")
    for name in hooks.NAMES:
        assert f"`{name}`" in text


USERS = [path for path in PAGES if path == ROOT / "README.md" or ROOT / "docs" in path.parents]
"""Pages for users; those for contributors may speak of modules."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(text: str) -> str:
    """A page without code: no blocks, no spans, no addresses of links."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", "", text)
    return re.sub(r"\]\([^)]*\)|<!--.*?-->", "", re.sub(r"`[^`]*`", "", text), flags=re.S)


def anchors(path: Path) -> set[str]:
    """Headings as GitHub makes anchors of them."""
    text = re.sub(r"(?ms)^```.*?^```", "", path.read_text())
    heads = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", head) for head in re.findall(r"(?m)^#+ (.+)$", text)]
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_links_and_anchors_lead_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", path.read_text()):
        place = (path.parent / target) if target else path
        assert place.exists(), f"{path.name} → {target}"
        assert not anchor or anchor in anchors(place), f"{path.name} → {target}#{anchor}"


def test_an_anchor_that_is_not_there_is_noticed() -> None:
    found = anchors(ROOT / "docs" / "how-to.md")
    assert "undo-a-fold" in found
    assert "undo-a-folds" not in found


@pytest.mark.parametrize("path", USERS, ids=relative)
def test_every_page_is_reached_from_the_readme(path: Path) -> None:
    link = re.compile(r"\]\((?!https?:)([^)#]+)")
    linked = set(link.findall(page("README.md")))
    inside = {f"docs/presets/{name}.md" for name in presets.NAMES}
    inside |= {f"docs/{name}" for name in link.findall(page("docs/benchmarks.md"))}
    assert relative(path) in linked | inside | {"README.md"}, "link it in README.md"


STALE = re.compile(
    r"(?i)\b(?:somebody|nobody|whoever|whom|anybody|everybody|by rule|rungs?|DESIGN \d+|carried\.py)\b|\(explorer\)"
)
SEPARATED = re.compile(r"(?<![\w.,#:/–-])(?:\d{5,}|\d{1,3} \d{3})(?![\w.]*\w)")


GENERATED = re.compile(r"(?s)<!-- (?:bench:[\w-]+|options) -->.*?<!-- /(?:bench|options) -->")


@pytest.mark.parametrize("path", [path for path in USERS if path.parent.name != "presets"], ids=relative)
def test_words_and_numbers_are_written_in_one_way(path: Path) -> None:
    text = prose(GENERATED.sub("", path.read_text()))
    assert sorted(set(STALE.findall(text))) == []
    assert sorted(set(SEPARATED.findall(text))) == [], "10,000, not 10000"


def test_words_and_numbers_that_are_not_so_are_noticed() -> None:
    assert STALE.findall("Nobody asks; the next rung, by rule.") == ["Nobody", "rung", "by rule"]
    assert SEPARATED.findall("of 12000 and 1 000, not 12,000 or 2026-11-17 or v10000") == ["12000", "1 000"]


def test_agents_page_is_short() -> None:
    assert len(page("AGENTS.md").splitlines()) <= 150


BLOCK = re.compile(r"(?ms)^ *```[a-z]*\n(.*?)^ *```")
COMMAND = re.compile(r"(?:^|[|&;`(] *)(?:\.venv/bin/)?refold (?=[a-z])([^|&;`]*)")


def shown_commands(text: str) -> list[str]:
    """What a page types behind `refold`, in blocks and between backticks."""
    lines = [line.partition("  #")[0] for block in BLOCK.findall(text) for line in block.splitlines()]
    spans = re.findall(r"`(refold [a-z][^`]*)`", re.sub(r"(?ms)^ *```.*?^ *```", "", text))
    return [found for line in [*lines, *spans] for found in COMMAND.findall(" ".join(line.split()))]


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_commands_that_are_shown_exist_with_their_options(path: Path) -> None:
    if path.name == "CHANGELOG.md":
        return
    for typed in shown_commands(path.read_text()):
        words = shlex.split(re.sub(r"[][]|\\\\", " ", typed))
        try:
            parsed(main, words)
        except click.UsageError as error:
            pytest.fail(f"refold {typed}\n{error.format_message()}")


@pytest.mark.parametrize("path", USERS, ids=relative)
def test_python_that_is_shown_compiles(path: Path) -> None:
    for text in re.findall(r"(?ms)^```(?:python|py)\n(.*?)^```", path.read_text()):
        compile(text, path.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_names_that_are_imported_exist(path: Path) -> None:
    for text in re.findall(r"(?ms)^```(?:python|py)\n(.*?)^```", path.read_text()):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("refold"):
                if "integrations." in str(node.module):
                    continue  # their frameworks may not be installed; tests/integrations/test_written.py runs them
                for alias in node.names:
                    assert _there(str(node.module), alias.name), f"from {node.module} import {alias.name}"


def _there(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("name", ["python", "concepts", "presets"])
def test_python_of_the_guides_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from refold import Session
    from refold import messages as m
    from refold.registry.sessions import save

    monkeypatch.chdir(tmp_path)
    session = Session()
    for number in range(12):
        session.append(m.user(f"Please read number {number}."))
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/module{number}.py")))
        session.append(m.result(f"c{number}", f"def f{number}(): pass\n" * 100, name="Read"))
    save(session, tmp_path / "session.jsonl")
    there: dict[str, object] = {"__name__": "guide"}
    for text in re.findall(r"(?ms)^```python\n(.*?)^```", page(f"docs/{name}.md")):
        lines = text.replace('register("brief", Brief)\n', "")  # lasts as long as the process
        exec(compile(lines, f"{name}.md", "exec", dont_inherit=True), there)


@pytest.mark.slow
def test_the_loop_of_the_python_guide_runs_with_tools() -> None:
    from openai import AsyncOpenAI

    from refold import Engine, Session, run
    from refold import messages as m
    from refold.models.scripted import say
    from refold.testing.wire import WireServer

    there: dict[str, Any] = {"m": m}
    [text] = re.findall(r"(?ms)^```python\n(async def turn.*?)^```", page("docs/python.md"))
    exec(compile(text, "python.md", "exec", dont_inherit=True), there)
    tools = [{"type": "function", "function": {"name": "look"}}]
    with WireServer(say("I look.", m.call("c1", "look", number=7)), say("It is a screw.")) as server:

        def look(_: object) -> str:
            return "a screw"

        async def asked() -> str:
            async with AsyncOpenAI(base_url=server.v1, api_key="none") as client:
                return await there["turn"](client, Session(), Engine(), "What is part seven?", tools, look)

        assert run(asked()) == "It is a screw."
    assert [one["role"] for one in server.bodies[-1]["messages"]] == ["system", "user", "assistant", "tool"]


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
