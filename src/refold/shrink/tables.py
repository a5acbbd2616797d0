"""A list of records in JSON as a table: each name once, one record a line, nothing rewritten inside a value.

Four lines of such a result tell what one line of JSON does, and a cut between two lines leaves whole records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias, cast

import msgspec

from refold.messages import compact_json
from refold.session.dialects.common import listing
from refold.session.toolstatus import decoded

_LEAST, _LARGEST = 400, 1_000_000
"""Characters of a text that is looked at."""
_ROWS = 3
"""A list of fewer records is no table."""
_COLUMNS, _DEEP = 24, 2
"""Names in its head, at most; objects inside of objects that are spread out."""
_BETWEEN = " | "

Record: TypeAlias = dict[str, Any]


def tabulated(text: str) -> str | None:
    """The same data with its longest list of records as a table; None where there is none, or where that
    saves nothing."""
    value = decoded(text, _LARGEST) if len(text) >= _LEAST else None
    made = _object(cast("Record", value)) if isinstance(value, dict) else _table(value)
    return made if made and len(made) < 0.9 * len(text) else None


def _object(fields: Record) -> str | None:
    """An object whose longest list is a table: the rest of it stands above."""
    name = max(fields, key=lambda key: len(fields[key]) if isinstance(fields[key], list) else 0, default="")
    inner = _table(fields.get(name))
    rest = {key: value for key, value in fields.items() if key != name}
    above = f"{compact_json(rest)}\n" if rest else ""
    return f"{above}{compact_json(name)}: {inner}" if inner else None


def _table(value: Any) -> str | None:
    groups, records, names = list(_groups(value)), list[Record](), dict[str, None]()
    for row in chain.from_iterable(groups):
        records.append(_flat(row))
        names.update(dict.fromkeys(records[-1]))
    if len(records) < _ROWS or not 1 < len(names) <= _COLUMNS:
        return None
    rows = (_BETWEEN.join([_cell(record, name) for name in names]) for record in records)
    blocks = ["\n".join(next(rows) for _ in group) for group in groups]
    between = "\n\n" if len(groups) > 1 else "\n"
    return f"({len(records)} records)\n{_BETWEEN.join(names)}\n{between.join(blocks)}"


def _groups(value: Any) -> Iterator[list[Record]]:
    """The records of a list, or of the lists in it; none where anything else is in it."""
    items = listing(value)
    if not all(isinstance(item, dict) for item in items):
        inner = [listing(item) for item in items]
        items = [row for rows in inner for row in rows]
        if all(inner) and all(isinstance(row, dict) for row in items):
            yield from inner
    elif items:
        yield items


def _flat(record: Mapping[str, Any], deep: int = 0) -> Record:
    """Without objects in it: `{"price": {"amount": 3}}` has a `price.amount`."""
    flat: Record = {}
    for name, value in record.items():
        if isinstance(value, dict) and value and deep < _DEEP:
            inner = _flat(cast("Record", value), deep + 1)
            flat.update((f"{name}.{key}", item) for key, item in inner.items())
        else:
            flat[name] = value
    return flat


def _cell(record: Record, name: str) -> str:
    """A value as it is; in quotes where it could be taken for another one."""
    if name not in record:
        return ""
    value = record[name]
    text = compact_json(value)
    if not isinstance(value, str):
        return text
    plain = value.strip() == value and value and text == f'"{value}"' and "|" not in value
    return value if plain and not _is_literal(value) else text


def _is_literal(text: str) -> bool:
    """Whether JSON reads it as something else than a name."""
    try:
        msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True
