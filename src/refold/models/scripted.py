"""A model that follows a script: for tests, demonstrations and dry runs.

    model = Scripted("First answer.", say("Look:", call("c1", "Read", path="a.py")), fail(Overflow("…")))
    reply = await complete(model, request)
    assert model.requests[0].purpose == "chat"

A line of the script is a string, a message, a `ScriptedReply`, an exception to raise, or a function of the
request that gives one of these. A line with a `purpose` waits for a request of that purpose; the others are
taken in order. A request that finds no line is a mistake of the test and raises `ScriptExhausted`, which is
an `AssertionError` and no `ModelError`: nothing that handles a failing model can swallow it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import msgspec

from refold.errors import ModelError, RefoldError
from refold.messages import AnyPart, Assistant, Call, Content, Stop, Text, Thinking, Usage, content
from refold.protocols import Event, PartDone, Request, Stopped, TextDelta, ThinkingDelta, UsageSeen

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
PIECE = 24
"""Characters of one delta."""


class ScriptExhausted(AssertionError, RefoldError):
    """No line of the script is for a request. An error of refold: it passes every guard unchanged."""


class ScriptedReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply, and what goes wrong after it."""

    content: Content = ()
    stop: Stop | None = None
    """None: `tool_use` if there are calls, otherwise `end`."""
    usage: Usage | None = None
    delay: float = 0.0
    """Seconds before the first event."""
    pace: float = 0.0
    """Seconds before each piece."""
    error: Exception | None = None
    """Raised after the content."""
    stalls: bool = False
    """True: nothing follows the content."""
    cut: bool = False
    """The stream ends after the content, without a stop."""
    purpose: str | None = None
    """Only for requests of this purpose."""

    @property
    def stopped(self) -> Stop:
        calls = any(isinstance(part, Call) for part in self.content)
        return self.stop or ("tool_use" if calls else "end")


ScriptedAnswer: TypeAlias = "str | Assistant | ScriptedReply | Exception"
ScriptStep: TypeAlias = "ScriptedAnswer | Callable[[Request], ScriptedAnswer]"


def say(
    *said: str | AnyPart,
    stop: Stop | None = None,
    usage: Usage | None = None,
    delay: float = 0.0,
    pace: float = 0.0,
    purpose: str | None = None,
) -> ScriptedReply:
    """A reply of these parts: `say(thinking("…"), "Let me look.", call("c1", "Read", path="a.py"))`."""
    return ScriptedReply(
        content=content(said), stop=stop, usage=usage, delay=delay, pace=pace, purpose=purpose
    )


def fail(error: Exception, *said: str | AnyPart, purpose: str | None = None) -> ScriptedReply:
    """Raises `error`, optionally after some content."""
    return ScriptedReply(content=content(said), error=error, purpose=purpose)


def stall(*said: str | AnyPart, purpose: str | None = None) -> ScriptedReply:
    """Stalls, optionally after some content."""
    return ScriptedReply(content=content(said), stalls=True, purpose=purpose)


def cut(*said: str | AnyPart, purpose: str | None = None) -> ScriptedReply:
    """Ends the stream without a stop, as a broken proxy does."""
    return ScriptedReply(content=content(said), cut=True, purpose=purpose)


class Scripted:
    """Follows a script and keeps its requests. `then` answers what the script does not."""

    def __init__(
        self,
        *script: ScriptStep,
        name: str = "scripted:script",
        context_window: int | None = None,
        then: ScriptStep | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self.requests: list[Request] = []
        self.open = 0
        """Number of open streams; 0 once every one has ended or was closed."""
        self._script = list(script)
        self._then = then
        self._sleep = sleep

    @property
    def left(self) -> int:
        """Replies that were not requested yet."""
        return len(self._script)

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        self.requests.append(request)
        step = self._next(request)
        line = as_line(step(request) if callable(step) else step)
        self.open += 1
        try:
            async for event in self._perform(line):
                yield event
        finally:
            self.open -= 1

    def _next(self, request: Request) -> ScriptStep:
        for at, step in enumerate(self._script):
            wanted = step.purpose if isinstance(step, ScriptedReply) else None
            if wanted in (None, request.purpose):
                return self._script.pop(at)
        if self._then is not None:
            return self._then
        waiting = sorted({s.purpose or "" for s in self._script if isinstance(s, ScriptedReply)})
        rest = f"; lines are left only for {', '.join(waiting)}" if waiting else ""
        raise ScriptExhausted(
            f"{self.name}: request {len(self.requests)} (purpose {request.purpose!r}) "
            f"finds no line in the script{rest}"
        )

    async def _perform(self, line: ScriptedReply) -> AsyncIterator[Event]:
        if line.delay:
            await self._sleep(line.delay)
        for part in line.content:
            for event in events_of(part):
                if line.pace:
                    await self._sleep(line.pace)
                yield event
        if line.stalls:
            await asyncio.Event().wait()
        if line.error is not None:
            raise line.error
        if line.cut:
            return
        if line.usage is not None:
            yield UsageSeen(line.usage)
        yield Stopped(line.stopped)


def as_line(answer: ScriptedAnswer) -> ScriptedReply:
    """What an answer of the script says."""
    match answer:
        case str():
            return say(answer)
        case Exception():
            return ScriptedReply(error=answer)
        case Assistant(stop="error" | "aborted"):
            error = ModelError(answer.error or f"the reply was {answer.stop}")
            return ScriptedReply(content=answer.content, error=error)
        case Assistant():
            return ScriptedReply(content=answer.content, stop=answer.stop)
        case ScriptedReply():
            return answer


def events_of(part: AnyPart) -> list[Event]:
    """The events a provider would stream for this part: pieces, then the whole part."""
    pieces: list[Event] = []
    if isinstance(part, Text):
        pieces += [TextDelta(piece) for piece in _pieces(part.text)]
    elif isinstance(part, Thinking):
        pieces += [ThinkingDelta(piece) for piece in _pieces(part.text)]
    return [*pieces, PartDone(part)]


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
