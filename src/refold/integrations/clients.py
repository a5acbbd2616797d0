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

from refold.integrations.conversation import CollectedReply, Conversation, ModelCall, send_folded, sent_aside
from refold.loop import beside, run
from refold.messages import Assistant
from refold.models.reply import Collector
from refold.models.stream_chunks import Malformed, StreamReader
from refold.protocols import Event
from refold.session import View

C = TypeVar("C")
RequestBody = dict[str, Any]
STATE_ATTRIBUTE = "_refold"
"""The attribute under which a wrapped client keeps its conversation."""


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call: the conversation's list, and what belongs to the call."""

    messages: Sequence[Any]
    system: str | None
    tools: Sequence[Any]


@dataclass(frozen=True)
class Endpoint:
    """One way to call a model, as the body of a request."""

    asked: Callable[[RequestBody], CallArguments | None]
    """None if the history is not in the body."""
    body: Callable[[RequestBody, CallArguments, View], RequestBody]
    """The body with the view in place of the history."""
    reader: Callable[[], StreamReader]


@dataclass(frozen=True)
class WrappedCall:
    conversation: Conversation
    endpoint: Endpoint
    body: RequestBody
    asked: CallArguments

    async def take(self) -> tuple[ModelCall, RequestBody]:
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
        """False if there are several answers: the caller chooses one and passes it with the next list."""
        return self.body.get("n") in (None, 1)


def wrapped(client: C, conversation: Conversation, endpoints: Mapping[str, Endpoint]) -> C:
    """A copy of the client that keeps the conversation inside the window."""
    copy: Any = cast(Any, client).copy()
    send: Callable[..., Any] = copy.post

    def begin(path: str, body: object, options: Mapping[str, Any]) -> WrappedCall | None:
        endpoint = endpoints.get(path.partition("?")[0])
        if endpoint is None or not isinstance(body, dict):
            return None
        whole = given({**cast(RequestBody, body), **(options.get("extra_json") or {})})
        asked = endpoint.asked(whole)
        return None if asked is None else WrappedCall(conversation, endpoint, whole, asked)

    def without_extra(options: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value for key, value in options.items() if key != "extra_json"}

    def post(path: str, *, body: object = None, options: Mapping[str, Any] = {}, **more: Any) -> Any:
        call = begin(path, body, options)
        if call is None:
            return send(path, body=body, options=options, **more)
        rest = {"options": without_extra(options), **more}
        turn, reply = send_folded(call.take, lambda shown: send(path, body=shown, **rest))
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
    setattr(copy, STATE_ATTRIBUTE, conversation)
    return copy


def given(body: RequestBody) -> RequestBody:
    """A body without "not given" values: plain JSON."""
    plain = (str, int, float, list, tuple, dict, type(None))
    return {key: value for key, value in body.items() if isinstance(value, plain)}


def conversation_of(client: Any) -> Conversation | None:
    return getattr(client, STATE_ATTRIBUTE, None)


# ── what came back ──────────────────────────────────────────────────────────────────────────────


def _is_whole(reply: Any) -> bool:
    """True for a complete reply, which is appended at once; a stream is appended at its end. A raw
    response is read by the caller and comes with the next list."""
    return hasattr(reply, "model_dump")


def _tee(call: WrappedCall, turn: ModelCall, chunks: Iterator[Any]) -> Iterator[Any]:
    heard = _Heard(call)
    for chunk in chunks:
        if reply := heard.add(chunk):  # before the last piece is handed on: a caller may stop there
            run(turn.answered(reply))
        yield chunk
    if reply := heard.end():
        run(turn.answered(reply))


async def _atee(call: WrappedCall, turn: ModelCall, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
    heard = _Heard(call)
    async for chunk in chunks:
        if reply := heard.add(chunk):
            await beside(turn.answered(reply))
        yield chunk
    if reply := heard.end():
        await beside(turn.answered(reply))


class _Heard:
    """Records a stream. An unreadable piece ends the recording, not the stream."""

    def __init__(self, call: WrappedCall) -> None:
        self._model = call.model
        self._reader: StreamReader | None = call.endpoint.reader()
        self._collector = Collector()

    def add(self, chunk: Any) -> CollectedReply | None:
        """The whole reply, with the piece that ends it."""
        try:
            return self._reply(self._reader.read(chunk)) if self._reader else None
        except (Malformed, OSError):
            self._reader = None
            return None

    def end(self) -> CollectedReply | None:
        return self._reply(self._reader.end()) if self._reader else None

    def _reply(self, events: Sequence[Event]) -> CollectedReply | None:
        for event in events:
            self._collector.add(event)
        if self._collector.stop is None:
            return None
        self._reader = None
        message = Assistant(self._collector.content, stop=self._collector.stop)
        return CollectedReply(message, self._collector.usage, self._model)
