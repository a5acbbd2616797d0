"""The worker keeps and folds sessions, in a separate process, so that no stream waits for a store or a fold.

A request that certainly fits is recorded after it was passed on. One that may be too long is recorded and
folded first; if that fails, it is passed on unchanged if it can fit, and refused otherwise.
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
from refold.gateway import ipc, open_sessions, replies
from refold.gateway.auth import RequestRefused
from refold.gateway.open_sessions import (
    CommitGroup,
    OpenSession,
    OpenSessions,
    RecordedTurn,
    SessionBusy,
    record_answer,
    record_request,
)
from refold.gateway.replies import Recorded
from refold.gateway.request_rewriter import RequestRewriter
from refold.gateway.stored_ids import References, StoredIds, references

SOON = 4 * 1024 * 1024
"""Bytes that can be written without a noticeable delay."""
BATCH = 2 * 1024 * 1024
"""Bytes of requests and replies written in one commit."""


class GatewayWorker:
    def __init__(self, opening: ipc.WorkerSettings, send: Callable[[ipc.FromWorker], None]) -> None:
        self._send, self._open_sessions = send, OpenSessions(opening.settings.store)
        self._rewriter = RequestRewriter(opening, self._open_sessions)
        self._ids = StoredIds(lambda: self._open_sessions.store)
        self._turns: dict[int, asyncio.Future[RecordedTurn | None]] = {}
        self._unwritten: deque[ipc.Recordable | ipc.RewriteRequest] = deque()
        self._waiting = 0
        """Total size of the waiting packets."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: asyncio.Task[None] | None = None

    def take(self, packet: ipc.ToWorker) -> None:
        """Takes packets in order, so that a reply is recorded before the request that follows it. If many
        wait to be recorded, requests that wait for an answer go first."""
        if isinstance(packet, ipc.Ping):
            self._send(ipc.Done(number=0))
        elif isinstance(packet, ipc.Issued):
            self._keep(packet)
        elif isinstance(packet, ipc.OwnershipCheck):
            self._begin(self._answer(packet.number, self._checked(packet)))
        elif isinstance(packet, ipc.Recall):
            self._begin(self._answer(packet.number, self._recall(packet)))
        elif isinstance(packet, ipc.RewriteRequest) and self._waiting > SOON:
            self._begin(self._answer(packet.number, self._answer_to(packet)))
        elif not isinstance(packet, ipc.WorkerSettings):
            self._unwritten.append(packet)
            self._waiting += packet_size(packet)
            if self._writing is None:
                self._writing = self._begin(self._write())

    async def finish(self) -> None:
        self._open_sessions.ends = asyncio.get_running_loop().time() + open_sessions.END_PATIENCE
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # in the loop's next round, those that had ended are off the list
        await self._open_sessions.close()
        await self._rewriter.routing.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ── writing down ────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Writes packets in order, many in one commit. One that waits for a fold is overtaken."""
        while self._unwritten:
            if isinstance(self._unwritten[0], ipc.RewriteRequest):
                question = cast("ipc.RewriteRequest", self._next())
                self._begin(self._answer(question.number, self._answer_to(question)))
            else:
                for packet in self._write_together(self._batch()):
                    self._begin(self._counted(packet.id, self._write_alone(packet)))
            await asyncio.sleep(0)
        self._writing = None

    def _next(self) -> ipc.Recordable | ipc.RewriteRequest:
        packet = self._unwritten.popleft()
        self._waiting -= packet_size(packet)
        return packet

    def _batch(self) -> list[ipc.Recordable]:
        batch, size = list[ipc.Recordable](), 0
        while size < BATCH and self._unwritten and not isinstance(self._unwritten[0], ipc.RewriteRequest):
            size += packet_size(self._unwritten[0])
            batch.append(cast("ipc.Recordable", self._next()))
        return batch

    def _write_together(self, batch: Sequence[ipc.Recordable]) -> Sequence[ipc.Recordable]:
        """Writes packets in one commit. Returns those to be written one by one: their session is being
        folded, their request is missing, or the commit failed."""
        turns: dict[int, RecordedTurn | None] = {}
        written: list[tuple[ipc.Recordable, OpenSession | None]] = []
        alone: list[ipc.Recordable] = []
        try:
            with self._open_sessions.grouped() as sessions:
                for packet in batch:
                    try:
                        written.append((packet, self._write_now(packet, turns, sessions)))
                    except SessionBusy:
                        alone.append(packet)
        except Exception:  # each by itself says what is wrong with it
            return batch
        for packet, opened in written:
            number, turn = packet.number, turns.get(packet.number)
            if isinstance(packet, ipc.UpstreamReply):
                self._turns.pop(number, None)
            elif not self._turn(number).done():
                self._turn(number).set_result(turn)
            if isinstance(packet, ipc.UpstreamReply) and opened is not None and turn is not None:
                self._rewriter.ahead(opened, turn.asked)
            counts = ("recorded",) if isinstance(packet, ipc.UpstreamReply) and opened is not None else ()
            self._send(ipc.Done(number=0, counts=counts, id=packet.id))
        return alone

    def _write_now(
        self,
        packet: ipc.Recordable,
        turns: dict[int, RecordedTurn | None],
        sessions: CommitGroup,
    ) -> OpenSession | None:
        """Writes a packet; its session, or None if there is nothing to write. Raises `SessionBusy`."""
        number = packet.number
        before = self._turn(number) if isinstance(packet, ipc.PassedRequest) else self._turns.get(number)
        if number not in turns and before is not None and before.done():
            turns[number] = before.result()
            if isinstance(packet, ipc.PassedRequest):  # it was a question before
                return None
        if isinstance(packet, ipc.PassedRequest):
            asked, _ = self._rewriter.read(packet)
            opened = None if asked is None else sessions.opened(asked)
            turns[number] = None if opened is None or asked is None else record_request(opened, asked)
            return opened
        if number not in turns and before is not None:
            raise SessionBusy
        turn = turns.get(number)
        reply = None if turn is None else reply_of(packet, turn)
        if turn is None or reply is None:
            return None
        opened = sessions.opened(turn.asked)
        record_answer(opened, turn, reply)
        return opened

    def _write_alone(self, packet: ipc.Recordable) -> Coroutine[Any, Any, str]:
        if isinstance(packet, ipc.PassedRequest):
            return self._noted(packet, self._turn(packet.number))
        return self._answered(packet, self._turns.pop(packet.number, None))

    def _turn(self, number: int) -> asyncio.Future[RecordedTurn | None]:
        return self._turns.setdefault(number, asyncio.get_running_loop().create_future())

    async def _counted(self, id: int, work: Coroutine[Any, Any, str]) -> None:
        """Runs `work` and counts failures, which never delay a request."""
        try:
            happened = await work
        except StorageError:  # it stays where it is kept: the next gateway tries again
            happened, id = "unrecorded", 0
        except Exception:
            happened = "unrecorded"
        counts = (happened,) if happened else ()
        self._send(ipc.Done(number=0, counts=counts, id=id))

    async def _noted(self, note: ipc.ClientRequest, turn: asyncio.Future[RecordedTurn | None]) -> str:
        """Records a request, unless it was recorded when it was rewritten."""
        if turn.done():
            return ""
        taken: RecordedTurn | None = None
        try:
            asked, _ = self._rewriter.read(note)
            if asked is not None:

                async def write(opened: OpenSession) -> RecordedTurn:
                    return record_request(opened, asked)

                taken = await self._open_sessions.within(asked, write, open_sessions.RECORD_PATIENCE)
        finally:
            if not turn.done():
                turn.set_result(taken)
        return ""

    async def _answered(
        self, packet: ipc.UpstreamReply, waited: asyncio.Future[RecordedTurn | None] | None
    ) -> str:
        """Records the answer of a recorded request."""
        turn = None if waited is None else await waited
        reply = None if turn is None else reply_of(packet, turn)
        if turn is None or reply is None:
            return ""

        async def write(opened: OpenSession) -> None:
            record_answer(opened, turn, reply)
            self._rewriter.ahead(opened, turn.asked)

        await self._open_sessions.within(turn.asked, write, open_sessions.RECORD_PATIENCE)
        return "recorded"

    # ── answering ───────────────────────────────────────────────────────────────────────────────

    async def _answer(self, number: int, work: Coroutine[Any, Any, ipc.FromWorker]) -> None:
        try:
            answer = await work
        except RequestRefused as refusal:
            answer = ipc.RefusedAnswer(
                number=number, status=refusal.status, text=refusal.text, kind=refusal.kind, code=refusal.code
            )
        except Exception as error:
            answer = ipc.WorkerFailure(number=number, error=type(error).__name__)
        self._send(answer)

    async def _answer_to(self, question: ipc.RewriteRequest) -> ipc.FromWorker:
        if self._rewriter.fits(question):  # it was only too long to be looked at by others
            self._begin(self._counted(0, self._noted(question, self._turn(question.number))))
            return ipc.SendUpstream(number=question.number)
        answer, turn = await self._rewriter.to(question)
        if turn is not None:
            waited = self._turns[question.number] = asyncio.get_running_loop().create_future()
            waited.set_result(turn)
        return answer

    def _keep(self, packet: ipc.Issued) -> None:
        """Records ids at once: the next packet may refer to them. Else this process remembers them."""
        try:
            self._ids.put(packet.owner, packet.ids)
        except (RefoldError, OSError):
            self._send(ipc.Done(number=0, counts=("unrecorded",)))

    async def _checked(self, packet: ipc.OwnershipCheck) -> ipc.FromWorker:
        asked = References(b"", packet.ids) if packet.raw is None else references(packet.raw)
        self._ids.check(packet.owner, asked.kept, asked.given)
        return ipc.SendUpstream(number=packet.number, body=asked.body)

    async def _recall(self, packet: ipc.Recall) -> ipc.FromWorker:
        waited = self._turns.get(packet.number)
        turn = None if waited is None else await waited
        if turn is None:
            return ipc.WorkerFailure(number=packet.number, error="UnknownTurn")
        return await self._rewriter.recalled(packet, turn)


def is_upstream_overflow(status: int, text: str) -> bool:
    """True if the upstream refused the request for its size, in unambiguous words."""
    sign = in_error(text) if status in (200, 400, 413, 422, 500) else None
    return sign is not None and sign.certain


def reply_of(packet: ipc.UpstreamReply, turn: RecordedTurn) -> Recorded | None:
    """The answer to a request; marked if it broke off."""
    reply = replies.read_reply(turn.asked.dialect, packet)
    if reply is None or (packet.complete and not reply.cut):
        return reply
    return Recorded(msgspec.structs.replace(reply.message, stop="aborted"), reply.usage, cut=True)


def packet_size(packet: ipc.Recordable | ipc.RewriteRequest) -> int:
    return len(packet.data if isinstance(packet, ipc.UpstreamReply) else packet.raw)


def serve_worker(there: socket.socket) -> None:
    """Runs the worker at this end of a socket pair until the other end is closed."""
    asyncio.run(_serve(there))


async def _serve(there: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=there, limit=ipc.READ_AHEAD_BYTES)
    worker: GatewayWorker | None = None
    try:
        async for packet in ipc.packets(reader, ipc.to_worker):
            if isinstance(packet, ipc.WorkerSettings):
                worker = GatewayWorker(packet, lambda answer: writer.write(ipc.encode_packet(answer)))
            elif worker is not None:
                worker.take(packet)
        if worker is not None:
            await worker.finish()
    finally:  # in every case, the other end learns that the worker has ended
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # it has its share of the processor, but interrupts no stream
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    serve_worker(socket.socket(fileno=int(sys.argv[1])))
