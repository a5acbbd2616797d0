"""Clipped forms of a session's entries, each made once."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from refold.messages import Assistant, Call, Message, Thinking
from refold.preserve.runs import shown_by
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.toolnames import Kind
from refold.shrink.clip import Body, body_of, clipped

_NONE: Mapping[int, int] = {}


class Form(msgspec.Struct, frozen=True, gc=False):
    """What an item becomes, and its size."""

    message: Message
    size: int


class Fact(msgspec.Struct, frozen=True, gc=False):
    """What a layout asks of an entry at every fold."""

    typed: bool
    """Is it what the user typed, or partly so?"""
    own: int
    """Tokens that the user typed into a message in which a program or a file says something too."""
    thinks: bool
    call: Call | None
    """The one that it is the result of."""
    made: int
    """How that call was made: calls that were made in the same way have the same number. 0: by none."""


class Clips:
    """Clipped forms of a session's entries, each made once. Kept beside the session (`session.followers`)."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[tuple[str, int, str], Form] = {}
        self._bodies: dict[tuple[str, str], Body | None] = {}
        self._sizes: dict[tuple[str, str], dict[int, int]] = {}
        """Of forms that were looked at, whether or not they are kept: by entry and counter, then by level."""
        self._facts: dict[str, dict[str, Fact]] = {}

    @classmethod
    def of(cls, session: Session) -> Clips:
        return session.followers.of(cls, lambda: cls(session))

    def form(self, id: str, message: Message, level: int, counter: TokenCounter, call: Call | None) -> Form:
        """The message of an entry at one level; level 0: whole, without its thinking."""
        key = (id, level, counter.name)
        known = self._known.get(key)
        if known is None:
            if level:
                number, kind = f"#{self.session.position(id)}", shown_by(call)
                body = self._body(id, message, counter, kind)
                small = clipped(message, level, counter, key=number, kind=kind, body=body)
            else:
                small = _without_thinking(message)
            known = self._known[key] = Form(small, counter.message(small))
            self._sizes.setdefault((id, counter.name), {})[level] = known.size
        return known

    def counted(self, counter: TokenCounter) -> dict[int, int]:
        """Sizes of the forms that are kept, by the identity of their messages."""
        return {id(form.message): form.size for key, form in self._known.items() if key[2] == counter.name}

    def sizes(self, id: str, counter: TokenCounter) -> Mapping[int, int]:
        """The sizes, by level, of the forms of an entry that were made before."""
        return self._sizes.get((id, counter.name), _NONE)

    def facts(self, counter: TokenCounter) -> dict[str, Fact]:
        """What is known of entries; whoever asks for another one adds it."""
        return self._facts.setdefault(counter.name, {})

    def _body(self, id: str, message: Message, counter: TokenCounter, kind: Kind) -> Body | None:
        key = (id, counter.name)
        if key not in self._bodies:
            self._bodies[key] = body_of(message, counter, kind)
        return self._bodies[key]

    def keep(self, used: set[tuple[str, int, str]], shown: set[str]) -> None:
        """Forget what the newest layout does not show: a clip is cheap to make and rarely wanted again."""
        self._known = {key: form for key, form in self._known.items() if key in used}
        self._bodies = {key: body for key, body in self._bodies.items() if key[0] in shown}
        self._sizes = {key: size for key, size in self._sizes.items() if key[0] in shown}
        self._facts = {
            name: {id: fact for id, fact in facts.items() if id in shown}
            for name, facts in self._facts.items()
        }


def _without_thinking(message: Message) -> Message:
    if not isinstance(message, Assistant):
        return message
    content = tuple(part for part in message.content if not isinstance(part, Thinking))
    return msgspec.structs.replace(message, content=content)
