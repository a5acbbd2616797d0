"""Lists of Anthropic messages, alone or as the `messages` of a request with its `system`."""

from __future__ import annotations

from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects import anthropic as dialect
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.message_lists import read_message_list, sample

name = "anthropic"

_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"}
_KNOWN = frozenset(("role", "content", "stop_reason"))


def detect(head: Head) -> float:
    seen = sample(head)
    roles = seen.roles
    if not roles or not roles <= {"user", "assistant", "system"}:
        return 0.0
    if seen.has("tool_calls", "tool_call_id"):
        return 0.0
    if seen.kinds & _BLOCKS:
        return 0.9
    return 0.6 if seen.envelope.keys() & {"system", "anthropic_version"} or seen.has("stop_reason") else 0.3


def read(source: TranscriptFile) -> Loaded:
    return read_message_list(source, name, dialect.parse_list, _KNOWN, opening=_system)


def _system(envelope: JsonObject) -> m.Message | None:
    given = envelope.get("system")
    return dialect.parse({"role": "system", "content": given})[0] if given else None
