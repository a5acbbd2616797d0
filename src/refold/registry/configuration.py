"""Settings of a machine: environment over file, described in `docs/configuration.md`.

Keys are never shown: `Provider.__repr__` does not print them.
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

import msgspec

from refold.errors import SettingError, UsageError, kind_name, nearest, needed_value

ENVIRONMENT = {"openai": "OPENAI", "openai-responses": "OPENAI", "anthropic": "ANTHROPIC"}
"""Providers whose key and address come from variables of this prefix."""


_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>.+?)`(?: - at `\$\.?(?P<section>.*?)`)?")
_WRONG = re.compile(
    r"(?P<wrong>Expected .*?(?:, got `(?P<got>[^`]+)`)?|Invalid enum value .*) - at `\$\.?(?P<place>.*)`"
)
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
_QUOTED = re.compile(r"'[^'\n]{2,}'")


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a provider. `type` defines a new one of a known kind."""

    type: str | None = None
    api_key: str | None = None
    api_key_env: str | None = None
    """Name of the variable that holds the key: keeps it out of the file."""
    base_url: str | None = None
    timeout: Seconds | None = None
    cache: Literal["5m", "1h", "off"] | None = None
    extra: dict[str, Any] = {}
    """Fields added to every request."""

    def __repr__(self) -> str:
        return f"Provider(base_url={self.base_url!r}, key={'yes' if self.api_key else 'no'})"


class ChatSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the coding agent; command-line options take precedence."""

    rules: tuple[str, ...] = ()
    """Rule files at the root of a project, besides `AGENTS.md`, `CLAUDE.md` and `CODE_LAW.md`."""
    variables: tuple[str, ...] = ()
    """Further variables that commands may see, such as `CFLAGS`."""
    compact_tool: bool = False
    """True if the model may fold the conversation (`compact_conversation`)."""
    permission: Literal["ask", "edits", "read-only", "all"] = "ask"
    max_iterations: Count | None = None
    text_protocol: bool | None = None


class GatewayModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the gateway folds for one model."""

    window: Count | None = None
    preset: str | None = None


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the gateway; command-line options take precedence."""

    upstream: str | None = None
    upstream_key_env: str | None = None
    """Name of the variable that holds the upstream's key, if clients do not send it."""
    host: str = "127.0.0.1"
    port: int = 8787
    store: str = "sqlite:"
    window: Count | None = None
    """Window for unlisted models."""
    preset: str | None = None
    models: dict[str, GatewayModel] = {}
    """Settings by model name; `gpt-5*` matches all that begin so."""
    keys: dict[str, str] = {}
    """Owner → SHA-256 of the key, in hexadecimal digits."""
    secret_env: str | None = None
    """Name of the variable with the secret that signs references to folded sessions; without it they are
    valid until the gateway stops."""
    protocols: bool | None = None
    """True: answer the providers' compaction and clearing requests; false: the upstream does; unset: true
    unless the upstream is the provider itself."""
    compaction: bool = True
    """True: answer compaction calls of coding agents with a record; false: their model writes the summary."""
    record_tokens: Count | None = None
    """Size of that record; unset: 16,000 or an eighth of the window, the smaller."""
    notes: bool = False
    """True: the program's model is asked first, and its answer is added to the record."""
    recall: bool = False
    """True: the model of a folded session may call a recall tool."""
    compact_tool: bool = False
    """True: the model may fold the conversation (`compact_conversation`)."""
    largest: Count = 64 * 1024 * 1024
    """Maximum bytes of a request."""
    concurrent: Count = 2000
    requests_per_minute: Count | None = None
    """Limit per owner."""
    connect_seconds: Seconds = 30.0
    silent_seconds: Seconds = 600.0
    """How long an upstream may be silent."""


class McpServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A server whose tools the coding agent's model may call: a program, or an address."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    """Sent with every request to the address; `$NAME` is the variable of that name."""
    timeout: Seconds = 60.0
    """Seconds of one call."""


USUAL_MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-5"}


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration file. `model` is the default model, `summariser` the one that writes summaries."""

    model: str | None = None
    summariser: str | None = None
    preset: str | None = None
    providers: dict[str, Provider] = {}
    models: dict[str, dict[str, Any]] = {}
    presets: dict[str, dict[str, Any]] = {}
    """Settings of presets, by the preset's name."""
    mcp: dict[str, McpServer] = {}
    """MCP servers for the coding agent, by name."""
    chat: ChatSettings = ChatSettings()
    gateway: GatewaySettings = GatewaySettings()

    def preset_settings(self, name: str, known: Iterable[str]) -> dict[str, Any]:
        """Settings of a preset from variables such as `REFOLD_LAYERED_KEEP_ROUNDS`, else from the file;
        `known` are the settings it has."""
        variables = {key: f"REFOLD_{name}_{key}".upper() for key in known}
        given = {key: os.environ[variable] for key, variable in variables.items() if os.environ.get(variable)}
        return {**self.presets.get(name, {}), **given}

    def chat_model(self) -> str | None:
        """The default model: the file's `model`, or the usual one of the only provider with a key. A
        provider at another address may have other models."""
        reached = {name: self.provider(name) for name in USUAL_MODELS}
        keys = [name for name, provider in reached.items() if provider.api_key and not provider.base_url]
        return self.model or (USUAL_MODELS[keys[0]] if len(keys) == 1 else None)

    def provider(self, name: str) -> Provider:
        """The provider's settings; environment variables take precedence over the file."""
        env = os.environ
        own = self.providers.get(name, Provider())
        prefix = ENVIRONMENT.get(name, "")
        key = (env.get(f"{prefix}_API_KEY") if prefix else None) or own.api_key
        if own.api_key_env:
            key = env.get(own.api_key_env) or key
        address = (env.get(f"{prefix}_BASE_URL") if prefix else None) or own.base_url
        return msgspec.structs.replace(own, api_key=key, base_url=address)


def configuration_path() -> Path:
    """Where the file is: `REFOLD_CONFIG`, or `refold/config.toml` under `XDG_CONFIG_HOME` or `~/.config`."""
    if given := os.environ.get("REFOLD_CONFIG"):
        return Path(given).expanduser()
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "refold" / "config.toml"


def load_configuration() -> Configuration:
    """The configuration of this machine; an absent file is an empty one."""
    file = configuration_path()
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        if os.environ.get("REFOLD_CONFIG"):
            _warn_of_missing(file)
        return Configuration()
    except OSError as error:
        raise SettingError(str(file), error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise SettingError(str(file), "not UTF-8 text: save it as UTF-8") from None
    return parse_configuration(text, str(file))


@cache
def _warn_of_missing(file: Path) -> None:
    logging.getLogger("refold").warning("REFOLD_CONFIG: %s does not exist; the defaults are used", file)


def parse_configuration(text: str, where: str = "configuration") -> Configuration:
    try:
        config = msgspec.convert(tomllib.loads(text), Configuration)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        if unknown := _UNKNOWN.fullmatch(str(error)):
            raise SettingError(where, _unknown_key(unknown["key"], unknown["section"] or "")) from None
        if wrong := _WRONG.fullmatch(str(error)):
            raise SettingError(where, _wrong_value(wrong["wrong"], wrong["got"], wrong["place"])) from None
        # Values are quoted in some of these texts, and a value may be a key in the wrong place.
        kind = "not valid TOML: " if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise SettingError(where, kind + _QUOTED.sub("'…'", str(error))) from None
    try:
        _check_models(config)
        _check_providers(config)
        _check_presets(config)
    except UsageError as error:
        raise SettingError(where, str(error)) from None
    return config


def _check_models(config: Configuration) -> None:
    from refold.costs import known

    for name in config.models:
        known(name, config.models)


def _check_providers(config: Configuration) -> None:
    for name, provider in config.providers.items():
        if (provider.type or name) not in ENVIRONMENT:
            from refold.registry.providers import PROVIDERS, installed_models

            if provider.type or name not in (*PROVIDERS, *installed_models()):
                raise SettingError(f"[providers.{name}] type", f"must be one of {', '.join(ENVIRONMENT)}")


def _check_presets(config: Configuration) -> None:
    """Makes every preset that the configuration names, with its settings."""
    served = (config.gateway, *config.gateway.models.values())
    named = (config.preset, *config.presets, *(one.preset for one in served))
    for name in dict.fromkeys(filter(None, named)):
        from refold import presets

        try:
            presets.make(name, config.presets.get(name, {}))
        except SettingError as error:
            raise UsageError(f"[presets.{name}] {error}") from None


def _unknown_key(key: str, section: str) -> str:
    """Message for a key that its section does not have, with its own section or the closest key."""
    belongs = [f"[{name}]" for name in ("chat", "gateway") if key in _type_at(name).__struct_fields__]
    meant = nearest(key, _type_at(section).__struct_fields__)
    hint = f'; did you mean "{meant}"?' if meant else ""
    if belongs:
        hint = f"; it belongs below {' or '.join(belongs)}"
    return f'{_place(section.replace("[...]", ".*"))}unknown key "{key}"{hint}'


def _wrong_value(wrong: str, got: str | None, place: str) -> str:
    """Message for a value of the wrong type or size. The value itself may be a key in the wrong place."""
    section, _, key = place.replace("[...]", ".*").rpartition(".")
    found = f", not {kind_name(got)}" if got else ""
    return f"{_place(section)}{key} {needed_value(wrong, _type_at(place))}{found}"


def _type_at(place: str) -> Any:
    """The declared type of a section or key."""
    kind: Any = Configuration
    for name in filter(None, place.replace("[...]", ".*").split(".")):
        kind = get_args(kind)[-1] if name == "*" else get_type_hints(kind)[name]
    return kind


def _place(section: str) -> str:
    return f"[{section}] " if section else ""
