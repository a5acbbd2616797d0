"""Looks at a database's locks from another process: `python -m tests.stores.prober DATABASE`.

For every line on standard input answers `held`, or what is missing. It uses no SQLite, only fcntl.
"""

from __future__ import annotations

import fcntl
import os
import sys

SHARED = (0x40000002, 510)
"""Where SQLite readers and writers of a database hold a shared lock as long as they have it open."""
WRITER = (120, 1)
"""The byte of the -shm file that the writer of a WAL database holds."""


def is_held(fd: int, start: int, length: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError:
        return True
    fcntl.lockf(fd, fcntl.LOCK_UN, length, start)
    return False


def main(database: str) -> None:
    main_file = os.open(database, os.O_RDWR)
    shared_memory = os.open(f"{database}-shm", os.O_RDWR)
    for _ in sys.stdin:
        missing = [] if is_held(main_file, *SHARED) else ["database"]
        missing += [] if is_held(shared_memory, *WRITER) else ["writer"]
        print(f"dropped {missing}" if missing else "held", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
