"""Sends the messages of a view as the client wrote them, including fields that the log does not store (names,
citations, phases, ids). Messages that a fold inserted are rendered from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import msgspec

from refold import entries as e
from refold.gateway.open_sessions import RecordedTurn
from refold.gateway.requests import WIRES
from refold.messages import Assistant, Message, Opaque, Result, leaves
from refold.protocols import TokenCounter
from refold.session import Item, Session, View
from refold.session.dialects.common import MALFORMED, Given, list_or_empty, object_or_empty
from refold.session.invariants import repair
from refold.session.path_digests import digest_at
from refold.text.lenient_json import JsonObject


class RenderedView(msgspec.Struct, frozen=True):
    items: Sequence[Item | Given]
    more: int = 0
    """Tokens of fields that the log does not store."""
    dropped: int = 0
    """Tokens of such fields that are left out because they would not fit."""


def render_verbatim(view: View, turn: RecordedTurn, session: Session, room: int) -> RenderedView:
    """The view, with the client's own objects for all messages that are shown unchanged. `room` limits the
    additional tokens; the newest messages come first."""
    found: list[Item | Given] = []
    more = dropped = 0
    ends = [digest_at(session, turn.asked.since), *turn.ends]
    own, dialect = dict(zip(pairwise(ends), turn.asked.given, strict=True)), turn.asked.dialect
    for item in reversed(repair(view.items, dialect)):
        given = _given(item, own, session)
        beyond = None if given is None else beyond_log(given, dialect, view.counter)
        if given is None or beyond is None:
            found.append(item)
        elif more + beyond > room:
            dropped += beyond
            found.append(item)
        else:
            more += beyond
            found.append(given)
    return RenderedView(found[::-1], more, dropped)


_Own = dict[tuple[bytes, bytes], Given]
"""Digests of the path before a message → its first and last position in the request."""


def _given(item: Item, own: _Own, session: Session) -> Given | None:
    """The client's objects for an item, if the item is shown unchanged."""
    if item.fold is not None or not item.entries:
        return None
    entries = [session[id] for id in item.entries]
    if not all(isinstance(entry, e.MessageEntry) for entry in entries):
        return None
    said = [entry for entry in entries if isinstance(entry, e.MessageEntry)]
    places = ((digest_at(session, entry.parent), digest_at(session, entry.id)) for entry in said)
    found = [own.get(place) for place in places]
    whole = [given for given in found if given is not None]
    if len(whole) < len(found) or not _is_all(item.message, [entry.message for entry in said]):
        return None
    return Given(item.message, [each for given in whole for each in given.wire])


def _is_all(shown: Message, said: Sequence[Message]) -> bool:
    if len(said) == 1:
        return shown == said[0]
    parts = tuple(part for message in said for part in message.parts)
    return isinstance(shown, Assistant) and shown.content == parts


def beyond_log(given: Given, dialect: str, counter: TokenCounter) -> int | None:
    """Tokens of fields beyond the message; None if rendering it from the log would give it other ids, which
    related messages refer to."""
    message = given.message
    anew = WIRES[dialect].render([message])
    if given.wire == (anew["messages"] if dialect == "anthropic" else anew):
        return 0
    wrote, kept = Counter(leaves(given.wire, keys=True)), Counter(leaves(anew, keys=True))
    kept |= Counter(leaves([part.raw for part in message.parts if isinstance(part, Opaque)], keys=True))
    ids = [message.call_id] if isinstance(message, Result) else [call.id for call in message.calls]
    if not all(id in wrote and id in kept for id in ids):
        return None
    more, less = ("\n".join((one - other).elements()) for one, other in ((wrote, kept), (kept, wrote)))
    return max(0, counter.text(more) - counter.text(less))


# ── custom tools ────────────────────────────────────────────────────────────────────────────────
# They take plain text instead of JSON. The log stores their calls like all others; on the wire they have
# their own type. The request says which tools are custom.


def restore_custom_calls(wire: Sequence[JsonObject], tools: Any) -> list[JsonObject]:
    """Messages or items with calls of custom tools in the provider's format."""
    names = _custom_names(tools)
    calls = {item.get("call_id") for item in wire if _is_custom(item, names)}
    return [_custom_item(item, names, calls) for item in wire]


def _custom_names(tools: Any) -> set[str]:
    custom = [tool for tool in map(object_or_empty, list_or_empty(tools)) if tool.get("type") == "custom"]
    own = (object_or_empty(tool.get("custom") or tool) for tool in custom)
    return {str(tool.get("name")) for tool in own if tool}


def _is_custom(item: JsonObject, names: set[str]) -> bool:
    written_anew = item.get("type") == "function_call" and item.get("name") in names
    return written_anew or item.get("type") == "custom_tool_call"


def _custom_item(item: JsonObject, names: set[str], calls: set[Any]) -> JsonObject:
    if item.get("call_id") in calls and item.get("type") == "function_call_output":
        return {**item, "type": "custom_tool_call_output"}
    if item.get("call_id") in calls and item.get("type") == "function_call":
        told = {"call_id": item["call_id"], "name": item["name"], "input": _input_text(item["arguments"])}
        return {"type": "custom_tool_call", **told}
    if isinstance(item.get("tool_calls"), list):
        return {**item, "tool_calls": [_custom_call(call, names) for call in item["tool_calls"]]}
    return item


def _custom_call(call: JsonObject, names: set[str]) -> JsonObject:
    function = cast("JsonObject", call.get("function") or {})
    if function.get("name") not in names:
        return call
    custom = {"name": function["name"], "input": _input_text(function["arguments"])}
    return {"id": call["id"], "type": "custom", "custom": custom}


def _input_text(arguments: str) -> str:
    """The text input of a call, from its JSON form."""
    value = msgspec.json.decode(arguments, type=JsonObject)
    text = value.get(MALFORMED) if len(value) == 1 else None
    return text if isinstance(text, str) else arguments
