"""Checking a summary against what it summarises (R5): literal grounding, by code.

A claim holds where its text occurs in the sources (or in the previous summary), after normalising white
space, quotation marks, case and the ways people shorten paths and numbers. This cannot see that a test
"passes" which failed; it sees names, paths, numbers, commands and quotations that nobody ever mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from refold.compaction.claims import Claim, claims
from refold.compaction.plan import Source
from refold.messages import Bash, Call, Message, Text, Thinking

MARK = " [unverified]"

_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+")
_QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "「": '"', "」": '"', "\\": "/", "`": " "})
_NUMBERS = re.compile(r"\d[\d,_]*(?:\.\d+)*")
_ELLIPSIS = re.compile(r"\s*(?:\.{3}|…|\[…\]|\[\.\.\.\])\s*")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_SUFFIX = re.compile(r"(?::\d+(?:[-:]\d+)?|#L\d+(?:-L?\d+)?)$")
_LINE = re.compile(r"[^\n]*\n?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


class Verified(msgspec.Struct, frozen=True):
    text: str
    claims: int = 0
    unverified: tuple[str, ...] = ()


def verify(summary: str, sources: Iterable[Source], previous: str = "", *, action: str = "mark") -> Verified:
    """The summary with every unsupported claim marked (`mark`) or its sentence taken out (`remove`)."""
    return verify_against(summary, Evidence([previous, *texts(s.message for s in sources)]), action=action)


def verify_against(summary: str, evidence: Evidence, *, action: str = "mark") -> Verified:
    found = claims(summary)
    wrong = [claim for claim in found if not evidence.supports(claim)]
    text = _without(summary, wrong) if action == "remove" else _marked(summary, wrong)
    return Verified(text, len(found), tuple(dict.fromkeys(claim.text for claim in wrong)))


def normal(text: str) -> str:
    return _SPACE.sub(" ", text.translate(_QUOTES)).lower().strip()


class Evidence:
    """The source texts, prepared for many small questions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = normal("\n".join(texts))

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

    def has(self, text: str) -> bool:
        wanted = normal(text)
        return wanted in self._text or wanted.replace(" ", "") in self._squeezed

    def supports(self, claim: Claim) -> bool:
        return getattr(self, f"_{claim.kind}")(claim.text)

    def _url(self, text: str) -> bool:
        return self.has(text) or self.has(text.rstrip("/"))

    def _path(self, text: str) -> bool:
        bare = _SUFFIX.sub("", text)
        return all(self._one_path(path) for path in _expanded(bare))

    def _one_path(self, path: str) -> bool:
        bare = path.removeprefix("./").removeprefix("~/").strip("/")
        if "*" in bare:
            return all(self.has(part) for part in bare.split("*") if len(part) > 2)
        if self.has(bare):
            return True
        is_prose = "." not in bare and path == bare and bare.count("/") <= 2
        return is_prose and self._all_words(bare)

    def _code(self, text: str) -> bool:
        pieces = [piece for piece in _ELLIPSIS.split(text) if piece]
        return all(self.has(p) or self._path(p) or self._called(p) or self._is_number(p) for p in pieces)

    def _called(self, text: str) -> bool:
        """`name()` or `Type.name(…)`, where the sources show the name with other arguments or none."""
        name = re.fullmatch(r"([\w.$:#>-]+)\((.*)\)", text)
        if name is None:
            return False
        inner = [claim for claim in claims(name[2]) if claim.text]
        return self.has(name[1].split(".")[-1]) and all(self.supports(claim) for claim in inner)

    def _quotation(self, text: str) -> bool:
        pieces = [piece for piece in _ELLIPSIS.split(text.rstrip(".,;:!?。，")) if piece]
        return all(self.has(piece) for piece in pieces)

    def _identifier(self, text: str) -> bool:
        if self.has(text):
            return True
        return "-" in text and not any(c.isdigit() for c in text) and self._all_words(text)

    def _name(self, text: str) -> bool:
        return all(self._known_word(word) for word in text.lower().split())

    def _number(self, text: str) -> bool:
        return self._is_number(text)

    def _is_number(self, text: str) -> bool:
        return any(spelling in self._numbers for spelling in _spellings(text))

    def _all_words(self, text: str) -> bool:
        return all(self._known_word(word) for word in _WORD.findall(text.lower()))

    def _known_word(self, word: str) -> bool:
        return word in self._words or word.removesuffix("s") in self._words or len(word) < 3


def texts(messages: Iterable[Message]) -> Iterator[str]:
    """Everything readable in messages, arguments of calls value by value."""
    for message in messages:
        if isinstance(message, Bash):
            yield f"{message.command}\n{message.output}\n{message.exit_code}"
            continue
        for part in message.parts:
            match part:
                case Text(text=text) | Thinking(text=text):
                    yield text
                case Call(name=name, raw=raw):
                    yield name
                    yield raw if raw is not None else ""
                    yield from _values(part.arguments)
                case _:
                    pass


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield str(key)  # pyright: ignore[reportUnknownArgumentType]
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _values(inner)
    else:
        yield str(value)


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
    for claim in reversed(wrong):
        text = text[: claim.end] + MARK + text[claim.end :]
    return text


def _without(text: str, wrong: Sequence[Claim]) -> str:
    """The text without the sentences that hold an unsupported claim; a list item left empty goes too."""
    kept: list[str] = []
    for line in _LINE.finditer(text):
        inside = [c for c in wrong if line.start() <= c.start < line.end()]
        kept.append(_line_without(line[0], line.start(), inside) if inside else line[0])
    return "".join(kept)


def _line_without(line: str, offset: int, wrong: Sequence[Claim]) -> str:
    end = "\n" if line.endswith("\n") else ""
    sentences: list[str] = []
    at = 0
    for sentence in _SENTENCE_END.split(line.rstrip("\n")):
        start = line.index(sentence, at)
        at = start + len(sentence)
        if not any(start <= claim.start - offset < at for claim in wrong):
            sentences.append(sentence)
    rest = " ".join(sentences)
    return rest + end if re.search(r"\w", rest) else ""
