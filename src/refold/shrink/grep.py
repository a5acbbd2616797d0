"""Grep: the pattern, how many matches in how many files, the first matches with file and line."""

from __future__ import annotations

import re
from typing import Any, cast

from refold.messages import Call
from refold.session.dialects.common import listing
from refold.session.toolnames import PATTERNS, text_argument
from refold.shrink.base import FILES, HITS, Data, Limits, first, flags, rows_of, shortened, top, total

_MATCH = re.compile(r"^([^\s:][^:\n]{0,400}):(\d+)[:-]")


def data(call: Call, data: Data, limits: Limits) -> Data:
    matches = listing(first(data, "matches", "results", "hits", "lines"))
    return {
        "pattern": first(data, "pattern") or text_argument(call, PATTERNS),
        "matches": total(data, HITS, len(matches)),
        "files": total(data, FILES, len({_file(match) for match in matches})),
        "first": [shortened(match, limits) for match in matches[: limits.grep_matches]],
        **flags(data),
    }


def _file(match: Any) -> str:
    if isinstance(match, dict):
        return str(first(cast("Data", match), "file", "path", "filename"))
    return str(match).split(":", 1)[0]


def plain(call: Call, text: str, limits: Limits) -> str:
    rows, count, remark = rows_of(text)
    found = [match for match in map(_MATCH.match, rows) if match]
    matches = [row for row in rows if _MATCH.match(row)] or rows
    more = count > len(rows)  # than are listed: nobody knows in how many files
    count = count if more else len(matches)
    files = f" in {'at least ' * more}{len({match[1] for match in found})} files" if found else ""
    head = f"{text_argument(call, PATTERNS)}: {count} matches{files}"
    return "\n".join([head, *top(matches, limits.grep_matches, limits, count), *remark])
