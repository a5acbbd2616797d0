"""Tokens by their shape: known prefixes, and runs of characters that no person types."""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from refold.text.patterns import lazy_pattern
from refold.text.redaction.secrets import IDS, PREFIXES, TOKEN_SHAPES, SecretFinding
from refold.text.redaction.values import (
    HEX,
    class_changes,
    is_identifier,
    is_mixed,
    is_token_body,
    kind_of_character,
)

_RUN = 18
"""Least length of the unbroken run in a token."""
_UNBROKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.:~-")
_SHAPE = bytes(ord("a") if code in _UNBROKEN else ord(" ") for code in range(256))
_LINES = bytes(code if code == 10 else 10 if code == 13 else _SHAPE[code] for code in range(256))
_LINE_OF_RUN = b"a" * 8 + b"\n"
_WRAP = lazy_pattern(rb"([\w+/=.:~-]{8,300}+)\r?\n[ \t]{0,16}+([\w+/=.~-]{4,300}+)")
_PLAIN = b"abcdefghijklmnopqrstuvwxyz_+/=.:~-"
_KINDS = (*TOKEN_SHAPES, *PREFIXES)
_KNOWN_TOKEN = lazy_pattern(
    r"(?<![A-Za-z0-9])(?:"
    + "|".join(
        (
            *(rf"({shape})(?![A-Za-z0-9])" for shape in TOKEN_SHAPES.values()),
            *(rf"((?:{'|'.join(map(re.escape, row.split()))})[\w+/-]{{10,300}}={{0,2}}(?:\.[\w-]{{20,300}}){{0,2}})" for row in PREFIXES.values()),
        )
    )
    + ")"
)  # fmt: skip
_PIECE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.~-]{18,400}+")
_BASE64 = lazy_pattern(
    r"(?<![A-Za-z0-9+/._-])(?:[A-Za-z][A-Za-z0-9]{1,11}_)?[A-Za-z0-9+][A-Za-z0-9+/]{31,200}+={0,2}(?![\w+/=.-])"
)
_HEAD = lazy_pattern(r"(?=\d{0,15}[A-Za-z])[A-Za-z0-9]{1,16}[_.~-]|(?<=[_.~-])v?\d{1,2}[_.~-]")
_UUID = lazy_pattern(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")
_HASHED = lazy_pattern(r"(?i)(?:sha\d*|md5|hash\w*|digest|integrity|checksum|fingerprint|etag|commit|revision|blob|h1|base64|uuid|certificate[\w-]*|public[\w-]*|image|nonce|boundary|trace\w*|span\w*)[^\w\n]{0,8}[\w ]{0,12}[^\w\n]{0,4}$")  # fmt: skip


def _runs(raw: bytes) -> Iterator[tuple[int, int]]:
    """Long unbroken runs other than plain words: a few per cent of ordinary text, and the only place for
    tokens."""
    shape = raw.translate(_SHAPE) + b" "
    least = b"a" * _RUN
    at = shape.find(least)
    while at >= 0:
        end = shape.find(b" ", at)
        if raw[at:end].translate(None, _PLAIN):
            yield at, end
        at = shape.find(least, end)


def tokens_in(text: str, raw: bytes) -> Iterator[SecretFinding]:
    for start, end in _runs(raw):
        for match in _KNOWN_TOKEN.finditer(text, start, end):
            value = match[0]
            if "EXAMPLE" not in value and len(set(value[-16:])) > 4:
                yield SecretFinding(_KINDS[cast("int", match.lastindex) - 1], match.start(), match.end())
        for piece in _PIECE.finditer(text, start, end):
            if _is_token(piece[0]) and not _names_content(text, start, piece.start(), piece.end()):
                yield SecretFinding("token", piece.start(), piece.start() + len(piece[0].rstrip(".")))
        for piece in _BASE64.finditer(text, start, end):
            if _is_base64(piece[0]) and not _names_content(text, start, piece.start(), piece.end()):
                yield SecretFinding("token", piece.start(), piece.end())


def _is_token(piece: str) -> bool:
    """Whether a run is a token: a prefix, a separator and characters that no person types, or enough of the
    latter without a prefix."""
    if _UUID.search(piece) or "EXAMPLE" in piece:
        return False
    at = 0
    for _ in range(3):
        head = _HEAD.match(piece, at)
        if not head:
            break
        if at == 0 and head[0][:-1].lower() in IDS:
            return False
        at = head.end()
        if is_token_body(piece[at:], 20):
            return True
    return at == 0 and is_token_body(piece, 32) and not HEX.fullmatch(piece)


def _is_base64(value: str) -> bool:
    classes = [kind_of_character(char) for char in value]
    return (
        (value[-1] == "=" or "+" in value or "/" in value)
        and len(value) >= 40
        and {"a", "A", "0"} <= set(classes)
        and class_changes(classes) >= 0.35 * len(value)
        and not is_identifier(value)
    )


def _names_content(text: str, run: int, start: int, end: int) -> bool:
    """Whether this is a hash, a picture or a certificate: derived from content, not secret."""
    if text[start - 1 : start] in ("/", "\\", "@", "#") and "://" not in text[max(0, start - 200) : start]:
        return True
    if (
        text[end : end + 1] in ("/", "+")
        or text[start - 1 : start] == "+"
        or any(_HASHED.search(text, max(0, at - 40), at) for at in {run, start})
    ):
        return True
    line, behind = text.rfind("\n", max(0, start - 400), start) + 1, text.find("\n", end, end + 400)
    if text[line:start].strip(" \t\"'b(+") or (behind >= 0 and text[end:behind].strip(" \t\"'),;+\\r\r")):
        return False
    # A line of many: not a token, but what a file is made of.
    above = text[max(0, line - 30) : max(0, line - 1)].rpartition("\n")[2]
    below = text[behind + 1 : behind + 31].partition("\n")[0].strip(" \t\"'b(") if behind >= 0 else ""
    sides = above.strip(" \t\"'),;+\\"), below
    return any(_BLOB.search(side) and not _KNOWN_TOKEN.match(side) for side in sides)


_BLOB = lazy_pattern(r"^[A-Za-z0-9+/=]{16,}$")


def wrapped_tokens(raw: bytes) -> Iterator[SecretFinding]:
    """Tokens with a known prefix that continue on the next line, indented or not."""
    for wrap in _wraps(raw):
        if not (wrap[2].isalnum() and is_mixed(wrap[2].decode())):
            continue  # what follows is a line of its own
        joined = (wrap[1] + wrap[2]).decode()
        for match in _KNOWN_TOKEN.finditer(joined):
            value = match[0]
            if (
                match.start() < len(wrap[1]) < match.end()
                and "EXAMPLE" not in value
                and len(set(value[-16:])) > 4
            ):
                start, end = wrap.start(1) + match.start(), wrap.start(2) + match.end() - len(wrap[1])
                yield SecretFinding(_KINDS[cast("int", match.lastindex) - 1], start, end)


def _wraps(raw: bytes) -> Iterator[re.Match[bytes]]:
    """A run at the end of a line, with the start of the next."""
    shape = raw.translate(_LINES)
    at = shape.find(_LINE_OF_RUN)
    while at >= 0:
        start = max(shape.rfind(b" ", 0, at), shape.rfind(b"\n", 0, at)) + 1
        wrap = _WRAP.match(raw, start) if raw[start : at + 8].translate(None, _PLAIN) else None
        if wrap:
            yield wrap
        at = shape.find(_LINE_OF_RUN, at + len(_LINE_OF_RUN))
