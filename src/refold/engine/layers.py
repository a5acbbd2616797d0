"""Layers around the history, where a design has them (E1, E2): the project's rules behind the system prompt,
as they were when the conversation began; behind everything a recap of open todos, and the rules where they
changed. None of this is ever part of the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refold.compaction.path_index import path_index
from refold.compaction.preset import Preset
from refold.compaction.requests import ACKNOWLEDGEMENT
from refold.messages import Message, text, user
from refold.session import Item, Session, View
from refold.session.invariants import settled
from refold.text.frames import element, frame
from refold.text.truncate import middle

RULES_FILE = "CODE_LAW.md"
INTRODUCTION = "Rules of this project. They hold for everything you do here."
RULES_BYTES = 4_000_000
"""What is read of a file of rules."""
CHANGED = (
    "The project's rules changed during this conversation. Those in the system prompt no longer hold; now:"
)
NO_RULES = " there are none."
RULES_LIMIT = 100_000
"""Characters of the rules that are sent; of a longer file the middle is left out."""


def rules_of(preset: Preset, session: Session) -> str:
    """The rules at the root of the session's project (without one: our own), where the design has them."""
    if not preset.settings.layers:
        return ""
    from pathlib import Path

    from refold.tools.workspace import read_contained  # with all tools: not needed to start with

    root = Path(session.info.cwd or ".")
    try:
        name = rules_file(path.name for path in root.iterdir())
    except OSError:  # a folder of another machine
        return ""
    rules = read_contained(root, name, RULES_BYTES).decode("utf-8", "replace") if name else ""
    return middle(rules, RULES_LIMIT)


def rules_file(names: Iterable[str]) -> str | None:
    """Which of the files at the project root holds the rules: `CODE_LAW.md`, whatever its case."""
    spellings = sorted(name for name in names if name.casefold() == RULES_FILE.casefold())
    return RULES_FILE if RULES_FILE in spellings else next(iter(spellings), None)


def with_rules(system: str | None, rules: str) -> str | None:
    """The system prompt, which is a stable prefix, with the rules behind it."""
    if not rules.strip():
        return system
    stable = (system or "").strip()
    law = f"{INTRODUCTION}\n{element('project_rules', rules.strip(), source=RULES_FILE)}"
    return f"{stable}\n\n{law}" if stable else law


def with_recap(preset: Preset, session: Session, view: View, changed: str | None = None) -> View:
    """The view with the open todos and the rules that `changed` since the conversation began at its end,
    unless a call waits for its result there, or there is no room."""
    texts: list[str] = []
    if changed is not None:
        rules = changed.strip()
        texts.append(CHANGED + ("\n" + element("project_rules", rules) if rules else NO_RULES))
    if todos := path_index(session).state.open_todos:
        rows = "\n".join(f"- [{todo.status}] {todo.text}" for todo in todos)
        texts.append(frame("todos", rows, note="Open todos, as they stand:"))
    if not texts or not settled(items := view.items):
        return view
    recap = user([text(each) for each in texts])
    return _with(preset, view, [*items, Item(recap)], recap)


def with_workspace(preset: Preset, view: View, workspace: str) -> View:
    """The view with a text about the work in front of the history, unless there is no room (D4)."""
    at = next((n for n, item in enumerate(view.items) if item.message.role != "system"), len(view.items))
    put = (user(workspace), ACKNOWLEDGEMENT)
    return _with(preset, view, [*view.items[:at], *map(Item, put), *view.items[at:]], *put)


def _with(preset: Preset, view: View, items: Sequence[Item], *added: Message) -> View:
    """A view with more messages, where they fit."""
    tokens = view.tokens + sum(map(view.counter.message, added))
    if tokens > preset.window:
        return view
    return View(items, counter=view.counter, count=lambda: tokens, system=view.system, tools=view.tools)
