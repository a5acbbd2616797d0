"""OpenAI's client: `chat.completions` and `responses`, plain or streamed, sync or async.

    client = refold.wrap(AsyncOpenAI(), window=272_000, store="sqlite:agent.db", session="bug-17")
    messages = history(client)  # what was said so far, in whatever process
    reply = await client.chat.completions.create(model=MODEL, messages=messages, tools=[*TOOLS, RECALL])

The caller keeps handing over the whole list. `openai` itself is never imported here.
"""

from __future__ import annotations

from typing import Any

from refold.integrations.clients import CallArguments, Endpoint, RequestBody
from refold.integrations.conversation import (
    Conversation,
    as_said,
    call_arguments,
    count_prompts,
    rendered_messages,
)
from refold.loop import run
from refold.models.openai_streams import ChatStream, ResponsesStream
from refold.recall import tool as recall_tool
from refold.session import View
from refold.session.dialects import get, parse_list
from refold.session.dialects.common import as_dict, to_list

RECALL = recall_tool.for_openai()
"""The recall tool, for the `tools` of a chat completion."""
RECALL_RESPONSES = recall_tool.for_responses()
"""The recall tool, for the `tools` of a response."""


def recalled(conversation: Conversation, call: Any) -> RequestBody | None:
    """The answer to a call of the recall tool, to be appended to the list; None for any other tool. Takes a
    tool call of a chat completion or a `function_call` of a response."""
    raw = as_dict(call)
    function = raw.get("function") or raw
    if function.get("name") != recall_tool.NAME:
        return None
    text = run(conversation.recall(call_arguments(function.get("arguments"))))
    if function is raw:
        return {"type": "function_call_output", "call_id": raw["call_id"], "output": text}
    return {"role": "tool", "tool_call_id": raw["id"], "content": text}


def _asked_chat(body: RequestBody) -> CallArguments | None:
    return _asked(to_list(body.get("messages")), None, body)


def _asked_response(body: RequestBody) -> CallArguments | None:
    if body.get("previous_response_id") or body.get("conversation"):
        return None  # the provider keeps the history
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else to_list(given)
    return _asked(items, body.get("instructions"), body)


def _asked(messages: list[Any], instructions: str | None, body: RequestBody) -> CallArguments:
    front = [message.text for message in parse_list(messages[: count_prompts(messages)])]
    system = "\n\n".join([*([instructions] if instructions else []), *front]) or None
    return CallArguments(messages, system, to_list(body.get("tools")))


def _chat_body(body: RequestBody, asked: CallArguments, view: View) -> RequestBody:
    return {**body, "messages": _shown("openai", asked, view)}


def _response_body(body: RequestBody, asked: CallArguments, view: View) -> RequestBody:
    changed: RequestBody = {} if view.system == asked.system else {"instructions": None}
    return {**body, **changed, "input": _shown("responses", asked, view)}


def _shown(name: str, asked: CallArguments, view: View) -> list[Any]:
    """The view as a list; system prompts in front as they were written, unless the preset changed them."""
    front = count_prompts(asked.messages)
    kept = as_said(
        rendered_messages(view, name), asked.messages[front:], lambda message: parse_list([message])
    )
    if view.system == asked.system:
        return [*asked.messages[:front], *kept]
    return [*get(name).render((), system=view.system), *kept]


ENDPOINTS = {
    "/chat/completions": Endpoint(_asked_chat, _chat_body, ChatStream),
    "/responses": Endpoint(_asked_response, _response_body, ResponsesStream),
}
