"""Connections to one PostgreSQL database: a few, shared by the threads of a process, none across a fork.

Every wait has a limit: connecting, a statement, a lock, a missing answer, a free connection. A call whose
connection broke is repeated on another one until its time is over; after a COMMIT, it first checks whether
that was done (`Unanswered`).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict

from refold.errors import FormatError, ReadOnly, RefoldError, StorageError
from refold.stores import forks

T = TypeVar("T")
CONNECT = 10
"""Connection timeout in seconds."""
IDLE = 15
"""Seconds that a transaction may be idle, after which others get its locks."""
_AGAIN = ("23505", "25P03", "40001", "40P01", "53300", "57P01", "57P02", "57P03")
"""Server error codes after which another attempt may succeed: a restart, no resources, a deadlock, or another
writer at the same place in a session with damaged counts."""


class Unanswered(psycopg.OperationalError):
    """Raised if the connection broke after COMMIT was sent, so that the result is unknown. The repeated call
    checks first."""


class Address:
    """The parts of a URL. Only `conninfo` has the password; `str` is for messages."""

    def __init__(self, url: str) -> None:
        base, mark, query = url.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        self.schema = options.pop("schema", "") or "refold"
        user, _, rest = base.removeprefix("postgresql://").rpartition("@")
        try:
            if "/" in user or "@" in rest:
                raise psycopg.ProgrammingError("percent-encode reserved characters in the password")
            self.conninfo = base + (mark + urlencode(options) if options else "")
            parts = conninfo_to_dict(self.conninfo)
            self.timeout = int(parts.get("connect_timeout") or CONNECT)
        except (psycopg.Error, ValueError):  # its text may quote a part of the password
            raise StorageError(
                "not a URL of a PostgreSQL database: use postgres://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with signs such as / @ # of a password as %2F %40 %23"
            ) from None
        host, port = parts.get("host") or parts.get("hostaddr") or "", parts.get("port")
        user = f"{parts['user']}@" if parts.get("user") else ""
        self._text = (
            f"postgresql://{user}{host}{f':{port}' if port else ''}/{parts.get('dbname') or ''}"
        ) + ("" if self.schema == "refold" else f"?schema={self.schema}")

    def __str__(self) -> str:
        return self._text


class Link(psycopg.Connection[tuple[Any, ...]]):
    """A connection with timeouts."""

    address: Address
    limit: float = 60.0
    local: str = ""
    """Settings to repeat in each transaction, where a pooler may switch connections."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.limit)
        except errors._WaitTimeout:
            self.pgconn.finish()  # what comes now would be taken for the answer to something else
            raise psycopg.OperationalError(f"no answer for {self.limit:g} seconds") from None

    def say(self, sql: str) -> None:
        """Runs statements without a result."""
        self.execute(sql.encode()).close()

    def begin(self, how: str = "") -> None:
        self.say(f"BEGIN {how}; {self.local}")

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a result, in binary format."""
        if self.local and self.info.transaction_status == pq.TransactionStatus.IDLE:
            with transaction(self):
                return self.ask(sql, *values)
        with self.cursor(binary=True) as cursor:
            cursor.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


class Links:
    def __init__(
        self, address: Address, *, timeout: float, size: int, set_up: Callable[[Link], None]
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._size = size
        self._set_up = set_up
        self._idle: list[Link] = []
        self._every: weakref.WeakSet[Link] = weakref.WeakSet()
        self._reached = False
        """True if it was ever reached: a restarting server is waited for, a missing one is not."""
        self._room = threading.BoundedSemaphore(size)
        self._local = threading.local()
        """The connection of a thread's group."""
        forks.call_after_fork(self)
        weakref.finalize(self, _drain, self._idle)

    def run(self, work: Callable[[Link], T]) -> T:
        """The result of `work` with a connection; repeated if the connection breaks or the server asks for
        it."""
        deadline, pause = time.monotonic() + self.timeout, 0.01
        group: Link | None = getattr(self._local, "link", None)
        while True:
            try:
                if group is not None:
                    return work(group)
                with self._use(deadline) as link:
                    return work(link)
            except psycopg.Error as error:
                if group is not None or not self._is_worth_it(error) or time.monotonic() + pause > deadline:
                    raise translated(error, self.address) from error
            time.sleep(pause)
            pause = min(0.25, pause * 2)

    @contextlib.contextmanager
    def grouped(self) -> Generator[None]:
        """One transaction for everything that this thread does within the block. It is not repeated."""
        try:
            with self._use(time.monotonic() + self.timeout) as link, transaction(link):
                self._local.link = link
                try:
                    yield
                finally:
                    self._local.link = None
        except psycopg.Error as error:
            raise translated(error, self.address) from error

    def connect(self) -> Link:
        """A connection that the caller keeps."""
        link = Link.connect(
            self.address.conninfo,
            autocommit=True,
            connect_timeout=self.address.timeout,
            application_name="refold",
            client_encoding="UTF8",
        )
        try:
            link.address, link.limit = self.address, self.timeout + IDLE
            self._every.add(link)
            self._set_up(link)
        except BaseException:
            link.close()
            raise
        self._reached = True
        return link

    def close(self) -> None:
        _drain(self._idle)

    def after_fork(self) -> None:
        """Called in a forked child. The connections are the parent's: using one would corrupt it, and keeping
        it open would hide the parent's end from the server."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for link in self._every:
            with contextlib.suppress(psycopg.Error):
                os.dup2(nowhere, link.fileno())
                link.close()  # no goodbye is sent
        os.close(nowhere)
        self._idle.clear()
        self._every = weakref.WeakSet()
        self._room = threading.BoundedSemaphore(self._size)

    @contextlib.contextmanager
    def _use(self, deadline: float) -> Generator[Link]:
        if not self._room.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise StorageError(f"all {self._size} connections to {self.address} are in use; try again later")
        room = self._room  # a child of a fork has another one
        try:
            link = self._waiting() or self.connect()
            try:
                yield link
            finally:
                if link.closed or link.info.transaction_status != pq.TransactionStatus.IDLE:
                    link.close()
                    self.close()  # what broke this one may have broken those that wait
                elif room is self._room:
                    self._idle.append(link)
        finally:
            room.release()

    def _waiting(self) -> Link | None:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return None

    def _is_worth_it(self, error: psycopg.Error) -> bool:
        if error.sqlstate is None:
            return self._reached and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return error.sqlstate in _AGAIN or (error.sqlstate.startswith("08") and self._reached)


def _drain(idle: list[Link]) -> None:
    while idle:
        with contextlib.suppress(psycopg.Error, IndexError):
            idle.pop().close()


@contextlib.contextmanager
def transaction(link: Link) -> Generator[None]:
    """A transaction: committed when the block ends, rolled back if it fails. If the connection breaks before
    COMMIT, nothing was done. Nested ones are part of the outer one."""
    if link.info.transaction_status != pq.TransactionStatus.IDLE:
        with _savepoint(link):
            yield
        return
    link.begin()
    try:
        yield
    except BaseException:
        _roll_back(link)
        raise
    try:
        link.say("COMMIT")
    except psycopg.OperationalError as error:
        raise Unanswered(str(error)) from error


@contextlib.contextmanager
def _savepoint(link: Link) -> Generator[None]:
    link.say("SAVEPOINT part")
    try:
        yield
    except BaseException:
        link.say("ROLLBACK TO part; RELEASE part")
        raise
    link.say("RELEASE part")


@contextlib.contextmanager
def snapshot(link: Link) -> Generator[None]:
    """All statements of the block see the same state; within a transaction, that of the transaction."""
    if link.info.transaction_status != pq.TransactionStatus.IDLE:
        yield
        return
    link.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        yield
    finally:
        _roll_back(link)


def _roll_back(link: Link) -> None:
    with contextlib.suppress(psycopg.Error):
        if link.info.transaction_status != pq.TransactionStatus.IDLE:
            link.say("ROLLBACK")


def translated(error: psycopg.Error, where: Address) -> RefoldError:
    code = error.sqlstate or ""
    text = (error.diag.message_primary or str(error)).strip().replace("\n", "; ")
    if isinstance(error, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
        return ReadOnly(
            f"{where} may only be read by this role ({text}): ask for the right to write, or read"
        )
    if code == "42P07":
        return StorageError(f"{where} has tables of another program: name another schema with ?schema=NAME")
    if code == "55P03":
        return StorageError(f"{where} has been in use by another process for too long; try again later")
    if code == "57014":
        return StorageError(f"{where} took too long; nothing was added. Try again later")
    if code == "53100":
        return StorageError(f"the disk of {where} is full, nothing was added: free some space and try again")
    if code.startswith("XX"):
        return FormatError(f"{where} is damaged ({text}): run `refold sessions doctor`")
    if not code or code.startswith("08") or code in _AGAIN:
        return StorageError(
            f"{where} cannot be reached ({text}): check the server, the role and the database"
        )
    return StorageError(f"{where}: {text}")
