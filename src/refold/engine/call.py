"""One model call, and the tool loop around it: what was too long is folded and asked once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

import msgspec

from refold import entries as e
from refold.compaction.overflow import HALF, LEARNED, NOTE, Refusal, Sign, in_error
from refold.engine.planner import Planner
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
    refused: Callable[[ModelError], bool],
) -> Reply:
    """The model's reply to what `prepare` gives. Errors are told to `refused`; where it says that it was an
    overflow, the call is, after a moment, prepared and tried once more, and a second one in a row is
    `OverflowAgain`. Other errors of the model are raised. A reply that stopped for length before it began is
    told as an error too."""
    if options.tools and isinstance(model, NativeTools) and not model.native_tools:
        raise UsageError(f"{model.name} takes no tools: leave them out, or take another model")
    for attempt in range(2):
        view = await prepare()
        try:
            reply = await complete(model, _request(view, options), retries=options.retries)
            error = _cut_short(reply)
            if error is None or not refused(error):
                return reply
        except ModelError as raised:
            if not refused(raised):
                raise
            error = raised
        if attempt:
            raise OverflowAgain from error
        await options.sleep(PAUSE)
    raise AssertionError("unreachable")


def _cut_short(reply: Reply) -> Overflow | None:
    """The window was full: the reply stopped for length before anything was said."""
    message, usage = reply.message, reply.usage
    if message.stop != "length" or message.text.strip() or message.calls or (usage and usage.output):
        return None
    return Overflow(f"{reply.model}: the reply stopped for length before it began", certain=False)


def is_overflow(planner: Planner, session: Session, error: BaseException | str) -> Sign | None:
    """Was it about the size of the context? An answer without reasons only where the request was large."""
    text = str(error) or type(error).__name__
    sign = in_error(text)
    if sign is None and isinstance(error, Overflow):
        sign = Sign("model", error.window, error.certain)
    if sign is None or sign.certain or _is_large(planner, session):
        return sign
    return None


def refused(planner: Planner, session: Session, error: ModelError, model: str) -> bool:
    """Write an overflow down; other errors are for the caller."""
    return is_overflow(planner, session, error) is not None and record_refusal(planner, session, error, model)


def record_refusal(planner: Planner, session: Session, error: BaseException | str, model: str | None) -> bool:
    """Write down a reply that failed, and the window where the refusal teaches it; was it an overflow?"""
    sign, declared = is_overflow(planner, session, error), planner.preset.window
    window = None if sign is None else sign.window
    if sign is not None and window is None and _is_large(planner, session):
        window = int(LEARNED * _tokens(planner, session))
    noted = Refusal(sign is not None, declared, named=sign is not None and sign.window is not None)
    failed = Assistant((), stop="error", error=str(error) or type(error).__name__)
    session.append(failed, model=model, meta={NOTE: msgspec.to_builtins(noted)})
    if window is not None:
        session.append(session.make(e.LearnedWindow, target=session.leaf, model=model or "", tokens=window))
    return sign is not None


def _is_large(planner: Planner, session: Session) -> bool:
    return _tokens(planner, session) >= HALF * planner.preset.window


def _tokens(planner: Planner, session: Session) -> int:
    return planner._situation(session).sizes.anchored(planner.counter)


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
