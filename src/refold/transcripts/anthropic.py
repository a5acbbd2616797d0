"""Lists of Anthropic messages, alone or as the `messages` of a request with its `system`."""

from __future__ import annotations

from refold.protocols import Loaded
from refold.session.dialects import anthropic as dialect
from refold.transcripts.base import Head, Source
from refold.transcripts.lists import Builder, conversation, sample

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


def read(source: Source) -> Loaded:
    envelope, items = conversation(source)
    builder = Builder(source)
    if envelope.get("system"):
        [said] = dialect.parse({"role": "system", "content": envelope["system"]})
        if said.parts:
            builder.add("system", said, {}, _KNOWN)
    builder.add_all(items, dialect.parse, _KNOWN)
    return builder.done(envelope)
