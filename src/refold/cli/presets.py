"""`refold presets`."""

from __future__ import annotations

from typing import Any

import click

from refold.cli.common import console, emit, json_option


@click.command("presets")
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """The designs, or the settings of one of them.

    Settings are given as --set KEY=VALUE to plan, compact and compare, and as keyword arguments to
    refold.presets.get in Python.
    """
    from refold import presets

    names = (name,) if name else presets.NAMES
    rows: list[dict[str, Any]] = [
        {
            "name": each,
            "idea": " ".join((presets.module_of(each).__doc__ or "").split()),
            "settings": presets.settings_of(each),
        }
        for each in names
    ]
    if as_json:
        emit({"presets": rows})
        return
    from rich.table import Table

    out = console()
    for row in rows:
        out.print(f"[bold]{row['name']}[/]  {row['idea']}")
        if name:
            table = Table("setting", "default", "meaning", "rule", box=None, header_style="dim")
            for setting in row["settings"]:
                table.add_row(setting.name, str(setting.default), setting.meaning, setting.origin)
            out.print(table)
