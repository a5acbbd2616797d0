"""Checking a summary against what it summarises (R5): literal grounding, by code.

A claim holds where its text occurs in the sources (or in the previous summary), after normalising white
space, quotation marks, case and the ways people shorten paths and numbers. This cannot see that a test
"passes" which failed; it sees names, paths, numbers, commands and quotations that no source mentions."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from refold.compaction.plan import SummarySource
from refold.messages import searchable
from refold.text.patterns import lazy_pattern
from refold.text.sentences import spans

ClaimKind: TypeAlias = Literal["url", "path", "code", "quotation", "identifier", "number", "rough", "name"]


class Claim(NamedTuple):
    kind: ClaimKind
    text: str
    start: int
    end: int


_URL = lazy_pattern(r"https?://[^\s<>\"'`\])}，。；、）」]{1,2000}")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)([^\n`]*)$", re.M)
_CODE = re.compile(r"`([^`\n]{1,400})`")
_QUOTED = lazy_pattern(r'"([^"\n]{0,400})"|“([^”\n]{2,400})”|「([^」\n]{2,400})」|『([^』\n]{2,400})』')
_PATH = lazy_pattern(
    r"(?<![A-Za-z0-9_@+*./~{}-])(?:~|\.{1,2})?/?(?:(?:[A-Za-z0-9_@+*.-]|\{[^{}\s]{1,100}\}){1,120}/){1,30}"
    r"(?:[A-Za-z0-9_@+*.-]|\{[^{}\s]{1,100}\}){0,120}"
    r"|(?<![A-Za-z0-9_@/.-])[A-Za-z0-9_@-]{1,80}(?:\.[A-Za-z0-9_-]{1,40}){0,4}\.[A-Za-z][A-Za-z0-9]{0,9}(?![A-Za-z0-9_(])"
)
_IDENTIFIER = lazy_pattern(
    r"(?<![A-Za-z0-9_/.-])(?:[A-Za-z][A-Za-z0-9]{0,80}(?:_[A-Za-z0-9]{1,80}){1,12}|_{1,3}[A-Za-z][A-Za-z0-9_]{1,80}"
    r"|[a-z]{1,40}[A-Z][A-Za-z0-9]{0,80}|(?:[A-Z][a-z0-9]{1,40}){2,6}"
    r"|[A-Za-z]{1,30}(?:-[A-Za-z0-9]{1,30}){1,6}|(?=[A-Za-z]{0,80}\d)(?=\d{0,80}[A-Za-z])[A-Za-z0-9]{5,80})(?![A-Za-z0-9_/])"
)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,/#-])\d[\d,_]{0,30}(?:\.\d{1,12}){0,4}(?![A-Za-z0-9_/])|(?<=#)\d{2,12}(?![A-Za-z0-9_])"
)
_ABOUT = re.compile(
    r"(?:~|≈|约|大约|\b(?:about|around|roughly|approximately|approx\.|nearly|almost|over|under)\s)\s*$", re.I
)
_NAME = lazy_pattern(
    r"(?<=[a-z0-9,)'’\u4e00-\u9fff] )[A-Z][a-z]{2,40}(?: [A-Z][a-z]{1,40}){0,3}\b"
    r"|(?:^|(?<=[.!?:;] )|(?<=- ))[A-Z][a-z]{2,40}(?: [A-Z][a-z]{2,40}){1,3}\b",
    re.M,
)
_ORDINAL = re.compile(r"^[ \t>]*(?:[-*][ \t]+)?(?:\[[ x]\][ \t]+)?(\d{1,3})[.)]", re.M)
_HEADING = lazy_pattern(r"^[ \t>]*#{1,6}[ \t][^\n]*$|^[ \t>*+-]*\*\*[^*\n]{1,200}\*\*:?[ \t]*$", re.M)
_LABEL = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?"
    r"(?:\*\*|__)?[^\n:*`\"]{1,80}(?:\*\*|__)?:(?:\*\*|__)?(?=\s|$)",
    re.M,
)
_ROW = re.compile(r"[^\n]+")
_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "console"))
_SMALL = 12
"""Numbers up to this are counted, not quoted."""


def claims(text: str) -> list[Claim]:
    """Every literal claim of a text, in order; none lies inside another."""
    taken = _marks(text, (match.span(1) for match in _ORDINAL.finditer(text)))
    # Headings and labels are the writer's own words: they are set in capitals, not after a name.
    titles = _marks(text, (x.span() for form in (_HEADING, _LABEL) for x in form.finditer(text)))
    found: list[Claim] = []
    literal = [_claim(kind, match, titles) for kind, pattern in _FORMS for match in pattern.finditer(text)]
    urls = (claim for claim in literal if claim and claim.kind == "url")
    for claim in (*urls, *_commands(text), *filter(None, literal)):
        if taken.find(1, claim.start, claim.end) < 0:
            taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
            found.append(claim)
    return sorted(found, key=lambda claim: claim.start)


def _marks(text: str, stretches: Iterable[tuple[int, int]]) -> bytearray:
    """A byte for each character: 1 in these stretches."""
    marks = bytearray(len(text))
    for start, end in stretches:
        marks[start:end] = b"\1" * (end - start)
    return marks


def _commands(text: str) -> Iterator[Claim]:
    """Lines of fenced blocks that are marked as shell: each is a command. Other blocks are sketches; only
    what is literal inside them is taken."""
    shell, inside, at = False, False, 0
    for match in _FENCE.finditer(text):
        for row in _ROW.finditer(text, at, match.start()) if inside and shell else ():
            line = row[0].strip().removeprefix("$ ")
            if line and not line.startswith("#"):
                yield Claim("code", line.split(" #")[0].strip(), *row.span())
        inside = not inside
        shell, at = inside and match[1].strip().lower() in _SHELLS, match.end() + 1


_FORMS: tuple[tuple[ClaimKind, re.Pattern[str]], ...] = (
    ("url", _URL), ("code", _CODE), ("quotation", _QUOTED), ("path", _PATH), ("identifier", _IDENTIFIER),
    ("number", _NUMBER), ("name", _NAME),
)  # fmt: skip


def _claim(kind: ClaimKind, match: re.Match[str], titles: bytearray) -> Claim | None:
    """What a match of a form claims, if anything."""
    said, start, untitled = match[0], match.start(), titles.find(1, *match.span()) < 0
    match kind:
        case "code" | "quotation":
            said = next((group for group in match.groups() if group), "").strip()
            # A short one is no claim, but its marks are a pair: what follows it is not quoted.
            short = kind == "quotation" and match[1] is not None and len(match[1]) < 4
            return None if short or not said else Claim(kind, said, *match.span())
        case "path":
            said = said.rstrip(".,;:!?*")
            if not _is_path(said) or not ("." in said or untitled):
                return None
        case "number":
            said = said.rstrip(",_.")
            if said.isdigit() and int(said[:9]) <= _SMALL:
                return None
            kind = "rough" if _ABOUT.search(match.string[max(0, start - 20) : start]) else kind
        case "name" if not untitled:
            return None
        case "url":
            said = said.rstrip(".,;:!?")
        case _:
            pass
    end = start + len(said)
    # A word that is cut is no whole name: it has to begin one.
    return Claim("quotation" if match.string.startswith(_CUT, end) else kind, said, start, end)


def _is_path(path: str) -> bool:
    """Neither a number (`3.11`), nor an abbreviation (`e.g`), nor only signs (`../`)."""
    if _NUMBER.fullmatch(path) or not re.search(r"[A-Za-z0-9]", path):
        return False
    return "/" in path or not all(len(piece) == 1 for piece in path.split("."))


_CUT = ("…", "...")
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


FOREIGN = 0.25
"""A text is about something else where this share of its claims is unsupported. Summaries by Claude Code of
24 real sessions have at most 0.10 of their own session, and at least 0.39 of another one."""
FEW = 12
"""Claims of which no share says anything."""


class Verified(msgspec.Struct, frozen=True):
    text: str
    claims: int = 0
    unverified: tuple[str, ...] = ()
    """Each unsupported text once."""
    wrong: int = 0
    """Unsupported claims."""

    @property
    def foreign(self) -> bool:
        """The text is about something else than the sources."""
        return self.claims >= FEW and self.wrong >= FOREIGN * self.claims


def verify(
    summary: str, sources: Iterable[SummarySource], previous: str = "", *, action: str = "mark"
) -> Verified:
    """The summary with every unsupported claim marked (`mark`) or its sentence taken out (`remove`)."""
    evidence = Evidence([previous, *(searchable(source.message, keys=True) for source in sources)])
    found = claims(summary)
    wrong = [claim for claim in found if not evidence.supports(claim)]
    text = _without(summary, wrong) if action == "remove" else _marked(summary, wrong)
    return Verified(text, len(found), tuple(dict.fromkeys(claim.text for claim in wrong)), len(wrong))


def normal(text: str) -> str:
    return " ".join(text.translate(_QUOTES).split()).lower()


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
        return getattr(self, f"_{claim.kind}")(claim.text)

    def _url(self, text: str) -> bool:
        return self.has(text) or self.has(text.rstrip("/"))

    def _path(self, text: str) -> bool:
        """A path, or words with a stroke between them: `read/write`, `and/or`."""
        words = text.split("/")
        return self._as_path(text) or (
            len(words) <= 4 and all(w.isalpha() and self._known_word(w.lower()) for w in words)
        )

    def _as_path(self, text: str) -> bool:
        return all(self._one_path(path) for path in _expanded(_SUFFIX.sub("", text)))

    def _one_path(self, path: str) -> bool:
        bare = path.removeprefix("./").removeprefix("~/").strip("/")
        while bare.startswith("../"):
            bare = bare[3:]
        if "*" in bare:
            return all(self.has(part) for part in bare.split("*") if len(part) > 2)
        return bool(bare) and self.has_alone(bare, hyphens=True)

    def _code(self, text: str) -> bool:
        pieces = [piece for piece in _ELLIPSIS.split(text) if piece]
        return all(self._piece(piece) for piece in pieces)

    def _piece(self, text: str) -> bool:
        literal = self.has_alone if text[-1:].isalnum() and " " not in text else self.has
        if literal(text) or self._number(text) or self._called(text):
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
        return self.has(text.replace("-", " ")) or all(map(self._known_word, _WORD.findall(text.lower())))

    def _name(self, text: str) -> bool:
        return all(self._known_word(word) for word in text.lower().split())

    def _rough(self, text: str) -> bool:
        """ "About 1 100" holds where the sources name a number near it."""
        if self._number(text):
            return True
        wanted = float(next(_spellings(text), "0") if text.count(".") <= 1 else "0")
        at = bisect_left(self._values, wanted * (1 - _NEAR))
        return at < len(self._values) and self._values[at] <= wanted * (1 + _NEAR)

    def _number(self, text: str) -> bool:
        return any(spelling in self._numbers for spelling in _spellings(text))

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
