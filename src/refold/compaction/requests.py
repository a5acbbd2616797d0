"""Two ways to ask for a summary, as requests.

*Cached prefix*: the last chat request once more, byte for byte, followed by one instruction. The provider has
that prefix in its cache, so the history costs a tenth of what it costs to send it as a transcript.
*Stand-alone*: a transcript and a prompt, for any model, the conversation's own or another.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from refold.messages import Message, user
from refold.protocols import Request
from refold.session.dialects.frames import frame


def cached_prefix(
    chat: Request,
    instruction: str,
    *,
    since: Iterable[Message] = (),
    max_tokens: int | None = None,
    timeout: float | None = None,
    purpose: str = "summary",
) -> Request:
    """The chat's own request, what was said `since` (its reply), and the instruction as the user's words.

    System prompt, tools, messages and sampling stay as they were: a difference in any of them would make
    the provider read everything anew. That is why tools are still offered; the instruction has to say
    that none may be called, and whoever takes the answer refuses one that calls."""
    return msgspec.structs.replace(
        chat,
        messages=(*chat.messages, *since, user(instruction)),
        stable=len(chat.messages),
        max_tokens=max_tokens,
        timeout=chat.timeout if timeout is None else timeout,
        purpose=purpose,
    )


def stand_alone(
    transcript: str,
    prompt: str,
    *,
    system: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    timeout: float | None = None,
    purpose: str = "summary",
) -> Request:
    """A transcript, framed as record so that nothing inside it can end the frame, and what to do with it."""
    return Request(
        messages=(user(f"{frame('transcript', transcript)}\n\n{prompt}"),),
        system=system,
        max_tokens=max_tokens,
        temperature=temperature,
        timeout=timeout,
        purpose=purpose,
    )
