"""refold under a LangChain agent, which is a LangGraph graph. The state keeps every message; the model gets a
view that fits, and a tool with which it reads what it no longer sees.

    OPENAI_API_KEY=… python examples/langgraph_agent.py

The conversation is a thread: `thread_id` names it for the checkpointer and for refold. For a graph of your
own, its node for the model asks `folding.shown(state["messages"], system=…)` what to send.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from refold.integrations.langchain import RefoldMiddleware


def make_agent(model: Any, *, window: int, store: str) -> Any:
    folding = RefoldMiddleware(window=window, store=store)
    return create_agent(
        model,
        system_prompt="You are a helpful agent.",
        middleware=[folding],
        checkpointer=InMemorySaver(),
    )


def main() -> None:
    agent = make_agent("openai:gpt-5.4", window=272_000, store="sqlite:agent.db")
    thread: Any = {"configurable": {"thread_id": "langgraph"}}
    while text := input("> "):
        state = agent.invoke({"messages": [{"role": "user", "content": text}]}, thread)
        print(state["messages"][-1].content)


if __name__ == "__main__":
    main()
