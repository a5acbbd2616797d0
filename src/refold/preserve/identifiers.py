"""The identifier index: names that later steps will need letter by letter.

A summary in prose loses what cannot be guessed again: paths, function names, order numbers, commit ids.
The index keeps them literally, the likeliest to be needed first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from refold.messages import Bash, Message, Result, User, argument_text
from refold.protocols import Steps
from refold.text.truncate import middle
from refold.tokens.fitting import largest

SHORTEST, LONGEST = 5, 160
PIECE = 16
"""Messages that are searched between two breaths."""
READ = 2_000_000
"""Characters of a conversation that are searched; beyond it every message is cut alike."""

_RUN = re.compile(r"[A-Za-z0-9_./@~+-]{5,400}")
"""All that an identifier can be made of. Longer runs are looked at in pieces, so this is linear."""
_ANY_RUN = re.compile(r"[A-Za-z0-9_./@~+-]{5,}")
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
_FIELD = re.compile(r'"([A-Za-z_][A-Za-z0-9_]{4,40})"\s{0,4}:')
_WORDS = re.compile(r"[a-z]+[/.-][a-z]+")

KINDS = {"path": 1.0, "name": 0.8, "id": 1.1, "number": 0.8, "other": 0.3}
"""How likely a later step needs an identifier of this kind, all else equal."""


class Identifier(msgspec.Struct, gc=False):
    """One identifier and where it was seen. `last` is the position of the newest message that has it."""

    text: str
    kind: str
    count: int = 0
    last: int = 0
    called: int = 0
    asked: bool = False
    field: bool = False
    """The name of a field in some tool's JSON: the same in every answer, so it will come again."""


def identifiers(text: str) -> Iterator[tuple[str, str]]:
    """Every identifier of `text` with its kind, in order, repeats included."""
    for run in _RUN.findall(text):
        if len(run) <= LONGEST and _SHAPED.search(run):
            yield from _parts(run.rstrip("./-~@+").lstrip("-@+"))


def _parts(run: str) -> Iterator[tuple[str, str]]:
    """The run itself, or, of `this.session.switchBranch` and the like, the names it is made of."""
    if "." in run and "/" not in run and not _FILE.fullmatch(run) and not run[0].isdigit():
        named = [part for part in run.split(".") if len(part) >= SHORTEST and kind_of(part)]
        if named or run.count(".") < 2:
            yield from ((part, kind_of(part) or "other") for part in named)
            return
    if len(run) >= SHORTEST and (kind := kind_of(run)):
        yield run, kind


def kind_of(run: str) -> str | None:
    """path · name · id · number · other; None for a plain word."""
    if "/" in run:
        return "other" if _WORDS.fullmatch(run) else "path" if any(map(str.isalnum, run)) else None
    digits = sum(map(str.isdigit, run))
    if digits == len(run):
        return "number"
    if _HEX.fullmatch(run) and digits:
        return "id"
    if _FILE.fullmatch(run):
        return "path"
    if _DATE.fullmatch(run):
        return "other"
    if "_" in run and digits < len(run.replace("_", "")):
        return "id" if digits >= 3 else "name"
    if _CAMEL.search(run):
        return "name"
    if "." in run:
        return "other" if run.count(".") >= 2 or digits >= 5 else None
    return "id" if 2 <= digits < len(run) else None


def collecting(messages: Sequence[Message], earlier: str = "") -> Steps[dict[str, Identifier]]:
    """All identifiers of a conversation by their text. `earlier`: an index whose sources are gone."""
    collection = _Collection()
    for text, kind in identifiers(earlier):
        collection.found[text] = Identifier(text, kind, count=2, last=0, called=1)
    share = min(1.0, READ / max(1, sum(len(message.text) for message in messages)))
    for position, message in enumerate(messages, 1):
        if position % PIECE == 0:
            yield
        text = message.command if isinstance(message, Bash) else ""
        for call in message.calls:
            text += "\n" + argument_text(call)
        collection.note(text, position, called=True)
        said = _clipped(message.text, share)
        collection.note(said, position, asked=isinstance(message, User))
        if isinstance(message, Result) and said[:1] in ("{", "["):
            collection.fields.update(_FIELD.findall(said))
    for name in collection.fields & collection.found.keys():
        collection.found[name].field = True
    return collection.found


def _clipped(text: str, share: float) -> str:
    most = 200_000 if share >= 1 else int(len(text) * share)
    return middle(text, most, "\n", 2 / 3)


class _Collection:
    """Identifiers found so far. Words between spaces repeat, so each different one is looked into once."""

    def __init__(self) -> None:
        self.found: dict[str, Identifier] = {}
        self.fields: set[str] = set()
        self._inside: dict[str, tuple[tuple[str, str], ...]] = {}

    def note(self, text: str, position: int, *, called: bool = False, asked: bool = False) -> None:
        for word in dict.fromkeys(text.split()):
            inside = self._inside.get(word)
            if inside is None:
                plain = len(word) < SHORTEST or (word.isalpha() and word[1:].islower())
                inside = self._inside[word] = () if plain else tuple(identifiers(word))
            for run, kind in inside:
                seen = self.found.get(run)
                if seen is None:
                    seen = self.found[run] = Identifier(run, kind)
                if seen.last != position:
                    seen.count += 1
                    seen.last = position
                    seen.called += called
                seen.asked |= asked


def ranked(found: Iterable[Identifier], length: int) -> list[Identifier]:
    """The likeliest to be needed first: used in calls, named by the user, seen often, seen lately."""
    return sorted(found, key=lambda one: (-worth(one, length), one.text))


def worth(one: Identifier, length: int) -> float:
    recent = 0.5 ** ((length - one.last) / max(8.0, length / 3))
    use = 1.0 + 1.2 * min(one.called, 3) + (1.0 if one.asked else 0.0) + math.log(one.count + 1)
    again = 0.4 if one.field else 1.0
    return again * KINDS[one.kind] * use * (0.35 + recent) / (4 + len(one.text)) ** 0.5


def index(
    order: Iterable[Identifier],
    budget: int,
    count: Callable[[str], int],
    present: str = "",
    hidden: frozenset[str] = frozenset(),
) -> str:
    """As many of `order` as fit `budget`, each literally there, one line per kind. What is part of another
    one, of the text `present` or of the names `hidden` (both are in the view anyway) is not repeated."""
    names = [one for one in order if one.text not in hidden]
    looked = max(64, budget)
    while True:  # names beyond the room are not compared with each other
        chosen, is_full = _apart(names[:looked], present, budget * 5)
        if is_full or looked >= len(names):
            return _fitted(chosen, budget, count)
        looked *= 2


def _apart(names: Sequence[Identifier], present: str, room: int) -> tuple[list[Identifier], bool]:
    """The first of `names`, in about `room` characters, without those that are part of `present` or of one
    another; and whether that is all there is room for."""
    holders = _holders({one.text: number for number, one in enumerate(names)}, present)
    chosen: list[Identifier] = []
    for number, one in enumerate(names):
        if holders[one.text] < number:
            continue
        if room <= 0:
            return [one for one in chosen if holders[one.text] >= number], True
        chosen.append(one)
        room -= len(one.text) + 1
    return [one for one in chosen if holders[one.text] >= len(names)], False


def _holders(numbers: dict[str, int], present: str) -> dict[str, int]:
    """Of each name the number of the first other one that it is part of: -1 for `present`, and as many as
    there are names for none. What begins with a name follows it at once in the order of the alphabet, so all
    ends of all texts are sorted and read once."""
    longest = max(map(len, numbers), default=0)
    ends: dict[str, int] = {}
    for run in dict.fromkeys(_ANY_RUN.findall(present)):
        ends.update((run[start : start + longest], -1) for start in range(len(run) - SHORTEST + 1))
    for name, number in numbers.items():
        for start in range(1, len(name) - SHORTEST + 1):
            ends.setdefault(name[start:], number)
    nobody = len(numbers)
    holders = dict.fromkeys(numbers, nobody)
    begun: list[str] = []
    """The names that the text at hand begins with, the shortest first."""
    for text in (*sorted(ends.keys() | numbers.keys()), ""):
        while begun and not text.startswith(begun[-1]):
            inner = begun.pop()
            if begun:
                holders[begun[-1]] = min(holders[begun[-1]], holders[inner], numbers[inner])
        if text in numbers:
            begun.append(text)
        if begun:
            holders[begun[-1]] = min(holders[begun[-1]], ends.get(text, nobody))
    return holders


def _fitted(chosen: list[Identifier], budget: int, count: Callable[[str], int]) -> str:
    return rendered(chosen[: largest(len(chosen), lambda n: count(rendered(chosen[:n])) <= budget)])


def rendered(chosen: Iterable[Identifier]) -> str:
    """Paths by directory, then names, then ids and numbers."""
    rows: dict[str, list[str]] = {"path": [], "name": [], "id": []}
    for one in chosen:
        rows[{"number": "id", "other": "name"}.get(one.kind, one.kind)].append(one.text)
    return "\n".join(" ".join(sorted(row)) for row in rows.values() if row)
