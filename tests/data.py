"""Where the real transcripts are. They are not part of the repository; a test that needs them says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("REFOLD_DATA", ROOT.parent / "shared" / "data"))


def shared(name: str) -> Path:
    """The transcript `name`; skips the test, with the reason, where the collection is not present."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no transcript {path}: set REFOLD_DATA to the folder that has it")
    return path


def all_transcripts() -> list[Path]:
    """Every real transcript (not the oracles, licences and evaluation-only dialogues)."""
    skip = {"README.md", "oracle.json.gz", "locomo10.first5.json"}
    return sorted(
        path
        for path in DATA.glob("*/*")
        if path.name not in skip and not path.name.startswith(("LICENSE", "cuts."))
    )
