"""mini-swe-agent: `*.traj.json`, an object of `info` (the whole configuration, often long) and `messages`.

Replies write their command as text or call a tool; what came back follows in the user's or the tool's role.
The last message, of the role `exit`, is the program's own.
"""

from __future__ import annotations

from refold.protocols import Loaded
from refold.transcripts.base import Head, Source
from refold.transcripts.foreign import Builder
from refold.transcripts.values import listing, mapping, named, text, without
from refold.transcripts.written_calls import read_messages

name = "mini-swe-agent"


def detect(head: Head) -> float:
    value = mapping(head.value) or (head.records[0] if head.records else {})
    info = mapping(value.get("info"))
    said_so = text(value.get("trajectory_format")).startswith(name) or "mini_version" in info
    # The messages may lie beyond the head, and so may what says whose they are.
    configured = {"agent", "environment", "model"} & mapping(info.get("config")).keys()
    return 0.95 if said_so else 0.9 if configured or {"model_stats", "exit_status"} <= info.keys() else 0.0


def read(source: Source) -> Loaded:
    raw = mapping(source.document())
    messages = listing(raw.get("messages"))
    log = Builder(name, source)
    read_messages(log, [item for item in messages if mapping(item).get("role") != "exit"])
    for index, item in enumerate(messages):
        if mapping(item).get("role") == "exit":
            log.state("exit", item, index)
    log.info.update(without(raw, frozenset({"messages"})))
    return log.loaded(id=named(raw.get("instance_id")))
