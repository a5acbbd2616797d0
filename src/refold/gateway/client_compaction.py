"""Compaction calls of coding agents, answered with a record of the conversation instead of a model's summary.

A program that compacts asks its model for a summary and goes on with what comes back. Such a call is
recognised by `CALLS` alone; what none of its rows describes is passed on. The record ends with a reference to
the session: requests that carry it are expanded from the session, so that the fold can be undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple, cast

from refold.compaction.record import HEAD
from refold.compaction.transcript import Source, Style, render
from refold.gateway.requests import PROMPTS, ConversationRequest, since
from refold.gateway.signed_reference import Reference
from refold.messages import Assistant, Message, Result, compact_json, result
from refold.preserve.words import typed
from refold.registry.configuration import GatewaySettings
from refold.session import Session, View
from refold.session.dialects.common import list_or_empty
from refold.session.edits import said_by
from refold.session.path_digests import digest_at
from refold.text.lenient_json import JsonObject

RECORD_STYLE = Style(result_limit=0, system=None)
_REFERENCE = re.compile(r"^\[refold record ([\w.+-]+)#(\w+)\.([0-9a-f]{32})\]$", re.MULTILINE)
"""A session, an entry, and the digest of all that is said up to it: known to those alone who know that."""
_CLEARED = "[Old tool result content cleared]"
_RESULT = 1_000
"""Characters of a result that a call tells at least."""
_NEXT_CALL, _NEXT_RESULT = r"\n\[Assistant tool call\]: ", r"\n\[Tool result\]: "
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
_CONVERSATION = re.compile(r"<conversation>\n(.*)\n</conversation>", re.DOTALL)


class CompactionPrompt(NamedTuple):
    """How one program asks for a summary, and how it goes on with it."""

    program: str
    versions: tuple[str, ...]
    """Those it was tested with."""
    dialect: str
    mark: bytes
    """Stands in every such call."""
    asks: re.Pattern[str]
    """The text that asks: the last one of the request."""
    told: bool
    """The conversation is told inside that text; otherwise it stands before it."""
    tools: bool
    """Has the call the tools of the conversation?"""
    answer: str
    carrier: str
    """Whose message carries the summary from then on."""
    carries: re.Pattern[str]
    """How its text begins."""


COMPACTION_PROMPTS = (
    CompactionPrompt(
        "Claude Code",
        ("2.1.197",),
        "anthropic",
        b"CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
        re.compile(
            r"CRITICAL: Respond with TEXT ONLY\. Do NOT call any tools\.\n.{0,1000}?\n\n"
            r"Your task is to create a detailed summary of the conversation so far, paying close attention",
            re.DOTALL,
        ),
        told=False,
        tools=True,
        answer="<summary>\n{record}\n</summary>",
        carrier="user",
        carries=re.compile(r"This session is being continued from a previous conversation"),
    ),
    CompactionPrompt(
        "Codex",
        ("0.166.0",),
        "responses",
        b"You are performing a CONTEXT CHECKPOINT COMPACTION.",
        re.compile(
            r"You are performing a CONTEXT CHECKPOINT COMPACTION\. Create a handoff summary for another LLM"
        ),
        told=False,
        tools=False,
        answer="{record}",
        carrier="user",
        carries=re.compile(r"Another language model started to solve this problem"),
    ),
    CompactionPrompt(
        "opencode",
        ("1.18.18",),
        "openai",
        b"You are a context summarization agent.",
        re.compile(r"Here is the conversation so far:\n\n<conversation>\n"),
        told=True,
        tools=False,
        answer="{record}",
        carrier="assistant",
        carries=re.compile(""),
    ),
)
_MARKS = (b"[refold record ", *(row.mark for row in COMPACTION_PROMPTS))


class CompactionCall(NamedTuple):
    """A compaction call."""

    row: CompactionPrompt
    asked: ConversationRequest
    """What stands before the text that asks."""
    text: str
    """The text that asks."""

    @property
    def told(self) -> str:
        """The conversation, where that text tells it."""
        found = _CONVERSATION.search(self.text) if self.row.told else None
        return found[1] if found else ""


def is_candidate(settings: GatewaySettings, raw: bytes) -> bool:
    """Has this body to be read, however short it is?"""
    return settings.compaction and any(mark in raw for mark in _MARKS)


def compaction_call(asked: ConversationRequest, raw: bytes) -> CompactionCall | None:
    """The compaction call that a request certainly is."""
    for row in COMPACTION_PROMPTS:
        if row.dialect != asked.dialect or row.mark not in raw or not asked.said:
            continue
        *before, last = asked.said
        *blocks, text = _texts(last) or [""]
        if last.get("role") != "user" or not row.asks.match(text):
            continue
        if bool(asked.body.get("tools")) != row.tools or (row.told and (before or blocks)):
            continue
        kept = [*before, *([{**last, "content": list_or_empty(last["content"])[:-1]}] if blocks else [])]
        return CompactionCall(row, since(asked, [*asked.wire[: asked.prompts], *kept], None), text)
    return None


def referring(asked: ConversationRequest, holds: Callable[[str, str, str, str], bool]) -> ConversationRequest:
    """The request with what a record stands for in the place of the record, where the reference is to a
    session of the same owner and the same name, which `holds` that entry; otherwise as it came."""
    for n, message in enumerate(asked.said):
        for row in COMPACTION_PROMPTS:
            texts = (
                _texts(message) if (row.dialect, row.carrier) == (asked.dialect, message.get("role")) else []
            )
            at = next((at for at, text in enumerate(texts) if row.carries.match(text)), None)
            found = None if at is None else _REFERENCE.search(texts[at])
            if at is None or found is None or not _is_same(asked, found[1]):
                continue
            if not holds(asked.owner, *found.groups()):
                continue
            blocks = list_or_empty(message.get("content"))
            rest = [block for k, block in enumerate(blocks) if k != at]
            kept: list[JsonObject] = [{**message, "content": rest}] if rest else []
            wire = [*asked.wire[: asked.prompts], *kept, *asked.said[n + 1 :]]
            return since(asked, wire, Reference(found[1], found[2], "", 0))
        if message.get("role") not in ("user", *PROMPTS):
            break  # a summary is what the conversation begins with
    return asked


class CoveredHistory(NamedTuple):
    """How far a call tells a session."""

    entries: int
    """Of its path, so many."""
    session: str
    leaf: str


def told_until(call: CompactionCall, session: Session) -> CoveredHistory | None:
    """Up to where the call tells all that was said in the session, but for what its reference stands for.
    What it does not tell may be another user's: a first message is no proof."""
    reference = _REFERENCE.search(call.text)
    path, count = list(session.path), 0
    if reference is not None:
        if reference[1] != session.id or not is_reference_to(
            session, reference[2], reference[3], call.asked.owner
        ):
            return None
        count = next((at for at, entry in enumerate(path, 1) if entry.id == reference[2]), 0)
    told, cleared = _words(call.told), call.told.count(_CLEARED)
    for entry in path[count:]:
        said = said_by(entry)
        if isinstance(said, Result) and _words(said.text[:_RESULT]) not in told:
            cleared -= 1
        if cleared < 0 or (said is not None and not all(_words(text) in told for text in _own_texts(said))):
            break
        count += 1
    return CoveredHistory(count, session.id, path[count - 1].id) if count else None


def _own_texts(said: Message) -> list[str]:
    """What a program tells of a message: what was typed or answered, and what tools were called with."""
    if not isinstance(said, Assistant):
        return [] if isinstance(said, Result) else [typed(said)]
    values = [value for call in said.calls for value in call.arguments.values()]
    return [said.text, *(compact_json(value)[1:-1] for value in values if isinstance(value, str))]


def _words(text: str) -> str:
    return " ".join(text.split())


def is_reference_to(session: Session, entry: str, digest: str, owner: str) -> bool:
    """Is this the digest of what is said up to that entry, made for this owner?"""
    return entry in session and compare_digest(_digest(session, entry, owner), digest)


def _digest(session: Session, entry: str, owner: str) -> str:
    if not session[entry].on_path:
        return ""
    said = digest_at(session, entry)
    return blake2b(said + owner.encode(), digest_size=16).hexdigest() if owner else said.hex()[:32]


def _is_same(asked: ConversationRequest, session: str) -> bool:
    return session.rpartition(".")[0] == asked.session.rpartition(".")[0]


def _texts(message: JsonObject) -> list[str]:
    """The blocks of a message as texts; others are empty."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = [
        cast("JsonObject", block) if isinstance(block, dict) else {} for block in list_or_empty(content)
    ]
    return [str(block.get("text", "")) for block in blocks]


def told_results(call: CompactionCall, session: Session) -> list[Result]:
    """Results of the newest reply that the call tells of and no request has held."""
    reply = session.last_reply
    calls = reply.message.calls if reply is not None and session.path[-1].id == reply.id else ()
    texts = [re.split(_NEXT_CALL, text)[0].strip() for text in re.split(_NEXT_RESULT, call.told)[1:]]
    return [
        result(each.id, text, name=each.name)
        for each, text in zip(reversed(calls), reversed(texts), strict=False)
    ][::-1]


def notes_of(text: str) -> str:
    """What a model wrote to such a call, without what the program throws away."""
    found = _SUMMARY.search(text)
    return (found[1] if found else _ANALYSIS.sub("", text)).strip()


def record_text(view: View, session: Session, leaf: str, owner: str = "") -> str:
    """The view as one text, for this owner."""
    texts = [_told(item.message) for item in view.items]
    reference = f"[refold record {session.id}#{leaf}.{_digest(session, leaf, owner)}]"
    return "\n\n".join([*(text for text in texts if text), reference])


def _told(message: Message) -> str:
    """The record of a fold as it is; all else as what it is: clipped messages have calls, too."""
    is_record = message.role == "user" and HEAD in message.text[: len(HEAD) + 2]
    return message.text if is_record else render([Source("", message)], RECORD_STYLE)
