"""Anything else: cut in the middle."""

from __future__ import annotations

from refold.messages import Call, compact_json
from refold.shrink.base import Data, Limits, flags
from refold.text.truncate import middle


def data(call: Call, data: Data, limits: Limits) -> Data:  # noqa: ARG001 (one signature for all rules)
    text = compact_json(data)
    return (
        data if len(text) <= limits.other_chars else {"json": middle(text, limits.other_chars), **flags(data)}
    )


def plain(call: Call, text: str, limits: Limits) -> str:  # noqa: ARG001 (one signature for all rules)
    return middle(text, limits.other_chars)
