"""The repository that the bundled sample session works on: a small web service for a marina, made up here.

Files are written from templates, so that readings, edits and test runs of the session agree with each other.
"""

from __future__ import annotations

from textwrap import dedent

from benchmarks.sample_texts import CLOCK, OVERLAP, README, ROUNDING, SETTINGS

FIELDS: dict[str, list[tuple[str, str]]] = {
    "berth": [("number", "str"), ("pier", "str"), ("length_cm", "int"), ("draft_cm", "int"), ("has_power", "bool")],
    "booking": [("berth_id", "int"), ("vessel_id", "int"), ("arrives_at", "datetime"), ("leaves_at", "datetime"), ("state", "str"), ("hold_token", "str | None")],
    "vessel": [("name", "str"), ("registration", "str"), ("owner_id", "int"), ("length_cm", "int"), ("draft_cm", "int")],
    "customer": [("full_name", "str"), ("email", "str"), ("phone", "str | None"), ("locale", "str"), ("vat_number", "str | None")],
    "invoice": [("booking_id", "int"), ("net_cents", "int"), ("vat_cents", "int"), ("issued_at", "datetime"), ("number", "str")],
    "tariff": [("name", "str"), ("per_metre_night_cents", "int"), ("valid_from", "date"), ("valid_until", "date | None"), ("season", "str")],
    "payment": [("invoice_id", "int"), ("provider_ref", "str"), ("amount_cents", "int"), ("captured_at", "datetime | None"), ("state", "str")],
    "reminder": [("booking_id", "int"), ("channel", "str"), ("send_at", "datetime"), ("sent_at", "datetime | None"), ("template", "str")],
    "audit": [("actor", "str"), ("action", "str"), ("subject", "str"), ("happened_at", "datetime"), ("payload", "dict[str, Any]")],
}  # fmt: skip
"""Entities of the service and their columns."""


def build() -> dict[str, str]:
    """Path → text of the whole repository."""
    files: dict[str, str] = {}
    for name, fields in FIELDS.items():
        files[f"harbour/{plural(name)}/model.py"] = model(name, fields)
        files[f"harbour/{plural(name)}/repository.py"] = repository(name, fields)
        files[f"harbour/{plural(name)}/routes.py"] = routes(name, fields)
        files[f"tests/test_{plural(name)}.py"] = tests(name, fields)
        files[f"migrations/{len(files):04d}_{plural(name)}.sql"] = migration(name, fields)
    files["harbour/bookings/overlap.py"] = OVERLAP
    files["harbour/invoices/rounding.py"] = ROUNDING
    files["harbour/clock.py"] = CLOCK
    files["harbour/settings.py"] = SETTINGS
    files["README.md"] = README
    return files


def plural(name: str) -> str:
    return name if name == "audit" else f"{name}s"


def title(name: str) -> str:
    return name.capitalize()


def model(name: str, fields: list[tuple[str, str]]) -> str:
    lines = [
        f'"""What a {name} is. No I/O here; see repository.py for how it is stored."""',
        "",
        "from __future__ import annotations",
        "",
        "from dataclasses import dataclass, field, replace",
        "from datetime import date, datetime",
        "from typing import Any",
        "",
        "from harbour.clock import ensure_aware",
        "",
        "",
        "@dataclass(frozen=True, slots=True)",
        f"class {title(name)}:",
        f'    """A {name} as the rest of the service sees it."""',
        "",
        "    id: int",
        *(f"    {column}: {kind}" for column, kind in fields),
        "    version: int = 0",
        "    tags: tuple[str, ...] = field(default=())",
        "",
        "    def __post_init__(self) -> None:",
    ]
    checks = [_check(name, column, kind) for column, kind in fields]
    lines += [line for check in checks for line in check] or ["        pass"]
    for column, kind in fields:
        lines += [
            "",
            f"    def with_{column}(self, {column}: {kind}) -> {title(name)}:",
            f'        """The same {name} with another {column.replace("_", " ")}; the version counts up."""',
            f"        return replace(self, {column}={column}, version=self.version + 1)",
        ]
    lines += [
        "",
        "    def to_json(self) -> dict[str, Any]:",
        "        return {",
        '            "id": self.id,',
        *(f'            "{column}": {_dumped(column, kind)},' for column, kind in fields),
        '            "version": self.version,',
        "        }",
    ]
    return "\n".join(lines) + "\n"


def _check(name: str, column: str, kind: str) -> list[str]:
    if kind.startswith("datetime"):
        return [f"        ensure_aware({column}=self.{column})"]
    if kind == "int" and column.endswith(("_cm", "_cents")):
        return [
            f"        if self.{column} < 0:",
            f'            raise ValueError(f"{name}.{column} must not be negative, got {{self.{column}}}")',
        ]
    if kind == "str":
        return [
            f"        if not self.{column}.strip():",
            f'            raise ValueError("{name}.{column} is blank")',
        ]
    return []


def _dumped(column: str, kind: str) -> str:
    if kind.startswith(("datetime", "date")):
        return f"self.{column}.isoformat() if self.{column} else None"
    return f"self.{column}"


def repository(name: str, fields: list[tuple[str, str]]) -> str:
    columns = ", ".join(column for column, _ in fields)
    marks = ", ".join(f":{column}" for column, _ in fields)
    updates = ", ".join(f"{column} = :{column}" for column, _ in fields)
    table = plural(name)
    body = f'''
        """How {table} are stored. One connection per request; the caller owns the transaction."""

        from __future__ import annotations

        import logging
        import sqlite3
        from collections.abc import Iterator

        from harbour.{table}.model import {title(name)}
        from harbour.errors import Conflict, NotFound

        log = logging.getLogger("harbour.{table}")


        class {title(name)}Repository:
            def __init__(self, connection: sqlite3.Connection) -> None:
                self._connection = connection
                self._connection.row_factory = sqlite3.Row

            def get(self, id: int) -> {title(name)}:
                row = self._connection.execute(
                    "SELECT id, {columns}, version FROM {table} WHERE id = ?", (id,)
                ).fetchone()
                if row is None:
                    raise NotFound("{name}", id)
                return {title(name)}(**dict(row))

            def add(self, {name}: {title(name)}) -> {title(name)}:
                cursor = self._connection.execute(
                    "INSERT INTO {table} ({columns}, version) VALUES ({marks}, 0)",
                    {name}.to_json(),
                )
                log.info("{name} %s added", cursor.lastrowid)
                return self.get(cursor.lastrowid)

            def save(self, {name}: {title(name)}) -> {title(name)}:
                """Optimistic: fails if somebody else saved a newer version."""
                cursor = self._connection.execute(
                    "UPDATE {table} SET {updates}, version = version + 1 "
                    "WHERE id = :id AND version = :version",
                    {name}.to_json(),
                )
                if cursor.rowcount != 1:
                    raise Conflict("{name}", {name}.id, {name}.version)
                return self.get({name}.id)

            def delete(self, id: int) -> None:
                if self._connection.execute("DELETE FROM {table} WHERE id = ?", (id,)).rowcount != 1:
                    raise NotFound("{name}", id)
    '''
    finders = "\n".join(
        dedent(f"""
            def by_{column}(self, {column}: {kind}, *, limit: int = 100) -> Iterator[{title(name)}]:
                rows = self._connection.execute(
                    "SELECT id, {columns}, version FROM {table} WHERE {column} = ? ORDER BY id LIMIT ?",
                    ({column}, limit),
                )
                for row in rows:
                    yield {title(name)}(**dict(row))
        """)
        .rstrip()
        .replace("\n", "\n    ")
        for column, kind in fields
    )
    return dedent(body).lstrip() + finders + "\n"


def routes(name: str, fields: list[tuple[str, str]]) -> str:
    table = plural(name)
    parsed = "\n".join(
        f'            {column}=required(body, "{column}", "{kind}"),' for column, kind in fields
    )
    return (
        dedent(f'''
        """HTTP for {table}. Validation is here, rules are in the model, SQL is in the repository."""

        from __future__ import annotations

        from harbour.{table}.model import {title(name)}
        from harbour.{table}.repository import {title(name)}Repository
        from harbour.web import Request, Response, Router, created, no_content, ok, required

        router = Router(prefix="/api/v1/{table}")


        @router.get("/")
        def list_{table}(request: Request) -> Response:
            repository = {title(name)}Repository(request.connection)
            limit = min(int(request.query.get("limit", 50)), 500)
            column, _, value = request.query.get("filter", "id:").partition(":")
            find = getattr(repository, f"by_{{column}}", None)
            if find is None:
                return Response(400, {{"error": "unknown_filter", "filter": column}})
            return ok([{name}.to_json() for {name} in find(value, limit=limit)])


        @router.get("/<int:id>")
        def show_{name}(request: Request, id: int) -> Response:
            return ok({title(name)}Repository(request.connection).get(id).to_json())


        @router.post("/")
        def create_{name}(request: Request) -> Response:
            body = request.json()
            {name} = {title(name)}(
                id=0,
        PARSED
            )
            stored = {title(name)}Repository(request.connection).add({name})
            request.audit("{name}.created", subject=f"{name}:{{stored.id}}")
            return created(stored.to_json(), location=f"/api/v1/{table}/{{stored.id}}")


        @router.delete("/<int:id>")
        def delete_{name}(request: Request, id: int) -> Response:
            {title(name)}Repository(request.connection).delete(id)
            request.audit("{name}.deleted", subject=f"{name}:{{id}}")
            return no_content()
    ''')
        .lstrip()
        .replace("PARSED", parsed.lstrip("\n"))
    )


def tests(name: str, fields: list[tuple[str, str]]) -> str:
    table = plural(name)
    blocks = [
        f'"""Tests of {table}."""',
        "",
        "import pytest",
        "",
        "from harbour.errors import Conflict",
        f"from harbour.{table}.model import {title(name)}",
        f"from harbour.{table}.repository import {title(name)}Repository",
        "from tests.factories import make, utc",
        "",
    ]
    for column, _ in fields:
        blocks += [
            "",
            f"def test_{name}_keeps_its_{column}(connection):",
            f"    {name} = {title(name)}Repository(connection).add(make({title(name)}))",
            f"    again = {title(name)}Repository(connection).get({name}.id)",
            f"    assert again.{column} == {name}.{column}",
            "    assert again.version == 0",
            "",
            "",
            f"def test_{name}_with_another_{column}_is_saved_once(connection):",
            f"    repository = {title(name)}Repository(connection)",
            f"    {name} = repository.add(make({title(name)}))",
            f"    other = make({title(name)}, seed=2).{column}",
            f"    saved = repository.save({name}.with_{column}(other))",
            f"    assert (saved.{column}, saved.version) == (other, 1)",
            "    with pytest.raises(Conflict):",
            f"        repository.save({name}.with_{column}(other))",
            "",
        ]
    return "\n".join(blocks)


def migration(name: str, fields: list[tuple[str, str]]) -> str:
    kinds = {"int": "INTEGER", "bool": "INTEGER", "str": "TEXT"}
    rows = [
        f"    {column} {kinds.get(kind.split(' ')[0], 'TEXT')}{'' if 'None' in kind else ' NOT NULL'},"
        for column, kind in fields
    ]
    return "\n".join(
        [
            f"CREATE TABLE {plural(name)} (",
            "    id INTEGER PRIMARY KEY,",
            *rows,
            "    version INTEGER NOT NULL DEFAULT 0",
            ");",
            "",
        ]
    )
