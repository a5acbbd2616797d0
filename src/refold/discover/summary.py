"""All sessions together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from refold.discover.jobs import Asked, File, Folded
from refold.discover.session import KINDS, Again, Cache, Compaction, Found, Lost, Tool

NEWEST = 10
"""Compactions that are done again."""
LARGE = 40_000
"""Tokens of a session that is worth folding."""


class Event(msgspec.Struct, frozen=True):
    """A compaction, and whose it was."""

    session: Found
    compaction: Compaction


class Instead(msgspec.Struct):
    """The newest compactions, done again by refold: what each left out."""

    compactions: int = 0
    tokens: int = 0
    """Of the prompts that the programs' own summaries were written from."""
    theirs: dict[str, Lost] = {}
    refold: dict[str, Lost] = {}


class Summary(msgspec.Struct, kw_only=True):
    files: int = 0
    bytes: int = 0
    sessions: int = 0
    formats: dict[str, int] = {}
    messages: int = 0
    tokens: int = 0
    tools: dict[str, Tool] = {}
    again: list[Again] = []
    cache: Cache = msgspec.field(default_factory=Cache)
    events: list[Event] = []
    """Newest first."""
    lost: dict[str, Lost] = {}
    instead: Instead = msgspec.field(default_factory=Instead)
    unread: list[File] = []
    newest: Found | None = None
    """Of the large ones, if there are any."""


def summed(files: Iterable[File]) -> Summary:
    total = Summary()
    again: dict[tuple[str, str], Again] = {}
    seen: set[str] = set()
    for file in files:
        total.files += 1
        total.bytes += file.bytes
        if file.state != "read":
            total.unread.append(msgspec.structs.replace(file, found=[]))
        for found in file.found:
            _add(total, found, again, seen)
    total.tools = dict(sorted(total.tools.items(), key=lambda item: -item[1].tokens))
    total.formats = dict(sorted(total.formats.items(), key=lambda item: -item[1]))
    total.again = sorted(again.values(), key=lambda one: -one.tokens)
    total.events.sort(key=lambda event: -event.compaction.time)
    total.unread.sort(key=lambda file: file.file)
    total.lost = together(event.compaction.lost for event in total.events)
    return total


def _add(total: Summary, found: Found, again: dict[tuple[str, str], Again], seen: set[str]) -> None:
    total.sessions += 1
    total.formats[found.format] = total.formats.get(found.format, 0) + 1
    total.messages += found.messages
    total.tokens += found.tokens
    for name, tool in found.tools.items():
        same = next((other for other in total.tools if other.casefold() == name.casefold()), name)
        known = total.tools.setdefault(same, Tool())
        known.calls += tool.calls
        known.tokens += tool.tokens
    for one in found.again:
        same = again.setdefault((found.folder, one.path), Again(one.path))
        same.times += one.times
        same.tokens += one.tokens
    for name in Cache.__struct_fields__:
        setattr(total.cache, name, getattr(total.cache, name) + getattr(found.cache, name))
    new = [one for one in found.compactions if one.id not in seen]  # resuming may copy a session
    seen.update(one.id for one in new)
    total.events += [Event(msgspec.structs.replace(found, compactions=[]), one) for one in new]
    if total.newest is None or _worth(found) > _worth(total.newest):
        total.newest = msgspec.structs.replace(found, compactions=[])


def _worth(found: Found) -> tuple[bool, float]:
    return found.tokens > LARGE, found.time


def together(every: Iterable[dict[str, Lost]]) -> dict[str, Lost]:
    """What several left out."""
    listed = list(every)
    return {
        kind: Lost(sum(one[kind].gone for one in listed), sum(one[kind].of for one in listed))
        for kind in KINDS
    }


def asked(total: Summary) -> list[Asked]:
    """The compactions that are done again: the newest that wrote a summary."""
    newest = [event for event in total.events if event.compaction.summarised][:NEWEST]
    return [Asked(Path(event.session.file), event.session.id, event.compaction.id) for event in newest]


def compared(total: Summary, asked: Sequence[Asked], folded: Sequence[Folded | None]) -> Instead:
    """Beside each other, where both are there."""
    events = {event.compaction.id: event.compaction for event in total.events}
    pairs = [(events[one.fold], made) for one, made in zip(asked, folded, strict=True) if made is not None]
    return Instead(
        len(pairs),
        sum(real.before for real, _ in pairs),
        together(real.lost for real, _ in pairs),
        together(made.lost for _, made in pairs),
    )
