"""One model call, and the tool loop around it: what was too long is folded and asked once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from inspect import isawaitable
from types import NoneType
from typing import Any, TypedDict, cast

import msgspec

from refold import entries as e
from refold import tracing
from refold.compaction.overflow import HALF, LEARNED, REFUSAL_KEY, SMALLEST_WINDOW, Refusal, Sign, in_error
from refold.engine.planner import Planner
from refold.errors import LeafMoved, ModelError, Overflow, OverflowAgain, UsageError, expect, sentence
from refold.messages import Assistant, Call, Message, Result, result
from refold.models.reply import Reply, complete
from refold.models.retry import Retry
from refold.protocols import Model, NativeTools, Request
from refold.session import Session, View
from refold.session.dialects.tools import parse_tools
from refold.session.invariants import repair

PAUSE = 0.1
"""Seconds before the second try."""
LARGEST = 1e9
"""No time-out and no temperature is that large."""
Sleep = Callable[[float], Awaitable[None]]
RunCalls = Callable[[Sequence[Call]], AsyncGenerator[Result]]
"""Runs the calls of one reply; what comes of each is given as soon as it may be written down."""


class CallKeywords(TypedDict, total=False):
    """The keywords of `call` and `turn`: what goes with a call beside the view."""

    system: str | None
    tools: Sequence[Any]
    max_tokens: int | None
    temperature: float | None
    timeout: float | None
    """Seconds of one attempt, kept by the model."""
    retries: Retry
    sleep: Sleep


async def ask(
    planner: Planner,
    session: Session,
    model: Model,
    prepare: Callable[..., Awaitable[View]],
    *,
    system: str | None = None,
    tools: Sequence[Any] = (),
    max_tokens: int | None = None,
    temperature: float | None = None,
    timeout: float | None = None,  # noqa: ASYNC109
    retries: Retry = Retry(),
    sleep: Sleep = asyncio.sleep,
) -> tuple[Reply, AppendPoint]:
    """The model's reply to what `prepare` gives. An overflow is written down, and the call, after a moment,
    prepared and tried once more; a second one in a row is `OverflowAgain`. Other errors of the model are
    raised. A reply that stopped for length before it began is such an error, too. Also says where it was
    asked."""
    expect(retries, Retry, "retries must be a Retry(attempts=…)")
    expect(max_tokens, (int, NoneType), "max_tokens must be a whole number")
    for name, number in (("timeout", timeout), ("temperature", temperature)):
        expect(number, (int, float, NoneType), f"{name} must be a number")
        if number is not None and not 0 <= number < LARGEST:
            raise UsageError(f"{name} is {str(number)[:40]}: pass a number of 0 or more")
    if tools and isinstance(model, NativeTools) and not model.native_tools:
        raise UsageError(f"{model.name} does not support tools: leave them out, or use another model")
    for attempt in range(2):
        view = await prepare(session, system=system, tools=tools, model=model.name)
        messages = tuple(item.message for item in repair(view.items))
        request = Request(
            messages=messages,
            system=view.system,
            tools=tuple(parse_tools(tools)),
            stable=len(messages),
            max_tokens=max_tokens,
            temperature=temperature,
            timeout=timeout,
        )
        place = AppendPoint.here(session)
        try:
            compacted = tracing.is_on() and any(item.fold is not None for item in view.items)
            with tracing.model_call(model.name, session=session.id, compacted=compacted) as span:
                reply = await complete(model, request, retries=retries)
                tracing.replied(span, reply.message, reply.usage)
            error = _cut_short(reply)
            if error is None or not record_overflow(planner, place, error, model.name):
                return reply, place
        except ModelError as raised:
            if not record_overflow(planner, place, raised, model.name):
                raise
            error = raised
        if attempt:
            raise OverflowAgain from error
        await sleep(PAUSE)
    raise AssertionError("unreachable")


def _cut_short(reply: Reply) -> Overflow | None:
    """The window was full: the reply stopped for length before anything was said."""
    message, usage = reply.message, reply.usage
    if message.stop != "length" or message.text.strip() or message.calls or (usage and usage.output):
        return None
    return Overflow(f"{reply.model}: the reply stopped for length before it began", certain=False)


def is_overflow(planner: Planner, session: Session, error: BaseException | str) -> Sign | None:
    """Was it about the size of the context? An answer without reasons only where the request was large."""
    sign = in_error(sentence(error))
    if sign is None and isinstance(error, Overflow):
        sign = Sign("model", error.window, error.certain)
    return sign if sign is None or sign.certain or _tokens_if_large(planner, session) else None


def record_overflow(planner: Planner, place: AppendPoint, error: BaseException, model: str | None) -> bool:
    """Write an overflow down; other errors, and those on a branch that was left, are for the caller."""
    here = place.is_here and is_overflow(planner, place.session, error) is not None
    return here and record_refusal(planner, place.session, error, model)


def record_refusal(planner: Planner, session: Session, error: BaseException | str, model: str | None) -> bool:
    """Write down a reply that failed, and the window where the refusal teaches it; was it an overflow?"""
    expect(session, Session, "pass the Session whose call failed")
    sign, declared = is_overflow(planner, session, error), planner.preset.window
    window = None if sign is None else sign.window or int(LEARNED * _tokens_if_large(planner, session))
    noted = Refusal(sign is not None, declared, named=sign is not None and sign.window is not None)
    failed = Assistant((), stop="error", error=sentence(error))
    session.append(failed, model=model, meta={REFUSAL_KEY: msgspec.to_builtins(noted)})
    if window is not None and window >= SMALLEST_WINDOW:
        session.append(session.make(e.LearnedWindow, target=session.leaf, model=model or "", tokens=window))
    return sign is not None


def _tokens_if_large(planner: Planner, session: Session) -> int:
    """Tokens of the context; 0 where it has less than half of the declared window."""
    tokens = planner.context(session).sizes.anchored(planner.counter)
    return tokens if tokens >= HALF * planner.preset.window else 0


async def run_turn(
    session: Session,
    run_calls: RunCalls,
    *,
    most: int,
    call: Callable[[bool], Awaitable[Assistant]],
) -> Assistant:
    """Calls and their tools until the model answers without calling. After `most` calls it is asked once more
    without tools, so that a turn always ends. `call` gets whether tools may be offered. Where the leaf is
    moved away meanwhile, the turn ends there: what has come so far stays where it belongs."""
    expect(session, Session, "pass a Session; a list of messages is merged into one")
    expect(most, int, "most must be a whole number of calls")
    for _ in range(most):
        epoch = session.epoch
        reply = await call(True)
        if session.epoch != epoch:
            raise LeafMoved
        if not reply.calls:
            return reply
        place = AppendPoint.here(session)
        async with aclosing(run_calls(reply.calls)) as results:
            async for each in results:
                place = place.append(each)
        if not place.is_here:
            raise LeafMoved
    return await call(False)


def one_by_one(run_tool: Callable[[Call], Any]) -> RunCalls:
    """Runs the calls of a reply in their order. `run_tool` gives a text or a `Result`, at once or awaited."""

    async def run(calls: Sequence[Call]) -> AsyncGenerator[Result]:
        for each in calls:
            output = run_tool(each)
            output = await output if isawaitable(output) else output
            yield output if isinstance(output, Result) else result(each.id, str(output), name=each.name)

    return run


@dataclass(frozen=True)
class AppendPoint:
    """Where in a session something was asked: what comes of it belongs there, wherever the leaf is then."""

    session: Session
    leaf: str | None
    root_epoch: int

    @classmethod
    def here(cls, session: Session) -> AppendPoint:
        expect(session, Session, "pass the Session that the reply belongs to")
        return cls(session, session.leaf, session.epoch)

    @property
    def is_here(self) -> bool:
        """Is it still on the path, or was nothing there to leave?"""
        session = self.session
        if self.leaf is None:
            return session.epoch == self.root_epoch
        return session.position(self.leaf) is not None

    @property
    def entry(self) -> e.MessageEntry:
        """What was appended there last."""
        return cast("e.MessageEntry", self.session[self.leaf or ""])

    def append(self, message: Message, **about: Any) -> AppendPoint:
        """Append a message; where the leaf was moved to another branch, on the branch that was left, and the
        leaf stays where it is."""
        session = self.session
        if self.is_here:
            return replace(self, leaf=session.append(message, **about).id)
        entry = session.make(e.MessageEntry, message=message, parent=self.leaf, **about)
        away = session.leaf
        session.extend((entry, session.make(e.Leaf, target=away)))
        return replace(self, leaf=entry.id)
