"""The loss ledger: what a fold takes out of the view, messages and files, and how to get it back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from refold import entries as e
from refold.compaction.details import FoldDetails
from refold.messages import Call, Result, compact_json, content
from refold.preserve.tools import actions
from refold.protocols import Steps, TokenCounter
from refold.session import Item, Session
from refold.text.frames import NOTE, frame
from refold.tokens.fitting import fit

ROWS = 32
"""Rows that are written between two breaths."""


def verbatim(items: Iterable[Item]) -> set[str]:
    """Entries that are shown as they were said."""
    return {item.entries[0] for item in items if item.fold is None}


def ledger(
    session: Session, before: Sequence[Item], after: Sequence[Item], counter: TokenCounter
) -> Steps[tuple[e.Lost, ...]]:
    """One row for every entry that was shown verbatim before and is not any more."""
    left, rows = verbatim(before) - verbatim(after), list[e.Lost]()
    for item in before:
        if item.fold is None and item.entries[0] in left:
            rows.append(_row(session, item, counter))
            if len(rows) % ROWS == 0:
                yield
    return tuple(rows)


def _row(session: Session, item: Item, counter: TokenCounter) -> e.Lost:
    id = item.entries[0]
    body = compact_json(msgspec.to_builtins(item.message)).encode("utf-8", "surrogatepass")
    return e.Lost(
        id=id,
        kind=item.message.role,
        size=session.cached_count(id, item.message, counter),
        hash=hashlib.blake2b(body, digest_size=8).hexdigest(),
        key=e.key(id),
    )


# ── freshness (R18): nobody may go on as if the model still saw a file ──────────────────────────

FILES = 5
TOKENS = 5_000


def reads_left(before: Sequence[Item], after: Sequence[Item]) -> Steps[tuple[str, ...]]:
    """Files whose text was in the view and is not any more, the most recently read last. A tool that
    answers "unchanged since you read it" must forget about these."""
    gone = _reads(before)
    yield
    for path in _reads(after):
        gone.pop(path, None)
    return tuple(gone)


def _reads(items: Sequence[Item]) -> dict[str, None]:
    """Files read in these items, by calls whose results are shown whole and were no failure."""
    calls: dict[str, Call] = {}
    paths: dict[str, None] = {}
    for item in items:
        calls.update((call.id, call) for call in item.message.calls)
        result = item.message
        if not isinstance(result, Result) or item.fold is not None or not is_readable(result):
            continue
        call = calls.get(result.call_id)
        for action in actions(call) if call else ():
            if action.verb == "view":
                paths.pop(action.path, None)
                paths[action.path] = None
    return paths


def is_readable(result: Result) -> bool:
    """A read that failed, was denied, or gave no text is nothing to bring back."""
    return not result.is_error and bool(result.text.strip()) and "\x00" not in result.text


def reinjection(
    session: Session,
    fold: e.Fold,
    read: Callable[[str], str | None],
    counter: TokenCounter,
    *,
    files: int = FILES,
    tokens: int = TOKENS,
) -> e.Note | None:
    """A note with the newest versions of the files whose text a fold took out of the view, at most `files`
    of them and `tokens` each, most recently read first in choice. `read` gives a file's text as it is now,
    or None (gone, denied, binary): such a file is left out."""
    blocks: list[str] = []
    for path in reversed(FoldDetails.of(fold).reads_left):
        if len(blocks) == files:
            break
        text = read(path)
        if text is None or not text.strip() or "\x00" in text:
            continue
        blocks.append(frame("file", fit(text, tokens, counter), source=path))
    if not blocks:
        return None
    note = "\n\n".join((NOTE, "Files in play, as they are now:", *reversed(blocks)))
    return session.make(e.Note, content=content(note), kind="files")
