"""How builds, tests and steps ended, as values."""

from __future__ import annotations

import msgspec

from refold.preserve.verdicts import UNKNOWN, Verdict


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last result of a build, a test run, a linter."""

    command: str
    folder: str = ""
    verdict: Verdict = UNKNOWN
    exit: int | None = None
    """As the tool reported it; None where it did not, or where it is not the status of this command."""
    error: str = ""
    covered: bool = False
    """A filter came after it: the status of the line is not its own."""
    times: int = 1
    number: int = -1
    entry: str = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that failed, and no later one of its kind has succeeded."""

    what: str
    error: str
    exit: int | None = None
    number: int = -1
    entry: str = ""
