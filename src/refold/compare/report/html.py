"""HTML that is safe by construction: every string is escaped unless this module made it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TypeAlias

from refold.text.redact import redact

_GONE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, bidirectional marks, lone surrogates."""
_VOID = frozenset(("meta", "br", "hr", "col", "input"))


class Markup(str):
    """Text that is already HTML. Only `el`, `join` and bundled files make it."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
"""Strings are text and get escaped; `Markup` is unchanged; None is nothing."""


def page_safe(text: str) -> str:
    """Text without characters that are not allowed in a page."""
    return _GONE.sub("�", text.replace("\r\n", "\n"))


def redacted_text(text: str) -> str:
    """Text from outside, also without secrets."""
    return page_safe(redact(text)[0])


def join_markup(children: Iterable[Child]) -> Markup:
    return Markup("".join(_rendered(child) for child in children))


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. `cls` is its class; underscores are hyphens; None and False omit an attribute."""
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join_markup(children)}</{name}>")


def _rendered(child: Child) -> str:
    if child is None or isinstance(child, Markup):
        return child or ""
    if isinstance(child, str):
        return html.escape(redacted_text(child))
    return str(child) if isinstance(child, int) else join_markup(child)


def _attribute(key: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = "class" if key == "cls" else key.replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(redacted_text(shown))}"'
