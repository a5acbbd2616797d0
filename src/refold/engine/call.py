"""One model call through the engine: prepare, ask, append; a context that was too long is folded and the
call tried once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from refold.compaction.overflow import in_error
from refold.errors import ModelError, Overflow, OverflowAgain, UsageError
from refold.messages import Assistant, Call, Result, result
from refold.models.reply import complete
from refold.models.retry import Retry
from refold.protocols import Model, NativeTools, Request
from refold.session import Session, View
from refold.session.dialects.tools import parse_tools
from refold.session.invariants import repair

PAUSE = 0.1
"""Seconds before the second try."""


class Host(Protocol):
    """What a call needs of an engine."""

    async def prepare(
        self, session: Session, *, system: str | None = None, tools: Sequence[Any] = (), **given: Any
    ) -> View: ...
    def failed(self, session: Session, error: BaseException | str, *, model: str | None = None) -> bool: ...
    def arm(self, session: Session) -> None: ...


async def call(
    engine: Host,
    session: Session,
    model: Model,
    *,
    system: str | None = None,
    tools: Sequence[Any] = (),
    retries: Retry = Retry(),
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    **limits: Any,
) -> Assistant:
    """The model's reply, appended. Overflow: fold and try once more after a moment; a second refusal in a
    row is `OverflowAgain`. Other errors of the model are raised, with the session as it was."""
    if tools and isinstance(model, NativeTools) and not model.native_tools:
        raise UsageError(f"{model.name} takes no tools: leave them out, or take another model")
    for attempt in range(2):
        view = await engine.prepare(session, system=system, tools=tools)
        try:
            reply = await complete(model, request_of(view, tools, **limits), retries=retries)
        except ModelError as error:
            if not isinstance(error, Overflow) and in_error(str(error)) is None:
                raise
            engine.failed(session, error, model=model.name)
            if attempt:
                raise OverflowAgain from error
            await sleep(PAUSE)
        else:
            session.append(reply.message, usage=reply.usage, model=reply.model)
            engine.arm(session)
            return reply.message
    raise AssertionError("unreachable")


async def turn(
    engine: Host,
    session: Session,
    model: Model,
    run_tool: Callable[[Call], Any],
    *,
    most: int,
    tools: Sequence[Any] = (),
    **options: Any,
) -> Assistant:
    """Calls and their tools until the model answers without calling. After `most` calls it is asked once more
    without tools, so that a turn always ends. `run_tool` gives a text or a `Result`, at once or awaited."""
    for _ in range(most):
        reply = await call(engine, session, model, tools=tools, **options)
        if not reply.calls:
            return reply
        for each in reply.calls:
            said = run_tool(each)
            said = await said if isawaitable(said) else said
            session.append(said if isinstance(said, Result) else result(each.id, str(said), name=each.name))
    return await call(engine, session, model, **options)


def request_of(view: View, tools: Sequence[Any], **limits: Any) -> Request:
    """The request that shows a model this view."""
    messages = tuple(item.message for item in repair(view.items))
    specs = tuple(parse_tools(tools))
    return Request(messages=messages, system=view.system, tools=specs, stable=len(messages), **limits)
