"""The real pi: random branched sessions, and what both make of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.engine.branch import prepare_branch
from refold.loop import run
from refold.session.edits import branch_summary_in
from refold.text.lenient_json import JsonObject
from refold.transcripts import pi_write, read
from refold.transcripts.pi import SUMMARY_FRAME
from tests.clients.kit import INSTALLED
from tests.clients.pi_sessions import START, Case, ask_pi, case
from tests.presets.chains import summariser

pytestmark = pytest.mark.clients

SESSIONS = 1_000
SUMMARY = SUMMARY_FRAME.partition("{summary}")[0]
PACKAGE = INSTALLED / "@earendil-works" / "pi-coding-agent"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None or not PACKAGE.is_dir():
        pytest.skip("pi is not installed: `make test-clients` installs it (it needs npm)")
    return found


def written(folder: Path, seeds: Iterable[int]) -> list[tuple[Path, Case]]:
    cases = [(folder / f"{seed}.jsonl", case(seed)) for seed in seeds]
    for path, asked in cases:
        asked.write(path)
    return cases


def test_B1_to_B15_a_thousand_branched_sessions_as_pi_answers_them(node: str, tmp_path: Path) -> None:
    cases = written(tmp_path, range(SESSIONS))
    sessions = [Session.of(read(path)) for path, _ in cases]  # pi migrates a file in its place
    answers = ask_pi(node, PACKAGE, cases)
    found = (
        difference(s, asked, answer) for s, (_, asked), answer in zip(sessions, cases, answers, strict=True)
    )
    differences = {seed: text for seed, text in enumerate(found) if text}
    assert not differences, (
        f"{len(differences)} sessions differ, by seed: {dict(list(differences.items())[:5])}"
    )


def test_B2_B14_pi_shows_what_refold_shows_after_refolds_own_folds(node: str, tmp_path: Path) -> None:
    """Sessions that refold folded once, written as pi's: what pi makes of them is what refold shows."""
    folded: list[tuple[Path, Case]] = []
    shown_by_refold: list[list[tuple[str, str]]] = []
    for path, asked in written(tmp_path, range(200)):
        session = Session.of(read(path))
        session.move(next(x.id for x in session.entries if x.on_path and number(x) == asked.leaf))
        engine = Engine(presets.get("pi", keep_recent_tokens=asked.keep), model=summariser())
        plan = engine.plan(session, force=True)
        if not plan or not isinstance(run(engine.apply(session, plan)), e.Fold):
            continue
        session.append(m.user("and then?"))
        folded.append((path, replace(asked, leaf=None)))
        shown_by_refold.append([shown(session, item) for item in engine.planner.context(session).items])
        path.write_bytes(pi_write.write_pi_session(session.entries)[0])
    assert len(folded) > 50
    for (path, _), ours, answer in zip(folded, shown_by_refold, ask_pi(node, PACKAGE, folded), strict=True):
        theirs = [told(message) for message in answer["context"]]
        assert theirs[0][0] == "compactionSummary", path.name
        assert theirs[1:] == ours[1:], path.name


def difference(session: Session, asked: Case, answer: JsonObject) -> str:
    """Where refold and pi part, in words; empty where they agree."""
    ids = {number(entry): entry.id for entry in session.entries if entry.on_path}
    session.move(ids[asked.leaf])
    settings = {"reserve_tokens": asked.reserve, "keep_recent_tokens": asked.keep, "window": asked.window}
    engine = Engine(presets.get("pi", **settings))
    situation = engine.planner.context(session)
    ours: JsonObject = {
        "path": [number(entry) for entry in session.path],
        "context": [shown(session, item) for item in situation.items],
        "tokens": situation.sizes.anchored(bare=True),
        "labels": {ids_back(ids, target): text for target, text in session.labels.items()},
        "prepared": preparation(session, engine.plan(session, force=True)),
        "branch": left_behind(session, ids, asked),
    }
    theirs = {name: answer[name] for name in ("path", "tokens", "branch")}
    theirs["labels"] = {at: text for at, text in enumerate(answer["labels"], 1) if text}
    theirs["context"] = [told(message) for message in answer["context"] if message["role"] != "system"]
    del theirs["branch"]["files"]  # what was called for; ours are what came of it
    theirs["branch"]["messages"] = [at for at in theirs["branch"]["messages"] if says(session[ids[at]])]
    theirs["prepared"] = by_our_rules(answer)
    if theirs["prepared"] == {"last": True}:
        ours["prepared"] = theirs["prepared"]
    parted = [name for name in ours if ours[name] != theirs[name]]
    return "\n".join(f"{name}:\n  refold {ours[name]}\n  pi     {theirs[name]}" for name in parted)


def number(entry: e.Entry) -> int:
    return round(entry.time - START.timestamp())


def ids_back(ids: dict[int, str], id: str) -> int:
    return next(at for at, known in ids.items() if known == id)


def shown(session: Session, item: Any) -> tuple[str, str]:
    """Role and words of an item, as pi has them."""
    source, message = session[item.fold or item.entries[-1]], item.message
    if (summary := branch_summary_in(message)) is not None:
        return "branchSummary", summary
    if isinstance(source, e.Fold) and message.text.startswith(SUMMARY):
        return "compactionSummary", message.text.removeprefix(SUMMARY).removesuffix("\n</summary>")
    if isinstance(message, m.Bash):
        return "bash", f"{message.command}\n{message.output}"
    return message.role, words(message)


def words(message: m.Message) -> str:
    texts: list[str] = []
    for part in message.content:
        match part:
            case m.Text(text=text) | m.Thinking(text=text):
                texts.append(text)
            case m.Image(data=data):
                texts.append(data or "")
            case m.Call(name=name, arguments=arguments):
                texts.append(f"{name} {m.compact_json(arguments)}")
            case _:
                texts.append(f"? {part}")
    return "\n".join(texts)


def told(message: JsonObject) -> tuple[str, str]:
    """The same of pi's message: what a program put in is a user's message for both."""
    roles = {"toolResult": "tool", "bashExecution": "bash", "custom": "user"}
    return roles.get(message["role"], message["role"]), message["said"]


def preparation(session: Session, plan: Any) -> JsonObject | None:
    if not isinstance(plan, Plan):
        return None
    return {
        "first": None if plan.first_kept is None else number(session[plan.first_kept]),
        "fold": [number(session[id]) for id in plan.fold],
        "prefix": [number(session[id]) for id in plan.turn_prefix],
        "split": plan.split,
        "before": plan.measured_before,
        "previous": plan.previous_summary,
        "files": files(plan.files),
    }


def files(touched: e.Files) -> JsonObject:
    return {"readFiles": list(touched.read), "modifiedFiles": list(touched.modified)}


def by_our_rules(answer: JsonObject) -> JsonObject | None:
    """What pi prepares, where two rules of ours differ from it. B10: a cut at the start of a turn is no split,
    metadata in front of it or not. B8: there is always a message after the cut; pi takes the last one, too, where
    it is larger than what is to be kept and a failed attempt after it is hidden."""
    prepared, at = answer.get("prepared"), {entry: place for place, entry in enumerate(answer["path"])}
    if prepared is None:
        return None
    kept = [message for message in answer["context"] if at[message["entry"]] >= at[prepared["first"]]]
    kept = [message for message in kept if message["role"] != "compactionSummary"]
    if not kept:
        return {"last": True}
    if not prepared["split"] or kept[0]["role"] in ("assistant", "toolResult"):
        return prepared
    return {**prepared, "fold": prepared["fold"] + prepared["prefix"], "prefix": [], "split": False}


def says(entry: e.Entry) -> bool:
    """The summary of a branch may be empty; pi hands that on, and nothing comes of it."""
    return not isinstance(entry, e.BranchSummary) or bool(entry.summary)


def left_behind(session: Session, ids: dict[int, str], asked: Case) -> JsonObject:
    plan = prepare_branch(session, ids[asked.leaf], ids[asked.target], asked.budget)
    return {
        "ancestor": None if plan.common_ancestor is None else number(session[plan.common_ancestor]),
        "entries": [number(entry) for entry in plan.entries],
        "messages": [number(session[source.id]) for source in plan.sources],
        "tokens": plan.tokens,
    }
