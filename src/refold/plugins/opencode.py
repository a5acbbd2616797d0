"""The view for opencode, before every request: by lines of JSON, from the plug-in and back.

    {"number": 1, "session": "ses_…", "messages": [{"info": …, "parts": […]}, …], "window": 200000}
    {"number": 1, "messages": […]}                   null: they fit as they are
    {"number": 2, "session": "ses_…"}                a compaction begins
    {"number": 2, "record": "…"}

Messages that are shown as they were said are those that came; opencode's storage is never touched. What was
folded is in the user's store, as the session `live-ses_…`.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import msgspec

from refold.entries import MessageEntry
from refold.loop import run
from refold.messages import Result, System
from refold.plugins.compaction_texts import hook_texts
from refold.registry import configuration, models
from refold.registry.engine import Engine
from refold.registry.sessions import open as open_session
from refold.session import Item, Session
from refold.session.dialects import get
from refold.session.edits import active_folds, said_by
from refold.session.invariants import repair_by
from refold.text.lenient_json import JsonObject
from refold.transcripts import read_stream
from refold.transcripts.opencode import COMPACTION_REQUEST
from refold.transcripts.opencode_write import Writing


def serve_views(lines: Iterable[str] | None = None, out: TextIO | None = None) -> None:
    """Answers every line on `out` or standard output; a failure is answered with nothing."""
    live = Live()
    for line in sys.stdin if lines is None else lines:
        asked: JsonObject = json.loads(line)
        answer: JsonObject = {"number": asked["number"]}
        try:
            if "messages" in asked:
                answer["messages"] = live.shown(asked["session"], asked["messages"], asked["window"])
            else:
                answer["record"] = live.record(asked["session"])
        except Exception as error:
            answer["error"] = type(error).__name__
        print(json.dumps(answer), file=out, flush=True)


class Live:
    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._engines: dict[int, Engine] = {}

    def shown(self, id: str, messages: Sequence[JsonObject], window: int) -> list[JsonObject] | None:
        """The messages to send instead; None: unchanged."""
        session, engine = self._session(id), self._engine(window)
        session.refresh()
        follow_list(session, entries_of_list(id, messages))
        view = run(engine.prepare(session))
        return opencode_messages(session, view.items, messages) if active_folds(session.path) else None

    def record(self, id: str) -> str:
        told = (text for name, text in hook_texts(self._session(id)) if name != "before")
        return "\n\n".join(filter(None, told))

    def _session(self, id: str) -> Session:
        if id not in self._sessions:
            self._sessions[id] = open_session("sqlite:", f"live-{id}")
        return self._sessions[id]

    def _engine(self, window: int) -> Engine:
        if window not in self._engines:
            preset = models.preset("refold", {"window": window}, config=configuration.load_configuration())
            self._engines[window] = Engine(preset)
        return self._engines[window]


def entries_of_list(id: str, messages: Sequence[JsonObject]) -> list[MessageEntry]:
    """The entries of an opencode list, without results of running tools."""
    plain = [_without_compaction(message) for message in messages]
    document = json.dumps({"info": {"id": id, "directory": ""}, "messages": plain}).encode()
    session = Session.of(read_stream(io.BytesIO(document), name=id, format="opencode"))
    return [entry for entry in session.path if isinstance(entry, MessageEntry)]


def _without_compaction(message: JsonObject) -> JsonObject:
    """A compaction of opencode as the question and answer that its model sees."""
    parts = [
        {**part, "type": "text", "text": COMPACTION_REQUEST} if part.get("type") == "compaction" else part
        for part in message["parts"]
    ]
    return {"info": {**message["info"], "summary": None}, "parts": parts}


def follow_list(session: Session, entries: Sequence[MessageEntry]) -> None:
    """Appends what is new; if the list departs from the path, the session moves back to that place."""
    known = [entry.id for entry in session.path if isinstance(entry, MessageEntry)]
    ids = [entry.id for entry in entries]
    same = next((n for n, pair in enumerate(zip(known, ids, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(known), len(ids)) if same is None else same
    if same < len(known):
        session.move(ids[same - 1] if same else None)
    for entry in entries[same:]:
        if entry.id in session:
            session.move(entry.id)
        else:
            session.append(msgspec.structs.replace(entry, parent=session.leaf))


def opencode_messages(
    session: Session, items: Sequence[Item], messages: Sequence[JsonObject]
) -> list[JsonObject]:
    """A view as messages of opencode: the original ones where they are shown unchanged."""
    given = {message["info"]["id"]: message for message in messages}
    kept = [item for item in items if not isinstance(item.message, System)]
    kept = repair_by(get("openai").rules, kept)
    results = {item.message.call_id: item for item in kept if isinstance(item.message, Result)}
    writing = Writing(session, "/", time.time())
    writing.asked = "…"  # every reply has its place: no question has to be made up
    speakers = [item for item in kept if not isinstance(item.message, Result)]
    made = writing.messages(kept)
    return [_as_said(session, item, given, results) or new for item, new in zip(speakers, made, strict=True)]


def _as_said(
    session: Session, item: Item, given: Mapping[str, JsonObject], results: Mapping[str, Item]
) -> JsonObject | None:
    """The original message with its shown results; None if it is shown otherwise."""
    message = given.get(item.entries[0]) if item.entries and item.fold is None else None
    if message is None or said_by(session[item.entries[0]]) != item.message:
        return None
    parts: list[JsonObject] = []
    for part in message["parts"]:
        result = results.get(part.get("callID", "")) if part.get("type") == "tool" else None
        if result is None or (result.fold is None and result.message == said_by(session[result.entries[0]])):
            parts.append(part)
        elif part["state"].get("status") == "completed":
            parts.append({**part, "state": {**part["state"], "output": result.message.text}})
        else:
            parts.append({**part, "state": {**part["state"], "error": result.message.text}})
    return {**message, "parts": parts}
