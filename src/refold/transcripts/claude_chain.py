"""Claude Code's records as a tree of exchanges.

The file is a tree by `parentUuid`, but not the one the model saw. A reply is written as several records, one
part each, that share a `message.id`; results of parallel calls hang on the record of their own call, beside
the conversation. Here the records of one reply and the results of its calls become one `Reply`, and
whatever hangs on any of them continues after the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from refold.messages import compact_json
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import PARENT_OUTSIDE, TranscriptFile
from refold.transcripts.embedded_fold import embedded_in
from refold.transcripts.values import as_list, as_name, as_object, as_text


@dataclass(slots=True, eq=False)
class Node:
    """A record with its place in the tree."""

    index: int
    line: int
    id: str
    parent: str | None
    raw: JsonObject
    reply: ReplyRecords | None = None
    """The reply that this record belongs to or follows without a user message."""
    member: bool = False
    """True if it is part of the reply: one of its records or a result of one of its calls."""

    @property
    def kind(self) -> str:
        return as_text(self.raw.get("type"))

    @property
    def aside(self) -> bool:
        """True for a message of or to a sub-agent."""
        return self.raw.get("isSidechain") is True

    @property
    def blocks(self) -> list[Any]:
        content = as_object(self.raw.get("message")).get("content")
        return [content] if isinstance(content, str) else as_list(content)


@dataclass(slots=True, eq=False)
class ReplyRecords:
    """One answer of the model: its records in order, then the results of its calls."""

    message_id: str | None
    records: list[Node] = field(default_factory=list[Node])
    results: list[Node] = field(default_factory=list[Node])
    open: set[str] = field(default_factory=set[str])
    """Calls without a result so far."""


def originals(nodes: list[Node]) -> tuple[list[Node], dict[str, str]]:
    """The records without copies: what a fold of refold shows, or a conversation copied when it was resumed.
    What continues a copy continues the boundary with the fold, or the original. Also returns copy → original.
    """
    carried = ((node.id, embedded_in(node.raw, node.index).get("copies")) for node in nodes)
    homes = {id: home for home, copies in carried for id in as_list(copies) if isinstance(id, str)}
    repeated = _repeated([node for node in nodes if node.id not in homes])
    homes |= repeated
    kept = [node for node in nodes if node.id not in homes]
    for node in kept:
        node.parent = homes.get(node.parent, node.parent) if node.parent else None
    return kept, repeated


def _repeated(nodes: list[Node]) -> dict[str, str]:
    """Copy → original. A copy has other ids but the same times, begins as something before it began, and
    holds some of the blocks: of calls made side by side it has only the last."""
    beginnings = (node for node in nodes if node.parent is None and node.blocks)
    roots = [(node.kind, as_text(node.raw.get("timestamp"))) for node in beginnings]
    if len(roots) == len(set(roots)):
        return {}
    known: dict[tuple[str, str, str], str] = {}
    found: dict[str, str] = {}
    copied: set[str] = set()
    """Records below the beginning of a copy: copies, and notes of programs between them."""
    for node in nodes:
        when = as_text(node.raw.get("timestamp"))
        blocks = [(node.kind, when, compact_json(block)) for block in node.blocks]
        within = node.parent in copied
        if when and blocks and (within or node.parent is None) and known.keys() >= set(blocks):
            found[node.id] = known[blocks[-1]]
            copied.add(node.id)
        elif within and not blocks:
            copied.add(node.id)
        for block in blocks:
            known.setdefault(block, node.id)
    return found


def arrange(nodes: list[Node], source: TranscriptFile) -> list[Node]:
    """Parents before children, replies grouped. Other records keep their order."""
    by_id = {node.id: node for node in nodes}
    _attach_boundaries(nodes, by_id, source)
    ordered = list(_parents_first(nodes, by_id, source))
    for node in ordered:
        _join(node, by_id.get(node.parent) if node.parent else None)
    return ordered


def _attach_boundaries(nodes: list[Node], by_id: dict[str, Node], source: TranscriptFile) -> None:
    """Attaches compactions, which start a new root, to what they continue (`logicalParentUuid`), in this file
    or another."""
    last: dict[tuple[bool, str], str] = {}
    for node in nodes:
        stream = (node.aside, as_text(node.raw.get("agentId")))
        # A compaction boundary, or the summary of a release without boundaries.
        anew = node.raw.get("subtype") == "compact_boundary" or node.raw.get("isCompactSummary") is True
        if node.parent is None and anew:
            logical = as_name(node.raw.get("logicalParentUuid"))
            node.parent = logical if logical in by_id else last.get(stream)
            if node.parent is None:
                source.problem(node.line, "what was compacted here is not in this file")
        elif node.parent is not None and node.parent not in by_id:
            source.problem(node.line, PARENT_OUTSIDE, node.parent)
            node.parent = last.get(stream)
        last[stream] = node.id


def _parents_first(nodes: list[Node], by_id: dict[str, Node], source: TranscriptFile) -> Iterator[Node]:
    done: set[str] = set()
    for node in nodes:
        waiting: list[Node] = []
        here: set[str] = set()
        at: Node | None = node
        while at is not None and at.id not in done:
            if at.id in here:
                top = waiting[-1]
                source.problem(top.line, "its parents form a cycle: made a beginning of its own")
                top.parent = None
                break
            waiting.append(at)
            here.add(at.id)
            at = by_id.get(at.parent) if at.parent else None
        for found in reversed(waiting):
            done.add(found.id)
            yield found


def _join(node: Node, parent: Node | None) -> None:
    above = parent.reply if parent is not None and parent.aside == node.aside else None
    if node.kind == "assistant":
        message_id = as_name(as_object(node.raw.get("message")).get("id"))
        same = above is not None and message_id is not None and above.message_id == message_id
        node.reply = above if same else ReplyRecords(message_id)
        assert node.reply is not None
        node.reply.records.append(node)
        node.reply.open.update(_ids(node, "tool_use", "id"))
        node.member = True
    elif node.kind == "user":
        answered = _ids(node, "tool_result", "tool_use_id")
        only_results = len(answered) == len(node.blocks) > 0
        if above is not None and only_results and answered <= above.open:
            above.open -= answered
            above.results.append(node)
            node.reply, node.member = above, True
        elif only_results:
            node.reply = above
    else:
        node.reply = above


def _ids(node: Node, kind: str, key: str) -> set[str]:
    blocks = map(as_object, node.blocks)
    return {block[key] for block in blocks if block.get("type") == kind and isinstance(block.get(key), str)}
