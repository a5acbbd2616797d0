"""Maintenance of a design: what it does as turns end, whatever the size of the view."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

import msgspec

from refold import entries as e
from refold.compaction.plan import Failed, Proposal, Reason, finish, propose
from refold.compaction.planning import make_plan
from refold.engine.fold import record_failure
from refold.engine.hooks import perform_with_hooks
from refold.engine.limits import Deadline
from refold.engine.planner import Planner, PlanRequest
from refold.engine.replica import on_replica
from refold.engine.summarise import ByModel, ask_all, failure_code
from refold.errors import BadAnswer, RefoldError, sentence
from refold.hooks import log
from refold.models.reply import complete
from refold.protocols import Model, Request
from refold.session import Session

if TYPE_CHECKING:
    from refold.memory import MemoryParams

MEMORY_TIMEOUT = 120.0
"""Seconds that a model may take to compress long-term notes."""
NOTES_TIMEOUT = 60.0
"""Seconds that writing annotations may hold up a conversation."""


async def maintain(
    planner: Planner,
    session: Session,
    request: PlanRequest = PlanRequest(),
    *,
    limits: Deadline | None = None,
    notes: bool = True,
) -> None:
    """Write the annotations that the design keeps (`notes`: a watch does not), then perform its maintenance
    stages."""
    limits = limits or planner.limits()
    if notes:
        await write_notes(planner, session, request, limits)
    preset = planner.preset
    for stage in preset.stages:
        if not stage.maintenance:
            continue

        plan = await on_replica(
            session, lambda h: make_plan(preset, planner.context(h, request), maintenance_only=True)
        )
        if isinstance(plan, Reason):
            return
        if not await perform_with_hooks(planner, session, plan, limits):
            return


class Memory(Protocol):
    """Long-term notes (`refold.stores.memory_file.MemoryFile`)."""

    async def compress(
        self, params: MemoryParams, ask: Callable[[Request], Awaitable[str]] | None = None
    ) -> object: ...


def asker(model: Model) -> Callable[[Request], Awaitable[str]]:
    """Asks a model to compress notes; a `ModelError` or `BadAnswer` where it does not."""

    async def ask(request: Request) -> str:
        reply = (await complete(model, request, timeout=MEMORY_TIMEOUT)).message
        if reply.stop in ("length", "refusal", "error", "aborted") or reply.calls:
            raise BadAnswer("truncated", f"the answer of {model.name} was cut off or refused")
        return reply.text

    return ask


async def keep_memory(memory: Memory, planner: Planner) -> None:
    """At a turn's end: notes are compressed where there are too many (A19), by the model of summaries
    or by rule. Failure leaves them as they are."""
    from refold.memory import MemoryParams

    params = getattr(planner.preset.settings, "memories_params", MemoryParams())
    writer = planner.summariser.model if isinstance(planner.summariser, ByModel) else None
    try:
        await memory.compress(params, asker(writer) if writer else None)
    except (RefoldError, OSError) as error:
        log.warning("long-term notes were not compressed: %s", error)


async def write_notes(planner: Planner, session: Session, request: PlanRequest, limits: Deadline) -> None:
    """Write the annotations that the design keeps. Where the summariser fails, or this is cancelled while it
    is asked, the design's own rule writes them."""
    preset = planner.preset
    writer = preset.annotator()
    if writer is None:
        return
    proposal = await on_replica(session, lambda h: propose(writer, planner.context(h, request)))
    if not isinstance(proposal, Proposal):
        return

    def append(notes: Iterable[e.AnyAnnotation]) -> None:
        # The leaf may have moved meanwhile: a line names the end of its round, and holds there alone.
        session.extend(
            [msgspec.structs.replace(note, id=session.new_id(), time=session.clock()) for note in notes]
        )

    answers: list[str] = []
    try:
        texts = await ask_all(planner.summariser, proposal.asks, limits, timeout=NOTES_TIMEOUT)
        answers = [answer.text for answer in texts]
    except AssertionError:
        raise
    except asyncio.CancelledError:
        append(finish(proposal, ()).annotations)
        raise
    except Exception as error:
        failed = Failed(failure_code(error), sentence(error), proposal.strategy, limits.quota.spent)
        record_failure(session, preset.name, failed)
    append((await on_replica(session, lambda _: finish(proposal, answers))).annotations)
