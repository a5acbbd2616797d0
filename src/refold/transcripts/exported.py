"""The result of an export: the bytes of a file, and sentences on what its format cannot hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from refold import entries as e
from refold import messages as m
from refold.compaction.record import with_end
from refold.session import Item, Session
from refold.session.dialects import Dialect
from refold.session.edits import said_by
from refold.text.plural import counted


class Exported(msgspec.Struct, frozen=True):
    data: bytes
    lost: tuple[str, ...] = ()


def spoken_items(session: Session) -> list[Item]:
    """All messages of the active path, in their original form."""
    found = ((entry.id, said_by(entry)) for entry in session.path)
    return [Item(message, (id,)) for id, message in found if message is not None]


def ending(session: Session, end: str) -> Session:
    """The session with another ending of records, because the recall tool has another name in other
    programs."""

    def changed(entry: e.AnyEntry) -> e.AnyEntry:
        if not isinstance(entry, e.Fold):
            return entry
        edits = (replace(x, put=tuple(with_end(message, end) for message in x.put)) for x in entry.edits)
        return replace(entry, edits=tuple(edits))

    return Session(map(changed, session.entries), id=session.id, info=session.info)


_NOUN = re.compile(r"\{(\w+)\}")
"""`{thinking_block}` becomes `2 thinking blocks`."""


def export_losses(
    session: Session,
    dialect: Dialect | None,
    items: Sequence[Item],
    *,
    view: bool,
    keeps: Sequence[str] = (),
) -> list[str]:
    """What a list of messages (without a dialect: a text to read) cannot hold of this session, one sentence
    each. `keeps`: which of `usage` and `times` the format holds."""
    found = Counter(_entry_losses(session, view=view, keeps=keeps))
    for item in items:
        found.update(_text_losses(item.message) if dialect is None else _list_losses(item.message, dialect))
    return [
        _NOUN.sub(lambda noun, n=n: counted(n, noun[1].replace("_", " ")), text) for text, n in found.items()
    ]


def _entry_losses(session: Session, *, view: bool, keeps: Sequence[str]) -> Iterable[str]:
    on_path = {entry.id for entry in session.path}
    for entry in session.entries:
        if entry.on_path and entry.id not in on_path:
            yield "{entry} from other branches not exported"
        elif isinstance(entry, e.Fold) and not view:
            yield "{fold} not exported (the original messages are written instead)"
        elif isinstance(entry, e.MessageEntry):
            if entry.usage is not None and "usage" not in keeps:
                yield "usage of {reply} not exported"
        elif isinstance(entry, e.Label | e.Pin | e.Unpin | e.State):
            yield "{annotation} (labels, pins, states) not exported"
    if session.path and "times" not in keeps:
        yield "ids and times of entries not exported"


def _text_losses(message: m.Message) -> Iterable[str]:
    if isinstance(message, m.Bash):
        yield "{user_command} written as text"
    for part in message.parts:
        if isinstance(part, m.Thinking) and not part.text:
            yield "{thinking_block} not exported"
        elif isinstance(part, m.Opaque):
            yield "{part} of unknown kind may become a description"
        elif isinstance(part, m.Image):
            yield "{picture} only named"


def _list_losses(message: m.Message, dialect: Dialect) -> Iterable[str]:
    if isinstance(message, m.Bash):
        hidden = "{command} hidden from the model not exported"
        yield hidden if message.hidden else "{user_command} written as text"
    failed = isinstance(message, m.Result) and message.is_error
    if failed and not _holds(dialect, m.result("c", "failed", is_error=True)):
        yield "error mark dropped from {result}"
    for part in message.parts:
        if isinstance(part, m.Thinking) and not _holds(dialect, m.Assistant((part, m.Text("so")))):
            yield "{thinking_block} not exported"
        elif isinstance(part, m.Call) and part.raw is not None:
            yield "{call} with arguments that are not an object, which are wrapped"
        elif isinstance(part, m.Text) and part.origin:
            yield "author marks dropped from {text}"
        elif isinstance(part, m.Opaque):
            yield "{part} of unknown kind may become a description"
        elif (
            isinstance(part, m.Image)
            and isinstance(message, m.Result)
            and not _holds(dialect, m.Result("c", (part,)))
        ):
            yield "{picture} moved out of results"


def _holds(dialect: Dialect, probe: m.Message) -> bool:
    """True if it is the same after writing and reading."""
    return dialect.parse_list(dialect.render([probe])) == [probe]
