"""Answers to the slash commands of Claude Code."""

from __future__ import annotations

import re
from pathlib import Path

from refold import tokens
from refold.entries import Fold, key
from refold.errors import UsageError
from refold.facts.words import typed
from refold.plugins.compaction_texts import grow
from refold.recall import index_of, search
from refold.recall.tool import tool_answer
from refold.registry.client_sessions import folders, install_session
from refold.registry.engine import Engine
from refold.registry.sessions import load
from refold.session import Session
from refold.session.edits import edit_stretches, said_by
from refold.text.frames import quote
from refold.text.plural import counted
from refold.text.truncate import one_line
from refold.transcripts.export import export
from refold.transcripts.resume import Resumable

LEDGER_ROWS = 10
_KEY = re.compile(r"#\d+|[a-z2-7]{7}")


def _transcript(id: str) -> Path:
    found = sorted(folders()["claude-code"].glob(f"*/{id}.jsonl"))
    if not found:
        raise UsageError(f"Claude Code has no session {id} in {folders()['claude-code']}")
    return found[0]


def _session(id: str) -> Session:
    return grow(_transcript(id), id)


def recall(id: str, given: str) -> str:
    """Messages by key, or by content."""
    index, words = index_of(_session(id)), given.split()
    keys = [word for word in words if _KEY.fullmatch(word) and index.by_key(word)]
    return tool_answer(index, {"keys": keys} if words and keys == words else {"query": given})


def pin(id: str, given: str) -> str:
    """Pins the message with this key, or the best match for a text; default: what was typed last."""
    session = _session(id)
    if session.store is None:
        raise UsageError("the store is busy: try again")
    index = index_of(session)
    if not given:
        texts = ((entry.id, typed(said)) for entry in reversed(session.path) if (said := said_by(entry)))
        chosen = next((id for id, text in texts if text and not text.startswith("<command-")), None)
    else:
        doc, hits = index.by_key(given), search(index, given, limit=1)
        chosen = doc.entry_id if doc else hits[0].entry_id if hits else None
    if chosen is None:
        raise UsageError(
            f"no message matches {given!r}: give other words, or a key that /refold:recall shows"
        )
    Engine().pin(session, chosen)
    said = said_by(session[chosen])
    text = quote(one_line(said.text if said else "", 200))
    return f'Pinned {key(chosen)}: "{text}". It is given back, word for word, after every compaction.'


def ledger(id: str, _: str) -> str:
    """What compactions removed from the context, newest first, with the largest messages of each."""
    session, counter = _session(id), tokens.get()
    told: list[str] = []
    for fold in reversed(session.annotations(Fold)):
        covered = [
            entry
            for x in edit_stretches((fold,), session.position)
            for entry in session.path[x.first : x.last + 1]
        ]
        lost = [(counter.message(said), entry.id, said) for entry in covered if (said := said_by(entry))]
        sizes = f"{fold.tokens_before:,} → {fold.tokens_after:,} tokens" if fold.tokens_after else "compacted"
        told.append(f"{sizes}; {counted(len(lost), 'message')} left the context, the largest:")
        for size, entry, said in sorted(lost, key=lambda row: -row[0])[:LEDGER_ROWS]:
            told.append(f"  {key(entry)}  {size:7,} tokens  {said.role}: {quote(one_line(said.text, 80))}")
    return "\n".join([*told, "/refold:recall KEY shows one."] if told else ["Nothing was compacted."])


def undo(id: str, _: str) -> str:
    """The session without its newest compaction, as a new one of Claude Code."""
    session = load(_transcript(id))
    Engine().undo(session)
    exported = export(session, "claude-code")
    assert isinstance(exported, Resumable)
    install_session(exported)
    return (
        f"The session without its last compaction is {exported.id}.\n"
        f"Type /resume {exported.id}, or `{exported.command}` in a terminal. This one stays as it is."
    )


SLASH_COMMANDS = {"recall": recall, "pin": pin, "ledger": ledger, "undo": undo}
