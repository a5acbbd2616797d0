"""Sessions of Claude Code, written: records with parents, a boundary where something is folded.

What stands before a `compact_boundary` is kept for readers of the file; Claude Code sends what follows it.
The message after the boundary is marked as the summary; the rest are copies under new ids, with no usage:
from the old one it would conclude that the window is as full as before. Checked with release 2.1.197.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any
from uuid import uuid4

from refold import entries as e
from refold import messages as m
from refold.session import Item
from refold.session.dialects import anthropic
from refold.text.frames import element
from refold.text.lenient_json import JsonObject
from refold.transcripts.embedded_fold import EMBEDDED_KEY, embed
from refold.transcripts.programs import Clock, Page, Ticket, entry_of
from refold.transcripts.values import as_name, as_text

dialect = "anthropic"
keeps = ("usage", "times")
home_variable, home_folder = "CLAUDE_CONFIG_DIR", ".claude"
CLAUDE_CODE_VERSION = "2.1.197"
MAX_FOLDER_CHARS = 200
_BADS = re.compile(r"[^a-zA-Z0-9]")
_STOPS = {"tool_use": "tool_use", "length": "max_tokens", "refusal": "refusal"}
_CARRIED = ("toolUseResult", "origin", "requestId")
"""What Claude Code noted beside a message and can be said of its copy, too."""


def new_id() -> str:
    return str(uuid4())


def adapted(message: m.Message) -> m.Message:
    """A message as a record of the user or the model; other roles are framed."""
    if not isinstance(message, m.System):
        return message
    return m.user([m.text(element("system_message", message.text), "program")])


def place(ticket: Ticket) -> PurePosixPath:
    return PurePosixPath("projects", project_folder(ticket.cwd), f"{ticket.id}.jsonl")


RECALL_TOOL = "mcp__refold__recall"


def resume_command(id: str) -> str:
    return f"claude --resume {id}"


def with_server(server: Sequence[str]) -> str:
    config = {"mcpServers": {"refold": {"command": server[0], "args": [*server[1:]]}}}
    return f" --mcp-config {shlex.quote(m.compact_json(config))}"


def project_folder(cwd: str) -> str:
    """Claude Code's name for the folder of a project."""
    plain = _BADS.sub("-", cwd.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return plain if len(plain) <= MAX_FOLDER_CHARS else f"{plain[:MAX_FOLDER_CHARS]}-{_hash(cwd)}"


def _hash(text: str) -> str:
    number = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        number = (number * 31 + unit) & 0xFFFFFFFF
    number = abs(number - (1 << 32) if number >> 31 else number)
    digits = ""
    while number or not digits:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def spoken(page: Page, ticket: Ticket) -> tuple[list[JsonObject], dict[str, str]]:
    chain = _Chain(page, ticket)
    return list(chain.records(page.said or page.view)), chain.places


def compaction_records(page: Page, records: Sequence[JsonObject], ticket: Ticket) -> list[JsonObject]:
    known = {as_name(record.get("uuid")): None for record in records}
    chain = _Chain(page, ticket, records)
    ids = (entry.id.partition(":")[0] for entry in reversed(page.session.path))
    chain.parent = next((id for id in (*ids, *reversed(known)) if id in known), None)
    last = next((record for record in reversed(records) if "gitBranch" in record), JsonObject())
    chain.common |= {key: last[key] for key in ("version", "gitBranch", "slug", "entrypoint") if key in last}
    head, *copies = chain.compaction()
    ids = [copy["uuid"] for copy in copies]
    return [
        {
            **head,
            EMBEDDED_KEY: embed(page.entries, len(records), ids, places=page.places, session=page.session.id),
        },
        *copies,
    ]


def ticket_of(records: Sequence[JsonObject], now: float) -> Ticket:
    spoken = [record for record in records if as_name(record.get("sessionId")) and "cwd" in record]
    last = spoken[-1] if spoken else {}
    return Ticket(id=as_text(last.get("sessionId")), cwd=as_text(last.get("cwd")), now=now, new_id=new_id)


class _Chain:
    """Records, each continuing the one before."""

    def __init__(self, page: Page, ticket: Ticket, before: Sequence[JsonObject] = ()) -> None:
        self.page = page
        self.ticket = ticket
        self.clock = Clock(page, ticket, before)
        self.parent: str | None = None
        self.copies = False
        self.places: dict[str, str] = {}
        """Entry → the first record of what it says."""
        self.common: JsonObject = {
            "isSidechain": False,
            "userType": "external",
            "cwd": ticket.cwd,
            "sessionId": ticket.id,
            "version": CLAUDE_CODE_VERSION,
            "gitBranch": "",
        }

    def compaction(self) -> Iterator[JsonObject]:
        """The boundary and what the model sees after it."""
        folds = [entry for entry in self.page.session.path if isinstance(entry, e.Fold)]
        metadata = {"trigger": "manual", "preTokens": folds[-1].tokens_before if folds else 0}
        before, self.parent = self.parent, None
        yield self._record(
            "system",
            logicalParentUuid=before,
            subtype="compact_boundary",
            content="Conversation compacted",
            isMeta=False,
            level="info",
            compactMetadata=metadata,
        )
        self.copies = True
        yield from self.records(self.page.view)

    def records(self, items: Sequence[Item]) -> Iterator[JsonObject]:
        first = True
        for item in items:
            for record in self._told(item, first):
                for id in item.entries[:1]:
                    self.places.setdefault(id, record["uuid"])
                yield record
                first = False

    def _told(self, item: Item, first: bool) -> Iterator[JsonObject]:
        for message in anthropic.render([item])["messages"]:
            role, blocks = message["role"], message["content"]
            if role == "assistant":
                yield from self._reply(item, blocks)
            else:
                yield self._said(item, blocks, first and item.fold is not None)

    def _said(self, item: Item, blocks: list[JsonObject], summary: bool) -> JsonObject:
        entry = entry_of(self.page.session, item)
        texts = [part for part in item.message.parts if isinstance(part, m.Text)]
        extra: JsonObject = {key: entry.meta[key] for key in _CARRIED if entry and key in entry.meta}
        if summary:
            extra |= {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        elif isinstance(item.message, m.User) and texts and all(part.origin for part in texts):
            extra["isMeta"] = True  # it was not typed
        content: Any = blocks
        if len(blocks) == 1 and blocks[0]["type"] == "text":
            content = blocks[0]["text"]
        return self._record("user", entry, message={"role": "user", "content": content}, **extra)

    def _reply(self, item: Item, blocks: list[JsonObject]) -> Iterator[JsonObject]:
        """One record per block, all of one message."""
        entry = entry_of(self.page.session, item)
        message = item.message
        stop = message.stop if isinstance(message, m.Assistant) else None
        calls = any(block["type"] == "tool_use" for block in blocks)
        whole: JsonObject = {
            "id": f"msg_{self.ticket.new_id().replace('-', '')}",
            "type": "message",
            "role": "assistant",
            "model": (entry.model or "").rpartition(":")[2] if entry and entry.model else "unknown",
            "stop_reason": "tool_use" if calls else _STOPS.get(stop or "", "end_turn"),
            "stop_sequence": None,
            "usage": _usage(None if self.copies or entry is None else entry.usage),
        }
        for block in blocks:
            yield self._record("assistant", entry, message={**whole, "content": [block]})

    def _record(self, kind: str, entry: e.MessageEntry | None = None, **fields: Any) -> JsonObject:
        id, parent = self.ticket.new_id(), self.parent
        self.parent = id
        when = entry.time if entry is not None and not self.copies else 0.0
        stamp = self.clock.stamp(when)
        return {
            "parentUuid": parent,
            **self.common,
            "type": kind,
            **fields,
            "uuid": id,
            "timestamp": stamp,
        }


def _usage(usage: m.Usage | None) -> JsonObject:
    used = usage or m.Usage()
    return {
        "input_tokens": used.input,
        "cache_creation_input_tokens": used.cache_write,
        "cache_read_input_tokens": used.cache_read,
        "output_tokens": used.output,
    }
