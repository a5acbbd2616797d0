"""Compaction calls of coding agents, answered with a record of the conversation instead of a model's summary.

A program that compacts asks its model for a summary and continues from the answer. `CALLS` alone recognises
such a call; any other request is passed on. The record ends with a reference to the session: requests that
contain it are expanded from the session, so that the fold can be undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from refold.compaction.record import HEAD
from refold.compaction.transcript import Style, SummarySource, render
from refold.facts.words import typed
from refold.gateway.requests import PROMPTS, ConversationRequest, since
from refold.gateway.signed_reference import Reference
from refold.messages import Assistant, Message, Result, compact_json, result
from refold.registry.configuration import GatewaySettings
from refold.session import Session, View
from refold.session.dialects.common import list_or_empty, object_or_empty
from refold.session.edits import said_by
from refold.session.path_digests import digest_at
from refold.text.lenient_json import JsonObject

RECORD_STYLE = Style(result_limit=0, system=None)
_REFERENCE = re.compile(r"^\[refold record ([\w.+-]+)#(\w+)\.([0-9a-f]{32})\]$", re.MULTILINE)
"""A session, an entry, and the digest of the conversation up to it, which only a program that knows the
conversation can compute."""
_CLEARED = "[Old tool result content cleared]"
_RESULT = 1_000
"""Minimum number of characters of a result that a call must contain."""
_NEXT_CALL, _NEXT_RESULT = r"\n\[Assistant tool call\]: ", r"\n\[Tool result\]: "
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
_CONVERSATION = re.compile(r"<conversation>\n(.*)\n</conversation>", re.DOTALL)


class CompactionPrompt(NamedTuple):
    """How one program asks for a summary, and how it uses it."""

    program: str
    versions: tuple[str, ...]
    """Versions it was tested with."""
    dialect: str
    mark: bytes
    """Text found in every such call."""
    asks: re.Pattern[str]
    """Pattern of the text that asks: the last one of the request."""
    told: bool
    """True if the conversation is inside that text, false if it precedes it."""
    tools: bool
    """True if the call has the tools of the conversation."""
    answer: str
    carrier: str
    """Role of the message that carries the summary afterwards."""
    carries: re.Pattern[str]
    """How the text of that message begins."""


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
    row: CompactionPrompt
    asked: ConversationRequest
    """The request without the text that asks."""
    text: str
    """The text that asks."""

    @property
    def told(self) -> str:
        """The conversation inside that text, if it is there."""
        found = _CONVERSATION.search(self.text) if self.row.told else None
        return found[1] if found else ""


def is_candidate(settings: GatewaySettings, raw: bytes) -> bool:
    """True if this body must be read, however short it is."""
    return settings.compaction and any(mark in raw for mark in _MARKS)


def compaction_call(asked: ConversationRequest, raw: bytes) -> CompactionCall | None:
    """The compaction call that a request is, or None if that is not certain."""
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
    """The request with a record replaced by the messages it stands for. The reference must be to a session of
    the same owner and name for which `holds` is true; otherwise the request is unchanged."""
    for n, message in enumerate(asked.said):
        for row in COMPACTION_PROMPTS:
            texts = (
                _texts(message) if (row.dialect, row.carrier) == (asked.dialect, message.get("role")) else []
            )
            at = next((at for at, text in enumerate(texts) if row.carries.match(text)), None)
            found = None if at is None else _REFERENCE.search(texts[at])
            if at is None or found is None or found[1].rpartition(".")[0] != asked.session.rpartition(".")[0]:
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
    """The part of a session that a call contains."""

    entries: int
    """Number of entries of the session's path."""
    session: str
    leaf: str


def told_until(call: CompactionCall, session: Session) -> CoveredHistory | None:
    """The part of the session's path that the call contains completely, apart from what its reference stands
    for. The rest may belong to another user, since equal first messages prove nothing."""
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
    """The parts of a message that a program repeats: typed and answered text, and the arguments of calls."""
    if not isinstance(said, Assistant):
        return [] if isinstance(said, Result) else [typed(said)]
    values = [value for call in said.calls for value in call.arguments.values()]
    return [said.text, *(compact_json(value)[1:-1] for value in values if isinstance(value, str))]


def _words(text: str) -> str:
    return " ".join(text.split())


def is_reference_to(session: Session, entry: str, digest: str, owner: str) -> bool:
    """True if this is the digest of the conversation up to that entry, for this owner."""
    return entry in session and compare_digest(_digest(session, entry, owner), digest)


def _digest(session: Session, entry: str, owner: str) -> str:
    if not session[entry].on_path:
        return ""
    said = digest_at(session, entry)
    return blake2b(said + owner.encode(), digest_size=16).hexdigest() if owner else said.hex()[:32]


def _texts(message: JsonObject) -> list[str]:
    """The blocks of a message as texts; other blocks are empty."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [str(object_or_empty(block).get("text", "")) for block in list_or_empty(content)]


def told_results(call: CompactionCall, session: Session) -> list[Result]:
    """Results that the call contains and that no earlier request had."""
    reply = session.last_reply
    calls = reply.message.calls if reply is not None and session.path[-1].id == reply.id else ()
    texts = [re.split(_NEXT_CALL, text)[0].strip() for text in re.split(_NEXT_RESULT, call.told)[1:]]
    return [
        result(each.id, text, name=each.name)
        for each, text in zip(reversed(calls), reversed(texts), strict=False)
    ][::-1]


def notes_of(text: str) -> str:
    """A model's answer to such a call, without the parts that the program discards."""
    found = _SUMMARY.search(text)
    return (found[1] if found else _ANALYSIS.sub("", text)).strip()


def record_text(view: View, session: Session, leaf: str, owner: str = "") -> str:
    """The view as one text, for this owner."""
    texts = [_told(item.message) for item in view.items]
    reference = f"[refold record {session.id}#{leaf}.{_digest(session, leaf, owner)}]"
    return "\n\n".join([*(text for text in texts if text), reference])


def _told(message: Message) -> str:
    """A message as text: the record of a fold verbatim, others with their calls."""
    is_record = message.role == "user" and HEAD in message.text[: len(HEAD) + 2]
    return message.text if is_record else render([SummarySource("", message)], RECORD_STYLE)
