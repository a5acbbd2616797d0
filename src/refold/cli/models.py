"""`refold models`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import click

from refold.cli.options import complete_model_names, json_option
from refold.cli.output import console, emit, text_table
from refold.costs import KnownModel, known, known_models, window_of
from refold.errors import SettingError, nearest
from refold.registry import configuration
from refold.registry.configuration import ENVIRONMENT, Configuration, Provider
from refold.registry.models import model_names

DOUBLES = ("chaos", "scripted")
"""Models for tests."""


@click.command("models")
@click.argument("name", required=False, shell_complete=complete_model_names)
@click.option(
    "--all", "everything", is_flag=True, help="Include models of providers without a key, and test doubles."
)
@json_option
def command(name: str | None, everything: bool, as_json: bool) -> None:
    """List the configured models with their windows and prices.

    Keys come from OPENAI_API_KEY and ANTHROPIC_API_KEY or the configuration file; they are never printed.
    """
    config = configuration.load_configuration()
    providers = _providers(config)
    ready = {row["name"] for row in providers if row["ready"]}
    if name:
        _require_known(name, config)
        rows = _models([name], config)
    else:
        every = _models([*(row.name for row in known_models()), *config.models], config)
        rows = [row for row in every if everything or row["provider"] in ready]
    if as_json:
        file = str(configuration.configuration_path())
        emit({"default": config.model, "summariser": config.summariser, "file": file,
              "providers": providers, "models": rows})  # fmt: skip
        return
    shown = [row for row in providers if everything or row["name"] not in DOUBLES]
    _print(shown, rows, str(configuration.configuration_path()), config.model)


def _require_known(name: str, config: Configuration) -> None:
    try:
        window_of(name, config.models)
    except SettingError:
        meant = nearest(name, [*(row.name for row in known_models()), *config.models])
        guess = f"; did you mean {meant}?" if meant else ""
        raise click.UsageError(
            f"unknown model {name!r}{guess or '; `refold models --all` lists the known ones'}"
        ) from None


def _providers(config: Configuration) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in model_names():
        settings = config.provider(name)
        missing, address = _missing(name, settings), _public(settings.base_url)
        rows.append({"name": name, "ready": not missing, "missing": missing, "base_url": address})
    return rows


def _public(address: str | None) -> str | None:
    """The address without a user name and password."""
    if not address:
        return None
    scheme, _, rest = address.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _missing(name: str, settings: Provider) -> str | None:
    """What models of this provider need; None if they are ready."""
    kind = settings.type or name
    extra = kind.removesuffix("-responses")
    package = {"openai": "openai", "anthropic": "anthropic", "local": "xllamacpp"}.get(extra)
    if package and find_spec(package) is None:
        return f'pip install "refold[{extra}]"'
    if kind in ENVIRONMENT and not (settings.api_key or settings.base_url):
        return f"{ENVIRONMENT[kind]}_API_KEY"
    return None


def _models(names: Iterable[str], config: Configuration) -> list[dict[str, Any]]:
    found = (known(name, config.models) for name in dict.fromkeys(names))
    return [_row(about) for about in found if about is not None]


def _row(about: KnownModel) -> dict[str, Any]:
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
        out.print("\nno model is ready to use; --all lists every known one")
        return
    prices = ("input", "output", "cache_read", "cache_write")
    headings = ("window", *(price.replace("_", " ") for price in prices))
    lines = (
        (row["name"], f"{row['window']:,}" if row["window"] else "?", *map(_dollars, map(row.get, prices)))
        for row in rows
    )
    out.print()
    out.print(text_table(("model", *headings), lines, right=headings))
    dates = sorted({row["date"] for row in rows if row["date"]})
    known = ", ".join(dates) or "the configuration"
    out.print(f"\ndollars per million tokens, as of {known}", style="dim")


def _dollars(figure: float | None) -> str:
    return "" if figure is None else f"${figure:g}"
