"""What one step did to one file."""

from __future__ import annotations

import posixpath
from typing import Literal, TypeAlias

import msgspec

Verb: TypeAlias = Literal["view", "modify", "create", "write", "delete", "folder"]
"""`write` creates or replaces: which of the two depends on whether the file was known. `folder`: a folder was
made, so a deletion of it no longer holds."""


class Action(msgspec.Struct, frozen=True, omit_defaults=True):
    verb: Verb
    path: str
    old: str = ""
    """Text that was replaced, where the step says so."""
    new: str = ""
    """Text that was put there."""
    how: str = ""
    """In a few words, where there is no such text: a script of sed, the place of an insertion."""
    source: str = ""
    """Where it was moved or copied from."""
    moved: bool = False
    """Deleted here because it was moved elsewhere."""
    known: bool = False
    """Counts only where its path is known: `git checkout X` may as well name a branch."""
    fragile: bool = False
    """Part of what decided how the command line ended: where that failed, this did not happen."""


def tidy(path: str) -> str:
    """One spelling per path: no `./`, no doubled or trailing slashes."""
    path = path.strip()
    return posixpath.normpath(path) if path and "://" not in path else path
