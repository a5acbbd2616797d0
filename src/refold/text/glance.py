"""HTML cards for notebooks: a title with rows below."""

from __future__ import annotations

from collections.abc import Sequence

CARD_ROWS = 5
"""Rows shown from each end."""
CARD_WIDTH = 120
"""Characters of a row."""


def card(title: str, rows: Sequence[tuple[str, str]] = ()) -> str:
    """The card, without secrets and with HTML escaped."""
    from html import escape  # with a large table

    from refold.text.redact import redact  # its patterns take time to compile
    from refold.text.truncate import one_line

    shown = list(rows)
    if len(rows) > 2 * CARD_ROWS:
        shown[CARD_ROWS:-CARD_ROWS] = [("…", f"{len(rows) - 2 * CARD_ROWS} more")]
    texts = ((escape(name), escape(one_line(redact(text)[0], CARD_WIDTH))) for name, text in shown)
    cells = "".join(
        f"<tr><th>{name}</th><td style='text-align:left'>{text}</td></tr>" for name, text in texts
    )
    return f"<div><code>{escape(title)}</code><table>{cells}</table></div>"
