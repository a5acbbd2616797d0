"""What a view still holds of a conversation, measured without any judge.

All figures are shares between 0 and 1; None where a transcript has nothing to be measured by.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold import entries as e
from refold.compaction.reading import reading
from refold.compare.forms import flat
from refold.compare.identifiers import identifiers
from refold.messages import Message, argument_text, searchable
from refold.session import Session
from refold.session.edits import said_by
from refold.session.items import Item

CUT = 0.75
"""Where a transcript is cut for future references: the part of its messages that is folded."""


class Kept(msgspec.Struct, frozen=True):
    """Shares of what a view should still hold."""

    constraints: float | None = None
    """Share of the user's typed words, verbatim in the view."""
    artifacts: float | None = None
    """Files truly modified or created, named in the view."""
    identifiers: float | None = None
    """Identifiers in the arguments of folded tool calls, literally in the view."""


class Probes(msgspec.Struct, frozen=True):
    """Identifiers that tool calls after position `cut` need and that only what came before names."""

    cut: int
    names: tuple[str, ...]

    def found(self, text: str) -> float | None:
        return _share(name in text for name in self.names)


def kept(session: Session, items: Sequence[Item]) -> Kept:
    """What the view `items` of `session` still holds of everything that was said."""
    text = readable(item.message for item in items)
    shown = {item.entries[0] for item in items if item.fold is None}
    folded = [
        (entry.id, message)
        for entry in session.path
        if (message := said_by(entry)) is not None and entry.id not in shown
    ]
    return Kept(
        _typed(session, text),
        _artifacts(session, text),
        _share(name in text for name in _called(message for _, message in folded)),
    )


def readable(messages: Iterable[Message]) -> str:
    """All that a model can read, the arguments of calls included."""
    return "\n\n".join(searchable(message) for message in messages)


def probes(path: Sequence[e.AnyPathEntry], cut: int) -> Probes:
    """The future references of a transcript that is folded up to `cut`: identifiers in later calls that
    occurred before the cut and did not come up again between the cut and the call."""
    messages = [message for entry in path if (message := said_by(entry)) is not None]
    before = readable(messages[:cut])
    later = [searchable(message) for message in messages[cut:]]
    after, start = "\n\n".join(later), 0
    found: dict[str, None] = {}
    judged: set[str] = set()
    for message, text in zip(messages[cut:], later, strict=True):
        for name in _called([message]):
            if name not in judged and name in before and after.find(name) >= start:
                found[name] = None
            judged.add(name)
        start += len(text) + 2
    return Probes(cut, tuple(found))


def _called(messages: Iterable[Message]) -> dict[str, None]:
    """Identifiers in the arguments of calls, each once, in order."""
    texts = (argument_text(call) for message in messages for call in message.calls)
    return dict.fromkeys(name for text in texts for name in identifiers(text))


def _typed(session: Session, text: str) -> float | None:
    """Share of the user's typed words that are verbatim in the view, by characters."""
    seen = flat(text)
    said = [flat(saying.text) for saying in reading(session).sayings]
    whole = sum(map(len, said))
    return sum(len(words) for words in said if words in seen) / whole if whole else None


def _artifacts(session: Session, text: str) -> float | None:
    files = reading(session).state.files()
    everything = [*files.read, *files.modified, *files.created, *files.deleted]
    return _share(named(path, everything, text) for path in (*files.modified, *files.created))


def named(path: str, others: Sequence[str], text: str) -> bool:
    """Whether `text` names a file so that nobody could mean another one of `others`: by its path, or by the
    shortest end of it that no other path has."""
    ending = shortest_ending(path, others)
    return path in text or re.search(rf"(?<![\w.-]){re.escape(ending)}(?![\w-])", text) is not None


def shortest_ending(path: str, others: Iterable[str]) -> str:
    rivals = [other for other in others if other != path]
    for ending in _endings(path):
        if not any(other == ending or other.endswith(f"/{ending}") for other in rivals):
            return ending
    return path


def _endings(path: str) -> Iterator[str]:
    head, ending = posixpath.split(path)
    while head.strip("/") and ending:
        yield ending
        head, name = posixpath.split(head)
        ending = f"{name}/{ending}"


def _share(hits: Iterable[bool]) -> float | None:
    listed = list(hits)
    return sum(listed) / len(listed) if listed else None
