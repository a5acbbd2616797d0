"""`make test` gives the same answer twice, comes to an end, and says what it left out."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import told
from tests.timing import alarm, steps

ROOT = Path(__file__).resolve().parents[1]


def test_property_tests_are_derandomised_without_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if settings.get_current_profile_name() == "torture":
        pytest.skip("this is the random run")
    drawn: list[list[int]] = []

    @settings(max_examples=30)
    @given(st.lists(st.integers(), min_size=20))
    def draw(numbers: list[int]) -> None:
        drawn.append(numbers)

    draw()
    first = drawn.copy()
    drawn.clear()
    module = ModuleType("imported_meanwhile")  # by another test, say
    module.__file__ = str(tmp_path / "imported_meanwhile.py")
    Path(module.__file__).write_text(f"NUMBERS = {[*range(7_000_001, 7_000_500)]}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    draw()
    assert drawn == first
    assert settings().database is None and settings().deadline is None


def test_torture_is_random() -> None:
    profile = settings.get_profile("torture")
    assert not profile.derandomize and profile.database is None
    recipe = re.search(r"^torture:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert recipe and "--hypothesis-profile=torture" in recipe[1] and "REFOLD_ROUNDS=" in recipe[1]


def test_no_test_draws_at_random_or_judges_seconds() -> None:
    """Draws come from `random.Random(seed)`; seconds depend on the load of the machine, so `tests.timing` judges
    them, and only when asked."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text()
        if "\nimport random\n" in text:
            assert not re.search(r"\brandom\.(?!Random\b)|\bRandom\(\)", text), path
        assert not re.search(r"assert .*(?:perf_counter|process_time|monotonic)\(\)", text), path


def test_steps_are_counted_the_same_every_time() -> None:
    def work(size: int) -> int:
        return sum(number * number for number in range(size))

    assert steps(lambda: work(100)) == steps(lambda: work(100))
    assert steps(lambda: work(1_000)) > 8 * steps(lambda: work(100))


def test_skips_are_told_by_reason() -> None:
    skips = [
        ("tests/a.py", 1, "Skipped: needs the real transcripts: /nowhere/pi"),
        ("tests/a.py", 2, "Skipped: needs the real transcripts: /nowhere/adp"),
        ("tests/b.py", 3, "Skipped: got empty parameter set for (path)"),
        ("tests/c.py", 4, "Skipped: strace is not installed"),
        ("tests/c.py", 5, "Skipped: strace is not installed"),
    ]
    assert told(skips) == [
        "3 tests need the real transcripts in ../shared/data (or the folder that REFOLD_DATA names) and were skipped",
        "2 skipped: strace is not installed",
    ]
    assert told([]) == []


@pytest.mark.slow
def test_a_clone_without_the_data_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/tokens/test_m7.py", "tests/recall/test_real.py"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "REFOLD_DATA": str(tmp_path)},
    )
    assert re.search(
        r"^\d+ tests need the real transcripts in \.\./shared/data .* were skipped$", done.stdout, re.M
    )


FOLD = """
import json, hashlib
from refold import Engine, Session, messages as m, presets, run
from refold.testing.builders import conversation

for name in presets.NAMES:
    count = iter(range(10**9))
    session = Session(id="s", clock=lambda: 1.7e9, new_id=lambda: f"id{next(count)}")
    for message in conversation(40, steps=3, size=600):
        session.append(message)
    engine = Engine(presets.get(name, budget=4_000), clock=lambda: 1.7e9)
    plan = engine.plan(session, force=True)
    made = run(engine.apply(session, plan)) if plan else None
    view = engine.view(session)
    hits = [hit.entry_id for hit in engine.recall(session, "step module_7 Bash line")]
    text = json.dumps([view.to_openai(), view.to_anthropic(), view.tokens, hits])
    print(name, hashlib.sha256(text.encode()).hexdigest())
"""


def test_a_fold_is_the_same_in_every_process() -> None:
    """Nothing depends on the order of sets, on the time zone or on the language of the machine."""
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(FOLD, {})
    machine = {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C"}
    there = subprocess.run(
        [sys.executable, "-c", FOLD],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **machine},
    )
    assert there.stdout == here.getvalue() and there.stdout.count("\n") == 6


def test_a_test_that_waits_for_what_never_comes_fails_and_says_so() -> None:
    left = signal.getitimer(signal.ITIMER_REAL)[0]
    assert left > 0, "every test has a bound"
    hangs = pytest.raises(pytest.fail.Exception, match="it hangs: 5 s")
    with hangs, alarm(5), contextlib.suppress(Exception):  # as code does that goes on after any error
        signal.raise_signal(signal.SIGALRM)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 5, "a smaller bound inside of it ends with its block"
