"""What every executor is held to."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from refold.batch import MAX_ATTEMPTS, Batch, Executor, Job
from refold.batch.in_process import InProcess
from tests.batch import works


def is_alive(pid: int) -> bool:
    """A zombie is none: somebody has only to look at it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(happened, seconds: float = 120.0) -> None:
    for _ in range(int(seconds / 0.02)):
        if happened():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


class ExecutorContract:
    """A subclass has a fixture `on`."""

    def test_the_result_is_that_of_doing_it_here_and_the_same_twice(self, on: Executor) -> None:
        jobs = [Job((number, 0.002 * (number % 5))) for number in range(25)]
        runs = [sorted(Batch(works.slow_square).run(jobs, who)) for who in (on, on, InProcess())]
        assert runs[0] == runs[1] == runs[2]
        assert [ending.value for ending in runs[0]] == [number**2 for number in range(25)]

    def test_what_raises_is_an_ending_and_not_the_end(self, on: Executor) -> None:
        endings = sorted(Batch(works.fails).run([Job(number) for number in range(9)], on))
        assert [ending.value for ending in endings] == [0, None, None, 3, None, None, 6, None, None]
        assert endings[1].error == "1 is no transcript"
        assert endings[2].error == "ZeroDivisionError: oh"
        assert {ending.tries for ending in endings} == {1}

    def test_work_that_exits_is_an_ending(self, on: Executor) -> None:
        endings = sorted(Batch(works.exits).run([Job(number) for number in range(5)], on))
        assert [ending.value for ending in endings] == [0, None, 2, None, 4]
        assert [ending.error for ending in endings][1::2] == ["SystemExit: 1", "SystemExit: 3"]

    def test_a_job_whose_worker_is_killed_is_begun_again_and_the_others_know_nothing_of_it(
        self, on: Executor, tmp_path: Path
    ) -> None:
        (tmp_path / "3-0").touch()
        endings = sorted(Batch(works.kills).run([Job((number, str(tmp_path))) for number in range(8)], on))
        assert [ending.value for ending in endings] == list(range(8))
        assert [ending.tries for ending in endings] == [1, 1, 1, 2, 1, 1, 1, 1]

    def test_a_job_that_kills_every_worker_has_failed_and_the_others_are_done(
        self, on: Executor, tmp_path: Path
    ) -> None:
        for number in range(20):
            (tmp_path / f"2-{number:02}").touch()
        endings = sorted(Batch(works.kills).run([Job((number, str(tmp_path))) for number in range(6)], on))
        bad = endings.pop(2)
        assert [ending.value for ending in endings] == [0, 1, 3, 4, 5]
        assert {ending.tries for ending in endings} == {1}
        assert bad.error is not None
        assert bad.error.startswith(f"its worker died {MAX_ATTEMPTS} times: ")
        assert len(list(tmp_path.iterdir())) == 20 - MAX_ATTEMPTS

    def test_a_worker_that_is_killed_from_outside_costs_nothing(self, on: Executor) -> None:
        [worker] = {ending.value for ending in Batch(works.own_id).run([Job(None)], on)}
        threading.Timer(0.3, lambda: os.kill(worker, signal.SIGKILL)).start()
        jobs = [Job((number, 0.1)) for number in range(12)]
        endings = sorted(Batch(works.slow_square).run(jobs, on))
        assert [ending.value for ending in endings] == [number**2 for number in range(12)]

    def test_an_ordered_batch_ends_in_order_although_the_first_job_is_the_slowest(self, on: Executor) -> None:
        jobs = [Job((number, 0.4 if number == 0 else 0.0)) for number in range(20)]
        finished: list[int] = []
        batch = Batch(works.slow_square, lambda _, value: finished.append(value) or value, ordered=True)
        endings = list(batch.run(jobs, on))
        assert [ending.number for ending in endings] == list(range(20))
        assert finished == [number**2 for number in range(20)]

    def test_large_values_go_there_and_back(self, on: Executor) -> None:
        given = os.urandom(3_000_000)
        [ending] = Batch(works.large).run([Job(given)], on)
        assert ending.value == given[::-1]
