"""Checking a summary against what it summarises (R5): literal grounding, by code.

A claim holds where its text occurs in the sources (or in the previous summary), after normalising white
space, quotation marks, case and the ways people shorten paths and numbers. This cannot see that a test
"passes" which failed; it sees names, paths, numbers, commands and quotations that nobody ever mentioned.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from refold.compaction.claims import Claim, claims
from refold.compaction.plan import Source
from refold.messages import searchable
from refold.text.sentences import spans

MARK = " [unverified]"

_WORD = re.compile(r"[^\W_]+")
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "「": '"', "」": '"', "\\": "/", "`": " "})
_NUMBERS = re.compile(r"\d[\d,_]*(?:\.\d+)*")
_ELLIPSIS = re.compile(r"(?<!\s)\s*+(?:\.{3}|…|\[…\]|\[\.\.\.\])\s*")
_STEPS = re.compile(r"(?<!\s)\s*+(?:&&|\|\||\||;)\s*")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_SUFFIX = re.compile(r"(?::\d+(?:[-:]\d+)?|#L\d+(?:-L?\d+)?)$")
_CALLED = re.compile(r"([\w.$:#>-]{1,200})\((.*)\)")
_LINE = re.compile(r"[^\n]*\n?")
_PLACES = 400
"""Occurrences of a text that are looked at for one that stands alone."""
_NEAR = 0.1
"""How far an "about 1 100" may be from a number of the sources."""


class Verified(msgspec.Struct, frozen=True):
    text: str
    claims: int = 0
    unverified: tuple[str, ...] = ()


def verify(summary: str, sources: Iterable[Source], previous: str = "", *, action: str = "mark") -> Verified:
    """The summary with every unsupported claim marked (`mark`) or its sentence taken out (`remove`)."""
    return verify_against(
        summary, Evidence([previous, *(searchable(s.message, keys=True) for s in sources)]), action=action
    )


def verify_against(summary: str, evidence: Evidence, *, action: str = "mark") -> Verified:
    found = claims(summary)
    wrong = [claim for claim in found if not evidence.supports(claim)]
    text = _without(summary, wrong) if action == "remove" else _marked(summary, wrong)
    return Verified(text, len(found), tuple(dict.fromkeys(claim.text for claim in wrong)))


def normal(text: str) -> str:
    return " ".join(text.translate(_QUOTES).split()).lower()


class Evidence:
    """The source texts, prepared for many small questions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = normal("\n".join(texts))
        self._known: dict[tuple[str, str], bool] = {}

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(_WORD.findall(self._text))

    @cached_property
    def _squeezed(self) -> str:
        return self._text.replace(" ", "")

    @cached_property
    def _numbers(self) -> frozenset[str]:
        found: set[str] = set()
        for number in set(_NUMBERS.findall(self._text)):
            found |= set(_spellings(number))
        return frozenset(found)

    @cached_property
    def _values(self) -> list[float]:
        return sorted(
            float(number) for number in self._numbers if number.count(".") <= 1 and len(number) < 16
        )

    def has(self, text: str) -> bool:
        """Does it occur, however it is spaced?"""
        wanted = normal(text)
        return wanted in self._text or (" " in wanted and wanted.replace(" ", "") in self._squeezed)

    def has_alone(self, text: str, hyphens: bool = False) -> bool:
        """Does it occur as a whole, not as a part of a longer name? `hyphens`: part of names."""
        wanted, text = normal(text), self._text
        at = -1
        for _ in range(_PLACES):
            at = text.find(wanted, at + 1)
            if at < 0:
                return False
            end = at + len(wanted)
            before, after = text[max(at - 2, 0) : at][::-1], text[end : end + 2]
            if not _continues(wanted[:1], before, hyphens) and not _continues(wanted[-1:], after, hyphens):
                return True
        return False

    def supports(self, claim: Claim) -> bool:
        key = (claim.kind, claim.text)
        if key not in self._known:
            self._known[key] = getattr(self, f"_{claim.kind}")(claim.text)
        return self._known[key]

    def _url(self, text: str) -> bool:
        return self.has(text) or self.has(text.rstrip("/"))

    def _path(self, text: str) -> bool:
        return self._as_path(text) or self._as_prose(text)

    def _as_path(self, text: str) -> bool:
        return all(self._one_path(path) for path in _expanded(_SUFFIX.sub("", text)))

    def _one_path(self, path: str) -> bool:
        bare = path.removeprefix("./").removeprefix("~/").strip("/")
        while bare.startswith("../"):
            bare = bare[3:]
        if "*" in bare:
            return all(self.has(part) for part in bare.split("*") if len(part) > 2)
        return bool(bare) and self.has_alone(bare, hyphens=True)

    def _as_prose(self, text: str) -> bool:
        """`read/write`, `and/or`: words with a stroke between them."""
        words = text.split("/")
        return len(words) <= 4 and all(w.isalpha() and self._known_word(w.lower()) for w in words)

    def _code(self, text: str) -> bool:
        pieces = [piece for piece in _ELLIPSIS.split(text) if piece]
        return all(self._piece(piece) for piece in pieces)

    def _piece(self, text: str) -> bool:
        literal = self.has_alone if text[-1:].isalnum() and " " not in text else self.has
        if literal(text) or self._is_number(text) or self._called(text):
            return True
        if " " not in text and ("/" in text or "." in text):
            return self._as_path(text)
        steps = _STEPS.split(text)
        return len(steps) > 1 and all(self._piece(step) for step in steps if step)

    def _called(self, text: str) -> bool:
        """`name()` or `Type.name(…)`, where the sources show the name with other arguments or none."""
        name = _CALLED.fullmatch(text)
        if name is None:
            return False
        inner = [claim for claim in claims(name[2]) if claim.kind != "name"]
        return self.has_alone(name[1].split(".")[-1]) and all(self.supports(claim) for claim in inner)

    def _quotation(self, text: str) -> bool:
        said = text.rstrip(".,;:!?。，！？")
        pieces = [piece for piece in _ELLIPSIS.split(said) if piece]
        return all(self.has(piece) for piece in pieces)

    def _identifier(self, text: str) -> bool:
        if self.has_alone(text) or self.has_alone(text.removesuffix("s")):
            return True
        if "-" not in text or any(c.isdigit() for c in text):
            return False
        return self.has(text.replace("-", " ")) or self._all_words(text)

    def _name(self, text: str) -> bool:
        return all(self._known_word(word) for word in text.lower().split())

    def _number(self, text: str) -> bool:
        return self._is_number(text)

    def _rough(self, text: str) -> bool:
        """ "About 1 100" holds where the sources name a number near it."""
        if self._is_number(text):
            return True
        wanted = float(next(_spellings(text), "0") if text.count(".") <= 1 else "0")
        at = bisect_left(self._values, wanted * (1 - _NEAR))
        return at < len(self._values) and self._values[at] <= wanted * (1 + _NEAR)

    def _is_number(self, text: str) -> bool:
        return any(spelling in self._numbers for spelling in _spellings(text))

    def _all_words(self, text: str) -> bool:
        return all(self._known_word(word) for word in _WORD.findall(text.lower()))

    def _known_word(self, word: str) -> bool:
        return word in self._words or word.removesuffix("s") in self._words or len(word) < 3


def _continues(edge: str, beyond: str, hyphens: bool) -> bool:
    """Does a name go on beyond its edge? `beyond`: the next two characters, nearest first."""
    if not beyond or not (edge.isalnum() or edge == "_"):
        return False
    if beyond[0] == "-" and hyphens:
        beyond = beyond[1:]
    return beyond.isascii() and (beyond[:1].isalnum() or beyond[:1] == "_")


def _spellings(number: str) -> Iterator[str]:
    """A number without separators, with and without trailing zeros of its fraction."""
    plain = number.replace(",", "").replace("_", "").rstrip(".")
    yield plain
    if plain.count(".") == 1:
        yield plain.rstrip("0").rstrip(".")
    yield from plain.split(".") if plain.count(".") > 1 else ()


def _expanded(path: str, depth: int = 3) -> Iterator[str]:
    match = _BRACES.search(path)
    if match is None or not depth:
        yield path
        return
    for option in match[1].split(",")[:20]:
        yield from _expanded(path[: match.start()] + option + path[match.end() :], depth - 1)


def _marked(text: str, wrong: Sequence[Claim]) -> str:
    pieces: list[str] = []
    at = 0
    for claim in wrong:
        pieces += (text[at : claim.end], MARK)
        at = claim.end
    return "".join((*pieces, text[at:]))


def _without(text: str, wrong: Sequence[Claim]) -> str:
    """The text without the sentences that hold an unsupported claim; a list item left empty goes too."""
    kept: list[str] = []
    left = list(reversed(wrong))
    for line in _LINE.finditer(text):
        inside: list[Claim] = []
        while left and left[-1].start < line.end():
            inside.append(left.pop())
        kept.append(_line_without(line[0], line.start(), inside) if inside else line[0])
    return "".join(kept)


def _line_without(line: str, offset: int, wrong: Sequence[Claim]) -> str:
    """The line without its sentences that hold one of these claims; what stood between the others stays."""
    body = line.rstrip("\n")
    sentences = list(spans(body))
    bad = {bisect_right(sentences, claim.start - offset, key=lambda span: span[0]) - 1 for claim in wrong}
    rest = "".join(body[a:b] for number, (a, b) in enumerate(sentences) if number not in bad).rstrip()
    rest = rest.lstrip() if 0 in bad else rest
    return rest + line[len(body) :] if re.search(r"\w", rest) else ""
