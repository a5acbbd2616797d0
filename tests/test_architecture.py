"""Architecture: layers, sizes, the public names, and what importing costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import refold

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "refold"
MODULES = sorted(SOURCE.rglob("*.py"))


def test_nothing_decides_by_the_name_of_a_preset() -> None:
    text = "".join(p.read_text() for p in MODULES if p.parent.name != "presets")
    assert not re.search(r"^\s+(?:el)?if .*preset(\.name)? == ", text, re.M)


def test_architecture_says_what_the_linter_enforces() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    drawn = re.search(r"```layers\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.S)
    assert drawn
    assert drawn[1].strip().splitlines() == contract["layers"]


def imports() -> dict[str, set[str]]:
    return imports_of(SOURCE)


def imports_of(package: Path) -> dict[str, set[str]]:
    """Which modules each module imports, wherever it does: at its top, inside of functions, for type checking
    alone. Whoever imports `a.b.c` from outside of `a.b` imports `a.b`, too."""
    modules = modules_of(package)
    return {name: set(_imported(name, path, modules)) - {name} for name, path in modules.items()}


def modules_of(package: Path) -> dict[str, Path]:
    modules: dict[str, Path] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def _imported(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        wanted: list[str] = []
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative imports are not read here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            wanted = [full if full in modules else node.module or "" for full in names]
        for module in wanted:
            yield from (m for m in (module, *_around(module, name)) if m in modules)


def _around(module: str, importer: str) -> Iterator[str]:
    """The packages around a module that the importer is not in itself."""
    while module := module.rpartition(".")[0]:
        if not f"{importer}.".startswith(f"{module}."):
            yield module


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """A way through the graph that ends where it began; empty where there is none."""
    done: set[str] = set()

    def walk(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in graph[name]:
            if found := walk(other, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := walk(name, []))), [])


@pytest.mark.slow
def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports inside of functions count."""
    assert circle(imports()) == []
    assert circle(imports_of(ROOT / "benchmarks")) == []


def test_a_circle_is_seen_where_there_is_one() -> None:
    assert circle({"a": ["b", "c"], "b": ["c"], "c": []}) == []
    assert circle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    modules = modules_of(SOURCE)
    late = set(_imported("refold.engine.engine", modules["refold.engine.engine"], modules))
    assert "refold.recall" in late, "inside of a function"


def test_the_public_names_are_pinned() -> None:
    assert sorted(refold.__all__) == [
        "Engine", "Failed", "Fold", "Hooks", "Plan", "Reason", "Session", "View", "__version__", "errors", "load",
        "messages", "model", "open", "presets", "run", "wrap",
    ]  # fmt: skip
    for name in refold.__all__:
        assert getattr(refold, name) is not None
    with pytest.raises(AttributeError):
        refold.nonsense


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('', *sys.modules, file=sys.stderr, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


HEAVY = {
    "rich", "prompt_toolkit", "click", "apsw", "openai", "anthropic", "aiohttp", "mcp", "splintr", "asyncio", "hypothesis",
    "xllamacpp", "importlib.resources",
}  # fmt: skip


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not (HEAVY | {"msgspec", "refold.session"}) & loaded_by("import refold")


def test_help_starts_without_the_engine() -> None:
    modules = loaded_by("from refold.cli import main; main(['--help'], standalone_mode=False)")
    assert "refold.cli" in modules
    assert (
        not (HEAVY - {"click"} | {"msgspec", "refold.engine", "refold.session", "refold.messages"}) & modules
    )


def test_the_first_prepare_loads_neither_tools_nor_stores_nor_a_vocabulary() -> None:
    """What fits by its bytes alone is not counted; `view.tokens` is."""
    modules = loaded_by(
        "import splintr; splintr.Tokenizer = None\n"
        "from refold import Engine, Session, messages, run\n"
        "session = Session(); session.append(messages.user('Fix the parser.'))\n"
        "view = run(Engine().prepare(session)); assert len(view) == 1\n"
        "loaded = list(sys.modules)\n"
        "try: view.tokens\n"
        "except AttributeError as error: assert 'from_pretrained' in str(error)\n"
        "else: raise AssertionError('counted by what?')\n"
        "sys.modules = loaded"
    )
    assert "refold.engine" in modules
    assert not (HEAVY - {"splintr", "asyncio"} | {"refold.tools", "refold.recall", "refold.stores"}) & modules
    for_folds = {
        "refold.digest",
        "refold.memory",
        "refold.compaction.verify",
        "refold.engine.branch",
        "tomllib",
    }
    assert not for_folds & modules


def test_naming_wrap_loads_no_framework_and_no_engine() -> None:
    modules = loaded_by("import refold; refold.wrap")
    assert not HEAVY & modules
    assert "refold.engine" not in modules


def test_the_adapters_of_the_clients_import_neither() -> None:
    modules = loaded_by("import refold.integrations.openai, refold.integrations.anthropic")
    assert not {"openai", "anthropic", "langchain", "agents", "pydantic_ai"} & modules


def test_an_engine_loads_no_provider_and_no_terminal() -> None:
    modules = loaded_by("from refold import Engine, Session; Engine('pi').view(Session())")
    assert not {"rich", "click", "openai", "anthropic", "apsw"} & modules
