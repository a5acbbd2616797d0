"""M3, drift: what is left of planted facts of four kinds after 1 to 20 folds, for every preset and every strategy.

    python -m benchmarks drift [--quick] [--on processes:2]

A world of `benchmarks.chores` (120 tool calls, done without a mistake) is fed and folded by request at 1, 2, 5, 10 or 20 growing prefixes to 8,000
tokens: the same conversation, folded more often. Then the view is read literally (`benchmarks.closed_loop.Reader`), for everything that was ever
said, corrections counted; what is missing is asked for once with recall, and the answer read alone. Kinds:

- facts: names, accounts, tickets, ports (by the user), settings and ledger entries (in tool results);
- artefacts: notes files that the agent made, failing tests, files that it changed;
- decisions: names that the agent chose, rules that the user laid down;
- continuation: the goal, stated first, and six things that the user put off ("not now").

A strategy is measured by a preset that has no other one. No model: summaries are the embedded digest's. Chance decides nothing but the seeds.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from benchmarks.chores import Fact, Rule, World, right
from benchmarks.closed_loop import QUESTIONS, Reader, figure
from benchmarks.measuring import done
from refold import Engine, Session, presets
from refold import messages as m
from refold.compaction.plan import Stage
from refold.compare.replay import replay
from refold.errors import RefoldError
from refold.recall import tool as recall_tool

BUDGET = 8_000
FOLDS = (1, 2, 5, 10, 20)
SEEDS = 12
STEPS = 120
GOAL = "All of this is for the Halberd migration: by the end of the quarter nothing may depend on the old mainframe."
KINDS = {
    **dict.fromkeys(("person", "account", "ticket", "port", "setting", "entry"), "facts"),
    **dict.fromkeys(("notes", "test", "changed"), "artefacts"),
    "table": "decisions", "rule": "decisions",
    "goal": "continuation", "later": "continuation",
}  # fmt: skip
ROUNDS = ("recent-only", "compressed", "summary-only")
"""Strategies of `rounds`, which are settings."""


def conversation(world: World) -> tuple[Session, list[Fact]]:
    """A world done without a mistake, and what was planted beside its own facts."""
    numbers, calls = count(), count()
    session = Session(id=f"drift {world.seed}", new_id=lambda: f"e{next(numbers)}")
    planted = [
        Fact(
            "goal",
            ("Halberd",),
            r"nothing may depend on the old mainframe",
            "nothing may depend on the old mainframe",
            "user",
        )
    ]
    session.append(m.user(GOAL))
    session.append(m.assistant("Understood."))
    every = max(len(world.chores) // 7, 1)
    for number, chore in enumerate(world.chores):
        message = chore.message
        if number % every == 1 and len(planted) <= 6:
            name = f"{world.chance.choice(('rename', 'drop', 'split'))}_{world.chance.choice(('quota', 'stamp', 'ladder'))}_{number}"
            planted.append(Fact("later", ("Not now",), rf"\b{name}\b", name, "user"))
            message += f" Not now, but before we are done: write the script {name}."
        session.append(m.user(message))
        last = right(chore)
        for made in (*chore.fresh, *chore.by_rule, *([last] if last else ())):
            id = f"c{next(calls)}"
            session.append(m.assistant("", m.call(id, made[0], dict(made[1]))))
            session.append(m.result(id, world.answer(made), name=made[0]))
            if chore.kind == "debug" and made[0] == "write":
                path = dict(made[1])["path"]
                planted.append(Fact("changed", (path,), rf"{path}", path, "agent"))
        session.append(m.assistant(chore.says.format(**{fact.kind: fact.value for fact in chore.needs})))
    return session, planted


def designs() -> dict[str, tuple[str, str]]:
    """Every preset, and every strategy of it that is one of several."""
    found: dict[str, tuple[str, str]] = {}
    for name in presets.NAMES:
        found[name] = name, ""
        strategies = [
            strategy.name
            for stage in presets.get(name, budget=BUDGET).stages
            for strategy in stage.strategies
        ]
        strategies = list(ROUNDS) if name == "rounds" else strategies
        found |= {f"{name}: {one}": (name, one) for one in strategies if len(strategies) > 1}
    return found


def engine_of(name: str, strategy: str) -> Engine:
    if name == "rounds":
        return Engine(
            presets.get(name, budget=BUDGET, **({"history_strategy": strategy} if strategy else {}))
        )
    preset = presets.get(name, budget=BUDGET)
    if strategy:
        stages = [
            replace(
                stage,
                strategies=tuple(strategy for strategy in stage.strategies if strategy.name == strategy),
            )
            for stage in preset.stages
        ]
        preset = replace(preset, stages=tuple(stage for stage in stages if stage.strategies))
        if all(stage.maintenance for stage in preset.stages):
            preset = replace(
                preset,
                stages=(*preset.stages, *(Stage(stage.trigger, stage.strategies) for stage in preset.stages)),
            )
    return Engine(preset)


def checks(world: World, planted: list[Fact]) -> Iterator[tuple[str, Fact | Rule]]:
    for fact in (*world.facts.values(), *planted):
        if fact.kind in KINDS:
            yield fact.kind, fact
    for rule in world.rules.values():
        yield "rule", rule


def score(asked: tuple[int, str, str, int]) -> dict[str, Any]:
    seed, name, strategy, folds = asked
    world = World(seed, STEPS)
    source, planted = conversation(world)
    engine = engine_of(name, strategy)
    try:
        made = asyncio.run(replay(engine, source, passes=folds))
    except RefoldError as error:
        return {"failed": str(error)}
    view = engine.view(made.session)
    reader = Reader(view.to_openai())
    kept: dict[str, list[bool]] = defaultdict(list)
    recalled: dict[str, list[bool]] = defaultdict(list)
    lost: list[str] = []
    for kind, thing in checks(world, planted):
        seen = _reads(reader, thing)
        kept[KINDS[kind]].append(seen)
        recalled[KINDS[kind]].append(seen or _reads(Reader(_asked(made.session, thing)), thing))
        if not seen:
            lost.append(f"{kind}: {thing.value}")
    return {
        "seed": seed,
        "kept": {kind: sum(seen) / len(seen) for kind, seen in kept.items()},
        "recalled": {kind: sum(seen) / len(seen) for kind, seen in recalled.items()},
        "tokens": view.tokens,
        "folds": len(made.all_folds),
        "lost": lost[:8],
    }


def _reads(reader: Reader, thing: Fact | Rule) -> bool:
    return (reader.value(thing) if isinstance(thing, Fact) else reader.rule(thing)) == thing.value


def _asked(session: Session, thing: Fact | Rule) -> list[dict[str, Any]]:
    """What one question to recall gives, as a request of its own."""
    words = (
        " ".join((*thing.subject, QUESTIONS.get(thing.kind, thing.kind)))
        if isinstance(thing, Fact)
        else RULES[thing.name]
    )
    result = recall_tool.result(session, m.call("q", recall_tool.NAME, query=words), budget=BUDGET // 8)
    return [{"role": "user", "content": result.text}]


RULES = {
    "vendor": "vendor/ changes",
    "approval": "approval of bookings",
    "copy": "cc of mails",
    "format": "format of notes",
    "tests": "tests before deploy",
}


def run(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    seeds, folds = (range(1), FOLDS[:2]) if quick else (range(SEEDS), FOLDS)
    rows: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    jobs = [
        (title, seed, *design, number)
        for title, design in designs().items()
        for number in folds
        for seed in seeds
    ]
    for (title, *_, number), row in zip(jobs, done(score, [job[1:] for job in jobs], on), strict=True):
        rows[title, number].append(row)
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for (title, number), scored in rows.items():
        found[title][str(number)] = summary(scored, examples=number == max(folds))
    return {
        "measure": "M3",
        "budget": BUDGET,
        "seeds": [min(seeds), max(seeds)],
        "steps": STEPS,
        "designs": found,
    }


def summary(rows: list[dict[str, Any]], *, examples: bool) -> dict[str, Any]:
    good = [row for row in rows if "kept" in row]
    kinds = dict.fromkeys(KINDS.values())
    return {
        "worlds": len(good),
        "failed": sorted({row["failed"] for row in rows if "failed" in row}),
        **{
            key: {kind: figure([row[key].get(kind) for row in good]) for kind in kinds}
            for key in ("kept", "recalled")
        },
        **{key: figure([row[key] for row in good]) for key in ("tokens", "folds")},
        "lost": {row["seed"]: row["lost"] for row in good[:3]} if examples else {},
    }
