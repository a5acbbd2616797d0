"""A TCP proxy that cuts, stalls and resets: what lies between a client and its server."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import struct
import threading
from typing import Literal

Fault = Literal["cut", "reset", "stall", "swallow"]


class Proxy:
    """Listens on `port` and passes everything on to `target`.

    `trouble(fault, after)`: the connections that carry more than `after` further bytes towards the server
    meet the fault, until `calm`. `swallow` passes what the client said, and nothing that the server answers.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._fault: Fault | None = None
        self._left = 0
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self.faults = 0
        self._closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def trouble(self, fault: Fault, after: int = 0) -> None:
        self._left, self._fault = after, fault

    def calm(self) -> None:
        self._fault = None

    def restless(self, stop: threading.Event, seed: int, kinds: tuple[Fault, ...]) -> None:
        """Trouble again and again, at any byte."""
        chance = random.Random(seed)
        while not stop.wait(chance.random() * 0.1):
            self.trouble(chance.choice(kinds), chance.choice((0, 5, 40, 300, 2000)))
            stop.wait(chance.random() * 0.2)
            self.calm()

    def close(self) -> None:
        self._closing = True
        self._listening.close()
        for pair in list(self._pairs):
            self._end(pair)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs.add((client, server))
                threading.Thread(target=self._pass, args=(client, server), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        pair, deaf = (client, server), False
        with contextlib.suppress(OSError, ValueError):
            while not self._closing:
                for end in select.select(pair, (), (), 0.2)[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        return self._end(pair)
                    if end is client:
                        self._left -= len(data)
                        if self._fault and self._left < 0:
                            self.faults += 1
                            deaf = self._fault in ("stall", "swallow")
                            if self._meet(pair, data[: max(0, len(data) + self._left)], data):
                                continue
                            return self._end(pair)
                        if not deaf:
                            server.sendall(data)
                    elif not deaf:
                        client.sendall(data)
        return self._end(pair)

    def _meet(self, pair: tuple[socket.socket, socket.socket], some: bytes, data: bytes) -> bool:
        """Whether the connection stays, silent."""
        server = pair[1]
        if self._fault == "swallow":
            server.sendall(data)
            return True
        server.sendall(some)
        if self._fault == "reset":
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return self._fault == "stall"

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        self._pairs.discard(pair)
        for end in pair:
            end.close()
