"""Anthropic's client: `messages`, plain or streamed, sync or async, the beta ones included.

    client = refold.wrap(AsyncAnthropic(), window=1_000_000, store="sqlite:agent.db", session="bug-17")
    messages = history(client)  # what was said so far, in whatever process
    reply = await client.messages.create(model=MODEL, messages=messages, tools=[*TOOLS, RECALL], …)

The caller keeps handing over the whole list, and sets the marks for the cache as ever. `anthropic` itself is
never imported here.
"""

from __future__ import annotations

from typing import Any

from refold.integrations.clients import CallArguments, Endpoint, RequestBody
from refold.integrations.conversation import Conversation, as_said
from refold.loop import run
from refold.models.anthropic import MessageStream
from refold.recall import tool as recall_tool
from refold.session import View
from refold.session.dialects import anthropic as dialect
from refold.session.dialects.common import as_dict, object_or_empty, to_list

RECALL = recall_tool.for_anthropic()
"""The recall tool, for the `tools` of a message."""


def recalled(conversation: Conversation, call: Any) -> RequestBody | None:
    """The `tool_result` for a call of the recall tool; None for any other block."""
    raw = as_dict(call)
    if raw.get("type") != "tool_use" or raw.get("name") != recall_tool.NAME:
        return None
    text = run(conversation.recall(object_or_empty(raw.get("input"))))
    return {"type": "tool_result", "tool_use_id": raw["id"], "content": text}


def _asked(body: RequestBody) -> CallArguments | None:
    given = body.get("system")
    blocks = [] if isinstance(given, str) else [as_dict(block).get("text", "") for block in to_list(given)]
    system = given if isinstance(given, str) else "\n\n".join(blocks)
    return CallArguments(to_list(body.get("messages")), system or None, to_list(body.get("tools")))


def _body(body: RequestBody, asked: CallArguments, view: View) -> RequestBody:
    shown = view.to_anthropic(cache=False)
    messages = as_said(shown["messages"], asked.messages, lambda message: dialect.parse_list([message]))
    changed = {} if view.system == asked.system else {"system": shown["system"]}
    return {**body, **changed, "messages": messages}


ENDPOINTS = {"/v1/messages": Endpoint(_asked, _body, MessageStream)}
