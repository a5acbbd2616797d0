"""Layers around the history, where a design has them (E1, E2): the project's rules behind the system prompt,
read anew for every request, and a recap of open todos behind everything. Neither is ever part of the log."""

from __future__ import annotations

from pathlib import Path
from types import NoneType

from refold.compaction.preset import Preset
from refold.compaction.reading import reading
from refold.compaction.requests import layers, rules_file
from refold.errors import expect
from refold.messages import user
from refold.session import Item, Session, View
from refold.session.invariants import settled
from refold.text.frames import frame
from refold.text.truncate import middle
from refold.tools.workspace import read_contained

RULES_BYTES = 4_000_000
"""What is read of a file of rules."""
RULES_LIMIT = 100_000
"""Characters of the rules that are sent; of a longer file the middle is left out."""


def with_rules(preset: Preset, session: Session, system: str | None) -> str | None:
    """The system prompt with the rules at the root of the session's project (without one: our own)."""
    expect(session, Session, "pass a Session; a list of messages is merged into one")
    expect(system, (str, NoneType), "the system prompt is one text")
    if not preset.settings.layers:
        return system
    root = Path(session.info.cwd or ".")
    try:
        name = rules_file(path.name for path in root.iterdir())
    except OSError:  # a folder of another machine
        return system
    rules = read_contained(root, name, RULES_BYTES).decode("utf-8", "replace") if name else None
    return layers(system or "", rules=rules and middle(rules, RULES_LIMIT)) or None


def with_recap(preset: Preset, session: Session, view: View) -> View:
    """The view with the open todos at its end, unless a call waits for its result there."""
    todos = reading(session).state.open_todos if preset.settings.layers else ()
    items = view.items if todos else []
    if not todos or not settled(items):
        return view
    rows = "\n".join(f"- [{todo.status}] {todo.text}" for todo in todos)
    recap = user(frame("todos", rows, note="Open todos, as they stand:"))
    if view.tokens + view.counter.message(recap) > preset.window:
        return view
    return View(
        [*items, Item(recap)],
        counter=view.counter,
        count=lambda: view.tokens + view.counter.message(recap),
        system=view.system,
        tools=view.tools,
    )
