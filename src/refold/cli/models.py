"""`refold models`."""

from __future__ import annotations

from typing import Any

import click

from refold.cli.common import console, emit, json_option, table
from refold.cli.completion import model_names

DOUBLES = ("chaos", "scripted")
"""Models for tests."""


@click.command("models")
@click.argument("name", required=False, shell_complete=model_names)
@click.option(
    "--all", "everything", is_flag=True, help="Also models of providers without a key, and test doubles."
)
@json_option
def command(name: str | None, everything: bool, as_json: bool) -> None:
    """Which models are configured, with their windows and prices.

    Keys come from OPENAI_API_KEY and ANTHROPIC_API_KEY or the configuration file; they are never printed.
    """
    from refold.registry import configuration

    config = configuration.load()
    providers = _providers(config)
    ready = {row["name"] for row in providers if row["ready"]}
    rows = [row for row in _models(config) if everything or name or row["provider"] in ready]
    if name:
        rows = _named(name, config)
    if as_json:
        emit({"default": config.model, "summariser": config.summariser, "file": str(configuration.path()),
              "providers": providers, "models": rows})  # fmt: skip
        return
    shown = [row for row in providers if everything or row["name"] not in DOUBLES]
    _print(shown, rows, str(configuration.path()), config.model)


def _providers(config: Any) -> list[dict[str, Any]]:
    from refold.registry.models import model_names

    rows: list[dict[str, Any]] = []
    for name in model_names():
        settings = config.provider(name)
        ready, missing = _ready(name, settings)
        rows.append(
            {"name": name, "ready": ready, "missing": missing, "base_url": _public(settings.base_url)}
        )
    return rows


def _public(address: str | None) -> str | None:
    """The address without what stands before an @: that may be a password."""
    if not address:
        return None
    scheme, _, rest = address.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _ready(name: str, settings: Any) -> tuple[bool, str | None]:
    """Can models of this provider be used, and if not, what is missing?"""
    from importlib.util import find_spec

    kind = settings.type or name
    package = {
        "openai": "openai",
        "openai-responses": "openai",
        "anthropic": "anthropic",
        "local": "xllamacpp",
    }
    extra = {"openai-responses": "openai"}.get(kind, kind)
    if kind in package and find_spec(package[kind]) is None:
        return False, f'pip install "refold[{extra}]"'
    if kind in ("openai", "openai-responses", "anthropic") and not (settings.api_key or settings.base_url):
        return False, f"{extra.upper()}_API_KEY"
    return True, None


def _models(config: Any) -> list[dict[str, Any]]:
    from refold.costs import known, known_models

    names = dict.fromkeys([row.name for row in known_models()] + list(config.models))
    found = (known(name, config.models) for name in names)
    return [_row(about) for about in found if about is not None]


def _named(name: str, config: Any) -> list[dict[str, Any]]:
    from refold.costs import known, window_of

    window_of(name, config.models)  # says what to do where it is unknown
    about = known(name, config.models)
    return [_row(about)] if about else []


def _row(about: Any) -> dict[str, Any]:
    prices = about.prices
    return {
        "name": about.name,
        "provider": about.provider,
        "window": about.window,
        "max_output": about.output,
        "input": prices and prices.input,
        "output": prices and prices.output,
        "cache_read": prices and prices.reading,
        "cache_write": prices and prices.writing(),
        "cache_write_1h": prices and prices.writing("1h"),
        "date": about.date,
        "source": about.source,
    }


def _print(
    providers: list[dict[str, Any]], rows: list[dict[str, Any]], file: str, default: str | None
) -> None:

    out = console()
    out.print(f"configuration  {file}")
    out.print(f"default model  {default or 'none'}\n")
    for row in providers:
        state = "ready" if row["ready"] else f"needs {row['missing']}"
        address = f"  {row['base_url']}" if row["base_url"] else ""
        out.print(f"  {row['name']:18} {state}{address}")
    if not rows:
        out.print("\nno model with known figures is ready; --all lists them")
        return
    prices = ("input", "output", "cache_read", "cache_write")
    headings = ("window", *(price.replace("_", " ") for price in prices))
    lines = (
        (row["name"], f"{row['window']:,}" if row["window"] else "?", *map(_dollars, map(row.get, prices)))
        for row in rows
    )
    out.print()
    out.print(table(("model", *headings), lines, right=headings))
    dates = sorted({row["date"] for row in rows if row["date"]})
    known = ", ".join(dates) or "the configuration"
    out.print(f"\ndollars per million tokens, as of {known}", style="dim")


def _dollars(figure: float | None) -> str:
    return "" if figure is None else f"${figure:g}"
