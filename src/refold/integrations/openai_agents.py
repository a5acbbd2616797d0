"""The OpenAI Agents SDK: a `Session` of the SDK whose history fits, and a filter for runs that are long.

    session = RefoldSession("bug-17", window=272_000, store="sqlite:agent.db")
    agent = Agent(name="Assistant", tools=[*tools, session.recall()])
    result = await Runner.run(agent, text, session=session, run_config=session.run_config())

The SDK asks a session for its history once, when a run begins; in a run of many tools the filter of
`run_config()` folds between the calls of the model. The items of the SDK are OpenAI's response items, which
refold reads and writes: there is nothing to convert.
"""

from __future__ import annotations

from typing import Any, Unpack, cast

from agents import FunctionTool, RunConfig, SessionSettings, Tool, TResponseInputItem
from agents.run import CallModelData, ModelInputData

from refold.integrations.conversation import (
    AdapterOptions,
    Conversation,
    Conversations,
    as_said,
    call_arguments,
    rendered_messages,
)
from refold.loop import aside
from refold.protocols import ToolSpec
from refold.recall import tool as recall_tool
from refold.session.dialects import parse_list

Items = list[TResponseInputItem]


class RefoldSession:
    """A conversation by its id in a store: the same one for all objects, in one process or several."""

    def __init__(self, session_id: str, **options: Unpack[AdapterOptions]) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = None
        self._conversations = Conversations(**options)
        self.engine = self._conversations.engine
        self._known: Items | None = None
        """What the SDK holds of the conversation: what it got from us, and what it added since."""

    # ── the SDK's protocol ──────────────────────────────────────────────────────────────────────

    @aside
    async def get_items(self, limit: int | None = None) -> Items:
        """What the model should see of the conversation, folded if that is due."""
        shown = await self._shown()
        if limit is None:
            self._known = list(shown)
            return shown
        return shown[-limit:] if limit > 0 else []

    @aside
    async def add_items(self, items: Items) -> None:
        """What the filter has merged already is recognised."""
        known = await self._shown() if self._known is None else self._known
        self._known = [*known, *items]
        await (await self._conversation()).merge(self._known)

    @aside
    async def pop_item(self) -> TResponseInputItem | None:
        """The newest item. The log keeps it, on a branch."""
        shown = await self._shown()
        if not shown:
            return None
        *self._known, newest = shown
        await (await self._conversation()).merge(self._known, exactly=True)
        return newest

    @aside
    async def clear_session(self) -> None:
        """Begin anew. The log keeps what was, on a branch."""
        (await self._conversation()).session.move(None)
        self._known = []

    # ── beyond the protocol ─────────────────────────────────────────────────────────────────────

    def run_config(self, **options: Any) -> RunConfig:
        """The SDK's configuration of a run, with `filter` in it."""
        return RunConfig(call_model_input_filter=self.filter, **options)

    @aside
    async def filter(self, data: CallModelData[Any]) -> ModelInputData:
        """For `RunConfig(call_model_input_filter=…)`: of what the runner would send, what fits."""
        given, system = data.model_data.input, data.model_data.instructions
        tools = [spec for tool in data.agent.tools if (spec := _spec(tool))]
        turn = await (await self._conversation()).take(given, system=system, tools=tools)
        shown = cast(Items, rendered_messages(turn.view, "responses"))
        items = as_said(shown, given, lambda item: parse_list([item]))
        return ModelInputData(input=items, instructions=turn.view.system)

    def recall(self) -> FunctionTool:
        """A tool with which the model reads what it no longer sees."""

        @aside
        async def answer(_: Any, arguments: str) -> str:
            return await (await self._conversation()).recall(call_arguments(arguments))

        spec = recall_tool.SPEC
        schema = dict(spec.parameters)
        return FunctionTool(spec.name, spec.description, schema, answer, strict_json_schema=False)

    async def _conversation(self) -> Conversation:
        return await self._conversations.named(self.session_id)

    async def _shown(self) -> Items:
        return cast(Items, rendered_messages(await (await self._conversation()).view(), "responses"))


def _spec(tool: Tool) -> ToolSpec | None:
    """None for what the provider runs itself."""
    if not isinstance(tool, FunctionTool):
        return None
    return ToolSpec(tool.name, tool.description, tool.params_json_schema)
