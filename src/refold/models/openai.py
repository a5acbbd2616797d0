"""OpenAI and compatible servers: chat completions and responses, through the official SDK.

`base_url` selects Ollama, vLLM, llama.cpp, OpenRouter, DeepSeek … They take `max_tokens`; OpenAI itself
requires `max_completion_tokens`.
"""

from __future__ import annotations

from typing import Unpack

from refold.models.openai_streams import ChatStream, ResponsesStream
from refold.models.remote import Remote, RemoteOptions, wire_prompt
from refold.models.stream_chunks import StreamReader
from refold.protocols import Request
from refold.session.dialects import openai_chat, openai_responses
from refold.text.lenient_json import JsonObject


class _OpenAI(Remote):
    brand, home = "OpenAI", "api.openai.com"


class OpenAIChat(_OpenAI):
    """Chat completions."""

    provider = "openai"
    resource, required = "chat.completions", ("model", "messages")

    def body(self, request: Request) -> JsonObject:
        body = {**self._common(request), **wire_prompt(request, openai_chat)}
        if request.max_tokens is not None:
            body["max_completion_tokens" if self.at_home else "max_tokens"] = request.max_tokens
        return {**body, **self._extra}

    def streaming(self, request: Request) -> JsonObject:
        return {**self.body(request), "stream_options": {"include_usage": True}}

    def reader(self) -> StreamReader:
        return ChatStream()


class OpenAIResponses(_OpenAI):
    """The responses API without server-side state: encrypted reasoning is part of the messages."""

    provider = "openai-responses"
    resource, required = "responses", ("model", "input")

    def __init__(self, model: str, *, reasoning: bool = False, **options: Unpack[RemoteOptions]) -> None:
        """`reasoning`: a reasoning model, whose encrypted reasoning is requested."""
        super().__init__(model, **options)
        self._reasoning = reasoning

    def body(self, request: Request) -> JsonObject:
        body = {**self._common(request), **wire_prompt(request, openai_responses), "store": False}
        if self._reasoning:
            body["include"] = ["reasoning.encrypted_content"]
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        return {**body, **self._extra}

    def reader(self) -> StreamReader:
        return ResponsesStream()
