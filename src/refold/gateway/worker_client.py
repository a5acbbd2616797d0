"""The server's side of the worker. If the worker has ended, requests that fit are passed on, others are
refused, and the worker is restarted."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import msgspec

from refold.gateway import ipc, worker
from refold.gateway.auth import RequestRefused
from refold.gateway.spool import Full, PacketPosition, Spool, folder_of

MAX_UNWRITTEN_BYTES = 64 * 1024 * 1024
"""Bytes that the worker may hold before they are recorded; the rest waits in the spool."""
MAX_PENDING_REQUESTS = 1_000
"""Maximum number of requests without a reply; some never get one."""
AGAIN_SECONDS = 1.0
"""Pause between two starts of a worker."""
WORKER_END_SECONDS = 60.0
"""How long a worker may take to record what it has."""
BEAT_SECONDS, DEAD_SECONDS = 5.0, 30.0
"""Interval of pings to the worker, and the silence after which it is replaced."""
ROOM_SECONDS = 5.0
"""How long a request waits for a worker that writes nothing while the spool is full."""
ANSWER_SECONDS = 300.0


class WorkerClient:
    """Client of the worker. `in_process`: the worker is a separate process, so that its work takes no time
    from streams; otherwise a thread, which starts faster."""

    def __init__(self, opening: ipc.WorkerSettings, *, in_process: bool) -> None:
        self.counts: Counter[str] = Counter()
        self._start = _process if in_process and os.name == "posix" else _thread
        self._opening = opening
        self._numbers = count(1)
        self._issued: list[ipc.Issued] = []
        self._asked: dict[int, asyncio.Future[ipc.FromWorker]] = {}
        self._spool = Spool(folder_of(opening.settings.store))
        self._ids = count(1)
        self._unwritten: dict[int, PacketPosition] = {}
        """Packets that are not yet recorded, by id, oldest first."""
        self._numbered: dict[int, tuple[int, bool]] = {}
        """For unrecorded packets: their exchange, and whether they begin it."""
        self._begun: dict[int, tuple[int, PacketPosition]] = {}
        """Recorded requests without a recorded reply; a new worker needs them first."""
        self._progress = asyncio.Event()
        """Set when something was recorded."""
        self._drained = asyncio.Event()
        """Set when the worker has received everything, or will not receive more."""
        self._unsent: deque[int] = deque()
        self._waiting = 0
        """Bytes of those that it has received."""
        self._writer: asyncio.StreamWriter | None = None
        self._handle = WorkerHandle(lambda: None, lambda: None)
        self._beating: asyncio.Task[None] | None = None
        self._heard = 0.0
        """Time of the worker's last message."""
        self._reading: asyncio.Task[None] | None = None
        self._ending = False

    async def open(self) -> None:
        here, there = socket.socketpair()
        self._handle = self._start(there)
        reader, self._writer = await asyncio.open_connection(sock=here, limit=ipc.READ_AHEAD_BYTES)
        self._writer.write(ipc.encode_packet(self._opening))
        for packet in self._issued:
            self._writer.write(ipc.encode_packet(packet))
        self._issued.clear()
        for packet in self._left():
            self.tell(packet)
        self._give()
        self._reading = asyncio.ensure_future(self._read(reader))
        self._heard = asyncio.get_running_loop().time()
        if self._beating is None:
            self._beating = asyncio.ensure_future(self._beat())

    async def _beat(self) -> None:
        """Ends a worker that does not answer (stopped or stuck), so that another one is started."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            if self._writer is not None:
                self._writer.write(ipc.encode_packet(ipc.Ping()))
                if loop.time() - self._heard > DEAD_SECONDS:
                    self._handle.kill()

    async def close(self) -> None:
        """Waits until all packets are recorded, then ends the worker."""
        self._ending = True
        if self._beating is not None:
            self._beating.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(WORKER_END_SECONDS):
                await self._drained.wait()
        if self._writer is not None:
            self._writer.write_eof()
        if self._reading is not None:
            _, late = await asyncio.wait((self._reading,), timeout=WORKER_END_SECONDS)
            if late:
                self._handle.kill()
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()
        await asyncio.to_thread(self._handle.join)
        for _, place in self._begun.values():
            self._spool.done(place)
        self._spool.close()

    def number(self) -> int:
        return next(self._numbers)

    async def room(self) -> None:
        """Waits while the spool is full and the worker makes progress; then requests are passed on."""
        with suppress(TimeoutError):
            while self._spool.is_crowded:
                self._progress.clear()
                async with asyncio.timeout(ROOM_SECONDS):
                    await self._progress.wait()

    def tell(self, packet: ipc.Recordable) -> None:
        """Queues a packet to be recorded. It is kept until it is, and never waited for."""
        id = next(self._ids)
        try:
            place = self._spool.add(ipc.encode_packet(msgspec.structs.replace(packet, id=id)))
        except Full:
            self.counts["unrecorded"] += 1
            return
        self._unwritten[id] = place
        self._numbered[id] = packet.number, isinstance(packet, ipc.PassedRequest)
        self._unsent.append(id)
        self._give()

    def _give(self) -> None:
        """Sends the worker as much as it takes at once."""
        while self._unsent and self._writer is not None and self._waiting < MAX_UNWRITTEN_BYTES:
            place = self._unwritten[self._unsent.popleft()]
            self._waiting += place.size
            self._writer.write(self._spool.read(place))
        if self._unsent and self._writer is not None:
            self._drained.clear()
        else:
            self._drained.set()

    def _left(self) -> Iterator[ipc.Recordable]:
        """Sends packets left by earlier gateways, under new numbers."""
        for left in self._spool.left():
            numbers: defaultdict[int, int] = defaultdict(self.number)
            for data in left:
                with suppress(msgspec.DecodeError):
                    packet = ipc.to_worker.decode(data)
                    if isinstance(packet, ipc.Recordable):
                        yield msgspec.structs.replace(packet, number=numbers[packet.number])

    def issuing(self, owner: str) -> Callable[[list[str]], None]:
        """A function that records ids which the upstream gave to this owner. If there is no worker, the next
        one gets them."""

        def issued(ids: list[str]) -> None:
            packet = ipc.Issued(owner=owner, ids=ids)
            if self._writer is None:
                self._issued.append(packet)
            else:
                self._writer.write(ipc.encode_packet(packet))

        return issued

    async def ask(self, question: ipc.RewriteRequest | ipc.Recall | ipc.OwnershipCheck) -> ipc.FromWorker:
        if self._writer is None:
            return ipc.WorkerFailure(number=question.number, error="WorkerGone")
        answer = self._asked[question.number] = asyncio.get_running_loop().create_future()
        self._writer.write(ipc.encode_packet(question))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return ipc.WorkerFailure(number=question.number, error="Timeout")
        finally:
            self._asked.pop(question.number, None)

    async def checked(self, packet: ipc.OwnershipCheck) -> bytes:
        """The body as it may be sent; raises `RequestRefused` if the owner may not use what it refers to."""
        answer = await self.ask(packet)
        if isinstance(answer, ipc.RefusedAnswer):
            raise RequestRefused(answer.status, answer.text, answer.kind, code=answer.code)
        if not isinstance(answer, ipc.SendUpstream) or answer.body is None:
            raise RequestRefused(
                503, "the owner of this answer cannot be checked now: try again", "api_error", wait=1
            )
        return answer.body

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for packet in ipc.packets(reader, ipc.from_worker):
            self._heard = asyncio.get_running_loop().time()
            self.counts.update(packet.counts)
            if isinstance(packet, ipc.Done):
                if (place := self._unwritten.pop(packet.id, None)) is not None:
                    self._waiting -= place.size
                    self._written(packet.id, place)
                    self._progress.set()
                    self._give()
            elif (asked := self._asked.get(packet.number)) is not None and not asked.done():
                asked.set_result(packet)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._drained.set()
        if not self._ending:
            await self._gone()

    def _written(self, id: int, place: PacketPosition) -> None:
        """Forgets a recorded packet; a request is kept until its reply is recorded."""
        number, begins = self._numbered.pop(id)
        if begins:
            self._begun[number] = id, place
            if len(self._begun) <= MAX_PENDING_REQUESTS:
                return
            number = next(iter(self._begun))
        else:
            self._spool.done(place)
        if number in self._begun:
            self._spool.done(self._begun.pop(number)[1])

    async def _gone(self) -> None:
        """Handles the end of the worker: the next one gets what was not recorded."""
        self.counts.update(("worker_lost", "desk_lost"))  # the second is its former name
        for number, (id, place) in self._begun.items():
            self._unwritten[id], self._numbered[id] = place, (number, True)
        self._begun.clear()
        self._unsent, self._waiting = deque(sorted(self._unwritten)), 0
        for number, asked in self._asked.items():
            if not asked.done():
                asked.set_result(ipc.WorkerFailure(number=number, error="WorkerGone"))
        await asyncio.sleep(AGAIN_SECONDS)
        await asyncio.to_thread(self._handle.join)
        if not self._ending:
            await self.open()


class WorkerHandle(NamedTuple):
    """A started worker: how to wait for its end, and how to end it."""

    join: Callable[[], object]
    kill: Callable[[], object]


def _thread(there: socket.socket) -> WorkerHandle:
    thread = threading.Thread(target=worker.serve_worker, args=(there,), name="refold-worker", daemon=True)
    thread.start()
    return WorkerHandle(lambda: thread.join(WORKER_END_SECONDS), lambda: None)


def _process(there: socket.socket) -> WorkerHandle:
    with there:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "refold.gateway.worker", str(there.fileno())],
            pass_fds=(there.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C is for the server: the worker ends when that has closed its socket
        )
    return WorkerHandle(process.wait, process.kill)
