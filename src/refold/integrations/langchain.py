"""LangChain and LangGraph: a middleware for `create_agent`, and `shown` for a graph of one's own.

    folding = RefoldMiddleware(window=272_000, store="sqlite:agent.db")
    agent = create_agent(model, tools=tools, middleware=[folding], checkpointer=checkpointer)
    agent.invoke({"messages": [message]}, {"configurable": {"thread_id": "bug-17"}})

The state of the graph keeps every message, as ever; the model gets a view that fits. Each `thread_id` is a
session of the store. The recall tool comes with the middleware.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from refold.integrations.conversation import (
    AdapterOptions,
    CollectedReply,
    Conversations,
    ModelCall,
    as_said,
    count_prompts,
    rendered_messages,
    send_folded,
    sent_aside,
)
from refold.loop import beside, run
from refold.messages import Usage
from refold.recall import tool as recall_tool
from refold.session.dialects import parse_list, parse_reply

NO_THREAD = "default"
"""The session of calls that name no thread: several users' lists, each on a branch of its own."""
UNNAMED = (
    "Nothing can be read again here: this run names no conversation. (For the application: pass "
    '{"configurable": {"thread_id": "…"}}.)'
)


class RefoldMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps what the model sees inside the window."""

    def __init__(self, *, recall: bool = True, **options: Unpack[AdapterOptions]) -> None:
        super().__init__()
        self.conversations = Conversations(**options)
        self.engine = self.conversations.engine
        self.tools: Sequence[BaseTool] = [self.recall()] if recall else []

    # ── LangChain's agent ───────────────────────────────────────────────────────────────────────

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        turn, response = send_folded(lambda: self._taken(_thread(), request), handler)
        run(_answered(turn, response))
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        turn, response = await sent_aside(lambda: self._taken(_thread(), request), handler)
        await beside(_answered(turn, response))
        return response

    async def _taken(self, thread: str, request: ModelRequest[Any]) -> tuple[ModelCall, ModelRequest[Any]]:
        """The call, and the request that shows its view. `thread` is the caller's: this runs in another."""
        model: str | None = getattr(request.model, "model_name", getattr(request.model, "model", None))
        system = request.system_prompt
        prompt, turn, shown = await self._view(thread, request.messages, system, request.tools, model)
        if prompt != system:
            request = request.override(system_message=SystemMessage(prompt) if prompt else None)
        return turn, request.override(messages=shown)

    # ── a graph of one's own ────────────────────────────────────────────────────────────────────

    def shown(
        self, messages: Sequence[AnyMessage], *, system: str | None = None, tools: Sequence[Any] = ()
    ) -> list[AnyMessage]:
        """What a node should send to its model, the system prompt in front."""
        return run(self._shown(_thread(), messages, system, tools))

    async def ashown(
        self, messages: Sequence[AnyMessage], *, system: str | None = None, tools: Sequence[Any] = ()
    ) -> list[AnyMessage]:
        return await beside(self._shown(_thread(), messages, system, tools))

    async def _shown(
        self, thread: str, messages: Sequence[AnyMessage], system: str | None, tools: Sequence[Any]
    ) -> list[AnyMessage]:
        prompt, _, shown = await self._view(thread, messages, system, tools)
        return [SystemMessage(prompt), *shown] if prompt else shown

    async def _view(
        self,
        thread: str,
        messages: Sequence[AnyMessage],
        system: str | None,
        tools: Sequence[Any],
        model: str | None = None,
    ) -> tuple[str | None, ModelCall, list[AnyMessage]]:
        """The system prompt, the turn, and the messages to send. Prompts at the beginning of the list stay
        there, unless the preset has something to add: then all of them are one."""
        wire = _wire(messages)
        front = count_prompts(wire)
        said = [*([system] if system else []), *(message.text for message in parse_list(wire[:front]))]
        whole = "\n\n".join(said) or None
        conversation = await self.conversations.named(thread)
        turn = await conversation.take(wire, system=whole, tools=[*map(_spec, tools)], model=model)
        given = cast("list[AnyMessage]", convert_to_messages(rendered_messages(turn.view, "openai")))
        shown = as_said(given, messages[front:], lambda message: parse_list(_wire([message])))
        if turn.view.system == whole:
            return system, turn, [*messages[:front], *shown]
        return turn.view.system, turn, shown

    # ── the tool ────────────────────────────────────────────────────────────────────────────────

    def recall(self) -> BaseTool:
        """A tool with which the model reads what it no longer sees."""

        async def answer(thread: str, arguments: dict[str, Any]) -> str:
            if thread == NO_THREAD:
                return UNNAMED
            return await (await self.conversations.named(thread)).recall(arguments)

        def recalled(**arguments: Any) -> str:
            return run(answer(_thread(), arguments))

        async def arecalled(**arguments: Any) -> str:
            return await beside(answer(_thread(), arguments))

        spec = recall_tool.SPEC
        return StructuredTool(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            func=recalled,
            coroutine=arecalled,
        )


async def _answered(turn: ModelCall, response: ModelResponse[Any]) -> None:
    """Structured output brings more than the model said: it comes with the next list."""
    said = response.result
    if len(said) == 1 and isinstance(said[0], AIMessage):
        [wire] = _wire([said[0]])
        counted = said[0].usage_metadata
        usage = Usage(counted["input_tokens"], counted["output_tokens"]) if counted else None
        await turn.answered(CollectedReply(parse_reply(wire)[0], usage, turn.model))


def _spec(tool: Any) -> Any:
    """What a provider runs itself is a dict already."""
    return cast(Any, tool) if isinstance(tool, dict) else convert_to_openai_tool(tool)


def _wire(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    wire: Any = convert_to_openai_messages(list(messages))
    return wire


def _thread() -> str:
    try:
        named = (get_config().get("configurable") or {}).get("thread_id")
    except RuntimeError:  # called outside of a graph
        named = None
    return str(named or NO_THREAD)
