"""What a preset makes of a conversation: the text of its view, through the engine, without a model."""

from __future__ import annotations

from collections.abc import Iterable

from refold import Engine, Session, presets
from refold.compaction.plan import Plan
from refold.engine.maintenance import maintain
from refold.entries import MessageEntry
from refold.errors import RefoldError
from refold.loop import run
from refold.messages import Message


def folded(preset: str, entries: Iterable[MessageEntry], budget: int) -> list[Message]:
    """The messages that the model sees after one fold that was asked for."""
    session, parent = Session(), None
    for entry in entries:
        made = MessageEntry(id=entry.id, parent=parent, message=entry.message, time=entry.time)
        session.append(made)
        parent = made.id
    engine = Engine(presets.get(preset, budget=budget))
    run(maintain(engine.planner, session))
    plan = engine.plan(session, force=True)
    if isinstance(plan, Plan):
        run(engine.apply(session, plan))
    return engine.view(session).messages


def preset_names() -> list[str]:
    """The presets that load."""
    found: list[str] = []
    for name in presets.NAMES:
        try:
            presets.get(name)
        except (RefoldError, ImportError):
            continue
        found.append(name)
    return found
