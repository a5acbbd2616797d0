"""`compact_conversation` through the gateway: a client's model can fold its conversation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold.entries import Fold
from refold.messages import Call, Message, result
from refold.protocols import ToolSpec
from refold.tools.task import COMPACT_TOOL_NAME, CompactArguments, compact_conversation

COMPACT_TOOL_SPEC: ToolSpec = compact_conversation.spec
FOLDED = "The older part of the conversation is folded now: what you see is shorter."
NOTHING_FOLDED = "Nothing was folded: there is nothing to leave out."


def instructions(calls: Sequence[Call]) -> str | None:
    """Instructions for the summary from calls of the tool; None if it was not called."""
    for call in calls:
        if call.name == COMPACT_TOOL_NAME:
            try:
                return msgspec.convert(call.arguments, CompactArguments, strict=False).instructions
            except msgspec.ValidationError:
                return ""
    return None


def results(calls: Sequence[Call], fold: Fold | None) -> list[Message]:
    text = FOLDED if fold is not None else NOTHING_FOLDED
    return [result(call.id, text, name=COMPACT_TOOL_NAME) for call in calls if call.name == COMPACT_TOOL_NAME]
