"""A line of a script as the providers would answer without streaming: one JSON object.

It is read off the streams, so that both ways of asking say the same.
"""

from __future__ import annotations

from typing import Any

from refold.messages import Call, Text, Thinking, arguments_json
from refold.models.scripted import ScriptedReply
from refold.testing import wire_streams as streams


def chat(line: ScriptedReply, model: str, number: int = 1) -> dict[str, Any]:
    *chunks, (_, last), _ = streams.chat(line, model, number)
    end = _payload(chunks[-1])
    text = "".join(part.text for part in line.content if isinstance(part, Text))
    thought = "".join(part.text for part in line.content if isinstance(part, Thinking))
    calls = [_function(part) for part in line.content if isinstance(part, Call)]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    message |= {"reasoning_content": thought} if thought else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": end["choices"][0]["finish_reason"],
    }
    assert isinstance(last, dict)
    return {**last, "object": "chat.completion", "choices": [choice]}


def _function(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments_json(call)}
    return {"id": call.id, "type": "function", "function": function}


def responses(line: ScriptedReply, model: str, number: int = 1) -> dict[str, Any]:
    *_, end = streams.responses(line, model, number)
    response = _payload(end)["response"]
    output = [{**item, "status": "completed"} for item in response["output"]]
    return {**response, "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def messages(line: ScriptedReply, model: str, number: int = 1) -> dict[str, Any]:
    events = [_payload(piece) for piece in streams.messages(line, model, number)]
    message, end = events[0]["message"], events[-2]
    return {
        **message,
        "content": [streams.wire_block(part) for part in line.content],
        **end["delta"],
        "usage": {**message["usage"], **end["usage"]},
    }


def _payload(piece: streams.StreamPiece) -> dict[str, Any]:
    _, payload = piece
    assert isinstance(payload, dict)
    return payload
