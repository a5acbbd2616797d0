"""`refold presets`."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from refold.cli.common import clean, console, emit, first_line, guarded, json_option

if TYPE_CHECKING:
    from refold.compaction.preset import Setting


@click.command("presets")
@click.argument("name", required=False)
@click.option("--params", type=click.File("r"), help="Settings as one JSON object: show these values.")
@click.option("--check", is_flag=True, help="Say what would go wrong with them; exit 1 if anything would.")
@json_option
def command(name: str | None, params: Any, check: bool, as_json: bool) -> None:
    """The designs, or the settings of one of them.

    Settings are given as --set KEY=VALUE to plan, compact and compare, and as keyword arguments to
    refold.presets.get in Python. augment also takes them as one JSON object (--params).
    """
    if (params is not None or check) and name is None:
        raise click.UsageError("--params and --check need the name of a preset")
    with guarded():
        if check:
            _check(name or "", params.read() if params else "", as_json)
            return
        rows = [_row(each, params) for each in ((name,) if name else _names())]
    if as_json:
        emit({"presets": rows})
        return
    _print(rows, full=name is not None)


def _names() -> tuple[str, ...]:
    from refold import presets

    return presets.NAMES


def _row(name: str, params: Any) -> dict[str, Any]:
    from refold import presets

    module = presets.module_of(name)
    row: dict[str, Any] = {
        "name": name,
        "idea": " ".join((module.__doc__ or "").split()),
        "settings": presets.settings_of(name),
    }
    if params is not None:
        chosen, ignored = _chosen(name, params.read())
        row["values"] = {setting.name: getattr(chosen, setting.name) for setting in row["settings"]}
        row["ignored"] = ignored
    return row


def _chosen(name: str, text: str) -> tuple[Any, list[str]]:
    """The settings that the JSON gives, and what of it was ignored."""
    from refold import presets

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        settings = presets.get(name, params=text).settings
    return settings, [str(warning.message) for warning in caught]


def _check(name: str, text: str, as_json: bool) -> None:
    from refold import presets
    from refold.errors import UsageError

    find = getattr(presets.module_of(name), "check_configuration", None)
    if find is None:
        raise UsageError(
            f"{name} has no configuration check: its settings are checked whenever they are given"
        )
    settings, ignored = _chosen(name, text)
    items = find(settings)
    if as_json:
        emit({"preset": name, "ok": not items, "items": items, "ignored": ignored})
    else:
        for note in ignored:
            click.echo(f"ignored: {clean(note)}")
        for item in items:
            click.echo(f"{clean(item.key)}: {clean(item.text)}")
        if not items:
            click.echo("nothing would go wrong")
    sys.exit(1 if items else 0)


def _print(rows: list[dict[str, Any]], *, full: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    out = console()
    for row in rows:
        out.print(f"[bold]{row['name']}[/]  {row['idea']}")
        if not full:
            continue
        values: dict[str, Any] = row.get("values", {})
        table = Table(
            "setting", "value" if values else "default", "meaning", "rule", box=None, header_style="dim"
        )
        for setting in row["settings"]:
            shown = _shown(setting, values)
            table.add_row(setting.name, Text(shown), setting.meaning.replace("[", r"\["), setting.origin)
        out.print(table)
        for note in row.get("ignored", ()):
            out.print(Text(f"ignored: {clean(note)}", style="yellow"))


def _shown(setting: Setting, values: dict[str, Any]) -> str:
    """A value in one short line."""
    value = values.get(setting.name, setting.default)
    return first_line(str(value), 60)
