"""haystack: SummarizationCompactor."""

from __future__ import annotations

from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def peers() -> list[Peer]:
    from haystack.dataclasses import ChatMessage
    from haystack.hooks.compaction import SummarizationCompactor
    from haystack.token_counters import ApproximateTokenCounter

    class Stub:
        def run(self, messages: Any, **more: Any) -> dict[str, Any]:
            return {"replies": [ChatMessage.from_assistant(SUMMARY)]}

    def load(wire: list[Wire]) -> Any:
        return [ChatMessage.from_openai_dict_format(message) for message in wire]

    def wire(messages: Any) -> list[Wire]:
        return [message.to_openai_dict_format() for message in messages]

    def fold(messages: Any, keep: int, tokens: int) -> Any:
        folding = SummarizationCompactor(Stub(), approximate_summary_tokens=64, raise_on_failure=True)
        found = folding.compact(messages, target_tokens=tokens, token_counter=ApproximateTokenCounter())
        return messages if found is None else found

    counter, planner = ApproximateTokenCounter(), SummarizationCompactor(Stub())
    return [
        Peer(
            "haystack SummarizationCompactor",
            load,
            fold,
            wire,
            check=lambda messages: counter.count(messages=messages),
            plan=lambda messages: planner._next_summary(
                messages=messages, target_tokens=20_000, token_counter=counter
            ),
        )
    ]


if __name__ == "__main__":
    main(("haystack-ai",), peers)
