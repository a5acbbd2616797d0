"""What a message says, apart from how it was told: for comparing a message with its copy from a wire."""

from __future__ import annotations

from typing import Any

import msgspec

from refold import messages as m


def identity(message: m.Message) -> str:
    """Stop reasons, error texts and empty text parts do not count."""
    parts = [p for p in message.parts if not (isinstance(p, m.Text) and not p.text)]
    call_id = message.call_id if isinstance(message, m.Result) else None
    return m.compact_json([message.role, call_id, [_part(part) for part in parts]])


def _part(part: m.AnyPart) -> list[Any]:
    if isinstance(part, m.Call):
        return [part.id, part.name, part.arguments if part.raw is None else part.raw]
    return [type(part).__name__, *msgspec.structs.astuple(part)]
