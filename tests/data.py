"""Where the real transcripts are. They are not part of the repository; a test that needs them says so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("REFOLD_DATA", ROOT.parent / "shared" / "data"))
NEEDS_DATA = "needs the real transcripts"
"""How the reason begins for which a test is skipped where they are missing; the summary counts these."""


def shared(name: str) -> Path:
    """The transcript `name`; skips the test, with the reason, where the collection is not present."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{NEEDS_DATA}: {path}")
    return path


def need(paths: Sequence[object]) -> None:
    """Skips the test, with the reason, where there are none."""
    if not paths:
        pytest.skip(f"{NEEDS_DATA}: {DATA}")


_FOLDERS = ("adp", "claude-code", "codex", "gemini", "openhands", "pi", "swe-agent", "tau-bench")


def all_transcripts() -> list[Path]:
    """The real transcripts of every program (not the oracles, licences and evaluation-only dialogues)."""
    return sorted(
        path
        for folder in _FOLDERS
        for path in (DATA / folder).glob("*")
        if path.name != "oracle.json.gz" and not path.name.startswith(("LICENSE", "cuts."))
    )
