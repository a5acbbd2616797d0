"""Sessions that are open, and where in them each list of messages was asked and answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from refold import entries as e
from refold.engine import Engine
from refold.engine.background import Watch
from refold.errors import Conflict, SessionExists, UnknownName
from refold.gateway.door import Refusal
from refold.gateway.requests import Asked
from refold.messages import Assistant, Message, Usage
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.merge import contents, prompts
from refold.stores import open_store

OPEN = 128 * 1024 * 1024
"""Bytes of requests whose sessions are kept open."""
KNOWN = 4096
"""Lists of messages that are recognised in an open session."""
TRIES = 20
"""How often something is written anew because another program wrote to the same session first."""
PAUSE = 0.05
"""Seconds after the first try, at most, and so much longer after each: by chance, so that two programs do not
meet again."""

T = TypeVar("T")


@dataclass
class Book:
    """An open session, and where in it each list of messages was asked and answered."""

    session: Session
    size: int = 0
    watch: Watch | None = None
    """Prepares folds ahead."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])
    answered: dict[bytes, str | None] = field(default_factory=dict[bytes, "str | None"])

    def know(self, asked: Asked) -> None:
        """The list stands where the leaf is."""
        if len(self.asked) > KNOWN:
            self.asked.clear()
            self.answered.clear()
        if asked.chain:
            self.asked[asked.chain[-1]] = self.session.leaf


@dataclass
class Turn:
    """A request that was written down."""

    asked: Asked
    leaf: str | None
    """Where it stands: its answer comes behind."""


class Books:
    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._store: Store | None = None
        self._open: OrderedDict[str, Book] = OrderedDict()
        self._size = 0
        self._closing: set[asyncio.Task[None]] = set()

    async def within(self, asked: Asked, work: Callable[[Book], Awaitable[T]]) -> T:
        """Do something to the session of a request, nobody else of this process being in it. Where another
        program has written to it meanwhile, that is read and all is done anew: nothing goes unrecorded."""
        book = self.of(asked)
        async with book.lock:  # kept while we try: others of this process would only be in our way
            for tried in range(1, TRIES + 1):
                try:
                    book.session.refresh()
                    return await work(book)
                except Conflict:
                    if tried == TRIES:
                        raise
                    await asyncio.sleep(random.uniform(0, PAUSE * tried))
                except Refusal:
                    raise
                except Exception:
                    self.drop(asked.session)
                    raise
        raise AssertionError("unreachable")

    def of(self, asked: Asked) -> Book:
        """The session of a request, opened or made. The longest unused ones are closed."""
        book = self._open.get(asked.session) or Book(self._opened(asked.session))
        self._open[asked.session] = book
        self._open.move_to_end(asked.session)
        self._size += asked.size - book.size
        book.size = asked.size
        for id, old in list(self._open.items())[:-1] if self._size > OPEN else ():
            if self._size > OPEN and not old.lock.locked():
                self.drop(id)
        return book

    def drop(self, id: str) -> None:
        """It is read anew next time."""
        if (book := self._open.pop(id, None)) is not None:
            self._size -= book.size
            if book.watch is not None:
                self._closing.add(task := asyncio.ensure_future(book.watch.close()))
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for id in list(self._open):
            self.drop(id)
        await asyncio.gather(*self._closing)
        if self._store is not None:
            self._store.close()

    def _opened(self, id: str) -> Session:
        if self._store is None:
            self._store = open_store(self._spec).store
        try:
            return stored(self._store, id)
        except UnknownName:
            with suppress(SessionExists):  # another program has made it just now
                self._store.create(SessionInfo(id=id, created=time.time()))
            return stored(self._store, id)


def watched(book: Book, engine: Engine) -> Watch:
    """What prepares folds of this session ahead, as this engine makes them."""
    if book.watch is None or book.watch.planner is not engine:
        book.watch = engine.watch(book.session)
        book.watch.enter()
    return book.watch


def taken(book: Book, asked: Asked) -> Turn:
    """Write a request down. The same list again is a retry: its answer stands beside the first one. A list
    that goes on from one that we know is looked for on that branch."""
    session, chain = book.session, asked.chain
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
    messages = [*said, *asked.messages[prompts(asked.messages) :]] if said else asked.messages
    session.merge(messages, exactly=True)
    book.know(asked)
    return Turn(asked, session.leaf)


def answered(book: Book, turn: Turn, message: Assistant, usage: Usage | None, meta: dict[str, Any]) -> None:
    """Write an answer down, behind its request. A client may have gone on before the stream had ended, here
    or with another gateway of the same store: then it has told us the answer already, or is on another
    branch and stays there."""
    session = book.session
    entry = session.make(
        e.MessageEntry, message=message, parent=turn.leaf, usage=usage, model=turn.asked.model, meta=meta
    )
    same = _same_answer(session, turn.leaf, message)
    if same is not None:
        if usage is not None and same.usage is None:  # a client does not say what it cost
            value = msgspec.to_builtins(usage)
            session.append(session.make(e.State, target=same.id, name="usage", value=value))
        if session.leaf == turn.leaf:
            session.move(_end(session, same.id))
    elif session.leaf == turn.leaf:
        session.append(entry)
    else:
        session.extend((entry, session.make(e.Leaf, target=session.leaf)))
    if turn.asked.chain:
        book.answered[turn.asked.chain[-1]] = (same or entry).id


def _same_answer(session: Session, leaf: str | None, message: Message) -> e.MessageEntry | None:
    said = contents([message])
    known = (session[id] for id in session.children(leaf))
    answers = (entry for entry in known if isinstance(entry, e.MessageEntry))
    return next((entry for entry in answers if contents([entry.message]) == said), None)


def _end(session: Session, id: str) -> str:
    """Where one goes on from an entry, on its newest branch."""
    while later := session.children(id):
        id = later[-1]
    return id
