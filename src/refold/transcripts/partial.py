"""The value of JSON text that was cut off somewhere: what is complete, with everything open closed."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{},:]', re.DOTALL)
_DEEPEST = 200
_CLOSERS = {"{": "}", "[": "]"}


def partial_json(text: str) -> Any:
    """The JSON value at the start of `text`, as far as it goes. `ValueError` where there is none."""
    text = text.lstrip()
    if text[:1] not in _CLOSERS:
        raise ValueError("not a JSON object or list")
    cut, closers = _last_safe(text)
    try:
        return json.loads(text[:cut] + closers)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _last_safe(text: str) -> tuple[int, str]:
    """Where the text may be cut, and what closes it there: before the last comma, or after the last closer
    or opener, whichever comes last."""
    stack: list[str] = []
    cut, closers = 0, ""
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _CLOSERS:
            stack.append(_CLOSERS[mark])
            if len(stack) > _DEEPEST:
                raise ValueError("nested too deeply")
            cut, closers = token.end(), "".join(reversed(stack))
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                raise ValueError("brackets do not match")
            cut, closers = token.end(), "".join(reversed(stack))
            if not stack:
                break
        elif mark == ",":
            cut, closers = token.start(), "".join(reversed(stack))
    return cut, closers
