"""Recall: search everything that was said in a session (R1).

hits = recall.recall(session, "why did we drop the cache?", limit=5)
index = recall.index_of(session); recall.search(index, keys=["k3f9a2c"])
recall.tool.tool_answer(index, {"turn_numbers": [3, 4]}, budget=4000)
"""

from __future__ import annotations

from refold.recall.index import Doc, Index
from refold.recall.logs import Found, LogIndex, SearchedLog, index_of, recall, search_logs
from refold.recall.query import Conditions, Hit, search, within_budget

__all__ = [
    "Conditions", "Doc", "Found", "Hit", "Index", "LogIndex", "SearchedLog", "index_of", "recall", "search",
    "search_logs", "within_budget",
]  # fmt: skip
