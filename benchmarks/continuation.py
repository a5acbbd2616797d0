"""M9, continuation: can a model go on from the view as the real agent did?

A prefix of a real session is folded to a budget; a language model reads the view, and we ask how likely it finds
what the agent really said and called next (about 700 tokens; tool results in between are shown, not scored). The
score of a view is the share of what the full text tells about the next steps that the view still tells: per
session Σ(none − view) ÷ Σ(none − full) in nats per token over its cases, then the mean over sessions. A view that
does not fit its budget, by o200k, counts as none.

    python -m benchmarks.continuation [--only N] [--budgets 2000,4000] [--ways tail,refold] [--on processes:8] [--store]

`full` is the newest 26,000 tokens, or as much of that as the judge's window holds; where that is less than the
budget asks for, the gain over the tail in nats per token is what remains to compare. A window that has to be stretched
for `full` reads everything a little worse: single cases at the smaller budgets are judged in the window that the judge
was made with as well. Controls: a bag of the names of the prefix, and another session, as a view and as its bare tail.
What such text tells about any session is its form; a view of it must tell little more than its tail.

Long range: prefixes of 80,000 tokens and more, scored only on names that last occurred before the tail of that budget:
what only the older part can tell.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from benchmarks import results
from benchmarks.judge import Judge, Said, Span, missing, weights_file
from benchmarks.measuring import done
from refold import Engine, Session, presets, tokens, transcripts
from refold.entries import MessageEntry
from refold.errors import DoesNotFit, RefoldError
from refold.loop import run as wait
from refold.messages import Message
from refold.models.scripted import Scripted, say
from refold.protocols import SessionInfo

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("REFOLD_DATA", ROOT.parent / "shared" / "data"))
FROZEN = Path(os.environ.get("REFOLD_CASES", ROOT.parent / "shared" / "continuation" / "cases.json.gz"))
FOLDERS = ("claude-code", "codex", "gemini", "openhands", "pi", "swe-agent", "adp")
PARTS = (0.40, 0.55, 0.70, 0.85)
LEAST = 9_000
"""Tokens of a prefix."""
SCORED = 700
"""Tokens of the assistant that are scored, about."""
BUDGETS = (2_000, 4_000, 8_000, 16_000)
SMALL = 4_000
"""The largest budget that the judge's own window holds."""
FULL = 26_000
LONG, LONG_BUDGETS = 80_000, (16_000, 32_000)
count = tokens.get("o200k").text
NAME = re.compile(r"[A-Za-z_][\w./-]{4,}")


def shown(message: Message) -> Said:
    """A message in the one form in which every view is shown."""
    text = message.text
    for call in message.calls:
        arguments = call.arguments if call.raw is None else call.raw
        body = json.dumps({"name": call.name, "arguments": arguments}, ensure_ascii=False)
        text += f"\n<tool_call>\n{body}\n</tool_call>"
    if message.role == "tool":
        return "user", f"<tool_response>\n{text}\n</tool_response>"
    return ("user" if message.role == "bash" else message.role), text.strip("\n")


def size(view: Sequence[Said]) -> int:
    return sum(count(text) + 5 for _, text in view)


def middle(text: str, limit: int) -> str:
    """The text without its middle, where it has more than `limit` characters."""
    return text if len(text) <= limit else f"{text[: limit // 2]}\n[…]\n{text[-limit // 2 :]}"


def newest(said: Sequence[Said], budget: int) -> list[Said]:
    """The newest messages that fit; of a single one that does not, its beginning and its end."""
    kept: list[Said] = []
    room = budget
    for role, text in reversed(said):
        room -= count(text) + 5
        if room < 0:
            if not kept:
                kept.append((role, _clipped(text, budget - 5)))
            break
        kept.append((role, text))
    return kept[::-1]


def _clipped(text: str, budget: int) -> str:
    limit = int(len(text) * budget / count(text))
    while limit > 1 and count(middle(text, limit)) > budget:
        limit = int(limit * 0.97)
    return middle(text, limit)


# ── cases ───────────────────────────────────────────────────────────────────────────────────────


class Case:
    """A prefix of a real session, and what was really done next."""

    def __init__(self, name: str, info: SessionInfo, messages: list[Message], after: list[Said]) -> None:
        self.name, self.info, self.messages, self.after = name, info, messages, after
        self.session = name.rsplit("@", 1)[0]
        self.said = [shown(message) for message in messages]
        self.tokens = size(self.said)


def cases() -> list[Case]:
    """The frozen cases where they are at hand, with the prefixes as this release imports them; otherwise made
    from the transcripts in the same way."""
    sessions = dict(_sessions())
    if not FROZEN.exists():
        return [case for name, (info, entries) in sessions.items() for case in _cut(name, info, entries)]
    found: list[Case] = []
    for row in json.loads(gzip.decompress(FROZEN.read_bytes())):
        if row["source"] not in sessions:
            continue
        info, entries = sessions[row["source"]]
        last = next((i for i, entry in enumerate(entries) if entry.id == row["ids"][-1]), None)
        if last is not None:
            messages = [entry.message for entry in entries[: last + 1]]
            found.append(Case(row["case"], info, messages, [(role, text) for role, text in row["after"]]))
    return found


def _sessions() -> Iterator[tuple[str, tuple[SessionInfo, list[MessageEntry]]]]:
    for folder in FOLDERS:
        for path in sorted((DATA / folder).glob("*")) if (DATA / folder).exists() else ():
            if path.suffix not in (".jsonl", ".json", ".traj") or path.name.startswith(("cuts.", "oracle")):
                continue
            for number, (_, loaded) in enumerate(transcripts.read_all(path)):
                name = f"{folder}/{path.stem[:24]}" + (f"#{number}" if number else "")
                entries = [entry for entry in loaded.entries if isinstance(entry, MessageEntry)]
                yield (
                    name,
                    (
                        loaded.info or SessionInfo(id=name),
                        [entry for entry in entries if entry.message.role != "system"],
                    ),
                )


def _cut(name: str, info: SessionInfo, entries: list[MessageEntry]) -> Iterator[Case]:
    for part in PARTS:
        at = int(len(entries) * part)
        while at < len(entries) and entries[at].message.role != "assistant":
            at += 1
        after, scored = list[Said](), 0
        for entry in entries[at : at + 16]:
            role, text = shown(entry.message)
            if entry.message.role == "assistant":
                text = text[:3_000]
                scored += count(text)
            else:
                text = middle(text, 1_200)
            after.append((role, text))
            if scored > SCORED:
                break
        case = Case(f"{name}@{part}", info, [entry.message for entry in entries[:at]], after)
        if case.tokens >= LEAST and scored >= 80:
            yield case


# ── ways to make a view ─────────────────────────────────────────────────────────────────────────

Way = Callable[[Case, int], "list[Said] | None"]
"""None: this way cannot make a view of that size."""


def tail(case: Case, budget: int) -> list[Said]:
    return newest(case.said, budget)


def by_preset(name: str, *, notes: str | None = None, **settings: Any) -> Way:
    """The preset's view, in the form in which it is shown. That writes calls with more blanks than a provider is sent, so a
    view that was full to the brim is folded anew to as much less as it is too long. `notes`: what a model answers that is asked
    for a summary."""

    def view(case: Case, budget: int) -> list[Said] | None:
        room = budget
        for attempt in range(6):
            try:
                made = _prepared(case, presets.get(name, budget=room, **settings), notes)
            except (DoesNotFit, RefoldError):
                return None
            over = size(made) - budget
            room -= over + 8 * attempt
            if over <= 0 or room <= 0:
                break
        return made

    return view


def _prepared(case: Case, preset: Any, notes: str | None = None) -> list[Said]:
    numbers = itertools.count()
    session = Session(info=case.info, clock=lambda: 1.76e9, new_id=lambda: f"{next(numbers):08x}")
    for message in case.messages:
        session.append(message)
    engine = Engine(preset, model=Scripted(then=say(notes)) if notes is not None else None)
    return [shown(message) for message in wait(engine.prepare(session)).messages]


def bag_of_names(case: Case, budget: int) -> list[Said]:
    """A control: the names of the prefix, most used first."""
    names = Counter(name for _, text in case.said for name in NAME.findall(text))
    lines = " ".join(name for name, _ in names.most_common(4 * budget))
    while count(lines) > budget - 10:
        lines = lines[: int(len(lines) * 0.9)]
    return [("user", lines)]


def other_session(case: Case, all_cases: Sequence[Case]) -> Case | None:
    """The next case of another session."""
    at = next(place for place, one in enumerate(all_cases) if one.name == case.name)
    order = (*all_cases[at + 1 :], *all_cases[:at])
    return next((other for other in order if other.session != case.session), None)


def ways(other: Case | None = None) -> dict[str, Way]:
    refold = by_preset("refold")

    def of_another_session(way: Way) -> Way:
        return lambda _, budget: way(other, budget) if other else None

    return {
        "tail": tail,
        "refold": refold,
        **{name: by_preset(name) for name in presets.NAMES if name != "refold"},
        "refold without own words": by_preset("refold", words_share=0.0),
        "refold without state": by_preset("refold", state_tokens=0),
        "refold without lines": by_preset("refold", lines_share=0.0),
        "control: another session": of_another_session(refold),
        "control: another session's tail": of_another_session(tail),
        "control: bag of names": bag_of_names,
    }


# ── the table ───────────────────────────────────────────────────────────────────────────────────


class Asked(NamedTuple):
    case: Case
    other: Case | None
    names: Sequence[str]
    budgets: Sequence[int]
    full: int


def views(asked: Asked) -> dict[str, list[Said]]:
    """Those of a case that fit."""
    case, make = asked.case, ways(asked.other)
    found: dict[str, list[Said] | None] = {"none": [], "full": tail(case, asked.full)}
    for budget in asked.budgets:
        if budget <= 0.7 * case.tokens:
            found |= {f"{name} {budget}": make[name](case, budget) for name in asked.names}
    limits = {name: int(name.rsplit(" ", 1)[1]) if name[-1].isdigit() else FULL for name in found}
    return {name: view for name, view in found.items() if view is not None and size(view) <= limits[name]}


def made(
    chosen: Sequence[Case], names: Sequence[str], budgets: Sequence[int], full: int, on: str
) -> Iterator[tuple[Case, dict[str, list[Said]]]]:
    """Each case with its views."""
    every = cases() if len(chosen) < 4 else chosen
    asked = [Asked(case, other_session(case, every), names, budgets, full) for case in chosen]
    yield from zip(chosen, done(views, asked, on), strict=True)


Rows: TypeAlias = dict[str, dict[str, float]]
"""Case → view → nats per token. A view that is missing or does not fit is not in it."""


def scored(
    judges: Sequence[Judge], views: Iterator[tuple[Case, dict[str, list[Said]]]], total: int
) -> list[Rows]:
    """What each judge says; the second and further ones of small budgets only."""
    found: list[Rows] = [{} for _ in judges]
    began = time.monotonic()
    for number, (case, shown_views) in enumerate(views, 1):
        for place, (judge, rows) in enumerate(zip(judges, found, strict=True)):
            asked = {n: view for n, view in shown_views.items() if not place or n == "none" or _small(n)}
            losses = {name: judge.surprise(view, case.after) for name, view in asked.items()}
            rows[case.name] = {name: loss for name, loss in losses.items() if loss is not None}
        print(f"{number}/{total} {case.name} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def _small(view: str) -> bool:
    budget = view.rsplit(" ", 1)[-1]
    return budget.isdigit() and int(budget) <= SMALL


def old_names(case: Case, budget: int) -> Callable[[str], list[Span]]:
    """Where a text says names that the prefix has, but not its tail of that budget."""
    kept = tail(case, budget)
    newer = {name for _, text in kept for name in NAME.findall(text)}
    older = {
        name for _, text in case.said[: len(case.said) - len(kept)] for name in NAME.findall(text)
    } - newer

    return lambda text: [match.span() for match in NAME.finditer(text) if match[0] in older]


def long_range(path: Path, found: Sequence[Case], names: Sequence[str], on: str) -> dict[str, Any]:
    """Nats by which a view makes such a name less of a surprise than no history does; mean over sessions."""
    chosen = [case for case in found if case.tokens >= LONG]
    rows: dict[str, Any] = {}
    for budget in LONG_BUDGETS:
        judge = Judge(path, stretch=4.0 if budget <= 16_000 else 8.0)
        gains: dict[str, dict[str, list[float]]] = {name: {} for name in names}
        for case, views in made(chosen, names, [budget], 5_000, on):
            of = old_names(case, budget)
            none = judge.surprise([], case.after, of)
            if none is None:
                continue
            for name in names:
                loss = judge.surprise(views.get(f"{name} {budget}", []), case.after, of)
                gains[name].setdefault(case.session, []).append(none - (none if loss is None else loss))
        for name, by in gains.items():
            means = [statistics.mean(values) for values in by.values()]
            row = {"gain": round(statistics.mean(means), 4) if means else None}
            row |= {"sessions": len(means), "cases": sum(map(len, by.values()))}
            rows.setdefault(name, {})[str(budget)] = row
    return rows


def table(rows: Rows, names: Sequence[str], budgets: Sequence[int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    held_back = set(sorted({case.rsplit("@", 1)[0] for case in rows})[1::2])  # never looked at while tuning
    for name in names:
        for budget in budgets:
            have = {case: row for case, row in rows.items() if f"tail {budget}" in row}
            if not have:
                continue
            told, whole = defaultdict[str, float](float), defaultdict[str, float](float)
            gains: list[float] = []
            for case, row in have.items():
                session = case.rsplit("@", 1)[0]
                if "full" in row:
                    told[session] += row["none"] - row.get(f"{name} {budget}", row["none"])
                    whole[session] += row["none"] - row["full"]
                gains.append(row[f"tail {budget}"] - row.get(f"{name} {budget}", row["none"]))
            share_of = {s: 100 * told[s] / whole[s] for s in told if whole[s] > 0}
            shares = list(share_of.values())
            held = [share for s, share in share_of.items() if s in held_back]
            error = statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
            made.setdefault(name, {})[str(budget)] = {
                "share": round(statistics.mean(shares), 1) if shares else None,
                "error": round(error, 1),
                "held_back": round(statistics.mean(held), 1) if held else None,
                "gain": round(statistics.mean(gains), 4),
                "ahead_of_tail": sum(gain > 0 for gain in gains),
                "cases": len(gains),
                "fits": sum(f"{name} {budget}" in row for row in have.values()),
            }
    return made


def own_window(rows: Rows, names: Sequence[str], budgets: Sequence[int]) -> dict[str, Any]:
    """Single cases, as the judge sees them in the window it was made with; those that do not fit it are left out."""
    kept = ("gain", "ahead_of_tail", "cases")
    return {
        name: {budget: {key: cell[key] for key in kept} for budget, cell in row.items()}
        for name, row in table(rows, names, budgets).items()
    }


def run(
    *,
    quick: bool = False,
    only: int | None = 12,
    budgets: Sequence[int] = (2_000,),
    names: Sequence[str] = (),
    on: str = "here",
) -> dict[str, Any]:
    """In `make bench`: twelve cases at 2,000 tokens with the small judge, as gain over the tail."""
    if reason := missing():
        return {"skipped": reason}
    found = cases()
    if not found:
        return {}
    path = weights_file()
    assert path is not None
    stretch = 1.0 if max(budgets) <= SMALL else 4.0
    judge = Judge(path, stretch=stretch)
    judges = [judge] if stretch == 1.0 else [judge, Judge(path)]
    if only:
        found = found[:: max(1, len(found) // (3 if quick else only))]
    chosen = list(names) or ["tail", "refold", "pi", "control: another session", "control: bag of names"]
    # A window that is stretched reads its far end worse than nothing: 16,000 tokens is the most that tells this judge more.
    full = next(b for b in (FULL, 16_000, 6_000, 5_000) if 1.35 * b + 1_500 < judge.window or b == 5_000)
    rows, *own = scored(judges, made(found, chosen, budgets, full, on), len(found))
    told = {
        "judge": judge.name,
        "stretch": stretch,
        "full": full,
        "cases": len(rows),
        "sessions": len({case.session for case in found}),
        "views": table(rows, chosen, budgets),
        "single": {case: {view: round(nats, 4) for view, nats in row.items()} for case, row in rows.items()},
    }
    if own:
        told["own_window"] = own_window(own[0], chosen, [budget for budget in budgets if budget <= SMALL])
    if only is None:
        told["long_range"] = long_range(path, found, [n for n in ("tail", "pi", "refold") if n in chosen], on)
    return told


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=int, default=None, help="that many cases, spread over all")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--ways", default="")
    parser.add_argument("--on", default="here", help="who makes views: here, processes:8, ray …")
    parser.add_argument(
        "--store", action="store_true", help="write benchmarks/results/continuation_small.json"
    )
    given = parser.parse_args(arguments)
    budgets, before, began = [int(b) for b in given.budgets.split(",")], results.load(), time.monotonic()
    names = [way for way in given.ways.split(",") if way] or list(ways())
    found = run(only=given.only, budgets=budgets, names=names, on=given.on)
    print(json.dumps(found, indent=1, ensure_ascii=False))
    if given.store and "skipped" not in found:
        results.write(
            "continuation_small", found, seconds=time.monotonic() - began, before=before, quick=False
        )
    return 1 if "skipped" in found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
