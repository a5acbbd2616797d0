"""A page of HTML without what is not read in it: scripts, styles, drawings, comments. An element a line, so
that a cut falls between two of them; tags and names stay, since the next click may need them."""

from __future__ import annotations

import re

_HEAD = 400
"""Characters at the beginning of a text among which a page says that it is one."""
_LARGEST = 500_000
"""Characters of a page that is looked through; a larger one is cut like any text."""
_PAGE = re.compile(r"<!doctype html|<html[\s>]", re.I)
_UNREAD = re.compile(r"<(?:(script|style|svg|noscript|template)\b|(!--))", re.I)
_JOINT = re.compile(r">[ \t\r\n]*<(?!/)")
_BLANK = re.compile(r"\n[ \t\r\n]*\n")


def page(text: str) -> str | None:
    """The page, or None where the text is none."""
    if len(text) > _LARGEST or not _PAGE.search(text[:_HEAD]):
        return None
    kept, at = list[str](), 0
    while found := _UNREAD.search(text, at):
        kept.append(text[at : found.start()])
        at = _after(text, found.end(), f"</{found[1]}" if found[1] else "-->")
    return _BLANK.sub("\n", _JOINT.sub(">\n<", "".join((*kept, text[at:]))))


def _after(text: str, start: int, end: str) -> int:
    """Where the text goes on behind what ends so; its end where it never does."""
    found = re.compile(re.escape(end), re.I).search(text, start)
    close = text.find(">", found.end() - 1) if found else -1
    return close + 1 if close >= 0 else len(text)
