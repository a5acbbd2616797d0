"""Findings in one session. Pure: a session in, a value out, without secrets."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from refold import entries as e
from refold.compare.measures import count_words, flat, log_of, readable_text, stands, subject
from refold.compare.stats import PathCounter
from refold.facts.tools import actions, shown_by
from refold.facts.words import typed
from refold.messages import Message, Result, Usage
from refold.protocols import TokenCounter
from refold.session import Session
from refold.session.edits import active_folds, outermost, project_items, said_by
from refold.session.toolnames import kind
from refold.text.redact import redact
from refold.text.truncate import one_line

TRACKED_KINDS = ("words", "paths", "commands", "numbers")
"""What is searched for after a compaction: words the user typed, files, shell commands, numbers."""
MAX_EXAMPLES = 3
"""Examples quoted of each kind."""
EXAMPLE_CHARS = 160


class ToolTokens(msgspec.Struct):
    calls: int = 0
    tokens: int = 0
    """Of its results."""


class Again(msgspec.Struct):
    """A file that was read more than once."""

    path: str
    times: int = 0
    """Repeats after the first."""
    tokens: int = 0


class LostCount(msgspec.Struct, frozen=True):
    """Of this many items in the view before, this many are missing after."""

    gone: int = 0
    of: int = 0
    examples: tuple[str, ...] = ()


class PastCompaction(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction found in a log."""

    id: str
    time: float
    summarised: bool
    """True: a model wrote a summary; False: results were only cleared."""
    before: int
    """Tokens, as recorded by the program, otherwise counted."""
    after: int
    lost: dict[str, LostCount]
    """By kind."""
    again: tuple[Again, ...] = ()
    """Files read before it and again between it and the next."""


class Cache(msgspec.Struct):
    """Requests with cache figures from the provider."""

    requests: int = 0
    prompt: int = 0
    read: int = 0
    misses: int = 0
    """Requests that continued the one before and found less than half of its prompt cached."""
    missed: int = 0
    """Tokens of the previous prompt that these did not find."""


class SessionFindings(msgspec.Struct, kw_only=True):
    """Findings in one session."""

    file: str
    format: str
    place: str = ""
    """Name to use in commands: the file, with a number if it holds several sessions."""
    id: str = ""
    title: str = ""
    folder: str = ""
    time: float = 0.0
    messages: int = 0
    tokens: int = 0
    tools: dict[str, ToolTokens] = {}
    again: list[Again] = []
    """Files of which the same part was read again with no change in between."""
    cache: Cache = msgspec.field(default_factory=Cache)
    compactions: list[PastCompaction] = []


def examine_session(
    session: Session, counter: TokenCounter, *, file: str = "", format: str = ""
) -> SessionFindings:
    book = PathCounter(session, counter)
    repeated: dict[str, Again] = {}
    for one in book.repeats():
        again = repeated.setdefault(one.path, Again(_shown(one.path)))
        again.times += one.times - 1
        again.tokens += one.tokens
    said = (message for entry in session.path if (message := said_by(entry)) is not None)
    return SessionFindings(
        file=file,
        format=format,
        id=session.id,
        title=_shown(next((text for message in said if (text := typed(message))), "")),
        folder=session.info.cwd or "",
        time=max((entry.time for entry in session.path), default=0.0),
        messages=book.messages,
        tokens=book.roles.total(),
        tools={_shown(tool.name): ToolTokens(tool.calls, tool.result_tokens) for tool in book.tools.values()},
        again=sorted(repeated.values(), key=lambda one: -one.tokens),
        cache=_cache(session.path),
        compactions=list(_compactions(session, counter)),
    )


def _shown(text: str) -> str:
    return one_line(redact(text)[0], EXAMPLE_CHARS)


# ── the cache ───────────────────────────────────────────────────────────────────────────────────


def _cache(path: Iterable[e.AnyPathEntry]) -> Cache:
    found, before = Cache(), 0
    for entry in path:
        if isinstance(entry, e.Fold):
            before = 0  # what comes now begins otherwise
        usage = entry.usage if isinstance(entry, e.MessageEntry) else None
        if usage is None or not usage.prompt:
            continue
        _add(found, usage, before)
        before = usage.prompt
    return found if found.read else Cache()  # this provider has no cache, or says nothing of it


def _add(found: Cache, usage: Usage, before: int) -> None:
    found.requests += 1
    found.prompt += usage.prompt
    found.read += usage.cache_read
    if usage.prompt >= before and usage.cache_read < before / 2:
        found.misses += 1
        found.missed += before - usage.cache_read


# ── compactions ─────────────────────────────────────────────────────────────────────────────────


def views(session: Session) -> Iterator[tuple[e.Fold, list[Message], list[Message]]]:
    """All compactions, with the view before and after each."""
    folds = active_folds(session.path)
    for count, fold in enumerate(folds):
        path = session.path[: session.position(fold.id)]
        before, after = (
            [item.message for _, item in project_items(path, outermost(folds[:end], session.position))]
            for end in (count, count + 1)
        )
        yield fold, before, after


def _compactions(session: Session, counter: TokenCounter) -> Iterator[PastCompaction]:
    folds = list(views(session))
    reads = _reads(session, counter) if folds else []
    places = [session.position(fold.id) or 0 for fold, _, _ in folds]
    ends = [*places, len(session.path)][1:]
    for (fold, before, after), place, end in zip(folds, places, ends, strict=True):
        known = {path for at, path, _ in reads if at < place}
        again: dict[str, Again] = {}
        for _, path, tokens in (read for read in reads if place < read[0] < end and read[1] in known):
            one = again.setdefault(path, Again(_shown(path)))
            one.times += 1
            one.tokens += tokens
        yield PastCompaction(
            id=fold.id,
            time=fold.time,
            summarised=bool(fold.summary),
            before=fold.tokens_before or sum(map(counter.message, before)),
            after=sum(map(counter.message, after)),
            lost=lost(before, readable_text(after)),
            again=tuple(sorted(again.values(), key=lambda one: -one.tokens)),
        )


def _reads(session: Session, counter: TokenCounter) -> list[tuple[int, str, int]]:
    """Files read by file tools or shell commands such as `cat`: position on the path, file, and tokens of the
    result."""
    found: list[tuple[int, str, int]] = []
    pending: dict[str, list[str]] = {}
    folder = session.info.cwd or ""
    for at, entry in enumerate(session.path):
        message = said_by(entry)
        for call in message.calls if message else ():
            if shown_by(call) == "read":
                paths = (posixpath.join(folder, action.path) for action in actions(call))
                pending[call.id] = list(dict.fromkeys(paths))
        if isinstance(message, Result) and not message.is_error:
            paths = pending.pop(message.call_id, [])
            size = session.cached_count(entry.id, message, counter) if paths else 0
            found += [(at, path, size // len(paths)) for path in paths]
    return found


def lost(before: list[Message], after: str) -> dict[str, LostCount]:
    """Items in the view before that are missing from the text after. Each counts once."""
    log = log_of(before, identifiers=False)
    calls = (call for message in before for call in message.calls if kind(call.name) == "bash")
    commands = {flat(line): 1 for call in calls for line in subject(call) if line.strip()}
    stood: dict[str, Mapping[str, int]] = {
        "words": log.typed,
        "paths": dict.fromkeys(sorted(log.paths), 1),
        "commands": commands,
        "numbers": dict.fromkeys(sorted(log.numbers), 1),
    }
    text = flat(after)
    found: dict[str, LostCount] = {}
    for name, sizes in stood.items():
        gone = Counter({value: size for value, size in sizes.items() if not stands(value, text)})
        examples = tuple(
            _shown(value) for value in sorted(gone, key=count_words, reverse=True)[:MAX_EXAMPLES]
        )
        found[name] = LostCount(gone.total(), sum(sizes.values()), examples)
    return found
