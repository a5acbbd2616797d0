"""Where sessions are kept and folded: a thread of its own, so that no stream waits for a store or a fold.

A request that is known to fit is only written down, after it was passed on. One that may be too long is
written down and folded first; where that fails, it is passed on as it is if it can fit, and refused
otherwise.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar, cast

import msgspec

from refold import entries as e
from refold.compaction.overflow import in_error
from refold.compaction.plan import Plan
from refold.compaction.preset import Preset
from refold.engine import Engine
from refold.errors import Conflict, DoesNotFit, OverflowAgain, SettingError, UnknownName
from refold.gateway import replies
from refold.gateway.compaction import Compacted
from refold.gateway.door import Refusal
from refold.gateway.requests import Asked
from refold.gateway.sealed import Seal
from refold.gateway.upstream import Answer
from refold.messages import Assistant, Message, System, Usage
from refold.protocols import SessionInfo, Store
from refold.registry import configuration, models
from refold.registry.configuration import GatewaySettings
from refold.registry.sessions import stored
from refold.session import Session, View
from refold.session.merge import pieces
from refold.stores import open_store

OPEN = 64
"""Sessions that are kept open."""
KNOWN = 4096
"""Lists of messages that are recognised in an open session."""
WINDOW = 128_000
"""Where nobody knows better."""

MARKS = 4
"""Blocks with `cache_control` that Anthropic allows."""

T = TypeVar("T")


@dataclass
class Book:
    """An open session, and where in it each list of messages was asked and answered."""

    session: Session
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])
    answered: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])


@dataclass
class Turn:
    """A request that was written down."""

    asked: Asked
    book: Book
    leaf: str | None
    """Where it stands: its answer comes behind."""


class Prepared(msgspec.Struct, frozen=True):
    """What goes upstream instead; None: what came."""

    turn: Turn
    body: bytes | None = None
    done: str = "pass"


class Desk:
    def __init__(self, settings: GatewaySettings, secret: bytes | None = None) -> None:
        self.settings = settings
        self.counts: Counter[str] = Counter()
        self.seal = Seal(secret or secrets.token_bytes(32))
        self._config = configuration.load()
        self._engines: dict[tuple[str, int], Engine] = {}
        self._books: OrderedDict[str, Book] = OrderedDict()
        self._store: Store | None = None
        self.engine_for("")  # a wrong preset is said at once
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="refold-desk", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """What was handed over is written down first."""

        async def rest() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        self.submit(rest()).result(timeout=30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    # ── which window, which design ──────────────────────────────────────────────────────────────

    def window(self, model: str) -> int:
        rule = self._rule(model)
        if window := (rule.window if rule else None) or self.settings.window:
            return window
        for provider in ("anthropic", "openai"):
            try:
                return models.window(f"{provider}:{model}", self._config)
            except (SettingError, UnknownName):
                continue
        return WINDOW

    def engine_for(self, model: str) -> Engine:
        rule, window = self._rule(model), self.window(model)
        name = (rule.preset if rule else None) or self.settings.preset or self._config.preset or "refold"
        engine = self._engines.get((name, window))
        if engine is None:
            preset: Preset = models.preset(name, {"window": window}, config=self._config)
            engine = Engine(preset, model=models.summariser(self._config))
            self._engines[name, window] = engine
        return engine

    def _rule(self, model: str) -> configuration.GatewayModel | None:
        rules = self.settings.models
        return next((rule for name, rule in rules.items() if fnmatchcase(model, name)), None)

    # ── writing down ────────────────────────────────────────────────────────────────────────────

    async def take(self, asked: Asked) -> Turn | None:
        """Write a request down; None where that fails: recording never disturbs anybody."""
        try:
            book = await self._book(asked.session)
            async with book.lock:
                return self._taken(book, asked)
        except Exception:
            self._lost(asked)
            return None

    async def answered(self, turn: Turn | None, answer: Answer) -> None:
        """Write the answer down, where the request was; what broke off is marked."""
        reply = None if turn is None else replies.read(turn.asked.dialect, answer)
        if turn is None or reply is None:
            return
        cut = reply.cut or not answer.complete
        message = msgspec.structs.replace(reply.message, stop="aborted") if cut else reply.message
        try:
            async with turn.book.lock:
                self._append(turn, message, reply.usage, {"gateway": {"cut": True}} if cut else {})
            self.counts["recorded"] += 1
        except Exception:
            self._lost(turn.asked)

    def _append(self, turn: Turn, message: Assistant, usage: Usage | None, meta: dict[str, Any]) -> None:
        """Behind its request. A client may have gone on before the stream had ended: then it has told us the
        answer already, or is on another branch and stays there."""
        session, known = turn.book.session, turn.book.answered
        entry = session.make(
            e.MessageEntry, message=message, parent=turn.leaf, usage=usage, model=turn.asked.model, meta=meta
        )
        if turn.asked.chain:
            known[turn.asked.chain[-1]] = entry.id
        if session.leaf == turn.leaf:
            session.append(entry)
            return
        at = -1 if turn.leaf is None else session.position(turn.leaf)
        later = None if at is None or at + 1 >= len(session.path) else session.path[at + 1]
        if isinstance(later, e.MessageEntry) and _contents(later.message) == _contents(message):
            known[turn.asked.chain[-1]] = later.id
        else:
            session.extend((entry, session.make(e.Leaf, target=session.leaf)))

    def _taken(self, book: Book, asked: Asked) -> Turn:
        """The same list again is a retry: its answer stands beside the first one. A list that goes on from
        one that we know is looked for on that branch."""
        session, chain = book.session, asked.chain
        session.refresh()
        if asked.since is not None and asked.since not in session:
            text = "the session that this compaction item stands for is gone"
            raise Refusal(400, text, "invalid_request_error", code="invalid_encrypted_content")
        known = next((n for n in range(len(chain), 0, -1) if chain[n - 1] in book.asked), 0)
        if not known and asked.since is not None:
            session.move(asked.since)
        elif known:
            at = chain[known - 1]
            target = book.asked[at]
            if known < len(chain):
                target = book.answered.get(at, target)
            if target is not None and target in session:
                session.move(target)
        before = [] if asked.since is None else session.path_to(asked.since)
        said = [entry.message for entry in before if isinstance(entry, e.MessageEntry)]
        messages = [*said, *asked.messages[_prompts(asked.messages) :]] if said else asked.messages
        session.merge(messages, exactly=True)
        self._know(book, asked)
        return Turn(asked, book, session.leaf)

    def _know(self, book: Book, asked: Asked) -> None:
        if len(book.asked) > KNOWN:
            book.asked.clear()
            book.answered.clear()
        if asked.chain:
            book.asked[asked.chain[-1]] = book.session.leaf

    async def _book(self, id: str) -> Book:
        book = self._books.pop(id, None) or Book(self._open(id))
        self._books[id] = book
        while len(self._books) > OPEN:
            self._books.popitem(last=False)
        return book

    def _open(self, id: str) -> Session:
        if self._store is None:
            self._store = open_store(self.settings.store).store
        try:
            return stored(self._store, id)
        except UnknownName:
            info = SessionInfo(id=id, created=time.time())
            self._store.create(info)
            return Session(id=id, store=self._store, info=info)

    def _lost(self, asked: Asked) -> None:
        """The session is read anew next time."""
        self.counts["unrecorded"] += 1
        self._books.pop(asked.session, None)

    # ── folding ─────────────────────────────────────────────────────────────────────────────────

    async def prepare(self, asked: Asked, *, refused: str | None = None) -> Prepared:
        """The request written down and, where it is too long, folded. `refused`: the upstream said that it
        is. Raises `Refusal` where nothing that fits can be made."""
        for attempt in range(2):
            book = await self._book(asked.session)
            try:
                async with book.lock:
                    return await self._prepare(book, asked, refused)
            except Conflict:  # another program writes to this session, too
                self._books.pop(asked.session, None)
                if attempt:
                    raise
        raise AssertionError("unreachable")

    async def compact(self, asked: Asked, owner: str) -> Compacted:
        """Fold because the client wants it, and a reference to what came of it."""
        book = await self._book(asked.session)
        async with book.lock:
            session, name = self._taken(book, asked).book.session, str(asked.body.get("model") or "")
            engine = self.engine_for(name)
            before = engine.view(session, system=asked.beside).tokens
            plan = await engine.planned(session, force=True, system=asked.beside)
            if isinstance(plan, Plan):
                await engine.apply(session, plan)
            self._know(book, asked)
            after = engine.view(session, system=asked.beside).tokens
            if session.leaf is None:
                raise Refusal(400, "there is nothing to compact", "invalid_request_error")
            self.counts["compacted"] += 1
            return Compacted(self.seal.seal(session.id, session.leaf, owner), name, before, after)

    async def _prepare(self, book: Book, asked: Asked, refused: str | None) -> Prepared:
        turn, session = self._taken(book, asked), book.session
        engine = self.engine_for(str(asked.body.get("model") or ""))
        if refused is not None:
            engine.failed(session, refused, model=asked.model)
        before = engine.view(session, system=asked.beside).tokens
        try:
            view = await engine.prepare(session, system=asked.beside, model=asked.model)
        except (DoesNotFit, OverflowAgain) as error:
            text = f"prompt is too long: {error}"
            code = "context_length_exceeded"
            raise Refusal(400, text, "invalid_request_error", code=code) from error
        self._know(book, asked)
        turn.leaf = session.leaf
        folded = any(item.fold is not None or not item.entries for item in view.items)
        if not folded and asked.since is None:
            return Prepared(turn)
        self.counts["folded"] += 1
        wire = messages_of(view, asked)
        return Prepared(turn, asked.with_messages(wire), f"fold {before} {view.tokens}")


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


def _prompts(messages: Sequence[Message]) -> int:
    kinds = enumerate(messages)
    return next((n for n, message in kinds if not isinstance(message, System)), len(messages))


def _contents(message: Message) -> list[tuple[str, ...]]:
    return [piece.content for piece in pieces([message])]


def is_overflow(status: int, text: str) -> bool:
    """Did the upstream refuse the request for its size, in words that mean nothing else?"""
    sign = in_error(text) if status in (400, 413, 422, 500) else None
    return sign is not None and sign.certain
