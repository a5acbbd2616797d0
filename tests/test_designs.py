"""The pages about the designs say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from refold import presets
from tests.data import ROOT


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("designs_generate", ROOT / "docs/designs/generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_pages_are_up_to_date(generate: ModuleType) -> None:
    stale = [path.name for path, text in generate.pages().items() if generate.is_stale(path, text)]
    assert stale == [], "run: python docs/designs/generate.py"


@pytest.mark.slow
def test_a_page_is_stale_where_it_says_what_is_not_so(generate: ModuleType, tmp_path: Path) -> None:
    path, text = tmp_path / "pi.md", generate.pages()[generate.HERE / "pi.md"]
    wrong = (
        text.replace("16384", "9999"),
        text.replace("`test_B8_", "`test_B8_no_longer_"),
        text.replace("| B14 | ", "| B99 | "),
        "",
    )
    assert not any(changed == text for changed in wrong)
    for changed in wrong:
        path.write_text(changed)
        assert generate.is_stale(path, text)
    path.write_text(text)
    assert not generate.is_stale(path, text)


def test_every_preset_has_a_page_and_every_place_exists(generate: ModuleType) -> None:
    rules = generate.rules()
    assert set(rules) == set(presets.NAMES)
    for own in rules.values():
        for rule, (title, where) in own.items():
            assert title, rule
            for place in where.split(", "):
                known = (ROOT / "src/refold" / place).exists()
                assert known or place in ("agent", "tools"), (rule, place)


def test_every_rule_of_a_setting_is_a_rule_of_its_design(generate: ModuleType) -> None:
    rules, named = generate.rules(), 0
    for name in ("augment", "rounds", "layered", "pi", "window"):
        for setting in presets.settings_of(name):
            for rule in generate.named(setting.origin.replace("–", "_to_").replace(", ", "_")):
                assert rule in rules[name], (name, setting.name, rule)
                named += 1
    assert named > 20


@pytest.mark.parametrize("name", ["augment", "pi", "window", "rounds", "layered"])
def test_every_rule_of_the_published_designs_has_a_test(generate: ModuleType, name: str) -> None:
    tests = generate.tests_by_rule()
    elsewhere = {"A21", "A22", "E2", "E11", "E12", "E13", "E14"}  # the agent's
    assert [rule for rule in generate.rules()[name] if rule not in tests and rule not in elsewhere] == []


def test_names_of_tests_are_read_as_rules(generate: ModuleType) -> None:
    assert list(generate.named("B8_B10")) == ["B8", "B10"]
    assert list(generate.named("B1_to_B4")) == ["B1", "B2", "B3", "B4"]
