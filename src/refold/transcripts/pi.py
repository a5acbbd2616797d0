"""pi session files (JSONL, versions 1 to 3).

Every line after the header becomes one path entry with its own id, so paths are the source's own. What
an entry holds beyond our fields is kept as a patch (`meta["pi"]`), so that writing gives it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, cast

import msgspec

from refold import entries as e
from refold import format as stored
from refold import messages as m
from refold.errors import FormatError, TreeError
from refold.protocols import Loaded
from refold.session.edits import said_by
from refold.text.lenient_json import JsonObject
from refold.transcripts import json_patch, pi_write
from refold.transcripts.base import Head, TranscriptFile, index_id
from refold.transcripts.pi_parts import is_stamp, message_from, model_name, parts_from, usage_from
from refold.transcripts.values import as_count, as_list, as_name, as_object, as_text, time_of, without

name = "pi"

SUMMARY_FRAME = "[The conversation up to here was compacted. Summary:]\n\n<summary>\n{summary}\n</summary>"
_KINDS = {
    "message", "compaction", "branch_summary", "custom", "custom_message", "label", "model_change",
    "thinking_level_change", "session_info", "usage", "context_edit",
}  # fmt: skip
_SILENT = {*_KINDS - {"message"}, "message system"}
"""What the model never sees. The system prompt is the program's, which gives it anew."""


def detect(head: Head) -> float:
    if not head.records:
        return 0.0
    first = head.records[0]
    if first.get("type") != "session" or not isinstance(first.get("id"), str):
        return 0.0
    if "cwd" in first and isinstance(first.get("timestamp"), str):
        return 0.95
    return 0.6 if any(str(record.get("type")) in _KINDS for record in head.records[1:]) else 0.0


def read(source: TranscriptFile) -> Loaded:
    header: JsonObject | None = None
    records: list[JsonObject] = []
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
    version = 3 if header is None else header.get("version", 1)
    version = version if isinstance(version, int) else 1
    migrate_records(records, version, offset=0 if header is None else 1)
    _parents_first({record["id"]: as_name(record.get("parentId")) for record in reversed(records)})
    aliases = _aliases(records)
    entries = _opening(header)
    for index, record in enumerate(records):
        entries.extend(_entries(record, index, aliases, source))
    loaded = source.loaded(entries, header or {})
    return msgspec.structs.replace(loaded, entries=_with_edits(loaded.entries))


def _parents_first(parents: Mapping[str, str | None]) -> list[str]:
    """The ids in an order in which each follows its parent; `TreeError` where there is none."""
    try:
        order = TopologicalSorter({id: (parent,) for id, parent in parents.items()}).static_order()
        return [id for id in order if id is not None]
    except CycleError as error:
        ids = ", ".join(map(repr, error.args[1][:5]))
        raise TreeError(f"the parents of {ids} form a cycle: this transcript is damaged") from error


def migrate_records(records: list[JsonObject], version: int, *, offset: int = 1) -> None:
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


def _opening(header: JsonObject | None) -> list[e.AnyEntry]:
    if header is None:
        return []
    info = e.Info(
        id=f"{header.get('id', 'session')}~header",
        time=time_of(header),
        cwd=as_name(header.get("cwd")),
        meta={"pi": without(header, frozenset({"version"}))},
    )
    return [info]


def _aliases(records: list[JsonObject]) -> dict[str, str | None]:
    """Entries of ours that have no place on a path, and where those hang that came after them."""
    found: dict[str, str | None] = {}
    for record in records:
        if record.get("customType") == pi_write.EMBEDDED_ENTRY and "parent" not in as_object(
            record.get("data")
        ):
            parent = record.get("parentId")
            found[record["id"]] = found.get(parent, parent) if isinstance(parent, str) else None
    return found


def _entries(
    record: JsonObject, index: int, aliases: dict[str, str | None], source: TranscriptFile
) -> list[e.AnyEntry]:
    if record.get("customType") == pi_write.EMBEDDED_ENTRY:
        try:
            return [stored.decode(stored.dump_json(as_object(record.get("data"))))]
        except FormatError as error:
            source.problem(f"entry {record['id']}", f"{error}: kept as it is")
    entry = _entry(record, index, aliases, source)
    kind = record.get("type")
    if kind == "label":
        target, label = as_name(record.get("targetId")), as_text(record.get("label"))
        return [entry, e.Label(id=f"{entry.id}~label", time=entry.time, target=target, text=label)]
    if kind == "session_info" and isinstance(record.get("name"), str):
        return [entry, e.Info(id=f"{entry.id}~info", time=entry.time, name=record["name"].strip())]
    return [entry]


def _entry(
    record: JsonObject, index: int, aliases: dict[str, str | None], source: TranscriptFile
) -> e.AnyPathEntry:
    """The path entry of one record, with the patch that gives the record back."""
    parent = as_name(record.get("parentId"))
    place: dict[str, Any] = {
        "id": record["id"],
        "parent": aliases.get(parent, parent) if parent is not None else None,
        "time": time_of(record),
    }
    made = _known(record, place)
    if made is None:
        kind = str(record.get("type"))
        if _kind(record) not in _SILENT:
            source.problem(
                f"entry {index}", f"of an unknown kind ({_kind(record)}): kept, not shown to a model"
            )
        return e.Other(**place, kind=kind, raw=record)
    return _with_patch(made, record)


def _kind(record: JsonObject) -> str:
    role = as_object(record.get("message")).get("role")
    return f"{record.get('type')} {role}" if role is not None else str(record.get("type"))


def _known(record: JsonObject, place: dict[str, Any]) -> e.AnyPathEntry | None:
    match record:
        case {"type": "message", "message": {"role": "custom"} as raw} | ({"type": "custom_message"} as raw):
            content = parts_from(raw.get("content"))
            return e.Note(**place, content=content, kind=str(raw.get("customType", "")))
        case {"type": "message", "message": dict()}:
            return _message_entry(cast("JsonObject", record["message"]), place)
        case {"type": "compaction", "summary": str(summary)}:
            return e.Fold(
                **place,
                edits=(),
                preset="pi",
                summary=summary,
                first_kept=as_name(record.get("firstKeptEntryId")),
                tokens_before=as_count(record.get("tokensBefore")),
                files=_files(record),
                author="import:pi",
            )
        case {"type": "context_edit", "targetId": str(target), "replacement": dict() | None}:
            kind = pi_write.CONTEXT_EDIT
            details = {"target": target}
            return e.Fold(**place, edits=(), preset="pi", strategy=kind, author="import:pi", details=details)
        case {"type": "branch_summary", "summary": str(summary)}:
            origin, files = as_name(record.get("fromId")), _files(record)
            return e.BranchSummary(**place, summary=summary, origin=origin, files=files, author="import:pi")
        case {"type": "model_change"}:
            model = model_name(record.get("provider"), record.get("modelId"))
            return e.ModelChange(**place, model=model) if model else None
        case {"type": "thinking_level_change", "thinkingLevel": str(level)}:
            return e.ModelChange(**place, thinking=level)
        case _:
            return None


def _message_entry(raw: JsonObject, place: dict[str, Any]) -> e.MessageEntry | None:
    message = message_from(raw)
    if message is None:
        return None
    if not isinstance(message, m.Assistant):
        return e.MessageEntry(**place, message=message)
    usage = usage_from(raw.get("usage"))
    model = model_name(raw.get("provider"), raw.get("model"))
    return e.MessageEntry(**place, message=message, usage=usage, model=model)


def _with_patch(entry: e.AnyPathEntry, record: JsonObject) -> e.AnyPathEntry:
    stamp, message = record.get("timestamp"), record.get("message")
    # Where the source has usage it is kept whole: it says more (cost) than ours.
    bare = isinstance(message, dict) and "usage" in message
    ours = pi_write.plain_record(
        entry, stamp=stamp if entry.time and is_stamp(stamp) else None, usage=not bare
    )
    if record.get("parentId") != entry.parent:  # an alias: the patch must not bring it back
        record = {**record, "parentId": entry.parent}
    extra = json_patch.json_difference(ours, record)
    if not extra:
        return entry
    if isinstance(entry, e.Fold):
        return msgspec.structs.replace(entry, details={**entry.details, "pi": extra})
    return msgspec.structs.replace(entry, meta={"pi": extra})


def _files(record: JsonObject) -> e.Files:
    # What an extension stored in `details` has a meaning of its own.
    raw = {} if record.get("fromHook") else as_object(record.get("details"))
    lists = (as_list(raw.get(key)) for key in ("readFiles", "modifiedFiles"))
    read, modified = (tuple(name for name in names if isinstance(name, str)) for names in lists)
    return e.Files(read=read, modified=modified)


# ── compactions (B3): the newest on a path shows its summary, then everything from the first kept entry on,
# whatever older compactions had folded


def summary_message(summary: str) -> m.User:
    return m.user([m.text(SUMMARY_FRAME.format(summary=summary), "summary")])


class _Place(NamedTuple):
    """Where an entry stands on the path to it."""

    root: str
    depth: int = 0
    reach: int = -1
    """How deep the folds above it reach (-1: nothing is folded)."""
    compaction: str | None = None
    """The newest one above."""


@dataclass
class _Tree:
    """The path entries of a file. A parent is visited before its children."""

    entries: dict[str, e.AnyPathEntry]
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    changes: dict[str, tuple[str, tuple[m.Message, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[m.Message, ...]]]
    )
    """Context edits: the entry that one changes, and what is shown for it."""

    def visit(self, id: str) -> None:
        entry, above = self.entries[id], self.places.get(self.entries[id].parent or "")
        self.places[id] = place = above._replace(depth=above.depth + 1) if above else _Place(id)
        if not isinstance(entry, e.Fold) or entry.author != "import:pi":
            return
        if entry.strategy == pi_write.CONTEXT_EDIT:
            self.entries[id] = self._changed(entry, place)
        elif not entry.edits and entry.parent is None:  # nothing before it: the summary is what was said
            self.entries[id] = _as_note(entry)
        elif not entry.edits:
            self.entries[id], reach = self._folded(entry, entry.parent)
            self.places[id] = place._replace(reach=reach, compaction=id)

    def _changed(self, fold: e.Fold, place: _Place) -> e.Fold:
        """A context edit with what it shows. Under a compaction that shows its target once more, that is all
        of what the compaction shows."""
        target: str = fold.details["target"]
        message = said_by(self.entries[target]) if target in self.places else None
        if message is None:
            return fold
        replacement = pi_write.saved(fold).get("=", {}).get("replacement")
        if replacement is not None and not isinstance(message, m.Bash):
            content = parts_from(as_object(replacement).get("content"))
            message = msgspec.structs.replace(message, content=content)
        put = () if replacement is None else (message,)
        self.changes[fold.id] = target, put
        edit = e.Edit(target, target, put, "clip" if put else "hide")
        compaction = self.entries.get(place.compaction or "")
        if not isinstance(compaction, e.Fold) or self.places[target].depth > place.reach:
            return msgspec.structs.replace(fold, edits=(edit,))
        return msgspec.structs.replace(fold, edits=(*self._folded(compaction, fold.id)[0].edits, edit))

    def _folded(self, fold: e.Fold, seen: str | None) -> tuple[e.Fold, int]:
        """The compaction with its edit, and how deep that reaches. Context edits up to `seen` count."""
        here = self.places[fold.id]
        above = self.places[fold.parent or ""]
        start = min(self.places.get(fold.first_kept or "", here).depth, here.depth)
        low = max(start - 1, 0)
        way: list[e.AnyPathEntry] = []
        while seen is not None and self.places[seen].depth >= low:
            way.append(self.entries[seen])
            seen = self.entries[seen].parent
        way.reverse()
        kept = way[start - low :]
        if not kept or kept[0].id != fold.first_kept:  # that one is not on the way to the fold
            start, kept = here.depth, []
        end = max(start - 1, above.reach, 0)
        changed = dict(self.changes[entry.id] for entry in kept if entry.id in self.changes)
        shown = (changed.get(entry.id, (said_by(entry),)) for entry in kept[: end + 1 - start])
        put = (summary_message(fold.summary), *(message for each in shown for message in each if message))
        made = msgspec.structs.replace(
            fold,
            edits=(e.Edit(first=here.root, last=way[end - low].id, put=put),),
            first_kept=fold.first_kept if kept else None,
            details=fold.details if kept else _remember(fold),
        )
        return made, end


def _with_edits(entries: Sequence[e.AnyEntry]) -> tuple[e.AnyEntry, ...]:
    """Every compaction and context edit of a sound tree with its edit."""
    tree = _Tree({entry.id: cast("e.AnyPathEntry", entry) for entry in entries if entry.on_path})
    for id in _parents_first({id: entry.parent for id, entry in tree.entries.items()}):
        tree.visit(id)
    return tuple(tree.entries.get(entry.id, entry) for entry in entries)


def _as_note(fold: e.Fold) -> e.Note:
    said = summary_message(fold.summary).content
    note = e.Note(id=fold.id, time=fold.time, content=said, kind="compaction")
    extra = json_patch.json_difference(pi_write.plain_record(note), pi_write.record(fold))
    return msgspec.structs.replace(note, meta={"pi": extra})


def _remember(fold: e.Fold) -> dict[str, object]:
    """Details that write the source's first kept id again although it is not on the path."""
    extra = dict(fold.details.get("pi", {}))
    extra["="] = {**extra.get("=", {}), "firstKeptEntryId": fold.first_kept}
    return {**fold.details, "pi": extra}
