"""The real pi: random branched sessions, and what both make of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.branch import prepare_branch
from refold.compaction.plan import Plan
from refold.compaction.rungs.budget_summary import begins_turn, in_context
from refold.session.edits import branch_summary_in
from refold.transcripts import read
from tests.clients.kit import INSTALLED
from tests.clients.pi_sessions import START, Case, Record, ask_pi, case

pytestmark = pytest.mark.clients

SESSIONS = 1_000
PACKAGE = INSTALLED / "@earendil-works" / "pi-coding-agent"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None or not PACKAGE.is_dir():
        pytest.skip("pi is not installed: `make test-clients` installs it (it needs npm)")
    return found


def test_B1_to_B15_a_thousand_branched_sessions_as_pi_answers_them(node: str, tmp_path: Path) -> None:
    cases = [(tmp_path / f"{seed}.jsonl", case(seed)) for seed in range(SESSIONS)]
    for path, asked in cases:
        asked.write(path)
    sessions = [Session.of(read(path)) for path, _ in cases]  # pi migrates a file in its place
    differences: dict[int, str] = {}
    for seed, (session, (_, asked), answer) in enumerate(
        zip(sessions, cases, ask_pi(node, PACKAGE, cases), strict=True)
    ):
        if found := difference(session, asked, answer):
            differences[seed] = found
    assert not differences, (
        f"{len(differences)} sessions differ, by seed: {dict(list(differences.items())[:5])}"
    )


def difference(session: Session, asked: Case, answer: Record) -> str:
    """Where refold and pi part, in words; empty where they agree."""
    ids = {number(entry): entry.id for entry in session.entries if entry.on_path}
    session.move(ids[asked.leaf])
    settings = {"reserve_tokens": asked.reserve, "keep_recent_tokens": asked.keep, "window": asked.window}
    engine = Engine(presets.get("pi", **settings))
    situation = engine.planner.situation(session)
    ours: Record = {
        "path": [number(entry) for entry in session.path],
        "context": [shown(session, item) for item in situation.items],
        "tokens": situation.sizes.anchored(bare=True),
        "labels": {ids_back(ids, target): text for target, text in session.labels.items()},
        "prepared": preparation(session, engine.plan(session, force=True)),
        "branch": left_behind(session, ids, asked),
    }
    theirs = {name: answer[name] for name in ("path", "tokens", "branch")}
    theirs["labels"] = {at: text for at, text in enumerate(answer["labels"], 1) if text}
    theirs["context"] = [told(message) for message in answer["context"]]
    theirs["branch"]["messages"] = [at for at in theirs["branch"]["messages"] if says(session[ids[at]])]
    theirs["prepared"] = without_false_split(session, answer.get("prepared"))
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
    if isinstance(source, e.Fold) and message.text.endswith(f"<summary>\n{source.summary}\n</summary>"):
        return "compactionSummary", source.summary
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


def told(message: Record) -> tuple[str, str]:
    """The same of pi's message: what a program put in is a user's message for both."""
    roles = {"toolResult": "tool", "bashExecution": "bash", "custom": "user"}
    return roles.get(message["role"], message["role"]), message["said"]


def preparation(session: Session, plan: Any) -> Record | None:
    if not isinstance(plan, Plan):
        return None
    return {
        "first": None if plan.first_kept is None else number(session[plan.first_kept]),
        "fold": [number(session[id]) for id in plan.fold],
        "prefix": [number(session[id]) for id in plan.turn_prefix],
        "split": plan.split,
        "before": plan.proposal.tokens_before,
        "previous": plan.previous_summary,
        "files": files(plan.files),
    }


def files(touched: e.Files) -> Record:
    return {"readFiles": list(touched.read), "modifiedFiles": list(touched.modified)}


def without_false_split(session: Session, prepared: Record | None) -> Record | None:
    """B10: a cut at the start of a turn is no split, metadata in front of it or not."""
    if prepared is None or not prepared["split"]:
        return prepared
    after = (entry for entry in session.path if number(entry) >= prepared["first"])
    shown = [entry for entry in after if in_context(entry) and not isinstance(entry, e.Fold)]
    if not shown or not begins_turn(shown[0]):
        return prepared
    return {**prepared, "fold": prepared["fold"] + prepared["prefix"], "prefix": [], "split": False}


def says(entry: e.Entry) -> bool:
    """The summary of a branch may be empty; pi hands that on, and nothing comes of it."""
    return not isinstance(entry, e.BranchSummary) or bool(entry.summary)


def left_behind(session: Session, ids: dict[int, str], asked: Case) -> Record:
    plan = prepare_branch(session, ids[asked.leaf], ids[asked.target], asked.budget)
    return {
        "ancestor": None if plan.common_ancestor is None else number(session[plan.common_ancestor]),
        "entries": [number(entry) for entry in plan.entries],
        "messages": [number(session[source.id]) for source in plan.sources],
        "tokens": plan.tokens,
        "files": files(plan.files),
    }
