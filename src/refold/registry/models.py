"""Models and presets by name, with the configuration of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pkgutil import resolve_name
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from refold import presets
from refold.compaction.preset import Preset
from refold.costs import KnownModel, known, window_of
from refold.errors import SettingError, UnknownName, UsageError, expect
from refold.protocols import Model
from refold.registry import configuration
from refold.registry.configuration import ENVIRONMENT, Configuration, Provider
from refold.registry.providers import PROVIDERS, ProviderKind, installed_models

if TYPE_CHECKING:
    from refold.models.chaos import ChaosFault


class ModelOptions(TypedDict, total=False):
    """A caller's options for a model; each provider takes those that concern it. None: not given."""

    api_key: str | None
    base_url: str | None
    context_window: int | None
    timeout: float | None
    cache: Literal["5m", "1h"] | None
    temperature: bool
    """True if the model accepts a temperature."""
    reasoning: bool
    max_tokens: int
    extra: Mapping[str, Any] | None
    threads: int
    seed: int
    rate: float
    faults: Sequence[ChaosFault]
    sleep: Callable[[float], Awaitable[None]]


def model(
    name: str | None = None, *, config: Configuration | None = None, **options: Unpack[ModelOptions]
) -> Model:
    """The model of a name: `openai:…`, `openai-responses:…`, `anthropic:…`, `local:FILE`,
    `local:smollm2`, `scripted:FILE`, `chaos:SEED:NAME`, a provider of the configuration, or one of a
    plug-in. Without a name, the configuration's `model`.

    Options take precedence over the environment, and that over the configuration file.
    """
    expect(config, (Configuration, NoneType), "config must be a Configuration")
    config = config or configuration.load_configuration()
    name = name or config.model
    if not name:
        raise UsageError(
            "no model is configured: pass a name such as openai:gpt-5, or set model = … in the configuration"
        )
    expect(name, str, "the model must be a string such as openai:gpt-5")
    provider, separator, rest = name.partition(":")
    if not separator or not rest:
        raise UsageError(f"a model name is PROVIDER:NAME, for example openai:gpt-5, not {name!r}")
    settings = config.provider(provider)
    kind = settings.type or provider
    if kind == "chaos":
        return _chaos(rest, config, options)
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if settings.type:
        if kind not in ENVIRONMENT:
            raise SettingError(f"[providers.{provider}] type", f"must be one of {', '.join(ENVIRONMENT)}")
        given["name"] = name  # which leads back here
    about = known(name, config.models)
    configured = _configured(about, settings)
    if kind in PROVIDERS:
        return _own(PROVIDERS[kind], rest, configured, about, given)
    plugin = installed_models().get(kind)
    if plugin is None:
        raise UnknownName("model provider", provider, model_names())
    return plugin.load()(rest, **{**configured, **given})


def summariser(config: Configuration | None = None, **options: Unpack[ModelOptions]) -> Model | None:
    """The model that writes summaries, if the configuration names one; None: the digest."""
    config = config or configuration.load_configuration()
    return model(config.summariser, config=config, **options) if config.summariser else None


def preset(
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    budget: int | None = None,
    config: Configuration | None = None,
) -> Preset:
    """The preset of a name (default: the configuration's) with the settings of this machine. Settings
    given here take precedence over the environment, and that over the configuration file."""
    config = config or configuration.load_configuration()
    name = name or config.preset or "refold"
    known = [setting.name for setting in presets.settings_of(name)]
    configured = config.preset_settings(name, known)
    return presets.make(name, {**configured, **(settings or {})}, budget=budget)


def model_window(name: str, config: Configuration | None = None) -> int:
    """The window of a model; raises `SettingError` if it is unknown."""
    return window_of(name, (config or configuration.load_configuration()).models)


def model_names() -> tuple[str, ...]:
    """Providers that a model name may begin with."""
    return tuple(
        sorted({*PROVIDERS, "chaos", *installed_models(), *configuration.load_configuration().providers})
    )


def _chaos(rest: str, config: Configuration, options: Mapping[str, Any]) -> Model:
    from refold.models.chaos import Chaos

    seed, _, inner = rest.partition(":")
    if not seed.isdecimal() or not inner:
        raise UsageError(f"a chaos model name is chaos:SEED:PROVIDER:NAME, not chaos:{rest}")
    own = {key: value for key, value in options.items() if key in ("rate", "faults", "sleep")}
    others = {key: value for key, value in options.items() if key not in own}
    return Chaos(model(inner, config=config, **others), int(seed), **own)


def _own(
    kind: ProviderKind, name: str, configured: dict[str, Any], about: KnownModel | None, given: Any
) -> Model:
    facts = {**configured, **({"cache": None} if configured.get("cache") == "off" else {})}
    if about:
        facts |= {"temperature": about.temperature, "reasoning": about.reasoning}
    told = {key: value for key, value in facts.items() if key in kind.told}
    return resolve_name(kind.factory)(name, **{**told, **given})


def _configured(about: KnownModel | None, settings: Provider) -> dict[str, Any]:
    """What is set for a model: its window, and how to reach its provider."""
    given: dict[str, Any] = {
        "api_key": settings.api_key,
        "base_url": settings.base_url,
        "timeout": settings.timeout,
        "cache": settings.cache,
        "context_window": about.window if about else None,
        "extra": settings.extra or None,
    }
    return {key: value for key, value in given.items() if value is not None}
