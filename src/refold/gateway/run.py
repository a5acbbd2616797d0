"""A gateway for one program, on a socket that the parent process has opened, until the parent closes the
pipe.

The parent keeps the socket, so that it can answer if the gateway ends before the program.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Coroutine
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from refold.errors import UsageError
from refold.registry.configuration import GatewaySettings

OWNER = "run"
"""Owner of the sessions: the same in every run, so that a program can resume its sessions."""
GATEWAY_END_SECONDS = 90.0


class ProgramGateway:
    """`with ProgramGateway() as gateway: gateway.url; gateway.start(settings, "message if it ends")`."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._key = secrets.token_urlsafe(24)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False
        self.has_died = False

    @property
    def url(self) -> str:
        """The address with the key in it: every program has a setting for an address, not for a header."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/key/{self._key}"

    def __enter__(self) -> ProgramGateway:
        return self

    def start(self, settings: GatewaySettings, advice: str) -> None:
        keys = {OWNER: sha256(self._key.encode()).hexdigest()}
        own = msgspec.structs.replace(settings, host="127.0.0.1", keys=keys, upstream_key_env=None)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "refold.gateway.run", str(self._socket.fileno())],
            pass_fds=(self._socket.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            process_group=0,  # Ctrl-C is the program's
        )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(msgspec.json.encode(own) + b"\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise UsageError(f"the gateway did not start: {self._last_words()}")
        threading.Thread(target=self._watch, args=(self._process, advice), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._ending = True
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(GATEWAY_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._socket.close()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]

    def _watch(self, process: subprocess.Popen[bytes], advice: str) -> None:
        process.wait()
        if not self._ending:
            self.has_died = True
            _answer_instead(self._socket, f"the gateway of this run has ended. {advice}")


def _answer_instead(listening: socket.socket, text: str) -> None:
    error = {"type": "invalid_request_error", "message": f"refold: {text}", "param": None, "code": None}
    body = json.dumps({"type": "error", "error": error}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(listening.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    server.daemon_threads = True
    server.serve_forever()


async def _serve(listening: socket.socket) -> None:
    from refold.gateway.server import Gateway

    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=GatewaySettings)
    async with Gateway(settings, log=lambda _: None, listening=listening):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Runs on uvloop if available; there is none for Windows."""
    try:
        from uvloop import run
    except ImportError:
        from asyncio import run
    run(work)


if __name__ == "__main__":
    run_loop(_serve(socket.socket(fileno=int(sys.argv[1]))))
