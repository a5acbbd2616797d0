"""opencode's database, as the objects that `opencode export` writes, one per line."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from refold.text.lenient_json import JsonObject
from refold.transcripts.base import loads
from refold.transcripts.values import as_object

MAGIC = b"SQLite format 3\x00"
_TABLES = {"session", "message", "part"}


def sessions_in(path: Path) -> BinaryIO | None:
    """All sessions of a database, oldest first; None if it is not opencode's. Only reads."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        names = database.execute("select name from sqlite_master where type = 'table'")
        if not {name for (name,) in names} >= _TABLES:
            return None
        rows = database.execute("select * from session order by time_created, id").fetchall()
        lines = (json.dumps(_session(database, dict(row))) for row in rows)
        return io.BytesIO("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))


def _session(database: sqlite3.Connection, row: dict[str, Any]) -> JsonObject:
    columns = {
        "id": "id",
        "parentID": "parent_id",
        "directory": "directory",
        "title": "title",
        "version": "version",
    }
    info: JsonObject = {key: row[column] for key, column in columns.items() if row.get(column) is not None}
    info["time"] = {"created": row.get("time_created"), "updated": row.get("time_updated")}
    if row.get("revert"):
        info["revert"] = _json(row["revert"])
    parts = {
        message: [{"id": part["id"], **_json(part["data"])} for part in found]
        for message, found in groupby(
            _rows(database, "part", "message_id, id", row["id"]), lambda part: part["message_id"]
        )
    }
    messages = [
        {
            "info": {"id": each["id"], "sessionID": row["id"], **_json(each["data"])},
            "parts": parts.get(each["id"], []),
        }
        for each in _rows(database, "message", "time_created, id", row["id"])
    ]
    return {"info": info, "messages": messages}


def _rows(database: sqlite3.Connection, table: str, order: str, session: str) -> Iterator[sqlite3.Row]:
    return database.execute(f"select * from {table} where session_id = ? order by {order}", (session,))


def _json(text: str) -> JsonObject:
    try:
        return as_object(loads(text.encode("utf-8", "replace")))
    except ValueError:
        return {}
