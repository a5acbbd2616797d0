"""How much a value by itself looks like a secret: generated, chosen by a person, or an ordinary word or name."""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import math
import re
from itertools import pairwise

from refold.text.patterns import lazy_pattern
from refold.text.redaction.names import name_certainty
from refold.text.redaction.secrets import LETTER_PAIRS, PLACEHOLDER, TECHNICAL

LINE_SIZE = 1000
"""Characters of a line that are read before a value."""
HEX = lazy_pattern(r"[0-9a-f]+|[0-9A-F]+")
_HEXES = lazy_pattern(r"[0-9a-f]{10,}(?:[_-][0-9a-f]{10,})*")
_SEGMENT = lazy_pattern(r"[A-Za-z0-9]{8,}")


def is_token_body(value: str, least: int) -> bool:
    size = len(value)
    if size < least:
        return False
    segments = _SEGMENT.findall(value)
    if not segments or min(map(len, value.split("."))) < 16 or value.endswith(("Key", "Token")):
        return False  # names are joined by points, too
    classes = [kind_of_character(char) for char in value]
    digits, upper, lower = (classes.count(kind) for kind in "0Aa")
    if _HEXES.fullmatch(value):
        return size >= 32 and digits >= 0.3 * size and upper + lower >= 4
    if not (upper and lower) and (len(segments[0]) < size or size < (24 if least == 20 else 40)):
        return False  # in one case alone, words and numbers are joined to names
    return (
        digits >= (0 if upper and lower and size >= 30 else 1 if upper and lower else 2)
        and digits <= 0.6 * size
        and class_changes(classes) >= (0.15 if size >= 40 else 0.2 if digits >= 0.05 * size else 0.25) * size
        and entropy(value) >= 3.2
        and not is_identifier(value, 4 if value.isalnum() else 3)
    )


TYPED_PASSWORD = lazy_pattern(
    r"(?=[^\s]{0,40}[a-z])(?=[^\s]{0,40}\d)(?=[\w.-]{1,40}[!#$%^*?~+@&])[A-Za-z\d](?:[\w!#$%^*?~+&.-]|@(?![\w-]+\.)){5,40}"
)
"""Letters, digits and symbols mixed as in a password and nothing else."""
_EXPRESSION = lazy_pattern(
    r"(?:[A-Za-z_]++\d?+|\d++)[*+]{1,2}+[\w*+.-]*+|[\w-]++#(?:\d++|[a-z]++-[\d.]++)|v?\d++(?>(?:\.\d++)+)[*+]|[^%]++%[0-9A-F]{2}[^\s]*+|.{0,20}?a-zA-Z.{0,20}"
)
"""Looks like a password, but is a sum, a reference to an issue, a version, an address or a character
class."""
_NUMBERED_NAME = lazy_pattern(r"[A-Za-z]++\d{1,4}")
_MEMORABLE = lazy_pattern(r"(?=[^\d\s]{0,60}\d)[A-Za-z\d][\w!#$%^*?~+@&-]{5,60}")
_STANDARD = lazy_pattern(
    r"(?i)(?:sha|pbkdf|argon|aes|rsa|utf|tls|ssl|oauth|http|base|scram|md|hmac|[hre]s|ecdsa|iso|cp|latin|x|v|py|python|ipv?|rfc|pep|gh|issue|pr)[\d_#-]"
)
"""Start of names of algorithms, encodings and versions."""
_JOINED = lazy_pattern(
    r"(?=[^\d\s]{1,60}\d)[A-Za-z]{3,20}(?:-[A-Za-z\d]{2,20}){1,5}|\d{2,10}(?:-[A-Za-z\d]{2,20}){1,5}"
)
_CLASS_ENDINGS = ("Key", "Token", "Secret", "Password")
"""Endings of class names, such as Ed25519PrivateKey."""
IDENTIFIER = lazy_pattern(r"(?>(?:[_.]?(?:[A-Z]?[a-z]{2,}+|[A-Z]{2,}+(?![a-z])|[A-Z](?=[A-Z]|\b|_)))+)")
"""An identifier, which is not a secret where code is possible."""
_DOTTED = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_WORD = lazy_pattern(r"[A-Z]?[a-z]{3,}|[A-Z][a-z]{2}|(?<![A-Za-z])[A-Z]{3,}(?![a-z])")
WORD_ALONE = lazy_pattern(r"[a-z]+|[A-Z_]+|[A-Z][a-z]+")
_WORD_AND_NUMBER = lazy_pattern(r"[A-Za-z]{4,}(?:\d{2,}|[_.-]\d{3,})")


def is_chosen(value: str) -> bool:
    """Chosen by people or generated as a password, and unlike identifiers."""
    value = value.rstrip("=")
    if len(value) < 6 or PLACEHOLDER.fullmatch(value) or is_location(value):
        return False
    if value.endswith(_CLASS_ENDINGS):
        return False
    if _DOTTED.fullmatch(value):
        return False
    if _WORD_AND_NUMBER.fullmatch(value) or TYPED_PASSWORD.fullmatch(value):
        return not TECHNICAL.fullmatch(value)
    if value.isalpha():
        return len(value) >= 8 and not (
            value.islower() or value.isupper() or value.istitle() or is_identifier(value)
        )
    return is_mixed(value) and not is_identifier(value) and re.search(r"[()\[\]\\=]", value) is None


def is_generated(value: str) -> bool:
    """Generated, or made up as a password: unlike any identifier or word."""
    if TYPED_PASSWORD.fullmatch(value):
        return _EXPRESSION.fullmatch(value) is None
    if _NUMBERED_NAME.fullmatch(value) and any(map(_is_word, re.findall(r"[A-Z]?[a-z]{4,}", value))):
        return False
    return (
        len(value) >= 8
        and value.isalnum()
        and len({*map(kind_of_character, value)}) == 3
        and is_chosen(value)
    )


def is_memorable(value: str) -> bool:
    """Words with a number and symbols, as people choose them; rare in code and prose."""
    return (
        _MEMORABLE.fullmatch(value) is not None
        and not value.isdigit()
        and not is_common(value)
        and not PLACEHOLDER.fullmatch(value)
        and not _STANDARD.match(value)
        and not _EXPRESSION.fullmatch(value)
        and not (name_certainty(value) and IDENTIFIER.match(value))
        and not HEX.fullmatch(value)
    )


def is_joined(value: str) -> bool:
    """Words and a number joined by hyphens, as people build memorable passwords."""
    return _JOINED.fullmatch(value) is not None and not is_common(value)


def is_common(value: str) -> bool:
    """Common in code and documentation: a word, a name, a call, a version."""
    return (
        WORD_ALONE.fullmatch(value) is not None
        or IDENTIFIER.fullmatch(value) is not None
        or TECHNICAL.fullmatch(value) is not None
        or value.endswith(_CLASS_ENDINGS)
        or re.search(r"[()\[\]\\]", value) is not None
    )


def is_location(value: str) -> bool:
    """A path, an address, an option or a file that holds the value."""
    if value.startswith("/"):
        return not (
            len(value) >= 32 and is_token_body(value[1:].rstrip("=").replace("/", "").replace("+", ""), 24)
        )
    return value.startswith(("./", "http", "--", "@"))


def is_identifier(value: str, least: int = 3) -> bool:
    """An identifier: two fifths of it are words of at least this many letters."""
    words = (word for word in _WORD.findall(value) if len(word) >= least and _is_word(word))
    return 5 * sum(map(len, words)) > 2 * len(value)


def _is_word(letters: str) -> bool:
    """Whether the letters follow each other as in words; a third of random strings do."""
    pairs = len(letters) - 1
    return 5 * sum(letters[n : n + 2].lower() in LETTER_PAIRS for n in range(pairs)) >= 3 * pairs


def is_mixed(value: str) -> bool:
    """Short, but with several kinds of characters that change too often for an identifier."""
    if PLACEHOLDER.fullmatch(value) or is_location(value) or value[0] in "$%{<*":
        return False
    classes = [kind_of_character(char) for char in value]
    if "0" not in classes or not {"a", "A"} & set(classes):
        return _shifting(classes)
    return entropy(value) >= min(2.4, 0.75 * math.log2(len(value))) and class_changes(classes) >= max(
        2, len(value) // 5
    )


def _shifting(classes: list[str]) -> bool:
    """Letters only, with case changing all the time."""
    return {"a", "A"} <= set(classes) and class_changes(classes) >= max(3, len(classes) // 4)


def kind_of_character(char: str) -> str:
    return "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-"


def class_changes(classes: list[str]) -> int:
    """Number of changes between kinds of characters; a capital before lower case does not count."""
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def is_random(value: str) -> bool:
    """Letters and digits mixed as no person would type an identifier: high entropy, no words, no code."""
    if PLACEHOLDER.fullmatch(value) or is_location(value):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not digits:
        return len(value) >= 16 and value.isalnum() and _shifting([kind_of_character(char) for char in value])
    if not letters or digits + letters < 0.7 * len(value):
        return False
    if ("_" in value or "-" in value) and is_identifier(value) and digits * 5 < len(value):
        return False
    if digits < 3 and any(map(_is_word, re.findall(r"[a-z]{8,}|[A-Z]{8,}", value))):
        return False
    if re.fullmatch(r"[A-Za-z_]+[\w.]*(?:\.[A-Za-z_]\w*)+|[a-z_]+\d{0,3}|[A-Z_]+\d{0,3}", value):
        return False
    return entropy(value) >= 3.0 + (0.3 if digits < 2 else 0)


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = [text.count(char) for char in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
