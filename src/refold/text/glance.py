"""Values at a glance in a notebook: a title, and rows below it, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

ROWS, WIDTH = 5, 120
"""Rows from either end, and characters of each: a notebook is no log."""


def card(title: str, rows: Sequence[tuple[str, str]] = ()) -> str:
    """Without secrets, and nothing in it is read as HTML."""
    from refold.text.redact import redact  # its patterns take time to compile
    from refold.text.truncate import one_line

    shown = list(rows)
    if len(rows) > 2 * ROWS:
        shown[ROWS:-ROWS] = [("…", f"{len(rows) - 2 * ROWS} more")]
    texts = ((escape(name), escape(one_line(redact(text)[0], WIDTH))) for name, text in shown)
    cells = "".join(
        f"<tr><th>{name}</th><td style='text-align:left'>{text}</td></tr>" for name, text in texts
    )
    return f"<div><code>{escape(title)}</code><table>{cells}</table></div>"
