"""Role and content under any usual names: `role`/`content`, `from`/`value`, `speaker`/`text` …"""

from __future__ import annotations

from typing import Any, cast

from refold import messages as m
from refold.messages import compact_json
from refold.protocols import Loaded
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.message_lists import read_message_list, sample

name = "plain"

_WHO = ("role", "from", "author", "speaker", "sender")
_WHAT = ("content", "value", "text", "message", "body")
_ROLES = {
    **dict.fromkeys(("user", "human", "customer", "client", "person"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "gpt", "model", "agent", "chatgpt", "claude"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function", "observation", "tool_response"), "tool"),
}
_KNOWN = frozenset((*_WHO, *_WHAT))


def detect(head: Head) -> float:
    seen = sample(head)
    told = [item for item in seen.items if _pick(item, _WHO) and _pick(item, _WHAT)]
    if not told or len(told) < len(seen.items) - 1:
        return 0.0
    known = sum(1 for item in told if _role(item) in _ROLES)
    return 0.45 if known == len(told) else 0.2


def read(source: TranscriptFile) -> Loaded:
    return read_message_list(source, name, lambda records: [_message(records[0], source)], _KNOWN)


def _pick(item: JsonObject, keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if key in item), None)


def _role(item: JsonObject) -> str:
    key = _pick(item, _WHO)
    who = item.get(key) if key else None
    return who.strip().lower() if isinstance(who, str) else ""


def _message(item: JsonObject, source: TranscriptFile) -> m.Message:
    said = _parts(item.get(_pick(item, _WHAT) or ""))
    role = _role(item)
    match _ROLES.get(role):
        case "assistant":
            return m.Assistant(said)
        case "system":
            return m.System(said)
        case "tool":
            id, tool = item.get("tool_call_id"), item.get("name")
            return m.Result(id if isinstance(id, str) else "", said, tool if isinstance(tool, str) else None)
        case None:
            source.problem("messages", f"unknown role {role[:40]!r}: read as the user's")
            return m.User(said)
        case _:
            return m.User(said)


def _parts(said: Any) -> m.Content:
    several = cast("list[Any]", said) if isinstance(said, list) else [said]
    return tuple(part for one in several for part in _part(one))


def _part(said: Any) -> m.Content:
    if said is None or isinstance(said, str):
        return m.content(said or "")
    if isinstance(said, dict):
        raw = cast("JsonObject", said)
        text = raw.get("text", raw.get("content"))
        return m.content(text) if isinstance(text, str) else (m.Opaque(raw),)
    return m.content(compact_json(said))
