"""No test reads what the machine happens to have: code that is installed, files of the person who runs the tests, or
(unless it is marked `data`) the real transcripts.

An audit hook sees every file that Python opens. What is opened in the repository, in temporary folders and by imports
is the test's own business.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.data import DATA, ROOT

_LOADERS = (
    "<frozen importlib",
    "<frozen zipimport",
    "linecache.py",
    "tokenize.py",
    "inspect.py",
    "importlib/",
    "_pytest/",
)
"""Code that opens other code in order to import or to show it."""


class Hermetic:
    """What was opened against the rule. A test that swallowed the failure is failed afterwards."""

    def __init__(self) -> None:
        self.attempts: list[str] = []
        self.on = False
        self.data = False
        """The test is marked `data`."""
        self._data = _folder(DATA)
        self._own = tuple(_folder(Path(path)) for path in (ROOT, sys.prefix, sys.base_prefix))
        self._home = _folder(Path.home())
        self._code = tuple(
            _folder(Path(sysconfig.get_path(name))) for name in ("stdlib", "purelib", "platlib")
        )

    def install(self) -> None:
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.on or not isinstance(arguments[0], (str, bytes)):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100 (a link is judged by its own place)
        if path.startswith(self._data):
            wrong = not self.data
        elif path.startswith(self._code):
            wrong = path.endswith(".py") and not _is_loading()
        else:
            wrong = path.startswith(self._home) and not path.startswith(self._own)
        if wrong:
            self.attempts.append(path)


def _folder(path: Path) -> str:
    return f"{path.absolute()}{os.sep}"


_TESTS = _folder(ROOT / "tests")


def _is_loading() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if any(part in frame.f_code.co_filename for part in _LOADERS):
            return True
        frame = frame.f_back
        if frame is not None and frame.f_code.co_filename.startswith(_TESTS):
            return False
    return False


hermetic = Hermetic()
