"""Sessions that are open, and where in them each list of messages was asked and answered."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import msgspec

from refold import entries as e
from refold.engine import Engine
from refold.engine.background import Watch
from refold.errors import Conflict, SessionExists, UnknownName
from refold.gateway.door import Refusal
from refold.gateway.requests import Asked
from refold.messages import Assistant, Message, Thinking, Usage
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.merge import contents, prompts, said_on
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

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self._spec).store
        return self._store

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
                    self.drop(book.session.id)
                    raise
        raise AssertionError("unreachable")

    def of(self, asked: Asked) -> Book:
        """The session of a request, opened or made. The longest unused ones are closed."""
        book = self._entered(asked)
        id = book.session.id
        self._open[id] = book
        self._open.move_to_end(id)
        self._size += asked.size - book.size
        book.size = asked.size
        for id, old in list(self._open.items())[:-1] if self._size > OPEN else ():
            if self._size > OPEN and not old.lock.locked():
                self.drop(id)
        return book

    def _entered(self, asked: Asked) -> Book:
        place = asked.place
        for id in dict.fromkeys((place.usual, place.other)):
            book = self._open.get(id)
            session = self._opened(id, asked) if book is None else book.session
            if session is not None and _maker(session) == place.owner:
                return book or Book(session)
        if place.made:
            raise _gone()
        raise Refusal(409, "another name is needed for this session", "invalid_request_error")

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

    def _opened(self, id: str, asked: Asked) -> Session | None:
        """The session of that id; made where there is none, unless it is known to exist. Whose it is stands
        in it. One without an owner is empty, or from an earlier release if it begins as the request does;
        otherwise it is another program's."""
        place, store = asked.place, self.store
        try:
            session = stored(store, id)
        except UnknownName:
            if place.made:
                return None
            with suppress(SessionExists):  # another program has made it just now
                store.create(SessionInfo(id=id, created=time.time()))
            session = stored(store, id)
        ours = place.made or not session.entries or (place.unmarked and _begins(session, asked.messages))
        if ours and _maker(session) is None:
            session.append(session.make(e.Info, meta={"gateway": {"owner": place.owner}}))
            session = stored(store, id)  # of two who made it at once, the first
        return session


def _maker(session: Session) -> str | None:
    """The owner for whom a gateway made the session."""
    facts = (info.meta.get("gateway") for info in session.annotations(e.Info))
    owners = (cast("dict[str, Any]", known).get("owner") for known in facts if isinstance(known, dict))
    return next((owner for owner in owners if isinstance(owner, str)), None)


def _begins(session: Session, messages: Sequence[Message]) -> bool:
    """Does the session begin as the list does, on any branch?"""
    first = messages[(front := prompts(messages)) : front + 1]
    roots = (session[id] for id in session.children(None))
    said = [[root.message] for root in roots if isinstance(root, e.MessageEntry)]
    return any(contents(root, verbatim=True) == contents(first, verbatim=True) for root in said)


def _gone() -> Refusal:
    text = "the session that this compaction item stands for is gone"
    return Refusal(400, text, "invalid_request_error", code="invalid_encrypted_content")


def watched(book: Book, engine: Engine) -> Watch:
    """What prepares folds of this session ahead, as this engine makes them."""
    if book.watch is None or book.watch.planner is not engine:
        book.watch = engine.watch(book.session)
        book.watch.enter()
    return book.watch


def taken(book: Book, asked: Asked) -> Turn:
    """Write a request down. The same list again is a retry: its answer stands beside the first one. A list
    that goes on from one that we know is looked for on that branch. The path says afterwards what the request
    says, word for word: all that is made of it is the sender's own."""
    session, chain = book.session, asked.chain
    if asked.since is not None and asked.since not in session:
        raise _gone()
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
    said = [] if asked.since is None else [item.message for item in said_on(session.path_to(asked.since))]
    messages = [*said, *asked.messages[prompts(asked.messages) :]] if said else asked.messages
    session.merge(messages, exactly=True, verbatim=True)
    book.know(asked)
    return Turn(asked, session.leaf)


def answered(book: Book, turn: Turn, message: Assistant, usage: Usage | None, meta: dict[str, Any]) -> None:
    """Write an answer down, behind its request. A client may have gone on before the stream had ended, here
    or with another gateway of the same store: then it has told us the answer already, or is on another
    branch and stays there."""
    session = book.session
    message, thoughts = _handed_back(turn.asked, message)
    if thoughts:
        meta = {"gateway": {**meta.get("gateway", {}), "thinking": msgspec.to_builtins(thoughts)}}
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


def _handed_back(asked: Asked, message: Assistant) -> tuple[Assistant, list[Thinking]]:
    """An answer as its client is going to hand it back, and the thinking that will be missing: clients of
    chat completions drop it, unless their list shows otherwise. An answer that was written down in the other
    form is not recognised, and stands there twice."""
    thoughts = [part for part in message.content if isinstance(part, Thinking)]
    parts = (part for said in asked.messages for part in said.parts)
    if asked.dialect != "openai" or any(isinstance(part, Thinking) for part in parts):
        return message, []
    content = tuple(part for part in message.content if not isinstance(part, Thinking))
    return msgspec.structs.replace(message, content=content), thoughts


def _same_answer(session: Session, leaf: str | None, message: Message) -> e.MessageEntry | None:
    said = contents([message], verbatim=True)
    known = (session[id] for id in session.children(leaf))
    answers = (entry for entry in known if isinstance(entry, e.MessageEntry))
    return next((entry for entry in answers if contents([entry.message], verbatim=True) == said), None)


def _end(session: Session, id: str) -> str:
    """Where one goes on from an entry, on its newest branch."""
    while later := session.children(id):
        id = later[-1]
    return id
