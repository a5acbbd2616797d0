"""Token costs of pictures, of which only the first bytes are decoded, and of PDF documents."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from math import ceil

from refold.messages import Image

Size = tuple[int, int]

_HEAD = 64 * 1024
"""Base64 characters read: JPEG files may have a preview before the real size."""
PAGE_TOKENS = 4_600
"""Of a page of a PDF: 3,000 for its text, the most that Anthropic's documentation gives, and 1,600 for its
picture."""
_PDF = "JVBERi0"
"""How every PDF begins in base64."""
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_MAX_PACKED = 1_000
_MAX_UNPACKED = 64 * 1024 * 1024
"""Bounds of what is unpacked to see the pages of a PDF: lists of objects, and their bytes."""


def size(image: Image) -> Size | None:
    """Width and height of an inline PNG, JPEG, GIF or WebP; None if unknown."""
    if not image.data:
        return None
    text = image.data[:_HEAD]
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        head = base64.b64decode(text[: len(text) // 4 * 4], validate=False)
    except (binascii.Error, ValueError):
        return None
    found = _png(head) or _gif(head) or _webp(head) or _jpeg(head)
    return found if found and found[0] > 0 and found[1] > 0 else None


def _png(head: bytes) -> Size | None:
    if head[:8] != b"\x89PNG\r\n\x1a\n" or len(head) < 24:
        return None
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def _gif(head: bytes) -> Size | None:
    if head[:4] != b"GIF8" or len(head) < 10:
        return None
    return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")


def _webp(head: bytes) -> Size | None:
    if head[:4] != b"RIFF" or head[8:12] != b"WEBP" or len(head) < 30:
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


def _jpeg(head: bytes) -> Size | None:
    if head[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9]), int.from_bytes(head[at + 5 : at + 7])
        at += 2 + max(2, int.from_bytes(head[at + 2 : at + 4]))
    return None


def openai(image: Image) -> int:
    """85 plus 170 per 512-pixel tile, after scaling to fit 2048 and the shorter side to 768."""
    if document := pdf(image):
        return document
    found = size(image)
    width, height = found or (1024, 1024)
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = ceil(width * scale / 512) * ceil(height * scale / 512)
    return 85 + 170 * max(1, tiles)


def anthropic(image: Image) -> int:
    """Pixels / 750, after scaling the longer side to 1568; at most 1600."""
    if document := pdf(image):
        return document
    found = size(image)
    if found is None:
        return 1600
    width, height = found
    scale = min(1.0, 1568 / max(width, height))
    return min(1600, max(1, ceil(width * scale * height * scale / 750)))


def pdf(image: Image) -> int:
    """`PAGE_TOKENS` for each page of a PDF; 0 if it is none. Where the pages cannot be seen (encrypted,
    damaged) one per byte, as compressed text has no more. Only a page with more text than is documented costs
    more than this."""
    data = (image.data or "").removeprefix("data:application/pdf;base64,")
    if not data.startswith(_PDF):
        return 0
    try:
        pages = _pages(base64.b64decode(data, validate=True))
    except (ValueError, zlib.error):
        pages = 0
    return pages * PAGE_TOKENS or len(data) * 3 // 4


def _pages(document: bytes) -> int:
    """Pages of a PDF, those of earlier revisions included; 0 if not all of its objects can be seen."""
    pages, left = len(_PAGE.findall(document)), _MAX_UNPACKED
    packed = document.split(b"/ObjStm", _MAX_PACKED)[1:]
    for part in packed:
        unpacking = zlib.decompressobj()
        objects = unpacking.decompress(part.partition(b"stream")[2].lstrip(b"\r\n"), left)
        left -= len(objects)
        if left <= 0 or not unpacking.eof:
            return 0
        pages += len(_PAGE.findall(objects))
    return pages if len(packed) < _MAX_PACKED else 0
