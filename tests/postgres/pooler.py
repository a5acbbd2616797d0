"""A pooler as PgBouncer is in transaction mode: every transaction gets the server connection that was idle longest."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from socket import IPPROTO_TCP, TCP_NODELAY

_NO_ENCRYPTION = (80877103, 80877104)


class Pooler:
    def __init__(self, target: int, connections: int = 3) -> None:
        self._target, self._connections = target, connections
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._idle: queue.Queue[_Wire] | None = None
        self._greeting = b""
        self._mutex = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        while self._idle is not None and not self._idle.empty():
            self._idle.get().socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = _Wire(self._listening.accept()[0])
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: _Wire) -> None:
        with contextlib.suppress(OSError):
            idle = self._welcome(client)
            server: _Wire | None = None
            while True:
                asked = client.message()
                if asked[:1] == b"X":
                    break
                if server is None:
                    server = idle.get()
                server.socket.sendall(asked)
                if asked[:1] not in b"QS":
                    continue
                answer = b""
                while answer[:1] != b"Z":
                    answer = server.message()
                    client.socket.sendall(answer)
                if answer[-1:] == b"I":
                    idle.put(server)
                    server = None
        client.socket.close()

    def _welcome(self, client: _Wire) -> queue.Queue[_Wire]:
        while struct.unpack("!I", (start := client.start())[4:8])[0] in _NO_ENCRYPTION:
            client.socket.sendall(b"N")
        with self._mutex:
            if self._idle is None:
                self._idle = queue.Queue()
                for _ in range(self._connections):
                    self._idle.put(self._server(start))
        # A key of the pooler's own, as a pooler that passes cancellations on has to give.
        client.socket.sendall(self._greeting + b"K" + struct.pack("!III", 12, 7, 7) + b"Z\0\0\0\5I")
        return self._idle

    def _server(self, start: bytes) -> _Wire:
        server = _Wire(socket.create_connection(("127.0.0.1", self._target)))
        server.socket.sendall(start)
        said: list[bytes] = []
        while not said or said[-1][:1] != b"Z":
            said.append(server.message())
        self._greeting = b"".join(message for message in said if message[:1] in b"RS")
        return server


class _Wire:
    """Messages of one connection."""

    def __init__(self, socket: socket.socket) -> None:
        self.socket = socket
        socket.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)

    def start(self) -> bytes:
        """The first message, which has no type."""
        size = self._read(4)
        return size + self._read(struct.unpack("!I", size)[0] - 4)

    def message(self) -> bytes:
        return self._read(1) + self.start()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data
