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
from typing import Any

ROWS, COLUMNS = 50, 120
PATIENCE = 30.0
"""Seconds after which a test gives up; a busy machine is slow."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[=>78]|\r")

_TORN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|\][^\x07\x1b]*)?")


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

    def start(self, arguments: list[str], folder: Path, environment: dict[str, str]) -> Terminal:
        master, slave = os.openpty()
        termios.tcsetwinsize(slave, (ROWS, COLUMNS))
        order = json.dumps({"start": arguments, "folder": str(folder), "environment": environment})
        socket.send_fds(self._socket, [order.encode()], [slave])
        os.close(slave)
        return Terminal(self, json.loads(self._socket.recv(65536))["pid"], master)

    def wait(self, pid: int) -> int:
        self._socket.send(json.dumps({"wait": pid}).encode())
        return json.loads(self._socket.recv(65536))["status"]

    def close(self) -> None:
        self._socket.close()
        self._process.wait(PATIENCE)


class Terminal:
    """One run. `seen` is everything that came, without what only moves a cursor."""

    def __init__(self, nursery: Nursery, pid: int, master: int) -> None:
        self.pid, self.raw, self.seen = pid, "", ""
        self._part = ""
        self._nursery, self._master = nursery, master
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
            self._status = os.waitstatus_to_exitcode(self._nursery.wait(self.pid))
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
        if b"\x1b[6n" in data:  # where is the cursor? The status line is shown to those who can tell
            os.write(self._master, b"\x1b[1;1R")
        text = self._decoder.decode(data)
        self.raw += text
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
