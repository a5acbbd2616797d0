"""Measures of what a view keeps of a log, without a judge.

Facts are read from the log and searched in the view's text. Nothing here uses the code that writes summaries
(a linter contract forbids it).
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold import messages as m
from refold.session import toolnames
from refold.text.sentences import spans

MEASURES = {
    "words": ("words", "words you typed"),
    "files": ("files", "changed files"),
    "needed": ("names", "names needed later"),
    "paths": ("paths", "touched files"),
    "calls": ("calls", "calls"),
    "numbers": ("numbers", "numbers"),
    "identifiers": ("identifiers", "identifiers in calls"),
}
"""Measures with their short and full names."""
DECIDING = ("words", "files", "needed")
"""The measures that rank presets; the others break ties."""
NEEDED_CUT = 0.75
"""The part of a log's messages that is folded for `needed`."""


class CountOf(msgspec.Struct, frozen=True):
    kept: int
    of: int

    @property
    def share(self) -> float | None:
        """Between 0 and 1; None if there is nothing to keep."""
        return self.kept / self.of if self.of else None


class LogFacts(msgspec.Struct, frozen=True):
    """Facts of a log that a view should keep, without duplicates."""

    typed: dict[str, int]
    """Sentences that the user typed, with their word counts."""
    files: frozenset[str]
    """Files that a call changed or created, by their shortest suffix unique among touched files."""
    paths: frozenset[str]
    """Files that a call read, changed, moved or deleted, in the same form."""
    calls: frozenset[tuple[str, ...]]
    """Arguments of calls: files, command, pattern, or all arguments of other tools."""
    numbers: frozenset[str]
    """Numbers of three digits and more, from the user or the assistant."""
    identifiers: frozenset[str]
    """Identifiers in the arguments of calls."""

    def kept(self, view: str) -> dict[str, CountOf]:
        """How much of it is in the text of a view, ignoring line breaks."""
        text = flat(view)
        typed = sum(size for sentence, size in self.typed.items() if stands(sentence, text))
        calls = sum(all(stands(value, text) for value in call) for call in self.calls)
        return {
            "words": CountOf(typed, sum(self.typed.values())),
            "files": present(self.files, text),
            "paths": present(self.paths, text),
            "calls": CountOf(calls, len(self.calls)),
            "numbers": present(self.numbers, text),
            "identifiers": present(self.identifiers, text),
        }


def log_of(messages: Iterable[m.Message], *, identifiers: bool = True) -> LogFacts:
    """The facts of messages. `identifiers`: include these, which takes a third of the time."""
    reader = _Reader(identifiers)
    for message in messages:
        reader.take(message)
    return reader.log()


class _Reader:
    def __init__(self, with_identifiers: bool) -> None:
        self.with_identifiers = with_identifiers
        self.typed: dict[str, int] = {}
        self.numbers: set[str] = set()
        self.identifiers: set[str] = set()
        self.calls: list[Sequence[str]] = []
        self.touched: set[str] = set()
        self.changed: set[str] = set()
        self.pending: dict[str, list[str]] = {}
        """Files that calls without a result would change."""
        self.opened: list[str] = []

    def take(self, message: m.Message) -> None:
        typed = [
            part.text for part in message.parts if isinstance(part, m.Text) and m.is_typed(message, part)
        ]
        for text in typed:
            sentences = (flat(text[start:end]) for start, end in spans(text))
            self.typed |= {sentence: size for sentence in sentences if (size := count_words(sentence))}
        for text in [message.text] if isinstance(message, m.Assistant) else typed:
            self.numbers.update(numbers(text))
        for call in message.calls:
            self._call(call)
        if isinstance(message, m.Result):
            changed = self.pending.pop(message.call_id, [])
            self.changed.update(() if message.is_error else changed)

    def _call(self, call: m.Call) -> None:
        touched, changed = files_of_call(call, self.opened)
        self.opened = touched[-1:] or self.opened
        self.touched.update(touched)
        self.pending[call.id] = changed
        self.calls.append(touched or subject(call))
        if self.with_identifiers:
            self.identifiers.update(identifiers(m.argument_text(call)))

    def log(self) -> LogFacts:
        names = short_names(self.touched)
        calls = {tuple(names.get(text, flat(text)) for text in call if text.strip()) for call in self.calls}
        return LogFacts(
            self.typed,
            frozenset(names[path] for path in self.changed),
            frozenset(names.values()),
            frozenset(calls - {()}),
            frozenset(self.numbers),
            frozenset(self.identifiers),
        )


# ── files ───────────────────────────────────────────────────────────────────────────────────────

_PATCH = re.compile(r"(?m)^\*\*\* (Add File|Update File|Delete File|Move to): (.+)$")
_CHANGES = frozenset({"edit", "write", "create"})


def files_of_call(call: m.Call, opened: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that a call names, and those it changes on success. Of shell commands only patches are read.
    An edit without a file concerns the one `opened` last."""
    what, text = toolnames.kind(call.name), m.argument_text(call)
    if "*** Begin Patch" in text:
        found = [(action, posixpath.normpath(path.strip())) for action, path in _PATCH.findall(text)]
        return [path for _, path in found], [path for action, path in found if action != "Delete File"]
    if what not in (*_CHANGES, "read", "delete", "move", "editor"):
        return [], []
    many = toolnames.argument(call, toolnames.MANY_PATHS)
    paths = [
        toolnames.text_argument(call, toolnames.PATHS),
        *(m.leaves(many) if isinstance(many, list) else ()),
    ]
    named = [posixpath.normpath(path.strip()) for path in paths if path.strip()]
    target = toolnames.text_argument(call, toolnames.TARGETS) if what == "move" else ""
    if target:
        return [*named, posixpath.normpath(target)], [posixpath.normpath(target)]
    if what == "edit":
        named = named or list(opened)
    changes = what in _CHANGES or (what == "editor" and call.arguments.get("command") != "view")
    return named, named if changes else []


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Path → its shortest unique suffix. A relative path is the file whose absolute path ends with it."""
    listed = sorted(set(paths))
    whole = {end: path for path in listed if path.startswith("/") for end in path_suffixes(path)}
    files = {path: whole.get(path, path) for path in listed}
    owners = Counter(end for file in set(files.values()) for end in path_suffixes(file))
    return {
        path: next((end for end in path_suffixes(file) if end and owners[end] == 1), file)
        for path, file in files.items()
    }


def path_suffixes(path: str) -> Iterator[str]:
    """`c.py`, `b/c.py`, `a/b/c.py` of `/a/b/c.py`."""
    parts = path.strip("/").split("/")
    return ("/".join(parts[at:]) for at in range(len(parts) - 1, -1, -1))


def subject(call: m.Call) -> Sequence[str]:
    """The subject of a call: its command or pattern, or every argument; of a text the first line."""
    command = toolnames.command_line(call) if toolnames.kind(call.name) == "bash" else ""
    main = command or toolnames.text_argument(call, toolnames.PATTERNS)
    lines = [text.strip().split("\n")[0] for text in ([main] if main else m.leaves(call.arguments))]
    return [line if len(line) <= 200 else line[:200].rpartition(" ")[0] for line in lines]


# ── words, numbers, identifiers ─────────────────────────────────────────────────────────────────

_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_NUMBER = re.compile(r"(?<![\w.,])\d(?:[\d.,]*\d)?(?!\w)", re.ASCII)
_RUN = re.compile(r"\w(?:[\w./@+-]*\w)?", re.ASCII)
_FILE = re.compile(r"[\w@+-][\w.@+-]*\.[a-z]\w{0,4}", re.ASCII)
_SHAPE = re.compile(
    r"_|[a-z][A-Z]|[A-Z]{2}[a-z]|/.*/|\.[a-z]\w{0,4}$|[A-Za-z]\d{3}|^\d{5,}$|^(?=\D*\d)[0-9a-f-]{7,}$"
)
MIN_ANSWER_CHARS, MAX_ANSWER_CHARS = 5, 160


def count_words(text: str) -> int:
    """Number of words with a letter or digit; in Chinese and Japanese, of characters."""
    parts = (part for part in text.split() if any(map(str.isalnum, part)))
    return sum(max(1, len(_IDEOGRAPH.findall(part))) for part in parts)


def numbers(text: str) -> Iterator[str]:
    return (found for found in _NUMBER.findall(text) if sum(map(str.isdigit, found)) >= 3)


def identifiers(text: str) -> Iterator[str]:
    """Paths, file names, snake_case, camelCase, ids and numbers of five digits and more, in order."""
    for run in _RUN.findall(text):
        parts = [run] if "/" in run or _FILE.fullmatch(run) else run.split(".")
        yield from (
            part
            for part in parts
            if MIN_ANSWER_CHARS <= len(part) <= MAX_ANSWER_CHARS and _SHAPE.search(part)
        )


def needed(messages: Sequence[m.Message], cut: int) -> tuple[str, ...]:
    """Identifiers of calls after the cut that occur before it and were not mentioned in between."""
    before = readable_text(messages[:cut])
    later = [m.searchable(message) for message in messages[cut:]]
    after, start = "\n\n".join(later), 0
    found: dict[str, bool] = {}
    for message, text in zip(messages[cut:], later, strict=True):
        for name in (name for call in message.calls for name in identifiers(m.argument_text(call))):
            if name not in found:
                found[name] = name in before and after.find(name) >= start
        start += len(text) + 2
    return tuple(name for name, wanted in found.items() if wanted)


# ── looking up ──────────────────────────────────────────────────────────────────────────────────

_BEFORE, _AFTER = re.compile(r"\w[.-]?\Z", re.ASCII), re.compile(r"[.-]?\w", re.ASCII)
"""Characters beside a part of a longer word, path or number."""


def present(names: Iterable[str], text: str) -> CountOf:
    hits = [stands(name, text) for name in names]
    return CountOf(sum(hits), len(hits))


def stands(name: str, text: str) -> bool:
    """True if `text` has `name`, not as part of a longer word or number."""
    first, last = (bool(re.match(r"\w", name[at], re.ASCII)) for at in (0, -1))
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before = first and _BEFORE.search(text[max(at - 2, 0) : at])
        if not before and not (last and _AFTER.match(text, end)):
            return True
        at = text.find(name, at + 1)
    return False


def readable_text(messages: Iterable[m.Message]) -> str:
    """All text that a model can read, including arguments of calls."""
    return "\n\n".join(m.searchable(message) for message in messages)


def flat(text: str) -> str:
    return " ".join(text.split())
