"""The layers in front of a conversation: what never changes, then the rules of the project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from refold.text.frames import element

RULES_FILE = "CODE_LAW.md"
INTRODUCTION = "Rules of this project. They hold for everything you do here."


def layers(system: str, tool_prompts: Sequence[str] = (), rules: str | None = None) -> str:
    """The system prompt of a request: L1 (system prompt and tool prompts, a stable prefix), then L2 (the
    project's rules, read anew for every request). Neither is ever part of the history."""
    stable = "\n\n".join(text.strip() for text in (system, *tool_prompts) if text.strip())
    if rules is None or not rules.strip():
        return stable
    law = f"{INTRODUCTION}\n{element('project_rules', rules.strip(), source=RULES_FILE)}"
    return f"{stable}\n\n{law}" if stable else law


def rules_file(names: Iterable[str]) -> str | None:
    """Which of the files at the project root holds the rules: `CODE_LAW.md`, whatever its case."""
    found = sorted(name for name in names if name.casefold() == RULES_FILE.casefold())
    return RULES_FILE if RULES_FILE in found else next(iter(found), None)
