"""The worker, which keeps and folds sessions: a process of its own, so that no stream waits for a store or a
fold.

A request that is known to fit is only written down, after it was passed on. One that may be too long is
written down and folded first; where that fails, it is passed on as it is if it can fit, and refused
otherwise.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from refold.compaction.overflow import in_error
from refold.errors import RefoldError, StorageError
from refold.gateway import open_sessions, replies
from refold.gateway.auth import Refusal
from refold.gateway.ipc import (
    LIMIT,
    Broken,
    Check,
    Done,
    FromWorker,
    Issued,
    Note,
    Opening,
    Order,
    Ping,
    Question,
    Recall,
    Refused,
    Reply,
    Request,
    ToWorker,
    packed,
    packets,
    to_worker,
)
from refold.gateway.open_sessions import Group, Later, OpenSession, OpenSessions, Turn, answered, taken
from refold.gateway.replies import Recorded
from refold.gateway.request_rewriter import RequestRewriter
from refold.gateway.requests import Asked
from refold.gateway.stored_ids import References, StoredIds, references

SOON = 4 * 1024 * 1024
"""Bytes that are written down in less time than anybody minds."""
BATCH = 2 * 1024 * 1024
"""Bytes of requests and replies that are written in one commit."""


class Worker:
    def __init__(self, opening: Opening, send: Callable[[FromWorker], None]) -> None:
        self._send, self._open_sessions = send, OpenSessions(opening.settings.store)
        self._rewriter = RequestRewriter(opening, self._open_sessions)
        self._ids = StoredIds(lambda: self._open_sessions.store)
        self._turns: dict[int, asyncio.Future[Turn | None]] = {}
        self._unwritten: deque[Note | Reply | Question] = deque()
        self._waiting = 0
        """Bytes of them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: asyncio.Task[None] | None = None

    def take(self, packet: ToWorker) -> None:
        """One after the other, so that a reply is written down before the request that follows it. Where much
        waits to be written down, whoever waits for an answer goes first."""
        if isinstance(packet, Ping):
            self._send(Done(number=0))
        elif isinstance(packet, Issued):
            self._keep(packet)
        elif isinstance(packet, Check):
            self._begin(self._answer(packet.number, self._checked(packet)))
        elif isinstance(packet, Recall):
            self._begin(self._answer(packet.number, self._recall(packet)))
        elif isinstance(packet, Question) and self._waiting > SOON:
            self._begin(self._answer(packet.number, self._answer_to(packet)))
        elif not isinstance(packet, Opening):
            self._unwritten.append(packet)
            self._waiting += size_of(packet)
            if self._writing is None:
                self._writing = self._begin(self._write())

    async def finish(self) -> None:
        self._open_sessions.ends = asyncio.get_running_loop().time() + open_sessions.END_PATIENCE
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(
                0
            )  # those that had ended before are taken off the list in the loop's next round
        await self._open_sessions.close()
        await self._rewriter.routing.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ── writing down ────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """One after the other, many in one commit; what has to wait for a fold of its session lets the next
        go first."""
        while self._unwritten:
            if isinstance(self._unwritten[0], Question):
                question = cast("Question", self._next())
                self._begin(self._answer(question.number, self._answer_to(question)))
            else:
                for packet in self._write_together(self._batch()):
                    self._begin(self._counted(packet.id, self._write_alone(packet)))
            await asyncio.sleep(0)
        self._writing = None

    def _next(self) -> Note | Reply | Question:
        packet = self._unwritten.popleft()
        self._waiting -= size_of(packet)
        return packet

    def _batch(self) -> list[Note | Reply]:
        batch, size = list[Note | Reply](), 0
        while size < BATCH and self._unwritten and not isinstance(self._unwritten[0], Question):
            size += size_of(self._unwritten[0])
            batch.append(cast("Note | Reply", self._next()))
        return batch

    def _write_together(self, batch: Sequence[Note | Reply]) -> Sequence[Note | Reply]:
        """Write packets in one commit; returns those that have to be written one by one: their session is
        being folded, their request is not there yet, or the commit failed."""
        turns: dict[int, Turn | None] = {}
        written: list[tuple[Note | Reply, OpenSession | None]] = []
        alone: list[Note | Reply] = []
        try:
            with self._open_sessions.grouped() as sessions:
                for packet in batch:
                    try:
                        written.append((packet, self._write_now(packet, turns, sessions)))
                    except Later:
                        alone.append(packet)
        except Exception:  # each by itself says what is wrong with it
            return batch
        for packet, opened in written:
            number, turn = packet.number, turns.get(packet.number)
            if isinstance(packet, Reply):
                self._turns.pop(number, None)
            elif not self._turn(number).done():
                self._turn(number).set_result(turn)
            if isinstance(packet, Reply) and opened is not None and turn is not None:
                self._rewriter.ahead(opened, turn.asked)
            counts = ("recorded",) if isinstance(packet, Reply) and opened is not None else ()
            self._send(Done(number=0, counts=counts, id=packet.id))
        return alone

    def _write_now(
        self, packet: Note | Reply, turns: dict[int, Turn | None], sessions: Group
    ) -> OpenSession | None:
        """The session to which it was written; None: there is nothing to write. Raises `Later`."""
        number = packet.number
        before = self._turn(number) if isinstance(packet, Note) else self._turns.get(number)
        if number not in turns and before is not None and before.done():
            turns[number] = before.result()
            if isinstance(packet, Note):  # it was a question before
                return None
        if isinstance(packet, Note):
            asked, _ = self._rewriter.read(packet)
            opened = None if asked is None else sessions.opened(asked)
            turns[number] = None if opened is None or asked is None else taken(opened, asked)
            return opened
        if number not in turns and before is not None:
            raise Later
        turn = turns.get(number)
        reply = None if turn is None else reply_of(packet, turn)
        if turn is None or reply is None:
            return None
        opened = sessions.opened(turn.asked)
        answered(opened, turn, reply)
        return opened

    def _write_alone(self, packet: Note | Reply) -> Coroutine[Any, Any, str]:
        if isinstance(packet, Note):
            return self._noted(packet, self._turn(packet.number))
        return self._answered(packet, self._turns.pop(packet.number, None))

    def _turn(self, number: int) -> asyncio.Future[Turn | None]:
        return self._turns.setdefault(number, asyncio.get_running_loop().create_future())

    async def _counted(self, id: int, work: Coroutine[Any, Any, str]) -> None:
        """Recording never disturbs anybody: what fails is counted."""
        try:
            happened = await work
        except StorageError:  # it stays where it is kept: the next gateway tries again
            happened, id = "unrecorded", 0
        except Exception:
            happened = "unrecorded"
        counts = (happened,) if happened else ()
        self._send(Done(number=0, counts=counts, id=id))

    async def _noted(self, note: Request, turn: asyncio.Future[Turn | None]) -> str:
        """Where it was a question before, it is written down already."""
        if turn.done():
            return ""
        try:
            asked, _ = self._rewriter.read(note)
            taken = None if asked is None else await self._taken(asked)
            if not turn.done():
                turn.set_result(taken)
        finally:
            if not turn.done():
                turn.set_result(None)
        return ""

    async def _taken(self, asked: Asked) -> Turn:
        async def write(opened: OpenSession) -> Turn:
            return taken(opened, asked)

        return await self._open_sessions.within(asked, write, open_sessions.RECORD_PATIENCE)

    async def _answered(self, packet: Reply, waited: asyncio.Future[Turn | None] | None) -> str:
        """Write the answer down, where the request was."""
        turn = None if waited is None else await waited
        reply = None if turn is None else reply_of(packet, turn)
        if turn is None or reply is None:
            return ""

        async def write(opened: OpenSession) -> None:
            answered(opened, turn, reply)
            self._rewriter.ahead(opened, turn.asked)

        await self._open_sessions.within(turn.asked, write, open_sessions.RECORD_PATIENCE)
        return "recorded"

    # ── answering ───────────────────────────────────────────────────────────────────────────────

    async def _answer(self, number: int, work: Coroutine[Any, Any, FromWorker]) -> None:
        try:
            answer = await work
        except Refusal as refusal:
            answer = Refused(
                number=number, status=refusal.status, text=refusal.text, kind=refusal.kind, code=refusal.code
            )
        except Exception as error:
            answer = Broken(number=number, error=type(error).__name__)
        self._send(answer)

    async def _answer_to(self, question: Question) -> FromWorker:
        if self._rewriter.fits(question):  # it was only too long to be looked at by others
            self._begin(self._counted(0, self._noted(question, self._turn(question.number))))
            return Order(number=question.number)
        answer, turn = await self._rewriter.to(question)
        if turn is not None:
            waited = self._turns[question.number] = asyncio.get_running_loop().create_future()
            waited.set_result(turn)
        return answer

    def _keep(self, packet: Issued) -> None:
        """At once: the next packet may ask for it. Where it cannot be written, this process knows it."""
        try:
            self._ids.put(packet.owner, packet.ids)
        except (RefoldError, OSError):
            self._send(Done(number=0, counts=("unrecorded",)))

    async def _checked(self, packet: Check) -> FromWorker:
        asked = References(b"", packet.ids) if packet.raw is None else references(packet.raw)
        self._ids.check(packet.owner, asked.kept, asked.given)
        return Order(number=packet.number, body=asked.body)

    async def _recall(self, packet: Recall) -> FromWorker:
        waited = self._turns.get(packet.number)
        turn = None if waited is None else await waited
        if turn is None:
            return Broken(number=packet.number, error="UnknownTurn")
        return await self._rewriter.recalled(packet, turn)


def is_overflow(status: int, text: str) -> bool:
    """Did the upstream refuse the request for its size, in words that mean nothing else?"""
    sign = in_error(text) if status in (200, 400, 413, 422, 500) else None
    return sign is not None and sign.certain


def reply_of(packet: Reply, turn: Turn) -> Recorded | None:
    """The answer to a request; what broke off is marked."""
    reply = replies.read(turn.asked.dialect, packet)
    if reply is None or (packet.complete and not reply.cut):
        return reply
    return Recorded(msgspec.structs.replace(reply.message, stop="aborted"), reply.usage, cut=True)


def size_of(packet: Note | Reply | Question) -> int:
    return len(packet.data if isinstance(packet, Reply) else packet.raw)


def serve(there: socket.socket) -> None:
    """Run the worker at this end of a pair of sockets, until the other is closed."""
    asyncio.run(_serve(there))


async def _serve(there: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=there, limit=LIMIT)
    worker: Worker | None = None
    try:
        async for packet in packets(reader, to_worker):
            if isinstance(packet, Opening):
                worker = Worker(packet, lambda answer: writer.write(packed(answer)))
            elif worker is not None:
                worker.take(packet)
        if worker is not None:
            await worker.finish()
    finally:  # whatever happened: the other end learns that nobody is here any more
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # it has its share of the processor, but interrupts no stream
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    serve(socket.socket(fileno=int(sys.argv[1])))
