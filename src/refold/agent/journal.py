"""What a turn that was killed left behind: calls without a result, and what was said of its last reply.

A reply under way is written down from time to time, whole lines of it, in annotations that no view shows. A
short reply leaves none; what is forgotten later is found in them line by line.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from refold import entries as e
from refold.agent.overheard import INTERRUPTED
from refold.messages import Assistant, Call, Result, Text
from refold.protocols import Event, TextDelta
from refold.session import Session

NAME = "partial"
SECONDS = 2.0
"""Between two notes."""


class Journal:
    """Notes what one request after the other is answered."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session, self._clock = session, clock
        self._request, self._text, self._due = "", "", 0.0

    def begin(self, request: str) -> None:
        self._request, self._text, self._due = request, "", self._clock() + SECONDS

    def hear(self, event: Event) -> None:
        if not isinstance(event, TextDelta):
            return
        self._text += event.text
        if self._clock() >= self._due and "\n" in self._text:
            lines, _, self._text = self._text.rpartition("\n")
            noted = {"request": self._request, "text": f"{lines}\n"}
            session = self._session
            session.append(session.make(e.State, target=session.leaf, name=NAME, value=noted))
            self._due = self._clock() + SECONDS


def recovered(session: Session) -> Assistant | None:
    """What was noted of a reply that never came to its end, marked; None where there is none."""
    leaf = session.leaf
    if leaf is None or session.children(leaf):
        return None
    noted = [x.value for x in session.annotations(e.State) if x.name == NAME and x.target == leaf]
    text = "".join(note["text"] for note in noted if note["request"] == noted[-1]["request"])
    return Assistant((Text(text),), stop="aborted", error=INTERRUPTED) if text.strip() else None


def open_calls(session: Session) -> list[Call]:
    """The calls at the end of the path that wait for a result."""
    reply = session.last_reply
    if reply is None:
        return []
    later = [entry for entry in session.path[session.replies[-1] + 1 :] if isinstance(entry, e.MessageEntry)]
    if not all(isinstance(entry.message, Result) for entry in later):
        return []  # the conversation went on: the wire's rules stand in for what is missing
    answered = Counter(entry.message.call_id for entry in later if isinstance(entry.message, Result))
    waiting: list[Call] = []
    for call in reply.message.calls:
        answered[call.id] -= 1  # some providers give two calls the same id
        waiting += [call] if answered[call.id] < 0 else []
    return waiting
