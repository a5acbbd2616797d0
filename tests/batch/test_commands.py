"""`refold compare` and `refold import` over folders: the answer of one process, whatever happens on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import batch
from refold import messages as m
from refold.batch.results import StoredResults
from refold.cli import main
from refold.compare import jobs
from refold.compare.budgets import parse_budgets
from refold.compare.run import ComparisonPlan, row
from refold.protocols import SessionInfo
from refold.registry.sessions import save
from refold.session import Session
from refold.stores import default_database, open_store
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore
from tests.batch import works
from tests.batch.contract import is_alive, until
from tests.compare.sessions import agent_session

ROOT = Path(__file__).parents[2]


def refold(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def chat(file: Path, *texts: str, id: str | None = None) -> None:
    named = {"id": id} if id else {}
    said = [{"role": ("user", "assistant")[n % 2], "content": text * 40} for n, text in enumerate(texts)]
    file.write_text(json.dumps({**named, "messages": said}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four transcripts, a file of three conversations, one that ends in the middle of a line, and something
    else."""
    made = tmp_path / "transcripts"
    made.mkdir()
    for number in range(3):
        chat(made / f"{number}.json", *(f"question {number} about part {n}. " for n in range(8)))
    (made / "half.jsonl").write_text('{"type":"session","version":3,"id":"x"}\n{"type":"mess')
    talks = [
        [{"role": "user", "content": f"talk {n} " * 50}, {"role": "assistant", "content": "yes"}]
        for n in range(3)
    ]
    (made / "several.jsonl").write_text("\n".join(json.dumps({"messages": talk}) for talk in talks))
    (made / "package.json").write_text('{"name": "x"}')
    save(agent_session(2), made / "own.jsonl")
    return made


ASKED = ("--presets", "refold,pi", "--budgets", "600", "--json")


def compared(folder: Path, *more: str) -> dict[str, Any]:
    done = refold("compare", str(folder), *ASKED, *more)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    for figures in told["rows"]:
        figures.pop("seconds")
    told["batch"].pop("seconds")
    return told


@pytest.mark.slow
def test_processes_give_the_answer_of_one_process_in_the_order_of_the_files(folder: Path) -> None:
    serial, many_ = (
        compared(folder, "--on", "here", "--anew"),
        compared(folder, "--on", "processes:2", "--anew"),
    )
    assert serial["rows"] == many_["rows"]
    names = list(dict.fromkeys(Path(figures["file"]).name for figures in serial["rows"]))
    several = [f"several.jsonl#{number}" for number in range(3)]
    assert names == ["0.json", "1.json", "2.json", "half.jsonl", "own.jsonl", *several]
    assert (serial["skipped"], serial["batch"]["failed"]) == (1, 1)


def test_a_bad_transcript_is_a_row_and_not_the_end(folder: Path) -> None:
    files = [str(folder / name) for name in ("half.jsonl", "none.json", "0.json")]
    done = refold("compare", *files, *ASKED, "--on", "here")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert [figures["tokens"] is None for figures in rows] == [True] * 4 + [False] * 2
    assert all(figures["error"] for figures in rows[:4])


def test_a_second_run_does_only_what_is_missing_or_changed(folder: Path) -> None:
    assert compared(folder, "--anew", "--on", "here")["batch"]["kept"] == 0
    again = compared(folder)
    assert again["batch"] == {"on": "processes", "jobs": 7, "kept": 7, "failed": 1, "repeated": 0}
    chat(folder / "1.json", *(f"another question about part {n}. " for n in range(8)))
    changed = compared(folder, "--on", "here")
    assert changed["batch"]["kept"] == 6
    other = [a["file"] for a, b in zip(again["rows"], changed["rows"], strict=True) if a != b]
    assert other == [str(folder / "1.json")] * 2


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "more",
    [("--budgets", "700"), ("--presets", "refold"), ("--passes", "2"), ("--prices", "gpt-5"), ("--anew",)],
)
def test_another_question_is_answered_anew(folder: Path, more: tuple[str, ...]) -> None:
    file = str(folder / "0.json")
    for asked, kept in (((), 0), ((), 1), (more, 0)):
        done = refold("compare", file, *ASKED, "--on", "here", *asked)
        assert json.loads(done.stdout)["batch"]["kept"] == kept


def test_another_setting_or_release_is_done_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ComparisonPlan(("refold",), parse_budgets("600"))
    before = jobs.fingerprint(plan)
    monkeypatch.setenv("REFOLD_REFOLD_WORDS_SHARE", "0.1")
    assert jobs.fingerprint(plan) != before
    monkeypatch.delenv("REFOLD_REFOLD_WORDS_SHARE")
    assert jobs.fingerprint(plan) == before
    monkeypatch.setattr(jobs, "release", lambda: "another")
    assert jobs.fingerprint(plan) != before


def test_a_worker_of_another_release_refuses(folder: Path) -> None:
    plan = ComparisonPlan(("refold",), parse_budgets("600"))
    [job] = jobs.jobs([(str(folder / "0.json"), False)], plan)
    other = jobs.Task(job.argument.file, False, plan, "another")
    assert "another release" in (batch.attempt_job(jobs.work, other).error or "")


@pytest.mark.slow
def test_a_transcript_that_kills_workers_is_a_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "0.json").rename(folder / "poison.json")
    monkeypatch.setattr(jobs, "work", works.compared_or_killed)
    plan = ComparisonPlan(("refold",), parse_budgets("600"))
    with batch.open_executor("processes:2") as on:
        ended = sorted(jobs.endings(jobs.jobs(jobs.transcript_files([str(folder)]), plan), plan, on))
    done = jobs.merge_compared(ending.value for ending in ended)
    bad = {Path(cell.file).name: cell.error or "" for cell in done.cells if cell.failed}
    assert set(bad) == {"half.jsonl", "poison.json"}
    assert bad["poison.json"] == "its worker died 3 times: killed by SIGKILL"
    assert len(done.transcripts) == 6


def test_only_what_a_table_needs_comes_back(folder: Path) -> None:
    plan = ComparisonPlan(("refold",), parse_budgets("600"))
    [job] = jobs.jobs([(str(folder / "own.jsonl"), False)], plan)
    value = jobs.work(job.argument)
    assert len(json.dumps(value)) < 3_000
    assert all(cell["done"] is None for cell in value["cells"])


def test_what_a_model_failed_at_is_not_kept(tmp_path: Path, folder: Path) -> None:
    script = tmp_path / "empty.jsonl"
    script.write_text("")
    plan = ComparisonPlan(("pi",), parse_budgets("600"), model=f"scripted:{script}")
    store = MemoryStore()
    with batch.open_executor("here") as on:
        [ending] = jobs.endings(
            jobs.jobs([(str(folder / "0.json"), False)], plan), plan, on, StoredResults(store, "x")
        )
    assert all(cell.failed for cell in ending.value.cells)
    assert len(StoredResults(store, "x")) == 0


def test_where_nothing_can_be_kept_work_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "batch.db").mkdir()
    monkeypatch.setenv("REFOLD_DATABASE", str(tmp_path / "sessions.db"))
    done = refold("compare", str(folder), *ASKED, "--on", "here")
    assert done.exit_code == 0
    assert "results are not saved" in done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 16


@pytest.mark.parametrize(
    "arguments", [("--on", "nobody"), ("--on", "processes:x"), ("--html", "r.html", "--on", "here")]
)
def test_wrong_calls_are_usage_errors(folder: Path, arguments: tuple[str, ...]) -> None:
    done = refold("compare", str(folder), *ASKED, *arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


# ── kills ───────────────────────────────────────────────────────────────────────────────────────


def workers_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.torture)])
def test_whoever_is_stopped_leaves_no_orphan_and_no_half_file_and_the_next_run_does_the_rest(
    folder: Path, tmp_path: Path, how: signal.Signals
) -> None:
    """The last file never ends: nobody writes into it."""
    files = [str(folder / f"{number}.json") for number in range(3)]
    os.mkfifo(folder / "waits.json")
    home = tmp_path / "home"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'src'}",
        "XDG_DATA_HOME": str(home),
        "HOME": str(home),
    }
    asked = [
        sys.executable,
        "-m",
        "refold",
        "compare",
        *files,
        str(folder / "waits.json"),
        "--on",
        "processes:2",
        *ASKED,
    ]
    running = subprocess.Popen(
        asked,
        env=environment,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # also below a shell's `&`
    )

    def kept() -> int:
        if not (home / "refold" / "batch.db").exists():
            return 0
        store = open_store(f"sqlite:{home / 'refold' / 'batch.db'}").store
        try:
            return sum(info.entries for info in store.sessions())
        finally:
            store.close()

    until(lambda: kept() == 3)
    workers = workers_of(running.pid)
    assert len(workers) >= 2
    os.killpg(running.pid, how) if how == signal.SIGINT else os.kill(running.pid, how)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == (1 if how == signal.SIGINT else -how)
    assert out == b""
    until(lambda: not any(map(is_alive, workers)))
    assert sorted(
        path.name for path in (home / "refold").iterdir() if not path.name.endswith(("-wal", "-shm"))
    ) == ["batch.db"]
    done = subprocess.run([*asked[:7], *asked[8:]], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout)["batch"]["kept"] == 3


# ── import ──────────────────────────────────────────────────────────────────────────────────────


def imported(folder: Path, store: Path, *more: str) -> dict[str, Any]:
    told = json.loads(refold("import", str(folder), "--to", f"sqlite:{store}", "--json", *more).stdout)
    told.pop("store")
    return told


def contents(path: Path) -> dict[str, Any]:
    store = open_store(f"sqlite:{path}").store
    found = {info.id: store.load(info.id).entries for info in store.sessions()}
    store.close()
    return found


def test_import_by_processes_is_that_of_one_process_also_where_two_files_claim_one_id(
    folder: Path, tmp_path: Path
) -> None:
    chat(folder / "a.json", *(["slow to read "] * 900), id="same")
    chat(folder / "b.json", "quick ", id="same")
    one = imported(folder, tmp_path / "1.db", "--on", "here")
    many_ = imported(folder, tmp_path / "2.db", "--on", "processes:2")
    assert one["sessions"] == many_["sessions"]
    assert contents(tmp_path / "1.db") == contents(tmp_path / "2.db")
    assert [outcome["id"] for outcome in one["sessions"] if Path(outcome["file"]).name == "a.json"] == [
        "same"
    ]


def test_a_second_import_reads_only_what_is_new_changed_or_gone_from_the_store(
    folder: Path, tmp_path: Path
) -> None:
    store, kept = tmp_path / "s.db", ("--on", "here", "--kept", f"sqlite:{tmp_path / 'kept.db'}")
    first, again = imported(folder, store, *kept), imported(folder, store, *kept)
    assert first["batch"]["kept"] == 0
    assert again["batch"]["kept"] == again["files"] - 1, "what failed is tried again"
    assert (again["imported"], again["unchanged"]) == (0, first["imported"])
    assert refold("sessions", "delete", "0", "--yes", "--store", f"sqlite:{store}").exit_code == 0
    chat(folder / "1.json", *(f"question 1 about part {n}. " for n in range(10)))
    third = imported(folder, store, *kept)
    assert third["batch"]["kept"] == again["batch"]["kept"] - 2
    assert (third["imported"], third["grown"]) == (1, 1)
    assert set(contents(store)) == {outcome["id"] for outcome in third["sessions"] if outcome["id"]}


def test_kept_work_lies_beside_the_own_database_and_is_no_session_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFOLD_DATABASE", str(tmp_path / "own" / "sessions.db"))
    compared(folder, "--on", "here")
    assert default_database().with_name("batch.db").exists()
    assert not default_database().exists()
    assert [
        info.id[:8] for info in open_store(f"sqlite:{tmp_path / 'own' / 'batch.db'}").store.sessions()
    ] == ["compare-"]


def test_rows_are_those_of_the_comparison_itself() -> None:
    from refold import loop
    from refold.compare.run import compare

    session = Session(id="s")
    session.append(m.user("one two three " * 100))
    done = loop.run(compare([("a", session)], ComparisonPlan(("refold",), parse_budgets("50"))))
    assert [row(cell) for cell in jobs.without_sessions(done).cells] == [row(cell) for cell in done.cells]


@pytest.mark.parametrize("command", ["compare", "import"])
def test_old_sessions_in_the_store_for_results_stay(command: str, folder: Path, tmp_path: Path) -> None:
    """Results are deleted after a month; who kept them in a database of sessions lost the old ones."""
    place = f"sqlite:{tmp_path / 'mine.db'}"
    store = SqliteStore(tmp_path / "mine.db", clock=lambda: 1.0)
    for id in ("mine", "compare-mine", f"compare-{'0' * 24}"):
        store.create(SessionInfo(id=id, created=1.0, updated=1.0))
    extra = ("--to", f"sqlite:{tmp_path / 's.db'}") if command == "import" else ()
    done = refold(command, str(folder), "--on", "here", "--kept", place, "--json", *extra)
    assert done.exit_code in (0, 1), done.output
    left = {info.id for info in store.sessions()}
    assert {"mine", "compare-mine"} <= left
    assert f"compare-{'0' * 24}" not in left
