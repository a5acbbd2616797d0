"""The SDKs' own request types as judges: our dicts must be what their type checker would accept."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import pydantic


def openai_problems(messages: list[dict[str, Any]]) -> list[str]:
    return [p for message in messages for p in _problems(_adapters()["chat"], message)]


def responses_problems(items: list[dict[str, Any]]) -> list[str]:
    return [p for item in items for p in _problems(_adapters()["responses"], item)]


def anthropic_problems(request: dict[str, Any]) -> list[str]:
    found = [p for message in request["messages"] for p in _problems(_adapters()["anthropic"], message)]
    return found + [p for block in request["system"] for p in _problems(_adapters()["system"], block)]


@cache
def _adapters() -> dict[str, pydantic.TypeAdapter[Any]]:
    from anthropic.types import MessageParam, TextBlockParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam

    return {
        "chat": pydantic.TypeAdapter(ChatCompletionMessageParam),
        "responses": pydantic.TypeAdapter(ResponseInputItemParam),
        "anthropic": pydantic.TypeAdapter(MessageParam),
        "system": pydantic.TypeAdapter(TextBlockParam),
    }


def _problems(adapter: pydantic.TypeAdapter[Any], value: Any) -> list[str]:
    try:
        _consume(adapter.validate_python(value, strict=False))
    except pydantic.ValidationError as error:
        return [f"{e['loc']}: {e['msg']}" for e in error.errors()[:3]]
    return []


def _consume(value: Any) -> None:
    """`Iterable` fields are checked only while they are read."""
    if isinstance(value, dict):
        for inner in value.values():
            _consume(inner)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for inner in value:
            _consume(inner)
