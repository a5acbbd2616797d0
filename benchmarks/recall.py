"""M4: what recall finds. Dialogue evidence, what agents need again, and time per query.

`python -m benchmarks.recall [--quick]`; `run()` gives the same as a value that can be written as JSON.

The row `held out` is the fair one for dialogue: for each conversation the weights are chosen from nothing on the others
(`benchmarks/recall_folds.py`, some minutes). The features themselves, and the weights for tool logs, were chosen
while looking at these texts.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from benchmarks.measuring import DATA
from benchmarks.recall_folds import DEPTHS, Asked, Judge, held_out
from benchmarks.references import Prefix, Probe, prefixes, tail_only
from refold import messages as m
from refold.recall import Index, rank, search
from refold.text import words

SIZES = (1_000, 10_000, 100_000)
Find = Callable[[str], list[int]]
"""Question → positions of turns, best first."""


class Conversation(msgspec.Struct, frozen=True):
    name: str
    turns: list[str]
    asked: list[Asked]


def conversations() -> list[Conversation]:
    """Turns as M1 feeds them; questions of categories 1–4 whose evidence exists."""
    found: list[Conversation] = []
    for path in sorted((DATA / "locomo").glob("*.json")):
        found.extend(_conversation(raw) for raw in json.loads(path.read_text(encoding="utf-8")))
    return found


def _conversation(raw: dict[str, Any]) -> Conversation:
    turns: dict[str, str] = {}
    said = raw["conversation"]
    number = 1
    while f"session_{number}" in said:
        for place, turn in enumerate(said[f"session_{number}"]):
            text = f"{turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                text += f" [image: {turn['blip_caption']}]"
            turns[turn["dia_id"]] = f"[{said[f'session_{number}_date_time']}]\n{text}" if place == 0 else text
        number += 1
    position = {id: at for at, id in enumerate(turns)}
    return Conversation(raw.get("sample_id", "?"), list(turns.values()), list(_asked(raw["qa"], position)))


def _asked(rows: Iterable[dict[str, Any]], position: dict[str, int]) -> Iterator[Asked]:
    for row in rows:
        named = {id for cell in row["evidence"] for id in re.findall(r"D\d+:\d+", cell)}
        evidence = frozenset(position[id] for id in named if id in position)
        if row["category"] in (1, 2, 3, 4) and evidence:
            yield Asked(row["question"], row["category"], evidence)


# ── who is measured ─────────────────────────────────────────────────────────────────────────────


def indexed(turns: Sequence[str]) -> Index:
    index = Index()
    for at, text in enumerate(turns):
        index.add(str(at), m.assistant(text) if at % 2 else m.user(text), at // 2 + 1)
    return index


def ours(turns: Sequence[str], weights: rank.RankWeights | None = None) -> Find:
    return asking(indexed(turns), weights)


def asking(index: Index, weights: rank.RankWeights | None) -> Find:
    def find(question: str) -> list[int]:
        return [
            i for i, _ in rank.rank(index, rank.parse_question(index, question, weights), limit=DEPTHS[-1])
        ]

    return find


def own_words(turns: Sequence[str]) -> Find:
    """Our terms under plain BM25: what neighbours, speakers, questions and dates add is the difference."""
    plain = rank.RankWeights(
        before=(), after=(), answer=0, spread=1e9, speaker=0, asking=0, time=0, date=0, size=0
    )  # fmt: skip
    return ours(turns, plain)


def fts5(turns: Sequence[str]) -> Find:
    """SQLite's full-text search: porter stems, BM25, any of the words."""
    import apsw

    database = apsw.Connection(":memory:")
    database.execute("CREATE VIRTUAL TABLE turns USING fts5(text, tokenize='porter unicode61')")
    database.executemany("INSERT INTO turns(rowid, text) VALUES (?, ?)", enumerate(turns))

    def find(question: str) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        rows = database.execute(
            "SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY bm25(turns) LIMIT 100", (words,)
        )
        return [row[0] for row in rows]

    return find


def by_chance(turns: Sequence[str]) -> Find:
    order = list(range(len(turns)))
    return lambda question: random.Random(question).sample(order, min(100, len(order)))


# ── dialogue ────────────────────────────────────────────────────────────────────────────────────


def shares(found: Sequence[int], evidence: frozenset[int]) -> tuple[float, ...]:
    return tuple(len(evidence.intersection(found[:depth])) / len(evidence) for depth in DEPTHS)


def judged(
    every: Sequence[Conversation], make: Callable[[Sequence[str]], Find]
) -> list[list[tuple[float, ...]]]:
    """Per conversation, per question: the shares of evidence at each depth."""
    result: list[list[tuple[float, ...]]] = []
    for each in every:
        find = make(each.turns)
        result.append([shares(find(asked.question), asked.evidence) for asked in each.asked])
    return result


def _row(results: Iterable[Sequence[tuple[float, ...]]]) -> dict[str, float]:
    every = [row for rows in results for row in rows]
    return {
        f"@{d}": round(100 * sum(row[n] for row in every) / max(1, len(every)), 1)
        for n, d in enumerate(DEPTHS)
    }


def dialogue(*, quick: bool = False) -> dict[str, Any]:
    every = conversations()
    mine = judged(every, ours)
    table = {"chance": _row(judged(every, by_chance)), "FTS5 porter BM25": _row(judged(every, fts5))}
    table |= {"ours, own words only": _row(judged(every, own_words)), "ours": _row(mine)}
    if not quick:
        folds = held_out([Judge(indexed(each.turns), each.asked) for each in every])
        table["held out"] = _row(shares for _, shares in folds)
    by_category: defaultdict[int, list[tuple[float, ...]]] = defaultdict(list)
    for each, rows in zip(every, mine, strict=True):
        for asked, row in zip(each.asked, rows, strict=True):
            by_category[asked.category].append(row)
    return {
        "questions": sum(len(each.asked) for each in every),
        "table": table,
        "ours by conversation": {each.name: _row([rows]) for each, rows in zip(every, mine, strict=True)},
        "ours by category": {str(kind): _row([rows]) for kind, rows in sorted(by_category.items())},
    }


# ── agents ──────────────────────────────────────────────────────────────────────────────────────


_ASKED_WITH = ("whole call", "call without the probe", "… with the tool's name", "… where words are left")


def agents(*, quick: bool = False, asked: Sequence[str] = _ASKED_WITH, every: int = 1) -> dict[str, Any]:
    """Probes of M2 that are not in the newest 20 %: does an entry that holds it come back in the top 5?
    Asked with the whole call; with the other arguments only; with these and the tool's name. Where the probe
    was the only argument, nothing is left to ask with: the last row leaves those out. `every` takes a part of the
    probes."""
    found: dict[str, defaultdict[str, list[bool]]] = {name: defaultdict(list) for name in asked}
    for prefix in prefixes(quick=quick):
        view = tail_only(prefix, prefix.tokens // 5)
        for probe in prefix.probes[::every]:
            if probe.name not in view:
                for name, query in zip(_ASKED_WITH, _queries(probe), strict=True):
                    if query is not None and name in found:
                        found[name][prefix.source].append(_returns(prefix, query, probe.name))
    probes = {source: len(hits) for source, hits in sorted(found[asked[0]].items())}
    return {"probes": probes} | {name: _percents(rows) for name, rows in found.items()}


def _queries(probe: Probe) -> tuple[str, str, str, str | None]:
    rest = probe.query
    return f"{rest}\n{probe.name}", rest, f"{probe.tool}\n{rest}", rest if words.terms(rest) else None


def _returns(prefix: Prefix, query: str, name: str) -> bool:
    holding = {entry.id for entry, text in zip(prefix.entries, prefix.texts, strict=True) if name in text}
    return any(hit.entry_id in holding for hit in search(prefix.index, query, limit=5))


def _percents(found: dict[str, list[bool]]) -> dict[str, float]:
    every = [hit for hits in found.values() for hit in hits]
    rows = {source: round(100 * sum(hits) / len(hits), 1) for source, hits in sorted(found.items())}
    return rows | {"all": round(100 * sum(every) / max(1, len(every)), 1)}


# ── time ────────────────────────────────────────────────────────────────────────────────────────


def speed(*, quick: bool = False) -> dict[str, Any]:
    """Processor time of a query (limit 5) on made-up logs whose words are spread as in real text."""
    return {str(size): _timed(size) for size in (SIZES[:2] if quick else SIZES)}


def _timed(size: int) -> dict[str, float]:
    chance = random.Random(size)
    vocabulary = ["".join(chance.choices("bdfglmnprstvaeiou", k=7)) for _ in range(20_000)]
    weights = [1 / (n + 5) for n in range(len(vocabulary))]
    drawn = iter(chance.choices(vocabulary, weights, k=size * 22 + 8000))
    index = Index()
    start = time.process_time()
    for at in range(size):
        text = " ".join(next(drawn) for _ in range(22))
        index.add(str(at), m.assistant(text) if at % 2 else m.user(f"{text}?"), at // 2 + 1)
    built = time.process_time() - start
    short, long = (
        _times(index, [" ".join(next(drawn) for _ in range(n)) for _ in range(50)]) for n in (7, 60)
    )
    named = [" ".join(f"{next(drawn)}_{next(drawn)}" for _ in range(25)) for _ in range(50)]
    return {
        "median ms": round(short[25], 2),
        "95 % ms": round(short[47], 2),
        "60 words, median ms": round(long[25], 2),
        "25 identifiers, median ms": round(_times(index, named, rank.WORK)[25], 2),
        "build s": round(built, 2),
    }


def _times(index: Index, queries: Iterable[str], weights: rank.RankWeights | None = None) -> list[float]:
    times: list[float] = []
    for query in queries:
        start = time.process_time()
        rank.rank(index, rank.parse_question(index, query, weights), limit=5)
        times.append(1000 * (time.process_time() - start))
    return sorted(times)


def run(quick: bool = False) -> dict[str, Any]:
    """All of it; what needs the transcripts is left out where they are not there."""
    result: dict[str, Any] = {"speed": speed(quick=quick)}
    if not DATA.exists():
        print(f"no transcripts in {DATA}: set REFOLD_DATA to the folder that has them", file=sys.stderr)
        return result
    return {"dialogue": dialogue(quick=quick), "agents": agents(quick=quick)} | result


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv[1:]), indent=1))
