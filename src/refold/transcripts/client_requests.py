"""Origins of texts in the requests of coding programs (to the gateway), by the same marks as in their files.

Texts are not split, so that what is sent on stays unchanged: a text that is entirely the program's gets its
origin, any other is the user's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from refold import messages as m
from refold.transcripts.codex_items import origin_of_injected
from refold.transcripts.origins import CLAUDE_CODE, CODEX, GEMINI, split_by_origin

_WRAPPERS = (*CLAUDE_CODE, *CODEX, *GEMINI)


def with_origins(messages: Sequence[m.Message]) -> list[m.Message]:
    """The messages, with the origin of every text in the user's role that a program wrote."""
    return [_user(message) if isinstance(message, m.User) else message for message in messages]


def _user(message: m.User) -> m.User:
    parts = tuple(map(_part, message.content))
    return message if parts == message.content else msgspec.structs.replace(message, content=parts)


def _part(part: m.AnyPart) -> m.AnyPart:
    if not isinstance(part, m.Text) or part.origin is not None:
        return part
    pieces, _ = split_by_origin(part.text, _WRAPPERS)
    origin = pieces[0].origin if len(pieces) == 1 else None
    return m.Text(part.text, origin or origin_of_injected(part.text))
