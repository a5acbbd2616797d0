"""OpenAI, and every server that speaks like it: chat completions and responses, through the official SDK.

`base_url` leads to Ollama, vLLM, llama.cpp, OpenRouter, DeepSeek … Those take `max_tokens`; OpenAI itself
wants `max_completion_tokens`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from refold.errors import ModelUnavailable
from refold.models.openai_streams import ChatStream, ResponsesStream
from refold.models.remote import TIMEOUT, Remote, shown
from refold.protocols import Event, Request
from refold.session.dialects import openai_chat, openai_responses
from refold.session.dialects.common import Wire

HOME = "api.openai.com"


class _OpenAI(Remote):
    provider = "openai"
    sdk_error = "openai.OpenAIError"

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        context_window: int | None = None,
        timeout: float = TIMEOUT,
        temperature: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """`temperature=False`: the model takes none, so none is sent. `extra` goes into every request."""
        super().__init__(
            name or f"{self.provider}:{model}",
            context_window=context_window,
            api_key=api_key or os.environ.get("OPENAI_API_KEY"),
            base_url=base_url or os.environ.get("OPENAI_BASE_URL"),
            timeout=timeout,
            extra=extra,
        )
        self.model = model
        self._takes_temperature = temperature

    @property
    def at_home(self) -> bool:
        """Is this OpenAI itself, not a server that imitates it?"""
        return self._base_url is None or HOME in self._base_url

    @property
    def cache_seconds(self) -> float | None:
        """OpenAI keeps prompts for five to ten idle minutes, unasked."""
        return 300.0 if self.at_home else None

    def _connect(self) -> Any:
        try:
            import openai
        except ImportError:
            raise ModelUnavailable(f'{self.name}: run pip install "refold[openai]" first') from None
        if not self._key and self.at_home:
            raise ModelUnavailable(f"{self.name}: set OPENAI_API_KEY, or give a base_url that needs no key")
        # Retries are ours (they know overflow from overload); local servers want some key, whichever.
        return openai.AsyncOpenAI(
            api_key=self._key or "none", base_url=self._base_url, max_retries=0, timeout=self._timeout
        )

    def _common(self, request: Request) -> Wire:
        chosen = request.temperature if self._takes_temperature else None
        return {"model": self.model, **({} if chosen is None else {"temperature": chosen})}


class OpenAIChat(_OpenAI):
    """Chat completions."""

    def body(self, request: Request) -> Wire:
        body = self._common(request)
        body["messages"] = openai_chat.render(shown(request, "openai"), system=request.system)
        if request.tools:
            body["tools"] = openai_chat.render_tools(request.tools)
        if request.max_tokens is not None:
            body["max_completion_tokens" if self.at_home else "max_tokens"] = request.max_tokens
        return {**body, **self._extra}

    async def _events(self, request: Request) -> AsyncGenerator[Event]:
        body = {**self.body(request), "stream": True, "stream_options": {"include_usage": True}}
        reader = ChatStream()
        client = await self.client()
        async with await _post(client.chat.completions, body, request) as chunks:
            async for chunk in chunks:
                for event in reader.read(chunk):
                    yield event
        for event in reader.end():
            yield event


class OpenAIResponses(_OpenAI):
    """The responses interface, without server-side state: reasoning travels sealed inside the messages."""

    provider = "openai-responses"

    def __init__(self, model: str, *, reasoning: bool = False, **options: Any) -> None:
        """`reasoning`: the model thinks, so its sealed thoughts are asked for."""
        super().__init__(model, **options)
        self._reasoning = reasoning

    def body(self, request: Request) -> Wire:
        body = self._common(request)
        body["input"] = openai_responses.render(shown(request, "responses"), system=request.system)
        body["store"] = False
        if self._reasoning:
            body["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            body["tools"] = openai_responses.render_tools(request.tools)
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        return {**body, **self._extra}

    async def _events(self, request: Request) -> AsyncGenerator[Event]:
        reader = ResponsesStream()
        client, body = await self.client(), {**self.body(request), "stream": True}
        async with await _post(client.responses, body, request) as stream:
            async for event in stream:
                for ours in reader.read(event):
                    yield ours


async def _post(resource: Any, body: Wire, request: Request) -> Any:
    """Sends the body as it is: the SDK's own arguments would drop what this release of it does not know."""
    more = {} if request.timeout is None else {"timeout": request.timeout}
    required = {key: body.pop(key) for key in ("model", "messages", "input", "stream") if key in body}
    return await resource.create(**required, extra_body=body, **more)
