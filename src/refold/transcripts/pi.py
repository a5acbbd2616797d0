"""pi session files (JSONL, versions 1 to 3).

Every line after the header becomes one path entry with its own id, so paths are the source's own. What
an entry holds beyond our fields is kept as a patch (`meta["pi"]`), so that writing gives it back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from refold import entries as e
from refold import format as stored
from refold import messages as m
from refold.errors import FormatError
from refold.protocols import Loaded, SessionInfo
from refold.session.edits import said_by
from refold.transcripts import patch, pi_write
from refold.transcripts.base import Head, Record, Source, index_id
from refold.transcripts.pi_parts import is_stamp, message_from, model_name, parts_from, usage_from
from refold.transcripts.values import listing, mapping, named, text, time_of, whole, without

name = "pi"

FRAME = "[The conversation up to here was compacted. Summary:]\n\n<summary>\n{summary}\n</summary>"
_KINDS = {
    "message", "compaction", "branch_summary", "custom", "custom_message", "label", "model_change",
    "thinking_level_change", "session_info",
}  # fmt: skip


def detect(head: Head) -> float:
    if not head.records:
        return 0.0
    first = head.records[0]
    if first.get("type") != "session" or not isinstance(first.get("id"), str):
        return 0.0
    if "cwd" in first and isinstance(first.get("timestamp"), str):
        return 0.95
    return 0.6 if any(str(record.get("type")) in _KINDS for record in head.records[1:]) else 0.0


def read(source: Source) -> Loaded:
    header: Record | None = None
    records: list[Record] = []
    for number, record in source.records():
        if record.get("type") != "session":
            records.append(record)
        elif header is None:
            header = record
        else:
            source.problem(number, "a second session header: left out")
    if header is None and not records:
        raise FormatError(f"{source.name or 'the file'} holds no pi entries")
    if header is None:
        source.problem(1, "the session header is missing: entries are read as version 3")
    migrate(records, _version(header), offset=0 if header is None else 1)
    aliases = _aliases(records)
    entries = _opening(header)
    for index, record in enumerate(records):
        entries.extend(_entries(record, index, aliases, source))
    sound = source.loaded(entries)
    folded = Folds(sound.entries).done()
    return Loaded(tuple(folded), tuple(source.problems), _info(header, folded))


def migrate(records: list[Record], version: int, *, offset: int = 1) -> None:
    """Bring records (without the header) to version 3, in place. `offset`: the lines before them."""
    for index, record in enumerate(records):
        if not isinstance(record.get("id"), str):
            record["id"] = index_id(index)
        if version < 2 and not isinstance(record.get("parentId"), str):
            record["parentId"] = records[index - 1]["id"] if index else None
        message = record.get("message")
        if version < 3 and isinstance(message, dict) and message.get("role") == "hookMessage":
            message["role"] = "custom"
    for record in records:
        if record.get("type") == "compaction" and "firstKeptEntryIndex" in record:
            at = record.pop("firstKeptEntryIndex")
            if isinstance(at, int) and 0 <= at - offset < len(records):
                record.setdefault("firstKeptEntryId", records[at - offset]["id"])


def _version(header: Record | None) -> int:
    version = header.get("version", 1) if header is not None else 3
    return version if isinstance(version, int) else 1


def _opening(header: Record | None) -> list[e.AnyEntry]:
    if header is None:
        return []
    info = e.Info(
        id=f"{header.get('id', 'session')}~header",
        time=time_of(header),
        cwd=named(header.get("cwd")),
        meta={"pi": without(header, frozenset({"version"}))},
    )
    return [info]


def _info(header: Record | None, entries: list[e.AnyEntry]) -> SessionInfo:
    raw = header or {}
    names = [entry.name for entry in entries if isinstance(entry, e.Info) and entry.name]
    return SessionInfo(
        id=str(raw.get("id", "session")),
        created=time_of(raw),
        updated=max((entry.time for entry in entries), default=0.0),
        name=names[-1] if names else None,
        cwd=named(raw.get("cwd")),
        entries=len(entries),
    )


def _aliases(records: list[Record]) -> dict[str, str | None]:
    """Entries of ours that have no place on a path, and where those hang that came after them."""
    found: dict[str, str | None] = {}
    for record in records:
        if record.get("customType") == pi_write.CARRIED and "parent" not in mapping(record.get("data")):
            parent = record.get("parentId")
            found[record["id"]] = found.get(parent, parent) if isinstance(parent, str) else None
    return found


def _entries(record: Record, index: int, aliases: dict[str, str | None], source: Source) -> list[e.AnyEntry]:
    if record.get("customType") == pi_write.CARRIED:
        try:
            return [stored.decode(stored.dump_hostile(mapping(record.get("data"))))]
        except FormatError as error:
            source.problem(f"entry {record['id']}", f"{error}: kept as it is")
    entry = _entry(record, index, aliases, source)
    kind = record.get("type")
    if kind == "label":
        target, label = named(record.get("targetId")), text(record.get("label"))
        return [entry, e.Label(id=f"{entry.id}~label", time=entry.time, target=target, text=label)]
    if kind == "session_info" and isinstance(record.get("name"), str):
        return [entry, e.Info(id=f"{entry.id}~info", time=entry.time, name=record["name"].strip())]
    return [entry]


def _entry(record: Record, index: int, aliases: dict[str, str | None], source: Source) -> e.AnyPathEntry:
    """The path entry of one record, with the patch that gives the record back."""
    parent = named(record.get("parentId"))
    place: dict[str, Any] = {
        "id": record["id"],
        "parent": aliases.get(parent, parent) if parent is not None else None,
        "time": time_of(record),
    }
    made = _known(record, place)
    if made is None:
        kind = str(record.get("type"))
        if kind not in _KINDS or kind == "message":
            source.problem(
                f"entry {index}", f"of an unknown kind ({_kind(record)}): kept, not shown to a model"
            )
        return e.Other(**place, kind=kind, raw=record)
    return _with_patch(made, record)


def _kind(record: Record) -> str:
    role = mapping(record.get("message")).get("role")
    return f"{record.get('type')} {role}" if role is not None else str(record.get("type"))


def _known(record: Record, place: dict[str, Any]) -> e.AnyPathEntry | None:
    match record:
        case {"type": "message", "message": dict()}:
            return _message_entry(cast("Record", record["message"]), place)
        case {"type": "custom_message"}:
            content = parts_from(record.get("content"))
            return e.Note(**place, content=content, kind=str(record.get("customType", "")))
        case {"type": "compaction", "summary": str(summary)}:
            return e.Fold(
                **place,
                edits=(),
                preset="pi",
                summary=summary,
                first_kept=named(record.get("firstKeptEntryId")),
                tokens_before=whole(record.get("tokensBefore")),
                # What an extension stored in `details` has a meaning of its own.
                files=e.Files() if record.get("fromHook") else _files(record),
                author="import:pi",
            )
        case {"type": "branch_summary", "summary": str(summary)}:
            origin = named(record.get("fromId"))
            files = e.Files() if record.get("fromHook") else _files(record)
            return e.BranchSummary(**place, summary=summary, origin=origin, files=files, author="import:pi")
        case {"type": "model_change"}:
            model = model_name(record.get("provider"), record.get("modelId"))
            return e.ModelChange(**place, model=model) if model else None
        case {"type": "thinking_level_change", "thinkingLevel": str(level)}:
            return e.ModelChange(**place, thinking=level)
        case _:
            return None


def _message_entry(raw: Record, place: dict[str, Any]) -> e.MessageEntry | e.Note | None:
    if raw.get("role") == "custom":
        content = parts_from(raw.get("content"))
        return e.Note(**place, content=content, kind=str(raw.get("customType", "")))
    message = message_from(raw)
    if message is None:
        return None
    if not isinstance(message, m.Assistant):
        return e.MessageEntry(**place, message=message)
    usage = usage_from(raw.get("usage"))
    model = model_name(raw.get("provider"), raw.get("model"))
    return e.MessageEntry(**place, message=message, usage=usage, model=model)


def _with_patch(entry: e.AnyPathEntry, record: Record) -> e.AnyPathEntry:
    stamp, message = record.get("timestamp"), record.get("message")
    # Where the source has usage it is kept whole: it says more (cost) than ours.
    bare = isinstance(message, dict) and "usage" in message
    ours = pi_write.plain_record(
        entry, stamp=stamp if entry.time and is_stamp(stamp) else None, usage=not bare
    )
    if record.get("parentId") != entry.parent:  # a mended tree: the patch must not bring the old parent back
        record = {**record, "parentId": entry.parent}
    extra = patch.diff(ours, record)
    if not extra:
        return entry
    field = "details" if isinstance(entry, e.Fold) else "meta"
    return msgspec.structs.replace(entry, **{field: {"pi": extra}})


def _files(record: Record) -> e.Files:
    raw = mapping(record.get("details"))
    return e.Files(read=_names(raw.get("readFiles")), modified=_names(raw.get("modifiedFiles")))


def _names(value: object) -> tuple[str, ...]:
    return tuple(item for item in listing(value) if isinstance(item, str))


# ── compactions (B3): the newest on a path shows its summary, then everything from the first kept entry on,
# whatever older compactions had folded


def summary_message(summary: str) -> m.User:
    return m.user([m.text(FRAME.format(summary=summary), "summary")])


class Folds:
    """Gives every fold of a sound tree its edit. Parents are settled before children, whatever the order."""

    def __init__(self, entries: Sequence[e.AnyEntry]) -> None:
        self._entries = entries
        self._by_id = {entry.id: cast("e.AnyPathEntry", entry) for entry in entries if entry.on_path}
        self._depth: dict[str, int] = {}
        self._root: dict[str, str] = {}
        self._reach: dict[str, int] = {}
        """How deep, on the path to an entry, the folds above it reach (-1: nothing is folded)."""

    def done(self) -> list[e.AnyEntry]:
        for entry in self._entries:
            if entry.on_path:
                self._settle(entry.id)
        return [self._by_id.get(entry.id, entry) for entry in self._entries]

    def _settle(self, id: str) -> None:
        waiting: list[str] = []
        at: str | None = id
        while at is not None and at not in self._depth:
            waiting.append(at)
            at = self._by_id[at].parent
        for entry_id in reversed(waiting):
            self._place(self._by_id[entry_id])

    def _place(self, entry: e.AnyPathEntry) -> None:
        parent = entry.parent
        self._depth[entry.id] = 0 if parent is None else self._depth[parent] + 1
        self._root[entry.id] = entry.id if parent is None else self._root[parent]
        self._reach[entry.id] = -1 if parent is None else self._reach[parent]
        if isinstance(entry, e.Fold) and entry.author == "import:pi" and not entry.edits:
            self._by_id[entry.id] = self._folded(entry)

    def _folded(self, fold: e.Fold) -> e.AnyPathEntry:
        if fold.parent is None:  # nothing before it to replace: the summary itself is what was said
            return _as_note(fold)
        kept = self._kept(fold)
        start = self._depth[fold.id] - len(kept)
        end = max(start - 1, self._reach[fold.parent], 0)
        shown = [said_by(entry) for entry in kept if self._depth[entry.id] <= end]
        last = next(entry for entry in self._above(fold.parent) if self._depth[entry.id] == end)
        put = (summary_message(fold.summary), *(message for message in shown if message is not None))
        self._reach[fold.id] = end
        return msgspec.structs.replace(
            fold,
            edits=(e.Edit(first=self._root[fold.parent], last=last.id, put=put),),
            first_kept=fold.first_kept if kept else None,
            details=fold.details if kept else _remember(fold),
        )

    def _kept(self, fold: e.Fold) -> list[e.AnyPathEntry]:
        """The entries from the first kept one to the fold; none if that one is not on the way to it."""
        kept: list[e.AnyPathEntry] = []
        floor = self._depth.get(fold.first_kept or "", self._depth[fold.id])
        for entry in self._above(fold.parent):
            if self._depth[entry.id] < floor:
                break
            kept.append(entry)
        return kept[::-1] if kept and kept[-1].id == fold.first_kept else []

    def _above(self, id: str | None) -> Iterator[e.AnyPathEntry]:
        while id is not None:
            yield (entry := self._by_id[id])
            id = entry.parent


def _as_note(fold: e.Fold) -> e.Note:
    said = summary_message(fold.summary).content
    note = e.Note(id=fold.id, time=fold.time, content=said, kind="compaction")
    extra = patch.diff(pi_write.plain_record(note), pi_write.record(fold))
    return msgspec.structs.replace(note, meta={"pi": extra})


def _remember(fold: e.Fold) -> dict[str, object]:
    """Details that write the source's first kept id again although it is not on the path."""
    extra = dict(fold.details.get("pi", {}))
    extra["="] = {**extra.get("=", {}), "firstKeptEntryId": fold.first_kept}
    return {**fold.details, "pi": extra}
