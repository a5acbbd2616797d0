"""mini-swe-agent: `*.traj.json`, an object of `info` (the whole configuration, often long) and `messages`.

Replies write their command as text or call a tool; what came back follows in the user's or the tool's role.
The last message, of the role `exit`, is the program's own.
"""

from __future__ import annotations

from refold.protocols import Loaded
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import Builder
from refold.transcripts.values import as_list, as_object, as_text, without
from refold.transcripts.written_calls import read_messages

name = "mini-swe-agent"


def detect(head: Head) -> float:
    value = as_object(head.first)
    info = as_object(value.get("info"))
    said_so = as_text(value.get("trajectory_format")).startswith(name) or "mini_version" in info
    # The messages may lie beyond the head, and so may what says whose they are.
    configured = {"agent", "environment", "model"} & as_object(info.get("config")).keys()
    return 0.95 if said_so else 0.9 if configured or {"model_stats", "exit_status"} <= info.keys() else 0.0


def read(source: TranscriptFile) -> Loaded:
    raw = as_object(source.document())
    messages = as_list(raw.get("messages"))
    log = Builder(name, source)
    read_messages(log, [item for item in messages if as_object(item).get("role") != "exit"])
    for index, item in enumerate(messages):
        if as_object(item).get("role") == "exit":
            log.state("exit", item, index)
    log.info.update(without(raw, frozenset({"messages"})))
    return log.loaded(id=raw.get("instance_id"))
