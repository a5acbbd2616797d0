"""The hooks: each ends within two seconds, with exit code 0.

They import only the standard library. Longer work is done by `refold.plugins.compaction_texts` in a
separate process, which writes its texts to a folder of the session; a hook waits for its text and prints
it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOOK_SECONDS = 1.2
"""Seconds that a hook waits, so that with its start it stays below two. (Programs end it after three.)"""
TEXT_HOOKS = ("words", "state", "decisions", "lines")
"""Texts returned after a compaction, the most useful first; each has its own hook."""
HOOK_NAMES = ("grow", "before", *TEXT_HOOKS)
_SESSION = re.compile(r"\w[\w.-]{0,99}")


def texts_folder(session: str) -> Path:
    """The folder with the texts for a session's hooks."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return home / "refold" / "plugin" / (session if _SESSION.fullmatch(session) else "unnamed")


def run_hook(name: str) -> None:
    """One hook: reads its event from standard input. Never raises and never takes long."""
    limit = threading.Timer(HOOK_SECONDS + 0.2, os._exit, (0,))
    limit.daemon = True
    limit.start()
    try:
        said = _answer(name, json.load(sys.stdin))
        if said:
            sys.stdout.write(said)
            sys.stdout.flush()
    except Exception:
        return
    finally:
        limit.cancel()


def _answer(name: str, event: Mapping[str, Any]) -> str:
    session, transcript = str(event["session_id"]), str(event["transcript_path"])
    texts = texts_folder(session)
    if name in TEXT_HOOKS:
        text = _taken(texts / name)
        told = {"hookEventName": "SessionStart", "additionalContext": text}
        return json.dumps({"hookSpecificOutput": told}) if text else ""
    if name == "grow":
        _start(name, transcript, session)
    if name != "before":
        return ""
    earlier = _text(texts / name) or ""
    for old in (name, *TEXT_HOOKS):
        (texts / old).unlink(missing_ok=True)
    _start(name, transcript, session)
    return _taken(texts / name) or earlier


def _start(name: str, transcript: str, session: str) -> None:
    subprocess.Popen(
        [sys.executable, "-P", "-m", "refold.plugins.compaction_texts", name, transcript, session],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _taken(file: Path) -> str:
    """Takes the text left there; empty if none comes in time."""
    end = time.monotonic() + HOOK_SECONDS
    while (text := _text(file)) is None and time.monotonic() < end:
        time.sleep(0.02)
    file.unlink(missing_ok=True)
    return text or ""


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None


def status_line(told: Mapping[str, Any]) -> str:
    """Tokens, share of the window, the last compaction, and what compactions saved."""
    window: dict[str, int] = told.get("context_window") or {}
    used, size = window.get("total_input_tokens") or 0, window.get("context_window_size") or 0
    shown = [f"{_short(used)} of {_short(size)} tokens ({100 * used // size} %)"] if size else []
    known: dict[str, Any] = json.loads(_text(texts_folder(str(told.get("session_id"))) / "status") or "{}")
    if known.get("after"):
        shown.append(f"last fold {_short(known['before'])} → {_short(known['after'])}")
    if known.get("money"):
        kind = "saved" if known["money"] > 0 else "spent"
        shown.append(f"${abs(known['money']):.2f} {kind} net of cache")
    return " · ".join(shown)


def _short(tokens: int) -> str:
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)
