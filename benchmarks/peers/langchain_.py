"""LangChain: SummarizationMiddleware and trim_messages; langmem's summarize_messages."""

from __future__ import annotations

from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def peers() -> list[Peer]:
    from langchain.agents.middleware import SummarizationMiddleware
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import convert_to_messages, convert_to_openai_messages, trim_messages
    from langchain_core.messages.utils import count_tokens_approximately

    class Stub(FakeListChatModel):
        responses: list[str] = [SUMMARY]

    far = SummarizationMiddleware(model=Stub(), trigger=("tokens", 10**9), keep=("tokens", 20_000))
    near = SummarizationMiddleware(model=Stub(), trigger=("tokens", 1), keep=("tokens", 20_000))

    def load(wire: list[Wire]) -> Any:
        messages = convert_to_messages(wire)
        for number, message in enumerate(messages):
            message.id = f"m{number}"
        return messages

    def middleware(messages: Any, keep: int, tokens: int) -> Any:
        folding = SummarizationMiddleware(model=Stub(), trigger=("tokens", 1), keep=("messages", keep))
        found = folding.before_model({"messages": list(messages)}, None)
        return messages if found is None else found["messages"][1:]

    def trimmed(messages: Any, keep: int, tokens: int) -> Any:
        return trim_messages(messages, max_tokens=tokens, token_counter=count_tokens_approximately)

    def careful(messages: Any, keep: int, tokens: int) -> Any:
        return trim_messages(
            messages,
            max_tokens=tokens,
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )

    found = [
        Peer(
            "LangChain SummarizationMiddleware",
            load,
            middleware,
            convert_to_openai_messages,
            check=lambda messages: far.before_model({"messages": messages}, None),
            plan=near._determine_cutoff_index,
        ),
        Peer(
            "LangChain trim_messages", load, trimmed, convert_to_openai_messages, note="as called by default"
        ),
        Peer(
            "LangChain trim_messages, start_on human",
            load,
            careful,
            convert_to_openai_messages,
            note="with the options its documentation recommends",
        ),
    ]
    return [*found, _langmem(load, Stub, count_tokens_approximately, convert_to_openai_messages)]


def _langmem(load: Any, stub: Any, count: Any, wire: Any) -> Peer:
    from langmem.short_term import summarize_messages

    def fold(messages: Any, keep: int, tokens: int) -> Any:
        total = count(messages)
        return summarize_messages(
            messages,
            running_summary=None,
            model=stub(),
            max_tokens=total,
            max_tokens_before_summary=max(1, total - tokens),
            max_summary_tokens=64,
        ).messages

    def check(messages: Any) -> Any:
        return summarize_messages(messages, running_summary=None, model=stub(), max_tokens=10**9)

    return Peer("langmem summarize_messages", load, fold, wire, check=check)


if __name__ == "__main__":
    main(("langchain", "langchain-core", "langmem"), peers)
