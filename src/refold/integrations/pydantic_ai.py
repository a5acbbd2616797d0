"""pydantic-ai: a capability that shows the model what fits; or a history processor.

    refolding = Refolding(window=272_000, store="sqlite:agent.db")
    agent = Agent(model, capabilities=[refolding])
    history = await refolding.history("bug-17")  # what was said so far, in whatever process
    result = await agent.run(text, message_history=history, conversation_id="bug-17")

The history of the run keeps every message, as ever; only what is sent is folded. Each conversation id of
pydantic-ai is a session of the store. The recall tool comes with the capability.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

from pydantic_ai import RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import AbstractModel, ModelRequestContext
from pydantic_ai.toolsets import FunctionToolset

from refold import messages as m
from refold.integrations.conversation import AdapterOptions, CollectedReply, Conversations, ModelCall, as_said
from refold.loop import aside, beside
from refold.protocols import ToolSpec
from refold.recall import tool as recall_tool
from refold.session import View
from refold.session.invariants import repair

NO_ID = "default"
"""The session of runs without a conversation id."""


class Refolding(AbstractCapability[Any]):
    """Keeps what the model sees inside the window."""

    def __init__(self, *, recall: bool = True, **options: Unpack[AdapterOptions]) -> None:
        self.conversations = Conversations(**options)
        self.engine = self.conversations.engine
        self._recall = recall
        self._turn: ModelCall | None = None
        """Of the request that is under way, in the capability of one run."""

    @aside
    async def history(self, conversation_id: str) -> list[ModelMessage]:
        """What the model sees of a conversation so far, to go on from."""
        return _given(await (await self.conversations.named(conversation_id)).view(), None)

    async def process(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        """The history processor, for `ProcessHistory(refolding.process)`: the folded history is what the run
        keeps. Instead of the capability, not beside it."""
        newest = messages[-1] if messages else None
        system = newest.instructions if isinstance(newest, ModelRequest) else None
        _, shown = await beside(self._taken(_id(ctx), messages, system, (), ctx.model))
        return shown

    async def _taken(
        self,
        id: str,
        messages: Sequence[ModelMessage],
        system: str | None,
        tools: Sequence[ToolSpec],
        model: AbstractModel,
    ) -> tuple[ModelCall, list[ModelMessage]]:
        """What is to be sent. System prompts within the messages stay in front of them."""
        conversation = await self.conversations.named(id)
        prompts = [part for each in messages for part in each.parts if isinstance(part, SystemPromptPart)]
        whole = "\n\n".join([*([system] if system else []), *(part.content for part in prompts)]) or None
        turn = await conversation.take(_parsed(messages), system=whole, tools=tools, model=model.model_name)
        if rules := (turn.view.system or "").replace(whole or "", "").strip():  # what the preset adds
            prompts.append(SystemPromptPart(rules))
        given = _given(turn.view, system, model.system)
        shown = as_said(given, messages, lambda message: _parsed([message]))
        kept = [part for each in shown for part in each.parts if isinstance(part, SystemPromptPart)]
        missing = [part for part in prompts if part not in kept]
        return turn, [ModelRequest(missing, instructions=system), *shown] if missing else shown

    # ── what pydantic-ai calls ──────────────────────────────────────────────────────────────────

    async def for_run(self, ctx: RunContext[Any]) -> Refolding:  # noqa: ARG002
        run = copy.copy(self)
        run._turn = None
        return run

    def get_toolset(self) -> FunctionToolset[Any] | None:
        """A tool with which the model reads what it no longer sees."""
        if not self._recall:
            return None

        @aside
        async def recalled(ctx: RunContext[Any], **arguments: Any) -> str:
            return await (await self.conversations.named(_id(ctx))).recall(arguments)

        spec = recall_tool.SPEC
        schema = dict(spec.parameters)
        return FunctionToolset(
            [Tool.from_schema(recalled, spec.name, spec.description, schema, takes_ctx=True)]
        )

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        asked = request_context.model_request_parameters
        parts = asked.instruction_parts or []
        system = "\n\n".join(part.content for part in parts) or None
        tools = [
            ToolSpec(tool.name, tool.description or "", tool.parameters_json_schema)
            for tool in (*asked.function_tools, *asked.output_tools)
        ]
        self._turn, shown = await beside(
            self._taken(_id(ctx), request_context.messages, system, tools, request_context.model)
        )
        return replace(request_context, messages=shown)

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        if self._turn is not None:
            await beside(self._turn.answered(_reply(response)))
        return response

    async def on_model_request_error(
        self,
        ctx: RunContext[Any],  # noqa: ARG002
        *,
        request_context: ModelRequestContext,
        error: Exception,
    ) -> ModelResponse:
        """A context that was too long is folded, and the request made once more."""
        refused = self._turn is not None and await beside(self._turn.refused(error))
        if refused and request_context.attempt == 1:
            raise RetryModelRequest from error
        raise error


def _id(ctx: RunContext[Any]) -> str:
    return ctx.conversation_id or NO_ID


# ── pydantic-ai's messages as ours ──────────────────────────────────────────────────────────────


def _parsed(messages: Sequence[ModelMessage]) -> list[m.Message]:
    return [ours for message in messages for ours in _each(message)]


def _each(message: ModelMessage) -> Iterator[m.Message]:
    if isinstance(message, ModelResponse):
        yield m.Assistant(tuple(_said(message)))
        return
    for part in message.parts:
        match part:
            case UserPromptPart():
                yield m.user(list(_asked(part)))
            case ToolReturnPart():
                failed = part.outcome != "success"
                text = part.model_response_str()
                yield m.result(part.tool_call_id, text, name=part.tool_name, is_error=failed)
            case RetryFeedbackPart():
                yield m.user(part.model_response())
            case _:
                pass


def _asked(part: UserPromptPart) -> Iterator[m.AnyPart]:
    for content in [part.content] if isinstance(part.content, str) else part.content:
        match content:
            case str():
                yield m.Text(content)
            case ImageUrl():
                yield m.Image(content.media_type, url=content.url)
            case BinaryContent(is_image=True):
                yield m.Image(content.media_type, data=content.base64)
            case _:
                pass  # sent as it is while it is new; in a fold there is no room for it


def _said(response: ModelResponse) -> Iterator[m.AnyPart]:
    for part in response.parts:
        match part:
            case TextPart(content=text):
                yield m.Text(text)
            case ThinkingPart(content=text):
                yield m.Thinking(text, part.signature, id=part.id)
            case ToolCallPart():
                yield m.call(part.tool_call_id, part.tool_name, part.args_as_dict())
            case _:
                pass


def _reply(response: ModelResponse) -> CollectedReply:
    used = response.usage
    cached = used.cache_read_tokens, used.cache_write_tokens
    usage = m.Usage(used.input_tokens - sum(cached), used.output_tokens, *cached)
    return CollectedReply(
        m.Assistant(tuple(_said(response))), usage if used.input_tokens else None, response.model_name
    )


# ── ours as pydantic-ai's ───────────────────────────────────────────────────────────────────────


def _given(view: View, instructions: str | None, provider: str | None = None) -> list[ModelMessage]:
    """pydantic-ai joins neighbouring requests itself."""
    shown: list[ModelMessage] = []
    for item in repair(view.items):
        match item.message:
            case m.Assistant() as message:
                parts = [part for each in message.content for part in _shown(each, provider)]
                shown.append(ModelResponse(parts))
            case m.Result() as message:
                returned = ToolReturnPart(message.name or "tool", message.text, message.call_id)
                shown.append(ModelRequest([returned], instructions=instructions))
            case message:
                prompt = UserPromptPart([*map(_content, message.parts)])
                shown.append(ModelRequest([prompt], instructions=instructions))
    return shown


def _content(part: Any) -> Any:
    match part:
        case m.Image(url=str(url)):
            return ImageUrl(url)
        case m.Image(data=str(data)):
            return BinaryContent(base64.b64decode(data), media_type=part.media_type)
        case m.Text(text=text):
            return text
        case _:
            return str(part)


def _shown(part: m.AnyPart, provider: str | None) -> Iterator[Any]:
    match part:
        case m.Text(text=text):
            yield TextPart(text)
        case m.Thinking(text=text):
            yield ThinkingPart(text, id=part.id, signature=part.signature, provider_name=provider)
        case m.Call():
            yield ToolCallPart(part.name, part.arguments, part.id)
        case _:
            pass


__all__ = ["Refolding"]
