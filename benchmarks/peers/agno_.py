"""agno: Compaction."""

from __future__ import annotations

import sys
from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def _vocabulary() -> str:
    """agno counts with tiktoken, which downloads its vocabulary. Where it cannot, agno is measured as it runs
    without tiktoken, on its own estimate; otherwise every call would end in a connection error."""
    try:
        import tiktoken

        tiktoken.get_encoding("o200k_base")
    except Exception:
        sys.modules["tiktoken"] = None  # type: ignore[assignment]
        return "offline, so on its own estimate (4 characters a token) instead of tiktoken"
    return "counting with tiktoken"


def peers() -> list[Peer]:
    note = _vocabulary()
    from agno.compaction import Compaction
    from agno.models.message import Message

    class Stub(Compaction):
        def _summarize(self, *args: Any, **more: Any) -> str:
            return SUMMARY

    def load(wire: list[Wire]) -> Any:
        return [Message(**message) for message in wire]

    def fold(messages: Any, keep: int, tokens: int) -> Any:
        folding = Stub(
            uncompacted_tokens=tokens, compact_at_tokens=3 * tokens, store_compacted_messages=False
        )
        record = folding.compact(messages, session_id="bench")
        return messages if record is None else folding.apply_record(messages, record)

    def wire(messages: Any) -> list[Wire]:
        return [
            {"role": m.role, "content": m.content, "tool_calls": m.tool_calls, "tool_call_id": m.tool_call_id}
            for m in messages
        ]

    waiting, planning = (
        Compaction(compact_at_tokens=10**9),
        Compaction(uncompacted_tokens=20_000, compact_at_tokens=60_000),
    )
    return [
        Peer("agno Compaction", load, fold, wire, check=waiting.should_compact, plan=planning.plan, note=note)
    ]


if __name__ == "__main__":
    main(("agno",), peers)
