"""docs/models.md and docs/configuration.md name everything there is."""

from __future__ import annotations

import re

import pytest

from refold.costs import Prices
from refold.models.chaos import FAULTS
from refold.models.script_file import _Reply
from refold.registry import configuration
from refold.registry.providers import PROVIDERS
from tests.data import ROOT

MODELS = (ROOT / "docs" / "models.md").read_text("utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text("utf-8")


@pytest.mark.parametrize("name", [*PROVIDERS, "chaos"])
def test_every_provider_is_described(name: str) -> None:
    assert f"`{name}:" in MODELS


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_described(fault: str) -> None:
    assert f"`{fault}`" in MODELS


def test_every_directive_of_scripts_is_described() -> None:
    import inspect

    words = set(re.findall(r'"(\w+)"(?= *[|:])', inspect.getsource(_Reply._directive)))
    assert len(words) >= 11
    assert not [word for word in words if f"`@{word}" not in MODELS]


def test_every_setting_is_described() -> None:
    fields = [*configuration.Provider.__struct_fields__, *configuration.Configuration.__struct_fields__]
    fields += [field for field in Prices.__struct_fields__ if field != "long"]
    assert not [field for field in fields if not re.search(rf"\b{field}\b", CONFIGURATION)]


def test_the_example_file_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    [example] = re.findall(r"```toml\n(.*?)```", CONFIGURATION, re.DOTALL)
    parsed = configuration.parse_configuration(example)
    monkeypatch.setenv("OLLAMA_KEY", "k")
    assert parsed.provider("ollama").api_key == "k"


def test_the_example_script_is_valid() -> None:
    from refold.models.script_file import parse_script

    [example] = re.findall(r"```\n(@#.*?)```", MODELS, re.DOTALL)
    lines, then = parse_script(example)
    assert len(lines) == 3
    assert then is not None
