"""Asking for summaries: by a model or by the embedded digest, whole or in chunks, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec

from refold import tracing, worker
from refold.compaction.plan import Ask, Failed
from refold.compaction.requests import MARGIN, fits, text_of
from refold.compaction.sizes import fixed_size
from refold.compaction.transcript import SummarySource, for_digest
from refold.engine.limits import Deadline, Metered, RequestQuota
from refold.errors import BadAnswer, ModelError, Overflow, PluginGuard, expect, sentence
from refold.loop import ended
from refold.messages import Assistant, Call, Result, Text, Usage, User, in_full, result, user
from refold.models.reply import AwaitedPluginGuard, checked_model, complete
from refold.models.retry import Retry
from refold.protocols import Model, Request, TokenCounter
from refold.session import redacted
from refold.session.validation import validated
from refold.text.redact import redact
from refold.text.truncate import head
from refold.tokens.fitting import fit

T = TypeVar("T")
SizeOf: TypeAlias = Callable[[Sequence[SummarySource]], int]
OUTPUT = 4
"""The answer takes at most this part of the summariser's window."""
PART = 16
"""The summary of a chunk at most this part: so many fit into one request that every level is far smaller."""
MIN_CONVERSATION_TOKENS = 64
"""Tokens of conversation that a request has to have room for."""
LONGEST = 1_000_000
"""Characters of an answer; nothing that long is a summary, and reading it would take long."""
CALLS = 5
"""Tool calls that a model may make before it summarises."""
HEADING_TOKENS = 16
"""Tokens of the words over the summary of a chunk, and of its frame."""


class Answer(msgspec.Struct, frozen=True):
    text: str
    requests: int = 0
    usage: Usage = Usage()


@runtime_checkable
class Summariser(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def uses_model(self) -> bool: ...

    async def answer(self, ask: Ask, /) -> Answer: ...


async def ask_all(
    summariser: Summariser,
    asks: Sequence[Ask],
    limits: Deadline,
    *,
    timeout: float | None = None,  # noqa: ASYNC109
) -> list[Answer]:
    """The answers to several questions, asked side by side. The first failure ends the others; so do the
    limits, and `timeout` where that is shorter."""
    if isinstance(summariser, ByModel):
        summariser = replace(summariser, quota=limits.quota)
    now = asyncio.get_running_loop().time()
    async with asyncio.timeout_at(limits.end if timeout is None else min(limits.end, now + timeout)):
        return await side_by_side([_answered(summariser, ask) for ask in asks])


async def _answered(summariser: Summariser, ask: Ask) -> Answer:
    """A summariser's answer, checked."""
    asked = PluginGuard("what the preset asks")
    with asked, AwaitedPluginGuard(f"the summariser {summariser.name!r}") as guard:
        answer = await summariser.answer(ask)
        if not isinstance(cast("object", answer), Answer):
            raise guard.refuse(answer, "an Answer(text) is wanted")
    answer = validated(answer)
    if len(answer.text) > LONGEST:
        limit = f"{len(answer.text):,} characters; the limit is {LONGEST:,}"
        raise BadAnswer("inflated", f"the summary has {limit}")
    return answer


def checked(summariser: Summariser) -> Summariser:
    """A summariser, if it is one and says plainly who it is."""
    with PluginGuard("the summariser"):
        expect(summariser, Summariser, "a summariser has a name, uses_model and answer(ask)")
        expect(summariser.name, str, "the name of a summariser must be a string")
        expect(summariser.uses_model, bool, "uses_model of a summariser must be True or False")
    return summariser


async def side_by_side(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        if tasks:  # not `gather`: cancelled, that would wait for tasks that ignore it
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()  # raises what ended the wait
        return [task.result() for task in tasks]
    finally:
        await ended(tasks)


SMALL_WINDOW = 32_000
"""Models with smaller windows write summaries that are worth no more than the newest messages."""


def writes_well(model: Model) -> bool:
    """Is a summary by this model worth its call? No local model's, and none of one with a small window."""
    return not model.name.startswith("local:") and (model.context_window or SMALL_WINDOW) >= SMALL_WINDOW


@dataclass
class ByModel:
    """Summaries written by a model. A head larger than the model's window is summarised in chunks, and
    the summaries of the chunks, each much shorter than its chunk, are summarised again."""

    uses_model = True
    model: Model
    counter: TokenCounter
    retries: Retry = Retry()
    quota: RequestQuota = field(default_factory=lambda: RequestQuota(inf))
    """How many requests are allowed: any number, unless a fold says otherwise."""
    run_tool: Callable[[Call], Awaitable[Result | None]] | None = None
    """Runs a read-only tool that the model calls before it summarises (A24); gives None for any other."""

    def __post_init__(self) -> None:
        checked_model(self.model)

    @property
    def name(self) -> str:
        return self.model.name

    async def answer(self, ask: Ask, /) -> Answer:
        question = _Question(self, ask, Metered(self.model, self.quota))
        text = await question.text(self.model.context_window)
        return Answer(text, question.model.requests, total(question.usages))

    def size(self, request: Request) -> int:
        fixed = fixed_size(self.counter, request.system, request.tools)
        return fixed + sum(self.counter.message(message) for message in request.messages)


@dataclass
class _Question:
    """What one question takes: requests that go beyond a window, chunks and calls of tools included."""

    by: ByModel
    ask: Ask
    model: Metered
    usages: list[Usage] = field(default_factory=list[Usage])

    async def text(self, window: int | None) -> str:
        ask, by = self.ask, self.by
        request = ask.prefix() if ask.prefix else None
        if request and fits(by.size(request), request.max_tokens or ask.target_tokens, window):
            try:
                return await self._asked(request)
            except Overflow as overflow:
                window = overflow.window or window
        request = ask.render(ask.sources, ask.previous)
        size = by.size(request)
        by.quota.reads(ask.purpose, size, window)
        try:
            return await self._within(request, size, window)
        except Overflow as overflow:
            # The window was unknown or smaller than declared: the refusal says how small, or we halve. That
            # guess is no reason to ask more often.
            smaller = overflow.window or min(size, window or size) // 2
            if overflow.window or window is None:
                by.quota.reads(ask.purpose, size, smaller)
            return await self._within(request, size, min(smaller, window or smaller))

    async def _within(self, request: Request, size: int, window: int | None) -> str:
        """Whole where that fits, otherwise in chunks."""
        if window is None:
            return await self._asked(request)
        output = min(request.max_tokens or self.ask.target_tokens, window // OUTPUT)
        if fits(size, output, window):
            return await self._asked(request, output)
        return await self._in_chunks(window, output)

    async def _in_chunks(self, window: int, output: int) -> str:
        """What is larger than the window is read in parts; an earlier summary is the first thing to read."""
        ask, by = self.ask, self.by
        part, empty = max(min(ask.target_tokens, window // PART), 1), by.size(ask.render((), None))
        usable = int(window * MARGIN) - empty
        last, room = usable - output, usable - part  # tokens of conversation in the last request, in a chunk
        if min(last, room) < max(MIN_CONVERSATION_TOKENS, 2 * (part + HEADING_TOKENS)):
            raise BadAnswer("too_large", "the prompt alone fills the summariser's window")

        def size(sources: Sequence[SummarySource]) -> int:
            return max(by.size(ask.render(sources, None)) - empty, 1)

        sources = ask.sources
        if ask.previous:
            earlier = Assistant((Text(f"[Summary so far]\n{ask.previous}"),))
            sources = (SummarySource(sources[0].id, earlier), *sources)
        while size(sources) > last:
            chunks = list[tuple[SummarySource, ...]]()
            for chunk in _chunks(sources, room, size, by.counter):
                chunks.append(chunk)
                if len(chunks) >= by.quota.left:  # the last request asks for the whole
                    raise BadAnswer("too_large", "reading all of it would take too many requests")
            texts = await side_by_side([self._part(chunk, part, size) for chunk in chunks])
            sources = tuple(
                SummarySource(chunk[-1].id, user(f"[Summary of part {number} of {len(chunks)}]\n{text}"))
                for number, (chunk, text) in enumerate(zip(chunks, texts, strict=True), 1)
            )
        return await self._asked(ask.render(sources, None), output)

    async def _part(self, chunk: tuple[SummarySource, ...], most: int, size_of: SizeOf) -> str:
        """The summary of a chunk, cut to `most` tokens; one as long as the chunk is none."""
        text = await self._asked(self.ask.render(chunk, None), most)
        size = self.by.counter.text(text)
        if size > most and size >= size_of(chunk):
            raise BadAnswer("inflated", "the summary of a part is longer than the part")
        return text if size <= most else fit(text, most, self.by.counter, head)

    async def _asked(self, request: Request, output: int | None = None) -> str:
        """The answer to a request; of at most `output` tokens where that is less than it says itself."""
        if output is not None and request.max_tokens is not None and request.max_tokens > output:
            request = msgspec.structs.replace(request, max_tokens=output)
        calls = CALLS if self.ask.tools else 0
        async with self.by.quota.gate:
            reply = await self._reply(request)
            while reply.calls and calls > 0:
                results = [await self._result(call, n < calls) for n, call in enumerate(reply.calls)]
                calls -= len(results)
                request = msgspec.structs.replace(request, messages=(*request.messages, reply, *results))
                self.by.quota.answered_calls += 1
                reply = await self._reply(request)
        return self.ask.accept(text_of(reply))

    async def _reply(self, request: Request) -> Assistant:
        with tracing.model_call(self.model.name) as span:
            reply = await complete(self.model, request, retries=self.by.retries)
            tracing.replied(span, reply.message, reply.usage)
        self.usages.append(reply.usage or Usage())
        return reply.message

    async def _result(self, call: Call, may_run: bool) -> Result:
        done = await self.by.run_tool(call) if may_run and self.by.run_tool else None
        if done is not None:
            return cast("Result", redacted.message(done))
        text = "Not run: only what reads, and little of that, may be called now. Write the summary."
        return result(call.id, text, name=call.name, is_error=True)


def _chunks(
    sources: Sequence[SummarySource], room: int, size_of: SizeOf, counter: TokenCounter
) -> Iterator[tuple[SummarySource, ...]]:
    """Consecutive sources that fit into the room together. Of one that is too large head and end are read, in
    half a chunk: what stands beside it is read with it."""
    chunk, used = list[SummarySource](), 0
    for source in sources:
        size = size_of((source,))
        if size > room:
            speaker = User if isinstance(source.message, User) else Assistant
            text = fit(redact(in_full(source.message))[0], room // 2, counter)
            source = SummarySource(source.id, speaker((Text(text),)))
            size = size_of((source,))
        if chunk and used + size > room:
            yield tuple(chunk)
            chunk, used = [], 0
        chunk.append(source)
        used += size
    if chunk:
        yield tuple(chunk)


@dataclass
class ByDigest:
    """Summaries without a model: deterministic extraction, no request."""

    counter: TokenCounter

    name = "digest"
    uses_model = False

    async def answer(self, ask: Ask, /) -> Answer:
        # Not `ask.accept`: that reads what a model says, and what is quoted here may look like it.
        return Answer(await worker.run_in_worker(lambda: self._digest(ask)) or "(nothing of note)")

    def _digest(self, ask: Ask) -> str:
        sources = for_digest(ask.sources)
        enough, size = 2 * ask.target_tokens, 0
        for source in sources:
            size += self.counter.message(source.message)
            if size >= enough:
                break
        budget = min(ask.target_tokens, max(size // 2, 100))
        if ask.by_rule is not None:
            return ask.by_rule(sources, budget, self.counter)
        from refold.digest import digest

        return digest(sources, budget=budget, counter=self.counter, previous=ask.previous or "")


def total(usages: Sequence[Usage]) -> Usage:
    return Usage(*map(sum, zip(*map(msgspec.structs.astuple, usages), strict=True)))


def failed_by(error: BaseException, strategy: str = "", requests: int = 0) -> Failed:
    """What is written down of an error, with one word for what went wrong."""
    match error:
        case BadAnswer(code=code):
            pass
        case asyncio.CancelledError():
            code = "aborted"
        case TimeoutError():
            code = "timeout"
        case Overflow():
            code = "overflow"
        case ModelError():
            code = "model"
        case _:
            code = "error"
    return Failed(code, sentence(error), strategy, requests)
