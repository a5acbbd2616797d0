"""Compression without a model: drops repetitions, joins similar notes, keeps the important ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from refold.memory.notes import MemoryNote
from refold.text import words
from refold.text.patterns import lazy_pattern

SAME_SHARE = 0.8
"""Share of common words from which two notes say the same."""
SIMILAR = 0.5
"""Share of common words from which two notes are joined."""
RARE = 4
"""Rarest words of a note that are used to find similar ones."""
MAX_SIMILAR = 64

_matters = lazy_pattern(
    r"\b(?:never|always|must|only|don't|do not|avoid|prefers?|preferred|wants?|requires?|required|important"
    r"|convention|decided|password|deadline)\b|不要|必须|总是|从不|喜欢|禁止|しない|必ず",
    re.IGNORECASE,
)
_exact = re.compile(r"[\w.-]/[\w./-]|\w_\w|[a-z][A-Z]|\d{2,}|`[^`\n]{1,80}`")


class Weighed(msgspec.Struct, frozen=True):
    """A note during compression: its words, and how many notes it represents."""

    note: MemoryNote
    words: frozenset[str]
    times: int = 1


def compress_notes(notes: Sequence[MemoryNote], target: int) -> list[MemoryNote]:
    """At most `target` notes in their order, never more lines or characters than before."""
    kept = _joined(_distinct([_weigh(note) for note in notes]), target)
    return [each.note for each in _most_important(kept, target)]


def _weigh(note: MemoryNote) -> Weighed:
    return Weighed(note, frozenset(words.terms(note.text)) or frozenset((note.text.strip().lower(),)))


def _distinct(notes: Sequence[Weighed]) -> list[Weighed]:
    """Notes without repetitions. Of two that say the same, the newer or the fuller one stays."""
    kept: dict[int, Weighed] = {}
    nearby = _Nearby(notes)
    for at in range(len(notes) - 1, -1, -1):
        one = notes[at]
        double = next((i for i in nearby.of(one) if _same(one, kept[i])), None)
        if double is None:
            kept[at] = one
            nearby.add(at, one)
            continue
        other = kept[double]
        # The user's words are never replaced by a quotation.
        allowed = other.note.is_quoted or not one.note.is_quoted
        fuller = one if allowed and len(one.words) > len(other.words) else other
        kept[double] = msgspec.structs.replace(fuller, times=other.times + one.times)
    return [kept[at] for at in sorted(kept)]


def _same(one: Weighed, other: Weighed) -> bool:
    common = len(one.words & other.words)
    smaller = min(len(one.words), len(other.words))
    if _exact_words(one.note.text) != _exact_words(other.note.text):
        return False  # notes that differ in a path, name or number say different things
    return common >= SAME_SHARE * len(one.words | other.words) or (smaller >= 3 and common == smaller)


def _exact_words(text: str) -> frozenset[str]:
    return frozenset(word for word in words.spelled(text) if any(c.isdigit() or c == "_" for c in word))


def _joined(notes: Sequence[Weighed], target: int) -> list[Weighed]:
    """Joins similar notes with the same source into one line while there are too many."""
    kept: dict[int, Weighed] = {}
    nearby = _Nearby(notes)
    surplus = len(notes) - target
    for at, one in enumerate(notes):
        near = nearby.of(one) if surplus > 0 else ()
        like = next((i for i in near if i in kept and _alike(one, kept[i])), None)
        if like is not None:
            one = _join(kept.pop(like), one)
            surplus -= 1
        kept[at] = one
        nearby.add(at, one)
    return [kept[at] for at in sorted(kept)]


def _alike(one: Weighed, other: Weighed) -> bool:
    common = len(one.words & other.words)
    return (
        one.note.source == other.note.source
        and common >= SIMILAR * min(len(one.words), len(other.words))
        and len(one.note.text) + len(other.note.text) <= 400
        and len(_join(other, one).note.line) <= len(one.note.line) + len(other.note.line) + 1
    )


def _join(older: Weighed, newer: Weighed) -> Weighed:
    text = f"{older.note.text.rstrip(' .;')}; {newer.note.text}"
    note = MemoryNote(text, max(older.note.date, newer.note.date), newer.note.source)
    return Weighed(note, older.words | newer.words, older.times + newer.times)


def _most_important(notes: Sequence[Weighed], target: int) -> list[Weighed]:
    if len(notes) <= target:
        return list(notes)
    having = Counter(word for each in notes for word in each.words)
    order = sorted(range(len(notes)), key=lambda at: (-_importance(notes, at, having), -at))
    return [notes[at] for at in sorted(order[: max(0, target)])]


def _importance(notes: Sequence[Weighed], at: int, having: Counter[str]) -> float:
    """Higher for notes that recur, come from the user, are exact, say something unique, or are new."""
    one = notes[at]
    rare = sum(1 / having[word] for word in one.words) / (4 + len(one.words))
    return (
        min(one.times, 5)
        + 2.0 * bool(_matters.search(one.note.text))
        + 0.7 * bool(_exact.search(one.note.text))
        + (0.0 if one.note.is_quoted else 1.0)
        + rare
        + at / len(notes)
    )


class _Nearby:
    """Finds notes that share a rare word, to avoid comparing all pairs."""

    def __init__(self, notes: Sequence[Weighed]) -> None:
        self.having = Counter(word for each in notes for word in each.words)
        self.by_word: dict[str, list[int]] = {}

    def add(self, at: int, one: Weighed) -> None:
        for word in one.words:
            self.by_word.setdefault(word, []).append(at)

    def of(self, one: Weighed) -> Iterator[int]:
        seen: set[int] = set()
        for word in sorted(one.words, key=lambda w: (self.having[w], w))[:RARE]:
            for at in reversed(self.by_word.get(word, ())[-MAX_SIMILAR:]):
                if at not in seen:
                    seen.add(at)
                    yield at
