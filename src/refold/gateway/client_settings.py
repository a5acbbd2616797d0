"""Environment and options that direct a coding agent to a gateway, for one run."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from refold.errors import UsageError
from refold.transcripts.values import as_object, as_text

ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com"
_ELSEWHERE = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


class Start(NamedTuple):
    """A program and its arguments, before a gateway is configured."""

    binary: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path

    @property
    def home(self) -> Path:
        return Path(self.environment.get("HOME") or Path.home())


class ProgramStart(NamedTuple):
    """The program's command and environment with the gateway configured."""

    upstream: str
    """The address that the program would use without a gateway."""
    options: Sequence[str] = ()
    environment: Mapping[str, str] = {}


class Program(NamedTuple):
    name: str
    install: str
    without: str
    """The command that continues the newest session without a gateway."""
    tell: Callable[[Start, str], ProgramStart]


def claude(start: Start, url: str) -> ProgramStart:
    """Sets the address with `--settings` too, because settings files outrank the environment."""
    files = [start.folder / ".claude" / name for name in ("settings.local.json", "settings.json")]
    home = start.environment.get("CLAUDE_CONFIG_DIR")
    files.append((Path(home) if home else start.home / ".claude") / "settings.json")
    set_there: dict[str, str] = {}
    for file in reversed(files):
        set_there |= as_object(_read(file).get("env"))
    given = {**start.environment, **set_there}
    if elsewhere := [name for name in _ELSEWHERE if given.get(name)]:
        raise UsageError(f"{elsewhere[0]} is set: refold run serves Anthropic's own protocol only")
    ours = {"ANTHROPIC_BASE_URL": url}
    options = ["--settings", json.dumps({"env": ours})] if ours.keys() & set_there.keys() else []
    return ProgramStart(given.get("ANTHROPIC_BASE_URL") or ANTHROPIC, options, ours)


def _read(file: Path) -> dict[str, Any]:
    """The content of a JSON or TOML file; empty if it cannot be read."""
    try:
        text = file.read_text("utf-8")
        return as_object(tomllib.loads(text) if file.suffix == ".toml" else json.loads(text))
    except (OSError, ValueError):
        return {}


def codex(start: Start, url: str) -> ProgramStart:
    folder = Path(start.environment.get("CODEX_HOME") or start.home / ".codex")
    config = _read(folder / "config.toml")
    name = config.get("model_provider") or "openai"
    if name == "openai":
        if _read(folder / "auth.json").get("tokens"):
            raise UsageError("Codex is signed in with ChatGPT; refold run needs `codex login --with-api-key`")
        return ProgramStart(
            config.get("openai_base_url") or OPENAI, _override("openai_base_url", f"{url}/v1")
        )
    upstream = as_text(as_object(as_object(config.get("model_providers")).get(name)).get("base_url"))
    if not upstream:
        raise UsageError(f"the provider {name!r} of Codex has no base_url in {folder / 'config.toml'}")
    return ProgramStart(upstream, _override(f"model_providers.{name}.base_url", f"{url}/v1"))


def _override(key: str, value: str) -> list[str]:
    return ["-c", f"{key}={json.dumps(value)}"]


def opencode(start: Start, url: str) -> ProgramStart:
    """Configures the provider of the model that was requested or configured."""
    shown = subprocess.run(
        [start.binary, "debug", "config"],
        env=dict(start.environment),
        cwd=start.folder,
        capture_output=True,
        check=False,
    )
    try:
        config: dict[str, Any] = json.loads(shown.stdout)
    except ValueError:
        raise UsageError("`opencode debug config` does not print the configuration of opencode") from None
    name, _, _ = (option(start.arguments, "--model", "-m") or config.get("model") or "").partition("/")
    if not name:
        raise UsageError("no model is set: pass --model PROVIDER/MODEL, or set `model` in opencode.json")
    options = as_object(as_object(as_object(config.get("provider")).get(name)).get("options"))
    upstream = as_text(options.get("baseURL")) or {"anthropic": ANTHROPIC, "openai": OPENAI}.get(name)
    if not upstream:
        raise UsageError(f"no address for the provider {name!r}: set its options.baseURL in opencode.json")
    try:
        content: dict[str, Any] = json.loads(start.environment.get("OPENCODE_CONFIG_CONTENT") or "{}")
    except ValueError:
        raise UsageError("OPENCODE_CONFIG_CONTENT is not JSON") from None
    own = content.setdefault("provider", {}).setdefault(name, {})
    own.setdefault("options", {})["baseURL"] = f"{url}/v1"
    return ProgramStart(upstream, (), {"OPENCODE_CONFIG_CONTENT": json.dumps(content)})


def aider(start: Start, url: str) -> ProgramStart:
    env, model = start.environment, option(start.arguments, "--model") or ""
    given = option(start.arguments, "--openai-api-base")
    base = given or env.get("OPENAI_API_BASE")
    claude = model.startswith(("anthropic/", "claude")) or not (base or env.get("OPENAI_API_KEY"))
    if claude:
        upstream = env.get("ANTHROPIC_API_BASE") or env.get("ANTHROPIC_BASE_URL") or ANTHROPIC
        return ProgramStart(upstream, (), {"ANTHROPIC_API_BASE": url, "ANTHROPIC_BASE_URL": url})
    last = ["--openai-api-base", f"{url}/v1"] if given else []
    return ProgramStart(base or OPENAI, last, {"OPENAI_API_BASE": f"{url}/v1"})


def option(arguments: Sequence[str], *names: str) -> str | None:
    """The value of an option in the program's arguments."""
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in names:
            return value if equals else next(iter(arguments[number + 1 :]), None)
    return None


PROGRAMS = {
    "claude": Program("Claude Code", "npm install -g @anthropic-ai/claude-code", "claude --continue", claude),
    "codex": Program("Codex", "npm install -g @openai/codex", "codex resume --last", codex),
    "opencode": Program("opencode", "npm install -g opencode-ai", "opencode --continue", opencode),
    "aider": Program("aider", "pip install aider-chat", "aider --restore-chat-history", aider),
}
