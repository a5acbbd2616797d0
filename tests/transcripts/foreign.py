"""What the tests of the importers share."""

from __future__ import annotations

import io
import json
from collections import Counter
from typing import Any

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.protocols import Loaded
from refold.session import Projection, Session


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def load(data: bytes, format: str | None = None, index: int | None = None) -> Loaded:
    return transcripts.read_stream(io.BytesIO(data), format=format, index=index)


def session(data: bytes, format: str | None = None, index: int | None = None) -> Session:
    return Session.of(load(data, format, index))


def spoken(loaded: Loaded) -> list[e.MessageEntry]:
    return [entry for entry in loaded.entries if isinstance(entry, e.MessageEntry)]


def counts(loaded: Loaded) -> dict[str, int]:
    """Messages by role, calls, usage records and notes, over the whole log."""
    said = spoken(loaded)
    found = Counter(entry.message.role for entry in said)
    found["calls"] = sum(len(entry.message.calls) for entry in said)
    found["usage"] = sum(entry.usage is not None for entry in said)
    found["notes"] = sum(isinstance(entry, e.Note) for entry in loaded.entries)
    return dict(found)


def kinds(loaded: Loaded) -> dict[str, int]:
    return dict(Counter(type(entry).__name__ for entry in loaded.entries))


def view(given: Session) -> list[tuple[str, str]]:
    """What the model sees: role and text."""
    return [(item.message.role, item.message.text) for item in Projection(given).items]


def results(loaded: Loaded) -> list[m.Result]:
    return [entry.message for entry in spoken(loaded) if isinstance(entry.message, m.Result)]
