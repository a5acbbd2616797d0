"""Open sessions, in which requests and answers are recorded."""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar, cast

import msgspec

from refold import entries as e
from refold.engine.maintenance import Watch
from refold.errors import Conflict, SessionExists, StorageError, UnknownName
from refold.gateway.auth import RequestRefused
from refold.gateway.client_compaction import is_reference_to
from refold.gateway.replies import Recorded
from refold.gateway.requests import ConversationRequest
from refold.messages import Assistant, Message, Thinking
from refold.protocols import Grouping, SessionInfo, Store
from refold.registry.engine import Engine
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.path_digests import digest_at, digests, write_list
from refold.stores import open_store

MAX_OPEN_BYTES = 128 * 1024 * 1024
"""Bytes of requests whose sessions stay open."""
MAX_WRITE_ATTEMPTS = 20
"""How often a write is repeated because another program wrote to the session first."""
STORE_SECONDS = 0.1
"""Timeout of one attempt on a locked store."""
PATIENCE, LONGEST_PAUSE = 15.0, 3.0
"""Seconds to retry a locked store while a client waits, and the longest pause between attempts."""
RECORD_PATIENCE, END_PATIENCE = 300.0, 5.0
"""The same where no client waits; and when the gateway stops."""
RETRY_SECONDS = 0.05
"""Longest pause after the first attempt, and its increase per attempt. Pauses are random, so that two
programs do not collide again."""

T = TypeVar("T")


@dataclass
class OpenSession:
    session: Session
    size: int = 0
    watch: Watch | None = None
    """Prepares folds in advance."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class RecordedTurn:
    asked: ConversationRequest
    leaf: str | None
    """Entry after which the answer is appended."""
    ends: Sequence[bytes] = ()
    """The digests after each of its messages."""
    sent: int = 0
    """Number of its messages that were sent, prompts included."""


class OpenSessions:
    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._store: Store | None = None
        self._open: OrderedDict[str, OpenSession] = OrderedDict()
        self._size = 0
        self._closing: set[asyncio.Task[None]] = set()
        self.ends = inf
        """Time after which failing stores are no longer retried."""

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = open_store(self._spec).store
            if hasattr(self._store, "timeout"):  # all sessions wait meanwhile
                cast("Any", self._store).timeout = STORE_SECONDS
        return self._store

    async def within(
        self,
        asked: ConversationRequest,
        work: Callable[[OpenSession], Awaitable[T]],
        patience: float = PATIENCE,
    ) -> T:
        """Runs `work` on the session of a request, one request at a time. A locked store is retried for
        `patience` seconds; other sessions continue meanwhile."""
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + patience, RETRY_SECONDS
        while True:
            try:
                return await self._within(asked, work)
            except Conflict:
                raise
            except StorageError:
                if loop.time() + pause > min(until, self.ends):
                    raise
            await asyncio.sleep(random.uniform(pause / 2, pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _within(self, asked: ConversationRequest, work: Callable[[OpenSession], Awaitable[T]]) -> T:
        """Runs `work` on the session of a request, one request at a time. If another program has written to
        the session, it is reread and `work` is repeated."""
        opened = self.of(asked)
        async with opened.lock:  # kept while we try: others of this process would only be in our way
            for tried in range(1, MAX_WRITE_ATTEMPTS + 1):
                try:
                    opened.session.refresh()
                    return await work(opened)
                except Conflict:
                    if tried == MAX_WRITE_ATTEMPTS:
                        raise
                    await asyncio.sleep(random.uniform(0, RETRY_SECONDS * tried))
                except RequestRefused:
                    raise
                except Exception:
                    self.drop(asked.session)
                    raise
        raise AssertionError("unreachable")

    def of(self, asked: ConversationRequest) -> OpenSession:
        """The session of a request, opened or created. The least recently used sessions are closed."""
        opened = self._open.get(asked.session) or OpenSession(self._opened(asked))
        self._open[asked.session] = opened
        self._open.move_to_end(asked.session)
        self._size += asked.size - opened.size
        opened.size = asked.size
        for id, old in list(self._open.items())[:-1] if self._size > MAX_OPEN_BYTES else ():
            if self._size > MAX_OPEN_BYTES and not old.lock.locked():
                self.drop(id)
        return opened

    @contextmanager
    def grouped(self) -> Generator[CommitGroup]:
        """Writes within the block are one commit, if the store can; if it fails, sessions are reread."""
        group = CommitGroup(self)
        try:
            store = self.store
            with store.grouped() if isinstance(store, Grouping) else nullcontext():
                yield group
        except BaseException:
            for id in group.ids:
                self.drop(id)
            raise

    def holds(self, owner: str, id: str, entry: str, digest: str) -> bool:
        """True if a session with this id has an entry for which this is the owner's digest."""
        opened = self._open.get(id)
        try:
            session = opened.session if opened is not None else stored(self.store, id)
            return is_reference_to(session, entry, digest, owner)
        except UnknownName:
            return False

    def beside(self, asked: ConversationRequest) -> list[Session]:
        """The sessions of the same owner and name."""
        name = asked.session.rpartition(".")[0]
        ids = [info.id for info in self.store.sessions() if info.id.rpartition(".")[0] == name]
        return [stored(self.store, id) for id in ids]

    def drop(self, id: str) -> None:
        """Closes a session, so that it is reread next time."""
        if (opened := self._open.pop(id, None)) is not None:
            self._size -= opened.size
            if opened.watch is not None:
                self._closing.add(task := asyncio.ensure_future(opened.watch.close()))
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        for id in list(self._open):
            self.drop(id)
        await asyncio.gather(*self._closing)
        if self._store is not None:
            self._store.close()

    def _opened(self, asked: ConversationRequest) -> Session:
        id = asked.session
        try:
            return stored(self.store, id)
        except UnknownName:
            info = SessionInfo(id=id, created=time.time(), name=asked.title, cwd=asked.folder)
            with suppress(SessionExists):  # another program has made it just now
                self.store.create(info)
            return stored(self.store, id)


class SessionBusy(Exception):
    """Raised if a session is in use and the write has to wait."""


class CommitGroup:
    """The sessions written in one commit."""

    def __init__(self, sessions: OpenSessions) -> None:
        self._sessions = sessions
        self.ids: set[str] = set()

    def opened(self, asked: ConversationRequest) -> OpenSession:
        """The session of a request as the store has it; raises `SessionBusy`."""
        opened = self._sessions.of(asked)
        if opened.lock.locked():
            raise SessionBusy
        self.ids.add(asked.session)
        opened.session.refresh()
        return opened


def watched(opened: OpenSession, engine: Engine) -> Watch:
    """The watch that prepares folds of this session with this engine."""
    if opened.watch is None or opened.watch.planner is not engine.planner:
        opened.watch = engine.watch(opened.session)
        opened.watch.enter()
    return opened.watch


def record_request(opened: OpenSession, asked: ConversationRequest) -> RecordedTurn:
    """Records a request. Afterwards the path has exactly the messages of the request, so that nothing else is
    ever shown to its sender. The same list again is a retry: its answer becomes a sibling of the first one.
    """
    session = opened.session
    if asked.since is not None and asked.since not in session:
        text = "the session that this compaction item stands for is gone"
        raise RequestRefused(400, text, "invalid_request_error", code="invalid_encrypted_content")
    ends = write_list(session, asked.messages, asked.since)
    return RecordedTurn(asked, session.leaf, ends)


def record_answer(opened: OpenSession, turn: RecordedTurn, reply: Recorded) -> None:
    """Records an answer after its request. If the client has continued before the end of the stream, here or
    through another gateway, the answer is already recorded or on another branch."""
    session = opened.session
    usage, said_beside = reply.usage, {"cut": True} if reply.cut else dict[str, Any]()
    message, thoughts = _handed_back(turn.asked, reply.message)
    if thoughts:
        said_beside["thinking"] = msgspec.to_builtins(thoughts)
    meta = {"gateway": said_beside} if said_beside else {}
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


def _handed_back(asked: ConversationRequest, message: Assistant) -> tuple[Assistant, list[Thinking]]:
    """An answer in the form in which its client will send it back, and the thinking that will be missing:
    clients of chat completions drop it unless their list shows otherwise. In the other form it would not be
    recognised and be recorded twice."""
    thoughts = [part for part in message.content if isinstance(part, Thinking)]
    parts = (part for said in asked.messages for part in said.parts)
    if asked.dialect != "openai" or any(isinstance(part, Thinking) for part in parts):
        return message, []
    content = tuple(part for part in message.content if not isinstance(part, Thinking))
    return msgspec.structs.replace(message, content=content), thoughts


def _same_answer(session: Session, leaf: str | None, message: Message) -> e.MessageEntry | None:
    said = digests([message], digest_at(session, leaf))[0][-1]
    known = (session[id] for id in session.children(leaf))
    answers = (entry for entry in known if isinstance(entry, e.MessageEntry))
    return next((entry for entry in answers if digest_at(session, entry.id) == said), None)


def _end(session: Session, id: str) -> str:
    """The end of the newest branch below an entry."""
    while later := session.children(id):
        id = later[-1]
    return id
