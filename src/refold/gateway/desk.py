"""The desk, where sessions are kept and folded: a process of its own, so that no stream waits for a store or
a fold.

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
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from refold.compaction.overflow import in_error
from refold.errors import RefoldError, StorageError
from refold.gateway import books, replies
from refold.gateway.answers import Answers
from refold.gateway.books import Book, Books, Turn
from refold.gateway.door import Refusal
from refold.gateway.letters import (
    LIMIT,
    Broken,
    Check,
    Done,
    FromDesk,
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
    ToDesk,
    letters,
    packed,
    to_desk,
)
from refold.gateway.requests import Asked
from refold.gateway.stored_ids import References, StoredIds, references

SOON = 4 * 1024 * 1024
"""Bytes that are written down in less time than anybody minds."""


class Desk:
    def __init__(self, opening: Opening, send: Callable[[FromDesk], None]) -> None:
        self._send, self._books = send, Books(opening.settings.store)
        self._answers = Answers(opening, self._books)
        self._ids = StoredIds(lambda: self._books.store)
        self._turns: dict[int, asyncio.Future[Turn | None]] = {}
        self._unwritten: deque[Note | Reply | Question] = deque()
        self._waiting = 0
        """Bytes of them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: asyncio.Task[None] | None = None

    def take(self, letter: ToDesk) -> None:
        """One after the other, so that a reply is written down before the request that follows it. Where much
        waits to be written down, whoever waits for an answer goes first."""
        if isinstance(letter, Ping):
            self._send(Done(number=0))
        elif isinstance(letter, Issued):
            self._keep(letter)
        elif isinstance(letter, Check):
            self._begin(self._answer(letter.number, self._checked(letter)))
        elif isinstance(letter, Recall):
            self._begin(self._answer(letter.number, self._recall(letter)))
        elif isinstance(letter, Question) and self._waiting > SOON:
            self._begin(self._answer(letter.number, self._answer_to(letter)))
        elif not isinstance(letter, Opening):
            self._unwritten.append(letter)
            self._waiting += size_of(letter)
            if self._writing is None:
                self._writing = self._begin(self._write())

    async def finish(self) -> None:
        self._books.ends = asyncio.get_running_loop().time() + books.END_PATIENCE
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(
                0
            )  # those that had ended before are taken off the list in the loop's next round
        await self._books.close()
        await self._answers.windows.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ── writing down ────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """One after the other; what has to wait for a fold of its session lets the next go first."""
        while self._unwritten:
            letter = self._unwritten.popleft()
            self._waiting -= size_of(letter)
            if isinstance(letter, Question):
                self._begin(self._answer(letter.number, self._answer_to(letter)))
                await asyncio.sleep(0)
                continue
            if isinstance(letter, Note):
                work = self._noted(letter, self._turn(letter.number))
            else:
                work = self._answered(letter, self._turns.pop(letter.number, None))
            self._begin(self._counted(letter.id, work))
            await asyncio.sleep(0)
        self._writing = None

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
            asked, _ = self._answers.read(note)
            taken = None if asked is None else await self._taken(asked)
            if not turn.done():
                turn.set_result(taken)
        finally:
            if not turn.done():
                turn.set_result(None)
        return ""

    async def _taken(self, asked: Asked) -> Turn:
        async def write(book: Book) -> Turn:
            return books.taken(book, asked)

        return await self._books.within(asked, write, books.RECORD_PATIENCE)

    async def _answered(self, letter: Reply, waited: asyncio.Future[Turn | None] | None) -> str:
        """Write the answer down, where the request was; what broke off is marked."""
        turn = None if waited is None else await waited
        reply = None if turn is None else replies.read(turn.asked.dialect, letter)
        if turn is None or reply is None:
            return ""
        cut = reply.cut or not letter.complete
        message = msgspec.structs.replace(reply.message, stop="aborted") if cut else reply.message
        meta = {"gateway": {"cut": True}} if cut else {}

        async def write(book: Book) -> None:
            books.answered(book, turn, message, reply.usage, meta)
            self._answers.ahead(book, turn.asked)

        await self._books.within(turn.asked, write, books.RECORD_PATIENCE)
        return "recorded"

    # ── answering ───────────────────────────────────────────────────────────────────────────────

    async def _answer(self, number: int, work: Coroutine[Any, Any, FromDesk]) -> None:
        try:
            answer = await work
        except Refusal as refusal:
            answer = Refused(
                number=number, status=refusal.status, text=refusal.text, kind=refusal.kind, code=refusal.code
            )
        except Exception as error:
            answer = Broken(number=number, error=type(error).__name__)
        self._send(answer)

    async def _answer_to(self, question: Question) -> FromDesk:
        if self._answers.fits(question):  # it was only too long to be looked at by others
            self._begin(self._counted(0, self._noted(question, self._turn(question.number))))
            return Order(number=question.number)
        answer, turn = await self._answers.to(question)
        if turn is not None:
            waited = self._turns[question.number] = asyncio.get_running_loop().create_future()
            waited.set_result(turn)
        return answer

    def _keep(self, letter: Issued) -> None:
        """At once: the next letter may ask for it. Where it cannot be written, this process knows it."""
        try:
            self._ids.put(letter.owner, letter.ids)
        except (RefoldError, OSError):
            self._send(Done(number=0, counts=("unrecorded",)))

    async def _checked(self, letter: Check) -> FromDesk:
        asked = References(b"", letter.ids) if letter.raw is None else references(letter.raw)
        self._ids.check(letter.owner, asked.kept, asked.given)
        return Order(number=letter.number, body=asked.body)

    async def _recall(self, letter: Recall) -> FromDesk:
        waited = self._turns.get(letter.number)
        turn = None if waited is None else await waited
        if turn is None:
            return Broken(number=letter.number, error="UnknownTurn")
        return await self._answers.recalled(letter, turn)


def is_overflow(status: int, text: str) -> bool:
    """Did the upstream refuse the request for its size, in words that mean nothing else?"""
    sign = in_error(text) if status in (200, 400, 413, 422, 500) else None
    return sign is not None and sign.certain


def size_of(letter: Note | Reply | Question) -> int:
    return len(letter.data if isinstance(letter, Reply) else letter.raw)


def serve(line: socket.socket) -> None:
    """Be the desk at this end of a line, until the other is closed."""
    asyncio.run(_serve(line))


async def _serve(line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LIMIT)
    desk: Desk | None = None
    try:
        async for letter in letters(reader, to_desk):
            if isinstance(letter, Opening):
                desk = Desk(letter, lambda answer: writer.write(packed(answer)))
            elif desk is not None:
                desk.take(letter)
        if desk is not None:
            await desk.finish()
    finally:  # whatever happened: the other end learns that nobody is here any more
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # it has its share of the processor, but interrupts no stream
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    serve(socket.socket(fileno=int(sys.argv[1])))
