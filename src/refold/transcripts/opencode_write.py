"""Sessions for opencode, as `opencode import` reads them: what `opencode export` writes.

All that was said comes first; where something is folded, a request to compact follows, the record as its
summary, and what else the model sees, once more. opencode sends what follows the last summary. Checked with
release 1.18.18.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from refold import entries as e
from refold import messages as m
from refold.errors import UsageError
from refold.session import Item, Projection, Session, dialects
from refold.session.dialects.common import call_object
from refold.text.lenient_json import JsonObject
from refold.transcripts.claude_write import adapted
from refold.transcripts.exported import Exported, export_losses, spoken_items
from refold.transcripts.programs import entry_of, sendable_items

OPENCODE_VERSION = "1.18.18"
AGENT = "build"
GO_ON = "Go on from here."
"""Inserted where a reply would follow the summary without a request."""
_NO_RECORD = "The conversation goes on below; some of it is shortened."
_FINISHES = {"tool_use": "tool-calls", "length": "length", "refusal": "content-filter"}


class Importable(Exported, frozen=True, kw_only=True):
    id: str
    command: str
    """The command that resumes it, in the session's folder; `FILE` is where this was written."""


def importable(session: Session, *, view: bool, cwd: str | os.PathLike[str] | None, now: float) -> Importable:
    """The session as a new one of opencode. `view=True` omits what precedes the compaction."""
    projection = Projection(session)
    split = projection.folds and not view
    said = sendable_items(spoken_items(session), "openai", adapted) if split else []
    shown = sendable_items(projection.items, "openai", adapted)
    if not shown:
        raise UsageError("this session cannot be resumed: it has no messages")
    folder = os.path.realpath(cwd or session.info.cwd or Path.cwd())
    writing = Writing(session, folder, now)
    messages = [*writing.messages(said), *writing.compaction(shown)] if said else [*writing.messages(shown)]
    times = [message["info"]["time"]["created"] for message in messages]
    info: JsonObject = {
        "id": writing.id,
        "slug": "refold",
        "projectID": "global",
        "directory": folder,
        "title": session.name or session.id,
        "version": OPENCODE_VERSION,
        "time": {"created": min(times), "updated": max(times)},
    }
    rows = ",\n  ".join(map(m.compact_json, messages))
    data = f'{{"info": {m.compact_json(info)},\n "messages": [\n  {rows}\n ]}}\n'.encode()
    lost = export_losses(session, dialects.get("openai"), said or shown, view=True, keeps=("usage", "times"))
    if any(isinstance(item.message, m.System) for item in projection.items):
        lost.append("system prompt not exported: the program has its own")
    provider, _, model = writing.model.partition(":")
    lost.append(f"opencode goes on with {provider}/{model}; where it does not have that, add --model")
    command = f"opencode import FILE && opencode --session {writing.id}"
    return Importable(data=data, lost=tuple(lost), id=writing.id, command=command)


class Writing:
    """Messages of opencode, in their order."""

    def __init__(self, session: Session, folder: str, now: float) -> None:
        self.session, self.folder = session, folder
        self.number = int(now * 1000) * 4096
        """Ids grow with time; opencode's own begin behind these."""
        self.at = min((entry.time for entry in session.path if entry.time), default=now)
        self.id = f"ses_{~self.number & (1 << 48) - 1:012x}{uuid4().hex[:14]}"
        models = (entry.model for entry in reversed(session.path) if isinstance(entry, e.MessageEntry))
        self.model = next(filter(None, models), "unknown:unknown")
        self.asked = ""
        """The user message that replies belong to."""

    def messages(self, items: Sequence[Item], *, copies: bool = False) -> Iterator[JsonObject]:
        results = {item.message.call_id: item for item in items if isinstance(item.message, m.Result)}
        for item in items:
            if isinstance(item.message, m.Assistant):
                if not self.asked:
                    yield self._user([{"type": "text", "text": GO_ON, "synthetic": True}])
                yield self._reply(item, results, copies)
            elif not isinstance(item.message, m.Result):
                yield self._user(list(filter(None, map(_part, item.message.parts))), self._time(item, copies))

    def compaction(self, shown: Sequence[Item]) -> Iterator[JsonObject]:
        """The record as a summary, and what the model sees after it."""
        first = shown[0]
        folded = first.fold is not None and isinstance(first.message, m.User)
        record = first.message.text if folded else _NO_RECORD
        yield self._user([{"type": "compaction", "auto": False}])
        summary = Item(m.Assistant((m.Text(record),), "end"), ())
        yield self._reply(summary, {}, True, mode="compaction", agent="compaction", summary=True)
        rest = shown[1:] if folded else shown
        if rest and isinstance(rest[0].message, m.Assistant):
            self.asked = ""
        yield from self.messages(rest, copies=True)

    def _time(self, item: Item, copies: bool) -> float:
        entry = None if copies else entry_of(self.session, item)
        return entry.time if entry else 0.0

    def _new(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{self.number & (1 << 48) - 1:012x}{uuid4().hex[:14]}"

    def _message(self, info: JsonObject, parts: Sequence[JsonObject], time: float) -> JsonObject:
        id = self._new("msg")
        self.at = max(time, self.at + 0.001)
        times = {"created": int(self.at * 1000)}
        if info["role"] == "user":
            self.asked = id
        else:
            times["completed"] = times["created"]
        place = {"sessionID": self.id, "messageID": id}
        rows = [{"id": self._new("prt"), **place, **part} for part in parts]
        return {"info": {"id": id, "sessionID": self.id, **info, "time": times}, "parts": rows}

    def _user(self, parts: Sequence[JsonObject], time: float = 0.0) -> JsonObject:
        provider, _, model = self.model.partition(":")
        info = {"role": "user", "agent": AGENT, "model": {"providerID": provider, "modelID": model}}
        return self._message(info, parts, time)

    def _reply(self, item: Item, results: dict[str, Item], copies: bool, **more: Any) -> JsonObject:
        message, entry = item.message, entry_of(self.session, item)
        assert isinstance(message, m.Assistant)
        provider, _, model = ((entry.model if entry else None) or self.model).partition(":")
        used = (entry.usage if entry and not copies else None) or m.Usage()
        info: JsonObject = {
            "role": "assistant",
            "parentID": self.asked,
            "mode": AGENT,
            "agent": AGENT,
            "path": {"cwd": self.folder, "root": "/"},
            "cost": 0,
            "tokens": {
                "input": used.input,
                "output": used.output,
                "reasoning": 0,
                "cache": {"read": used.cache_read, "write": used.cache_write},
            },
            "providerID": provider,
            "modelID": model,
            "finish": _FINISHES.get(message.stop or "", "stop"),
            **more,
        }
        said = chain.from_iterable(self._said(part, results) for part in message.parts)
        return self._message(info, [{"type": "step-start"}, *said], self._time(item, copies))

    def _said(self, part: m.AnyPart, results: dict[str, Item]) -> Iterator[JsonObject]:
        times = {"start": int(self.at * 1000), "end": int(self.at * 1000)}
        if isinstance(part, m.Thinking) and part.text:
            yield {"type": "reasoning", "text": part.text, "time": times}
        elif isinstance(part, m.Call):
            item = results.get(part.id)
            result = item.message if item and isinstance(item.message, m.Result) else None
            state: JsonObject = {"status": "error", "error": "no result", "time": times}
            if result is not None and result.is_error:
                state["error"] = result.text
            elif result is not None:
                state = {
                    "status": "completed",
                    "output": result.text,
                    "title": "",
                    "metadata": {},
                    "time": times,
                }
                files = [row for each in result.parts if isinstance(each, m.Image) and (row := _part(each))]
                state |= {"attachments": files} if files else {}
            yield {
                "type": "tool",
                "callID": part.id,
                "tool": part.name,
                "state": {**state, "input": call_object(part)},
            }
        elif row := _part(part):
            yield row


def _part(part: m.AnyPart) -> JsonObject | None:
    match part:
        case m.Text(text, origin) if text:
            return {"type": "text", "text": text, **({"synthetic": True} if origin == "program" else {})}
        case m.Image(media, data, url):
            where = url or f"data:{media};base64,{data}"
            return {"type": "file", "mime": media, "filename": "image", "url": where}
        case _:
            return None
