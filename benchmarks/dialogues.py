"""M1, dialogue retention: what of a long conversation can still be answered from the view."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.folded import folded, preset_names
from benchmarks.measuring import COUNTER, DATA, count, done, newest, percent
from refold import messages as m
from refold.digest import Source, digest
from refold.entries import MessageEntry, key

BUDGETS = (1_000, 2_000, 4_000, 8_000)

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
            Source(message=self._message(speaker, text), id=id, key=key(id))
            for number, ((id, text), speaker) in enumerate(
                zip(self.turns.items(), self.speakers, strict=True)
            )
        ]

    def _message(self, speaker: str, text: str) -> m.Message:
        return m.user(text) if speaker == self.speakers[0] else m.assistant(text)


@cache
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
    return digest(dialogue.sources, budget=budget, counter=COUNTER, form="readable")


def dense(dialogue: Dialogue, budget: int) -> str:
    return digest(dialogue.sources, budget=budget, counter=COUNTER)


def by_preset(name: str) -> DialogueView:
    """The view of a preset, through the engine: its frame, tail and constraints included."""

    def view(dialogue: Dialogue, budget: int) -> str:
        entries = [MessageEntry(id=source.id, message=source.message) for source in dialogue.sources]
        return "\n".join(message.text for message in folded(name, entries, budget))

    return view


DialogueView = Callable[[Dialogue, int], str]
DIALOGUE_VIEWS: dict[str, DialogueView] = {
    "tail": tail,
    "random turns": random_turns,
    "idf novelty": novelty,
    "digest, readable": readable,
    "digest, dense": dense,
    **{f"preset {name}": by_preset(name) for name in preset_names()},
}
"""Name → view of a dialogue within a budget."""


def m1(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    """Per view and budget: score, all answer words, evidence, chance, tokens (percent; means over questions), and
    in how many dialogues the view passes its budget."""
    spoken = dialogues()[: 2 if quick else None]
    budgets = BUDGETS[1:3] if quick else BUDGETS
    asked = [(name, budget, len(spoken)) for name in DIALOGUE_VIEWS for budget in budgets]
    ceiling, *measured = done(_measured, [("full text", 0, len(spoken)), *asked], on)
    rows: dict[str, dict[str, Any]] = {}
    for (name, budget, _), row in zip(asked, measured, strict=True):
        rows.setdefault(name, {})[str(budget)] = row
    return {
        "dialogues": [dialogue.name for dialogue in spoken],
        "questions": sum(len(dialogue.questions) for dialogue in spoken),
        "ceiling": ceiling,
        "views": rows,
    }


def _measured(asked: tuple[str, int, int]) -> dict[str, float]:
    """One view within one budget, of the first dialogues."""
    name, budget, number = asked
    view, spoken = DIALOGUE_VIEWS.get(name, full), dialogues()[:number]
    shown = [view(dialogue, budget) for dialogue in spoken]
    rows = [row for text, dialogue in zip(shown, spoken, strict=True) for row in ask(text, dialogue)]
    others = [
        row
        for place, dialogue in enumerate(spoken)
        for row in ask(shown[(place + 1) % len(spoken)], dialogue)
    ]
    return {
        "over_budget": float(sum(count(text) > budget for text in shown)) if budget else 0.0,
        "score": percent(row[0] for row in rows),
        "all_words": percent(row[1] for row in rows),
        "evidence": percent(row[2] for row in rows),
        "chance": percent(row[0] for row in others) if len(spoken) > 1 else 0.0,
        "tokens": round(sum(map(count, shown)) / len(shown)),
    }
