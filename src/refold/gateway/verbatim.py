"""Sends the messages of a view as the client wrote them, including fields that the log does not store (names,
citations, phases, ids). Messages that a fold inserted are rendered from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from refold import entries as e
from refold.gateway.open_sessions import RecordedTurn
from refold.gateway.requests import WIRES
from refold.messages import Assistant, Message, Opaque, Result, leaves
from refold.protocols import TokenCounter
from refold.session import Item, Session, View
from refold.session.dialects.common import Given
from refold.session.invariants import repair
from refold.session.path_digests import digest_at
from refold.text.lenient_json import JsonObject


class RenderedView(msgspec.Struct, frozen=True):
    items: Sequence[Item | Given]
    more: int = 0
    """Tokens of fields that the log does not store."""
    dropped: int = 0
    """Tokens of such fields that are left out because they would not fit."""

    @property
    def is_whole(self) -> bool:
        return not self.dropped


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


def list_of(shown: RenderedView, dialect: str, *, cache: bool = False) -> list[JsonObject]:
    if dialect != "anthropic":
        return WIRES[dialect].render(shown.items)
    return WIRES["anthropic"].render(shown.items, cache=cache)["messages"]
