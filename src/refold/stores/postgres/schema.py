"""The tables of a PostgreSQL store, their version, and migrations.

Texts and lines are `bytea`, because PostgreSQL's text type accepts neither NUL nor lone surrogates. A
session's entries are in one of `PARTS` partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from refold.errors import StorageError
from refold.stores.postgres.connections import IDLE, Link, transaction
from refold.stores.schema import hashed, migrate

SCHEMA_VERSION = 1
PARTITIONS = 16
"""Number of partitions. Forgetting rewrites one of them, and none gets too large to maintain."""
SCHEMA_LOCK = 0x52464C44  # RFLD

TABLES = """
CREATE TABLE about(version integer NOT NULL);
INSERT INTO about VALUES (0);
CREATE TABLE sessions(
  key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id bytea NOT NULL UNIQUE,
  created double precision NOT NULL, updated double precision NOT NULL, name bytea, cwd bytea,
  entries bigint NOT NULL DEFAULT 0, bytes bigint NOT NULL DEFAULT 0, bad bigint NOT NULL DEFAULT 0, tip bytea
) WITH (fillfactor = 50);
CREATE TABLE entries(
  session bigint NOT NULL, place bigint NOT NULL, id bytea, version integer NOT NULL, line bytea NOT NULL,
  words tsvector, PRIMARY KEY (session, place)
) PARTITION BY HASH (session);
"""
PARTITION_SQL = (
    "CREATE TABLE entries_{n} PARTITION OF entries FOR VALUES WITH (MODULUS {parts}, REMAINDER {n});"
)
WORDS_INDEX = "CREATE INDEX IF NOT EXISTS entries_words ON entries USING gin (words);"

MIGRATIONS: dict[int, Callable[[Link], None]] = {}
"""`MIGRATIONS[n]` upgrades tables of version n to n + 1, in a transaction that is kept only if every line is
still there."""


def prepare_tables(link: Link, schema: str, timeout: float) -> None:
    """Sets up a connection; creates the tables in a new schema and upgrades older ones."""
    _settle(link, schema, timeout)
    if version(link, schema) == SCHEMA_VERSION:
        return
    with transaction(link):
        link.ask(
            "SELECT pg_advisory_xact_lock(%s)", SCHEMA_LOCK
        )  # of many who come to a new database, one makes it
        if version(link, schema) is None:
            link.say(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)};" + TABLES)
            link.say(
                "".join(PARTITION_SQL.format(n=n, parts=PARTITIONS) for n in range(PARTITIONS)) + WORDS_INDEX
            )
            link.ask("UPDATE about SET version = %s", SCHEMA_VERSION)
            return
        link.say("LOCK TABLE about, sessions, entries IN ACCESS EXCLUSIVE MODE")
        found = version(link, schema) or 0
        migrate(link, f"the schema {schema}", found, SCHEMA_VERSION, MIGRATIONS, lines_digest)
        link.ask("UPDATE about SET version = %s", SCHEMA_VERSION)


def _settle(link: Link, schema: str, timeout: float) -> None:
    [(encoding, process)] = link.ask("SELECT current_setting('server_encoding'), pg_backend_pid()")
    if encoding != "UTF8":
        raise StorageError(f"the database is encoded as {encoding}: make one with the encoding UTF8")
    if process == link.info.backend_pid:
        link.say(settings(schema, timeout, local=False))
    else:  # a pooler in between may hand every transaction to another process
        link.local = settings(schema, timeout, local=True)
        link.prepare_threshold = None


def settings(schema: str, timeout: float, *, local: bool) -> str:
    wait = f"'{int(timeout * 1000)}ms'"
    values = {
        "search_path": _quoted(schema),
        "statement_timeout": wait,
        "lock_timeout": wait,
        "idle_in_transaction_session_timeout": f"'{IDLE}s'",
        "jit": "off",  # compiling a question to the index takes longer than answering it
    }
    said = "".join(
        f"SET {'LOCAL' if local else 'SESSION'} {name} = {value}; " for name, value in values.items()
    )
    # A commit that does not wait for the disk is no commit; stricter settings of the server stay.
    return (
        f"{said}SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
        f" WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, {local})"
    )


def version(link: Link, schema: str) -> int | None:
    """The version of the tables; None if there are none. (`to_regclass` uses a cache that is stale inside a
    transaction.)"""
    if not link.ask(
        """SELECT 1 FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
           JOIN pg_namespace n ON n.oid = relnamespace
           WHERE nspname = %s AND relname = 'about' AND attname = 'version'""",
        schema,
    ):
        return None
    return link.ask("SELECT version FROM about")[0][0]


def lines_digest(link: Link) -> tuple[int, str]:
    """The number of lines, and a hash of the content of each session, in order."""
    with link.cursor("digest", binary=True) as cursor:
        cursor.execute(
            b"SELECT s.id, e.id, e.line FROM entries e JOIN sessions s ON s.key = e.session"
            b" ORDER BY e.session, e.place"
        )
        return hashed(cursor)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
