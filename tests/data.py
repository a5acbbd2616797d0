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


def all_transcripts() -> list[Path]:
    """Every real transcript (not the oracles, licences and evaluation-only dialogues)."""
    skip = {"README.md", "oracle.json.gz", "locomo10.first5.json"}
    return sorted(
        path
        for path in DATA.glob("*/*")
        if path.name not in skip and not path.name.startswith(("LICENSE", "cuts."))
    )
