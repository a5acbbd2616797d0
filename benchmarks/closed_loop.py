"""M13, closed loop: does the work get done? A scripted reader does the chores of `benchmarks.chores`, from views.

    python -m benchmarks closed_loop [--quick] [--on processes:2]
    python -m benchmarks.closed_loop --seeds 0-49 --on processes:16 --out PART.json     some of the worlds
    python -m benchmarks.closed_loop --store PART.json …                    parts of one commit, as the stored result
    python -m benchmarks.closed_loop SEED VIEW WINDOW [recall]      one world, every loss with what the view said

Protocol, written before the first run:

- 100 worlds (seeds 0 to 99) of 60 to 300 tool calls; windows of 4,000, 8,000 and 16,000 tokens; every preset, the plain tail
  and no limit; every preset with and without recall. `refold` with `window` and nothing else; other presets scaled to the window by
  their own `budget`, with `fallback = digest` so that none is refused; summaries by the embedded digest for all of them. The tail is the
  newest messages that fit into four fifths of the window (what `refold` leaves for an answer), without parted calls.
- The reader knows how each chore is done and which fact it takes, and no value. It reads the request as sent (OpenAI's form), nothing
  else: a value counts where a sentence or line has the subject's words and a value of that kind; in results the call that they
  answer counts as part of the line. The newest statement wins. If there is none, the line before
  or after it may name the subject (two lines where a tool or the agent said it). Paths of a list by folder are read as whole paths: that
  was added after the first look at views, in which such lists were taken for no paths.
- What is missing and stands in a tool's answer is fetched by the call that shows it: a step that is *wasted* if the call was made
  before. What was only said is asked for with recall where that is allowed (one call for each missing fact, tried before any other
  call); else the user has to be asked, and the chore is *not done*. A value that is not the newest, or of something else: *done wrong*.
- A rule that no sentence of the view states is not known, so it is not looked for either: it is *broken*.
- A chore is a success where every argument of its last call is right. Chores without needs or rules are not scored.
- Money: every request with the prices of `PRICED`, output by size, and the cache of the longest common prefix of messages; no time passes.

What favours whom: the user's messages carry about half of the needed facts, in few words: that favours views that keep what the user
typed (`refold`) and, in the window, the tail. Statements are literal: views made of quotations are read better than
summaries by a model would be, and `pi`, `augment`, `window` and `layered` were designed for a model's summaries. Files can be read again
at the price of one call: that favours views that forget results. The reader never overlooks anything: that favours long views and no limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import msgspec

from benchmarks import results
from benchmarks.chores import Call, Chore, Fact, Rule, World, right
from benchmarks.measuring import COUNTER, done
from refold import Engine, Session, presets
from refold import messages as m
from refold.compare.money import PRICED, priced
from refold.errors import RefoldError
from refold.recall import tool as recall_tool
from refold.session.items import Item
from refold.session.view import View

WORLDS = 100
WINDOWS = (4_000, 8_000, 16_000)
VIEWS = (*presets.NAMES, "tail")
SYSTEM = (
    "You do chores for a small company. Tools: read, write, append, book, find_entry, reverse, mail, run_tests, "
    "mark_flaky, list_tables, add_column, deploy. Do what the user asks, keep to what the user has laid down."
)
TRIES = 2
"""How often the reader makes one call for one chore before it gives up."""


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


class Line(NamedTuple):
    text: str
    about: str
    """The call that it is part of the answer to."""


@lru_cache(maxsize=20_000)
def sentences(text: str) -> tuple[str, ...]:
    parts = re.split(r"\n+|(?<=[.!?])\s+", text)
    return tuple(part for part in parts if part.strip())


@lru_cache(maxsize=20_000)
def lines_of(text: str, about: str) -> tuple[Line, ...]:
    """Lines of a message. A record of recall says in its tag which call it answers; a list by folder
    (`- notes/: a.md, b.md`) says the paths of files that are named without it elsewhere."""
    made: list[Line] = []
    folders: dict[str, str] = {}
    for part in sentences(text):
        if part.startswith("<refold-record"):
            about = part
        if grouped := _GROUPED.fullmatch(part):
            names = grouped[2].split(", ")
            folders |= {name: f"{grouped[1]}{name}" for name in names}
            part = f"- {', '.join(folders[name] for name in names)}"
        elif named := _NAMED.fullmatch(part):
            part = f"- {folders.get(named[1], named[1])}{named[2]}"
        made.append(Line(part, about))
    return tuple(made)


_GROUPED = re.compile(r"- (\S+/): (\S.*)")
_NAMED = re.compile(r"- ([\w.-]+\.\w+)( #\d+.*)")


def messages_of(request: Sequence[dict[str, Any]]) -> list[tuple[Line, ...]]:
    """What a request says, message by message; the system prompt is no message."""
    calls: dict[str, str] = {}
    found: list[tuple[Line, ...]] = []
    for message in request:
        content = message.get("content") or ""
        text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        for made in message.get("tool_calls", ()):
            calls[made["id"]] = f"{made['function']['name']} {made['function']['arguments']}"
            text += f"\n{calls[made['id']]}"
        if message["role"] != "system":
            found.append(lines_of(text, calls.get(message.get("tool_call_id", ""), "")))
    return found


class Reader:
    """Reads one request."""

    def __init__(self, request: Sequence[dict[str, Any]]) -> None:
        self.messages = messages_of(request)

    def value(self, fact: Fact) -> str | None:
        near = 1 if fact.source == "user" else 2
        for back in (0, near):
            for lines in reversed(self.messages):
                for at in range(len(lines) - 1, -1, -1):
                    if match := self._stated(fact, lines, at, back):
                        return match
        return None

    @staticmethod
    def _stated(fact: Fact, lines: Sequence[Line], at: int, back: int) -> str | None:
        line = lines[at]
        matches = list(re.finditer(fact.pattern, line.text))
        if not matches:
            return None
        around = lines[max(at - back, 0) : at + 1 + back]
        if not all(word in line.about or any(word in each.text for each in around) for word in fact.subject):
            return None
        place = line.text.find(fact.subject[0])
        best = min(matches, key=lambda match: abs(match.start() - place)) if place >= 0 else matches[0]
        return best[1] if best.re.groups else best[0]

    def rule(self, rule: Rule) -> str | None:
        """Its value, empty where it has none; None: the view does not state it."""
        for lines in reversed(self.messages):
            for line in reversed(lines):
                if line.about or not all(re.search(mark, line.text) for mark in rule.marks):
                    continue
                last = re.search(rule.marks[-1], line.text)
                assert last
                return (last[1] if last.re.groups else last[0]) if rule.value else ""
        return None

    def says(self, text: str) -> bool:
        wanted = sentences(text)[-1]
        return any(wanted in line.text for lines in reversed(self.messages) for line in lines)

    def why(self, fact: Fact, told: str | None) -> str:
        """Why a value was not read, or a wrong one was."""
        if any(fact.value in line.text for lines in self.messages for line in lines):
            return (
                "the view has the value, away from its subject"
                if told is None
                else "the view has the right value too"
            )
        return "the view does not have the value" if told is None else "the view has only another value"

    def hints(self, rule: Rule) -> list[str]:
        """Lines that say a part of a rule."""
        return [
            line.text[:160]
            for lines in self.messages
            for line in lines
            if re.search(rule.marks[0], line.text)
        ][-2:]

    def about(self, fact: Fact) -> list[str]:
        """Lines that name the subject: what the view said instead."""
        return [line.text[:200] for lines in self.messages for line in lines if all(word in line.text for word in fact.subject)]  # fmt: skip


# ── working ─────────────────────────────────────────────────────────────────────────────────────


def engine_of(name: str, window: int) -> Engine:
    if name == "refold":
        return Engine(presets.get(name, window=window))
    return Engine(presets.get(name, budget=window, fallback="digest"))


def tail(session: Session, room: int, system: str) -> View:
    """The newest messages that fit, from the first that is no tool's answer."""
    items, sizes = list[Item](), list[int]()
    for entry in reversed(session.path):
        message = entry.message  # type: ignore[union-attr]
        size = session.cached_count(entry.id, message, COUNTER)
        if size > room:
            break
        room -= size
        items.append(Item(message, (entry.id,)))
        sizes.append(size)
    while items and items[-1].message.role == "tool":
        items.pop()
        sizes.pop()
    return View(items[::-1], counter=COUNTER, count=lambda: sum(sizes), system=system)


class Bill:
    """What requests cost, with a cache of the longest common prefix of messages."""

    def __init__(self) -> None:
        self.prices = priced(PRICED).prices
        self.before: list[bytes] = []
        self.requests = self.tokens = self.cached = 0
        self.dollars = 0.0

    def add(self, request: Sequence[dict[str, Any]], tokens: int, output: int) -> None:
        now = [msgspec.json.encode(message) for message in request]
        same = next((at for at, (a, b) in enumerate(zip(now, self.before, strict=False)) if a != b), min(len(now), len(self.before)))  # fmt: skip
        sizes = [_size(text) for text in now]
        warm = round(tokens * sum(sizes[:same]) / max(sum(sizes), 1))
        usage = self.prices.prompt(warm, tokens - warm)
        self.dollars += self.prices.cost(usage) + output * self.prices.output / 1_000_000
        self.requests, self.tokens, self.cached = (
            self.requests + 1,
            self.tokens + tokens,
            self.cached + usage.cache_read,
        )
        self.before = now


@lru_cache(maxsize=20_000)
def _size(message: bytes) -> int:
    return COUNTER.text(json.dumps(json.loads(message)))


class Loss(NamedTuple):
    chore: int
    step: int
    kind: str
    what: str
    source: str
    """Who said what was needed."""
    wanted: str
    why: str
    view: str
    """What the view says about it."""


class Run:
    """One world, done from the views of one design."""

    def __init__(self, world: World, name: str, window: int, recall: bool) -> None:
        self.world, self.name, self.window, self.recall, self.system = world, name, window, recall, SYSTEM
        numbers = count()
        self.session = Session(id=f"{world.seed}", new_id=lambda: f"e{next(numbers)}")
        self.engine = engine_of(name, window) if name in presets.NAMES else None
        self.tools = [recall_tool.SPEC] if recall else []
        self.bill, self.made, self.steps = Bill(), Counter[Call](), 0
        self.wasted = self.recalled = self.scored = self.right = self.ruled = 0
        self.losses: list[Loss] = []
        self.needs: dict[str, list[bool]] = defaultdict(list)

    async def view(self) -> list[dict[str, Any]] | None:
        """The request; None: it cannot be sent."""
        try:
            if self.engine:
                view = await self.engine.prepare(self.session, system=self.system, tools=self.tools)
            else:
                view = tail(self.session, self.window * 4 // 5 if self.name == "tail" else 10**9, self.system)
        except RefoldError:
            return None
        request = view.to_openai()
        self.bill.add(request, view.tokens, 0)
        return request

    def say(self, text: str, made: Call | None = None) -> None:
        output = 30
        if made is None:
            self.session.append(m.assistant(text))
        else:
            self.steps += 1
            arguments = dict(made[1])
            id = f"c{self.steps}"
            self.session.append(m.assistant(text, m.call(id, made[0], arguments)))
            if made[0] == recall_tool.NAME:
                call = m.call(id, made[0], arguments)
                self.session.append(recall_tool.result(self.session, call, budget=self.window // 8))
                self.recalled += 1
            else:
                self.session.append(m.result(id, self.world.answer(made), name=made[0]))
            self.made[made] += 1
            output += 10 + len(str(made)) // 4
        self.bill.dollars += output * self.bill.prices.output / 1_000_000

    async def go(self) -> dict[str, Any]:
        for number, chore in enumerate(self.world.chores):
            self.session.append(m.user(chore.message))
            await self.do(number, chore)
        share = {source: mean(seen) for source, seen in self.needs.items()}
        named = {f"{loss.kind}: {loss.what}": loss for loss in reversed(self.losses)}
        broken = sum(loss.kind == "rule broken" for loss in self.losses)
        return {
            "success": self.right / self.scored if self.scored else None,
            "needs": share,
            "rules": 1 - broken / self.ruled if self.ruled else None,
            "steps": self.steps,
            "wasted": self.wasted / max(self.steps, 1),
            "recalls": self.recalled / max(self.steps, 1),
            "tokens": self.bill.tokens,
            "cached": self.bill.cached,
            "dollars": self.bill.dollars,
            "losses": dict(Counter(f"{loss.kind}: {loss.what}" for loss in self.losses)),
            "why": dict(Counter(f"{loss.kind}: {loss.why}" for loss in self.losses)),
            "examples": {title: loss._asdict() | {"seed": self.world.seed} for title, loss in named.items()},
        }  # fmt: skip

    async def do(self, number: int, chore: Chore) -> None:
        """One chore, call by call; before every call the view is read again."""
        here, asked = Counter[Call](), set[str]()
        losses: list[Loss] = []

        def lose(kind: str, what: str, source: str, wanted: str, why: str, view: Sequence[str] = ()) -> None:
            losses.append(Loss(number, self.steps, kind, what, source, wanted, why, " | ".join(view)[-600:]))

        known: dict[str, str] = {}
        reader = Reader(())
        while True:
            request = await self.view()
            if request is None:
                lose("not sent", chore.kind, "", "", "the engine refused: it does not fit")
                break
            reader = Reader(request)
            if not reader.says(chore.message):
                lose("request lost", chore.kind, "user", chore.message[-200:], "the view does not have it")
                break
            known = {rule.name: told for rule in chore.rules if (told := reader.rule(rule)) is not None}
            by_rule = chore.by_rule if len(known) == len(chore.rules) else []
            waiting = next((made for made in (*chore.fresh, *by_rule) if not here[made]), None)
            values = {fact.kind: reader.value(fact) for fact in chore.needs}
            missing = [fact for fact in chore.needs if values[fact.kind] is None]
            if waiting:
                here[waiting] += 1
                self.say("", waiting)
                continue
            if missing and (more := self.fetch(missing[0], here, asked)):
                self.say("", more)
                continue
            for fact in chore.needs if chore.act else ():
                told = values[fact.kind]
                if told != fact.value:
                    lose("not done" if told is None else "done wrong", fact.kind, fact.source, fact.value,
                         reader.why(fact, told), [f"read: {told}", *reader.about(fact)[-3:]])  # fmt: skip
                if fact.kind != "total":
                    self.needs[fact.source].append(told == fact.value)
            if not missing and chore.act:
                self.say("", chore.act({kind: told or "" for kind, told in values.items()}, known))
            said = {kind: told or "(unknown)" for kind, told in values.items()}
            await self.view()
            self.say(
                "Which one do you mean? I do not have it at hand." if missing else chore.says.format(**said)
            )
            break
        if chore.act and not any(loss.kind in ("not sent", "request lost", "not done") for loss in losses):
            self.ruled += len(chore.rules)
            for rule in chore.rules:
                if known.get(rule.name) != rule.value and self.breaks(chore, known, here):
                    why = (
                        "the view states another value"
                        if rule.name in known
                        else "no sentence states the rule"
                    )
                    told = [f"read: {known.get(rule.name)}", *reader.hints(rule)]
                    lose("rule broken", rule.name, "user", rule.value or rule.name, why, told)
        if chore.act and (chore.needs or chore.rules):
            self.scored += 1
            self.right += not losses
            self.losses += losses
        if losses and losses[0].kind in ("not sent", "request lost"):
            self.say("I lost track of what you asked for.")

    @staticmethod
    def breaks(chore: Chore, known: dict[str, str], made: Counter[Call]) -> bool:
        """Whether a reader who knows the facts and only these rules would act otherwise."""
        assert chore.act
        true_values = {fact.kind: fact.value for fact in chore.needs}
        return chore.act(true_values, known) != right(chore) or not all(made[call] for call in chore.by_rule)

    def fetch(self, fact: Fact, here: Counter[Call], asked: set[str]) -> Call | None:
        """How to come by something that the view does not say."""
        if self.recall and fact.kind not in asked:
            asked.add(fact.kind)
            return recall_tool.NAME, (("query", " ".join((*fact.subject, QUESTIONS[fact.kind]))),)
        if fact.read_again and here[fact.read_again] < TRIES:
            self.wasted += self.made[fact.read_again] > 0
            here[fact.read_again] += 1
            return fact.read_again
        return None


QUESTIONS = {
    "person": "name", "account": "account", "ticket": "ticket", "port": "staging port", "setting": "config.toml", "total": "Total due",
    "entry": "posted as ledger entry", "test": "FAILED test", "notes": "notes file", "table": "export table name",
}  # fmt: skip


# ── all of it ───────────────────────────────────────────────────────────────────────────────────


def one(asked: tuple[int, str, int, bool, int | None]) -> dict[str, Any]:
    seed, name, window, recall, steps = asked
    return asyncio.run(Run(World(seed, steps), name, window, recall).go())


def figure(values: Sequence[float | None]) -> list[float]:
    """Mean and standard error over worlds."""
    known = [value for value in values if value is not None]
    if not known:
        return [0.0, 0.0]
    return [mean(known), stdev(known) / sqrt(len(known)) if len(known) > 1 else 0.0]


def table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    counted, reasons = Counter[str](), Counter[str]()
    examples: dict[str, Any] = {}
    for row in rows:
        counted.update(row["losses"])
        reasons.update(row["why"])
        for kind, example in row["examples"].items():
            examples.setdefault(kind, example)
    keys = ("success", "rules", "steps", "wasted", "recalls", "tokens", "cached", "dollars")
    found: dict[str, Any] = {key: figure([row[key] for row in rows]) for key in keys}
    found |= {
        f"knows_{source}": figure([row["needs"].get(source) for row in rows])
        for source in ("user", "tool", "agent")
    }
    by_world = [row["success"] if row["success"] is None else round(row["success"], 4) for row in rows]
    return found | {
        "worlds": len(rows),
        "by_world": by_world,
        "losses": dict(counted),
        "why": dict(reasons),
        "examples": examples,
    }


def ways(windows: Sequence[int]) -> list[tuple[str, int, bool]]:
    """View, window and whether recall is allowed."""
    without = [(name, window, False) for window in windows for name in VIEWS]
    recalling = [(name, window, True) for window in windows for name in presets.NAMES]
    return [*without, *recalling, ("no limit", 10**6, False)]


def part(
    seeds: Sequence[int], windows: Sequence[int], steps: int | None, on: str, out: Path
) -> dict[str, Any]:
    """Some of the worlds, done; written down after each of them, so that it stays if the run is ended."""
    began, rows, asked = time.monotonic(), dict[str, dict[str, Any]](), ways(windows)
    about = {"measure": "M13", "windows": list(windows), "priced": PRICED, "steps": steps}
    measured = {"about": about, "made": results.surroundings(), "seconds": 0.0, "rows": rows}
    jobs = [(seed, *way, steps) for seed in seeds for way in asked]
    world: dict[str, Any] = {}
    for (seed, name, window, recall, _), row in zip(jobs, done(one, jobs, on), strict=True):
        world[f"{name}/{window}/{'recall' if recall else 'no recall'}"] = row
        if len(world) == len(asked):
            rows[str(seed)], world = world, {}
            measured["seconds"] = round(time.monotonic() - began, 1)
            print(f"world {seed}: {measured['seconds']:.0f} s", flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(measured), encoding="utf-8")
    return measured


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The result of all worlds. Parts of one protocol, commit and versions only, each world once, none left out."""
    known = [
        each["about"] | {key: each["made"][key] for key in ("commit", "python", "versions")} for each in parts
    ]
    if any(one != known[0] for one in known):
        raise SystemExit(f"parts of different runs: {known}")
    listed = sorted((int(seed), world) for each in parts for seed, world in each["rows"].items())
    seeds = [seed for seed, _ in listed]
    if seeds != list(range(len(seeds))):
        raise SystemExit(f"worlds are missing or twice there: {seeds}")
    titles = list(listed[0][1])
    views = {title: table([world[title] for _, world in listed]) for title in titles}
    return parts[0]["about"] | {"seeds": [0, seeds[-1]], "views": views}


def run(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    seeds, windows, steps = (range(2), WINDOWS[1:2], 60) if quick else (range(WORLDS), WINDOWS, None)
    return merged([part(seeds, windows, steps, on, results.QUICK / "closed_loop_part.json")])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("world", nargs="*", metavar="SEED VIEW WINDOW [recall]")
    parser.add_argument("--seeds", help="first and last world, such as 0-49")
    parser.add_argument("--on", default="here", help="here, processes:16 …")
    parser.add_argument("--out", type=Path, help="the file for these worlds")
    parser.add_argument("--store", type=Path, nargs="+", help="files of --out: write the result; run nothing")
    given = parser.parse_args()
    if given.store:
        parts = [json.loads(path.read_text(encoding="utf-8")) for path in given.store]
        made = parts[0]["made"] | {"load_before": [], "load_after": []}
        seconds = sum(each["seconds"] for each in parts)
        results.write("closed_loop", merged(parts), seconds=seconds, before=[], quick=False, made=made)
    elif given.seeds and given.out:
        first, _, last = given.seeds.partition("-")
        part(range(int(first), int(last or first) + 1), WINDOWS, None, given.on, given.out)
    elif len(given.world) in (3, 4):
        seed, name, window, *rest = given.world
        made = Run(World(int(seed)), name, int(window), bool(rest))
        found = asyncio.run(made.go())
        for loss in made.losses:
            print(json.dumps(loss._asdict(), ensure_ascii=False))
        found.pop("examples")
        print(json.dumps(found, indent=1))
    else:
        parser.error("give --seeds and --out, or --store, or a world: SEED VIEW WINDOW")


if __name__ == "__main__":
    main()
