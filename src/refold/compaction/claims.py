"""What a summary claims, literally: paths, commands, identifiers, numbers, names, URLs and quotations.

Every pattern is bounded and starts only where a word starts, so that the time follows the length of the text
whatever it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["url", "path", "code", "quotation", "identifier", "number", "rough", "name"]


class Claim(NamedTuple):
    kind: Kind
    text: str
    start: int
    end: int


_URL = re.compile(r"https?://[^\s<>\"'`\])}，。；、）」]{1,2000}")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)([^\n`]*)$", re.M)
_CODE = re.compile(r"`([^`\n]{1,400})`")
_QUOTED = re.compile(r'"([^"\n]{0,400})"|“([^”\n]{2,400})”|「([^」\n]{2,400})」|『([^』\n]{2,400})』')
_PATH = re.compile(
    r"(?<![A-Za-z0-9_@+*./~{}-])(?:~|\.{1,2})?/?(?:(?:[A-Za-z0-9_@+*.-]|\{[^{}\s]{1,100}\}){1,120}/){1,30}"
    r"(?:[A-Za-z0-9_@+*.-]|\{[^{}\s]{1,100}\}){0,120}"
    r"|(?<![A-Za-z0-9_@/.-])[A-Za-z0-9_@-]{1,80}(?:\.[A-Za-z0-9_-]{1,40}){0,4}\.[A-Za-z][A-Za-z0-9]{0,9}(?![A-Za-z0-9_(])"
)
_IDENTIFIER = re.compile(
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
_NAME = re.compile(
    r"(?<=[a-z0-9,)'’\u4e00-\u9fff] )[A-Z][a-z]{2,40}(?: [A-Z][a-z]{1,40}){0,3}\b"
    r"|(?:^|(?<=[.!?:;] )|(?<=- ))[A-Z][a-z]{2,40}(?: [A-Z][a-z]{2,40}){1,3}\b",
    re.M,
)
_ORDINAL = re.compile(r"^[ \t>]*(?:[-*][ \t]+)?(?:\[[ x]\][ \t]+)?(\d{1,3})[.)]", re.M)
_HEADING = re.compile(r"^[ \t>]*#{1,6}[ \t][^\n]*$|^[ \t>*+-]*\*\*[^*\n]{1,200}\*\*:?[ \t]*$", re.M)
_LABEL = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(?:\*\*|__)?[^\n:*`\"]{1,80}:(?:\*\*|__)?(?=\s|$)", re.M
)
_SHELLS = frozenset(("bash", "sh", "shell", "zsh", "console"))
_SMALL = 12
"""Numbers up to this are counted, not quoted."""


def claims(text: str) -> list[Claim]:
    """Every literal claim of a text, in order; none lies inside another."""
    taken = _Taken(len(text))
    for match in _ORDINAL.finditer(text):
        taken.put(*match.span(1))
    # Headings and labels are the writer's own words: they are set in capitals, not after anybody's name.
    titles = _Taken(len(text))
    for pattern in (_HEADING, _LABEL):
        for match in pattern.finditer(text):
            titles.put(*match.span())
    found: list[Claim] = []
    for claim in (*_urls(text), *_commands(text), *_coded(text), *_quoted(text), *_plain(text, titles)):
        if taken.free(claim.start, claim.end):
            taken.put(claim.start, claim.end)
            found.append(claim)
    return sorted(found, key=lambda claim: claim.start)


class _Taken:
    """Stretches of a text, as marks on its characters."""

    def __init__(self, length: int) -> None:
        self._marks = bytearray(length)

    def put(self, start: int, end: int) -> None:
        self._marks[start:end] = b"\1" * (end - start)

    def free(self, start: int, end: int) -> bool:
        return self._marks.find(1, start, end) < 0


def _urls(text: str) -> Iterator[Claim]:
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:!?")
        yield Claim("url", url, match.start(), match.start() + len(url))


def _commands(text: str) -> Iterator[Claim]:
    """Lines of fenced blocks that are marked as shell: each is a command. Other blocks are sketches; only
    what is literal inside them is taken."""
    shell, inside, at = False, False, 0
    for match in _FENCE.finditer(text):
        if inside and shell:
            yield from _lines(text, at, match.start())
        inside = not inside
        shell, at = inside and match[1].strip().lower() in _SHELLS, match.end() + 1


def _lines(text: str, start: int, end: int) -> Iterator[Claim]:
    for match in re.finditer(r"[^\n]+", text[start:end]):
        line = match[0].strip().removeprefix("$ ")
        if line and not line.startswith("#"):
            yield Claim("code", line.split(" #")[0].strip(), start + match.start(), start + match.end())


def _coded(text: str) -> Iterator[Claim]:
    for match in _CODE.finditer(text):
        if match[1].strip():
            yield Claim("code", match[1].strip(), match.start(), match.end())


def _quoted(text: str) -> Iterator[Claim]:
    for match in _QUOTED.finditer(text):
        # A short one is no claim, but its marks are a pair: what follows it is not quoted.
        if match[1] is None or len(match[1]) >= 4:
            said = next(group for group in match.groups() if group)
            yield Claim("quotation", said.strip(), match.start(), match.end())


def _plain(text: str, titles: _Taken) -> Iterator[Claim]:
    for match in _PATH.finditer(text):
        path = match[0].rstrip(".,;:!?*")
        if _is_path(path) and ("." in path or titles.free(match.start(), match.end())):
            yield Claim("path", path, match.start(), match.start() + len(path))
    for match in _IDENTIFIER.finditer(text):
        yield Claim("identifier", match[0], match.start(), match.end())
    for match in _NUMBER.finditer(text):
        digits = match[0].rstrip(",_.")
        if not (digits.isdigit() and int(digits[:9]) <= _SMALL):
            kind: Kind = (
                "rough" if _ABOUT.search(text[max(0, match.start() - 20) : match.start()]) else "number"
            )
            yield Claim(kind, digits, match.start(), match.start() + len(digits))
    for match in _NAME.finditer(text):
        if titles.free(match.start(), match.end()):
            yield Claim("name", match[0], match.start(), match.end())


def _is_path(path: str) -> bool:
    """Neither a number (`3.11`), nor an abbreviation (`e.g`), nor only signs (`../`)."""
    if _NUMBER.fullmatch(path) or not re.search(r"[A-Za-z0-9]", path):
        return False
    return "/" in path or not all(len(piece) == 1 for piece in path.split("."))
