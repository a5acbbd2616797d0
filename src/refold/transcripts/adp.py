"""Agent Data Protocol and SWE-smith: collected trajectories, most often several to a file.

SWE-agent trajectories whose messages have `text` and the role `ai`, and conversations of OpenHands and
SWE-agent that write their calls as text (`written_calls`).
"""

from __future__ import annotations

from refold.protocols import Loaded
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import Builder, chosen_object
from refold.transcripts.values import as_list, as_name, as_object, first, is_list, without
from refold.transcripts.written_calls import PARAMETER, is_output, read_messages, said_in

name = "adp"


def detect(head: Head) -> float:
    value = head.first
    sample = as_object(value) or first(value)
    opening = first(sample.get("trajectory"))
    if {"role", "text", "system_prompt"} <= opening.keys():
        return 0.95
    if not is_list(sample.get("messages")):
        return 0.0
    several = is_list(value) or bool(head.records)
    if several and "source" in sample and "category" in sample:
        return 0.9
    # The fields after the messages may lie beyond the head; calls spelled in the text tell as well.
    said = [as_object(item) for item in as_list(sample["messages"])[:20]]
    if any("tool_calls" in raw for raw in said):
        return 0.0
    texts = map(said_in, said[2:])
    return 0.8 if any(is_output(one, {}) or PARAMETER in one[-20_000:] for one in texts) else 0.0


def read(source: TranscriptFile) -> Loaded:
    sample = chosen_object(source)
    key = "trajectory" if is_list(sample.get("trajectory")) else "messages"
    log = Builder(name, source)
    read_messages(log, as_list(sample.get(key)))
    log.info.update(without(sample, frozenset({key})))
    id = as_name(sample.get("id")) or sample.get("instance_id")
    return log.loaded(id=id, title=as_name(sample.get("source")) or id)
