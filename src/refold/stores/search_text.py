"""The searchable text of an entry, as words that SQLite's tokenizer can split.

The tokenizer splits at spaces and punctuation. Added here: the parts of `camelCase`, and pairs of characters
for scripts without spaces. Long runs without a space (base64) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from refold.entries import AnyEntry, MessageEntry, Note
from refold.messages import User, searchable
from refold.text.truncate import middle
from refold.text.words import HUMPS, UNSPACED, bigrams

MAX_TEXT = 256 * 1024
"""Maximum number of characters indexed per entry: most from its beginning, the rest from its end."""
MAX_TERMS = 64
MAX_TERM = 200

_BLOB = re.compile(r"(?<![A-Za-z0-9+/=_\-])[A-Za-z0-9+/=_\-]{120,}")
_HUMP = re.compile(r"[A-Z](?:(?<=[a-z0-9][A-Z])|(?<=[A-Z][A-Z])(?=[a-z]))")
_WORD = 48


def of_entry(entry: AnyEntry) -> str:
    """The text to index; empty if there is none."""
    if isinstance(entry, MessageEntry):
        text = searchable(entry.message, keys=True)
    elif isinstance(entry, Note):
        text = searchable(User(entry.content), keys=True)
    else:
        return ""
    return prepared(middle(text, MAX_TEXT, "\n", 3 / 4)) if text else ""


def query(terms: Iterable[str]) -> str:
    """An FTS5 expression that matches any of the terms; empty if there is nothing to search for."""
    words: dict[str, None] = {}
    for term, _ in zip(terms, range(MAX_TERMS), strict=False):
        text = prepared(term[:MAX_TERM], query=True)
        words.update(dict.fromkeys(word for word in text.split() if any(c.isalnum() for c in word)))
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)


def prepared(text: str, *, query: bool = False) -> str:
    """The text with additions for what the tokenizer would miss."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()
    text = text.replace("\0", " ")
    text = _BLOB.sub(" ", text)
    humps = list(_humps(text))
    if not text.isascii():
        text = UNSPACED.sub(lambda run: f" {_grams(run.group(), single=not query)} ", text)
    return f"{text} {' '.join(humps)}" if humps else text


def _humps(text: str) -> Iterable[str]:
    done = 0
    for hump in _HUMP.finditer(text):
        if hump.start() < done:
            continue
        first, done = hump.start(), hump.end()
        lowest = max(0, first - _WORD)
        while first > lowest and _is_ascii_word(text[first - 1]):
            first -= 1
        highest = min(len(text), done + _WORD)
        while done < highest and _is_ascii_word(text[done]):
            done += 1
        yield from HUMPS.findall(text[first:done])


def _is_ascii_word(character: str) -> bool:
    return character.isascii() and character.isalnum()


def _grams(run: str, *, single: bool) -> str:
    """Pairs of neighbours; for indexing also single characters, so that one character can be found."""
    return " ".join([*run, *bigrams(run)] if single and len(run) > 1 else bigrams(run))
