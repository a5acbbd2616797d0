"""A dialect in the manner of Gemini's `contents`, as somebody would add it: all of it is in this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from refold.errors import UsageError
from refold.messages import AnyPart, Assistant, Bash, Call, Message, Result, System, Text, Usage, User
from refold.session.dialects.common import (
    ParsedReply,
    Renderable,
    WireRules,
    as_dict,
    describe_part,
    to_list,
    without_surrogates,
)
from refold.session.dialects.tools import convert_tool, json_schema
from refold.session.items import Item
from refold.text.lenient_json import JsonObject

name = "toy"
field = "contents"
rules = WireRules(unique_ids=True, alternates=True)


def speaks(raw: JsonObject) -> bool:
    return "parts" in raw or "candidates" in raw or field in raw


def parse_list(objs: Iterable[Any]) -> list[Message]:
    head: list[Message] = []
    if isinstance(objs, Mapping):
        request = cast("Mapping[str, Any]", objs)
        head = [System(_parts(request["rules"]))] if "rules" in request else []
        objs = to_list(request[field])
    return [*head, *(message for obj in objs for message in _messages(as_dict(obj)))]


def parse_reply(obj: Any) -> ParsedReply:
    raw = as_dict(obj)
    [message] = _messages(raw["candidates"][0] if "candidates" in raw else raw)
    if not isinstance(message, Assistant):
        raise UsageError("no reply of a model")
    usage = raw.get("usage")
    return message, Usage(usage["in"], usage["out"]) if usage else None, raw.get("model")


def render(shown: Renderable, *, system: str | None = None) -> JsonObject:
    page: JsonObject = {"rules": [{"text": without_surrogates(system)}]} if system else {}
    turns: list[JsonObject] = page.setdefault(field, [])
    for one in shown:
        message = one.message if isinstance(one, Item) else one
        if isinstance(message, Bash) and message.hidden:
            continue
        role = "model" if isinstance(message, Assistant) else "user"
        parts = [{"answer": _answer(message)}] if isinstance(message, Result) else _wire(message)
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "parts": []})
        turns[-1]["parts"] += parts
    page[field] = [turn for turn in turns if turn["parts"]]
    return page


def render_tools(tools: Sequence[Any]) -> list[JsonObject]:
    return [
        convert_tool(tool, lambda spec: json_schema(spec, "schema"), lambda raw: "schema" in raw)
        for tool in tools
    ]


def _wire(message: Message) -> list[JsonObject]:
    found: list[JsonObject] = []
    for part in message.parts:
        if isinstance(part, Call):
            found.append({"call": {"id": part.id, "name": part.name, "args": dict(part.arguments)}})
        elif text := without_surrogates(part.text) if isinstance(part, Text) else describe_part(part):
            found.append({"text": text})
    return found


def _answer(message: Result) -> JsonObject:
    return {"id": message.call_id, "text": without_surrogates(message.text), "failed": message.is_error}


def _messages(raw: JsonObject) -> list[Message]:
    parts = to_list(raw.get("parts"))
    if raw["role"] == "model":
        return [Assistant(_parts(parts))]
    answers = [p["answer"] for p in parts if "answer" in p]
    results = [Result(a["id"], (Text(a["text"]),), is_error=a["failed"]) for a in answers]
    said = _parts([p for p in parts if "text" in p])
    return [*results, *([User(said)] if said or not results else [])]


def _parts(parts: list[JsonObject]) -> tuple[AnyPart, ...]:
    return tuple(
        Call(p["call"]["id"], p["call"]["name"], p["call"]["args"]) if "call" in p else Text(p["text"])
        for p in parts
    )
