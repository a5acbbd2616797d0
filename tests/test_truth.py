"""R22, M11: nothing that a record says of the work is false of the log, and what matters is there.

`tests/truth.py` is the judge: it shares no code with what computes the state. Counts made by hand, by reading
the logs, stand in `tests/golden/state_by_hand.toml`.
"""

from __future__ import annotations

import gzip
import io
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold import Engine, Session, presets, tokens, transcripts
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.facts import state
from refold.facts.state_text import render
from refold.loop import run
from refold.protocols import Loaded, SessionInfo
from tests.data import DATA, shared
from tests.facts.steps import Step, bash, conversation
from tests.strategies import examples
from tests.truth import Judge, section, spaced, statements

BUDGETS = (2_000, 4_000, 8_000, 16_000, 32_000)
FOLDS = (1, 3, 10)
COUNTER = tokens.get("o200k")


def records(messages: Sequence[m.Message], cwd: str, budget: int, folds: int) -> Iterator[tuple[str, Judge]]:
    """The records of a session that is folded so many times on its way, each with a judge of its log."""
    session = Session(info=SessionInfo(id="s", cwd=cwd or None))
    engine = Engine(presets.get("refold", budget=budget))
    step = max(len(messages) // folds, 1)
    for number, message in enumerate(messages, 1):
        session.append(message)
        if number % step and number != len(messages):
            continue
        plan = engine.plan(session, force=True)
        fold = run(engine.apply(session, plan)) if isinstance(plan, Plan) else None
        if isinstance(fold, e.Fold) and fold.edits[0].put and (text := section(fold.edits[0].put[0].text)):
            path = session.path_to(fold.parent)
            yield text, Judge([x.message if isinstance(x, e.MessageEntry) else None for x in path], cwd)


def false_statements(
    messages: Sequence[m.Message], cwd: str, budget: int, folds: int
) -> tuple[int, list[str]]:
    made = list(records(messages, cwd, budget, folds))
    return sum(len(list(statements(text))) for text, _ in made), [
        x for text, judge in made for x in judge.wrong(text)
    ]


# ── made conversations ──────────────────────────────────────────────────────────────────────────

FAILS = bash(
    "python tool.py", "Exit code 2\nTraceback (most recent call last):\nOSError: no disk", failed=True
)
WORK: list[Step] = [
    ("TaskCreate", {"subject": "Fix the login"}, "Task #1 created successfully: Fix the login"),
    ("TaskCreate", {"subject": "Write it down"}, "Task #2 created successfully: Write it down"),
    ("Read", {"file_path": "/w/src/login.py"}, "def login(): ...\n" * 200),
    ("Edit", {"file_path": "/w/src/login.py", "old_string": "x", "new_string": "def login(user):\n    y"}, "ok"),
    ("Edit", {"file_path": "/w/src/gone.py", "old_string": "x", "new_string": "y"}, "ok"),
    ("Edit", {"file_path": "/w/src/back.py", "old_string": "x", "new_string": "y"}, "ok"),
    ("Edit", {"file_path": "/w/src/never.py", "old_string": "x"}, "<tool_use_error>String not found</tool_use_error>", True),
    ("Write", {"file_path": "/w/new.py", "content": "class New:\n    pass\n"}, "File created successfully at: /w/new.py"),
    bash("cd /w && pytest -q 2>&1 | tail -5", "x\n" * 300 + "2 failed, 9 passed in 0.3s"),
    bash("rm src/gone.py && git checkout src/back.py", "Updated 1 path from the index"),
    bash("git commit -am back && git checkout -b next", "[work 1a2b3c4] back\nSwitched to a new branch 'next'"),
    bash("mise run fmt && mise run lint", "0 issues."),
    ("Bash", {"command": "npm run build"}, "Exit code 1\nsrc/a.ts(1,2): error TS2304: Cannot find name 'x'.", True),
    ("Bash", {"command": "npm run build"}, "built in 2s"),
    ("Bash", {"command": "npm run dev"}, "Command running in background with ID: b57. Output is written."),
    ("Task", {"description": "Review"}, "Async agent launched successfully.\nagentId: a3e (internal)"),
    ("TaskUpdate", {"taskId": "1", "status": "completed"}, "Updated task #1 status"),
    FAILS,
    ("Bash", {"command": "git push"}, "The user doesn't want to proceed with this tool use.", True),
]  # fmt: skip


def work(times: int) -> list[m.Message]:
    messages: list[m.Message] = [m.user("Fix the login. Never touch migrations.")]
    for n in range(times):
        messages += [m.user(f"Go on with part {n}."), *conversation(*WORK, first=n * 100)]
        messages += [
            m.assistant(f"Part {n} is done."),
            m.user("<task-id>a3e</task-id>\n<status>completed</status>"),
        ]
    return messages


@pytest.mark.sample(3)
@pytest.mark.parametrize("budget", BUDGETS[:4])
@pytest.mark.parametrize("folds", FOLDS)
def test_R22_nothing_is_false_in_a_record_of_a_made_session(budget: int, folds: int) -> None:
    count, wrong = false_statements(work(12), "/w", budget, folds)
    assert wrong == []
    assert count >= 3 * folds or budget > 4_000


@pytest.mark.sample(3)
@pytest.mark.parametrize("budget", BUDGETS)
def test_R22_nothing_is_false_in_a_record_of_the_sample(budget: int) -> None:
    sample = gzip.decompress(files("refold.data").joinpath("sample.jsonl.gz").read_bytes())
    loaded = transcripts.read_stream(io.BytesIO(sample), name="sample.jsonl")
    count, wrong = false_statements(said(loaded), loaded.info.cwd or "", budget, 3)
    assert wrong == []
    assert count > 3 or budget > 8_000


def said(loaded: Loaded) -> list[m.Message]:
    path = Session(loaded.entries, problems=loaded.problems, info=loaded.info).path
    return [entry.message for entry in path if isinstance(entry, e.MessageEntry)]


NAMES = st.sampled_from(["src/a.py", "src/b.py", "/w/src/a.py", "docs/x.md", "/tmp/t.py", "lib/deep/c.ts"])
RESULTS = st.sampled_from(["ok", "1 failed, 2 passed in 0.1s", "Exit code 1\nError: no", "3 passed in 1s\nExit code: 0", "File created successfully", "ERROR: no", "x\n[Current working directory: /w]", "Command running in background with ID: b57.", "Switched to branch 'main'", "Switched to branch 'next'", "Switched to a new branch 'next'", "[next 1a2b3c4] x"])  # fmt: skip
LINES = st.sampled_from(["pytest -q", "cd src && pytest -q | tail", "npm ci && npm test", "make; make lint", "git stash && pytest -q", "git stash pop", "git checkout src/a.py", "git checkout .", "rm src/b.py", "cd src && rm a.py", "mv src/a.py lib/", "git reset --hard", "python x.py", "cat src/a.py", "grep x y", "git commit -m 'rm src/b.py'", "git commit -am x", "git checkout main", "git switch next", "git checkout -b next"])  # fmt: skip
STEPS = st.one_of(
    st.tuples(st.just("Edit"), st.fixed_dictionaries({"file_path": NAMES, "old_string": st.just("x"), "new_string": st.sampled_from(["y", "def f():\n    y"])}), RESULTS, st.booleans()),
    st.tuples(st.just("Write"), st.fixed_dictionaries({"file_path": NAMES, "content": st.just("z = 1\n")}), RESULTS, st.booleans()),
    st.tuples(st.just("Read"), st.fixed_dictionaries({"file_path": NAMES}), RESULTS, st.booleans()),
    st.tuples(st.sampled_from(["Bash", "bash"]), st.fixed_dictionaries({"command": LINES}), RESULTS, st.booleans()),
    st.tuples(st.just("TodoWrite"), st.fixed_dictionaries({"todos": st.lists(st.fixed_dictionaries({"content": st.sampled_from(["a", "b"]), "status": st.sampled_from(["pending", "completed"])}), max_size=2, unique_by=lambda todo: todo["content"])}), st.just("ok"), st.just(False)),
    st.tuples(st.just("KillShell"), st.just({"shell_id": "b57"}), st.just("Successfully killed shell: b57"), st.just(False)),
)  # fmt: skip


@given(st.lists(STEPS, max_size=20))
@settings(max_examples=examples(200), deadline=None)
def test_R22_no_state_of_any_session_is_false(steps: list[tuple[str, dict[str, Any], str, bool]]) -> None:
    messages = conversation(
        *((name, given, said, *([True] if failed else [])) for name, given, said, failed in steps)
    )  # type: ignore[misc]
    text = render(state.WorkState("/w").extend(messages), 1_500, COUNTER)
    assert Judge(messages, "/w").wrong(text) == []


# ── the judge itself ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("- src/login.py", "- src/back.py"),
        ("- src/login.py", "- src/never.py"),
        ("- new.py", "- src/login.py"),
        ("def login(user)", "def logout(user)"),
        ('"2 failed, 9 passed"', '"11 passed"'),
        ('pytest -q: "2 failed', 'pytest -q: FAILED (exit 1), "2 failed'),
        ("mise run lint: passed", "mise run lint: FAILED (exit 1)"),
        ("npm run build: passed", "npm run build: FAILED (exit 1)"),
        ("OSError: no disk", "OSError: no memory"),
        ("exit 2", "exit 3"),
        ("- Write it down", "- Fix the login"),
        ("(1 of 2 done)", "(2 of 2 done)"),
        ("npm run dev (b57)", "npm run dev (b58)"),
        ("#17", "#19"),
    ],
)
def test_the_judge_sees_what_is_false(there: str, instead: str) -> None:
    messages = [*conversation(*WORK[:-1]), m.user("<task-id>a3e</task-id>\n<status>completed</status>")]
    text = render(state.WorkState("/w").extend(messages), 1_500, COUNTER)
    judge = Judge(messages, "/w")
    assert judge.wrong(text) == []
    assert there in text
    assert judge.wrong(text.replace(there, instead, 1)) != []


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("`git checkout main` (#4)", "`git stash` (#4)"),
        ("`git checkout main` (#4)", "`git checkout main` (#2)"),
        ("- /w/a.py", "- /w/b.py"),
        ("Files changed before `git checkout main` (#4), which may have taken that back", "Files changed"),
        (" #3, before `git checkout main` (#4)", " #3"),
    ],
)
def test_the_judge_sees_what_is_false_of_an_undo(there: str, instead: str) -> None:
    edit: Step = ("Edit", {"file_path": "/w/a.py", "old_string": "x", "new_string": "y"}, "ok")
    checked = bash("pytest -q", "4 passed in 0.1s")
    messages = conversation(edit, checked, bash("git checkout main", "Switched to branch 'main'"))
    text = render(state.WorkState("/w").extend(messages), 1_500, COUNTER)
    judge = Judge(messages, "/w")
    assert judge.wrong(text) == []
    assert there in text
    assert judge.wrong(text.replace(there, instead)) != []


# ── real sessions ───────────────────────────────────────────────────────────────────────────────

BY_HAND: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "golden" / "state_by_hand.toml").read_text()
)["session"]


def loaded(path: Path, index: int | None = None) -> Loaded:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return transcripts.read_stream(io.BytesIO(data), name=path.name.removesuffix(".gz"), index=index)


def by_hand(case: dict[str, Any]) -> Loaded:
    name, _, index = case["transcript"].partition("#")
    return loaded(shared(name), int(index) if index else None)


@pytest.mark.data
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case["transcript"][:30])
def test_R10_the_state_names_what_was_counted_by_hand(case: dict[str, Any]) -> None:
    read = by_hand(case)
    session = Session(read.entries, problems=read.problems, info=read.info)
    made = state.WorkState(read.info.cwd or "")
    for number, entry in enumerate(session.path):
        if isinstance(entry, e.MessageEntry):
            made.take(entry.message, number)
    known = {*made.files().modified, *made.files().created}
    home = f"{read.info.cwd}/" if read.info.cwd else ""
    assert {name.removeprefix(home) for name in known} == set(case["changed"])
    assert not known & {home + name for name in case.get("gone", ())}
    assert {note.name for note in made.notes() if note.fate == "uncertain"} == set(case.get("uncertain", ()))
    assert [todo.text for todo in made.open_todos] == case.get("todos", [])
    assert [running.id for running in made.running] == case.get("running", [])
    checks = {check.number: check for check in made.checks}
    for row in case["checks"]:
        check = checks[row["number"]]
        assert row["command"] in check.command
        assert check.outcome == row.get("outcome", "")
        assert row.get("quote", "") in check.quote
    assert len(checks) <= len(case["checks"]) + 1


@pytest.mark.data
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case["transcript"][:30])
def test_R10_a_view_with_a_record_names_what_was_counted_by_hand(case: dict[str, Any]) -> None:
    """≥ 95 % of the files that edit tools changed, and of the newest checks."""
    read = by_hand(case)
    text = next(
        filter(lambda text: "<refold-record" in text, (folded(read, n) for n in (16_000, 8_000, 4_000)))
    )
    changed = [*case["changed"], *case.get("uncertain", ())]
    named = [name for name in changed if name.rsplit("/", 1)[-1] in text]
    assert len(named) >= 0.95 * len(changed)
    newest = case["checks"][:3]
    assert sum(spaced(row["command"]) in text for row in newest) >= 0.95 * len(newest)


def folded(read: Loaded, budget: int) -> str:
    """The view of a session at a budget, as text."""
    session = Session(read.entries, problems=read.problems, info=read.info)
    engine = Engine(presets.get("refold", budget=budget))
    plan = engine.plan(session, force=True)
    assert isinstance(plan, Plan)
    run(engine.apply(session, plan))
    return spaced("\n".join(m.searchable(item.message) for item in engine.view(session).items))


@cache
def real() -> list[Path]:
    folders = (
        "adp",
        "claude-code",
        "claude-code-compactions",
        "codex",
        "gemini",
        "openhands",
        "pi",
        "swe-agent",
    )
    found = (path for folder in folders for path in sorted((DATA / folder).glob("*")))
    return [x for x in found if x.name != "oracle.json.gz" and not x.name.startswith(("LICENSE", "cuts."))]


@pytest.mark.data
@pytest.mark.parametrize("path", real(), ids=lambda p: f"{p.parent.name}/{p.name[:30]}")
def test_R22_nothing_is_false_in_a_record_of_a_real_session(path: Path) -> None:
    read = loaded(path)
    count, wrong = false_statements(said(read), read.info.cwd or "", 8_000, 1)
    assert wrong == [], count


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    "number", range(len(real())), ids=lambda n: f"{real()[n].parent.name}/{real()[n].name[:30]}"
)
def test_R22_nothing_is_false_after_many_folds_at_any_budget(number: int) -> None:
    """Every second budget and one number of folds, others for the next transcript."""
    check_budgets(real()[number], FOLDS[number % len(FOLDS)], BUDGETS[number % 2 :: 2])


@pytest.mark.torture
@pytest.mark.data
@pytest.mark.parametrize("path", real(), ids=lambda p: f"{p.parent.name}/{p.name[:30]}")
def test_R22_nothing_is_false_after_many_folds_at_every_budget(path: Path) -> None:
    for folds in FOLDS:
        check_budgets(path, folds, BUDGETS)


def check_budgets(path: Path, folds: int, budgets: Sequence[int]) -> None:
    read = loaded(path)
    for budget in budgets:
        try:
            count, wrong = false_statements(said(read), read.info.cwd or "", budget, folds)
        except Exception as error:
            if type(error).__name__ != "DoesNotFit":
                raise
            continue
        assert wrong == [], (budget, count)
