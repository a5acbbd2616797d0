"""In which form each message of a conversation stands in a folded view: the same four words for every preset.

*Whole*: as it was, or word for word in what replaced it. *Clipped*: something shorter in its own place. As a
*line*: a summary stands for it and has an argument of its call or one of its sentences, word for word; a
result goes with its call. *Gone*: the view has nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Literal, TypeAlias

import msgspec

from refold import entries as e
from refold.compare.measures import flat, readable_text
from refold.messages import Assistant, Call, Message, Result, leaves
from refold.session import Session
from refold.session.edits import Stretch, active_folds, outermost, said_by
from refold.text.sentences import sentences

MessageForm: TypeAlias = Literal["whole", "clipped", "lines", "gone"]
FORM_WORDS: dict[MessageForm, str] = {
    "whole": "whole",
    "clipped": "clipped",
    "lines": "as one line",
    "gone": "not shown (recall finds them)",
}
"""And how people say it."""
MIN_SENTENCE_CHARS = 12
"""Shorter words stand anywhere by chance."""
PROBED_SENTENCES = 8
"""Sentences of a message that are looked for, from its beginning and from its end: a log has thousands."""


class RecordPart(msgspec.Struct, frozen=True):
    messages: int = 0
    tokens: int = 0


def forms_of(session: Session, sizes: Sequence[int]) -> dict[MessageForm, RecordPart]:
    """How many messages stand in each form, and how many tokens they had: `sizes`, by the path."""
    said = [entry for entry in session.path if said_by(entry) is not None]
    found = _covered(session)
    parts = dict.fromkeys(FORM_WORDS, RecordPart())
    for entry, size in zip(said, sizes, strict=True):
        form = found.get(entry.id, "whole")
        parts[form] = RecordPart(parts[form].messages + 1, parts[form].tokens + size)
    return parts


def _covered(session: Session) -> dict[str, MessageForm]:
    """The messages that an edit stands for."""
    found: dict[str, MessageForm] = {}
    for stretch in outermost(active_folds(session.path), session.position):
        found |= stretch_forms(session, stretch, record_of_stretch(stretch))
    return found


def record_of_stretch(stretch: Stretch) -> FoldRecord:
    """What stands for a stretch; for what left its place alone, the record of the fold, its first edit."""
    edit = stretch.fold.edits[0] if stretch.edit.kind == e.LEFT else stretch.edit
    return FoldRecord(edit.put)


def stretch_forms(session: Session, stretch: Stretch, record: FoldRecord) -> dict[str, MessageForm]:
    """In which form the messages of a stretch stand in what was put for it."""
    entries = session.path[stretch.first : stretch.last + 1]
    said = {entry.id: message for entry in entries if (message := said_by(entry)) is not None}
    put = stretch.edit.put
    if len(said) == 1 and put and stretch.edit.kind not in ("summary", "line"):
        return {id: "whole" if put == (message,) else "clipped" for id, message in said.items()}
    return dict(_in_record(said, record))


def _in_record(said: Mapping[str, Message], record: FoldRecord) -> Iterator[tuple[str, MessageForm]]:
    calls: dict[str, bool] = {}
    for id, message in said.items():
        form = record.form(message)
        if form == "gone" and calls.get(_answers(message)):
            form = "lines"
        if isinstance(message, Assistant):
            calls |= {call.id: form != "gone" for call in message.calls}
        yield id, form


def _answers(message: Message) -> str:
    return message.call_id if isinstance(message, Result) else ""


class FoldRecord:
    """What stands for a stretch of the conversation."""

    def __init__(self, put: Sequence[Message]) -> None:
        self.messages = put
        self.text = flat(readable_text(put))

    def form(self, message: Message) -> MessageForm:
        if message in self.messages or (self._has(message.text) and not message.calls):
            return "whole"
        if self.copy_of(message) is not None:
            return "clipped"
        return "gone" if next(self.traces(message), None) is None else "lines"

    def copy_of(self, message: Message) -> int | None:
        """Which of the messages put here is this one, as it was or shorter."""
        same = (
            n for n, other in enumerate(self.messages) if message == other or _is_same_step(message, other)
        )
        return next(same, None)

    def traces(self, message: Message) -> Iterator[str]:
        """What of a message stands here word for word: arguments of its calls, sentences."""
        arguments = (value for call in message.calls for value in _arguments(call))
        for text in chain(arguments, _looked_at(message.text)):
            if self._has(text):
                yield flat(text)

    def _has(self, text: str) -> bool:
        words = flat(text)
        return len(words) >= MIN_SENTENCE_CHARS and words in self.text


def _is_same_step(message: Message, other: Message) -> bool:
    """A shorter copy of the same result or of the same calls."""
    if isinstance(message, Result) and isinstance(other, Result):
        return message.call_id == other.call_id
    calls = {call.id for call in message.calls}
    return bool(calls) and calls == {call.id for call in other.calls}


def _arguments(call: Call) -> Iterable[str]:
    return leaves(call.arguments) if call.raw is None else (call.raw,)


@lru_cache(maxsize=2_048)
def _looked_at(text: str) -> tuple[str, ...]:
    """Kept: every fold of every preset looks for the same sentences again."""
    found = [flat(sentence) for sentence in sentences(text)]
    return tuple(
        found if len(found) <= 2 * PROBED_SENTENCES else found[:PROBED_SENTENCES] + found[-PROBED_SENTENCES:]
    )
