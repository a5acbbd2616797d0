"""One model call, and the tool loop around it: what was too long is folded and asked once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from refold.compaction.overflow import in_error
from refold.errors import ModelError, Overflow, OverflowAgain, UsageError, WrongType
from refold.messages import Assistant, Call, Result, result
from refold.models.reply import Reply, complete
from refold.models.retry import Retry
from refold.protocols import Model, NativeTools, Request
from refold.session import Session, View
from refold.session.dialects.tools import parse_tools
from refold.session.invariants import repair

PAUSE = 0.1
"""Seconds before the second try."""
Sleep = Callable[[float], Awaitable[None]]

Resolver = Callable[[str], Model]
"""Makes a model of its name."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """What goes with a call beside the view."""

    tools: Sequence[Any] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    timeout: float | None = None
    retries: Retry = Retry()
    sleep: Sleep = asyncio.sleep


def model_of(model: Model | str, resolver: Resolver) -> Model:
    """A model by its name, or as it is."""
    if isinstance(model, str):
        return resolver(model)
    if not isinstance(model, Model):
        kind = type(model).__name__
        raise WrongType(f"a {kind} is no model: pass a name such as openai:gpt-5, or refold.model(…)")
    return model


def no_resolver(name: str) -> Model:
    """Of an engine that was not taken from the package."""
    raise UsageError(f"nobody here knows the model {name!r}: `from refold import Engine`, or refold.model(…)")


async def ask(
    model: Model,
    options: CallOptions,
    *,
    prepare: Callable[[], Awaitable[View]],
    refused: Callable[[ModelError], object],
) -> Reply:
    """The model's reply to what `prepare` gives. Overflow is told to `refused` and, after a moment, the call
    is prepared and tried once more; a second refusal in a row is `OverflowAgain`. Other errors of the model
    are raised."""
    if options.tools and isinstance(model, NativeTools) and not model.native_tools:
        raise UsageError(f"{model.name} takes no tools: leave them out, or take another model")
    for attempt in range(2):
        view = await prepare()
        try:
            return await complete(model, _request(view, options), retries=options.retries)
        except ModelError as error:
            if not isinstance(error, Overflow) and in_error(str(error)) is None:
                raise
            refused(error)
            if attempt:
                raise OverflowAgain from error
            await options.sleep(PAUSE)
    raise AssertionError("unreachable")


async def run_turn(
    session: Session,
    run_tool: Callable[[Call], Any],
    *,
    most: int,
    call: Callable[[bool], Awaitable[Assistant]],
) -> Assistant:
    """Calls and their tools until the model answers without calling. After `most` calls it is asked once more
    without tools, so that a turn always ends. `call` gets whether tools may be offered."""
    for _ in range(most):
        reply = await call(True)
        if not reply.calls:
            return reply
        for each in reply.calls:
            output = run_tool(each)
            output = await output if isawaitable(output) else output
            answered = isinstance(output, Result)
            session.append(output if answered else result(each.id, str(output), name=each.name))
    return await call(False)


def _request(view: View, options: CallOptions) -> Request:
    """The request that shows a model this view."""
    messages = tuple(item.message for item in repair(view.items))
    return Request(
        messages=messages,
        system=view.system,
        tools=tuple(parse_tools(options.tools)),
        stable=len(messages),
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        timeout=options.timeout,
    )
