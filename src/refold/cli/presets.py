"""`refold presets`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from refold import presets
from refold.cli.options import json_option, preset_names, read_params, warned
from refold.cli.output import console, echo, emit, first_line, print_answer, styled, text_table
from refold.compaction.preset import Settings
from refold.errors import UsageError


@click.command("presets")
@click.argument("name", required=False, shell_complete=preset_names)
@click.option("--params", type=click.File("r"), help="Settings as a JSON object; shows their values.")
@click.option("--check", is_flag=True, help="Check the settings; exit code 1 if there is a problem.")
@json_option
def command(name: str | None, params: Any, check: bool, as_json: bool) -> None:
    """List the presets, or the settings of one.

    Settings are given as --set KEY=VALUE to plan, compact and compare, and as keyword arguments to
    refold.presets.get in Python. augment also takes them as one JSON object (--params).
    """
    if (params is not None or check) and name is None:
        raise click.UsageError("--params and --check need the name of a preset")
    if check:
        _check(name or "", read_params(params) if params else "", as_json)
        return
    rows = [_row(name, params)] if name else list(_all_rows())
    print_answer({"presets": rows}, lambda: _print(rows, full=name is not None), as_json)


def _all_rows() -> Iterator[dict[str, Any]]:
    """One row per preset; a broken plug-in is reported and does not hide others."""
    for name in presets.names():
        try:
            yield _row(name, None)
        except UsageError as error:
            echo(f"refold: {error}", err=True)


def _row(name: str, params: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "idea": " ".join((presets.class_of(name).__doc__ or "").split()),
        "settings": presets.settings_of(name),
    }
    if params is not None:
        chosen, ignored = _chosen(name, read_params(params))
        row["values"] = {setting.name: getattr(chosen, setting.name) for setting in row["settings"]}
        row["ignored"] = ignored
    return row


def _chosen(name: str, text: str) -> tuple[Settings, list[str]]:
    """The settings in the JSON, and what was ignored."""
    made, ignored = warned(lambda: presets.make(name, {"params": text} if text else {}))
    return made.settings, ignored


def _check(name: str, text: str, as_json: bool) -> None:
    settings, ignored = _chosen(name, text)
    items = settings.problems()
    if items is None:
        raise UsageError(f"{name} has no separate check: its settings are checked whenever they are used")
    if as_json:
        emit({"preset": name, "ok": not items, "items": items, "ignored": ignored})
    else:
        for note in ignored:
            echo(note)
        for item in items:
            echo(f"{item.key}: {item.text}")
        if not items:
            echo("no problems found")
    sys.exit(1 if items else 0)


def _print(rows: list[dict[str, Any]], *, full: bool) -> None:
    out = console()
    for row in rows:
        out.print(styled((row["name"], "bold"), f"  {row['idea']}"))
        if not full:
            continue
        values: dict[str, Any] = row.get("values", {})
        cells = (
            (one.name, first_line(str(values.get(one.name, one.default)), 60), one.meaning, one.origin)
            for one in row["settings"]
        )
        out.print(text_table(("setting", "value" if values else "default", "meaning", "rule"), cells))
        for note in row.get("ignored", ()):
            out.print(note, style="yellow")
