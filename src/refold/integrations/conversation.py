"""What all adapters share: a conversation is a session, and the engine says what of it the model sees.

A framework hands over its whole list before every call of a model; `take` merges it into the session and
gives a turn: the view for this call. The reply is appended where it was asked for (`turn.answered`); a
refusal of the provider that says "too long" is written down (`turn.refused`), and the next `take` gives a
smaller view.

All of this happens on one event loop of refold's own (`refold.loop`), whatever thread or loop the caller is
on: a session is never touched by two threads, and calls that overlap take turns.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar

from refold import presets
from refold.compaction.preset import Preset, Settings
from refold.engine.call import AppendPoint, record_overflow
from refold.errors import Conflict, RefoldError, StalePlan, UsageError, expect
from refold.hooks import Hooks
from refold.loop import beside, run
from refold.messages import Assistant, System, Usage
from refold.protocols import Model
from refold.recall import tool as recall_tool
from refold.recall.logs import index_of_path
from refold.registry import model as model_named
from refold.registry.engine import Engine
from refold.registry.sessions import open as open_session
from refold.session import Session, View
from refold.session.dialects import get, parse_list, parse_reply
from refold.session.dialects.common import object_or_empty, to_list
from refold.session.invariants import repair_by
from refold.session.merge import contents

ATTEMPTS = 5
"""How often a call begins anew because another process wrote to the same session meanwhile."""
MAX_OPEN_CONVERSATIONS = 256
"""How many stored conversations stay open; one that is asked for again is read from its store."""
log = logging.getLogger("refold")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
Taking: TypeAlias = "Callable[[], Coroutine[Any, Any, tuple[ModelCall, S]]]"
"""Gives a turn, and its view as the framework sends it."""


@dataclass(frozen=True)
class ModelCall:
    """One call of a model: what it shows, and where in the session its reply belongs."""

    view: View
    place: AppendPoint
    model: str | None
    conversation: Conversation

    async def answered(self, raw: Any) -> None:
        """Append the reply. Where that fails, it comes with the caller's next list."""
        session = self.place.session
        try:
            reply = raw if isinstance(raw, CollectedReply) else CollectedReply(*parse_reply(raw))
            if reply.message.content:
                async with self.conversation.lock:
                    session.refresh()
                    self.place.append(reply.message, usage=reply.usage, model=reply.model)
        except RefoldError as error:
            log.warning("session %s: a reply was not stored: %s", session.id, error)

    async def refused(self, error: BaseException) -> bool:
        """Was the context too long? Then `take` again, once, and retry."""
        async with self.conversation.lock:
            return record_overflow(self.conversation.engine.planner, self.place, error, self.model)


class CollectedReply(NamedTuple):
    """What a model answered, put together already."""

    message: Assistant
    usage: Usage | None
    model: str | None


class Conversation:
    """One conversation with a model."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.engine = engine
        self.session = session
        self.lock = asyncio.Lock()

    async def take(
        self,
        messages: Sequence[Any],
        *,
        system: str | None = None,
        tools: Sequence[Any] = (),
        model: str | None = None,
    ) -> ModelCall:
        """The view for a call that was made with this list, in any dialect or in our own messages."""

        async def once() -> ModelCall:
            self.session.merge(messages, exactly=True)
            view = await self.engine.prepare(self.session, system=system, tools=tools, model=model)
            return ModelCall(view, AppendPoint.here(self.session), model, self)

        return await self._alone(once)

    async def view(self) -> View:
        """What the model should see now, folded if that is due."""
        return await self._alone(lambda: self.engine.prepare(self.session))

    async def merge(self, messages: Sequence[Any], *, exactly: bool = False) -> None:
        """Take a list over without asking a model."""

        async def once() -> None:
            self.session.merge(messages, exactly=exactly)

        await self._alone(once)

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        """Work on the session with what other processes wrote to it, while no other call of ours does."""
        async with self.lock:
            for attempt in range(ATTEMPTS):
                try:
                    self.session.refresh()
                    return await work()
                except (Conflict, StalePlan):
                    if attempt == ATTEMPTS - 1:
                        raise
        raise AssertionError("unreachable")

    async def history(self, dialect: str) -> list[Any]:
        """What the model sees of the conversation so far, as the list to go on from."""
        shown: Any = self.engine.view(self.session).to(dialect)
        return to_list(shown if isinstance(shown, list) else shown["messages"])

    async def recall(self, arguments: Mapping[str, Any]) -> str:
        """What the recall tool answers, of the path alone: another branch may be another user's."""
        return recall_tool.tool_answer(index_of_path(self.session, self.session.leaf), arguments)


class AdapterOptions(TypedDict, total=False):
    """What all adapters take: `preset`, `window`, `model` (who writes summaries; none: the embedded digest)
    and `hooks` are the engine's; `store` is where the sessions are."""

    window: int | None
    preset: Preset | Settings | str
    store: str | os.PathLike[str]
    model: Model | str | None
    hooks: Hooks | None


class Conversations:
    """The conversations of a store by the names a framework gives them."""

    def __init__(
        self,
        *,
        window: int | None = None,
        preset: Preset | Settings | str = "refold",
        store: str | os.PathLike[str] = "memory:",
        model: Model | str | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        if window is not None:
            if not isinstance(preset, str):
                raise UsageError(
                    "window is a setting of the preset: leave it out, or give the preset by name"
                )
            preset = presets.make(preset, {"window": window})
        asked = model_named(model) if isinstance(model, str) else model
        self.engine = Engine(preset, model=asked, summariser="same", hooks=hooks)
        self._store = store
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = asyncio.Lock()

    async def named(self, id: str | None) -> Conversation:
        expect(id, (str, NoneType), "the session id must be a string")
        async with self._lock:
            if id is None or id not in self._open:
                session = await asyncio.to_thread(open_session, self._store, id)
                self._open[session.id] = Conversation(self.engine, session)
                id = session.id
                self._close_oldest()
            self._open.move_to_end(id)
            return self._open[id]

    def _close_oldest(self) -> None:
        if os.fspath(self._store).startswith("memory:"):
            return  # there is nowhere else to find them
        idle = [id for id, conversation in self._open.items() if not conversation.lock.locked()]
        for id in idle[: max(0, len(self._open) - MAX_OPEN_CONVERSATIONS)]:
            del self._open[id]


def send_folded(take: Taking[S], send: Callable[[S], R]) -> tuple[ModelCall, R]:
    """A call of a model, from synchronous code: what was too long is folded, and sent once more."""
    for last in (False, True):
        turn, shown = run(take())
        try:
            return turn, send(shown)
        except Exception as error:
            if not run(turn.refused(error)) or last:
                raise
    raise AssertionError("unreachable")


async def sent_aside(take: Taking[S], send: Callable[[S], Awaitable[R]]) -> tuple[ModelCall, R]:
    """The same on any event loop."""
    for last in (False, True):
        turn, shown = await beside(take())
        try:
            return turn, await send(shown)
        except Exception as error:
            if not await beside(turn.refused(error)) or last:
                raise
    raise AssertionError("unreachable")


def as_said(shown: Sequence[T], given: Sequence[T], parsed: Callable[[T], Sequence[Any]]) -> list[T]:
    """What is to be shown, with its end as the caller wrote it, as far as both say the same: what a dialect
    of ours has no word for (ids, marks for caches, metadata) stays as it was."""
    same = 0
    for ours, theirs in zip(reversed(shown), reversed(given), strict=False):
        if contents(parsed(ours)) != contents(parsed(theirs)):
            break
        same += 1
    return [*shown[: len(shown) - same], *given[len(given) - same :]]


def rendered_messages(view: View, dialect: str) -> list[Any]:
    """The messages of a view in a dialect that is a list, without the system prompt."""
    chosen = get(dialect)
    return chosen.render(repair_by(chosen.rules, view.items))


def call_arguments(text: Any) -> Mapping[str, Any]:
    """The arguments of a call from their JSON; none if it is no object."""
    try:
        return object_or_empty(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return {}


def count_prompts(messages: Sequence[Any]) -> int:
    """Number of system prompts at the beginning of a list."""
    for count, message in enumerate(messages):
        parsed = parse_list([message])
        if not parsed or not all(isinstance(each, System) for each in parsed):
            return count
    return len(messages)
