"""M1 dialogue retention and M2 future references: what a fold keeps that is asked for later.

The measures are written from their definitions and share no code with what they measure. Run
`python -m benchmarks.retention [--quick]`; `run()` gives the same as a value that can be written as JSON.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from refold import messages as m
from refold import tokens, transcripts
from refold.digest import Source, digest
from refold.entries import MessageEntry, key
from refold.errors import RefoldError

DATA = Path(os.environ.get("REFOLD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COUNTER = tokens.get("o200k")
BUDGETS = (1_000, 2_000, 4_000, 8_000)
SHARES = (0.05, 0.10, 0.20, 0.40)
TAIL = 0.25
"""Part of an agent's view that stays verbatim: the newest messages. The digest gets the rest."""


@cache
def count(text: str) -> int:
    return COUNTER.text(text)


# ── M1: dialogues ───────────────────────────────────────────────────────────────────────────────

_STOP = """
a an the of to in on at is are was were did do does and or for with his her their my your its by from be been
it they he she i you that this as yes no not
"""
STOP = frozenset(_STOP.split())
WORD = re.compile(r"[a-z0-9]+")


def stem(word: str) -> str:
    for ending in ("ing", "ies", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def words(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in WORD.findall(text.lower()) if word not in STOP)


@dataclass(frozen=True)
class Question:
    asks: frozenset[str]
    """Words of the question that are not words of the answer."""
    answer: frozenset[str]
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Dialogue:
    name: str
    turns: dict[str, str]
    """Turn id → text as it is fed."""
    speakers: tuple[str, ...]
    questions: tuple[Question, ...]

    @property
    def sources(self) -> list[Source]:
        """The turns, the first speaker as the user and the other one as the assistant."""
        return [
            Source(message=self._message(speaker, text), id=id, key=key(id), turn=number // 2 + 1)
            for number, ((id, text), speaker) in enumerate(
                zip(self.turns.items(), self.speakers, strict=True)
            )
        ]

    def _message(self, speaker: str, text: str) -> m.Message:
        return m.user(text) if speaker == self.speakers[0] else m.assistant(text)


def dialogues() -> list[Dialogue]:
    found: list[Dialogue] = []
    for path in sorted((DATA / "locomo").glob("*.json")):
        found.extend(_dialogue(raw) for raw in json.loads(path.read_text(encoding="utf-8")))
    return found


def _dialogue(raw: dict[str, Any]) -> Dialogue:
    conversation, turns, speakers = raw["conversation"], {}, []
    number = 1
    while f"session_{number}" in conversation:
        for place, turn in enumerate(conversation[f"session_{number}"]):
            text = f"{turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                text += f" [image: {turn['blip_caption']}]"
            if place == 0:
                text = f"[{conversation[f'session_{number}_date_time']}]\n{text}"
            turns[turn["dia_id"]] = text
            speakers.append(turn["speaker"])
        number += 1
    return Dialogue(raw.get("sample_id", "?"), turns, tuple(speakers), tuple(_questions(raw)))


def _questions(raw: dict[str, Any]) -> Iterator[Question]:
    """Categories 1–4 with evidence. Answers without any word ("Yes", "No") cannot be scored."""
    for row in raw["qa"]:
        answer = words(str(row.get("answer", "")))
        if row["category"] in (1, 2, 3, 4) and row["evidence"] and answer:
            ids = tuple(id for cell in row["evidence"] for id in re.findall(r"D\d+:\d+", cell))
            yield Question(words(row["question"]) - answer, answer, ids)


class Lines:
    """A view's text as lines, each joined with the next one, ready to be asked."""

    def __init__(self, text: str) -> None:
        single = [words(line) for line in text.splitlines()]
        self.lines = [a | b for a, b in zip(single, [*single[1:], frozenset[str]()], strict=True)]
        self.having: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines):
            for word in line:
                self.having[word].append(number)

    def sharing(self, wanted: Iterable[str]) -> Counter[int]:
        return Counter(number for word in wanted for number in self.having.get(word, ()))

    def score(self, question: Question) -> float:
        """The best share of the answer's words in one qualifying line."""
        need = max(1, len(question.asks) // 3)
        lines = [number for number, shared in self.sharing(question.asks).items() if shared >= need]
        return max((len(question.answer & self.lines[i]) / len(question.answer) for i in lines), default=0.0)

    def holds(self, text: str) -> bool:
        """Whether a turn is present: at least half of its words in one line."""
        wanted = words(text)
        return bool(wanted) and max(self.sharing(wanted).values(), default=0) * 2 >= len(wanted)


def ask(view: str, dialogue: Dialogue) -> list[tuple[float, float, float]]:
    """For each question: score, whether all answer words were found, share of evidence present."""
    lines = Lines(view)
    present = {id: lines.holds(text) for id, text in dialogue.turns.items()}
    rows: list[tuple[float, float, float]] = []
    for question in dialogue.questions:
        score = lines.score(question)
        there = [present[id] for id in question.evidence if id in present]
        rows.append((score, float(score == 1.0), sum(there) / len(there) if there else 0.0))
    return rows


def full(dialogue: Dialogue, _: int) -> str:
    return "\n".join(dialogue.turns.values())


def tail(dialogue: Dialogue, budget: int) -> str:
    return "\n".join(newest(list(dialogue.turns.values()), budget))


def newest(texts: Sequence[str], budget: int) -> list[str]:
    """The newest texts that fit, in order."""
    start, room = len(texts), budget
    while start and room >= count(texts[start - 1]) + 1:
        start -= 1
        room -= count(texts[start]) + 1
    return list(texts[start:])


def random_turns(dialogue: Dialogue, budget: int) -> str:
    order = list(range(len(dialogue.turns)))
    random.Random(1).shuffle(order)
    return _filled(list(dialogue.turns.values()), order, budget)


def _filled(texts: Sequence[str], order: Iterable[int], budget: int) -> str:
    chosen: list[int] = []
    room = budget
    for number in order:
        if (cost := count(texts[number]) + 1) <= room:
            chosen.append(number)
            room -= cost
    return "\n".join(texts[number] for number in sorted(chosen))


def novelty(dialogue: Dialogue, budget: int) -> str:
    """Plain greedy idf-novelty over whole turns: new rare words per token."""
    texts = list(dialogue.turns.values())
    sets = [words(text) for text in texts]
    spread = Counter(word for one in sets for word in one)
    worth = {word: math.log(len(texts) / number) for word, number in spread.items()}
    covered: set[str] = set()
    left, order, room = set(range(len(texts))), list[int](), budget
    while left and room > 0:
        pick = max(
            left, key=lambda i: (sum(worth[w] for w in sorted(sets[i] - covered)) / count(texts[i]), -i)
        )
        left.discard(pick)
        if count(texts[pick]) + 1 <= room:
            order.append(pick)
            room -= count(texts[pick]) + 1
            covered |= sets[pick]
    return _filled(texts, order, budget)


def readable(dialogue: Dialogue, budget: int) -> str:
    return digest(dialogue.sources, budget=budget, counter=COUNTER).render("readable")


def dense(dialogue: Dialogue, budget: int) -> str:
    return digest(dialogue.sources, budget=budget, counter=COUNTER).render("dense")


DialogueView = Callable[[Dialogue, int], str]
DIALOGUE_VIEWS: dict[str, DialogueView] = {
    "tail": tail,
    "random turns": random_turns,
    "idf novelty": novelty,
    "digest, readable": readable,
    "digest, dense": dense,
}
"""Name → view of a dialogue within a budget. Add a preset here and it is measured."""


def m1(views: dict[str, DialogueView] | None = None, *, quick: bool = False) -> dict[str, Any]:
    """Per view and budget: score, all answer words, evidence, chance, tokens (percent; means over questions)."""
    spoken = dialogues()[: 2 if quick else None]
    budgets = BUDGETS[1:3] if quick else BUDGETS
    rows = {
        name: {str(budget): _measured(view, spoken, budget) for budget in budgets}
        for name, view in (views or DIALOGUE_VIEWS).items()
    }
    return {
        "dialogues": [dialogue.name for dialogue in spoken],
        "questions": sum(len(dialogue.questions) for dialogue in spoken),
        "ceiling": _measured(full, spoken, 0),
        "views": rows,
    }


def _measured(view: DialogueView, spoken: Sequence[Dialogue], budget: int) -> dict[str, float]:
    shown = [view(dialogue, budget) for dialogue in spoken]
    rows = [row for text, dialogue in zip(shown, spoken, strict=True) for row in ask(text, dialogue)]
    others = [
        row
        for place, dialogue in enumerate(spoken)
        for row in ask(shown[(place + 1) % len(spoken)], dialogue)
    ]
    if budget and max(map(count, shown)) > budget:
        raise AssertionError(f"{view} passes its budget of {budget} tokens")
    return {
        "score": _percent(row[0] for row in rows),
        "all_words": _percent(row[1] for row in rows),
        "evidence": _percent(row[2] for row in rows),
        "chance": _percent(row[0] for row in others) if len(spoken) > 1 else 0.0,
        "tokens": round(sum(map(count, shown)) / len(shown)),
    }


def _percent(values: Iterable[float]) -> float:
    listed = list(values)
    return round(100 * sum(listed) / len(listed), 1) if listed else 0.0


# ── M2: agent transcripts ───────────────────────────────────────────────────────────────────────

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

    def sources(self) -> list[Source]:
        turn, found = 0, list[Source]()
        for entry in self.entries:
            turn += entry.message.role == "user"
            found.append(
                Source(message=entry.message, id=entry.id, key=key(entry.id), turn=turn, time=entry.time)
            )
        return found


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
                    found[name] = Probe(name, said.replace(name, " "))
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
    return f"{made.render()}\n{verbatim}"


PrefixView = Callable[[Prefix, int], str]
PREFIX_VIEWS: dict[str, PrefixView] = {"tail": tail_only, "digest": with_digest}
"""Name → view of a transcript's prefix within a budget. Add a preset here and it is measured."""


def recalled(prefix: Prefix, probe: Probe) -> str:
    """What one recall with the call's other arguments brings back."""
    from refold import recall

    hits = recall.rerank(prefix.entries, probe.query[:2_000], limit=5)
    return "\n".join(hit.text for hit in hits)


def m2(views: dict[str, PrefixView] | None = None, *, quick: bool = False) -> dict[str, Any]:
    """Per view, share of the prefix and source: percent of probes literally in the view."""
    cases = prefixes(quick=quick)
    sources = sorted({case.source for case in cases})
    result: dict[str, Any] = {
        "probes": {
            source: sum(len(case.probes) for case in cases if case.source == source) for source in sources
        },
        "views": {},
    }
    for name, view in (views or PREFIX_VIEWS).items():
        rows: dict[str, Any] = {}
        for share in (0.10, 0.20) if quick else SHARES:
            with_recall = share == 0.20 and not quick
            rows[f"{share:.0%}"] = _kept(cases, view, share, with_recall=with_recall)
        result["views"][name] = rows
    return result


def _kept(cases: Sequence[Prefix], view: PrefixView, share: float, *, with_recall: bool) -> dict[str, Any]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    again: defaultdict[str, list[float]] = defaultdict(list)
    for case in cases:
        budget = int(case.tokens * share)
        text = view(case, budget)
        if COUNTER.text(text) > budget:
            raise AssertionError(f"{view} passes its budget of {budget} tokens on {case.source}")
        for probe in case.probes:
            hit = probe.name in text
            found[case.source].append(float(hit))
            if with_recall:
                again[case.source].append(float(hit or probe.name in recalled(case, probe)))
    everything = [hit for hits in found.values() for hit in hits]
    row: dict[str, Any] = {source: _percent(hits) for source, hits in sorted(found.items())}
    row |= {"all": _percent(everything), "mean of sources": round(sum(row.values()) / len(row), 1)}
    if with_recall:
        row["all, one recall"] = _percent(hit for hits in again.values() for hit in hits)
    return row


def run(quick: bool = False) -> dict[str, Any]:
    """Both measures; {} where the transcripts are not there."""
    if not DATA.exists():
        print(f"no transcripts in {DATA}: set REFOLD_DATA to the folder that has them", file=sys.stderr)
        return {}
    return {"m1": m1(quick=quick), "m2": m2(quick=quick)}


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv[1:]), indent=1))
