"""What workers of the tests do: functions of a module, so that any worker finds them."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from refold.errors import StorageError


def square(number: int) -> int:
    return number * number


def slow_square(given: tuple[int, float]) -> int:
    time.sleep(given[1])
    return given[0] ** 2


def fails(number: int) -> int:
    if number % 3 == 1:
        raise StorageError(f"{number} is no transcript")
    if number % 3 == 2:
        raise ZeroDivisionError("oh")
    return number


class TwoArguments(Exception):
    """Can be pickled and not be unpickled, as many exceptions that take more than a text."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


def exits(number: int) -> int:
    if number % 2:
        sys.exit(number)
    return number


def unreadable(number: int) -> Any:
    return TwoArguments("a", "b") if number % 2 else number


def own_id(_: Any) -> int:
    return os.getpid()


def kills(given: tuple[int, str]) -> int:
    """Kills its worker as often as there are files in that folder; each time one less."""
    number, folder = given
    for mark in sorted(Path(folder).glob(f"{number}-*")):
        mark.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def sleeps(file: str) -> None:
    Path(file).write_text(str(os.getpid()))
    time.sleep(600)


def large(given: bytes) -> bytes:
    return given[::-1]


def counted(given: tuple[int, str]) -> int:
    """Leaves a trace of every time that it was done."""
    number, folder = given
    (Path(folder) / f"{number}-{time.monotonic_ns()}").touch()
    return number


def compared_or_killed(task: Any) -> Any:
    """The work of `refold compare`, on a transcript that kills whoever reads it."""
    from refold.compare import jobs

    if "poison" in task.file:
        os.kill(os.getpid(), signal.SIGKILL)
    return jobs.work(task)
