"""`refold doctor`: checks everything that refold uses on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from tempfile import TemporaryFile
from typing import Literal, TypeAlias

import click
import msgspec

from refold.cli.options import json_option
from refold.cli.output import console, emit, first_line, program, styled
from refold.entries import Failure
from refold.errors import RefoldError
from refold.registry import configuration
from refold.registry.client_sessions import folders, home
from refold.registry.configuration import ENVIRONMENT, Configuration
from refold.registry.setting_check import check_settings
from refold.stores import default_database, open_store
from refold.text.plural import counted
from refold.text.redact import redact
from refold.transcripts.values import as_object

CheckState: TypeAlias = Literal["ok", "absent", "wrong"]
"""In order; absent, which may be intended; or wrong."""
STATE_MARKS: dict[CheckState, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "absent": ("–", "dim"),
    "wrong": ("✗", "red"),
}
EXTRAS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gateway": "aiohttp",
    "mcp": "mcp",
    "local": "xllamacpp",
    "postgres": "psycopg",
    "ray": "ray",
    "otel": "opentelemetry",
    "langchain": "langchain",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
}
"""Extra → a module that it installs."""
ENTRY_POINT_GROUPS = ("refold.hooks", "refold.models", "refold.presets", "refold.stores")
CHECKED_SESSIONS = 5
"""Number of sessions whose last failures are shown."""
CHECK_SECONDS = 5.0
"""Timeout for a program or server."""


class CheckResult(msgspec.Struct, frozen=True):
    area: str
    state: CheckState
    text: str
    fix: str = ""
    """The command that fixes or adds it."""


@click.command("doctor")
@json_option
def command(as_json: bool) -> None:
    """Check everything: Python, extras, store, configuration, keys, programs, gateway, MCP, plug-ins.

    Each problem comes with the command that fixes it. Keys are looked for and never shown. The exit code is 1
    if there is a problem. `refold sessions doctor` checks a store.
    """
    every = (finding for check in DOCTOR_CHECKS for finding in check())
    findings = [msgspec.structs.replace(finding, text=redact(finding.text)[0]) for finding in every]
    if as_json:
        emit({"findings": findings})
    else:
        _print(findings)
    if any(finding.state == "wrong" for finding in findings):
        raise SystemExit(1)


def _print(findings: list[CheckResult]) -> None:
    out, area = console(), ""
    for finding in findings:
        mark, style = STATE_MARKS[finding.state]
        name = finding.area if finding.area != area else ""
        fix = ("" if not finding.fix else f"  → {finding.fix}", "cyan")
        out.print(styled((f"{name:14}", "bold"), (mark, style), f" {first_line(finding.text, 200)}", fix))
        area = finding.area
    wrong = sum(finding.state == "wrong" for finding in findings)
    out.print(
        "\nNo problems found." if not wrong else f"\nProblems: {wrong}; the command after → fixes each."
    )


# ── what is looked at ───────────────────────────────────────────────────────────────────────────


def _python() -> Iterator[CheckResult]:
    yield CheckResult("Python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield CheckResult("refold", "ok", version("refold"))
    there = [extra for extra, module in EXTRAS.items() if find_spec(module) is not None]
    if there:
        yield CheckResult("extras", "ok", ", ".join(there))
    for extra in (extra for extra in EXTRAS if extra not in there):
        yield CheckResult("extras", "absent", extra, f'pip install "refold[{extra}]"')


def _store() -> Iterator[CheckResult]:
    path = default_database()
    folder = next(folder for folder in path.parents if os.path.exists(folder))  # noqa: PTH110  (never raises)
    try:
        TemporaryFile(dir=folder).close()
    except OSError as error:
        text = f"{path} cannot be written: {folder}: {(error.strerror or str(error)).lower()}"
        yield CheckResult("store", "wrong", text, f"chmod u+rwx {quote(str(folder))}")
        return
    if not path.exists():
        yield CheckResult("store", "absent", f"{path}: no sessions yet", f"{program()} import")
        return
    try:
        store = open_store("sqlite:").store
        infos = sorted(store.sessions(), key=lambda info: -info.updated)
        yield CheckResult("store", "ok", f"{path}: {counted(len(infos), 'session')}")
        for info in infos[:CHECKED_SESSIONS]:
            failures = [entry for entry in store.load(info.id).entries if isinstance(entry, Failure)]
            for entry in failures[-1:]:
                yield CheckResult(
                    "last errors", "absent", f"{info.id}: {entry.text}", f"{program()} plan {info.id}"
                )
        store.close()
    except (RefoldError, OSError) as error:
        yield CheckResult("store", "wrong", f"{path}: {error}", f"{program()} sessions doctor --repair")


def _configuration() -> Iterator[CheckResult]:
    path, config = configuration.configuration_path(), Configuration()
    try:
        config = configuration.load_configuration()
        check_settings()
    except RefoldError as error:
        yield CheckResult("configuration", "wrong", str(error), f"edit {path}")
    else:
        there = path.exists()
        fix = "" if there else f"{program()} config init"
        yield CheckResult("configuration", "ok" if there else "absent", str(path), fix)
    for name in dict.fromkeys((*ENVIRONMENT, *config.providers)):
        known = config.provider(name)
        variable = known.api_key_env or f"{ENVIRONMENT.get(name, '')}_API_KEY"
        if known.api_key:
            yield CheckResult("keys", "ok", f"{name}: set")
        elif not known.base_url:
            yield CheckResult("keys", "absent", f"{name}: not set", f"export {variable}=…")
    yield from _gateway(config)


def _gateway(config: Configuration) -> Iterator[CheckResult]:
    from http.client import HTTPConnection, HTTPException

    host, port = config.gateway.host, config.gateway.port
    connection = HTTPConnection(host, port, timeout=CHECK_SECONDS)
    try:
        connection.request("GET", "/health")
        alive = b'"ok"' in connection.getresponse().read(200)
        text = "answers" if alive else "is used by another program; choose another port"
        fix = "" if alive else f"{program()} serve --port 0 --upstream URL"
        yield CheckResult("gateway", "ok" if alive else "wrong", f"{host}:{port} {text}", fix)
    except (OSError, HTTPException):
        fix = f"{program()} serve --upstream {config.gateway.upstream or 'https://api.anthropic.com'}"
        yield CheckResult("gateway", "absent", f"{host}:{port}: not running", fix)
    finally:
        connection.close()


def _programs() -> Iterator[CheckResult]:
    places = {format.removesuffix("-code"): place for format, place in folders().items()}
    found = {name: path for name in places if (path := shutil.which(name))}
    with ThreadPoolExecutor() as pool:
        versions = dict(zip(found, pool.map(_version, found.values()), strict=True))
    for name, place in places.items():
        kept = f"; sessions: {place}" if place.exists() else ""
        if name in versions:
            yield CheckResult("programs", "ok", f"{name} {versions[name]}{kept}")
        elif kept:
            yield CheckResult("programs", "absent", f"{name}: not on the PATH{kept}", f"{program()} discover")


def _version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, timeout=CHECK_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return "(version unknown)"
    return first_line(done.stdout.decode("utf-8", "replace"), 60)


def _mcp() -> Iterator[CheckResult]:
    if find_spec("mcp") is None:
        return  # named among the extras
    claude = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home()) / ".claude.json"
    for name, path, add in (
        ("Claude Code", claude, "claude mcp add refold -- refold mcp"),
        ("Codex", home("codex") / "config.toml", "codex mcp add refold -- refold mcp"),
    ):
        if not path.exists():
            continue
        command = _server_command(path)
        if not command:
            yield CheckResult("MCP", "absent", f"{name}: not set up", add)
        elif shutil.which(command) is None:
            yield CheckResult("MCP", "wrong", f"{name}: starts {command}, which does not exist", add)
        else:
            yield CheckResult("MCP", "ok", f"{name}: set up")


def _server_command(path: Path) -> str:
    """The command that a program's configuration has for the MCP server of refold, under any name."""
    try:
        text = path.read_text("utf-8")
        found = as_object(tomllib.loads(text) if path.suffix == ".toml" else msgspec.json.decode(text))
    except (OSError, ValueError, msgspec.DecodeError):
        return ""
    tables = [found, *map(as_object, as_object(found.get("projects")).values())]
    servers = (as_object(table.get(key)) for table in tables for key in ("mcpServers", "mcp_servers"))
    started = (as_object(server) for each in servers for server in each.values())
    ours = (one for one in started if "refold" in f"{one.get('command')} {one.get('args')}")
    return next((str(one.get("command")) for one in ours), "")


def _plugins() -> Iterator[CheckResult]:
    for group in ENTRY_POINT_GROUPS:
        for point in entry_points(group=group):
            owner = point.dist.name if point.dist else "?"
            try:
                point.load()
            except Exception as error:  # code of others
                text = f"{group}: {point.name} of {owner} does not load: {type(error).__name__}: {error}"
                yield CheckResult("plug-ins", "wrong", text, f"pip uninstall {owner}")
            else:
                yield CheckResult("plug-ins", "ok", f"{group}: {point.name} of {owner}")


DOCTOR_CHECKS: tuple[Callable[[], Iterator[CheckResult]], ...] = (
    _python,
    _store,
    _configuration,
    _programs,
    _mcp,
    _plugins,
)
