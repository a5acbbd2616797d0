"""Terms: the searchable words of a text.

A text is split into *compounds* (`get_userName`, `src/app/main.py`, `well-known`, `请看`), and each compound
gives one or more terms: its stemmed pieces, the whole, the last parts of a path, bigrams of Chinese, Japanese
and Korean. Entries and questions use the same function.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from refold.text.patterns import lazy_pattern

PIECE_LIMIT = 64
"""Longer pieces are encoded data, not words; they are cut, so that a prefix still finds them."""
COMPOUND_LIMIT = 240
PIECES_LIMIT = 24

_FUNCTION_WORDS = """
    a about am an and any are as at be been being but by can could did do does doing for from get got had
    has have having he her hers him his how i if in into is it its just ll me might my not of on or our ours
    out re s shall she should so some such t than that the their them then there these they this those to too
    us ve was we were what when where which who whom whose why will with would you your yours d m don didn
    doesn isn wasn won im tell please"""
STOP = frozenset(_FUNCTION_WORDS.split())
"""English function words, which carry no content."""

_compound = re.compile(r"\w+(?:[./\\:@#+$-]{1,3}\w+)*")
_piece = re.compile(r"[^\W\d_]+|\d+")
HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
"""The pieces of `camelCase`."""
_separator = re.compile(r"[/\\]+")
UNSPACED = lazy_pattern(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Runs of scripts without spaces between words."""


def count(text: str) -> dict[str, int]:
    """The terms of a text with their counts."""
    found: dict[str, int] = {}
    get = found.get
    for compound in _compound.findall(text):
        for term in terms_of(compound):
            found[term] = get(term, 0) + 1
    return found


def terms(text: str) -> list[str]:
    """The terms of a question, each once, in order."""
    return list(dict.fromkeys(term for c in _compound.findall(text) for term in terms_of(c)))


def spelled(text: str) -> list[str]:
    """The words unchanged except for lower case."""
    return re.findall(r"\w+", text.lower())


def search_words(text: str) -> list[str]:
    """Words for a store's own text search, without function words."""
    return [w for w in dict.fromkeys(spelled(text)) if w not in STOP]


@lru_cache(maxsize=1 << 17)
def terms_of(compound: str) -> tuple[str, ...]:
    low = compound.lower()
    if compound.isascii() and compound.isalpha() and (compound[1:].islower() or len(compound) == 1):
        return () if low in STOP else (stem(low[:PIECE_LIMIT]),)
    if not compound.isascii():
        compound = unicodedata.normalize("NFKC", compound)
        low = compound.lower()
    compound, low = compound[:COMPOUND_LIMIT], low[:COMPOUND_LIMIT]
    pieces = _pieces(compound)
    found = {piece: None for piece in pieces[:PIECES_LIMIT] if piece not in STOP}
    if len(pieces) > 1:
        found.update(dict.fromkeys(_wholes(low)))
    return tuple(found)


def _pieces(compound: str) -> list[str]:
    found: list[str] = []
    for run in _piece.findall(compound):
        if run.isascii() and (run.islower() or run.isupper() or run.isdigit()):
            found.append(stem(run.lower()[:PIECE_LIMIT]))
        elif run.isascii():
            found.extend(stem(part.lower()[:PIECE_LIMIT]) for part in HUMPS.findall(run))
        else:
            found.extend(_foreign(run))
    return found


def _wholes(low: str) -> list[str]:
    """The compound itself, and for a path its last two parts and its name, so that a relative path finds an
    absolute one."""
    if "/" not in low and "\\" not in low:
        return [] if UNSPACED.search(low) else [stem(low)]  # `OpenHands` is also asked for as `openhands`
    parts = [part for part in _separator.split(low) if part]
    return ["/".join(parts), "/".join(parts[-2:]), stem(parts[-1])]


def _foreign(run: str) -> list[str]:
    found: list[str] = []
    rest = 0
    for match in UNSPACED.finditer(run):
        found.extend(_word(run[rest : match.start()]))
        found.extend(bigrams(match.group()))
        rest = match.end()
    found.extend(_word(run[rest:]))
    return found


def _word(run: str) -> list[str]:
    """A word of another alphabet, without accents."""
    if not run:
        return []
    bare = "".join(c for c in unicodedata.normalize("NFKD", run.lower()) if not unicodedata.combining(c))
    return [stem((bare or run.lower())[:PIECE_LIMIT])]


def bigrams(run: str) -> list[str]:
    """Pairs of neighbouring characters; a single character is its own term."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


# ── stemming ────────────────────────────────────────────────────────────────────────────────────

_ENDINGS = (
    "ational", "ization", "fulness", "ousness", "iveness", "ation", "ment", "ness", "ator", "able", "ible",
    "ion", "ful", "ive", "ist", "ity", "ly", "er", "or", "al",
)  # fmt: skip
_VOWELS = frozenset("aeiouy")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A light English stemmer: plural, -ing, -ed, one derivational ending, silent e. It unifies the forms in
    question and answer; results need not be words."""
    if len(word) <= 3 or not word.isascii() or not word.isalpha():
        return word
    word = _without_verb_ending(_singular(word))
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            word = word[: -len(ending)]
            break
    if word.endswith("e") and len(word) > 4:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


def _singular(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + ("y" if len(word) > 4 else "ie")
    if word.endswith(("ss", "us", "is")) or not word.endswith("s"):
        return word
    return word[:-2] if word.endswith("es") and word[-3] in "sxzoh" and len(word) > 4 else word[:-1]


def _without_verb_ending(word: str) -> str:
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) >= 3 and not _VOWELS.isdisjoint(base):
            return base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base
    return word
