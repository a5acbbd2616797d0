"""Seeing what others append to an open session, in any store.

```python
watch = watcher.watch(session)
while True:
    if watch.wait(30):              # on an event loop: await asyncio.to_thread(watch.wait, 30)
        session.refresh()
```
"""

from __future__ import annotations

import time

from refold.errors import UsageError
from refold.protocols import AppendWatch, Store, Watches
from refold.session import Session
from refold.stores.rows import LAST_PLACE

POLL_SECONDS = 0.25
"""Polling interval for stores without notifications."""


def watch(session: Session) -> AppendWatch:
    """Watches from now on; `session.refresh()` reads what was appended before."""
    store = session.store
    if store is None:
        raise UsageError("a session in memory has no other writers: open a stored session")
    return store.watch(session.id) if isinstance(store, Watches) else PollingWatch(store, session.id)


class PollingWatch:
    """Watches by polling."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self._session = store, session
        self._seen = self._count()

    def wait(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while (count := self._count()) == self._seen:
            if time.monotonic() >= deadline:
                return False
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        self._seen = count
        return True

    def close(self) -> None:
        """Does nothing."""

    def _count(self) -> int:
        info = self._store.load(self._session, LAST_PLACE).info
        return 0 if info is None else info.entries
