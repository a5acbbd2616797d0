"""M2, future references: identifiers that later tool calls need, literally in the view."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from benchmarks.folded import folded, preset_names
from benchmarks.measuring import COUNTER, DATA, count, done, newest, percent
from refold import messages as m
from refold import transcripts
from refold.digest import Source, digest
from refold.entries import MessageEntry, key
from refold.errors import DoesNotFit, RefoldError
from refold.recall import LogIndex

SHARES = (0.05, 0.10, 0.20, 0.40)
TAIL = 0.25
"""Part of an agent's view that stays verbatim: the newest messages. The digest gets the rest."""

IDENTIFIER = re.compile(
    r"""
      [\w.@~-]*(?:/[\w.@~+-]+)+                                   # paths
    | (?<![\w.])[\w-]+\.(?:py|[jt]sx?|jsonl?|md|txt|toml|ya?ml|sh|go|rs|c|h|cpp|java|rb|html|css|sql|cfg|ini|lock|log|csv|xml)\b
    | \b_*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b                # snake_case
    | \b[a-z]+[a-z0-9]*[A-Z]\w*\b | \b[A-Z][a-z0-9]+[A-Z]\w*\b    # camelCase
    | \b(?=[a-f]*\d)[0-9a-f]{7,}\b | (?<!\w)\d{5,}(?!\w)          # hexadecimal ids, numbers
    """,
    re.X,
)


def identifiers(text: str) -> set[str]:
    found = {name.strip(".-~@") for name in IDENTIFIER.findall(text)}
    return {name for name in found if len(name) >= 5 and re.search(r"[A-Za-z0-9]{2}", name)}


def arguments(call: m.Call) -> str:
    """The values of a call's arguments, as the tool gets them."""
    return call.raw if call.raw is not None else "\n".join(_values(call.arguments))


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    elif value is not None:
        yield str(value)


def shown(message: m.Message) -> str:
    """A message as the model sees it, without the wire's framing."""
    return "\n".join((message.text, *(f"{call.name} {arguments(call)}" for call in message.calls)))


@dataclass(frozen=True)
class Probe:
    name: str
    query: str
    """The call's other arguments: what a recall could ask with."""
    tool: str = ""
    """The tool that is called."""


@dataclass(frozen=True)
class Prefix:
    """A transcript up to a cut, and what later calls will need of it."""

    source: str
    entries: tuple[MessageEntry, ...]
    probes: tuple[Probe, ...]
    texts: tuple[str, ...] = field(repr=False)

    @property
    def tokens(self) -> int:
        return sum(map(count, self.texts))

    @cached_property
    def index(self) -> LogIndex:
        return LogIndex(self.entries)

    def sources(self) -> list[Source]:
        return [Source(message=x.message, id=x.id, key=key(x.id), time=x.time) for x in self.entries]


@cache
def prefixes(*, quick: bool = False) -> list[Prefix]:
    found: list[Prefix] = []
    for source, paths in _files().items():
        for path in paths:
            for number in range(200):
                try:
                    loaded = transcripts.read(path, index=number)
                except RefoldError:
                    break
                entries = tuple(entry for entry in loaded.entries if isinstance(entry, MessageEntry))
                found.extend(_cuts(source, entries))
                if source not in _SEVERAL or (quick and number >= 9):
                    break
    return found


_SEVERAL = ("tau-bench", "adp", "openhands")
"""Sources whose files hold several conversations."""
_NOT_TRANSCRIPTS = ("LICENSE", "cuts.", "oracle")


def _files() -> dict[str, list[Path]]:
    folders = sorted(path for path in DATA.glob("*") if path.is_dir() and path.name != "locomo")
    return {
        folder.name: sorted(path for path in folder.iterdir() if not path.name.startswith(_NOT_TRANSCRIPTS))
        for folder in folders
    }


def _cuts(source: str, entries: tuple[MessageEntry, ...]) -> Iterator[Prefix]:
    texts = tuple(shown(entry.message) for entry in entries)
    for part in (0.25, 0.50, 0.75):
        cut = int(len(entries) * part)
        if cut >= 2 and (probes := _probes(entries, texts, cut)):
            yield Prefix(source, entries[:cut], probes, texts[:cut])


def _probes(entries: Sequence[MessageEntry], texts: Sequence[str], cut: int) -> tuple[Probe, ...]:
    """Identifiers of later calls that the prefix has and nothing between the cut and the call repeats."""
    before, between = "\n".join(texts[:cut]), ""
    found: dict[str, Probe] = {}
    for entry, text in zip(entries[cut:], texts[cut:], strict=True):
        for call in entry.message.calls:
            said = arguments(call)
            for name in sorted(identifiers(said)):
                if name not in found and name in before and name not in between:
                    found[name] = Probe(name, said.replace(name, " "), call.name)
        between = f"{between}\n{text}"
    return tuple(found.values())


def tail_only(prefix: Prefix, budget: int) -> str:
    return "\n".join(newest(prefix.texts, budget))


def with_digest(prefix: Prefix, budget: int) -> str:
    """The newest messages, and a digest of everything before them."""
    kept = newest(prefix.texts, int(budget * TAIL))
    verbatim = "\n".join(kept)
    sources = prefix.sources()
    start = len(sources) - len(kept)
    made = digest(sources[:start], budget=budget - count(verbatim) - 1, counter=COUNTER, kept=sources[start:])
    return f"{made}\n{verbatim}"


def by_preset(name: str) -> PrefixView:
    """The view of a preset, through the engine; nothing where it says that it cannot fit."""

    def view(prefix: Prefix, budget: int) -> str:
        try:
            return "\n".join(map(shown, folded(name, prefix.entries, budget)))
        except DoesNotFit:
            return ""

    return view


PrefixView = Callable[[Prefix, int], str]
PREFIX_VIEWS: dict[str, PrefixView] = {
    "tail": tail_only,
    "digest": with_digest,
    **{f"preset {name}": by_preset(name) for name in preset_names()},
}
"""Name → view of a transcript's prefix within a budget."""


def recalled(prefix: Prefix, probe: Probe) -> str:
    """What one recall with the call's tool and other arguments brings back: whole entries."""
    from refold import recall

    hits = recall.search(prefix.index, f"{probe.tool}\n{probe.query[:2_000]}", limit=5)
    found = {hit.entry_id for hit in hits}
    return "\n".join(
        text for entry, text in zip(prefix.entries, prefix.texts, strict=True) if entry.id in found
    )


def m2(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    """Per view, share of the prefix and source: percent of probes literally in the view."""
    cases = prefixes(quick=quick)
    sources = sorted({case.source for case in cases})
    probes = {source: sum(len(case.probes) for case in cases if case.source == source) for source in sources}
    asked = [(name, share, quick) for name in PREFIX_VIEWS for share in ((0.10, 0.20) if quick else SHARES)]
    views: dict[str, dict[str, Any]] = {}
    for (name, share, _), row in zip(asked, done(_kept, asked, on), strict=True):
        views.setdefault(name, {})[f"{share:.0%}"] = row
    return {"probes": probes, "views": views}


def _kept(asked: tuple[str, float, bool]) -> dict[str, Any]:
    """One view within one share of every prefix."""
    name, share, quick = asked
    cases, view, with_recall = prefixes(quick=quick), PREFIX_VIEWS[name], share == 0.20 and not quick
    found: defaultdict[str, list[float]] = defaultdict(list)
    again: defaultdict[str, list[float]] = defaultdict(list)
    over = 0
    for case in cases:
        budget = int(case.tokens * share)
        text = view(case, budget)
        over += COUNTER.text(text) > budget
        for probe in case.probes:
            hit = probe.name in text
            found[case.source].append(float(hit))
            if with_recall:
                again[case.source].append(float(hit or probe.name in recalled(case, probe)))
    everything = [hit for hits in found.values() for hit in hits]
    row: dict[str, Any] = {source: percent(hits) for source, hits in sorted(found.items())}
    row |= {"all": percent(everything), "mean of sources": round(sum(row.values()) / len(row), 1)}
    row["over budget"] = over
    if with_recall:
        row["all, one recall"] = percent(hit for hits in again.values() for hit in hits)
    return row
