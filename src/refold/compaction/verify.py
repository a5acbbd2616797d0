"""Checking a summary against what it summarises (R5): literal grounding, by code.

A claim is what a reader takes literally: what stands in backticks or quotation marks, a line of a shell
block, a name, a number, and every word that is a path, an address or an identifier by its spelling. It holds
where its words occur in the sources (or in the previous summary), one directly after the other: case, white
space and signs between words do not count. This cannot see that a test "passes" which failed."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from refold.compaction.plan import SummarySource
from refold.messages import searchable
from refold.text.patterns import lazy_pattern
from refold.text.sentences import spans

ClaimKind: TypeAlias = Literal["code", "quotation", "word", "number", "name"]


class Claim(NamedTuple):
    kind: ClaimKind
    text: str
    start: int
    end: int


# ── what a summary claims ───────────────────────────────────────────────────────────────────────

_SHELL_BLOCK = re.compile(
    r"^[ \t]*(?:```|~~~)(?:bash|sh|shell|zsh|console)[ \t]*\n((?:(?![ \t]*(?:```|~~~))[^\n]*\n)*)", re.M
)
_SHELL_LINE = re.compile(r"^[ \t]*(?:\$ )?([^\s#](?:[^\n#]|(?<! )#)*)", re.M)
_LITERAL = lazy_pattern(
    r"^[ \t>]*(?:[-*][ \t]+)?(?:\[[ x]\][ \t]+)?\d{1,3}[.)]"  # the number of a list item claims nothing
    r"|`(?P<code>[^`\n]{1,400})`"
    r'|"(?P<quotation>[^"\n]{0,400})"|“(?P<curly>[^”\n]{2,400})”|「(?P<corner>[^」\n]{2,400})」'
    r"|『(?P<double>[^』\n]{2,400})』"
    r"|(?P<name>(?:(?<=[a-z0-9,)'’\u4e00-\u9fff] )[A-Z][a-z]{2,40}(?: [A-Z][a-z]{1,40}){0,3}"
    r"|(?:^|(?<=[.!?:;] )|(?<=- ))[A-Z][a-z]{2,40}(?: [A-Z][a-z]{2,40}){1,3})(?![\w/-]|\.\w))"
    r"|https?://[^\s<>\"'`\])}，。；、）」]{1,2000}"
    r"|(?:[A-Za-z0-9_@+*./~-]|\{[^{}\s]{1,100}\}|(?<=\d),(?=\d))+",
    re.M,
)
_TITLE = lazy_pattern(
    r"^[ \t>]*#{1,6}[ \t][^\n]*$|^[ \t>*+-]*\*\*[^*\n]{1,200}\*\*:?[ \t]*$"
    r"|^[ \t>]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?"
    r"(?:\*\*|__)?[^\n:*`\"]{1,80}(?:\*\*|__)?:(?:\*\*|__)?(?=\s|$)",
    re.M,
)
_NUMBER = re.compile(r"[.,_]?(\d[\d.,_]*)(?:-[\d.,_-]*)?")
"""Of a range or a date the first number is a claim."""
_SPELT_AS_CODE = re.compile(
    r"_|[a-z][A-Z]|\w\.\w\w|\w\w\.\w|^\.\w|://|^(?=.{5})[A-Za-z0-9]*?(?:\d[A-Za-z]|[A-Za-z]\d)"
)
_JOINED = re.compile(r"[A-Za-z0-9][/-][A-Za-z0-9]|\w\w/")
_ELLIPSES = ("…", "...")
_SMALL = 12
"""Numbers up to this are counted, not quoted."""


def claims(text: str) -> list[Claim]:
    """Every literal claim of a text, in order; none lies inside another."""
    # Headings and labels are the writer's own words: they are set in capitals, not after a name.
    titles = bytearray(len(text))
    for title in _TITLE.finditer(text):
        titles[title.start() : title.end()] = b"\1" * (title.end() - title.start())
    listed: list[Claim] = []
    at = 0
    for block in _SHELL_BLOCK.finditer(text):
        listed += _claims_between(text, at, block.start(), titles)
        for line in _SHELL_LINE.finditer(text, *block.span(1)):
            listed.append(Claim("code", line[1].rstrip(), *line.span(1)))
        at = block.end()
    return [*listed, *_claims_between(text, at, len(text), titles)]


def _claims_between(text: str, first: int, last: int, titles: bytearray) -> Iterator[Claim]:
    for match in _LITERAL.finditer(text, first, last):
        kind = match.lastgroup
        in_title = titles.find(1, *match.span()) >= 0
        if kind is None:
            claim = _word(match, in_title=in_title)
        elif kind == "name":
            claim = None if in_title else Claim("name", match[0], *match.span())
        else:
            claim = _marked_text(match, "code" if kind == "code" else "quotation")
        if claim is not None:
            yield claim


def _marked_text(match: re.Match[str], kind: ClaimKind) -> Claim | None:
    """What stands in backticks or quotation marks; in plain marks a short word is no quotation."""
    text = match[match.lastgroup or 0].strip()
    if not re.search(r"\w", text) or (match.lastgroup == "quotation" and len(text) < 4):
        return None
    if number := _NUMBER.fullmatch(text):
        return Claim("number", number[1], *match.span())
    return Claim(kind, text, *match.span())


def _word(match: re.Match[str], *, in_title: bool) -> Claim | None:
    """A word that no language spells so, if it is one: an address, a path, an identifier, a number."""
    text = match[0].rstrip(".,;:!?*-")
    start = match.start() + len(text) - len(text := text.lstrip("*+-@~"))
    if not re.search(r"[A-Za-z0-9]", text):
        return None
    if number := _NUMBER.fullmatch(text):
        text = number[1].rstrip(".,_")
        is_small = text.isdigit() and int(text[:9]) <= _SMALL
        return None if is_small else Claim("number", text, start, start + number.end(1))
    if not _SPELT_AS_CODE.search(text) and (in_title or not _JOINED.search(text)):
        return None
    return Claim("word", text, start, start + len(text))


# ── what the sources say ────────────────────────────────────────────────────────────────────────

_SOURCE_WORD = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*|[^\W\x00-\x7f]")
_THOUSANDS = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_NUMBER_RUN = re.compile(r"\d+(?:\.\d+)*")
_LETTER = re.compile(r"[^\d.]")
_PLACE = re.compile(r"(?::\d+(?:[-:]\d+)?|#l\d+(?:-l?\d+)?)$")
"""A line, behind a path."""
_GAP = re.compile(r"…|\.{3}|&&|[|;*{}]|,(?=[^{}\s]{0,100}\})")
"""Between parts of a claim that need not stand together: words left out, commands in a row, patterns."""
_LEFT_OUT = ("…", "...", "*")
_COMPOSED = re.compile(r"[\w/ -]+")
_CALL = re.compile(r"[\w.$:#>-]{1,200}\(.*\)")


class Evidence:
    """The source texts, as words."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._plain = _plain("\n".join(texts))
        self._text = f" {_in_words(self._plain)} "

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(self._text.split()) | frozenset(self._text.replace("-", " ").split())

    @cached_property
    def _numbers(self) -> frozenset[str]:
        runs = frozenset(_NUMBER_RUN.findall(self._plain))
        return runs.union(*(run.split(".") for run in runs))

    def supports(self, claim: Claim, *, cut: bool = False) -> bool:
        """Do the sources say it? `cut`: the claim goes on, but is not told further."""
        text = _plain(claim.text)
        if claim.kind == "number":
            return all(map(self._is_known, re.split("[,_]", text)))
        cut = cut or any(sign in text for sign in _LEFT_OUT)
        parts = [_in_words(part) for part in _GAP.split(_PLACE.sub("", text))]
        if all((part if cut else f" {part} ") in self._text for part in parts if part):
            return True
        # What a writer puts together of words that are known: names, `read-only`, `Type.method(argument)`.
        composed = _CALL.fullmatch(text) if claim.kind == "code" else _COMPOSED.fullmatch(text)
        if composed is None or claim.kind == "quotation" or cut:
            return False
        return all(map(self._is_known, _in_words(text).replace("-", " ").split()))

    def _is_known(self, word: str) -> bool:
        if word[:1].isdigit() and not _LETTER.search(word):
            return word in self._numbers or (word.isdigit() and int(word[:9]) <= _SMALL)
        return word in self._words or word.removesuffix("s") in self._words or len(word) < 3


def _plain(text: str) -> str:
    return _THOUSANDS.sub("", text.lower())


def _in_words(plain: str) -> str:
    return " ".join(_SOURCE_WORD.findall(plain))


# ── the report ──────────────────────────────────────────────────────────────────────────────────

MARK = " [unverified]"
_LINE = re.compile(r"[^\n]*\n?")
FOREIGN = 0.25
"""A text is about something else where this share of its claims is unsupported. Summaries by Claude Code of
18 real sessions have at most 0.10 of their own session, and at least 0.39 of another one."""
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
    listed = claims(summary)
    wrong = [x for x in listed if not evidence.supports(x, cut=summary.startswith(_ELLIPSES, x.end))]
    text = _without(summary, wrong) if action == "remove" else _marked(summary, wrong)
    return Verified(text, len(listed), tuple(dict.fromkeys(claim.text for claim in wrong)), len(wrong))


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
