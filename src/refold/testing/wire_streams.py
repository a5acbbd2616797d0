"""A line of a script as the providers would stream it: real-shaped server-sent events.

Each function gives `(event name or None, payload)` pairs; `None` means a bare `data:` line. `number` counts
the replies of a server: clients put together what has the same id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from refold.messages import AnyPart, Call, Stop, Text, Thinking, Usage, arguments_json
from refold.models.scripted import ScriptedReply

StreamPiece: TypeAlias = "tuple[str | None, dict[str, Any] | str]"
USAGE = Usage(input=11, output=7)
"""What the server counts where the script says nothing."""
_CHAT_STOPS: dict[Stop, str] = {"tool_use": "tool_calls", "length": "length", "refusal": "content_filter"}
_MESSAGE_STOPS: dict[Stop, str] = {"tool_use": "tool_use", "length": "max_tokens", "refusal": "refusal"}


def ends(line: ScriptedReply) -> bool:
    """Does the stream come to its proper end?"""
    return not (line.cut or line.stalls or line.error)


def _halves(text: str) -> list[str]:
    """In two pieces, so that nothing works only because everything came at once."""
    middle = max(1, len(text) // 2)
    return [piece for piece in (text[:middle], text[middle:]) if piece]


# ── chat completions ────────────────────────────────────────────────────────────────────────────


def chat(line: ScriptedReply, model: str, number: int = 1) -> Iterator[StreamPiece]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> StreamPiece:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return None, {**base, "choices": [choice], "usage": None}

    base: dict[str, Any] = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": model,
        "system_fingerprint": "fp_1",
    }
    yield chunk({"role": "assistant", "content": "", "refusal": None})
    calls = 0
    for part in line.content:
        for delta in _chat_deltas(part, calls):
            yield chunk(delta)
        calls += isinstance(part, Call)
    if ends(line):
        yield chunk({}, _CHAT_STOPS.get(line.stopped, "stop"))
        yield None, {**base, "choices": [], "usage": _chat_usage(line.usage or USAGE)}
        yield None, "[DONE]"


def _chat_deltas(part: AnyPart, number: int) -> Iterator[dict[str, Any]]:
    if isinstance(part, Text):
        yield from ({"content": piece} for piece in _halves(part.text))
    elif isinstance(part, Thinking):
        yield from ({"reasoning_content": piece} for piece in _halves(part.text))
    elif isinstance(part, Call):
        head = {"index": number, "id": part.id, "type": "function"}
        yield {"tool_calls": [{**head, "function": {"name": part.name, "arguments": ""}}]}
        for piece in _halves(arguments_json(part)):
            yield {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}


def _chat_usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "audio_tokens": 0},
    }


# ── responses ───────────────────────────────────────────────────────────────────────────────────


def responses(line: ScriptedReply, model: str, number: int = 1) -> Iterator[StreamPiece]:
    order = iter(range(10_000))

    def event(kind: str, **more: Any) -> StreamPiece:
        return kind, {"type": kind, "sequence_number": next(order), **more}

    def response(status: str, **more: Any) -> dict[str, Any]:
        base = {"id": f"resp_{number}", "object": "response", "created_at": 1_760_000_000, "model": model}
        return {**base, "status": status, "error": None, "incomplete_details": None, "output": [], **more}

    yield event("response.created", response=response("in_progress"))
    items: list[dict[str, Any]] = []
    for index, part in enumerate(line.content):
        item = _response_item(part, f"{number}_{index}")
        yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        for kind, piece in _response_deltas(part):
            yield event(kind, output_index=index, content_index=0, item_id=item["id"], delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
        items.append(item)
    if ends(line):
        yield _response_end(line, items, event, response)


def _response_end(line: ScriptedReply, items: list[dict[str, Any]], event: Any, response: Any) -> StreamPiece:
    usage = line.usage or USAGE
    counted = {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }
    reasons = {"length": "max_output_tokens", "refusal": "content_filter"}
    if reason := reasons.get(line.stopped):
        details = {"reason": reason}
        whole = response("incomplete", output=items, usage=counted, incomplete_details=details)
        return event("response.incomplete", response=whole)
    return event("response.completed", response=response("completed", output=items, usage=counted))


def _response_item(part: AnyPart, id: str) -> dict[str, Any]:
    match part:
        case Text(text):
            content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}]
            return {"id": f"msg_{id}", "type": "message", "role": "assistant", "content": content}
        case Thinking():
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            sealed = {"encrypted_content": part.data}
            return {"id": part.id or f"rs_{id}", "type": "reasoning", "summary": summary, **sealed}
        case Call():
            return {"id": f"fc_{id}", "type": "function_call", "call_id": part.id, "name": part.name,
                    "arguments": arguments_json(part)}  # fmt: skip
        case _:
            raise ValueError(f"the server cannot say {type(part).__name__}")


def _response_deltas(part: AnyPart) -> Iterator[tuple[str, str]]:
    match part:
        case Text(text):
            yield from (("response.output_text.delta", piece) for piece in _halves(text))
        case Thinking():
            yield from (("response.reasoning_summary_text.delta", piece) for piece in _halves(part.text))
        case Call():
            kind = "response.function_call_arguments.delta"
            yield from ((kind, piece) for piece in _halves(arguments_json(part)))
        case _:
            return


# ── messages ────────────────────────────────────────────────────────────────────────────────────


def messages(line: ScriptedReply, model: str, number: int = 1) -> Iterator[StreamPiece]:
    def event(kind: str, **more: Any) -> StreamPiece:
        return kind, {"type": kind, **more}

    usage = line.usage or USAGE
    read = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": 1,
    }
    start: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    yield event("message_start", message={**start, "stop_reason": None, "stop_sequence": None, "usage": read})
    yield event("ping")
    for index, part in enumerate(line.content):
        begun = {key: _BEGUN.get(key, value) for key, value in wire_block(part).items()}
        yield event("content_block_start", index=index, content_block=begun)
        for delta in _block_deltas(part):
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    if ends(line):
        delta = {"stop_reason": _MESSAGE_STOPS.get(line.stopped, "end_turn"), "stop_sequence": None}
        yield event("message_delta", delta=delta, usage={"output_tokens": usage.output})
        yield event("message_stop")


def wire_block(part: AnyPart) -> dict[str, Any]:
    """A part as it stands in an answer that is no stream."""
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking() if part.data:
            return {"type": "redacted_thinking", "data": part.data}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or "sig"}
        case Call():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
        case _:
            raise ValueError(f"the server cannot say {type(part).__name__}")


_BEGUN: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
"""What comes in pieces, before the first."""


def _block_deltas(part: AnyPart) -> Iterator[dict[str, Any]]:
    match part:
        case Text(text):
            yield from ({"type": "text_delta", "text": piece} for piece in _halves(text))
        case Thinking() if not part.data:
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _halves(part.text))
            yield {"type": "signature_delta", "signature": part.signature or "sig"}
        case Call():
            for piece in ["", *_halves(arguments_json(part))]:
                yield {"type": "input_json_delta", "partial_json": piece}
        case _:
            return
