"""Our entries as a pi session file, version 3.

What pi has no entry for travels in a `custom` entry of the type `refold:entry`, which pi keeps and never
shows to the model; reading the file back gives the entry again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from refold import entries as e
from refold import messages as m
from refold.messages import compact_json
from refold.protocols import SessionInfo
from refold.session.projection import may_go
from refold.text.lenient_json import JsonObject
from refold.transcripts import json_patch
from refold.transcripts.pi_parts import iso, message_to, parts_to, split_model

EMBEDDED_ENTRY = "refold:entry"
PI_FORMAT_VERSION = 3
CONTEXT_EDIT = "context_edit"
"""Rung of a fold that is what pi calls so: one message is hidden, or shown otherwise, from then on."""


DEFAULT_INFO = SessionInfo(id="session")
"""A session of which nothing is known."""


def write_pi_session(
    entries: Sequence[e.AnyEntry], info: SessionInfo = DEFAULT_INFO
) -> tuple[bytes, list[str]]:
    """The file, and sentences about what pi will not see."""
    lines = [_header(entries, info)]
    lost: Counter[str] = Counter()
    sources = {entry.id for entry in entries if isinstance(entry, e.Other)}
    leaf: str | None = None
    roots: set[str] = set()
    silent: set[str] = set()
    for entry in entries:
        if isinstance(entry, e.PathEntry) and (entry.parent is None or entry.parent in silent):
            roots.add(entry.id)
            if not may_go(entry):
                silent.add(entry.id)
        if _is_derived(entry, sources):
            continue
        raw = record(entry, roots=roots)
        if raw is None:
            lost[f"{_title(entry)} is kept for refold; pi does not act on it"] += 1
            raw = embedded_record(entry, leaf)
        elif problem := _loss(entry):
            lost[problem] += 1
        lines.append(raw)
        if entry.moves:
            leaf = entry.target if isinstance(entry, e.Leaf) else entry.id
    text = "".join(compact_json(line) + "\n" for line in lines)
    return text.encode("utf-8", "replace"), [f"{n} × {text}" for text, n in lost.items()]


def record(entry: e.AnyEntry, *, roots: Iterable[str] | None = None) -> JsonObject | None:
    """The pi entry that says the same; None where pi has none. `roots`: entries that start a path, or
    what is said on it."""
    if isinstance(entry, e.Other):
        is_pis = "parentId" in entry.raw and isinstance(entry.raw.get("type"), str)
        return {**entry.raw, "id": entry.id, "parentId": entry.parent} if is_pis else None
    if isinstance(entry, e.Fold) and not is_compaction(entry, roots):
        return None
    plain = plain_record(entry)
    return None if plain is None else json_patch.apply_difference(plain, saved(entry))


def plain_record(entry: e.AnyEntry, *, stamp: str | None = None, usage: bool = True) -> JsonObject | None:
    """The same without what only the source knew. `stamp`: the time as text, where it is at hand."""
    body = _body(entry, usage)
    if body is None:
        return None
    parent = entry.parent if isinstance(entry, e.PathEntry) else None
    return {"id": entry.id, "parentId": parent, "timestamp": stamp or iso(entry.time), **body}


def saved(entry: e.AnyEntry) -> json_patch.Patch:
    """What the source had beyond our fields."""
    if isinstance(entry, e.Fold):
        return entry.details.get("pi", {})
    return getattr(entry, "meta", {}).get("pi", {})


def embedded_record(entry: e.AnyEntry, leaf: str | None) -> JsonObject:
    """Anything of ours inside a custom entry; what has no parent hangs at the leaf of its time."""
    parent = entry.parent if isinstance(entry, e.PathEntry) else leaf
    if isinstance(entry, e.Leaf):
        parent = entry.target
    data = entry.raw if isinstance(entry, e.Unknown) else msgspec.to_builtins(entry)
    return {
        "type": "custom",
        "customType": EMBEDDED_ENTRY,
        "data": data,
        "id": entry.id,
        "parentId": parent,
        "timestamp": iso(entry.time),
    }


def is_compaction(fold: e.Fold, roots: Iterable[str] | None = None) -> bool:
    """True where a fold is what pi calls a compaction: the head of the path becomes one summary."""
    if fold.author == "import:pi":
        return True
    if len(fold.edits) != 1 or not fold.summary or fold.first_kept is None:
        return False
    edit = fold.edits[0]
    return edit.kind == "summary" and len(edit.put) == 1 and (roots is None or edit.first in roots)


def _body(entry: e.AnyEntry, usage: bool) -> JsonObject | None:
    if isinstance(entry, e.MessageEntry):
        if isinstance(entry.message, m.System):
            return None
        count = (entry.usage or m.Usage()) if usage else None
        return {"type": "message", "message": message_to(entry.message, usage=count, model=entry.model)}
    match entry:
        case e.Note():
            content = parts_to(entry.content)
            return {"type": "custom_message", "customType": entry.kind, "content": content, "display": True}
        case e.Fold(strategy="context_edit", author="import:pi"):
            return {"type": CONTEXT_EDIT, "targetId": entry.details["target"], "replacement": None}
        case e.Fold():
            return {
                "type": "compaction",
                "summary": entry.summary,
                "firstKeptEntryId": entry.first_kept,
                "tokensBefore": entry.tokens_before,
                "details": _details(entry.files),
            }
        case e.BranchSummary():
            return {
                "type": "branch_summary",
                "fromId": entry.origin,
                "summary": entry.summary,
                "details": _details(entry.files),
            }
        case e.ModelChange(model=None):
            return {"type": "thinking_level_change", "thinkingLevel": entry.thinking or "off"}
        case e.ModelChange():
            provider, model = split_model(entry.model)
            return {"type": "model_change", "provider": provider, "modelId": model}
        case _:
            return None


def _details(files: e.Files) -> JsonObject:
    changed = (*files.modified, *files.created, *files.deleted)
    return {"readFiles": list(files.read), "modifiedFiles": list(dict.fromkeys(changed))}


def _header(entries: Sequence[e.AnyEntry], info: SessionInfo) -> JsonObject:
    first = next((entry for entry in entries if isinstance(entry, e.Info) and "pi" in entry.meta), None)
    if first is not None:
        return {**first.meta["pi"], "version": PI_FORMAT_VERSION}
    named = {"id": info.id, "timestamp": iso(info.created), "cwd": info.cwd or ""}
    return {"type": "session", "version": PI_FORMAT_VERSION, **named}


def _is_derived(entry: e.AnyEntry, sources: set[str]) -> bool:
    """Annotations that the reader made out of something that is written anyway."""
    if isinstance(entry, e.Info) and "pi" in entry.meta:
        return True
    source, mark, _ = entry.id.rpartition("~")
    return isinstance(entry, e.Label | e.Info) and bool(mark) and source in sources


def _loss(entry: e.AnyEntry) -> str:
    if any(key != "pi" for key in getattr(entry, "meta", {})):
        return "an entry loses details that another program stored with it"
    for part in _parts(entry):
        if isinstance(part, m.Image) and part.data is None:
            return "a picture given by its address is written as text"
        if isinstance(part, m.Call) and part.raw is not None:
            return "a call whose arguments are no object is written with its text as `input`"
    return ""


def _parts(entry: e.AnyEntry) -> tuple[Any, ...]:
    if isinstance(entry, e.MessageEntry):
        return entry.message.parts
    return entry.content if isinstance(entry, e.Note) else ()


def _title(entry: e.AnyEntry) -> str:
    if isinstance(entry, e.MessageEntry):
        return "a system message"
    if isinstance(entry, e.Fold):
        return "a fold that is not one summary of the beginning"
    return f"a `{entry.__struct_config__.tag}` entry"
