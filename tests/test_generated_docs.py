"""What `docs/generate.py` writes is what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from refold import presets
from tests.data import ROOT


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_pages_are_up_to_date(generate: ModuleType) -> None:
    stale = [path.name for path, text in generate.pages().items() if generate.is_stale(path, text)]
    assert stale == [], "run: python docs/generate.py"


def test_every_option_of_every_command_is_listed(generate: ModuleType) -> None:
    page = generate.COMMANDS.read_text("utf-8")
    for name, command in generate.commands():
        assert f"`{name}" in page
        section = re.split(r"(?m)^\*\*`refold ", page.split(f"**`{name}")[1])[0]
        if name in generate.GUIDES:
            section += (generate.DOCS / generate.GUIDES[name]).read_text("utf-8")
        for param in command.params:
            for opt in param.opts:
                assert not opt.startswith("--") or opt in section or opt in generate.NOT_NAMED, (name, opt)


def test_every_option_that_is_described_once_is_described(generate: ModuleType) -> None:
    page = generate.COMMANDS.read_text("utf-8")
    [described] = re.findall(r"(?s)## Options of many commands\n(.*?)\n## ", page)
    assert [opt for opt in generate.EVERYWHERE - {"--help"} if f"`{opt}" not in described] == []


def test_a_page_is_stale_where_it_differs(generate: ModuleType, tmp_path: Path) -> None:
    path, text = tmp_path / "pi.md", "# `pi`\n\n| `reserve_tokens` | 16,384 |\n"
    assert generate.is_stale(path, text)
    path.write_text(text.replace("16,384", "9,999"))
    assert generate.is_stale(path, text)
    path.write_text(text)
    assert not generate.is_stale(path, text)


def test_every_preset_has_a_page_with_its_rules_and_one_link_each(generate: ModuleType) -> None:
    assert set(generate.rules()) == set(presets.NAMES)
    for name, own in generate.rules().items():
        page = (generate.PRESETS / f"{name}.md").read_text()
        rows = re.findall(r"(?m)^- \[?([A-Z]\d+)(?:\]\([^)]+\))? (.+)$", page)
        assert [rule for rule, _ in rows] == list(own)
        for rule, title in rows:
            assert title, rule
            assert len(title.split()) < 60, rule


def test_every_rule_of_a_setting_is_a_rule_of_its_preset(generate: ModuleType) -> None:
    rules, seen = generate.rules(), 0
    for name in ("augment", "rounds", "layered", "pi", "window"):
        for setting in presets.settings_of(name):
            for rule in generate.named(setting.origin.replace("–", "_to_").replace(", ", "_")):
                assert rule in rules[name], (name, setting.name, rule)
                seen += 1
    assert seen > 20


def test_every_rule_has_a_test(generate: ModuleType) -> None:
    tests = generate.tests_by_rule()
    elsewhere = {"A21", "A22", "E2", "E11", "E12", "E13", "E14"}  # the agent's
    rules = [rule for own in generate.rules().values() for rule in own]
    assert [rule for rule in rules if rule not in tests and rule not in elsewhere] == []


def test_names_of_tests_are_read_as_rules(generate: ModuleType) -> None:
    assert list(generate.named("B8_B10")) == ["B8", "B10"]
    assert list(generate.named("B1_to_B4")) == ["B1", "B2", "B3", "B4"]
