"""The real command line in a pseudo-terminal, without an interpreter's start for each run.

A process that has imported everything waits for orders and forks; the child takes the terminal it is handed and
calls `refold.cli.main`, as `refold` does.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any, Protocol

import pyte

import refold
from refold import Session
from refold.stores import open_store

ROWS, COLUMNS = 50, 120
PATIENCE = 120.0
"""Seconds after which a test gives up; a busy machine is slow."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78]|\r")

_TORN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|\][^\x07\x1b]*)?")


class Emulator(pyte.Screen):
    """What a user sees: the screen, and above it what was scrolled away. `oddities` is everything that no part of
    the program has a reason to send: titles, bells, sequences that a terminal may not know."""

    def __init__(self, columns: int, rows: int) -> None:
        self.above: list[str] = []
        self.oddities: list[str] = []
        self.answers = ""
        super().__init__(columns, rows)

    def index(self) -> None:
        if self.cursor.y == (self.margins.bottom if self.margins else self.lines - 1):
            row = self.buffer[self.margins.top if self.margins else 0]
            self.above.append("".join(row[x].data for x in range(self.columns)).rstrip())
        super().index()

    @property
    def transcript(self) -> list[str]:
        """All of it, from the beginning, without blanks at the ends of lines."""
        return [*self.above, *self.shown.split("\n")]

    @property
    def shown(self) -> str:
        return "\n".join(line.rstrip() for line in self.display)

    def set_title(self, param: str) -> None:
        self.oddities.append(f"title {param!r}")

    def set_icon_name(self, param: str) -> None:
        self.oddities.append(f"icon {param!r}")

    def bell(self, *_: Any) -> None:
        self.oddities.append("bell")

    def debug(self, *args: Any, **more: Any) -> None:
        self.oddities.append(f"sequence {args} {more}")

    def write_process_input(self, data: str) -> None:
        self.answers += data


class Nursery:
    """The process that forks."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.agent.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=Path(__file__).parents[2],
        )
        theirs.close()

    def start(
        self,
        arguments: list[str],
        folder: Path,
        environment: dict[str, str],
        size: tuple[int, int] = (ROWS, COLUMNS),
    ) -> Terminal:
        master, slave = os.openpty()
        termios.tcsetwinsize(slave, size)
        order = json.dumps({"start": arguments, "folder": str(folder), "environment": environment})
        socket.send_fds(self._socket, [order.encode()], [slave])
        os.close(slave)
        return Terminal(self, json.loads(self._socket.recv(65536))["pid"], master, size)

    def wait(self, pid: int) -> int:
        self._socket.send(json.dumps({"wait": pid}).encode())
        return json.loads(self._socket.recv(65536))["status"]

    def close(self) -> None:
        self._socket.close()
        self._process.wait(PATIENCE)


class Waits(Protocol):
    """Who can tell how a process ended."""

    def wait(self, pid: int) -> int: ...


class Terminal:
    """One run. `seen` is everything that came, without what only moves a cursor."""

    def __init__(self, parent: Waits, pid: int, master: int, size: tuple[int, int] = (ROWS, COLUMNS)) -> None:
        self.pid, self.raw, self.seen = pid, "", ""
        self.pieces: list[tuple[float, str]] = []
        """What came, and when."""
        self.screen = Emulator(size[1], size[0])
        self._stream = pyte.Stream(self.screen)
        self._part = ""
        self._parent, self._master = parent, master
        self._read = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._status: int | None = None

    def until(self, *texts: str) -> str:
        """Wait until these have come, in this order, since the last time; gives what came."""
        end = time.monotonic() + PATIENCE
        while True:
            news, at = self.seen[self._read :], 0
            for text in texts:
                at = news.find(text, at)
                if at < 0:
                    break
                at += len(text)
            if at >= 0:
                self._read += at
                return news[:at]
            if time.monotonic() > end or not self._pump():
                raise AssertionError(f"{texts} did not come; the last that came:\n{self.seen[-3000:]}")

    def type(self, text: str, end: str = "\r") -> None:
        os.write(self._master, (text + end).encode())

    def say(self, text: str, *expected: str) -> str:
        """Type a line, and wait for what is expected and the next prompt."""
        self.type(text)
        return self.until(*expected, "› ")

    def pump(self, until: float) -> None:
        """Take what comes; an error where the program has ended, or it is later than `until` (`perf_counter`)."""
        if not self._pump():
            raise AssertionError(f"it has ended; the last that came:\n{self.screen.shown}")
        if time.perf_counter() > until:
            raise AssertionError(f"nothing more comes; the screen:\n{self.screen.shown}")

    def forget(self) -> None:
        """What came until now is not looked at again."""
        self.raw = self.seen = ""
        self.pieces.clear()
        self._read = 0

    def resize(self, rows: int, columns: int) -> None:
        """As a user does who draws the window smaller; the program is told by the system."""
        self.screen.resize(rows, columns)
        termios.tcsetwinsize(self._master, (rows, columns))

    def settle(self, seconds: float = 0.3) -> None:
        """Take what comes until nothing comes for a while."""
        while select.select([self._master], [], [], seconds)[0] and self._pump():
            pass

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        """Read to the end; the exit status."""
        end = time.monotonic() + PATIENCE
        while self._pump():
            if time.monotonic() > end:
                raise TimeoutError(f"it does not end; the last that came:\n{self.seen[-3000:]}")
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(self._parent.wait(self.pid))
            os.close(self._master)
        return self._status

    def leave(self) -> int:
        self.type("", end="\x04")
        return self.end()

    def _pump(self) -> bool:
        """Take what comes; False: the other end is closed."""
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self.pieces.append((time.monotonic(), text))
        self._stream.feed(text)
        if self.screen.answers:  # where is the cursor? The status line is shown to those who can tell
            answers, self.screen.answers = self.screen.answers, ""
            os.write(self._master, answers.encode())
        whole, escape, part = (self._part + text).rpartition("\x1b")
        self._part = escape + part  # a code may be torn
        self.seen += _CODES.sub("", whole)
        if not _TORN.fullmatch(self._part):
            self.seen, self._part = self.seen + _CODES.sub("", self._part), ""
        return bool(data)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Of a user with an empty home and a terminal with colours."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        **more,
    }


def results(session: Any) -> dict[str, list[str]]:
    """Call id → what was answered, of a session's path."""
    from refold.entries import MessageEntry
    from refold.messages import Result

    found: dict[str, list[str]] = {}
    for entry in session.path:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, Result):
            found.setdefault(entry.message.call_id, []).append(entry.message.text)
    return found


class Project:
    """A folder with files, a home, and conversations in it."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.nursery, self.home, self.root = nursery, folder / "home", folder / "project"
        self.home.mkdir()
        self.root.mkdir()
        self.store = f"sqlite:{folder / 'chat.db'}"
        (self.root / "a.py").write_text("def f():\n    return 1\n")
        self.runs: list[Terminal] = []

    def chat(
        self,
        script: str,
        *arguments: str,
        model: str | None = None,
        size: tuple[int, int] = (ROWS, COLUMNS),
        **variables: str,
    ) -> Terminal:
        path = self.home / f"script{len(self.runs)}"
        path.write_text(script)
        chosen = ["--model", model or f"scripted:{path}", "--store", self.store, "--summariser", "digest"]
        run = self.nursery.start(
            ["chat", *chosen, *arguments], self.root, environment(self.home, **variables), size
        )
        self.runs.append(run)
        return run

    def sessions(self) -> list[str]:
        store = open_store(self.store).store
        return [info.id for info in store.sessions() if not info.id.startswith("task-")]

    def session(self) -> Session:
        [id] = self.sessions()
        return refold.open(self.store, id=id)
