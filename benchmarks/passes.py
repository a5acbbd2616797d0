"""M3: what is left after 1, 3 and 10 folds, for every preset.

Real transcripts are given a goal, five constraints of the user (English and Chinese, early, in the middle of
other sentences) and twelve file operations of known outcome; three quarters of each are fed turn by turn and
folded at growing prefixes to 8k and 20k tokens, with the embedded digest as the summariser. Then the view is
read: constraints word for word, words of the goal, files that were created or changed, identifiers that the last
quarter needs (M2), orphaned calls and results, views over budget, calls of the summariser.

The true list of files is computed here, from the calls of plain file tools, and shares no code with the trail.

    python -m benchmarks passes [--quick] [--on WHERE]
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import msgspec

from benchmarks.measuring import COUNTER, DATA, done, percent
from benchmarks.references import identifiers, shown
from benchmarks.synthetic import orphans
from refold import Engine, Session, presets, transcripts
from refold import messages as m
from refold.compaction.plan import Ask
from refold.compare.replay import checkpoints, replay
from refold.engine.summarise import Answer, ByDigest
from refold.entries import MessageEntry
from refold.errors import RefoldError

BUDGETS = (8_000, 20_000)
PASSES = (1, 3, 10)
PART = 0.75
MINIMUM = 1.5
"""A transcript counts for a budget if what is fed of it is so many times as large."""
SEVERAL = {"adp": 3, "openhands": 3}
QUICK = ("session-share", "rollout-2025-09-25")

GOAL = (
    "Goal of this session: the invoice exporter of project Halberd has to stream its rows instead of loading "
    "the whole ledger, so that the nightly archive stays below four hundred megabytes."
)
CONSTRAINTS = (
    "Never push to the release branch without asking me first.",
    "All new endpoints must return timestamps in UTC with milliseconds.",
    "不要修改 migrations 目录里的任何文件。",
    "Do not add any dependency that is not already in the lock file.",
    "提交信息必须用中文写，并且以模块名开头。",
)
AROUND = (
    (
        "I have had a first look at it this morning. ",
        " The staging server is slow today, so be patient with it.",
    ),
    ("Thanks, that helps. ", " By the way, lunch is at noon and Petra will join the review."),
    ("我先说一下背景，这个项目已经有三年了。", "其他的你看着办，明天我再看一遍结果。"),
    ("Good. The old code came from the contractor. ", " Otherwise go on with what you were doing."),
    ("顺便提一下，测试环境昨天重启过。", "有问题随时问我。"),
)
CREATED = tuple(
    f"halberd/{name}.py"
    for name in ("stream_rows", "archive_size", "ledger_cursor", "nightly_job", "utc_stamp", "export_cli")
)
EDITED = tuple(
    f"halberd/legacy/{name}.py"
    for name in ("invoice_writer", "ledger_loader", "row_buffer", "settings_old", "mailer", "quota")
)
WRITERS = {"write", "write_file", "create_file", "create"}
EDITORS = {"edit", "multiedit", "replace", "edit_file"}


@dataclass
class Counted:
    """The embedded digest, counting how often it is asked."""

    by: ByDigest = field(default_factory=lambda: ByDigest(COUNTER))
    calls: int = 0

    @property
    def name(self) -> str:
        return self.by.name

    @property
    def uses_model(self) -> bool:
        return False

    async def answer(self, ask: Ask, /) -> Answer:
        self.calls += 1
        return await self.by.answer(ask)


@dataclass(frozen=True)
class Case:
    name: str
    entries: tuple[MessageEntry, ...]
    files: frozenset[str]
    probes: frozenset[str]
    tokens: int

    def session(self) -> Session:
        session = Session(id=self.name)
        for entry in self.entries:
            session.append(msgspec.structs.replace(entry, parent=session.leaf))
        return session


@cache
def cases(*, quick: bool = False) -> list[Case]:
    found: list[Case] = []
    for path in sorted(DATA.glob("*/*.json*")):
        if path.parent.name in ("locomo", "tau-bench") or path.name.startswith(("cuts.", "oracle")):
            continue
        if quick and not path.name.startswith(QUICK):
            continue
        for number in range(SEVERAL.get(path.parent.name, 1)):
            try:
                loaded = transcripts.read(path, index=number)
            except RefoldError:
                break
            said = [entry for entry in loaded.entries if isinstance(entry, MessageEntry)]
            if sum(COUNTER.message(entry.message) for entry in said) * PART > MINIMUM * BUDGETS[0]:
                found.append(planted(f"{path.parent.name}/{path.stem[:24]}#{number}", said))
    return found


def planted(name: str, said: Sequence[MessageEntry]) -> Case:
    """The first three quarters with goal, constraints and file operations put in where no call is open."""
    cut = checkpoints(list(said), 4)[-2] if len(checkpoints(list(said), 4)) > 1 else len(said)
    head, rest = said[:cut], said[cut:]
    places = checkpoints(list(head), 20)
    messages: list[m.Message] = [m.user(GOAL), m.assistant("Understood, I will start with the exporter.")]
    at = 0
    plants = _plants()
    for place in places:
        messages += [entry.message for entry in head[at:place]]
        at = place
        messages += next(plants, [])
    for left in plants:  # few places: what is left comes at the end of the head
        messages += left
    made = tuple(MessageEntry(id=f"p{number}", message=one) for number, one in enumerate(messages))
    files = frozenset(true_files(messages))
    before = "\n".join(map(shown, messages))
    needed = {
        name
        for entry in rest
        for call in entry.message.calls
        for name in identifiers(shown(m.assistant("", call)))
    }
    return Case(
        name, made, files, frozenset(n for n in needed if n in before), sum(map(COUNTER.message, messages))
    )


def _plants() -> Iterator[list[m.Message]]:
    """What is put in, place by place: first the user's words, then the file operations."""
    files = [(path, "Write") for path in CREATED] + [(path, "Edit") for path in EDITED]
    for number, (constraint, (before, after)) in enumerate(zip(CONSTRAINTS, AROUND, strict=True)):
        said: list[m.Message] = [m.user(before + constraint + after), m.assistant("Noted.")]
        for place, (path, tool) in enumerate(files[number * 3 : number * 3 + 3]):
            said += _operation(f"plant{number}_{place}", tool, path)
        yield said


def _operation(id: str, tool: str, path: str) -> list[m.Message]:
    arguments = (
        {"path": path, "content": "import sys\n"}
        if tool == "Write"
        else {"path": path, "old_string": "a", "new_string": "b"}
    )
    verb = "created" if tool == "Write" else "updated"
    return [
        m.assistant("", m.call(id, tool, arguments)),
        m.result(id, f"The file {path} has been {verb}."),
        m.assistant("Done."),
    ]


def true_files(messages: Sequence[m.Message]) -> Iterator[str]:
    """Files that plain file tools created or changed, by calls that were answered without an error."""
    asked: dict[str, str] = {}
    for message in messages:
        for call in message.calls:
            path = next(
                (call.arguments[k] for k in ("path", "file_path") if isinstance(call.arguments.get(k), str)),
                None,
            )
            name = call.name.rsplit(".", 1)[-1].lower()
            if path and (name in WRITERS or name in EDITORS):
                asked[call.id] = path
        if isinstance(message, m.Result) and message.call_id in asked and not _refused(message):
            yield asked[message.call_id]


def _refused(result: m.Result) -> bool:
    return (
        result.is_error
        or re.match(r"\s*(?:<tool_use_error>|error|failed|could not|no )", result.text, re.I) is not None
    )


_GROUP = re.compile(
    r"^.{0,60}\(\d+(?:, below (?P<root>[^)\n]*))?\):$|^- (?:(?P<folder>[^:\n]*)/: )?(?P<names>.+)$"
)


def named_files(text: str) -> set[str]:
    """Paths that a list grouped by folder names: `- folder/: a.py, b.py` below a heading that gives the root."""
    found: set[str] = set()
    root = ""
    for line in text.splitlines():
        match = _GROUP.match(line)
        if match is None:
            continue
        if match["names"] is None:
            root = match["root"] or ""
        else:
            folder = f"{match['folder']}/" if match["folder"] else ""
            found |= {f"{root}{folder}{name.strip()}" for name in match["names"].split(",")}
    return found


def score(case: Case, preset: str, budget: int, passes: int) -> dict[str, Any]:
    summariser = Counted()
    engine = Engine(presets.get(preset, budget=budget), summariser=summariser)
    began = time.process_time()
    done = asyncio.run(replay(engine, case.session(), passes=passes))
    view = engine.view(done.session)
    text = "\n".join(map(shown, view.messages))
    grouped = named_files(text)
    words = set(re.findall(r"[a-z]{4,}", GOAL.lower()))
    return {
        "constraints": percent(float(one in text) for one in CONSTRAINTS),
        "lost": [one for one in CONSTRAINTS if one not in text],
        "goal": percent(float(word in text.lower()) for word in words),
        "files": percent(float(path in text or path in grouped) for path in case.files),
        "missing": sorted(path for path in case.files if path not in text and path not in grouped)[:5],
        "identifiers": percent(float(name in text) for name in case.probes) if case.probes else None,
        "orphans": orphans(view.to_openai()),
        "tokens": view.tokens,
        "over": sum(fold.tokens_after > budget for fold in done.folds) + (view.tokens > budget),
        "folds": len(done.folds),
        "failures": len(done.failures),
        "calls": summariser.calls,
        "seconds": round(time.process_time() - began, 2),
    }


def names() -> tuple[list[str], dict[str, str]]:
    """Presets that load, and why the others do not."""
    good, bad = list[str](), dict[str, str]()
    for name in presets.NAMES:
        try:
            presets.get(name, budget=BUDGETS[0])
            good.append(name)
        except (ImportError, AttributeError, RefoldError) as error:
            bad[name] = f"{type(error).__name__}: {error}"
    return good, bad


def table(asked: tuple[bool, str, int, int]) -> dict[str, Any]:
    quick, preset, budget, passes = asked
    rows = {
        case.name: score(case, preset, budget, passes)
        for case in cases(quick=quick)
        if case.tokens > MINIMUM * budget
    }
    listed = list(rows.values())

    def mean(key: str) -> float:
        return round(sum(row[key] for row in listed) / max(len(listed), 1), 1)

    probed = [row["identifiers"] for row in listed if row["identifiers"] is not None]
    return {
        "transcripts": len(listed),
        "constraints": mean("constraints"),
        "goal": mean("goal"),
        "files": mean("files"),
        "identifiers": round(sum(probed) / max(len(probed), 1), 1),
        "orphans": sum(row["orphans"] for row in listed),
        "over_budget": sum(row["over"] > 0 for row in listed),
        "summariser_calls": mean("calls"),
        "view_tokens": round(mean("tokens")),
        "folds": mean("folds"),
        "seconds": mean("seconds"),
        # What our own promise missed, case by case: empty is the point.
        "short": {
            n: {k: row[k] for k in ("lost", "missing", "tokens")}
            for n, row in rows.items()
            if preset == "refold" and (row["lost"] or row["missing"])
        },
    }


def run(*, quick: bool = False, on: str = "here") -> dict[str, Any]:
    if not DATA.exists():
        return {"skipped": "the transcripts are not here: set REFOLD_DATA to their folder"}
    good, bad = names()
    chosen = good[:2] if quick else good
    asked = [(quick, *one) for one in product(chosen, BUDGETS, PASSES[::2] if quick else PASSES)]
    found: dict[str, Any] = defaultdict(dict)
    for (_, preset, budget, passes), made in zip(asked, done(table, asked, on), strict=True):
        found[preset][f"{budget}/{passes}"] = made
        print(f"passes: {preset} {budget} {passes}", file=sys.stderr)
    return {
        "measure": "M3",
        "transcripts": [case.name for case in cases(quick=quick)],
        "presets": dict(found),
        "not_loaded": bad,
    }


if __name__ == "__main__":
    json.dump(run(quick="--quick" in sys.argv), sys.stdout, indent=1, ensure_ascii=False)
    print()
