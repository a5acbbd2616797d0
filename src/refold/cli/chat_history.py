"""The prompts typed in `refold chat`, as prompt_toolkit's `FileHistory` writes them: `# time`, then lines
that begin with `+`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from refold.stores import data_folder
from refold.stores.disk import Disk, place_file


def history_file() -> Path:
    return data_folder() / "chat_history"


def create_history() -> Path:
    """The file, made if there is none, readable only by its owner."""
    path = history_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    return path


def forget_prompts(quotes: Callable[[str], bool]) -> int:
    """Deletes the prompts that quote something; how many."""
    path = history_file()
    if not path.exists():
        return 0
    prompts = re.split(rb"\n(?=# )", path.read_bytes())
    kept = [prompt for prompt in prompts if not quotes(_typed(prompt))]
    if len(kept) < len(prompts):
        place_file(Disk(), path, b"\n".join(kept), replace=True)
    return len(prompts) - len(kept)


def _typed(prompt: bytes) -> str:
    lines = prompt.decode("utf-8", "replace").split("\n")
    return "\n".join(line[1:] for line in lines if line.startswith("+"))
