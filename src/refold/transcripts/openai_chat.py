"""Lists of OpenAI chat messages, alone or as the `messages` of a request, JSON or JSONL."""

from __future__ import annotations

from refold.protocols import Loaded
from refold.session.dialects import openai_chat as dialect
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.message_lists import read_message_list, sample

name = "openai"

_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_KNOWN = frozenset({
    "role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content",
    "reasoning",
})  # fmt: skip


def detect(head: Head) -> float:
    seen = sample(head)
    roles = seen.roles
    if not roles or not roles <= _ROLES or not all("role" in item for item in seen.items[:-1]):
        return 0.0
    if seen.has("tool_calls", "tool_call_id", "function_call") or seen.kinds & {"image_url"}:
        return 0.85
    return 0.5 if roles & {"user", "assistant"} else 0.2


def read(source: TranscriptFile) -> Loaded:
    return read_message_list(source, name, dialect.parse_list, _KNOWN)
