"""pydantic-ai-harness: SummarizingCompaction."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from adapter import SUMMARY, Peer, Wire, main


def peers() -> list[Peer]:
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RunUsage
    from pydantic_ai_harness.compaction import SummarizingCompaction
    from pydantic_ai_harness.compaction._shared import exceeds, find_token_cutoff

    model = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(SUMMARY)]))

    def load(wire: list[Wire]) -> Any:
        made: list[Any] = []
        names: dict[str, str] = {}
        for message in wire:
            if message["role"] == "assistant":
                parts: list[Any] = [TextPart(message["content"])] if message["content"] else []
                for call in message.get("tool_calls", ()):
                    names[call["id"]] = call["function"]["name"]
                    arguments = json.loads(call["function"]["arguments"])
                    parts.append(ToolCallPart(call["function"]["name"], arguments, tool_call_id=call["id"]))
                made.append(ModelResponse(parts=parts))
                continue
            if message["role"] == "tool":
                id = message["tool_call_id"]
                part: Any = ToolReturnPart(names.get(id, "tool"), message["content"], tool_call_id=id)
            else:
                part = UserPromptPart(message["content"])
            made.append(ModelRequest(parts=[part]))
        return made

    def fold(messages: Any, keep: int, tokens: int) -> Any:
        folding = SummarizingCompaction(model=model, max_tokens=1, keep_tokens=tokens)
        context = RunContext(deps=None, model=model, usage=RunUsage())
        return asyncio.run(folding.compact(list(messages), context))

    def wire(messages: Any) -> list[Wire]:
        made: list[Wire] = []
        for message in messages:
            calls = [{"id": p.tool_call_id} for p in message.parts if isinstance(p, ToolCallPart)]
            returned = [part for part in message.parts if isinstance(part, ToolReturnPart)]
            made += [{"role": "tool", "tool_call_id": part.tool_call_id, "content": ""} for part in returned]
            if isinstance(message, ModelResponse):
                made.append({"role": "assistant", "content": "", "tool_calls": calls})
            elif not all(isinstance(p, ToolReturnPart) for p in message.parts):
                made.append({"role": "user", "content": ""})
        return made

    def check(messages: Any) -> Any:
        return exceeds(messages, None, 10**9, None, model_request_parameters=ModelRequestParameters())

    return [
        Peer(
            "pydantic-ai-harness SummarizingCompaction",
            load,
            fold,
            wire,
            check=check,
            plan=lambda messages: find_token_cutoff(messages, 20_000, None),
        )
    ]


if __name__ == "__main__":
    main(("pydantic-ai-slim", "pydantic-ai-harness"), peers)
