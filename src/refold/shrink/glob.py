"""Glob: the pattern, how many hits, the first of them."""

from __future__ import annotations

from refold.messages import Call
from refold.session.dialects.common import listing
from refold.session.toolnames import PATTERNS, text_argument
from refold.shrink.base import FILES, HITS, Data, Limits, first, flags, rows_of, shortened, top, total


def data(call: Call, data: Data, limits: Limits) -> Data:
    hits = listing(first(data, "paths", "files", "matches", "hits", "entries"))
    return {
        "pattern": first(data, "pattern") or text_argument(call, PATTERNS),
        "hits": total(data, (*HITS, *FILES), len(hits)),
        "paths": [shortened(hit, limits) for hit in hits[: limits.glob_hits]],
        **flags(data),
    }


def plain(call: Call, text: str, limits: Limits) -> str:
    rows, count, remark = rows_of(text)
    head = f"{text_argument(call, PATTERNS)}: {count} hits"
    return "\n".join([head, *top(rows, limits.glob_hits, limits, count), *remark])
