"""What a summary claims, literally: paths, commands, identifiers, numbers, names, URLs and quotations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["url", "path", "code", "quotation", "identifier", "number", "name"]


class Claim(NamedTuple):
    kind: Kind
    text: str
    start: int
    end: int


_URL = re.compile(r"https?://[^\s<>\"'`\])}，。；]+")
_CODE = re.compile(r"`([^`\n]{1,400})`")
_QUOTED = re.compile(r'"([^"\n]{4,400})"|“([^”\n]{2,400})”|「([^」\n]{2,400})」|『([^』\n]{2,400})』')
_PATH = re.compile(
    r"(?<![\w/.~-])(?:~|\.{1,2})?/?(?:[\w@+{},*.-]{1,120}/){1,30}[\w@+{},*.-]{0,120}"
    r"|(?<![\w/.-])[\w@-]{1,80}(?:\.[\w-]{1,40}){0,4}\.[A-Za-z][A-Za-z0-9]{0,9}\b(?!\()"
)
_IDENTIFIER = re.compile(
    r"(?<![\w/.-])(?:[A-Za-z]\w{0,80}_\w{1,80}|[a-z]{1,40}[A-Z]\w{0,80}|(?:[A-Z][a-z0-9]{1,40}){2,6}|"
    r"[A-Za-z]{1,30}(?:-[A-Za-z0-9]{1,30}){1,6}|(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{5,80})(?![\w/])"
)
_NUMBER = re.compile(r"(?<![\w.,/#-])\d[\d,_]{0,30}(?:\.\d{1,12}){0,4}(?![\w/])|(?<=#)\d{2,12}\b")
_NAME = re.compile(r"(?<=[a-z0-9,;:)'’\u4e00-\u9fff] )[A-Z][a-z]{2,40}(?: [A-Z][a-z]{1,40}){0,3}\b")
_ORDINAL = re.compile(r"^[ \t>]*(?:[-*][ \t]+)?(?:\[[ x]\][ \t]+)?(\d{1,3})[.)]", re.M)
_SMALL = 12
"""Numbers up to this are counted, not quoted."""


def claims(text: str) -> list[Claim]:
    """Every literal claim of a text, in order; none lies inside another."""
    taken: list[tuple[int, int]] = [match.span(1) for match in _ORDINAL.finditer(text)]
    found: list[Claim] = []
    for claim in (*_urls(text), *_coded(text), *_quoted(text), *_plain(text)):
        if not any(start < claim.end and claim.start < end for start, end in _near(taken, claim)):
            taken.append((claim.start, claim.end))
            found.append(claim)
    return sorted(found, key=lambda claim: claim.start)


def _near(taken: list[tuple[int, int]], claim: Claim) -> Iterator[tuple[int, int]]:
    return (span for span in taken if span[0] < claim.end)


def _urls(text: str) -> Iterator[Claim]:
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:!?")
        yield Claim("url", url, match.start(), match.start() + len(url))


def _coded(text: str) -> Iterator[Claim]:
    for match in _CODE.finditer(text):
        if match[1].strip():
            yield Claim("code", match[1].strip(), match.start(), match.end())


def _quoted(text: str) -> Iterator[Claim]:
    for match in _QUOTED.finditer(text):
        said = next(group for group in match.groups() if group)
        yield Claim("quotation", said.strip(), match.start(), match.end())


def _plain(text: str) -> Iterator[Claim]:
    for match in _PATH.finditer(text):
        path = match[0].rstrip(".,;:!?")
        if re.search(r"\w", path) and not _NUMBER.fullmatch(path):
            yield Claim("path", path, match.start(), match.start() + len(path))
    for match in _IDENTIFIER.finditer(text):
        yield Claim("identifier", match[0], match.start(), match.end())
    for match in _NUMBER.finditer(text):
        digits = match[0].rstrip(",_.")
        if not (digits.isdigit() and int(digits[:9]) <= _SMALL):
            yield Claim("number", digits, match.start(), match.start() + len(digits))
    for match in _NAME.finditer(text):
        yield Claim("name", match[0], match.start(), match.end())
