"""M9, continuation: can a model go on from the view as the real agent did?

A prefix of a real session is folded to a budget; a language model reads the view, and we ask how likely it finds
what the agent really said and called next (about 700 tokens; tool results in between are shown, not scored). The
score of a view is the share of what the full text tells about the next steps that the view still tells: per
session Σ(none − view) ÷ Σ(none − full) in nats per token over its cases, then the mean over sessions. A view that
does not fit its budget, by o200k, counts as none.

    python -m benchmarks.continuation [--only N] [--budgets 2000,4000] [--ways tail,refold] [--views FILE]

`full` is the newest 26,000 tokens, or as much of that as the judge's window holds; where that is less than the
budget asks for, the gain over the tail in nats per token is what remains to compare. Two ways are controls and must
stay near zero gain: another session's view, and a bag of the names of the prefix.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.judge import Judge, Said, missing, weights_file
from refold import Engine, Session, presets, tokens, transcripts
from refold.entries import MessageEntry
from refold.errors import DoesNotFit, RefoldError
from refold.loop import run as wait
from refold.messages import Message

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
FULL = 26_000
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


# ── cases ───────────────────────────────────────────────────────────────────────────────────────


class Case:
    """A prefix of a real session, and what was really done next."""

    def __init__(self, name: str, messages: list[Message], after: list[Said]) -> None:
        self.name, self.messages, self.after = name, messages, after
        self.session = name.rsplit("@", 1)[0]
        self.said = [shown(message) for message in messages]
        self.tokens = size(self.said)


def cases() -> list[Case]:
    """The frozen cases where they are at hand, with the prefixes as this release imports them; otherwise made
    from the transcripts in the same way."""
    sessions = dict(_sessions())
    if not FROZEN.exists():
        return [case for name, entries in sessions.items() for case in _cut(name, entries)]
    found: list[Case] = []
    for row in json.loads(gzip.decompress(FROZEN.read_bytes())):
        entries = sessions.get(row["source"], [])
        last = next((i for i, entry in enumerate(entries) if entry.id == row["ids"][-1]), None)
        if last is not None:
            messages = [entry.message for entry in entries[: last + 1]]
            found.append(Case(row["case"], messages, [(role, text) for role, text in row["after"]]))
    return found


def _sessions() -> Iterator[tuple[str, list[MessageEntry]]]:
    for folder in FOLDERS:
        for path in sorted((DATA / folder).glob("*")) if (DATA / folder).exists() else ():
            if path.suffix not in (".jsonl", ".json", ".traj") or path.name.startswith(("cuts.", "oracle")):
                continue
            for number, (_, loaded) in enumerate(transcripts.read_all(path)):
                name = f"{folder}/{path.stem[:24]}" + (f"#{number}" if number else "")
                entries = [entry for entry in loaded.entries if isinstance(entry, MessageEntry)]
                yield name, [entry for entry in entries if entry.message.role != "system"]


def _cut(name: str, entries: list[MessageEntry]) -> Iterator[Case]:
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
            elif len(text) > 1_200:
                text = f"{text[:600]}\n[…]\n{text[-600:]}"
            after.append((role, text))
            if scored > SCORED:
                break
        case = Case(f"{name}@{part}", [entry.message for entry in entries[:at]], after)
        if case.tokens >= LEAST and scored >= 80:
            yield case


# ── ways to make a view ─────────────────────────────────────────────────────────────────────────

Way = Callable[[Case, int], "list[Said] | None"]
"""None: this way cannot make a view of that size."""


def tail(case: Case, budget: int) -> list[Said]:
    kept: list[Said] = []
    for role, text in reversed(case.said):
        budget -= count(text) + 5
        if budget < 0:
            break
        kept.append((role, text))
    return kept[::-1]


def by_preset(name: str, **settings: Any) -> Way:
    def view(case: Case, budget: int) -> list[Said] | None:
        session = Session()
        for message in case.messages:
            session.append(message)
        try:
            engine = Engine(presets.get(name, budget=budget, **settings))
            return [shown(message) for message in wait(engine.prepare(session)).messages]
        except (DoesNotFit, RefoldError):
            return None

    return view


def bag_of_names(case: Case, budget: int) -> list[Said]:
    """A control: the names of the prefix, most used first."""
    names = Counter(name for _, text in case.said for name in NAME.findall(text))
    lines = " ".join(name for name, _ in names.most_common(4 * budget))
    while count(lines) > budget - 10:
        lines = lines[: int(len(lines) * 0.9)]
    return [("user", lines)]


def ways(all_cases: Sequence[Case]) -> dict[str, Way]:
    place = {case.name: index for index, case in enumerate(all_cases)}

    def of_another_session(case: Case, budget: int) -> list[Said] | None:
        at = place[case.name]
        order = (all_cases[(at + step) % len(all_cases)] for step in range(1, len(all_cases)))
        other = next(other for other in order if other.session != case.session)
        return by_preset("refold")(other, budget)

    return {
        "tail": tail,
        "refold": by_preset("refold"),
        **{name: by_preset(name) for name in presets.NAMES if name != "refold"},
        "refold without own words": by_preset("refold", words_share=0.0),
        "refold without state": by_preset("refold", state_tokens=0),
        "refold without lines": by_preset("refold", lines_share=0.0),
        "control: another session": of_another_session,
        "control: bag of names": bag_of_names,
    }


# ── the table ───────────────────────────────────────────────────────────────────────────────────


def scored(
    judge: Judge, chosen: Sequence[Case], names: Sequence[str], budgets: Sequence[int], stored: Path | None
) -> dict[str, dict[str, float]]:
    """Case → view → nats per token. A view that is missing or does not fit is not in it."""
    found: dict[str, dict[str, float]] = {}
    make = ways(cases() if len(chosen) < 4 else chosen)
    began = time.monotonic()
    for number, case in enumerate(chosen):
        row = found.setdefault(case.name, {})
        full = next(
            b for b in (FULL, 20_000, 16_000, 6_000, 5_000) if 1.35 * b + 1_500 < judge.window or b == 5_000
        )
        views: dict[str, list[Said] | None] = {"none": [], "full": tail(case, full)}
        for budget in budgets:
            if budget <= 0.7 * case.tokens:
                views |= {f"{name} {budget}": make[name](case, budget) for name in names}
        for name, view in views.items():
            limit = int(name.rsplit(" ", 1)[1]) if name[-1].isdigit() else FULL
            if view is not None and size(view) <= limit:
                loss = judge.surprise(view, case.after)
                if loss is not None:
                    row[name] = loss
        print(
            f"{number + 1}/{len(chosen)} {case.name} {time.monotonic() - began:.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if stored:
            stored.write_text(json.dumps(found), encoding="utf-8")
    return found


def table(rows: dict[str, dict[str, float]], names: Sequence[str], budgets: Sequence[int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in names:
        for budget in budgets:
            have = {case: row for case, row in rows.items() if f"tail {budget}" in row}
            if not have:
                continue
            told, whole = defaultdict[str, float](float), defaultdict[str, float](float)
            gains: list[float] = []
            for case, row in have.items():
                session = case.rsplit("@", 1)[0]
                told[session] += row["none"] - row.get(f"{name} {budget}", row["none"])
                whole[session] += row["none"] - row.get("full", row["none"])
                gains.append(row[f"tail {budget}"] - row.get(f"{name} {budget}", row["none"]))
            shares = [100 * told[s] / whole[s] for s in told if whole[s] > 0]
            error = statistics.stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
            made.setdefault(name, {})[str(budget)] = {
                "share": round(statistics.mean(shares), 1) if shares else None,
                "error": round(error, 1),
                "gain": round(statistics.mean(gains), 4),
                "ahead_of_tail": sum(gain > 0 for gain in gains),
                "cases": len(gains),
                "fits": sum(f"{name} {budget}" in row for row in have.values()),
            }
    return made


def run(
    *,
    quick: bool = False,
    only: int | None = 12,
    budgets: Sequence[int] = (2_000,),
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """In `make bench`: twelve cases at 2,000 tokens with the small judge, as gain over the tail."""
    if reason := missing():
        return {"skipped": reason}
    found = cases()
    if not found:
        return {}
    path = weights_file()
    assert path is not None
    stretch = 1.0 if max(budgets) <= 4_000 else 4.0
    judge = Judge(path, stretch=stretch)
    if only:
        found = found[:: max(1, len(found) // (3 if quick else only))]
    chosen = list(names) or ["tail", "refold", "pi", "control: another session", "control: bag of names"]
    rows = scored(judge, found, chosen, budgets, None)
    return {
        "judge": judge.name,
        "stretch": stretch,
        "cases": len(rows),
        "sessions": len({case.session for case in found}),
        "views": table(rows, chosen, budgets),
    }


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=int, default=None, help="that many cases, spread over all")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--ways", default="")
    parser.add_argument("-o", "--out", type=Path, default=None, help="where to write the result")
    given = parser.parse_args(arguments)
    budgets = [int(b) for b in given.budgets.split(",")]
    found = run(only=given.only, budgets=budgets, names=[w for w in given.ways.split(",") if w])
    text = json.dumps(found, indent=1, ensure_ascii=False)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")
    print(text)
    return 1 if "skipped" in found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
