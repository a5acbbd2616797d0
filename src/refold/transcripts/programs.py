"""What Claude Code and Codex have in common as places that a session can go to.

All that was said on the active path comes first; then the program's own record of a compaction; then what the
model sees now. A program that resumes the file goes on from there. One module for each writes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import dropwhile
from pathlib import PurePosixPath
from typing import Protocol, TypeAlias, cast

import msgspec
from msgspec.structs import replace

from refold import entries as e
from refold import messages as m
from refold.session import Item, Projection, Session, dialects
from refold.session.dialects.common import json_copy
from refold.session.invariants import repair_by
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import seconds
from refold.transcripts.exported import spoken_items
from refold.transcripts.pi_parts import iso

WRITERS = {"claude-code": "claude_write", "codex": "codex_write"}
"""Program → the module that writes its sessions."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """What one session of a program is called and where it runs."""

    id: str
    cwd: str
    now: float
    new_id: Callable[[], str]
    """A fresh id, different each time."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into a file: all that was said, then the view. Without folds the view is all there is."""

    session: Session
    said: Sequence[Item] = ()
    view: Sequence[Item] = ()
    entries: Sequence[e.AnyEntry] = ()
    """What the record of the compaction carries: what was added to a session that is in a file already, or
    the whole path."""
    places: Mapping[str, str] | None = None
    """Of a whole path: which entry is what which record of the file says."""


Adapt: TypeAlias = Callable[[m.Message], m.Message | None]
"""A message as a program can hold it; None: the program says that itself when it resumes."""


class SessionWriter(Protocol):
    """One module for each program has these members."""

    dialect: str
    """What the program speaks with its model."""
    adapted: Adapt
    keeps: tuple[str, ...]
    """What a record holds beside the message: `usage`, `times`."""
    home_variable: str
    home_folder: str

    def new_id(self) -> str: ...
    def place(self, ticket: Ticket) -> PurePosixPath:
        """The file of a session, below the program's own folder."""
        ...

    RECALL_TOOL: str
    """What the tool of refold's MCP server is called there, where the server is called `refold`."""

    def resume_command(self, id: str) -> str: ...
    def with_server(self, server: Sequence[str]) -> str:
        """What is typed behind the command, so that the program starts this MCP server."""
        ...

    def spoken(self, page: Page, ticket: Ticket) -> tuple[list[JsonObject], dict[str, str]]:
        """A new file with all that was said; and for each entry, what that of its record will be called."""
        ...

    def compaction_records(
        self, page: Page, records: Sequence[JsonObject], ticket: Ticket
    ) -> list[JsonObject]:
        """The record of a compaction, and what the model sees from there on: appended to these."""
        ...

    def ticket_of(self, records: Sequence[JsonObject], now: float) -> Ticket:
        """The session that a file holds."""
        ...


def writer(program: str) -> SessionWriter:
    return cast("SessionWriter", import_module(f"refold.transcripts.{WRITERS[program]}"))


def page_of(session: Session, chosen: SessionWriter, *, history: bool = True) -> Page:
    """Both parts of a file, repaired as the program's provider wants them."""
    projection = Projection(session)
    split = history and bool(projection.folds)
    return Page(
        session=session,
        said=sendable_items(spoken_items(session), chosen.dialect, chosen.adapted) if split else (),
        view=sendable_items(projection.items, chosen.dialect, chosen.adapted),
    )


def sendable_items(items: Sequence[Item], dialect: str, adapt: Adapt) -> list[Item]:
    """Without the system prompt at the beginning, and what else the program brings itself."""
    told = dropwhile(lambda item: isinstance(item.message, m.System), items)
    shown = (item for item in told if not (isinstance(item.message, m.Bash) and item.message.hidden))
    adapted = ((item, adapt(_spoken(item.message))) for item in shown)
    held = [replace(item, message=message) for item, message in adapted if message is not None]
    return repair_by(dialects.get(dialect).rules, held)


def _spoken(message: m.Message) -> m.Message:
    """A command that the user ran, as text."""
    return m.user([m.text(message.text, "tool")]) if isinstance(message, m.Bash) else message


def entry_of(session: Session, item: Item) -> e.MessageEntry | None:
    """The entry that an item shows as it was said."""
    if item.fold is not None or not item.entries or item.entries[0] not in session:
        return None
    entry = session[item.entries[0]]
    return entry if isinstance(entry, e.MessageEntry) else None


def json_lines(records: Sequence[JsonObject]) -> bytes:
    return b"".join(msgspec.json.encode(json_copy(record)) + b"\n" for record in records)


class Clock:
    """Times of records: those of the entries where they have one, and never backwards."""

    def __init__(self, page: Page, ticket: Ticket, records: Sequence[JsonObject] = ()) -> None:
        """Begins with the session, or behind these records."""
        newest = max((seconds(record.get("timestamp")) for record in records), default=0.0)
        oldest = min((entry.time for entry in page.session.path if entry.time), default=ticket.now)
        self.at = max(newest, ticket.now) if records else oldest

    def stamp(self, time: float = 0.0) -> str:
        self.at = max(time, self.at + 0.001)
        return iso(self.at)
