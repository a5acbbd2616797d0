"""Lists of OpenAI response items (`input`, or an `output` kept as a history)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects import openai_responses as dialect
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.message_lists import Groups, read_message_list, sample

name = "openai-responses"

_ITEMS = {
    "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
    "input_text", "output_text", "web_search_call", "local_shell_call",
}  # fmt: skip
_KNOWN = frozenset({
    "type", "role", "content", "call_id", "name", "arguments", "input", "output", "summary",
    "encrypted_content",
})  # fmt: skip


def detect(head: Head) -> float:
    seen = sample(head)
    if not seen.items or not all("type" in item or "role" in item for item in seen.items[:-1]):
        return 0.0
    if seen.has("tool_calls", "tool_call_id", "payload", "uuid", "parentId"):
        return 0.0
    own = seen.kinds & _ITEMS
    return (0.8 if len(own) > 1 or "input" in seen.envelope else 0.7) if own else 0.0


def read(source: TranscriptFile) -> Loaded:
    return read_message_list(source, name, dialect.parse_list, _KNOWN, opening=_instructions, groups=_replies)


def _instructions(envelope: JsonObject) -> m.Message | None:
    given = envelope.get("instructions")
    return m.system(given) if isinstance(given, str) and given else None


def _replies(items: Sequence[Any]) -> Groups:
    """Items grouped: neighbouring items of the model came in one reply."""
    groups: Groups = []
    growing = False
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            growing = False
            continue
        record = cast("JsonObject", item)
        kind, role = record.get("type", "message"), record.get("role")
        model = role == "assistant" if kind == "message" else not str(kind).endswith("_output")
        if model and growing:
            groups[-1][1].append(record)
        else:
            groups.append((index, [record]))
        growing = model
    return groups
