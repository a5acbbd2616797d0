"""The desk, where sessions are kept and folded: a process of its own, so that no stream waits for a store or
a fold.

A request that is known to fit is only written down, after it was passed on. One that may be too long is
written down and folded first; where that fails, it is passed on as it is if it can fit, and refused
otherwise.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

import msgspec

from refold.compaction.overflow import in_error
from refold.compaction.plan import Plan
from refold.errors import Conflict, DoesNotFit, OverflowAgain
from refold.gateway import books, replies
from refold.gateway.books import Book, Books, Turn
from refold.gateway.compaction import Compacted, expand, is_marked
from refold.gateway.door import Refusal
from refold.gateway.letters import (
    LIMIT,
    Broken,
    Done,
    FromDesk,
    Note,
    Opening,
    Order,
    Question,
    Refused,
    Reply,
    Request,
    Speech,
    ToDesk,
    letters,
    packed,
    to_desk,
)
from refold.gateway.requests import COMPACT, DIALECTS, Asked, model_named, read, since
from refold.gateway.sealed import Seal
from refold.gateway.windows import Windows
from refold.session import View

MARKS = 4
"""Blocks with `cache_control` that Anthropic allows."""


class Desk:
    def __init__(self, opening: Opening, send: Callable[[FromDesk], None]) -> None:
        self.settings, self._send = opening.settings, send
        self._windows, self._seal = Windows(opening.settings), Seal(opening.secret)
        self._books = Books(opening.settings.store)
        self._turns: dict[int, asyncio.Future[Turn | None]] = {}
        self._unwritten: deque[Note | Reply] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: asyncio.Task[None] | None = None

    def take(self, letter: ToDesk) -> None:
        """Whoever waits is served at once; what is only to be written down, one after the other."""
        if isinstance(letter, Question):
            self._begin(self._answer(letter))
        elif isinstance(letter, Note | Reply):
            self._unwritten.append(letter)
            if self._writing is None:
                self._writing = self._begin(self._write())

    async def finish(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._books.close()

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
            if isinstance(letter, Note):
                work = self._noted(letter, self._turn(letter.number))
            else:
                work = self._answered(letter, self._turns.pop(letter.number, None))
            self._begin(self._counted(letter.number, size_of(letter), work))
            await asyncio.sleep(0)
        self._writing = None

    def _turn(self, number: int) -> asyncio.Future[Turn | None]:
        return self._turns.setdefault(number, asyncio.get_running_loop().create_future())

    async def _counted(self, number: int, size: int, work: Coroutine[Any, Any, str]) -> None:
        """Recording never disturbs anybody: what fails is counted."""
        try:
            happened = await work
        except Exception:
            happened = "unrecorded"
        counts = (happened,) if happened else ()
        self._send(Done(number=number, counts=counts, size=size))

    async def _noted(self, note: Request, turn: asyncio.Future[Turn | None]) -> str:
        if turn.done():  # the upstream refused it meanwhile, so it was looked at
            return ""
        try:
            asked, _ = self._read(note)
            turn.set_result(None if asked is None else await self._taken(asked))
        finally:
            if not turn.done():
                turn.set_result(None)
        return ""

    async def _taken(self, asked: Asked) -> Turn:
        try:
            book = self._books.of(asked)
            async with book.lock:
                return books.taken(book, asked)
        except Exception:
            self._books.drop(asked.session)
            raise

    async def _answered(self, letter: Reply, waited: asyncio.Future[Turn | None] | None) -> str:
        """Write the answer down, where the request was; what broke off is marked."""
        turn = None if waited is None else await waited
        reply = None if turn is None else replies.read(turn.asked.dialect, letter)
        if turn is None or reply is None:
            return ""
        cut = reply.cut or not letter.complete
        message = msgspec.structs.replace(reply.message, stop="aborted") if cut else reply.message
        try:
            async with turn.book.lock:
                books.answered(turn, message, reply.usage, {"gateway": {"cut": True}} if cut else {})
        except Exception:
            self._books.drop(turn.asked.session)
            raise
        return "recorded"

    def _read(self, request: Request) -> tuple[Asked | None, bool]:
        """The request, and whether it asks for compaction."""
        asked = read(request.path, request.raw, request.names, request.owner)
        if asked is None or not speaks_compaction(self.settings.protocols, request.path, request.raw):
            return asked, False
        expanded = expand(asked.wire, self._seal, request.owner)
        return since(asked, expanded.items, expanded.reference), expanded.trigger

    # ── answering ───────────────────────────────────────────────────────────────────────────────

    async def _answer(self, question: Question) -> None:
        number = question.number
        try:
            answer = await self._answer_to(question)
        except Refusal as refusal:
            answer = Refused(
                number=number, status=refusal.status, text=refusal.text, kind=refusal.kind, code=refusal.code
            )
        except Exception as error:
            answer = Broken(number=number, error=type(error).__name__)
        self._send(answer)

    async def _answer_to(self, question: Question) -> FromDesk:
        number, raw = question.number, question.raw
        marked = speaks_compaction(self.settings.protocols, question.path, raw)
        fits = len(raw) < self._windows.of(model_named(raw))
        if fits and not marked and question.refused is None:
            self._begin(self._counted(0, 0, self._noted(question, self._turn(number))))
            return Order(number=number)
        asked, trigger = self._read(question)
        if asked is None:
            return Order(number=number, done="pass unread" if not fits else "pass")
        if trigger or question.path == COMPACT:
            return await self._compact(question, asked)
        return await self._prepare(question, asked)

    async def _prepare(self, question: Question, asked: Asked) -> FromDesk:
        """The request written down and, where it is too long, folded. Raises `Refusal` where nothing that
        fits can be made."""
        for attempt in range(2):
            book = self._books.of(asked)
            try:
                async with book.lock:
                    return await self._prepared(book, question, asked)
            except Conflict:  # another program writes to this session, too
                self._books.drop(asked.session)
                if attempt:
                    raise
        raise AssertionError("unreachable")

    async def _prepared(self, book: Book, question: Question, asked: Asked) -> Order:
        turn, session = books.taken(book, asked), book.session
        engine = self._windows.engine_for(str(asked.body.get("model") or ""))
        if question.refused is not None:
            engine.failed(session, question.refused, model=asked.model)
        before = engine.view(session, system=asked.beside).tokens
        try:
            view = await engine.prepare(session, system=asked.beside, model=asked.model)
        except (DoesNotFit, OverflowAgain) as error:
            text = f"prompt is too long: {error}"
            code = "context_length_exceeded"
            raise Refusal(400, text, "invalid_request_error", code=code) from error
        book.know(asked)
        turn.leaf = session.leaf
        waited = self._turns[question.number] = asyncio.get_running_loop().create_future()
        waited.set_result(turn)
        folded = any(item.fold is not None or not item.entries for item in view.items)
        if not folded and asked.since is None:
            return Order(number=question.number)
        body = asked.with_messages(messages_of(view, asked))
        done = f"fold {before} {view.tokens}"
        return Order(number=question.number, body=body, done=done, counts=("folded",))

    async def _compact(self, question: Question, asked: Asked) -> Speech:
        """Fold because the client wants it, and a reference to what came of it."""
        book = self._books.of(asked)
        async with book.lock:
            session, name = books.taken(book, asked).book.session, str(asked.body.get("model") or "")
            engine = self._windows.engine_for(name)
            before = engine.view(session, system=asked.beside).tokens
            plan = await engine.planned(session, force=True, system=asked.beside)
            if isinstance(plan, Plan):
                await engine.apply(session, plan)
            book.know(asked)
            after = engine.view(session, system=asked.beside).tokens
            if session.leaf is None:
                raise Refusal(400, "there is nothing to compact", "invalid_request_error")
            sealed = self._seal.seal(session.id, session.leaf, question.owner)
        compacted = Compacted(sealed, name, before, after)
        body, kind = compacted.said(whole=question.path == COMPACT, stream=bool(asked.body.get("stream")))
        return Speech(
            number=question.number,
            body=body,
            kind=kind,
            done=f"compact {before} {after}",
            counts=("compacted",),
        )


def speaks_compaction(protocols: bool, path: str, raw: bytes) -> bool:
    """Does only a gateway, or the provider itself, understand this request?"""
    return protocols and (path == COMPACT or (DIALECTS[path] == "responses" and is_marked(raw)))


def messages_of(view: View, asked: Asked) -> list[dict[str, Any]]:
    """The view as the list of messages of the request."""
    shown = View(view.items, counter=view.counter, count=lambda: 0)
    if asked.dialect != "anthropic":
        return shown.to(asked.dialect)
    taken = sum(_marks(asked.body.get(key)) for key in ("system", "tools"))
    cached = any(_marks(each.get("content")) for each in asked.wire)
    wire: list[dict[str, Any]] = shown.to_anthropic(cache=cached)["messages"]
    marked = [block for each in wire for block in each["content"] if "cache_control" in block]
    for block in marked[: max(0, len(marked) + taken - MARKS)]:
        del block["cache_control"]
    return wire


def _marks(blocks: Any) -> int:
    """Blocks after which the client wants a cache kept."""
    listed = cast("list[Any]", blocks) if isinstance(blocks, list) else []
    return sum(isinstance(block, dict) and "cache_control" in block for block in listed)


def is_overflow(status: int, text: str) -> bool:
    """Did the upstream refuse the request for its size, in words that mean nothing else?"""
    sign = in_error(text) if status in (200, 400, 413, 422, 500) else None
    return sign is not None and sign.certain


def size_of(letter: Note | Reply) -> int:
    return len(letter.raw if isinstance(letter, Note) else letter.data)


def serve(line: socket.socket) -> None:
    """Be the desk at this end of a line, until the other is closed."""
    asyncio.run(_serve(line))


async def _serve(line: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=line, limit=LIMIT)
    desk: Desk | None = None
    async for letter in letters(reader, to_desk):
        if isinstance(letter, Opening):
            desk = Desk(letter, lambda answer: writer.write(packed(answer)))
        elif desk is not None:
            desk.take(letter)
    if desk is not None:
        await desk.finish()
    writer.close()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
