"""Installing and removing the plug-ins.

Claude Code loads a plug-in from a folder below its skills; of its settings only the status line changes,
if wanted. Codex has commands for plug-ins. opencode loads a file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from refold.errors import UsageError
from refold.plugins import hook
from refold.registry.client_sessions import home
from refold.stores.disk import Disk, make_folder, place_file
from refold.transcripts.values import as_object

HERE = Path(__file__).parent
STATUS_LINE = {"type": "command", "command": "refold plugin status 2>/dev/null || true"}
_BEFORE, _AFTER = ".settings-before.json", ".settings-after.json"
"""In the plug-in's folder: the settings without refold's status line, and with it."""


class Plugin(NamedTuple):
    program: str
    place: Callable[[], Path]
    """Exists if it is installed."""
    install: Callable[[], None]
    remove: Callable[[], None]
    next: Sequence[str]
    """What the user has to do next."""


# ── Claude Code ─────────────────────────────────────────────────────────────────────────────────


def _claude() -> Path:
    return home("claude-code") / "skills" / "refold"


def _install_claude() -> None:
    shutil.copytree(HERE / "refold", _claude())


def _remove_claude() -> None:
    _take_status_line_away()
    shutil.rmtree(_claude())
    _without_empty(_claude().parent)


def has_status_line() -> bool:
    return "statusLine" in _settings(_bytes(_settings_file()) or b"{}")


def put_status_line() -> None:
    """Adds refold's status line to the settings of Claude Code."""
    before = _bytes(_settings_file())
    after = _written({**_settings(before or b"{}"), "statusLine": STATUS_LINE})
    if before is not None:
        (_claude() / _BEFORE).write_bytes(before)
    (_claude() / _AFTER).write_bytes(after)
    _put_settings(after)


def _take_status_line_away() -> None:
    """Restores the settings byte for byte; if they have changed since, removes only the line."""
    now, before = _bytes(_settings_file()), _bytes(_claude() / _BEFORE)
    if now is None:
        return
    if now == _bytes(_claude() / _AFTER):
        if before is None:
            _settings_file().unlink()
        else:
            _put_settings(before)
    elif (settings := _settings(now)).get("statusLine") == STATUS_LINE:
        del settings["statusLine"]
        _put_settings(_written(settings))


def _settings_file() -> Path:
    return home("claude-code") / "settings.json"


def _put_settings(data: bytes) -> None:
    file = _settings_file()
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    place_file(Disk(), file, data, replace=True)
    file.chmod(mode)


def _settings(data: bytes) -> dict[str, Any]:
    try:
        return as_object(json.loads(data))
    except ValueError:
        raise UsageError(f"{_settings_file()} is not valid JSON: fix it and try again") from None


def _written(settings: dict[str, Any]) -> bytes:
    return (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


# ── Codex ───────────────────────────────────────────────────────────────────────────────────────


def _codex() -> Path:
    return home("codex") / "plugins" / "cache" / "refold"


def _install_codex() -> None:
    _run_codex("marketplace", "add", str(HERE))
    _run_codex("add", "refold@refold")


def _remove_codex() -> None:
    _run_codex("remove", "refold@refold")
    _run_codex("marketplace", "remove", "refold")
    _without_empty(_codex(), _codex().parent, _codex().parent.parent)


def _run_codex(*arguments: str) -> None:
    binary = shutil.which("codex")
    if binary is None:
        raise UsageError("codex is not on the PATH; install it with `npm install -g @openai/codex`")
    done = subprocess.run([binary, "plugin", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"`codex plugin {' '.join(arguments)}` failed: {done.stderr.strip()[-300:]}")


# ── opencode ────────────────────────────────────────────────────────────────────────────────────


def _opencode() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "opencode" / "plugin" / "refold.js"


def _install_opencode() -> None:
    make_folder(Disk(), _opencode().parent)
    shutil.copyfile(HERE / "opencode.js", _opencode())


def _remove_opencode() -> None:
    _opencode().unlink()
    _without_empty(_opencode().parent)


def _without_empty(*folders: Path) -> None:
    """Removes these folders, inner ones first, if they are empty."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


PLUGINS = {
    "claude-code": Plugin(
        "Claude Code",
        _claude,
        _install_claude,
        _remove_claude,
        ("Restart Claude Code to use /refold:recall, /refold:pin, /refold:ledger and /refold:undo.",),
    ),
    "codex": Plugin(
        "Codex",
        _codex,
        _install_codex,
        _remove_codex,
        (
            "Codex runs hooks only after you approve them: start it and type /hooks.",
            "Its PreCompact hook cannot tell the summary anything, and a plug-in brings no slash commands.",
        ),
    ),
    "opencode": Plugin(
        "opencode",
        _opencode,
        _install_opencode,
        _remove_opencode,
        ("Restart opencode; from then on its requests are folded before they get too long.",),
    ),
}


def install_plugin(name: str) -> None:
    if PLUGINS[name].place().exists():
        raise UsageError(f"{PLUGINS[name].place()} already exists: run `refold plugin remove {name}` first")
    PLUGINS[name].install()


def remove_plugin(name: str) -> None:
    """Removes the plug-in and the texts for its hooks; sessions stay in the store."""
    if not PLUGINS[name].place().exists():
        raise UsageError(f"the plug-in for {PLUGINS[name].program} is not installed")
    PLUGINS[name].remove()
    texts = hook.texts_folder("").parent
    if not any(plugin.place().exists() for plugin in PLUGINS.values()) and texts.exists():
        _delete(texts)
        _without_empty(texts.parent, texts.parent.parent)


def _delete(folder: Path) -> None:
    """Deletes a folder, though a running hook may still write into it."""
    for _ in range(30):
        with suppress(OSError):
            shutil.rmtree(folder)
            return
        time.sleep(0.1)
    shutil.rmtree(folder)
