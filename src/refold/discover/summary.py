"""Totals over all sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from refold.discover.jobs import FoldJob, RefoldedView, ScannedFile
from refold.discover.session import (
    TRACKED_KINDS,
    Again,
    Cache,
    LostCount,
    PastCompaction,
    SessionFindings,
    ToolTokens,
)

MAX_REDONE = 10
"""Compactions that are repeated with refold."""
MIN_FOLDABLE_TOKENS = 40_000
"""Tokens from which a session is worth folding."""


class CompactionEvent(msgspec.Struct, frozen=True):
    """A compaction and its session."""

    session: SessionFindings
    compaction: PastCompaction


class Instead(msgspec.Struct):
    """The newest compactions, repeated with refold: what each left out."""

    compactions: int = 0
    tokens: int = 0
    """Of the prompts from which the programs' own summaries were written."""
    theirs: dict[str, LostCount] = {}
    refold: dict[str, LostCount] = {}


class DiscoverySummary(msgspec.Struct, kw_only=True):
    files: int = 0
    bytes: int = 0
    sessions: int = 0
    formats: dict[str, int] = {}
    messages: int = 0
    tokens: int = 0
    tools: dict[str, ToolTokens] = {}
    again: list[Again] = []
    cache: Cache = msgspec.field(default_factory=Cache)
    events: list[CompactionEvent] = []
    """Newest first."""
    lost: dict[str, LostCount] = {}
    instead: Instead = msgspec.field(default_factory=Instead)
    unread: list[ScannedFile] = []
    newest: SessionFindings | None = None
    """The newest session, preferably a large one."""


def summarise_files(files: Iterable[ScannedFile]) -> DiscoverySummary:
    total = DiscoverySummary()
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
    total.lost = merge_losses(event.compaction.lost for event in total.events)
    return total


def _add(
    total: DiscoverySummary, found: SessionFindings, again: dict[tuple[str, str], Again], seen: set[str]
) -> None:
    total.sessions += 1
    total.formats[found.format] = total.formats.get(found.format, 0) + 1
    total.messages += found.messages
    total.tokens += found.tokens
    for name, tool in found.tools.items():
        same = next((other for other in total.tools if other.casefold() == name.casefold()), name)
        known = total.tools.setdefault(same, ToolTokens())
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
    total.events += [CompactionEvent(msgspec.structs.replace(found, compactions=[]), one) for one in new]
    if total.newest is None or _worth(found) > _worth(total.newest):
        total.newest = msgspec.structs.replace(found, compactions=[])


def _worth(found: SessionFindings) -> tuple[bool, float]:
    return found.tokens > MIN_FOLDABLE_TOKENS, found.time


def merge_losses(every: Iterable[dict[str, LostCount]]) -> dict[str, LostCount]:
    listed = list(every)
    return {
        kind: LostCount(sum(one[kind].gone for one in listed), sum(one[kind].of for one in listed))
        for kind in TRACKED_KINDS
    }


def asked(total: DiscoverySummary) -> list[FoldJob]:
    """The compactions to repeat: the newest that wrote a summary."""
    newest = [event for event in total.events if event.compaction.summarised][:MAX_REDONE]
    return [FoldJob(Path(event.session.file), event.session.id, event.compaction.id) for event in newest]


def compared(
    total: DiscoverySummary, asked: Sequence[FoldJob], folded: Sequence[RefoldedView | None]
) -> Instead:
    """Both results side by side, where both exist."""
    events = {event.compaction.id: event.compaction for event in total.events}
    pairs = [(events[one.fold], made) for one, made in zip(asked, folded, strict=True) if made is not None]
    return Instead(
        len(pairs),
        sum(real.before for real, _ in pairs),
        merge_losses(real.lost for real, _ in pairs),
        merge_losses(made.lost for _, made in pairs),
    )
