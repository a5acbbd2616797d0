"""M12: refold beside a shipped product, at every real compaction of Claude Code in a folder of sessions.

    python -m benchmarks.compactions views --out VIEWS.json.gz [--data FOLDER] [--label NAME] [--sets compactions,prefixes]
    python -m benchmarks.judge_gpu QWEN.gguf VIEWS.json.gz … --out SCORES.json           (where there is a GPU; needs no refold)
    python -m benchmarks.compactions judge VIEWS.json.gz --out SMALL.json [--only N]     (small judge, the summary's size, a processor)
    python -m benchmarks.compactions table VIEWS.json.gz … --scores SCORES.json …        (results, tables, chart)

A log of Claude Code has the summary that it wrote at each compaction, and what the agent really did next. How likely a language
model finds those next steps after each view is M9; how many of the names that the work used afterwards a view still has needs no
model. The protocol, written before the run: docs/design/compactions.md.

Views of another checkout are made by this instrument with that checkout's code first on the path (`PYTHONPATH=OTHER/src`) and
a label of its own; `judge_gpu` and `table` take the files of several labels. The reader of logs and the search for names are
simple code of their own: nothing here asks refold what a session says.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import refold
from benchmarks import compactions_table, continuation, results, tables
from benchmarks.continuation import (
    DATA,
    FULL,
    Case,
    Said,
    by_preset,
    count,
    middle,
    newest,
    shown,
    size,
)
from benchmarks.measuring import done
from refold import messages
from refold.messages import Message
from refold.protocols import SessionInfo

FOLDER = DATA / "claude-code-compactions"
REPLIES_BEFORE, REPLIES_AFTER, SUMMARY, EACH = 50, 8, 2_000, 2
"""A compaction counts with so many replies on either side and a summary of so many characters; so many of a session."""
SCORED, SCORED_LEAST = 900, 150
"""Tokens of the assistant that are scored: about, and at least."""
NEXT = 40
"""Replies whose names are needed."""
SMALLEST = 1_500
"""Tokens: the least that a view is made of."""
BUDGETS = (8_000, 16_000)
WAYS = ("tail", "refold", "pi", "augment", "control: another session", "control: bag of names")


# ── the log ─────────────────────────────────────────────────────────────────────────────────────


def read(path: Path) -> tuple[list[Message], list[tuple[int, str]]]:
    """What was said on the main line of a log of Claude Code, and its compactions: place and summary."""
    said: list[Message] = []
    cuts: list[tuple[int, str]] = []
    calls: set[str] = set()
    boundary, reply = False, None
    for record in _records(path):
        if record.get("subtype") == "compact_boundary":
            boundary = True
        message = record.get("message")
        if record.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        content = message.get("content") or ""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
        if record.get("isCompactSummary"):
            if boundary:
                cuts.append((len(said), text))
            boundary = False
        elif record["type"] == "assistant":
            uses = [block for block in blocks if block.get("type") == "tool_use"]
            calls |= {use["id"] for use in uses}
            # A reply is logged block by block, under one id.
            begun = (
                said.pop() if said and said[-1].role == "assistant" and reply == message.get("id") else None
            )
            if begun or text or uses:
                made = [messages.call(use["id"], use["name"], _arguments(use)) for use in uses]
                before = (begun.text, *begun.calls) if begun else ("",)
                said.append(messages.assistant(before[0] + text, *before[1:], *made))
            reply = message.get("id") or reply
        else:
            reply = None
            for block in blocks:
                if block.get("type") == "tool_result" and block.get("tool_use_id") in calls:
                    failed = bool(block.get("is_error"))
                    said.append(
                        messages.result(block["tool_use_id"], _text(block.get("content")), is_error=failed)
                    )
            if text.strip() and not record.get("isMeta"):
                said.append(messages.user(text))
    return said, cuts


def _records(path: Path) -> Iterator[dict[str, Any]]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and not record.get("isSidechain"):
                yield record


def _arguments(use: dict[str, Any]) -> dict[str, Any]:
    return use["input"] if isinstance(use.get("input"), dict) else {}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text") or "" for block in content or () if block.get("type") == "text")


# ── cases ───────────────────────────────────────────────────────────────────────────────────────


class Compaction(NamedTuple):
    """One real compaction, and what was really done next."""

    case: Case
    """What stood before the first reply after it; and the reply and those after it, as they are scored."""
    at: int
    """Messages before the compaction."""
    summary: Said
    shown_again: list[Said]
    """The last exchange and the files seen last, as Claude Code shows them after a compaction."""
    next_replies: list[Message]


def compactions(folder: Path) -> list[Compaction]:
    """All of a folder that count; docs/design/compactions.md says which."""
    found: list[Compaction] = []
    for path in sorted(path for path in folder.iterdir() if path.name.endswith((".jsonl", ".jsonl.gz"))):
        said, cuts = read(path)
        usable = (_compaction(path.name.split(".")[0], said, at, summary) for at, summary in cuts)
        found += [one for one in usable if one][:EACH]
    return found


def _compaction(name: str, said: list[Message], at: int, summary: str) -> Compaction | None:
    places = [place for place, message in enumerate(said) if message.role == "assistant"]
    later = [place for place in places if place >= at]
    if len(places) - len(later) < REPLIES_BEFORE or len(later) < REPLIES_AFTER or len(summary) < SUMMARY:
        return None
    after: list[Said] = []
    scored = 0
    for message in said[later[0] : later[0] + 24]:
        role, text = shown(message)
        if role == "assistant":
            text = text[:3_000]
            scored += count(text)
        else:
            text = middle(text, 1_200)
        after.append((role, text))
        if scored > SCORED:
            break
    if scored < SCORED_LEAST:
        return None
    case = Case(f"{name}@{at}", SessionInfo(id=name), said[: later[0]], after)
    exchange = newest([shown(message) for message in said[max(0, at - 2) : at]], 4_000)
    replies = [said[place] for place in later[:NEXT]]
    return Compaction(case, at, ("user", middle(summary, 40_000)), exchange + files_seen(said[:at]), replies)


def files_seen(said: Sequence[Message], number: int = 5, limit: int = 5_000) -> list[Said]:
    """The files read or written last, as they were seen then; of one that is too large only its name."""
    paths = {
        call.id: call.arguments.get("file_path") for m in said for call in m.calls if call.name == "Read"
    }
    seen: dict[str, str] = {}
    for message in said:
        files = [
            (call.arguments.get("file_path"), str(call.arguments.get("content")))
            for call in message.calls
            if call.name == "Write"
        ]
        if message.role == "tool" and not message.is_error and message.call_id in paths:
            files = [(paths[message.call_id], message.text)]
        for path, text in files:
            seen.pop(str(path), None)
            seen[str(path)] = text
    shown_texts = {
        path: text if count(text) <= limit else "(too large to include)"
        for path, text in list(seen.items())[-number:]
    }
    return [
        ("user", f"<system-reminder>\nRead {path}:\n{text}\n</system-reminder>")
        for path, text in shown_texts.items()
    ]


# ── views ───────────────────────────────────────────────────────────────────────────────────────


class Question(NamedTuple):
    compaction: Compaction
    other: Case | None
    names: Sequence[str]


def budgets(compaction: Compaction) -> dict[str, int]:
    """Sizes by their names: of the summary, of all that Claude Code sends, half of that, and round ones."""
    new = compaction.case.said[compaction.at :]
    bare = size([compaction.summary, *new])
    whole = min(size([compaction.summary, *compaction.shown_again, *new]), FULL)
    named = {
        "summary": bare,
        "files": whole,
        "half": whole // 2,
        **{str(budget): budget for budget in BUDGETS},
    }
    return {name: max(budget, SMALLEST) for name, budget in named.items()}


def views(question: Question) -> dict[str, list[Said]]:
    """Those that fit their budget."""
    compaction, case = question.compaction, question.compaction.case
    new = case.said[compaction.at :]
    made: dict[str, list[Said]] = {
        "none": [],
        "full": newest(case.said, FULL),
        "claude": [compaction.summary, *new],
        "claude+files": [compaction.summary, *compaction.shown_again, *new],
    }
    ways = continuation.ways(question.other)
    by_refold = by_preset("refold")
    for name, budget in budgets(compaction).items():
        chosen = ("refold",) if name == "half" else question.names
        found = {way: ways[way](case, budget) for way in chosen}
        room = budget - size([compaction.summary])
        if name not in ("summary", "half") and room > 500:
            rest = {"summary+tail": newest(case.said, room), "summary+refold": by_refold(case, room)}
            found |= {way: view and [compaction.summary, *view] for way, view in rest.items()}
            found["refold with notes"] = by_preset("refold", notes=compaction.summary[1])(case, budget)
            asked = as_asked_for(compaction.summary[1])
            found["refold with notes as asked for"] = by_preset("refold", notes=asked)(case, budget)
            found["refold with half of the notes"] = by_preset("refold", notes=first_half(asked))(
                case, budget
            )
        made |= {f"{way}@{name}": view for way, view in found.items() if view and size(view) <= budget}
    return made


SECTION = re.compile(r"(?m)^(?=[1-9]\. [A-Z][A-Za-z ]+(?:\([^)\n]*\))?:$)")
BESIDE = ("files and code", "all user messages")
"""Sections that refold's own prompt does not ask for: own words and changed files stand beside the notes."""


def as_asked_for(summary: str) -> str:
    """The sections of a summary of Claude Code that refold's prompt asks for; the whole, where it has none."""
    _, _, written = summary.rpartition("\nSummary:\n")
    written, _, _ = written.partition("\nIf you need specific details from before compaction")
    written, _, _ = written.partition("\nPlease continue the conversation from where we left")
    sections = [each for each in SECTION.split(written) if SECTION.match(each)]
    asked = [each for each in sections if not each[3:].lower().startswith(BESIDE)]
    return "\n".join(each.strip() for each in asked) or summary


def first_half(notes: str) -> str:
    """What a weak writer leaves: the first half of the lines."""
    lines = notes.split("\n")
    return "\n".join(lines[: len(lines) // 2])


# ── needed names ────────────────────────────────────────────────────────────────────────────────

KINDS = {
    "paths": re.compile(r"(?<![\w/])/?(?:[\w.@-]+/)+([\w.@-]+\.\w{1,5})\b"),
    "identifiers": re.compile(r"\b(?:[a-z]+[A-Z]\w{3,}|[A-Z][a-z]+[A-Z]\w{2,}|[a-z]{2,}_[a-z0-9_]{3,})\b"),
    "numbers": re.compile(r"(?<![\w.])\d{3,}(?![\w.])"),
}
"""Of a path its last part counts."""


def names(text: str) -> dict[str, set[str]]:
    return {kind: set(pattern.findall(text)) for kind, pattern in KINDS.items()}


def needed(compaction: Compaction) -> dict[str, set[str]]:
    """Names that stood before the compaction and that the next replies use; and of the paths those of files
    that a call had opened or written."""
    earlier = compaction.case.messages[: compaction.at]
    before = names("\n".join(map(_words, earlier)))
    after = names("\n".join(map(_words, compaction.next_replies)))
    found = {kind: before[kind] & after[kind] for kind in KINDS}
    calls = (call for message in earlier for call in message.calls)
    opened = {Path(str(call.arguments.get("file_path", ""))).name for call in calls}
    return {**found, "opened files": found["paths"] & opened}


def _words(message: Message) -> str:
    """Its text, and the values of its calls; what a tool calls its parameters is no name of the work."""
    return "\n".join([message.text, *(value for call in message.calls for value in _values(call.arguments))])


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _values(one)
    else:
        yield str(value)


def kept(view: Iterable[Said], wanted: dict[str, set[str]]) -> dict[str, int]:
    """How many of them the view has, as words of their own."""
    text = "\n".join(said for _, said in view)
    # Calls are shown as JSON: a line end in it must not stick to a name.
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return {
        kind: sum(
            name in text and bool(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)) for name in found
        )
        for kind, found in wanted.items()
    }


# ── a file of views ─────────────────────────────────────────────────────────────────────────────


class Texts:
    """Messages by number: most of them are in many views."""

    def __init__(self) -> None:
        self.numbers: dict[Said, int] = {}

    def __call__(self, said: Iterable[Said]) -> list[int]:
        return [self.numbers.setdefault(one, len(self.numbers)) for one in said]


def compaction_rows(folder: Path, chosen: Sequence[str], on: str) -> Iterator[tuple[Case, dict[str, Any]]]:
    found = compactions(folder)
    cases = [one.case for one in found]
    asked = [Question(one, continuation.other_session(one.case, cases), chosen) for one in found]
    for one, made in zip(found, done(views, asked, on), strict=True):
        wanted = needed(one)
        yield (
            one.case,
            {
                "set": "compactions",
                "views": made,
                "budgets": budgets(one),
                "needed": {kind: len(found) for kind, found in wanted.items()},
                "kept": {name: kept(view, wanted) for name, view in made.items()},
            },
        )


def prefix_rows(chosen: Sequence[str], on: str) -> Iterator[tuple[Case, dict[str, Any]]]:
    """The cases of M9: prefixes of sessions of several agents, as the code imports them."""
    cases = continuation.cases()
    for case, made in continuation.made(cases, chosen, continuation.BUDGETS, FULL, on):
        named = {re.sub(r" (\d+)$", r"@\1", name): view for name, view in made.items()}
        yield case, {"set": "prefixes", "views": named}


def write_views(given: argparse.Namespace) -> None:
    texts, cases = Texts(), list[dict[str, Any]]()
    ways = given.ways.split(",") if given.ways else None
    sets = {
        "compactions": lambda: compaction_rows(given.data, ways or WAYS, given.on),
        "prefixes": lambda: prefix_rows(ways or list(continuation.ways()), given.on),
    }
    for name in given.sets.split(","):
        for case, row in sets[name]():
            sizes = {view: size(said) for view, said in row["views"].items()}
            numbers = {view: texts(said) for view, said in row["views"].items()}
            old = continuation.old_names(case, 16_000) if case.tokens >= continuation.LONG else None
            spans = {"old_names": [old(text) for _, text in case.after]} if old else {}
            about = {"case": case.name, "session": case.session, "tokens": case.tokens, "sizes": sizes}
            cases.append({**about, **row, "after": texts(case.after), "views": numbers, **spans})
            print(case.name, sizes, file=sys.stderr, flush=True)
    file = {
        "label": given.label,
        "made": results.surroundings(Path(refold.__file__).parent),
        "messages": list(texts.numbers),
        "cases": cases,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(given.out, "wt") if given.out.suffix == ".gz" else given.out.open("w") as out:
        json.dump(file, out, ensure_ascii=False)
    print(f"{given.out}: {len(cases)} cases, {sum(len(case['views']) for case in cases)} views")


# ── the small judge ─────────────────────────────────────────────────────────────────────────────


def judge_small(given: argparse.Namespace) -> None:
    """At the summary's size, which its own window holds."""
    from benchmarks import judge, judge_gpu

    if reason := judge.missing():
        sys.exit(reason)
    path = judge.weights_file()
    assert path is not None
    model = judge.Judge(path)

    def score(view: Sequence[Said], after: Sequence[Said], _: object) -> judge_gpu.Scored | None:
        nats = model.surprise(view, after)
        return None if nats is None else judge_gpu.Scored(nats)

    def wanted(name: str) -> bool:
        return name in ("none", "claude") or name.endswith("@summary")

    about = {"judge": model.name, "window": model.window, "weights": path.name, "device": "processor"}
    judge_gpu.judge(given.views, score, given.out, about, known=given.known, wanted=wanted, only=given.only)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("views", help="make views")
    step.set_defaults(step=write_views)
    step.add_argument("--out", type=Path, required=True)
    step.add_argument("--data", type=Path, default=FOLDER, help="a folder of sessions of Claude Code")
    step.add_argument("--label", default="refold", help="which code made them")
    step.add_argument("--sets", default="compactions,prefixes")
    step.add_argument("--ways", default="", help="only these, by commas: refold,tail …")
    step.add_argument("--on", default="here", help="who makes views: here, processes:8, ray …")
    step = steps.add_parser("judge", help="the small judge, on a processor")
    step.set_defaults(step=judge_small)
    step.add_argument("views", type=Path, nargs="+")
    step.add_argument("--out", type=Path, required=True)
    step.add_argument("--known", type=Path, action="append", default=[])
    step.add_argument("--only", type=int, default=None, help="so many cases")
    compactions_table.add_arguments(steps.add_parser("table", help="results, tables and the chart"))
    given = parser.parse_args(arguments)
    given.step(given)
    if given.step is compactions_table.write and not given.dry:
        tables.rewrite_all()


if __name__ == "__main__":
    main(sys.argv[1:])
