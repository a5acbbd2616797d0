"""What a view still holds of a conversation, measured without any judge.

All figures are shares between 0 and 1; None where a transcript has nothing to be measured by.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from refold import entries as e
from refold.compaction.reading import reading
from refold.compare.forms import flat
from refold.messages import Message, argument_text, searchable
from refold.session import Session
from refold.session.edits import said_by
from refold.session.items import Item

CUT = 0.75
"""Where a transcript is cut for future references: the part of its messages that is folded."""


class Kept(msgspec.Struct, frozen=True):
    """Shares of what a view should still hold."""

    constraints: float | None = None
    """Share of the user's typed words, verbatim in the view."""
    artifacts: float | None = None
    """Files truly modified or created, named in the view."""
    identifiers: float | None = None
    """Identifiers in the arguments of folded tool calls, literally in the view."""


class Probes(msgspec.Struct, frozen=True):
    """Identifiers that tool calls after position `cut` need and that only what came before names."""

    cut: int
    names: tuple[str, ...]

    def found(self, text: str) -> float | None:
        return _share(name in text for name in self.names)


def kept(session: Session, items: Sequence[Item]) -> Kept:
    """What the view `items` of `session` still holds of everything that was said."""
    text = readable(item.message for item in items)
    shown = {item.entries[0] for item in items if item.fold is None}
    folded = filter(None, (said_by(entry) for entry in session.path if entry.id not in shown))
    return Kept(
        _typed(session, text),
        _artifacts(session, text),
        _share(name in text for name in _called(folded)),
    )


def readable(messages: Iterable[Message]) -> str:
    """All that a model can read, the arguments of calls included."""
    return "\n\n".join(searchable(message) for message in messages)


def probes(path: Sequence[e.AnyPathEntry], cut: int) -> Probes:
    """The future references of a transcript that is folded up to `cut`: identifiers in later calls that
    occurred before the cut and did not come up again between the cut and the call."""
    messages = [message for entry in path if (message := said_by(entry)) is not None]
    before = readable(messages[:cut])
    later = [searchable(message) for message in messages[cut:]]
    after, start = "\n\n".join(later), 0
    found: dict[str, None] = {}
    judged: set[str] = set()
    for message, text in zip(messages[cut:], later, strict=True):
        for name in _called([message]):
            if name not in judged and name in before and after.find(name) >= start:
                found[name] = None
            judged.add(name)
        start += len(text) + 2
    return Probes(cut, tuple(found))


def _called(messages: Iterable[Message]) -> dict[str, None]:
    """Identifiers in the arguments of calls, each once, in order."""
    texts = (argument_text(call) for message in messages for call in message.calls)
    return dict.fromkeys(name for text in texts for name in identifiers(text))


def _typed(session: Session, text: str) -> float | None:
    """Share of the user's typed words that are verbatim in the view, by characters."""
    seen = flat(text)
    said = [flat(saying.text) for saying in reading(session).sayings]
    whole = sum(map(len, said))
    return sum(len(words) for words in said if words in seen) / whole if whole else None


def _artifacts(session: Session, text: str) -> float | None:
    files = reading(session).state.files()
    everything = [*files.read, *files.modified, *files.created, *files.deleted]
    return _share(named(path, everything, text) for path in (*files.modified, *files.created))


def named(path: str, others: Sequence[str], text: str) -> bool:
    """Whether `text` names a file so that nobody could mean another one of `others`: by its path, or by the
    shortest end of it that no other path has."""
    ending = shortest_ending(path, others)
    return path in text or re.search(rf"(?<![\w.-]){re.escape(ending)}(?![\w-])", text) is not None


def shortest_ending(path: str, others: Iterable[str]) -> str:
    rivals = [other for other in others if other != path]
    for ending in _endings(path):
        if not any(other == ending or other.endswith(f"/{ending}") for other in rivals):
            return ending
    return path


def _endings(path: str) -> Iterator[str]:
    head, ending = posixpath.split(path)
    while head.strip("/") and ending:
        yield ending
        head, name = posixpath.split(head)
        ending = f"{name}/{ending}"


def _share(hits: Iterable[bool]) -> float | None:
    listed = list(hits)
    return sum(listed) / len(listed) if listed else None


# ── identifiers: paths, names of code, ids, long numbers ────────────────────────────────────────

SHORTEST, LONGEST = 5, 160

_RUN = re.compile(r"[A-Za-z0-9_./@~+-]{5,400}")
"""All that an identifier can be made of. Longer runs are looked at in pieces, so this is linear."""
_SHAPED = re.compile(r"[0-9_/.]|[a-z][A-Z]|[A-Z][A-Z]+[a-z]")
_FILE = re.compile(
    r"[\w@~+-][\w.@~+-]*\.(?:py[ciwx]?|ipynb|[cm]?[jt]sx?|vue|json[cl5]?|ya?ml|toml|ini|cfg|conf|env|lock|md|mdx|rst|txt|log"
    r"|csv|tsv|xml|html?|s?css|less|svg|png|jpe?g|gif|pdf|sh|bash|zsh|ps1|bat|sql|db|sqlite3?|go|rs|rb|php|pl|lua|java|kts?"
    r"|scala|swift|cs|fs|c|cc|cpp|cxx|h|hh|hpp|m|mm|ex|exs|erl|hs|ml|clj|r|jl|dart|zig|nim|pony|proto|graphql|tf|gradle|cmake"
    r"|mk|zip|gz|tar|tgz|whl|jar|so|dll|exe|bin|patch|diff|traj|com|org|net|io|dev)",
    re.I,
)
"""A file or host by its ending; other dots separate the members of something."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_HEX = re.compile(r"[0-9a-f]{7,}(?:-[0-9a-f]{4,})*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d)?")
_WORDS = re.compile(r"[a-z]+[/.-][a-z]+")


def identifiers(text: str) -> Iterator[str]:
    """Every identifier of `text`, in order, repeats included."""
    for run in _RUN.findall(text):
        if len(run) <= LONGEST and _SHAPED.search(run):
            yield from _parts(run.rstrip("./-~@+").lstrip("-@+"))


def _parts(run: str) -> Iterator[str]:
    """The run itself, or, of `this.session.switchBranch` and the like, the names it is made of."""
    if "." in run and "/" not in run and not _FILE.fullmatch(run) and not run[0].isdigit():
        yield from (part for part in run.split(".") if len(part) >= SHORTEST and is_identifier(part))
    elif len(run) >= SHORTEST and is_identifier(run):
        yield run


def is_identifier(run: str) -> bool:
    """A path, a name of code, an id or a number; no plain word, date or version."""
    if "/" in run:
        return not _WORDS.fullmatch(run) and any(map(str.isalnum, run))
    digits = sum(map(str.isdigit, run))
    if digits == len(run) or (digits and _HEX.fullmatch(run)) or _FILE.fullmatch(run):
        return True
    if "." in run or _DATE.fullmatch(run):
        return False
    named = "_" in run and digits < len(run.replace("_", ""))
    return named or bool(_CAMEL.search(run)) or 2 <= digits < len(run)
