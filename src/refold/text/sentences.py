"""Splits text into sentences (English, Chinese, lines of code or output) and finds the speaker, in linear
time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.text.patterns import lazy_pattern

MAX_SENTENCE_CHARS = 600
"""A sentence without an end is cut here, at a space if possible."""

# A run of marks is looked at once, from its first one, and never shortened again.
_END = lazy_pattern(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s|$)|[。！？；]++[”’」』）]*+|\n++|(?<=[\u4e00-\u9fff])[!?]"
)
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|St|vs|etc|e\.g|i\.e|cf|approx|No|Fig|[A-Z])\.$")
_INSIDE = ("..", "…", '"', "'", "”", "’", ")", "]")
"""A mark with one of these at its end may stand inside a sentence, which goes on in small letters."""
_LETTER = re.compile(r"\w")
_SPEAKER = lazy_pattern(r"\s*+([^\W\d_][\w.'’-]{0,30}+(?: [^\W\d_][\w.'’-]{0,30}+){0,2})[:：]\s(?=\S)")


def split_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, stripped, none empty or longer than `MAX_SENTENCE_CHARS`."""
    found: list[str] = []
    for start, end in spans(text):
        piece, at = text[start:end].strip(), 0
        while len(piece) - at > MAX_SENTENCE_CHARS:
            space = piece.rfind(" ", at + MAX_SENTENCE_CHARS // 2, at + MAX_SENTENCE_CHARS)
            cut = space if space > 0 else at + MAX_SENTENCE_CHARS
            found.append(piece[at:cut].rstrip())
            at = cut
            while piece[at].isspace():
                at += 1
        if _LETTER.search(piece, at):
            found.append(piece[at:])
    return found


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; together they are the whole text."""
    start = 0
    for mark in _END.finditer(text):
        end = mark.end()
        if mark[0] == "." and _ABBREVIATION.search(text, max(start, end - 8), end):
            continue
        if mark[0].endswith(_INSIDE) and text[end : end + 1] == " " and text[end + 1 : end + 2].islower():
            continue
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def speaker_of(text: str, start: int = 0) -> tuple[str, int]:
    """The name at the start of a message, as in `Maria: hello`, and where the text continues; empty if there
    is none. A single message proves nothing (`Note: …`); callers compare several."""
    named = _SPEAKER.match(text, start)
    return (named[1], named.end()) if named else ("", start)
