"""Frames: text of others, shown as record. What is inside cannot close its frame."""

from __future__ import annotations

import re
from functools import lru_cache

_ATTRIBUTE = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\n": " ", "\r": " "})


def frame(tag: str, text: str, **attributes: str | None) -> str:
    """`text` between `<tag …>` and `</tag>`; tags of that name inside are defused."""
    named = "".join(f' {k}="{v.translate(_ATTRIBUTE)}"' for k, v in attributes.items() if v)
    return f"<{tag}{named}>\n{_tags(tag).sub('&lt;', text)}\n</{tag}>"


@lru_cache(maxsize=32)
def _tags(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<(?=\s*(?:/\s*)?{re.escape(tag)})", re.IGNORECASE)
