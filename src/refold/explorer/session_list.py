"""Sessions that the explorer shows: those of the MCP server's collections, each of which may fail alone.

The list is checked repeatedly; details beyond id, time and folder are read when a row becomes visible, and
kept until the session changes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from shlex import quote

import msgspec

from refold import entries as e
from refold.compare.report.html import redacted_text
from refold.costs import known
from refold.errors import RefoldError, UnknownName, UsageError
from refold.explorer.timeline import Timeline, list_line
from refold.facts.words import typed
from refold.mcp.collections import Collections
from refold.messages import Usage
from refold.protocols import Placed, SessionInfo
from refold.registry.client_sessions import RESUMABLE_CLIENTS
from refold.registry.engine import Engine
from refold.registry.sessions import stored
from refold.session import Session
from refold.session.edits import active_folds
from refold.session.history import last_model
from refold.text.lenient_json import JsonObject

MAX_HITS_PER_COLLECTION = 200
SUMMARIES = 50_000
TIMELINES = 6
MISSING = object()
SETTLED_SECONDS = 2.0
"""Age from which a file's time is a reliable sign of its content."""


class SessionList:
    """Sessions by name, `COLLECTION:ID`. `specs`: collection → its store in commands, if not the own."""

    def __init__(self, collections: Collections, specs: Mapping[str, str] | None = None) -> None:
        self.collections, self.specs = collections, dict(specs or {})
        self.engine = Engine()
        self.errors: dict[str, str] = {}
        """Collection → why its sessions cannot be listed."""
        self._rows: dict[str, dict[str, SessionInfo]] = {name: {} for name in collections.by_name}
        self._states: dict[str, object] = {}
        self._changed: dict[str, SessionInfo] = {}
        self._gone: list[str] = []
        """What has changed since the pages were told."""
        self._summaries: OrderedDict[tuple[str, int, float], JsonObject] = OrderedDict()
        self._timelines: OrderedDict[tuple[str, str], Timeline] = OrderedDict()
        self._lock = threading.Lock()

    # ── the list ────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        """Notes the sessions that are new, changed or gone since the last check."""
        for name in self.collections.by_name:
            state = self._state(name)
            if state is not None and state == self._states.get(name, MISSING):
                continue
            try:
                now = {row.name: row.info for row in self.collections.rows(name)}
                self.errors.pop(name, None)
            except (RefoldError, OSError) as error:
                self.errors[name] = redacted_text(str(error))
                continue
            self._states[name] = state
            before, self._rows[name] = self._rows[name], now
            self._changed |= {key: info for key, info in now.items() if before.get(key) != info}
            self._gone += [key for key in before if key not in now]

    def _state(self, name: str) -> object:
        """A value that changes with a store's file; None if the store must be read, as shortly after a write,
        when a second one in the same clock tick leaves no trace."""
        store = self.collections.by_name[name].store
        if not isinstance(store, Placed):
            return None
        path = str(store.path)
        try:
            if Path(path).is_dir():
                return None
            stats = [file.stat() for file in (Path(path), Path(f"{path}-wal")) if file.exists()]
        except OSError:
            return None
        newest = max((stat.st_mtime for stat in stats), default=0.0)
        if time.time() - newest < SETTLED_SECONDS:
            return None
        return [(stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats]

    def list(self) -> JsonObject:
        """All sessions, most recently changed first."""
        with self._lock:
            self._look()
            rows = [_row(key, info) for collection in self._rows.values() for key, info in collection.items()]
        rows.sort(key=lambda row: -row["time"])
        return {"rows": rows, **self.status()}

    def changes(self) -> JsonObject | None:
        """Changes of the list since the pages were told; None if there are none."""
        with self._lock:
            before = dict(self.errors)
            self._look()
            changed, gone = self._changed, self._gone
            self._changed, self._gone = {}, []
            if not changed and not gone and before == self.errors:
                return None
            rows = [_row(key, info) for key, info in changed.items()]
            return {"rows": rows, "gone": gone, **self.status()}

    def status(self) -> JsonObject:
        return {"errors": dict(self.errors), "unread": self.collections.unread}

    def summaries(self, names: Iterable[str]) -> JsonObject:
        """Details of rows; a session that cannot be read says why."""
        return {name: self._summary(name) for name in names}

    def _summary(self, name: str) -> JsonObject:
        collection_name, _, id = name.partition(":")
        info = self._rows.get(collection_name, {}).get(name)
        if info is None:
            return {"error": "this session is gone"}
        key = name, info.entries, info.updated
        if key not in self._summaries:
            try:
                made = session_summary(
                    stored(self.collections.by_name[collection_name].store, id), self.engine
                )
            except (RefoldError, OSError) as error:
                return {"error": redacted_text(str(error))}
            while len(self._summaries) >= SUMMARIES:
                self._summaries.popitem(last=False)
            self._summaries[key] = made
        return self._summaries[key]

    def search(self, query: str) -> JsonObject:
        """Sessions with these words, best first, each with its hits; then those with a matching title."""
        found: dict[str, JsonObject] = {}
        words = query.lower().split()
        for collection in self.collections.by_name:
            try:
                hits = list(
                    self.collections.recall(
                        query, limit=MAX_HITS_PER_COLLECTION, file=None, collection=collection
                    )
                )
            except (RefoldError, OSError) as error:
                self.errors[collection] = redacted_text(str(error))
                continue
            for _, hit in hits:
                row = found.setdefault(f"{collection}:{hit.session}", {"hits": 0, "score": hit.hit.score})
                row["hits"] += 1
                row.setdefault("text", list_line(hit.hit.text))
                row.setdefault("entry", hit.hit.entry_id)
            for name, info in self._rows[collection].items():
                called = f"{name} {info.name or ''} {info.cwd or ''}".lower()
                if words and all(word in called for word in words):
                    found.setdefault(name, {"hits": 0, "score": 0.0})
        best = sorted(found.items(), key=lambda pair: -pair[1]["score"])
        return {"found": [{"name": name, **row} for name, row in best], **self.status()}

    # ── one session ─────────────────────────────────────────────────────────────────────────────

    def timeline(self, name: str, leaf: str = "") -> Timeline:
        """A session at its current leaf or another one."""
        session = self.collections.session(name)
        kept = self._timelines.pop((name, leaf), None)
        if kept is None or (kept.session is not session if not leaf else len(kept.session) <= len(session)):
            kept = Timeline(at_leaf(session, leaf) if leaf else session, self.engine)
        self._timelines[name, leaf] = kept
        while len(self._timelines) > TIMELINES:
            self._timelines.popitem(last=False)
        return kept

    def session(self, name: str, leaf: str = "", start: int = 0, last: str = "") -> JsonObject:
        timeline = self.timeline(name, leaf)
        session, collection = timeline.session, self.collections.by_name[name.partition(":")[0]]
        return {
            "name": name,
            "client": collection.name,
            "writable": collection.writable and not leaf,
            "folder": redacted_text(session.info.cwd or ""),
            "other_leaf": bool(leaf),
            "commands": self._commands(name),
            **session_summary(session, self.engine),
            **timeline.shown(start, last),
        }

    def copy(self, name: str, leaf: str) -> Session:
        """An in-memory copy of a session."""
        session = self.collections.session(name)
        return at_leaf(session, leaf or session.leaf)

    def change(self, name: str, deed: str, target: str | None) -> JsonObject:
        """Undo, redo, pin or unpin, in the user's own sessions."""
        session = self.collections.session(name, writing=True)
        if deed not in ("undo", "redo") and not (deed in ("pin", "unpin") and target):
            raise UsageError(f"cannot do {deed!r}: there are undo, redo, pin and unpin")
        getattr(self.engine, deed)(session, target)
        return {"done": deed, "tokens": self.engine.view(session).tokens}

    def _commands(self, name: str) -> JsonObject:
        """Commands to copy, for what cannot be done here."""
        collection_name, _, id = name.partition(":")
        collection = self.collections.by_name[collection_name]
        if collection.synced is not None:
            place = collection.synced.place_of(id)
        else:
            spec = self.specs.get(collection_name, "")
            place = f"{spec}#{id}" if spec else id
        if place is None:
            return {}
        file = quote(redacted_text(place))
        resume = RESUMABLE_CLIENTS.get(collection_name, "claude")
        told = {
            "resume": f"refold compact {file} --budget 40k --resume {resume}",
            "export": f"refold export {file} --to markdown -o session.md",
            "compare": f"refold compare {file} --html report.html",
        }
        return told | ({"forget": f"refold forget {file} KEY"} if collection.writable else {})


@lru_cache(maxsize=4_096)
def _folder(path: str) -> str:
    return redacted_text(path)


def _row(name: str, info: SessionInfo) -> JsonObject:
    """A row of the list without its title, which must be checked for secrets and comes with the details."""
    return {
        "name": name,
        "folder": _folder(info.cwd or ""),
        "client": name.partition(":")[0],
        "time": info.updated or info.created,
        "entries": info.entries,
    }


def at_leaf(session: Session, leaf: str | None) -> Session:
    """The same log at another leaf, in memory."""
    if leaf is not None and leaf not in session:
        raise UnknownName("entry", leaf[:80])
    copy = Session(session.entries, id=session.id, info=session.info)
    copy.share_counts(session)
    copy.move(leaf)
    return copy


def session_summary(session: Session, engine: Engine) -> JsonObject:
    """Details of a session: title, model, tokens, folds, and cost as far as usage and prices are known."""
    said = (entry.message for entry in session.path if isinstance(entry, e.MessageEntry))
    title = next((text for message in said if (text := typed(message).strip())), "")
    named = session.name if session.name != session.id else None
    priced, unpriced = spent(session)
    return {
        "title": list_line(named or title),
        "model": redacted_text((last_model(session) or "").rpartition(":")[2]),
        "tokens": engine.view(session).tokens,
        "folds": len(active_folds(session.path)),
        "dollars": round(priced, 4) if priced or not unpriced else None,
        "unpriced": unpriced,
        "replies": len(session.replies),
    }


def reply_usage(session: Session) -> dict[str, tuple[e.MessageEntry, Usage]]:
    """Usage of the replies on every branch, with what a gateway recorded after the client's answer."""
    noted = {state.target: state.value for state in session.annotations(e.State) if state.name == "usage"}
    found: dict[str, tuple[e.MessageEntry, Usage]] = {}
    for entry in session.annotations(e.MessageEntry):
        usage = entry.usage
        if usage is None and entry.id in noted:
            try:
                usage = msgspec.convert(noted[entry.id], Usage)
            except msgspec.ValidationError:
                usage = None
        if usage is not None and usage.total:
            found[entry.id] = entry, usage
    return found


def spent(session: Session) -> tuple[float, int]:
    """Cost of all replies and folds at list prices, and the number of replies that cannot be priced."""
    dollars, unpriced = 0.0, 0
    counted = reply_usage(session)
    for entry in session.annotations(e.MessageEntry):
        if entry.message.role != "assistant":
            continue
        about = known(entry.model) if entry.model else None
        if entry.id in counted and about and about.prices:
            dollars += about.prices.cost(counted[entry.id][1])
        else:
            unpriced += 1
    for fold in session.annotations(e.Fold):
        about = known(fold.author) if fold.requests and fold.author else None
        if about and about.prices and fold.usage:
            dollars += about.prices.cost(fold.usage)
    return dollars, unpriced
