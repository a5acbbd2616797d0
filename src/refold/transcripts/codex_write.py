"""Sessions of Codex, written: a rollout of response items, a `compacted` item where something is folded.

Codex takes the `replacement_history` of the last `compacted` item for the conversation so far; what stands
before it is kept for readers of the file. Checked with release 0.166.0.
"""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from refold import messages as m
from refold.session import Item
from refold.session.dialects import openai_responses
from refold.session.dialects.common import short_id, wire_name, without_surrogates
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import index_id
from refold.transcripts.codex_items import is_context, is_printed
from refold.transcripts.embedded_fold import EMBEDDED_KEY, embed
from refold.transcripts.programs import Clock, Page, Ticket
from refold.transcripts.values import as_object, as_text

dialect = "responses"
keeps = ("times",)
home_variable, home_folder = "CODEX_HOME", ".codex"
CODEX_VERSION = "0.166.0"


def new_id() -> str:
    """A UUID of version 7, by which Codex sorts."""
    moment = int(time.time() * 1000) << 80
    return str(UUID(int=moment | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)))


def adapted(message: m.Message) -> m.Message | None:
    return None if is_context(message) else message


def place(ticket: Ticket) -> PurePosixPath:
    moment = datetime.fromtimestamp(ticket.now, UTC).astimezone()
    name = f"rollout-{moment:%Y-%m-%dT%H-%M-%S}-{ticket.id}.jsonl"
    return PurePosixPath("sessions", f"{moment:%Y}", f"{moment:%m}", f"{moment:%d}", name)


RECALL_TOOL = "recall (mcp__refold)"


def resume_command(id: str) -> str:
    return f"codex resume {id}"


def with_server(server: Sequence[str]) -> str:
    # Required: the first request waits for it. Codex has the tool from then on or not at all.
    values = {"command": server[0], "args": [*server[1:]], "required": True}
    settings = (f"mcp_servers.refold.{name}={m.compact_json(value)}" for name, value in values.items())
    return "".join(f" -c {shlex.quote(setting)}" for setting in settings)


def spoken(page: Page, ticket: Ticket) -> tuple[list[JsonObject], dict[str, str]]:
    rollout = _Rollout(Clock(page, ticket))
    lines = [rollout.line("session_meta", _meta(ticket, rollout.clock.stamp()))]
    places: dict[str, str] = {}
    items = page.said or page.view
    custom = _custom(items)
    for item in items:
        for id in item.entries[:1]:
            places.setdefault(id, index_id(len(lines) - 1))  # the header does not count
        known = item.entries and item.entries[0] in page.session
        when = page.session[item.entries[0]].time if known else 0.0
        lines += rollout.conversation(item.message, custom, when)
    return lines, places


def compaction_records(page: Page, records: Sequence[JsonObject], ticket: Ticket) -> list[JsonObject]:
    number = records[-1].get("ordinal") if records else None
    rollout = _Rollout(Clock(page, ticket, records), number + 1 if isinstance(number, int) else None)
    custom = _custom(page.view)
    summary = next((item.message.text for item in page.view if item.fold is not None), "")
    payload: JsonObject = {
        "message": without_surrogates(summary),
        "replacement_history": [wire for item in page.view for wire in _rendered(item.message, custom)],
        EMBEDDED_KEY: embed(page.entries, len(records) - 1, places=page.places, session=page.session.id),
    }
    return [rollout.line("compacted", payload)]


def ticket_of(records: Sequence[JsonObject], now: float) -> Ticket:
    meta = as_object(records[0].get("payload")) if records else {}
    return Ticket(id=as_text(meta.get("id")), cwd=as_text(meta.get("cwd")), now=now, new_id=new_id)


def _meta(ticket: Ticket, stamp: str) -> JsonObject:
    """Session metadata, without a `model_provider`: Codex refuses to resume with another one."""
    return {
        "id": ticket.id,
        "timestamp": stamp,
        "cwd": ticket.cwd,
        "originator": "codex_cli_rs",  # Codex lists what programs it does not know apart
        "cli_version": CODEX_VERSION,
        "source": "cli",
    }


class _Rollout:
    """Lines with increasing times, numbered if the file numbers them."""

    def __init__(self, clock: Clock, number: int | None = None) -> None:
        self.clock = clock
        self.number = number

    def line(self, kind: str, payload: JsonObject, time: float = 0.0) -> JsonObject:
        numbered = {} if self.number is None else {"ordinal": self.number}
        self.number = None if self.number is None else self.number + 1
        return {"timestamp": self.clock.stamp(time), **numbered, "type": kind, "payload": payload}

    def conversation(self, message: m.Message, custom: frozenset[str], when: float) -> Iterator[JsonObject]:
        """The items of a message, and the event from which Codex displays it."""
        for wire in _rendered(message, custom):
            yield self.line("response_item", wire, when)
        if (event := _event(message)) is not None:
            yield self.line("event_msg", event, when)


def _event(message: m.Message) -> JsonObject | None:
    if isinstance(message, m.User) and (said := without_surrogates(message.text).strip()):
        return {"type": "user_message", "message": said, "images": [], "text_elements": []}
    if isinstance(message, m.Assistant):
        texts = (part.text for part in message.content if isinstance(part, m.Text))
        if said := without_surrogates("\n\n".join(text for text in texts if text.strip())):
            return {"type": "agent_message", "message": said}
    return None


def _custom(items: Sequence[Item]) -> frozenset[str]:
    """Calls with a text argument, for which Codex has other item types."""
    return frozenset(call.id for item in items for call in item.message.calls if call.raw is not None)


def _rendered(message: m.Message, custom: frozenset[str]) -> Iterator[JsonObject]:
    """The items of one message as Codex keeps them."""
    calls = {short_id(call.id, 64): call for call in message.calls if call.id in custom}
    for wire in openai_responses.render([message]):
        call = calls.get(wire["call_id"]) if wire.get("type") == "function_call" else None
        if call is not None and call.raw is not None:
            named = {"call_id": wire["call_id"], "name": wire_name(call.name)}
            yield {"type": "custom_tool_call", **named, "input": without_surrogates(call.raw)}
        elif wire["type"] == "function_call_output" and isinstance(message, m.Result):
            kind = "custom_tool_call_output" if message.call_id in custom else wire["type"]
            output = wire["output"]
            # What looks like the JSON of its own shell would be read as that.
            yield {**wire, "type": kind, "output": f"\n{output}" if is_printed(output) else output}
        elif wire["type"] == "message":
            role = "developer" if wire["role"] == "system" else wire["role"]
            yield {**wire, "role": role, "content": _content(role, wire["content"])}
        else:
            yield wire


def _content(role: str, content: Any) -> list[JsonObject]:
    if not isinstance(content, str):
        return content
    return [{"type": "output_text" if role == "assistant" else "input_text", "text": content}]
