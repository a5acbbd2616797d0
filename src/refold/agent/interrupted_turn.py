"""What a turn that was broken off leaves behind: what was said of its last reply, calls without a result.

A reply under way is written down from time to time, whole lines of it, in annotations that no view shows. A
short reply leaves none; what is forgotten later is found in them line by line.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from refold import entries as e
from refold.errors import ModelError
from refold.messages import Assistant, Call, Content, Result, Text, Thinking
from refold.models.reply import Collector, closing
from refold.models.retry import Wrapped
from refold.protocols import Event, Model, Request, TextDelta
from refold.session import Session

PARTIAL_STATE, BEGUN_STATE = "partial", "begun"
SECONDS = 2.0
"""Between two notes."""
INTERRUPTED = "interrupted: the reply is not complete"


class Overheard(Wrapped):
    """A model whose replies are heard and noted as they come. Keeps what has come of the reply under way.
    `begin` is awaited before each attempt, with its number since the last whole reply and why the one before
    failed, and gives the id of the request."""

    def __init__(
        self,
        model: Model,
        session: Session,
        begin: Callable[[int, str], Awaitable[str]],
        hear: Callable[[Event], None],
    ) -> None:
        super().__init__(model)
        self._session, self._begin, self._hear = session, begin, hear
        self.clock = time.monotonic
        self._attempts, self._failure = 0, ""
        self._collector: Collector | None = None
        self._request, self._text, self._due = "", "", 0.0

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        self._attempts += 1
        self._collector = None
        self._request = await self._begin(self._attempts, self._failure)
        self._text, self._due = "", self.clock() + SECONDS
        self._collector = collector = Collector()
        self._failure = "the reply was cut off before its end"
        try:
            async with closing(self.model.stream(request)) as events:
                async for event in events:
                    collector.add(event)
                    if isinstance(event, TextDelta):
                        self._note(event.text)
                    self._hear(event)
                    yield event
        except ModelError as error:
            self._failure = str(error)
            raise

    def _note(self, piece: str) -> None:
        self._text += piece
        if self.clock() >= self._due and "\n" in self._text:
            lines, _, self._text = self._text.rpartition("\n")
            noted = {"request": self._request, "text": f"{lines}\n"}
            session = self._session
            session.append(session.make(e.State, target=session.leaf, name=PARTIAL_STATE, value=noted))
            self._due = self.clock() + SECONDS

    def whole(self) -> None:
        """The reply is in the log."""
        self._attempts, self._failure, self._collector = 0, "", None

    def partial(self) -> Assistant | None:
        """What was said of a reply that is not to come any more, marked; None where that is nothing. Its
        calls were never run and are left out, so is thinking, which is only valid with all it led to."""
        collector = self._collector
        self.whole()
        parts: Content = () if collector is None else collector.content
        said = tuple(part for part in parts if not isinstance(part, Call | Thinking))
        return Assistant(said, stop="aborted", error=INTERRUPTED) if said else None


def recovered(session: Session) -> Assistant | None:
    """The part of an unfinished reply that was noted, marked as such; None if there is none."""
    leaf = session.leaf
    if leaf is None or session.children(leaf):
        return None
    noted = [x.value for x in session.annotations(e.State) if x.name == PARTIAL_STATE and x.target == leaf]
    text = "".join(note["text"] for note in noted if note["request"] == noted[-1]["request"])
    return Assistant((Text(text),), stop="aborted", error=INTERRUPTED) if text.strip() else None


def begin(session: Session, calls: Sequence[Call]) -> None:
    """Note that these calls are about to be run."""
    ids = [call.id for call in calls]
    session.append(session.make(e.State, target=session.leaf, name=BEGUN_STATE, value=ids))


def never_begun(session: Session) -> Callable[[Call], bool]:
    """Whether a call that waits for its result was not even begun: begun ones are noted."""
    notes = [x for x in session.annotations(e.State) if x.name == BEGUN_STATE]
    since = {entry.id for entry in session.path[session.replies[-1] :]} if session.replies else set[str]()
    begun = {id for note in notes if note.target in since for id in note.value}
    return lambda call: bool(notes) and call.id not in begun  # without any note the log is not ours


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
