"""refold under a LangGraph agent. The graph's state keeps every message; the model gets a view that fits.

    OPENAI_API_KEY=… python examples/langgraph_agent.py

Two ways: a graph of your own, whose node for the model asks `Folding` what to send, and LangChain's own agent
with `Folding` as its middleware. Both convert with LangChain's own functions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

import refold
from refold import Engine, Session, presets
from refold.recall import index_of
from refold.recall import tool as recall_tool


class Folding(AgentMiddleware):
    """What LangGraph has said so far goes in, what the model should see comes out."""

    def __init__(self, engine: Engine, session: Session) -> None:
        super().__init__()
        self.engine = engine
        self.session = session

    async def shown(
        self, messages: Sequence[AnyMessage], system: str | None = None, tools: Sequence[Any] = ()
    ) -> list[AnyMessage]:
        """The system prompt and the messages of the next call."""
        self.session.merge(convert_to_openai_messages(messages))
        view = await self.engine.prepare(self.session, system=system, tools=tools)
        return convert_to_messages(view.to_openai())  # type: ignore[return-value]

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """For `create_agent(…, middleware=[folding])`."""
        tools = [convert_to_openai_tool(tool) for tool in request.tools]
        messages = await self.shown(request.messages, request.system_prompt, tools)
        return await handler(request.override(messages=messages, system_message=None))

    def recall(self) -> BaseTool:
        """A tool with which the model reads what it no longer sees."""

        def answer(**arguments: Any) -> str:
            return recall_tool.answer(index_of(self.session), arguments)

        spec = recall_tool.SPEC
        return StructuredTool(
            name=spec.name, description=spec.description, args_schema=dict(spec.parameters), func=answer
        )


def own_graph(model: BaseChatModel, folding: Folding, tools: Sequence[BaseTool], system: str) -> Any:
    """A graph of your own: the node for the model is one line longer than without refold."""
    able = model.bind_tools(tools)
    specs = [convert_to_openai_tool(tool) for tool in tools]

    async def call_model(state: MessagesState) -> dict[str, Any]:
        messages = await folding.shown(state["messages"], system, specs)
        return {"messages": [await able.ainvoke(messages)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", call_model)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile()


def ready_made(model: BaseChatModel, folding: Folding, tools: Sequence[BaseTool], system: str) -> Any:
    """LangChain's agent, which is a LangGraph graph too."""
    return create_agent(model, tools=list(tools), system_prompt=system, middleware=[folding])


async def main() -> None:
    from langchain_openai import ChatOpenAI

    session = refold.open("sqlite:agent.db", id="langgraph")  # one session for each thread of the graph
    folding = Folding(Engine(presets.get("refold", window=272_000)), session)
    agent = ready_made(ChatOpenAI(model="gpt-5.4"), folding, [folding.recall()], "You are a helpful agent.")
    state: dict[str, Any] = {"messages": []}
    while text := await asyncio.to_thread(input, "> "):
        state = await agent.ainvoke({"messages": [*state["messages"], {"role": "user", "content": text}]})
        print(state["messages"][-1].content)


if __name__ == "__main__":
    asyncio.run(main())
