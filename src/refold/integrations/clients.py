"""The clients of the `openai` and `anthropic` packages: every call goes through one method, `post`.

`wrapped` makes a copy of a client (same class, same connections) whose `post` sends the view instead of the
whole history. So all ways to call a model are served alike: `create`, `parse`, `stream`, raw responses. What
is no call of a model, and what leaves the history to the provider, goes through untouched.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from refold.integrations.conversation import Conversation, Reply, Turn, sent, sent_aside
from refold.loop import beside, run
from refold.messages import Assistant
from refold.models.chunks import Malformed, StreamReader
from refold.models.reply import Collector
from refold.protocols import Event
from refold.session import View

C = TypeVar("C")
Body = dict[str, Any]
NAME = "_refold"
"""The attribute under which a wrapped client keeps its conversation."""


@dataclass(frozen=True)
class Asked:
    """What a call says: the list that belongs to the conversation, and what belongs to the call."""

    messages: Sequence[Any]
    system: str | None
    tools: Sequence[Any]


@dataclass(frozen=True)
class Endpoint:
    """One way to ask a model, as the body of a request."""

    asked: Callable[[Body], Asked | None]
    """None: the history is not in the body."""
    body: Callable[[Body, Asked, View], Body]
    """The body with the view in the place of the history."""
    reader: Callable[[], StreamReader]


@dataclass(frozen=True)
class Call:
    """One call of a model through a wrapped client."""

    conversation: Conversation
    endpoint: Endpoint
    body: Body
    asked: Asked

    async def take(self) -> tuple[Turn, Body]:
        asked = self.asked
        turn = await self.conversation.take(
            asked.messages, system=asked.system, tools=asked.tools, model=self.model
        )
        return turn, self.endpoint.body(self.body, asked, turn.view)

    @property
    def model(self) -> str | None:
        return self.body.get("model")

    @property
    def observes(self) -> bool:
        """Of several answers the caller chooses one, and hands it over with the next list."""
        return self.body.get("n") in (None, 1)


def wrapped(client: C, conversation: Conversation, endpoints: Mapping[str, Endpoint]) -> C:
    """A copy of the client that keeps the conversation inside the window."""
    copy: Any = cast(Any, client).copy()
    send: Callable[..., Any] = copy.post

    def begin(path: str, body: object, options: Mapping[str, Any]) -> Call | None:
        endpoint = endpoints.get(path.partition("?")[0])
        if endpoint is None or not isinstance(body, dict):
            return None
        whole = given({**cast(Body, body), **(options.get("extra_json") or {})})
        asked = endpoint.asked(whole)
        return None if asked is None else Call(conversation, endpoint, whole, asked)

    def without_extra(options: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value for key, value in options.items() if key != "extra_json"}

    def post(path: str, *, body: object = None, options: Mapping[str, Any] = {}, **more: Any) -> Any:
        call = begin(path, body, options)
        if call is None:
            return send(path, body=body, options=options, **more)
        rest = {"options": without_extra(options), **more}
        turn, reply = sent(call.take, lambda shown: send(path, body=shown, **rest))
        if _is_whole(reply) and call.observes:
            run(turn.answered(reply))
        elif call.observes and hasattr(reply, "_iterator"):
            reply._iterator = _tee(call, turn, reply._iterator)
        return reply

    async def apost(path: str, *, body: object = None, options: Mapping[str, Any] = {}, **more: Any) -> Any:
        call = begin(path, body, options)
        if call is None:
            return await send(path, body=body, options=options, **more)
        rest = {"options": without_extra(options), **more}
        turn, reply = await sent_aside(call.take, lambda shown: send(path, body=shown, **rest))
        if _is_whole(reply) and call.observes:
            await beside(turn.answered(reply))
        elif call.observes and hasattr(reply, "_iterator"):
            reply._iterator = _atee(call, turn, reply._iterator)
        return reply

    def again(**options: Any) -> Any:
        return wrapped(cast(Any, client).copy(**options), conversation, endpoints)

    copy.post = apost if inspect.iscoroutinefunction(send) else post
    copy.copy = copy.with_options = again
    setattr(copy, NAME, conversation)
    return copy


def given(body: Body) -> Body:
    """A body without the values that stand for "left out": what is sent is plain JSON."""
    plain = (str, int, float, list, tuple, dict, type(None))
    return {key: value for key, value in body.items() if isinstance(value, plain)}


def conversation_of(client: Any) -> Conversation | None:
    return getattr(client, NAME, None)


# ── what came back ──────────────────────────────────────────────────────────────────────────────


def _is_whole(reply: Any) -> bool:
    """A reply is appended at once, a stream's when it has ended. A raw response is the caller's to read: what
    it says comes with the next list."""
    return hasattr(reply, "model_dump")


def _tee(call: Call, turn: Turn, chunks: Iterator[Any]) -> Iterator[Any]:
    heard = _Heard(call)
    for chunk in chunks:
        heard.add(chunk)
        if heard.reply:  # before the last piece is handed on: nobody has to ask for what comes after it
            run(turn.answered(heard.taken()))
        yield chunk
    if heard.end():
        run(turn.answered(heard.taken()))


async def _atee(call: Call, turn: Turn, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    heard = _Heard(call)
    async for chunk in chunks:
        heard.add(chunk)
        if heard.reply:
            await beside(turn.answered(heard.taken()))
        yield chunk
    if heard.end():
        await beside(turn.answered(heard.taken()))


class _Heard:
    """What a stream has said so far. A piece nobody understands ends the listening, not the stream."""

    def __init__(self, call: Call) -> None:
        self._model = call.model
        self._reader: StreamReader | None = call.endpoint.reader()
        self._collector = Collector()
        self.reply: Reply | None = None

    def add(self, chunk: Any) -> None:
        if self._reader is None:
            return
        try:
            self._collect(self._reader.read(chunk))
        except (Malformed, OSError):
            self._reader = None

    def end(self) -> Reply | None:
        if self._reader is not None:
            self._collect(self._reader.end())
        return self.reply

    def taken(self) -> Reply:
        reply, self.reply, self._reader = self.reply, None, None
        assert reply is not None
        return reply

    def _collect(self, events: Sequence[Event]) -> None:
        for event in events:
            self._collector.add(event)
        stop = self._collector.stop
        if stop is not None:
            message = Assistant(self._collector.content, stop=stop)
            self.reply = Reply(message, self._collector.usage, self._model)
