"""Requests: two ways to ask for a summary, and the system prompt in front of a conversation.

*Cached prefix*: the last chat request once more, byte for byte, followed by one instruction. The provider has
that prefix in its cache, so the history costs a tenth of what it costs to send it as a transcript.
*Stand-alone*: a transcript and a prompt, for any model, the conversation's own or another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from refold import entries as e
from refold.compaction.prompts import load
from refold.compaction.situation import Situation
from refold.costs import same_model
from refold.messages import Assistant, Message, user
from refold.protocols import Request
from refold.session import Session
from refold.session.dialects.tools import given_tools
from refold.text.frames import element

Form: TypeAlias = Literal["stand-alone", "cached-prefix"]
Wanted: TypeAlias = Literal["auto", "stand-alone", "cached-prefix"]

MARGIN = 0.95
"""How much of the summariser's window is used: its own count may differ from ours."""
PROMPT = 600
"""Tokens of a summariser's instruction."""


def fits(size: int, output: int, window: int | None) -> bool:
    """Does a request of this size, with this much to answer, go into a window? Into one nobody knows, yes."""
    return window is None or size <= int(window * MARGIN) - output


def choose(s: Situation, wanted: Wanted, *, ttl: float, redact: bool, output: int) -> Form:
    """The form in which this summary will be asked for.

    `auto` continues the chat where that reads a cache: the same model writes the summary, its last reply is
    younger than `ttl` seconds, and system prompt or tools were handed over, so that the prefix is known.
    Secrets cannot be taken out of a prefix; a model that is known to be another one never gets it while
    `redact` is on."""
    if wanted == "stand-alone" or s.writer is None or not _holds(s, output):
        return "stand-alone"
    chat = last_model(s.session)
    same = chat is not None and same_model(chat, s.writer.name)
    if wanted == "cached-prefix":
        return "cached-prefix" if same or chat is None or not redact else "stand-alone"
    has_prefix = bool(s.system or s.tools or s.projection.first)
    return "cached-prefix" if same and has_prefix and is_warm(s, ttl) else "stand-alone"


def _holds(s: Situation, output: int) -> bool:
    """Does the view, with the instruction and the answer, go into the summariser's window? A rough count says
    so, unless it is close."""
    window = s.writer.window if s.writer else None
    if window is None or s.sizes.rough > 2 * window:
        return window is None
    return fits(s.sizes.tokens + PROMPT, output, window)


def is_warm(s: Situation, ttl: float) -> bool:
    """Does the provider still hold the last request in its cache?"""
    last = s.session.last_reply
    return last is not None and 0 <= s.now - last.time < ttl


def last_model(session: Session) -> str | None:
    """The model that talks to the user: the newest one the path names. Costs what is new."""
    return session.followers.of(_Models, lambda: _Models(session)).newest()


class _Models:
    """The newest model that a path names, as far as it was read."""

    def __init__(self, session: Session) -> None:
        self.session, self.epoch, self.length = session, session.epoch, 0
        self.name: str | None = None

    def newest(self) -> str | None:
        path = self.session.path
        if self.epoch != self.session.epoch:
            self.epoch, self.length, self.name = self.session.epoch, 0, None
        for at in range(len(path) - 1, self.length - 1, -1):
            entry = path[at]
            if isinstance(entry, (e.MessageEntry, e.ModelChange)) and entry.model:
                self.name = entry.model
                break
        self.length = len(path)
        return self.name


def continued(s: Situation, instruction: str, *, max_tokens: int | None = None) -> Request:
    """The view as the next chat request would send it, and the instruction. What the last request sent ends
    before the newest reply: up to there the provider has it."""
    messages = tuple(item.message for item in s.items)
    replies = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], Assistant))
    sent = next(replies, len(messages))
    chat = Request(messages=messages[:sent], system=s.system, tools=given_tools(s.tools))
    return cached_prefix(chat, instruction, since=messages[sent:], max_tokens=max_tokens)


def cached_prefix(
    chat: Request,
    instruction: str,
    *,
    since: Iterable[Message] = (),
    max_tokens: int | None = None,
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
        purpose="summary",
    )


def stand_alone(
    prompt: str, *, max_tokens: int, purpose: str = "summary", timeout: float | None = None
) -> Request:
    """A prompt that holds all there is to read."""
    system = load("summariser_system")
    return Request(
        messages=(user(prompt),), system=system, max_tokens=max_tokens, purpose=purpose, timeout=timeout
    )


# ── layers in front of a conversation ───────────────────────────────────────────────────────────

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
    spellings = sorted(name for name in names if name.casefold() == RULES_FILE.casefold())
    return RULES_FILE if RULES_FILE in spellings else next(iter(spellings), None)
