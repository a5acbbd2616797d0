"""Spans of OpenTelemetry, by its conventions for generative AI: one for each model call and each fold.

    refold.tracing.enable()                 # or a tracer provider of your own; needs the extra `otel`

Off unless a program asks for it, or one of the variables in `VARIABLES` is set (as `opentelemetry-instrument`
does); then a call costs one comparison. No text of a conversation is in a span.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from refold.entries import Fold
from refold.errors import UsageError
from refold.messages import Assistant, Usage

VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
OFF: AbstractContextManager[Any] = nullcontext()
_tracer: Any = None


def enable(provider: Any = None) -> None:
    """Make spans from now on, with this tracer provider or the one of the process."""
    global _tracer
    try:
        _tracer = import_module("opentelemetry.trace").get_tracer("refold", tracer_provider=provider)
    except ImportError:
        raise UsageError('OpenTelemetry needs `pip install "refold[otel]"`') from None


def disable() -> None:
    global _tracer
    _tracer = None


def is_on() -> bool:
    return _tracer is not None


def model_call(name: str, *, session: str = "", compacted: bool = False) -> AbstractContextManager[Any]:
    """Around a call of the model `provider:name`; what is entered is told what came of it (`replied`)."""
    if _tracer is None:
        return OFF
    provider, _, model = name.rpartition(":")
    about = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider.removesuffix("-responses") or "unknown",
        "gen_ai.request.model": model,
    }
    about |= {"gen_ai.conversation.id": session} if session else {}
    about |= {"gen_ai.conversation.compacted": True} if compacted else {}
    return _span(f"chat {model}", "CLIENT", about)


def replied(span: Any, message: Assistant, usage: Usage | None) -> None:
    if span is None:
        return
    span.set_attribute("gen_ai.response.finish_reasons", [message.stop])
    if usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output)
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cache_read)
        span.set_attribute("gen_ai.usage.cache_creation.input_tokens", usage.cache_write)


def fold(session: str, preset: str) -> AbstractContextManager[Any]:
    """Around a fold; what is entered is told what came of it (`folded`)."""
    if _tracer is None:
        return OFF
    about = {"gen_ai.operation.name": "fold", "gen_ai.conversation.id": session, "refold.preset": preset}
    return _span(f"fold {preset}", "INTERNAL", about)


def folded(span: Any, outcome: Fold | Any) -> None:
    """A fold, or why there is none."""
    if span is None:
        return
    if not isinstance(outcome, Fold):
        failed(span, outcome.code)
        return
    span.set_attributes(
        {
            "gen_ai.conversation.compacted": True,
            "refold.strategy": outcome.strategy,
            "refold.author": outcome.author,
            "refold.requests": outcome.requests,
            "refold.tokens.before": outcome.tokens_before,
            "refold.tokens.after": outcome.tokens_after,
        }
    )


def passed(span: Any, status: int, done: str) -> None:
    """What the gateway answered, and what it did (`x-refold`)."""
    if span is None:
        return
    span.set_attribute("http.response.status_code", status)
    if done.startswith(("fold", "compact")):
        span.set_attribute("gen_ai.conversation.compacted", True)
    if status >= 400:
        failed(span, str(status))


def failed(span: Any, kind: str) -> None:
    if span is not None:
        span.set_attribute("error.type", kind)
        span.set_status(import_module("opentelemetry.trace").StatusCode.ERROR)


@contextmanager
def _span(name: str, kind: str, about: Mapping[str, Any]) -> Generator[Any]:
    """An error is named by its type: its text may quote the conversation."""
    options: dict[str, Any] = {"record_exception": False, "set_status_on_exception": False}
    options["kind"] = getattr(import_module("opentelemetry.trace").SpanKind, kind)
    with _tracer.start_as_current_span(name, attributes=about, **options) as span:
        try:
            yield span
        except BaseException as error:
            failed(span, type(error).__name__)
            raise


if any(os.environ.get(variable) for variable in VARIABLES):
    try:
        enable()
    except UsageError:
        pass  # these variables may be meant for other programs
