"""Cuts text to a size, at whole characters as a reader sees them, and never inside a secret.

Half a secret is still sensitive, and redaction no longer recognises it, so a secret is kept whole, for
redaction to find, or removed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_JOINER = "\u200d"
_REACH = 32
"""Distance within which a cut looks for a character boundary; longer clusters are hostile and may be cut."""
_BEFORE = 400
"""Characters before a cut, on its line, that are searched for a secret."""
_BEHIND = 1_200
"""Characters after a cut, on its line, that are searched for a secret."""
_LOOKED_AT = 4_000
_WORD_SIZE = 24
"""Characters that may be lost for a line to end with a whole word."""
_ODD = re.compile(r"[0-9]|[a-z][A-Z]")
"""Occurs in every secret and in few words."""


def boundary(text: str, index: int) -> int:
    """The last place at or before `index` that does not split a character."""
    if index <= 0 or index >= len(text):
        return max(0, min(index, len(text)))
    lowest = max(0, index - _REACH)
    while index > lowest and _continues(text, index):
        index -= 1
    return index


def head(text: str, limit: int) -> str:
    """At most `limit` characters from the start."""
    return text if len(text) <= limit else text[: _before_secret(text, boundary(text, limit))]


def tail(text: str, limit: int) -> str:
    """At most `limit` characters from the end."""
    if len(text) <= limit:
        return text
    return text[_behind_secret(text, _next_boundary(text, len(text) - max(limit, 0))) :]


def head_words(text: str, limit: int) -> str:
    """`head` that ends with a whole word where one ends near."""
    return head(text, _between_words(text, limit, -1, limit))


def tail_words(text: str, limit: int) -> str:
    """`tail` that begins with a whole word where one begins near."""
    return tail(text, len(text) - _between_words(text, max(len(text) - limit, 0), 1, limit))


def _between_words(text: str, at: int, step: int, size: int) -> int:
    """The place, or the nearest one in this direction that splits no word, if at most a quarter of the `size`
    is lost."""
    for place in range(at, at + step * min(_WORD_SIZE, size // 4), step):
        if not (text[max(place - 1, 0) : place].isalnum() and text[place : place + 1].isalnum()):
            return place
    return at


def _next_boundary(text: str, index: int) -> int:
    """The first place at or after `index` that does not split a character."""
    if index <= 0:
        return 0
    stop = min(len(text), index + _REACH)
    while index < stop and _continues(text, index):
        index += 1
    return index


def _before_secret(text: str, at: int) -> int:
    """The place, or the start of the first secret on its line that a cut there would make unrecognisable."""
    if not 0 < at < len(text) or text[at - 1].isspace() or text[at] == "\n":
        return at
    start, line = _line(text, at)
    cut = at - start
    around = line[:cut].rsplit(None, 1)[-1] + line[cut:].partition(" ")[0]
    found = _secrets(line) if _is_odd(around) else set[tuple[int, int]]()
    known = _secrets(line[:cut]) if found else found
    return start + min((begin for begin, _ in found - known if begin < cut), default=cut)


def _behind_secret(text: str, at: int) -> int:
    """The place, or the end of the last secret on its line that a cut there would make unrecognisable."""
    if not 0 < at < len(text) or text[at - 1] == "\n":
        return at
    start, line = _line(text, at)
    cut = at - start
    words = (line[max(line.rfind(" ", 0, cut), 0) :]).split()
    found = _secrets(line) if any(map(_is_odd, words)) else set[tuple[int, int]]()
    known = {(begin + cut, end + cut) for begin, end in _secrets(line[cut:])} if found else found
    return start + max((end for _, end in found - known if end > cut), default=cut)


def _is_odd(word: str) -> bool:
    return len(word) >= 8 and _ODD.search(word) is not None


def _line(text: str, at: int) -> tuple[int, str]:
    """The line around a place, limited in length, and where it starts."""
    start = max(text.rfind("\n", 0, at) + 1, at - _BEFORE)
    end = text.find("\n", at, at + _BEHIND)
    return start, text[start : at + _BEHIND if end < 0 else end]


def _secrets(line: str) -> set[tuple[int, int]]:
    from refold.text.redact import redact  # its table is not needed to start with

    return {(finding.start, finding.end) for finding in redact(line)[1]}


def middle(text: str, limit: int, marker: str = "…[{cut} characters cut]…", start: float = 1 / 2) -> str:
    """Start and end of a text within `limit` characters, marker included. `{cut}` is the number omitted;
    `start` is the share kept from the start."""
    if len(text) <= limit:
        return text
    # The number's width depends on what is cut: reserve the widest it can get.
    room = limit - len(marker.format(cut=len(text)))
    if room <= 0:
        return head(text, limit)
    end = int(room * (1 - start))
    first, last = head_words(text, room - end), tail_words(text, end)
    return first + marker.format(cut=len(text) - len(first) - len(last)) + last


def level(sizes: Sequence[int], total: int) -> int:
    """The largest size to which all can be cut for a sum of at most `total`: long ones are cut first."""
    left = total
    for done, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - done)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def one_line(text: str, limit: int) -> str:
    """White space runs become one space; cut at the end with an ellipsis, between words if one ends near."""
    line = " ".join(head(text.lstrip(), limit * 8).split())
    if len(line) <= limit:
        return line
    cut = head(line, limit - 1)
    space = cut.rfind(" ", max(len(cut) - _WORD_SIZE, len(cut) * 2 // 3)) if line[len(cut)] != " " else -1
    return f"{cut[:space]} …" if space > 0 else f"{cut}…"


def in_short(text: str, limit: int) -> str:
    """A text in one line of at most `limit` characters; secrets are removed before cutting."""
    from refold.text.redact import redact

    line = one_line(text, _LOOKED_AT)
    return line if len(line) <= limit else one_line(redact(line)[0], limit)


def text_window(text: str, start: int, size: int, reach: int = 24) -> str:
    """About `size` characters from `start`, cut between words if possible; an ellipsis marks omissions."""
    end = min(len(text), start + size)
    if start:
        gap = text.find(" ", start, start + reach)
        start = _behind_secret(text, gap + 1 if gap >= 0 else boundary(text, start))
    if end < len(text):
        gap = text.rfind(" ", max(start, end - reach), end)
        end = max(start, _before_secret(text, gap if gap > start else boundary(text, end)))
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _continues(text: str, index: int) -> bool:
    """Whether the character at `index` belongs to the one before it."""
    char, before = text[index], text[index - 1]
    if char < "\u0300":
        return before == _JOINER or (char == "\n" and before == "\r")
    code = ord(char)
    if 0xDC00 <= code <= 0xDFFF:
        return 0xD800 <= ord(before) <= 0xDBFF
    if before == _JOINER or char == _JOINER:
        return True
    if 0x1F1E6 <= code <= 0x1F1FF:
        return _flags_before(text, index) % 2 == 1
    return (
        0xFE00 <= code <= 0xFE0F
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
        or unicodedata.category(char) in ("Mn", "Mc", "Me")
    )


def _flags_before(text: str, index: int) -> int:
    count = 0
    while index - count > 0 and count < 10_000 and 0x1F1E6 <= ord(text[index - count - 1]) <= 0x1F1FF:
        count += 1
    return count
