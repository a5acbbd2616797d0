"""Executors that are always there, and what all share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold import batch
from refold.batch import AHEAD, Batch, Ending, Executor, Job, Return
from refold.batch.processes import Processes
from refold.errors import UnknownName, UsageError
from tests.batch import works
from tests.batch.contract import ExecutorContract, is_alive, until


class TestProcesses(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def on(cls) -> Iterator[Executor]:
        with batch.open_executor("processes:2") as on:
            yield on

    def test_a_value_that_cannot_be_read_is_an_ending(self, on: Executor) -> None:
        endings = sorted(Batch(works.unreadable).run([Job(number) for number in range(5)], on))
        assert [ending.value for ending in endings] == [0, None, 2, None, 4]
        assert "missing 1 required positional argument" in str(endings[1].error)

    def test_work_that_cannot_be_found_there_is_an_ending(self, on: Executor) -> None:
        made = Missing()
        endings = list(Batch(works.large).run([Job(made), Job(b"ab")], on))
        assert {ending.number: ending.value for ending in endings} == {0: None, 1: b"ba"}
        assert any("cannot be unpickled" in (ending.error or "") for ending in endings)


class Missing:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return refuse, ("cannot be unpickled",)


def refuse(why: str) -> None:
    raise ModuleNotFoundError(why)


def test_closing_ends_what_was_begun(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "b"]
    with batch.open_executor("processes:2") as on:
        for file in files:
            on.start(works.sleeps, str(file))
        until(lambda: all(file.exists() and file.read_text() for file in files))
    assert not any(is_alive(int(file.read_text())) for file in files)


def test_workers_do_not_outlive_whoever_was_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from refold.batch import Batch, Job, open_executor; from tests.batch import works\n"
        "if __name__ == '__main__':\n"
        "    with open_executor('processes:2') as on:\n"
        "        list(Batch(works.sleeps).run([Job(f) for f in sys.argv[1:]], on))\n"
    )
    (tmp_path / "run.py").write_text(code)
    files = [tmp_path / "a", tmp_path / "b"]
    root = Path(__file__).parents[2]
    asked = [sys.executable, str(tmp_path / "run.py"), *map(str, files)]
    giver = subprocess.Popen(asked, env={"PYTHONPATH": f"{root / 'src'}:{root}"})
    until(lambda: all(file.exists() and file.read_text() for file in files))
    giver.kill()
    giver.wait()
    until(lambda: not any(is_alive(int(file.read_text())) for file in files))


@pytest.mark.parametrize("spec", ["processes:0", "processes:many", "processes:-1", "ray:4", "ray://"])
def test_a_wrong_number_or_address_is_refused_in_one_sentence(spec: str) -> None:
    with pytest.raises(UsageError), batch.open_executor(spec):
        pass


def test_who_is_unknown_is_named_beside_those_that_are_known() -> None:
    with pytest.raises(UnknownName, match="processes"), batch.open_executor("proceses"):
        pass


def test_ray_is_not_imported_before_it_is_used_and_what_is_missing_is_said() -> None:
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from refold import batch\n"
        "from refold.errors import UsageError\n"
        "import refold.compare.jobs, refold.cli.compare, refold.cli.import_\n"
        "try:\n"
        "    with batch.open_executor('ray'): pass\n"
        "except UsageError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "refold[ray]"' in done.stdout


# ── the loop, with an executor that does what it is told ────────────────────────────────────────


class Backwards:
    """Ends the newest call first; and says how much was there at most."""

    room = 3

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}
        self.most = self.number = 0

    def start(self, work, argument) -> int:
        self.number += 1
        self.calls[self.number] = argument
        self.most = max(self.most, len(self.calls))
        return self.number

    def ended(self) -> list[tuple[int, Return]]:
        place, argument = self.calls.popitem()
        return [(place, Return(argument))]

    def close(self) -> None: ...


def test_no_more_is_begun_than_there_is_room_for_and_jobs_are_made_late() -> None:
    on, made = Backwards(), list[int]()

    def jobs() -> Iterator[Job]:
        for number in range(50):
            made.append(number)
            yield Job(number)

    for count, _ in enumerate(Batch(works.square).run(jobs(), on), 1):
        assert len(made) <= count + on.room
    assert on.most == on.room
    assert len(made) == 50


def test_an_ordered_batch_holds_a_bounded_number_of_results() -> None:
    on, made = Backwards(), list[int]()

    def jobs() -> Iterator[Job]:
        for number in range(200):
            made.append(number)
            yield Job(number)

    told: list[Ending] = []
    for ending in Batch(works.square, ordered=True).run(jobs(), on):
        told.append(ending)
        assert len(made) - len(told) <= AHEAD * on.room
    assert [ending.number for ending in told] == list(range(200))


def test_a_worker_that_died_while_it_was_idle_is_replaced() -> None:
    on = Processes(1)
    try:
        [first] = Batch(works.own_id).run([Job(None)], on)
        on._idle[0].process.kill()  # pyright: ignore[reportPrivateUsage]
        on._idle[0].process.join()  # pyright: ignore[reportPrivateUsage]
        [second] = Batch(works.own_id).run([Job(None)], on)
    finally:
        on.close()
    assert second.error is None
    assert second.value != first.value
