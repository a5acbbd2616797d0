"""What every model has to do. Make a subclass, say how to build a model that gives these replies, run it.

class TestMine(ModelContract):
    @contextmanager
    def answering(self, *lines):
        with my_server(*lines) as server:
            yield MyModel(server.url)
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import ClassVar, TypeVar

from refold.errors import ModelError, Transient
from refold.messages import Call, Stop, Text, Usage, assistant, call, result, user
from refold.models.reply import Reply, closing, complete
from refold.models.retry import NO_RETRY
from refold.models.scripted import ScriptedReply, cut, say, stall
from refold.protocols import Event, Model, Request, Stopped, TextDelta, ToolSpec, UsageSeen

T = TypeVar("T")
READ_TOOL = ToolSpec("Read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
ASK = Request(messages=(user("Say something."),), system="Be brief.", tools=(READ_TOOL,), max_tokens=400)


class ModelContract(ABC):
    """Tests for pytest: inherit, and implement `answering`."""

    stops: ClassVar[tuple[Stop, ...]] = ("end", "length", "refusal")
    """Stop reasons that the provider can express."""

    @abstractmethod
    def answering(self, *lines: ScriptedReply) -> AbstractContextManager[Model]:
        """A model that gives these replies, in order."""

    def run(self, awaitable: Awaitable[T]) -> T:
        async def main() -> T:
            return await awaitable

        return asyncio.run(main())

    def ask(self, *lines: ScriptedReply, request: Request = ASK) -> Reply:
        with self.answering(*lines) as model:
            return self.run(_and_close(model, complete(model, request, retries=NO_RETRY)))

    def test_name_and_window(self) -> None:
        with self.answering() as model:
            provider, _, name = model.name.partition(":")
            assert provider
            assert name
            assert model.context_window is None or model.context_window > 0
            assert isinstance(model, Model)

    def test_text_comes_in_pieces_and_whole(self) -> None:
        said = "A reply of some length, with ünïcödé 🙂 and\nlines."
        with self.answering(say(said)) as model:
            events = self.run(_and_close(model, _events(model, ASK)))
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == said
        assert events[-1] == Stopped("end")
        assert sum(isinstance(e, Stopped) for e in events) == 1

    def test_reply_is_what_was_said(self) -> None:
        reply = self.ask(say("Hello.", usage=Usage(input=120, output=4)))
        assert reply.message.content == (Text("Hello."),)
        assert reply.message.stop == "end"
        assert reply.usage == Usage(input=120, output=4)

    def test_calls_in_parallel(self) -> None:
        calls = (call("c1", "Read", path="a.py"), call("c2", "Read", path="b/ü.py"))
        reply = self.ask(say("Let me look.", *calls))
        assert reply.message.calls == calls
        assert reply.text == "Let me look."
        assert reply.message.stop == "tool_use"

    def test_call_without_arguments(self) -> None:
        assert self.ask(say(call("c1", "List"))).message.calls == (Call("c1", "List"),)

    def test_stop_reasons(self) -> None:
        for stop in self.stops:
            assert self.ask(say("Some text", stop=stop)).message.stop == stop

    def test_usage_is_seen_before_the_stop(self) -> None:
        with self.answering(say("x")) as model:
            events = self.run(_and_close(model, _events(model, ASK)))
        kinds = [type(e) for e in events]
        if UsageSeen in kinds:
            assert kinds.index(UsageSeen) < kinds.index(Stopped)

    def test_history_with_tools_is_accepted(self) -> None:
        history = (
            user("Look at a.py"),
            assistant("", call("c1", "Read", path="a.py")),
            result("c1", "x = 1", name="Read"),
        )
        assert (
            self.ask(say("It sets x."), request=Request(messages=history, tools=(READ_TOOL,))).text
            == "It sets x."
        )

    def test_a_stream_that_was_cut_is_an_error(self) -> None:
        try:
            reply = self.ask(cut("It looks complete."))
        except Transient:
            return
        raise AssertionError(f"a fake completion: {reply}")

    def test_cancelling_ends_a_stalled_stream(self) -> None:
        async def main(model: Model) -> None:
            task = asyncio.ensure_future(complete(model, ASK, retries=NO_RETRY))
            await asyncio.sleep(0.3)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=5)
            assert done, "cancelling did not end it"
            assert task.cancelled()

        with self.answering(stall("Half")) as model:
            self.run(_and_close(model, main(model)))

    def test_closing_early_is_silent(self) -> None:
        async def main(model: Model) -> None:
            async with closing(model.stream(ASK)) as events:
                async for _ in events:
                    break

        with self.answering(say("word " * 200)) as model:
            self.run(_and_close(model, main(model)))

    def test_only_model_errors_come_out(self) -> None:
        try:
            self.ask(cut())
        except ModelError:
            return
        raise AssertionError("an empty stream is no reply")


async def _events(model: Model, request: Request) -> list[Event]:
    return [event async for event in model.stream(request)]


async def _and_close(model: Model, awaitable: Awaitable[T]) -> T:
    try:
        return await awaitable
    finally:
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()
