"""Rule files: the user's own, those of the project around a folder, the folder's.

The engine adds `CODE_LAW.md` at the root (`engine.layers`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

RULE_FILE_NAMES = ("AGENTS.md", "CLAUDE.md")


class RuleFile(NamedTuple):
    label: str
    """The name shown to users and to the model."""
    folder: Path
    name: str


def rule_files(root: Path, more: Sequence[str] = (), own: Iterable[Path] = ()) -> list[RuleFile]:
    """Existing rule files, the farthest first: nearer ones are read later and count more. `more`: other names
    at the root; `own`: the user's own files."""
    found = [RuleFile(_short(path), path.parent, path.name) for path in own]
    for folder in [*reversed([*_around(root)]), root]:
        found += [RuleFile(os.path.relpath(folder / name, root), folder, name) for name in RULE_FILE_NAMES]
    found += [RuleFile(name, root, name) for name in more]
    return [file for file in dict.fromkeys(found) if (file.folder / file.name).is_file()]


def own_files(configuration: Path) -> list[Path]:
    """Where users keep rules for all projects, in the folders of the programs that read them."""
    home = Path.home()
    return [configuration.parent / "AGENTS.md", home / ".codex" / "AGENTS.md", home / ".claude" / "CLAUDE.md"]


def _around(root: Path) -> Iterator[Path]:
    """The parents, nearest first, up to the root of the repository, or below the user's home."""
    chain = [root, *root.parents]
    top = next((at for at, folder in enumerate(chain) if (folder / ".git").exists()), None)
    if top is None:
        top = chain.index(Path.home()) - 1 if Path.home() in chain[1:] else 0
    yield from chain[1 : top + 1]


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
