"""Cutting text into sentences: English, Chinese, and lines of code or output. Linear in the text."""

from __future__ import annotations

import re

LONGEST = 600
"""A sentence without an end is cut here, at a space where there is one."""

_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？；]+[”’」』）]*|\n+")
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|St|vs|etc|e\.g|i\.e|approx|No|Fig)|\b[A-Z])\.$")
_LETTER = re.compile(r"\w")


def sentences(text: str) -> list[str]:
    """The sentences of `text` in order, stripped, none empty, none longer than `LONGEST`."""
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        piece = text[start : end.end()]
        if end.group() == "." and _ABBREVIATION.search(piece[-8:]):
            continue
        _add(found, piece)
        start = end.end()
    _add(found, text[start:])
    return found


def _add(found: list[str], piece: str) -> None:
    piece = piece.strip()
    while len(piece) > LONGEST:
        space = piece.rfind(" ", LONGEST // 2, LONGEST)
        cut = space if space > 0 else LONGEST
        found.append(piece[:cut].rstrip())
        piece = piece[cut:].lstrip()
    if _LETTER.search(piece):
        found.append(piece)
