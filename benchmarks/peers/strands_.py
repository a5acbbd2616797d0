"""Strands: SummarizingConversationManager and SlidingWindowConversationManager."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def load(wire: list[Wire]) -> Any:
    """Converse messages: results are blocks of user messages, neighbours of one role are one message."""
    made: list[Wire] = []
    for message in wire:
        role, blocks = _blocks(message)
        if made and made[-1]["role"] == role:
            made[-1]["content"].extend(blocks)
        else:
            made.append({"role": role, "content": blocks})
    return made


def _blocks(message: Wire) -> tuple[str, list[Wire]]:
    if message["role"] == "tool":
        result = {
            "toolUseId": message["tool_call_id"],
            "status": "success",
            "content": [{"text": message["content"]}],
        }
        return "user", [{"toolResult": result}]
    blocks = [{"text": message["content"]}] if message.get("content") else []
    for call in message.get("tool_calls", ()):
        use = {
            "toolUseId": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        blocks.append({"toolUse": use})
    return message["role"], blocks or [{"text": "-"}]


def wire(messages: Any) -> list[Wire]:
    made: list[Wire] = []
    for message in messages:
        calls = [b["toolUse"] for b in message["content"] if "toolUse" in b]
        results = [block["toolResult"] for block in message["content"] if "toolResult" in block]
        made += [{"role": "tool", "tool_call_id": one["toolUseId"], "content": ""} for one in results]
        texts = [b["text"] for b in message["content"] if "text" in b]
        if texts or calls:
            made.append(
                {
                    "role": message["role"],
                    "content": " ".join(texts),
                    "tool_calls": [{"id": c["toolUseId"]} for c in calls],
                }
            )
    return made


def peers() -> list[Peer]:
    from strands.agent.conversation_manager import (
        SlidingWindowConversationManager,
        SummarizingConversationManager,
    )

    class Stub(SummarizingConversationManager):
        def _generate_summary(self, messages: Any, agent: Any) -> Any:
            return {"role": "user", "content": [{"text": SUMMARY}]}

    def summarising(messages: Any, keep: int, tokens: int) -> Any:
        agent = SimpleNamespace(messages=list(messages))
        Stub(summary_ratio=0.8, preserve_recent_messages=min(keep, 10)).reduce_context(
            agent, RuntimeError("overflow")
        )
        return agent.messages

    def sliding(messages: Any, keep: int, tokens: int) -> Any:
        agent = SimpleNamespace(messages=list(messages))
        SlidingWindowConversationManager(window_size=keep).apply_management(agent)
        return agent.messages

    wide = SlidingWindowConversationManager(window_size=10**9)
    return [
        Peer(
            "strands SummarizingConversationManager",
            load,
            summarising,
            wire,
            note="folds on overflow; no check of its own",
        ),
        Peer(
            "strands SlidingWindowConversationManager",
            load,
            sliding,
            wire,
            check=lambda messages: wide.apply_management(SimpleNamespace(messages=messages)),
            note="drops messages, no summary; counts messages",
        ),
    ]


if __name__ == "__main__":
    main(("strands-agents",), peers)
