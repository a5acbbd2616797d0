"""Notifications of appends to a session (LISTEN), on a separate connection."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psycopg

from refold.errors import StorageError
from refold.stores.postgres.connections import Link, Links, translated

WATCH_LOCK = 0x52464C57  # RFLW
"""Advisory lock per session: watchers share it, and an append sees that it is held."""


class NoNotifications(StorageError):
    """Raised if notifications do not come through this connection."""


class Listener:
    """Watches one session (`protocols.AppendWatch`)."""

    def __init__(self, links: Links, key: Callable[[Link], int]) -> None:
        self._links = links
        self._key = links.run(key)
        self._link = self._listening()

    def wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        try:
            return any(True for _ in self._link.notifies(timeout=timeout, stop_after=1))
        except psycopg.OperationalError:
            self.close()
        self._link = self._listening(max(0.0, deadline - time.monotonic()))
        return True  # something may have come before LISTEN

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._link.close()

    def _listening(self, patience: float = 0.0) -> Link:
        """Opens the channel, then takes the lock: an append that did not see the lock is done by then."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self._listen(self._links.connect())
            except psycopg.Error as error:
                if time.monotonic() > deadline:
                    raise translated(error, self._links.address) from error
                time.sleep(0.1)

    def _listen(self, link: Link) -> Link:
        try:
            if link.local:
                raise NoNotifications("a connection pooler, which passes on no notifications")
            link.say(f"LISTEN refold_{self._key}")
            link.ask(
                "SELECT pg_advisory_lock_shared(%s, (%s::bigint %% 2147483647)::int)", WATCH_LOCK, self._key
            )
        except BaseException:
            link.close()
            raise
        return link
