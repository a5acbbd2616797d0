"""Names become models; options win over the environment, and that over the file."""

from __future__ import annotations

import importlib.metadata

import pytest

from refold import configuration, registry
from refold.configuration import Configuration, Provider
from refold.errors import ModelUnavailable, SettingError, UnknownName, UsageError
from refold.models import Scripted
from refold.models.anthropic import Anthropic
from refold.models.chaos import Chaos
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.protocols import Counts, Model

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No keys, no home, no file: what a test wants it says."""
    for variable in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "REFOLD_CONFIG",
    ):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(tmp_path, text: str) -> None:
    (tmp_path / "refold").mkdir()
    (tmp_path / "refold" / "config.toml").write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("name", "kind", "window"),
    [
        ("openai:gpt-5", OpenAIChat, 272_000),
        ("openai-responses:gpt-5", OpenAIResponses, 272_000),
        ("anthropic:claude-sonnet-4-5-20250929", Anthropic, 200_000),
        ("openai:somebody-elses", OpenAIChat, None),
    ],
)
def test_names(name, kind, window) -> None:
    model = registry.model(name, api_key=KEY)
    assert type(model) is kind
    assert model.name == name
    assert model.context_window == window
    assert isinstance(model, Model)
    assert KEY not in repr(model)


def test_only_anthropic_counts() -> None:
    assert isinstance(registry.model("anthropic:claude-opus-5"), Counts)
    assert not isinstance(registry.model("openai:gpt-5"), Counts)


def test_what_the_table_knows_reaches_the_request() -> None:
    from tests.models.histories import request

    assert "temperature" not in registry.model("openai:gpt-5").body(request("plain", temperature=0.1))
    assert "temperature" in registry.model("openai:gpt-4.1").body(request("plain", temperature=0.1))
    assert "include" in registry.model("openai-responses:gpt-5").body(request("plain"))
    assert "include" not in registry.model("openai-responses:gpt-4.1").body(request("plain"))


def test_scripted_and_chaos(tmp_path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("Hello", "utf-8")
    assert isinstance(registry.model(f"scripted:{path}"), Scripted)
    wild = registry.model(f"chaos:7:scripted:{path}", rate=0.0)
    assert isinstance(wild, Chaos)
    assert wild.name == f"chaos:7:scripted:{path}"


@pytest.mark.parametrize("name", ["gpt-5", "openai:", ":x", "chaos:x:openai:gpt-5", "chaos:1"])
def test_malformed_names_say_what_a_name_is(name) -> None:
    with pytest.raises(UsageError, match=r"PROVIDER:NAME|is called"):
        registry.model(name)


def test_unknown_providers_list_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="anthropic, chaos, local, openai"):
        registry.model("nobody:model")


def test_no_name_takes_the_configured_model(tmp_path) -> None:
    with pytest.raises(UsageError, match="no model"):
        registry.model()
    write(tmp_path, 'model = "openai:gpt-4.1"')
    assert registry.model().name == "openai:gpt-4.1"


def test_precedence(tmp_path, monkeypatch) -> None:
    write(tmp_path, '[providers.openai]\napi_key = "from-file"\nbase_url = "http://file/v1"\ntimeout = 5')

    def made(**options):
        model = registry.model("openai:gpt-5", **options)
        return model._key, model._base_url, model._timeout

    assert made() == ("from-file", "http://file/v1", 5)
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env/v1")
    assert made() == ("from-env", "http://env/v1", 5)
    assert made(api_key="given", base_url="http://given/v1", timeout=7) == ("given", "http://given/v1", 7)


def test_own_providers_and_models(tmp_path, monkeypatch) -> None:
    write(
        tmp_path,
        """
        [providers.ollama]
        type = "openai"
        base_url = "http://127.0.0.1:11434/v1"
        api_key_env = "OLLAMA_KEY"
        extra = { keep_alive = "5m" }
        [providers.anthropic]
        cache = "1h"
        [models."qwen3:8b"]
        window = 32768
        input = 0
        output = 0
        """,
    )
    monkeypatch.setenv("OLLAMA_KEY", "k")
    model = registry.model("ollama:qwen3:8b")
    assert type(model) is OpenAIChat
    assert (model.name, model.model, model.context_window) == ("ollama:qwen3:8b", "qwen3:8b", 32768)
    assert (model._key, model._base_url) == ("k", "http://127.0.0.1:11434/v1")
    assert model._extra == {"keep_alive": "5m"}
    assert registry.window("ollama:qwen3:8b") == 32768
    assert registry.model("anthropic:claude-opus-5").cache == "1h"
    assert "ollama" in registry.model_names()


def test_unknown_windows_are_asked_for() -> None:
    with pytest.raises(SettingError, match="--window"):
        registry.window("openai:somebody-elses")


@pytest.mark.parametrize(
    "text",
    [
        f'model = "{KEY}\n',
        f'[providers.openai]\napi_key = ["{KEY}"]',
        f'[providers.openai]\napi_kee = "{KEY}"',
        f'[providers.anthropic]\ncache = "{KEY}"',
        f'[models."m"]\nwindow = "{KEY}"',
        f'[providers.mine]\ntype = "scripted"\napi_key = "{KEY}"',
    ],
)
def test_mistakes_in_the_file_are_told_without_its_values(tmp_path, text) -> None:
    write(tmp_path, text)
    with pytest.raises(SettingError) as caught:
        registry.model("mine:m" if "mine" in text else "openai:m")
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value)


def test_configuration_shows_no_key() -> None:
    shown = repr(Configuration(providers={"openai": Provider(api_key=KEY)}))
    assert KEY not in shown


def test_where_the_file_is(tmp_path, monkeypatch) -> None:
    assert configuration.path({"XDG_CONFIG_HOME": "/x"}).as_posix() == "/x/refold/config.toml"
    assert configuration.path({"REFOLD_CONFIG": "/y.toml"}).as_posix() == "/y.toml"
    assert configuration.path({}).as_posix() == f"{tmp_path}/home/.config/refold/config.toml"
    monkeypatch.setenv("REFOLD_CONFIG", str(tmp_path))  # a folder cannot be read
    with pytest.raises(SettingError):
        configuration.load()


def test_plug_ins(monkeypatch) -> None:
    point = importlib.metadata.EntryPoint("mine", "tests.models.test_registry:factory", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    model = registry.model("mine:great", context_window=5)
    assert (model.name, model.context_window) == ("mine:great", 5)
    assert "mine" in registry.model_names()


def factory(name: str, **options):
    return Scripted("x", name=f"mine:{name}", **options)


def test_a_local_file_that_is_not_there() -> None:
    with pytest.raises(ModelUnavailable, match="no such file"):
        registry.model("local:/nowhere.gguf")
