"""SWE-agent: `*.traj`.

The history is the conversation. With function calling it holds calls; without, a reply is a thought and a
fenced command, and the next user message is what the command printed (`written_calls`).
"""

from __future__ import annotations

from typing import Any

from refold.protocols import Loaded
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import Builder, chosen_object
from refold.transcripts.values import as_list, as_object, as_text, first, without
from refold.transcripts.written_calls import WrittenCalls

name = "swe-agent"

_STEP_USED = frozenset({"messages", "query", "response", "observation", "thought", "action"})


def detect(head: Head) -> float:
    value = as_object(head.first)
    step = first(value.get("trajectory"))
    if "action" in step and ("observation" in step or "response" in step):
        return 0.95
    said = first(value.get("history"))
    if "role" in said and ("agent" in said or "trajectory" in value):
        return 0.9
    return 0.5 if "history" in value and ("trajectory" in value or "environment" in value) else 0.0


def read(source: TranscriptFile) -> Loaded:
    raw = chosen_object(source)
    steps = [as_object(step) for step in as_list(raw.get("trajectory"))]
    history = as_list(raw.get("history")) or _history(steps)
    log = Builder(name, source)
    WrittenCalls(log, [without(step, _STEP_USED) for step in steps]).read(history)
    log.info.update(without(raw, frozenset({"history", "trajectory"})))
    return log.loaded()


def _history(steps: list[JsonObject]) -> list[Any]:
    """The conversation of a file that holds only the steps."""
    opening = steps[0] if steps else {}
    said: list[Any] = []
    for item in as_list(opening.get("messages")) or as_list(opening.get("query")):
        if as_object(item).get("role") == "assistant":
            break
        said.append(item)
    for step in steps:
        reply = {
            "role": "assistant",
            "content": as_text(step.get("response")) or as_text(step.get("thought")),
        }
        said.append({**reply, "thought": step.get("thought"), "action": step.get("action")})
        said.append({"role": "user", "content": step.get("observation") or ""})
    return said
