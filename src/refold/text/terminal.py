"""Makes outside text safe for a terminal: no cursor movements, colours or direction changes."""

from __future__ import annotations

import re

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """Outside text, safe for a terminal."""
    return _CONTROL.sub("�", text)


def escaped(json: str) -> str:
    """The same JSON, with characters that `clean` would replace escaped."""
    return _CONTROL.sub(lambda found: _json_escape(found[0]), json)


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex(" ", 2)  # JSON counts as UTF-16 does
    return "\\u" + units.replace(" ", "\\u")
