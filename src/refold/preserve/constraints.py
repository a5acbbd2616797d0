"""Constraints (R8): sentences in which the user forbids, requires or prefers something.

Only the user's own words count: never tool results, model text, pasted code or logs, quotations, or what an
agent injected into the user's message. Each is kept verbatim with the id of its entry, until a later user
message lifts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from refold.entries import key
from refold.messages import Message, User
from refold.preserve.constraints_chinese import HAN, chinese
from refold.preserve.constraints_english import english
from refold.preserve.constraints_lift import contradicts, lifts, normal
from refold.preserve.constraints_text import LONGEST, Sentence, Sort, Verdict, sentences
from refold.protocols import TokenCounter
from refold.text.truncate import boundary

_COMPARED = 300


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """`text` is a piece of the message `entry_id` as the user wrote it. `importance` lies between 0 and 1."""

    text: str
    entry_id: str
    importance: float = 0.5
    superseded_by: str | None = None
    """Entry of the later user message that lifted it."""
    sort: Sort = "require"

    @property
    def active(self) -> bool:
        return self.superseded_by is None


def find(sources: Iterable[tuple[str, Message]]) -> tuple[Constraint, ...]:
    """Every constraint of a path, lifted ones included, in order."""
    return extend((), sources)


def extend(found: Sequence[Constraint], new: Iterable[tuple[str, Message]]) -> tuple[Constraint, ...]:
    """The constraints after these further messages; cost follows the new ones."""
    book = _Found(found)
    for entry_id, message in new:
        if isinstance(message, User):
            for sentence in sentences(message.text):
                book.take(entry_id, sentence)
    return tuple(book.known)


def judge(sentence: str) -> Verdict | None:
    """What one sentence demands; None where it demands nothing."""
    for piece in sentences(sentence):
        verdict = _judge(piece)
        if verdict:
            return verdict
    return None


def active(constraints: Iterable[Constraint]) -> list[Constraint]:
    """Those in force, most important first; of equals the newest first."""
    newest_first = [c for c in constraints if c.active][::-1]
    return sorted(newest_first, key=lambda c: -c.importance)


def render(
    constraints: Iterable[Constraint], budget: int, counter: TokenCounter
) -> tuple[str, tuple[Constraint, ...]]:
    """The constraints in force as a list within `budget` tokens, and those that fell out: the least
    important. Every line ends with the recall key of its entry."""
    lines: list[str] = []
    fell: list[Constraint] = []
    left = budget
    for constraint in active(constraints):
        line = f"- {' '.join(constraint.text.split())} [{key(constraint.entry_id)}]"
        size = counter.text(line) + 1
        if size <= left:
            lines.append(line)
            left -= size
        else:
            fell.append(constraint)
    return "\n".join(lines), tuple(fell)


def _judge(sentence: Sentence) -> Verdict | None:
    own = sentence.own
    verdict = chinese(own) if HAN.search(own) else None
    if verdict is None and re.search(r"[A-Za-z]{2}", own):
        verdict = english(own)
    if verdict is None and sentence.listed and len(own) > 3 and "?" not in own[-2:]:
        return Verdict("require", 0.7, 0)
    return verdict


class _Found:
    """Constraints under construction. Only the newest are compared with what comes: a conversation has a few
    dozen, and a hostile one must not cost more."""

    def __init__(self, known: Sequence[Constraint]) -> None:
        self.known = list(known)
        self.places = {normal(c.text): index for index, c in enumerate(self.known) if c.active}

    def take(self, entry_id: str, sentence: Sentence) -> None:
        topic = lifts(sentence.own, sentence.text)
        lifted = topic is not None and self._supersede(entry_id, lambda old: topic.covers(old.text))
        verdict = _judge(sentence)
        if verdict is None or (lifted and topic is not None and not topic.adds):
            return
        text = narrowed(sentence.text, verdict.at)
        again = self.places.get(normal(text))
        if again is not None and self.known[again].active:
            old = self.known[again]
            # Said again: it matters more.
            self.known[again] = msgspec.structs.replace(old, importance=min(1.0, old.importance + 0.05))
            return
        self._supersede(entry_id, lambda old: contradicts(old.text, old.sort, text, verdict.sort))
        self.places[normal(text)] = len(self.known)
        self.known.append(Constraint(text, entry_id, verdict.strength, None, verdict.sort))

    def _supersede(self, entry_id: str, lifted: Callable[[Constraint], bool]) -> bool:
        """Mark what the entry takes back; whether there was anything."""
        any_lifted = False
        for index in range(max(0, len(self.known) - _COMPARED), len(self.known)):
            old = self.known[index]
            if old.active and old.entry_id != entry_id and lifted(old):
                self.known[index] = msgspec.structs.replace(old, superseded_by=entry_id)
                any_lifted = True
        return any_lifted


def narrowed(text: str, at: int) -> str:
    """A sentence without end is kept to the clauses around the place that matters; still verbatim."""
    if len(text) <= LONGEST:
        return text
    start = max(0, at - LONGEST // 3)
    end = min(len(text), start + LONGEST)
    joints = [m.end() for m in re.finditer(r"[,;:，；：、]\s*|\s", text[start:end])]
    if start and joints:
        start += joints[0]
    if end < len(text) and joints:
        end = max(start + 1, end - LONGEST + joints[-1]) if joints[-1] > LONGEST // 2 else end
    return text[boundary(text, start) : boundary(text, end)].strip()
