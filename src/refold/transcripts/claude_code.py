"""Claude Code: `~/.claude/projects/<project>/<session>.jsonl`.

Every record with a `uuid` is an entry with that id. The records of one reply become one message, under the
id of the first; the others stay on the path as `Other` entries that the model does not see, so that every id
still leads somewhere. A conversation that was copied when it was resumed is there once; ids of copies lead
to the originals. A compaction is a `Fold` under the id of its summary; a sub-agent's records are branches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.session.dialects import anthropic
from refold.session.dialects.common import model_of, stop_of
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import Builder, edits_of
from refold.transcripts.claude_chain import Node, ReplyRecords, arrange, originals
from refold.transcripts.claude_parts import is_note, parts_of_blocks, user_messages
from refold.transcripts.embedded_fold import EMBEDDED_KEY, embedded_in, restore_embedded
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, time_of, without

name = "claude-code"

CLEARED = "[Old tool result content cleared]"
"""What the model sees in place of a result that a microcompaction cleared."""

_NO_MODEL = "<synthetic>"
"""Stands for the model in a reply that the program wrote itself: an error, `No response requested.`"""
_PATH_KINDS = frozenset({"user", "assistant", "system", "progress", "attachment"})
_LOOSE_KINDS = frozenset({
    "file-history-snapshot", "queue-operation", "last-prompt", "tag", "agent-name", "agent-color", "mode",
    "agent-setting", "worktree-state", "pr-link", "attribution-snapshot", "speculation-accept",
    "content-replacement", "permission-mode", "marble-origami-commit", "marble-origami-snapshot",
})  # fmt: skip
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_USED = frozenset({"parentUuid", "logicalParentUuid", "uuid", "timestamp", "type", "message"})
_COMMON = ("sessionId", "cwd", "version", "gitBranch", "userType", "slug", "isSidechain", "entrypoint")


def detect(head: Head) -> float:
    best = 0.0
    for record in head.records[:50]:
        if "parentUuid" in record and ("uuid" in record or "sessionId" in record):
            return 0.95
        kind = as_text(record.get("type"))
        if kind in _LOOSE_KINDS or kind in _TITLES or (kind == "summary" and "leafUuid" in record):
            best = max(best, 0.6)
        elif kind in ("user", "assistant") and "uuid" in record and "message" in record:
            best = max(best, 0.8)
    return best


def read(source: TranscriptFile) -> Loaded:
    nodes: list[Node] = []
    loose: list[tuple[int, int, JsonObject]] = []
    ids: dict[str, JsonObject] = {}
    for index, (line, raw) in enumerate(source.records()):
        id = as_name(raw.get("uuid"))
        if id is None and as_text(raw.get("type")) not in _PATH_KINDS:
            loose.append((index, line, raw))
            continue
        if id in ids:
            if ids[id] == raw:
                source.problem(line, f"a copy of the record {id}: left out")
                continue
            source.problem(line, f"another record has the id {id}: called e{index}")
            id = None
        id = id or f"e{index}"
        ids[id] = raw
        nodes.append(Node(index, line, id, as_name(raw.get("parentUuid")), raw))
    told = len(source.problems)
    while True:
        try:
            return _Import(source).run(*originals(nodes), loose)
        except _UnfitError as unfit:
            # Only now it is known that what its copies repeat is not there: they count after all.
            unfit.node.raw.pop(EMBEDDED_KEY)
            del source.problems[told:]
            source.problem(unfit.node.line, "the folds of refold do not fit this file: shown without them")
            told += 1
            nodes = [
                replace(node, parent=as_name(node.raw.get("parentUuid")), reply=None, member=False)
                for node in nodes
            ]


class _UnfitError(Exception):
    """Raised if a boundary has entries that do not fit this file."""

    def __init__(self, node: Node) -> None:
        self.node = node


class _Import:
    def __init__(self, source: TranscriptFile) -> None:
        self.source = source
        self.log = Builder(name, source)
        self.common: dict[str, Any] = {}
        self.ends: dict[str, str] = {}
        """Record → the last entry made from it, which its children continue."""
        self.starts: dict[str, str] = {}
        """Record → the first entry of its reply (or of itself)."""
        self.results: dict[str, m.Result] = {}
        self.result_entries: dict[str, str] = {}
        self.nodes: dict[str, Node] = {}
        self.boundaries: set[str | None] = set()
        """Boundaries followed by a summary; at the others the conversation starts anew."""

    def run(
        self, nodes: list[Node], repeated: dict[str, str], loose: list[tuple[int, int, JsonObject]]
    ) -> Loaded:
        for raw in (*(node.raw for node in nodes), *(raw for _, _, raw in loose)):
            for key in _COMMON:
                if raw.get(key) is not None:
                    self.common.setdefault(key, raw[key])
        ordered = arrange(nodes, self.source)
        self.nodes = {node.id: node for node in ordered}
        summaries = (node for node in ordered if node.raw.get("isCompactSummary") is True)
        self.boundaries = {boundary.id for node in summaries if (boundary := self._boundary(node))}
        for node in ordered:
            if not node.member:
                self._single(node)
            elif node.reply and node.reply.records[0] is node:
                self._reply(node.reply)
        for copy, original in repeated.items():
            self._copy(copy, original)
        title = self._loose(loose)
        self.log.info.update((key, value) for key, value in self.common.items() if key != "cwd")
        cwd, session = self.common.get("cwd"), self.common.get("sessionId")
        return self.log.loaded(id=session, title=title, cwd=cwd, leaf=self._leaf(nodes))

    def _leaf(self, nodes: list[Node]) -> str | None:
        spoken = [node for node in nodes if node.kind in ("user", "assistant") or _is_ours(node)] or nodes
        main = [node for node in spoken if not node.aside] or spoken
        return self.ends[main[-1].id] if main else None

    # ── records on the path ─────────────────────────────────────────────────────────────────────

    def _parent(self, node: Node) -> str | None:
        return self.ends.get(node.parent) if node.parent else None

    def _done(self, node: Node, first: str, last: str) -> None:
        self.starts[node.id], self.ends[node.id] = first, last

    def _single(self, node: Node) -> None:
        raw, kind = node.raw, node.kind
        if _is_ours(node):
            self._own_folds(node)
            return
        bare = raw.get("subtype") == "compact_boundary" and node.id not in self.boundaries
        if raw.get("isCompactSummary") is True or bare:
            self._compaction(node)
        elif raw.get("subtype") == "microcompact_boundary" and self._microcompaction(node):
            pass
        elif kind in ("user", "attachment") and raw.get("isVisibleInTranscriptOnly") is not True:
            self._user(node, self._parent(node))
        else:
            self._other(node, self._parent(node))

    def _copy(self, id: str, original: str) -> None:
        """Keeps the id of a copy; its content is at the original."""
        end = self.ends[original]
        self.starts[id], self.ends[id] = self.starts[original], end
        self.log.put(e.Other(id=id, parent=end, kind="copy", raw={"of": original}))

    def _other(self, node: Node, parent: str | None) -> None:
        raw, kind = node.raw, node.kind
        if kind not in _PATH_KINDS:
            self.log.unknown[kind] += 1
        label = f"system:{as_text(raw.get('subtype'))}" if kind == "system" else kind
        self._done(node, node.id, node.id)
        rest = self._unlike_common(raw)
        self.log.put(e.Other(id=node.id, parent=parent, time=time_of(raw), kind=label, raw=rest))

    def _user(self, node: Node, parent: str | None) -> None:
        messages = user_messages(node.raw, node.blocks, self.log.calls)
        if not messages:
            if node.kind == "user":
                self.source.problem(node.line, "a user record without content: kept as it came")
            self._other(node, parent)
            return
        id = node.id
        for number, message in enumerate(messages):
            id = node.id if number == 0 else self.log.fresh(f"{node.id}:{number}", node.index)
            meta = self._meta(node.raw) if number == 0 else {}
            place = {"id": id, "parent": parent, "time": time_of(node.raw)}
            if isinstance(message, m.User) and is_note(node.raw, message):
                kind = "meta" if node.kind == "user" else node.kind
                parent = self.log.add(
                    e.Note, node.index, **place, content=message.content, kind=kind, meta=meta
                )
            else:
                parent = self.log.say(message, node.index, **place, meta=meta)
            if isinstance(message, m.Result):
                self.results[message.call_id], self.result_entries[message.call_id] = message, id
        self._done(node, node.id, id)

    def _reply(self, reply: ReplyRecords) -> None:
        head = reply.records[0]
        raw = as_object(head.raw.get("message"))
        parts = tuple(part for node in reply.records for part in parts_of_blocks(node.blocks))
        if raw.get("model") == _NO_MODEL:
            parts = m.with_origin("program", parts)
        meta = self._meta(head.raw)
        kept = without(raw, frozenset({"content", "model", "role", "type", "stop_reason"}))
        meta["message"] = {key: value for key, value in kept.items() if value is not None}
        self.log.say(
            self._answer(reply, parts),
            head.index,
            id=head.id,
            parent=self._parent(head),
            time=time_of(head.raw),
            usage=self._usage(reply),
            model=model_of("anthropic", raw),
            meta=meta,
        )
        tail = head.id
        for node in reply.records[1:]:
            raw_part = {"of": head.id, "type": "assistant", "parts": len(node.blocks)}
            other = e.Other(id=node.id, parent=tail, time=time_of(node.raw), kind="part", raw=raw_part)
            tail = self.log.put(other)
        for node in reply.results:
            self._user(node, tail)
            tail = self.ends[node.id]
        for node in (*reply.records, *reply.results):
            self._done(node, head.id, tail)

    def _answer(self, reply: ReplyRecords, parts: tuple[m.AnyPart, ...]) -> m.Assistant:
        last = as_object(reply.records[-1].raw.get("message"))
        if reply.records[0].raw.get("isApiErrorMessage") is True:
            said = "\n".join(part.text for part in parts if isinstance(part, m.Text))
            return m.Assistant(parts, "error", said or "error")
        reason = as_text(last.get("stop_reason"))
        return m.Assistant(parts, stop_of(reason, anthropic.STOP_REASONS) if reason else None)

    def _usage(self, reply: ReplyRecords) -> m.Usage | None:
        # Every record of a reply repeats the prompt's usage; the last one knows the whole output.
        best = m.Usage()
        for node in reply.records:
            seen = anthropic.parse_usage(as_object(node.raw.get("message")).get("usage")) or m.Usage()
            best = seen if seen.total >= best.total else best
        return best if best.total else None

    def _meta(self, raw: JsonObject) -> dict[str, Any]:
        return self._unlike_common(without(raw, _USED))

    def _unlike_common(self, raw: JsonObject) -> dict[str, Any]:
        return {key: value for key, value in raw.items() if self.common.get(key) != value}

    # ── compactions ─────────────────────────────────────────────────────────────────────────────

    def _own_folds(self, node: Node) -> None:
        names = restore_embedded(node.raw, node.index, self.log)
        if names is None:
            raise _UnfitError(node)
        tail = self.log.tail or node.id
        for places in (self.starts, self.ends, self.result_entries):
            for place, id in places.items():
                places[place] = id if id in self.log else names.get(id, tail)
        self._done(node, node.id, tail)

    def _compaction(self, node: Node) -> None:
        content = m.with_origin("summary", parts_of_blocks(node.blocks))
        boundary = self._boundary(node)
        metadata = as_object(boundary.raw.get("compactMetadata")) if boundary else {}
        parent = self._parent(node)
        summary = m.User(content)
        path, kept = self._kept(metadata, parent)
        edits = edits_of(path, set(path) - kept, (summary,) if content else ())
        if not content and not edits:
            self._other(node, parent)
            return
        if not edits or parent is None:
            note = e.Note(id=node.id, parent=parent, time=time_of(node.raw), content=content, kind="summary")
            self._done(node, node.id, self.log.put(note))
            return
        first_kept = next((id for id in path if id in kept), None)
        self._fold(node, edits, metadata, summary=summary.text, first_kept=first_kept)

    def _fold(self, node: Node, edits: tuple[e.Edit, ...], metadata: JsonObject, **fields: Any) -> None:
        made = self.log.folded(
            edits,
            node.index,
            id=node.id,
            parent=self._parent(node),
            time=time_of(node.raw),
            reason=as_text(metadata.get("trigger")),
            tokens_before=as_count(metadata.get("preTokens")),
            tokens_after=as_count(metadata.get("postTokens")),
            details=metadata,
            **fields,
        )
        self._done(node, node.id, made)

    def _boundary(self, node: Node) -> Node | None:
        """The boundary record above a summary (or itself); attachments may be in between."""
        at: Node | None = node
        for _ in range(20):
            if at is None or at.raw.get("subtype") == "compact_boundary":
                break
            at = self.nodes.get(at.parent) if at.parent else None
        return at if at is not None and at.raw.get("subtype") == "compact_boundary" else None

    def _kept(self, metadata: JsonObject, parent: str | None) -> tuple[list[str], set[str]]:
        """The path up to the compaction, and its entries that stayed in view."""
        path = self.log.path(parent)
        places = {id: place for place, id in enumerate(path)}
        segment = as_object(metadata.get("preservedSegment"))
        several = as_object(metadata.get("preservedMessages"))
        stretches = [(as_text(id), as_text(id)) for id in as_list(several.get("uuids"))]
        stretches.append((as_text(segment.get("headUuid")), as_text(segment.get("tailUuid"))))
        kept: set[str] = set()
        for head, tail in stretches:
            # A reply is kept as a whole: its records and results mean nothing without each other.
            first, last = self.starts.get(head), self.ends.get(tail)
            if first in places:
                end = places[last] if last in places else len(path) - 1
                kept.update(path[places[first] : end + 1])
        return path, kept

    def _microcompaction(self, node: Node) -> bool:
        metadata = as_object(node.raw.get("microcompactMetadata"))
        path = set(self.log.path(self._parent(node)))
        edits: list[e.Edit] = []
        for call in as_list(metadata.get("compactedToolIds")):
            id = self.result_entries.get(call) if isinstance(call, str) else None
            if id is not None and id in path:
                old = self.results[call]
                tool = self.log.calls.get(old.call_id)
                cleared = m.Result(old.call_id, (m.Text(CLEARED),), tool, old.is_error)
                edits.append(e.Edit(id, id, (cleared,), "mask"))
        if edits:
            self._fold(node, tuple(edits), metadata)
        return bool(edits)

    # ── records beside the path ─────────────────────────────────────────────────────────────────

    def _loose(self, loose: list[tuple[int, int, JsonObject]]) -> str | None:
        """Titles, labels and internal state. Returns the title."""
        title: str | None = None
        for index, _, raw in loose:
            kind, when = as_text(raw.get("type")), time_of(raw)
            target = self.ends.get(as_text(raw.get("leafUuid")))
            if kind in _TITLES and as_name(raw.get(_TITLES[kind])):
                title = raw[_TITLES[kind]]
                self.log.add(e.Info, index, time=when, name=title, meta=raw)
            elif kind == "summary" and target is not None:
                self.log.add(e.Label, index, time=when, target=target, text=as_text(raw.get("summary")))
            elif kind == "summary":
                self.log.add(e.Info, index, time=when, meta=raw)
            else:
                if kind not in _LOOSE_KINDS:
                    self.log.unknown[kind] += 1
                self.log.state(kind, raw, index, time=when)
        return title


def _is_ours(node: Node) -> bool:
    return bool(embedded_in(node.raw, node.index))
