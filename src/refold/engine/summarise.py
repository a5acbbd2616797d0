"""Asking for summaries: by a model or by the embedded digest, whole or in chunks, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec

from refold.compaction.answer import text_of
from refold.compaction.plan import Ask
from refold.compaction.requests import MARGIN, fits
from refold.compaction.situation import Writer
from refold.compaction.transcript import Source
from refold.digest import Source as DigestSource
from refold.digest import digest
from refold.entries import key
from refold.errors import BadAnswer, ModelError, Overflow
from refold.messages import Assistant, Text, Usage, User, in_full, user
from refold.models.reply import Reply, complete
from refold.models.retry import Retry
from refold.protocols import Model, Request, TokenCounter
from refold.session import redacted
from refold.text.redact import redact

DEPTH = 6
"""Summaries of summaries of summaries …: more levels than this and nothing gets smaller."""


class Answer(msgspec.Struct, frozen=True):
    text: str
    requests: int = 0
    usage: Usage = Usage()


class Summariser(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def uses_model(self) -> bool: ...

    async def answer(self, ask: Ask, /) -> Answer: ...


def writer_of(summariser: Summariser) -> Writer | None:
    """What a decision may know of whoever writes summaries; None where it is no model."""
    if not summariser.uses_model:
        return None
    window = summariser.window or summariser.model.context_window if isinstance(summariser, ByModel) else None
    return Writer(summariser.name, window)


async def ask_all(
    summariser: Summariser,
    asks: Sequence[Ask],
    *,
    timeout: float | None = None,  # noqa: ASYNC109
) -> list[Answer]:
    """The answers to several questions, asked side by side. The first failure ends the others."""
    async with asyncio.timeout(timeout):
        tasks = [asyncio.ensure_future(summariser.answer(ask)) for ask in asks]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class ByModel:
    """Summaries written by a model. A head larger than the model's window is summarised in chunks, and
    the summaries of the chunks are summarised again."""

    model: Model
    counter: TokenCounter
    window: int | None = None
    parallel: int = 4
    temperature: float | None = None
    retries: Retry = Retry()

    def __post_init__(self) -> None:
        # A semaphore belongs to the loop it was first waited for in, an engine may be used in several.
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def uses_model(self) -> bool:
        return True

    async def answer(self, ask: Ask, /) -> Answer:
        window = self.window or self.model.context_window
        request = ask.prefix() if ask.prefix else None
        output = request.max_tokens or ask.target_tokens if request else 0
        if request is None or not fits(self._size(request), output, window):
            return await self._alone(ask, window)
        try:
            return await self._ask(ask, request)
        except Overflow as overflow:
            answer = await self._alone(ask, overflow.window or window)
            return msgspec.structs.replace(answer, requests=answer.requests + 1)

    async def _alone(self, ask: Ask, window: int | None) -> Answer:
        try:
            return await self._within(ask, window, DEPTH)
        except Overflow as overflow:
            # The window was unknown or smaller than declared: the refusal says how small, or we halve.
            request = ask.render(ask.sources, ask.previous)
            smaller = overflow.window or self._size(request) // 2
            answer = await self._within(ask, min(smaller, window or smaller), DEPTH)
            return msgspec.structs.replace(answer, requests=answer.requests + 1)

    async def _within(self, ask: Ask, window: int | None, depth: int) -> Answer:
        request = ask.render(ask.sources, ask.previous)
        room = None if window is None else int(window * MARGIN) - (request.max_tokens or ask.target_tokens)
        if room is None or self._size(request) <= room:
            return await self._ask(ask, request)
        if depth == 0 or room <= 0:
            raise BadAnswer("too_large", "the head cannot be summarised within the summariser's window")
        return await self._in_chunks(ask, window, room, depth)

    async def _in_chunks(self, ask: Ask, window: int | None, room: int, depth: int) -> Answer:
        chunks = list(self._chunks(ask, room))
        if len(chunks) < 2:
            raise BadAnswer("too_large", "the prompt alone fills the summariser's window")
        parts = [
            replace(ask, sources=chunk, previous=ask.previous if number == 0 else None)
            for number, chunk in enumerate(chunks)
        ]
        answers = await ask_all(_Level(self, window, depth - 1), parts)
        sources = tuple(
            Source(chunk[-1].id, user(f"[Summary of part {number} of {len(chunks)}]\n{answer.text}"))
            for number, (chunk, answer) in enumerate(zip(chunks, answers, strict=True), 1)
        )
        whole = await self._within(replace(ask, sources=sources, previous=None), window, depth - 1)
        return Answer(
            whole.text,
            whole.requests + sum(a.requests for a in answers),
            total([whole.usage, *(a.usage for a in answers)]),
        )

    def _chunks(self, ask: Ask, room: int) -> Iterator[tuple[Source, ...]]:
        """Consecutive sources that fit into `room` together; a source that is too large comes in pieces."""
        empty = self._size(ask.render((), ask.previous))
        share, chunk, used = max(room - empty, room // 4), list[Source](), 0
        for source in ask.sources:
            for piece in self._pieces(ask, source, share):
                size = max(self._size(ask.render((piece,), None)) - self._size(ask.render((), None)), 1)
                if chunk and used + size > share:
                    yield tuple(chunk)
                    chunk, used = [], 0
                chunk.append(piece)
                used += size
        if chunk:
            yield tuple(chunk)

    def _pieces(self, ask: Ask, source: Source, share: int) -> Iterator[Source]:
        whole = self._size(ask.render((source,), None)) - self._size(ask.render((), None))
        if whole <= share:
            yield source
            return
        text, parts = redact(in_full(source.message))[0], whole // share + 1
        step = max(len(text) // parts, 1)
        speaker = User if isinstance(source.message, User) else Assistant
        for start in range(0, len(text), step):
            piece = f"[{source.message.role}, continued in pieces]\n{text[start : start + step]}"
            yield Source(source.id, speaker((Text(piece),)))

    async def _ask(self, ask: Ask, request: Request) -> Answer:
        if self.temperature is not None:
            request = msgspec.structs.replace(request, temperature=self.temperature)
        gate = self._gates.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.parallel))
        async with gate:
            reply: Reply = await complete(self.model, request, retries=self.retries)
        return Answer(ask.accept(text_of(reply.message)), 1, reply.usage or Usage())

    def _size(self, request: Request) -> int:
        system = self.counter.text(request.system) if request.system else 0
        system += self.counter.tools(request.tools) if request.tools else 0
        return system + sum(self.counter.message(message) for message in request.messages)


@dataclass
class _Level:
    """The same summariser, one level deeper in a tree of chunks."""

    by: ByModel
    window: int | None
    depth: int

    @property
    def name(self) -> str:
        return self.by.name

    @property
    def uses_model(self) -> bool:
        return True

    async def answer(self, ask: Ask, /) -> Answer:
        return await self.by._within(ask, self.window, self.depth)


@dataclass
class ByDigest:
    """Summaries without a model: deterministic extraction, no request."""

    counter: TokenCounter

    @property
    def name(self) -> str:
        return "digest"

    @property
    def uses_model(self) -> bool:
        return False

    async def answer(self, ask: Ask, /) -> Answer:
        sources = [
            DigestSource(
                message=redacted.message(s.message), id=s.id, key=key(s.id), turn=s.turn, time=s.time or None
            )
            for s in ask.sources
        ]
        size = sum(self.counter.message(source.message) for source in ask.sources)
        budget = min(ask.target_tokens, max(size // 2, 100))
        summary = digest(sources, budget=budget, counter=self.counter, previous=ask.previous or "")
        return Answer(ask.accept(summary.render() or "(nothing of note)"))


def total(usages: Sequence[Usage]) -> Usage:
    return Usage(
        input=sum(u.input for u in usages),
        output=sum(u.output for u in usages),
        cache_read=sum(u.cache_read for u in usages),
        cache_write=sum(u.cache_write for u in usages),
    )


def failure_code(error: BaseException) -> str:
    """One word for what went wrong, for the log."""
    match error:
        case BadAnswer(code=code):
            return code
        case TimeoutError():
            return "timeout"
        case Overflow():
            return "overflow"
        case ModelError():
            return "model"
        case _:
            return "error"
