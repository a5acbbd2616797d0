"""The tables of a PostgreSQL store, their version, and how older ones become newer ones.

Texts and lines are `bytea`: PostgreSQL's text takes neither a NUL nor half of a surrogate pair. A session's
entries lie in one of `PARTS` partitions.
"""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from refold.errors import StorageError
from refold.stores.postgres.connections import IDLE, Link, transaction
from refold.stores.schema import hashed, migrate

SCHEMA_VERSION = 1
PARTITIONS = 16
"""Forgetting rewrites one of them, not everything; and none gets so large that its upkeep takes long."""
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
"""`MIGRATIONS[n]` makes tables of version n + 1 of those of version n. It runs inside a transaction that is
only kept if every line is still there afterwards."""


def prepare_tables(link: Link, schema: str, timeout: float) -> None:
    """Settings of a connection; the tables, made in a new schema, brought up to date in an older one."""
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
    """None: there are no tables yet. (A question by name, `to_regclass`, is answered from a memory that is
    not brought up to date inside a transaction.)"""
    if not link.ask(
        """SELECT 1 FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
           JOIN pg_namespace n ON n.oid = relnamespace
           WHERE nspname = %s AND relname = 'about' AND attname = 'version'""",
        schema,
    ):
        return None
    return link.ask("SELECT version FROM about")[0][0]


def lines_digest(link: Link) -> tuple[int, str]:
    """How many lines there are, and a hash over which session says what, in order."""
    with link.cursor("digest", binary=True) as cursor:
        cursor.execute(
            b"SELECT s.id, e.id, e.line FROM entries e JOIN sessions s ON s.key = e.session"
            b" ORDER BY e.session, e.place"
        )
        return hashed(cursor)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
