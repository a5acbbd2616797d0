"""Every model keeps the contract; those behind HTTP through their real SDK and a real server."""

from __future__ import annotations

from contextlib import contextmanager

from refold.models import Scripted
from refold.models.anthropic import Anthropic
from refold.models.openai import OpenAIChat, OpenAIResponses
from refold.testing.model_contract import ModelContract
from refold.testing.wire import WireServer


class TestScripted(ModelContract):
    @contextmanager
    def answering(self, *lines):
        yield Scripted(*lines)


class TestOpenAIChat(ModelContract):
    @contextmanager
    def answering(self, *lines):
        with WireServer(*lines) as server:
            yield OpenAIChat("gpt-test", api_key="sk-test-key", base_url=server.v1, context_window=1000)


class TestOpenAIResponses(ModelContract):
    @contextmanager
    def answering(self, *lines):
        with WireServer(*lines) as server:
            yield OpenAIResponses("gpt-test", api_key="sk-test-key", base_url=server.v1)


class TestAnthropic(ModelContract):
    @contextmanager
    def answering(self, *lines):
        with WireServer(*lines) as server:
            yield Anthropic("claude-test", api_key="sk-test-key", base_url=server.url)
