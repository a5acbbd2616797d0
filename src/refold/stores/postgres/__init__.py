"""Sessions in PostgreSQL: `postgres://USER:PASSWORD@HOST:PORT/DATABASE[?schema=NAME]`, for many processes and
hosts (`pip install "refold[postgres]"`). Missing parts of the URL come from libpq's variables (`PGHOST` …).
"""

from __future__ import annotations

from refold.errors import StorageError
from refold.stores import Opened


def opened(rest: str) -> Opened:
    try:
        from refold.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("psycopg"):
            raise
        raise StorageError('PostgreSQL needs psycopg: run pip install "refold[postgres]" first') from None
    return Opened(PostgresStore(f"postgresql:{rest or '//'}"))
