"""Our sessions for other programs.

    exported = export(session, "openai")
    exported.data                       # bytes of the file
    exported.lost                       # sentences: what that format cannot hold

By default the whole active path is written, as it was said; `view=True` writes what the model sees now, with
folds in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from refold import entries as e
from refold import messages as m
from refold.errors import UnknownName
from refold.session import Item, Projection, Session
from refold.session.view import said_by

TARGETS = ("openai", "openai-responses", "anthropic", "pi", "markdown", "jsonl")


class Exported(msgspec.Struct, frozen=True):
    data: bytes
    lost: tuple[str, ...] = ()


def export(session: Session, to: str, *, view: bool = False) -> Exported:
    """The session in the format `to` (one of `TARGETS`)."""
    from refold.transcripts import export_lists, markdown, own, pi_write

    if to == "pi":
        data, lost = pi_write.write(session.entries, session.info)
        return Exported(data, tuple(lost))
    if to == "jsonl":
        return Exported(own.write(session.entries, session.info))
    writers: dict[str, Callable[[Sequence[Item]], bytes]] = {
        "openai": export_lists.openai,
        "openai-responses": export_lists.responses,
        "anthropic": export_lists.anthropic,
        "markdown": lambda items: markdown.write(items, session.name or session.id),
    }
    if to not in writers:
        raise UnknownName("export format", to, TARGETS)
    items = Projection(session).items if view else told(session)
    return Exported(writers[to](items), tuple(losses(session, to, items, view=view)))


def told(session: Session) -> list[Item]:
    """Everything that was said on the active path, folds or not."""
    found = ((entry.id, said_by(entry)) for entry in session.path)
    return [Item(message, (id,)) for id, message in found if message is not None]


def losses(session: Session, to: str, items: Sequence[Item], *, view: bool) -> list[str]:
    """What a list of messages cannot hold of this session, one sentence each."""
    found = Counter(_entry_losses(session, view=view))
    for item in items:
        found.update(_message_losses(item.message, to))
    return [text.format(n=n) for text, n in found.items()]


def _entry_losses(session: Session, *, view: bool) -> Iterable[str]:
    on_path = {entry.id for entry in session.path}
    for entry in session.entries:
        if entry.on_path and entry.id not in on_path:
            yield "{n} entries of other branches are left out"
        elif isinstance(entry, e.Fold) and not view:
            yield "{n} folds are left out; what they replaced is written instead"
        elif isinstance(entry, e.MessageEntry):
            if entry.usage is not None:
                yield "usage of {n} replies is left out"
        elif isinstance(entry, e.Label | e.Pin | e.Unpin | e.State):
            yield "{n} labels, pins and states are left out"
    if session.path:
        yield "ids and times of entries are left out"


def _message_losses(message: m.Message, to: str) -> Iterable[str]:
    if isinstance(message, m.Result) and message.is_error and to.startswith("openai"):
        yield "{n} results are no longer marked as errors"
    if isinstance(message, m.Bash) and message.hidden and to != "markdown":
        yield "{n} commands hidden from the model are left out"
    elif isinstance(message, m.Bash):
        yield "{n} commands of the user become text"
    for part in message.parts:
        if isinstance(part, m.Thinking) and not _thought_stays(part, to):
            yield "{n} thoughts are left out"
        elif isinstance(part, m.Call) and part.raw is not None and to == "anthropic":
            yield "{n} calls have arguments that are no object; they are wrapped"
        elif isinstance(part, m.Text) and part.origin and to != "markdown":
            yield "{n} texts no longer say who wrote them"
        elif isinstance(part, m.Opaque):
            yield "{n} parts of unknown kinds may become a description"
        elif isinstance(part, m.Image) and (to == "markdown" or isinstance(message, m.Result)):
            yield "{n} pictures are only named" if to == "markdown" else "{n} pictures of results move"


def _thought_stays(part: m.Thinking, to: str) -> bool:
    if to == "markdown":
        return bool(part.text)
    if to == "anthropic":
        return bool(part.signature or (part.data and not part.id))
    return to == "openai-responses" and bool(part.id and part.data)
