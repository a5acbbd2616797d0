"""The loop (A22): interrupt? → prepare → request id → snapshot of the workspace → stream the reply → run its
tool calls → again, until the model is idle or has been asked often enough.

The loop itself is the engine's (`engine.call.run_turn`), and so are folding, counting, retries and what
happens when a context was too long. Added here: what a turn leaves behind however it ends. A reply that was
broken off is kept and marked, and every call has exactly one result, so that the next request is valid. A
call whose result is not in the log is never run again by itself: what it did is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from itertools import groupby

from refold import entries as e
from refold import messages as m
from refold.agent import events
from refold.agent.events import Tell
from refold.agent.interrupted_turn import Overheard, begin, never_begun, open_calls, recovered
from refold.engine.call import run_turn
from refold.loop import ended
from refold.messages import Assistant, Call, Result
from refold.protocols import Model, ToolSpec
from refold.registry.engine import Engine
from refold.session import Session
from refold.tools.base import Envelope, failure

ITERATIONS = 100
"""How often a model is asked in one turn, where the preset says nothing."""
OUTCOME_UNKNOWN = (
    "Interrupted, outcome unknown: it may have happened in full, in part or not at all. Look first."
)

LAST = "This turn has used all of its {most} requests. Call no tool: say what is done and what is open."
NOT_RUN = "Not run: the turn has used all of its requests."
NEVER_STARTED = "Not run: the turn was interrupted before this call began."
LIMIT_REACHED = failure("limit", NOT_RUN)

RunTool = Callable[[Call], Awaitable[Result]]


class Agent:
    """A conversation with a model that has tools."""

    def __init__(
        self,
        engine: Engine,
        session: Session,
        model: Model,
        run_tool: RunTool,
        *,
        tools: Sequence[ToolSpec] = (),
        together: Callable[[Call], bool] = lambda _: False,
        system: Callable[[], str] = lambda: "",
        snapshot: Callable[[str], Awaitable[str | None]] | None = None,
        before_asking: Callable[[], Awaitable[None]] | None = None,
        tell: Tell = events.silence,
        most: int | None = None,
    ) -> None:
        self.engine, self.session, self.tools, self.tell = engine, session, tools, tell
        self.run_tool, self.together, self.system, self.snapshot = run_tool, together, system, snapshot
        self.before_asking = before_asking
        self.most = most or engine.preset.tool_iterations or ITERATIONS
        self.model = model
        self._overheard = Overheard(
            model, session, self._begin, lambda event: tell(events.ReplyStreamed(event))
        )
        self._resumed = False
        self._finished: dict[str, Result] = {}
        """Results of calls that ran but are not in the log yet."""

    async def turn(self, said: m.Said) -> Assistant:
        """The model's answer to what the user says. Cancelling stops at any moment; however it ends, the
        session is left such that the conversation can go on."""
        self.resume()
        self.session.append(m.user(said))
        try:
            reply = await run_turn(self.session, self._run_calls, most=self.most, call=self._ask)
            self.settle(LIMIT_REACHED)
            return reply
        finally:
            if partial := self._overheard.partial():
                self.session.append(partial, model=self.model.name)
            self.settle()

    def resume(self) -> int:
        """Take up a session that may have been left in the middle of a turn: what was noted of its last reply
        is kept. Returns how many calls had no result."""
        if not self._resumed and (partial := recovered(self.session)):
            self.session.append(partial, model=self.model.name)
        self._resumed = True
        return self.settle()

    def settle(self, why: Envelope = failure("interrupted", OUTCOME_UNKNOWN)) -> int:
        """Give every call that waits for its result one; returns how many had none."""
        waiting, never = open_calls(self.session), never_begun(self.session)
        for call in waiting:
            reason = (
                failure("not_run", NEVER_STARTED) if never(call) and why.error != LIMIT_REACHED.error else why
            )
            self.session.append(self._finished.get(call.id, reason.result(call)))
        self._finished = {}
        return len(waiting)

    async def _ask(self, goes_on: bool) -> Assistant:
        """The last request of a turn that does not end still offers the tools, or a provider's cache would
        not know its prefix, and some refuse calls of tools they are not told. A note asks for an answer."""
        if not goes_on:
            text = m.text(LAST.format(most=self.most), "program")
            self.session.append(self.session.make(e.Note, content=(text,), kind="limit"))
        if self.before_asking is not None:
            await self.before_asking()
        system, tools = self.system(), self.tools
        reply = await self.engine.call(self.session, self._overheard, system=system, tools=tools)
        self._overheard.whole()
        self.tell(events.ReplyFinished(reply))
        return reply

    async def _begin(self, attempt: int, failure: str) -> str:
        """Before each request: its id, and the workspace as it is."""
        request = self.session.new_id()
        taken = await self.snapshot(request) if self.snapshot else None
        if taken is not None:
            noted = {"request": request, "snapshot": taken}
            self.session.append(
                self.session.make(e.State, target=self.session.leaf, name="snapshot", value=noted)
            )
        self.tell(events.RequestStarted(request, attempt, failure))
        return request

    async def _run_calls(self, calls: Sequence[Call]) -> AsyncGenerator[Result]:
        """In their order; those next to each other that may run together do."""
        self._finished = {}
        for together, group in groupby(calls, self.together):
            for batch in [list(group)] if together else [[call] for call in group]:
                begin(self.session, batch)
                tasks = [asyncio.ensure_future(self._run(call)) for call in batch]
                try:
                    for call, task in zip(batch, tasks, strict=True):
                        result = await task
                        self.tell(events.ToolFinished(call, result))
                        yield result
                finally:
                    await ended(tasks)

    async def _run(self, call: Call) -> Result:
        self.tell(events.ToolStarted(call))
        self._finished[call.id] = result = await self.run_tool(call)
        return result
