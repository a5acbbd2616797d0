"""Situations small enough to be counted by hand: a token is a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction.plan_context import PlanContext
from refold.session import Projection


class Words:
    """A token is a word; a message has no frame."""

    name = "words"

    def text(self, text: str) -> int:
        return len(text.split())

    def message(self, message: m.Message) -> int:
        thoughts = (part.text for part in message.parts if isinstance(part, m.Thinking))
        calls = (str(call.arguments) for call in message.calls)
        return sum(map(self.text, (message.text, *thoughts, *calls)))

    def tools(self, tools: Sequence[Any]) -> int:
        return len(tools)


WORDS = Words()


def many(name: str, count: int) -> str:
    """That many words."""
    return " ".join(f"{name}{n}" for n in range(1, count + 1))


def session_of(*messages: m.Message) -> Session:
    """Entries are called e0, e1 …"""
    entries: list[Any] = []
    for n, message in enumerate(messages):
        entries.append(e.MessageEntry(id=f"e{n}", parent=f"e{n - 1}" if n else None, message=message))
    return Session(entries)


def context(
    *messages: m.Message, window: int = 100, session: Session | None = None, **more: Any
) -> PlanContext:
    session = session or session_of(*messages)
    chosen = {"counter": WORDS, "measure": WORDS, **more}
    return PlanContext(session=session, projection=Projection(session), window=window, **chosen)
