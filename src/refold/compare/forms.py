"""The form of each message in a folded view, the same four for every preset.

*Whole*: unchanged, or verbatim in its replacement. *Clipped*: shortened in its own place. *Line*: a summary
has an argument of its call or one of its sentences verbatim; a result goes with its call. *Gone*: nothing of
it is in the view.
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
from refold.session.edits import Accepts, Stretch, accepted, active_folds, outermost, said_by
from refold.session.projection import accept_all
from refold.text.plural import counted
from refold.text.sentences import split_sentences

MessageForm: TypeAlias = Literal["whole", "clipped", "lines", "gone"]
FORM_WORDS: dict[MessageForm, str] = {
    "whole": "whole",
    "clipped": "clipped",
    "lines": "as one line",
    "gone": "not shown",
}
MIN_SENTENCE_CHARS = 12
"""Minimum length of a sentence; shorter ones occur by chance."""
PROBED_SENTENCES = 8
"""Number of sentences of a message that are searched, from its beginning and its end."""


class RecordPart(msgspec.Struct, frozen=True):
    messages: int = 0
    tokens: int = 0


def forms_of(session: Session, sizes: Sequence[int]) -> dict[MessageForm, RecordPart]:
    """Number of messages in each form, and their tokens; `sizes` are those of the path."""
    parts = dict.fromkeys(FORM_WORDS, RecordPart())
    for form, size in zip(message_forms(session).values(), sizes, strict=True):
        parts[form] = RecordPart(parts[form].messages + 1, parts[form].tokens + size)
    return parts


def message_forms(session: Session, accepts: Accepts = accept_all) -> dict[str, MessageForm]:
    """The form of each message of the path, by its id; `accepts` says which folds count."""
    found: dict[str, MessageForm] = {
        entry.id: "whole" for entry in session.path if said_by(entry) is not None
    }
    for stretch in outermost(accepted(accepts, active_folds(session.path)), session.position):
        found |= stretch_forms(session, stretch, record_of_stretch(stretch))
    return found


def forms_sentence(counts: Mapping[MessageForm, int]) -> str:
    """`of 210 messages: 113 whole, 41 clipped …`, or just `210 messages` if all are whole."""
    messages = counted(sum(counts.values()), "message")
    if sum(counts.values()) == counts.get("whole", 0):
        return messages
    return f"of {messages}: {form_counts({form: number for form, number in counts.items() if number})}"


def form_counts(counts: Mapping[MessageForm, int]) -> str:
    """`113 whole, 41 clipped, 1 not shown (recall finds it)`."""
    parts = ", ".join(f"{counts[form]:,} {words}" for form, words in FORM_WORDS.items() if form in counts)
    them = "it" if counts.get("gone") == 1 else "them"
    return f"{parts} (recall finds {them})" if "gone" in counts else parts


def record_of_stretch(stretch: Stretch) -> FoldRecord:
    """The replacement of a stretch; of messages that left alone, the fold's record: its first edit."""
    edit = stretch.fold.edits[0] if stretch.edit.kind == e.LEFT else stretch.edit
    return FoldRecord(edit.put)


def record_of_fold(fold: e.Fold) -> str:
    """The text of a fold's summary, as it is shown; empty if it has none."""
    return next((edit.put[0].text for edit in fold.edits if edit.kind == "summary" and edit.put), "")


def stretch_forms(session: Session, stretch: Stretch, record: FoldRecord) -> dict[str, MessageForm]:
    """The forms of a stretch's messages in its replacement."""
    said, put = _said(session, stretch), stretch.edit.put
    if len(said) == 1 and put and stretch.edit.kind not in ("summary", "line"):
        return {id: "whole" if put == (message,) else "clipped" for id, message in said.items()}
    return dict(_in_record(said, record))


def copied_messages(session: Session, stretch: Stretch, record: FoldRecord) -> dict[int, str]:
    """Which of the inserted messages stand for one message each, by their place: its id."""
    said, edit = _said(session, stretch), stretch.edit
    if edit.kind == e.LEFT:
        return {}
    if len(said) == len(edit.put) == 1 and edit.kind not in ("summary", "line"):
        return dict(enumerate(said))
    places = ((record.copy_of(message), id) for id, message in said.items())
    return {place: id for place, id in places if place is not None}


def _said(session: Session, stretch: Stretch) -> dict[str, Message]:
    entries = session.path[stretch.first : stretch.last + 1]
    return {entry.id: message for entry in entries if (message := said_by(entry)) is not None}


def _in_record(said: Mapping[str, Message], record: FoldRecord) -> Iterator[tuple[str, MessageForm]]:
    calls: dict[str, bool] = {}
    for id, message in said.items():
        form = record.form(message)
        if form == "gone" and isinstance(message, Result) and calls.get(message.call_id):
            form = "lines"
        if isinstance(message, Assistant):
            calls |= {call.id: form != "gone" for call in message.calls}
        yield id, form


class FoldRecord:
    """The replacement of a stretch of the conversation."""

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
        """The replacement message that is this message, unchanged or shorter."""
        same = (
            n for n, other in enumerate(self.messages) if message == other or _is_same_step(message, other)
        )
        return next(same, None)

    def traces(self, message: Message) -> Iterator[str]:
        """Verbatim traces of a message: arguments of its calls, sentences."""
        arguments = (value for call in message.calls for value in _arguments(call))
        for text in chain(arguments, _looked_at(message.text)):
            if self._has(text):
                yield flat(text)

    def _has(self, text: str) -> bool:
        words = flat(text)
        return len(words) >= MIN_SENTENCE_CHARS and words in self.text


def _is_same_step(message: Message, other: Message) -> bool:
    """True for a shorter copy of the same result or calls."""
    if isinstance(message, Result) and isinstance(other, Result):
        return message.call_id == other.call_id
    calls = {call.id for call in message.calls}
    return bool(calls) and calls == {call.id for call in other.calls}


def _arguments(call: Call) -> Iterable[str]:
    return leaves(call.arguments) if call.raw is None else (call.raw,)


@lru_cache(maxsize=2_048)
def _looked_at(text: str) -> tuple[str, ...]:
    """Sentences to search for, cached because every fold of every preset needs the same ones."""
    found = [flat(sentence) for sentence in split_sentences(text)]
    return tuple(
        found if len(found) <= 2 * PROBED_SENTENCES else found[:PROBED_SENTENCES] + found[-PROBED_SENTENCES:]
    )
