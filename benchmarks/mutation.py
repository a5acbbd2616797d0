"""`make mutation`: does a test fail when the code is wrong?

    python benchmarks/mutation.py [--rooms text,stores/rows.py] [--jobs 16] [--seconds 400] [--sample N] [--seed S] [--anew]
    python benchmarks/mutation.py --shard 1/3 --into DIR     # on each of three machines another shard
    python benchmarks/mutation.py --join DIR                 # the result of all that stands in the folder
    python benchmarks/mutation.py --again FILE --effort 30   # do the tests of today notice what survived there?

One change at a time (`mutants.py`) is made to a module of session, compaction, stores or text, and the tests that
reach the changed function are run, the quickest first, until one fails. The tests are imported and collected once;
each mutant is a fork of that process in which the function has other code. What runs at import (constants, patterns,
defaults) cannot be changed in a fork: for those a new process runs in a copy of the tree, `out/mutation/slot-N`.
The working tree is never changed.

Mutants are drawn by a seed, the rooms in turn, so that a run that ends early is a fair sample of each. What became of
each is a line of `DIR/shard-I-of-N.jsonl` (`out/mutation/found` where no folder is given), written at once, and so is
what is known of the run: a run that was ended can be joined, and the next one goes on where it stopped. After a change
of the tests only what survived is tried again (`--again`: nothing else, from a result or such lines); after a change of
a module its mutants are new (`--anew` forgets everything).

The score of a room is the share of its mutants that some test noticed (a mutant that never ends is noticed; one that no
test reaches is not); that of all is their mean by the number of mutants of each. Mutants that `mutation.toml` names as
equivalent, each with its reason, are left out. The result is `benchmarks/results/mutation.json`. Needed are the tree
and the packages of `make setup`, no network.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
ROOT = HERE.parents[1]
COLD = "--in-a-new-process"
# Not the folder of this file: modules there have names of packages.
sys.path[:] = [path for path in sys.path if path != str(HERE.parent)]
if COLD not in sys.argv:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    from benchmarks import mutants, results, tables

WORK = ROOT / "out" / "mutation"
ROOMS = ("session", "compaction", "stores", "text")
LEFT_OUT = {"stores/postgres/": "its tests need a server (`make test-postgres`)"}
"""What begins so has no mutants."""
ABOUT_THE_TREE = ("bench_tables", "designs", "docs", "house", "offline", "purity", "repeatable")
APART = ("terminal",)
"""Tests of a process of its own, in which nothing has changed."""
ELSEWHERE = ("clients", "examples", "integrations", "postgres")
"""Rooms whose tests need what `make setup` does not install."""
TESTS = tuple(
    path.relative_to(ROOT).as_posix()
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    if path.stem.removeprefix("test_") not in (*ABOUT_THE_TREE, *APART) and path.parent.name not in ELSEWHERE
)
"""What is collected. Which of these answer for a function is found by running them once."""
OPTIONS = (
    *(
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--capture=no",
        "--no-header",
        "--inline-snapshot=disable",
    ),
    *("-m", "not torture and not local and not live and not slow and not timing and not browser"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)
COPIED = ("src", "tests", "pyproject.toml", "docs", "README.md", "benchmarks", "examples")
PIECE = 15
"""Tests of one file that are tried out by one process."""
PATIENCE = 60.0
"""Seconds for these; tests that come later take no part."""
EFFORT = 10.0
"""Seconds of tests, as they took without a change, that a mutant is given at most."""
IMPORTS = 90.0
"""Seconds for a new process to import everything: one that is slow has noticed nothing."""
MEMORY = 8 << 30
"""A mutant may grow a list for ever."""
UNREACHED = 77
STATUS = {0: "survived", -signal.SIGALRM: "timeout", UNREACHED: "unreached"}
"""What an exit code says; any other: killed."""
NOTICED = ("killed", "timeout")
SAME = ("file", "in", "was", "becomes")
"""What a mutant is known by when lines have moved."""
Work = Callable[[int], int]
"""Something to do in a process of its own, given the number of its slot; what it returns is the exit code."""


class Mutant(NamedTuple):
    file: str
    """Beneath `src/refold`."""
    number: int
    scope: str | None

    @property
    def room(self) -> str:
        return self.file.partition("/")[0]

    @property
    def path(self) -> Path:
        return ROOT / "src" / "refold" / self.file


class Test(NamedTuple):
    name: str
    seconds: float
    reaches: frozenset[tuple[str, str]]
    """(file, function) of all that it ran."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/mutation.py", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--rooms", type=_rooms, default=ROOMS, help="some of them, or modules: compaction,text/dates.py"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no mutant after that long")
    parser.add_argument(
        "--sample", type=int, default=0, help="mutants per room; 0: as many as the time allows"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files and folders of tests instead of all")
    parser.add_argument("--anew", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="every Nth mutant")
    parser.add_argument("--into", type=Path, default=WORK / "found", metavar="DIR", help="what was found")
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only what survived there: a result, or lines of a run"
    )
    parser.add_argument(
        "--effort", type=float, default=EFFORT, help="seconds of tests that a mutant is given at most"
    )
    parser.add_argument("--join", type=Path, metavar="DIR", help="only report what stands in that folder")
    given = parser.parse_args(arguments)
    if given.join:
        return join(given.join, given)
    given.into = given.into.resolve()
    given.again = given.again and given.again.resolve()
    os.chdir(ROOT)
    os.environ.setdefault("REFOLD_DATA", str(ROOT.parent / "shared" / "data"))
    os.environ["PYTHONPATH"] = str(ROOT / "src")  # for what tests start
    if given.anew:
        shutil.rmtree(WORK, ignore_errors=True)
        shutil.rmtree(given.into, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    given.into.mkdir(parents=True, exist_ok=True)
    for slot in WORK.glob("slot-*"):  # copies of a tree that may have changed since
        shutil.rmtree(slot)
    import pytest

    run = Run(given)
    code = pytest.main([*OPTIONS, *given.tests], plugins=[Quick(), run])
    return 0 if run.is_done else int(code) or 1


def _rooms(text: str) -> list[str]:
    rooms = text.split(",")
    for room in rooms:
        if not (ROOT / "src" / "refold" / room).exists():
            raise argparse.ArgumentTypeError(f"no room and no module: {room}; rooms: {', '.join(ROOMS)}")
    return rooms


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count):
        raise argparse.ArgumentTypeError("a shard is I/N, I from 1 to N")
    return int(number), int(count)


class Quick:
    """The same answer every time, and soon."""

    def pytest_configure(self) -> None:
        from hypothesis import settings

        parent = settings.get_profile("refold")
        settings.register_profile("mutation", parent, derandomize=True, database=None, max_examples=25)
        settings.load_profile("mutation")


class Run:
    """Takes the place of pytest's loop over the tests, once they are collected."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.began = time.monotonic()
        self.is_done = False
        self.made: dict[str, Any] = {"run": f"{time.time():.0f}-{given.shard[0]}", "seed": given.seed}
        self.imported: set[tuple[str, str]] = set()
        """Functions that ran while the tests were imported: their work is done before any fork."""

    def pytest_collection(self) -> None:
        noting(self.imported)

    def pytest_runtestloop(self, session: Any) -> bool:
        noting(None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.made |= results.surroundings() | {"load_before": results.load()}
        items = {item.nodeid: item for item in session.items}
        print(f"{len(items)} tests collected after {self.elapsed:.0f} s", flush=True)
        loaded = Loaded.now()
        tests = self.baseline(items, loaded)
        self.control(items, tests)
        self.made["tests"] = len(tests)
        self.try_all(items, tests, loaded)
        self.is_done = True
        return True

    def note(self) -> None:
        """What is known of this run by now; the last such line counts."""
        made = {**self.made, "seconds": round(self.elapsed, 1), "load_after": results.load()}
        Journal.of(self.given).note(made)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    # ── which tests reach which functions ───────────────────────────────────────────────────────

    def baseline(self, items: dict[str, Any], loaded: Loaded) -> dict[str, Test]:
        """Every test once, unchanged: how long it takes and what it runs. Tests that fail take no part."""
        key = fingerprint([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")], *sorted(items))
        stored = WORK / f"baseline-{key}.json"
        if not stored.exists():
            files = [list(group) for _, group in itertools.groupby(items.values(), lambda item: item.path)]
            pieces = [file[n : n + PIECE] for file in files for n in range(0, len(file), PIECE)]
            parts = [stored.with_suffix(f".{n}") for n in range(len(pieces))]
            work = [
                functools.partial(watch, loaded, piece, part)
                for piece, part in zip(pieces, parts, strict=True)
            ]
            for _ in forks(work, self.given.jobs, lambda _: PATIENCE):
                pass
            rows = [row for part in parts if part.exists() for row in read_lines(part)]
            stored.write_text(json.dumps(rows))
            for part in parts:
                part.unlink(missing_ok=True)
        rows = json.loads(stored.read_text())
        for why, names in (
            ("fail without a change", [row["name"] for row in rows if row["failed"]]),
            ("were not ended in time", sorted(items.keys() - {row["name"] for row in rows})),
        ):
            if names:
                print(f"{len(names)} tests {why} and take no part:", *names[:20], flush=True)
        print(f"baseline: {len(rows)} tests after {self.elapsed:.0f} s", flush=True)
        return {
            row["name"]: Test(row["name"], row["seconds"], frozenset((a, b) for a, b in row["reaches"]))
            for row in rows
            if not row["failed"]
        }

    def control(self, items: dict[str, Any], tests: dict[str, Test]) -> None:
        """Tests in another order and in a fork, unchanged: what fails here would be taken for noticed."""
        chosen = random.Random(self.given.seed).sample(sorted(tests), min(len(tests), 40 * self.given.jobs))
        parts = [chosen[n :: self.given.jobs] for n in range(self.given.jobs)]
        work = [functools.partial(run_items, [items[name] for name in part]) for part in parts]
        bad = [number for number, code in forks(work, self.given.jobs, lambda _: 300.0) if code]
        for number in bad:
            print("fail by their order, without a change; one of:", *parts[number], flush=True)

    # ── mutants ─────────────────────────────────────────────────────────────────────────────────

    def try_all(self, items: dict[str, Any], tests: dict[str, Test], loaded: Loaded) -> None:
        """Every mutant of this shard that no earlier run has tried with these tests."""
        journal = Journal.of(self.given)
        reach = Reach.of(tests.values())
        gc.collect()
        gc.freeze()
        pending: list[tuple[Mutant, list[Test]]] = []
        number, count = self.given.shard
        drawn = draw(self.given.rooms, self.given.sample, self.given.seed)
        if self.given.again:
            drawn = survivors(drawn, self.given.again)
        for mutant in itertools.islice(drawn, number - 1, None, count):
            if journal.is_settled(mutant):
                continue
            reached = reach.tests(mutant, is_imported=(mutant.file, mutant.scope or "") in self.imported)
            pending.append((mutant, _affordable(mutant, reached, self.given.effort)))
        print(f"{len(pending)} mutants to try after {self.elapsed:.0f} s", flush=True)

        def is_cold(mutant: Mutant) -> bool:
            return mutant.scope is None or (mutant.file, mutant.scope) in self.imported

        def work() -> Iterator[Work]:
            for mutant, chosen in pending:
                if self.elapsed > self.given.seconds:
                    return
                attempt = attempt_cold if is_cold(mutant) else functools.partial(attempt_warm, loaded)
                if chosen:
                    yield functools.partial(attempt, mutant, [items[test.name] for test in chosen])
                else:
                    yield lambda _: UNREACHED

        def limit(number: int) -> float:
            mutant, chosen = pending[number]
            return (IMPORTS if is_cold(mutant) else 20) + 4 * sum(test.seconds for test in chosen)

        self.note()
        try:
            for done, (number, code) in enumerate(forks(work(), self.given.jobs, limit), 1):
                mutant, _ = pending[number]
                status = STATUS.get(code, "killed")
                journal.add(mutant, status)
                if status == "survived" and len(pending) < 500:
                    print("survived:", *described(mutant).values(), sep="  ", flush=True)
                if done % 100 == 0:
                    print(f"{done} tried after {self.elapsed:.0f} s", flush=True)
                    self.note()
        finally:  # also where somebody else ends it
            self.note()


class Reach(NamedTuple):
    """Which tests answer for what."""

    functions: dict[tuple[str, str], set[Test]]
    files: dict[str, set[Test]]
    importers: dict[str, set[str]]

    @classmethod
    def of(cls, tests: Iterable[Test]) -> Reach:
        made = cls(defaultdict(set), defaultdict(set), importers())
        for test in tests:
            for file, function in test.reaches:
                made.functions[file, function].add(test)
                made.files[file].add(test)
        return made

    def tests(self, mutant: Mutant, *, is_imported: bool) -> set[Test]:
        """Of a function those that ran it. What runs at import has done its work before any test: those of the module,
        and where it has no functions, of the modules that import it."""
        if mutant.scope and (found := self.functions[mutant.file, mutant.scope]):
            return found
        if mutant.scope and not is_imported:
            return set()
        seen, files = {mutant.file}, {mutant.file}
        while files:
            if found := set[Test]().union(*(self.files[file] for file in files)):
                return found
            files = set[str]().union(*(self.importers[file] for file in files)) - seen
            seen |= files
        return set()


def importers() -> dict[str, set[str]]:
    """The modules that import a module, by its file."""
    package = ROOT / "src" / "refold"
    files = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    made: dict[str, set[str]] = defaultdict(set)
    for file, path in files.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("refold"):
                continue
            place = "/".join((node.module or "").split(".")[1:])
            for name in ("", *(alias.name for alias in node.names)):
                stem = "/".join(filter(None, (place, name)))
                for other in (f"{stem}.py", f"{stem}/__init__.py".lstrip("/")):
                    if other in files:
                        made[other].add(file)
    return made


def _affordable(mutant: Mutant, reached: Iterable[Test], effort: float) -> list[Test]:
    """The quickest tests within the effort; those of the room itself first."""
    own = f"tests/{mutant.room}/"
    chosen: list[Test] = []
    spent = 0.0
    for test in sorted(
        reached, key=lambda test: (test.seconds // 0.2, not test.name.startswith(own), test.seconds)
    ):
        if chosen and spent + test.seconds > effort:
            break
        chosen.append(test)
        spent += test.seconds
    return chosen


def draw(rooms: Iterable[str], sample: int, seed: int) -> Iterator[Mutant]:
    """The rooms in turn; the same seed gives the same mutants of the same source in the same order."""
    drawn: list[list[Mutant]] = []
    for room in rooms:
        every: list[Mutant] = []
        place = ROOT / "src" / "refold" / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            file = path.relative_to(ROOT / "src" / "refold").as_posix()
            if file.startswith(tuple(LEFT_OUT)):
                continue
            tree = ast.parse(path.read_text(encoding="utf-8"))
            every += [Mutant(file, n, change.scope) for n, change in enumerate(mutants.changes(tree))]
        random.Random(seed).shuffle(every)
        drawn.append(every[: sample or None])
    for n in range(max(map(len, drawn), default=0)):
        yield from (mutants[n] for mutants in drawn if n < len(mutants))


def survivors(drawn: Iterable[Mutant], file: Path) -> Iterator[Mutant]:
    """Those that the file lists, where nobody calls them equivalent."""
    lines = list(read_lines(file)) if file.suffix == ".jsonl" else []
    rows = lines or json.loads(file.read_text(encoding="utf-8"))["result"]["survivors"]
    stored = {tuple(row[name] for name in SAME) for row in rows if "was" in row} - equivalents().keys()
    begun = {row[:3] for row in stored}
    for mutant in drawn:
        if (mutant.file, mutant.scope or "", _was(mutant.path)[mutant.number]) not in begun:
            continue
        row = described(mutant)
        if tuple(row[name] for name in SAME) in stored:
            yield mutant


@functools.cache
def _was(path: Path) -> list[str]:
    """What stands at the place of each mutant of a module."""
    return [change.was for change in mutants.changes(ast.parse(path.read_text(encoding="utf-8")))]


class Journal:
    """What became of mutants, as lines of files of one folder: each shard writes its own and knows all."""

    def __init__(self, folder: Path, shard: tuple[int, int]) -> None:
        self.path = folder / f"shard-{shard[0]}-of-{shard[1]}.jsonl"
        self.tests = fingerprint((ROOT / "tests").rglob("*.py"))
        self.runs: dict[str, dict[str, Any]] = {}
        self.rows: dict[tuple[str, int, str], dict[str, Any]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for row in read_lines(path):
                self._read(row)

    @classmethod
    def of(cls, given: argparse.Namespace) -> Journal:
        return cls(given.into, given.shard)

    def _read(self, row: dict[str, Any]) -> None:
        if "file" not in row:
            self.runs[row.get("run", "")] = row
            return
        key = row["file"], row["number"], row["source"]
        if key not in self.rows or self.rows[key]["status"] not in NOTICED:
            self.rows[key] = row

    def status(self, mutant: Mutant) -> str | None:
        """killed, timeout, survived or unreached, whatever the tests were; None: nobody has tried it."""
        row = self.rows.get((mutant.file, mutant.number, _digest(mutant.path)))
        return row and row["status"]

    def is_settled(self, mutant: Mutant) -> bool:
        """Noticed by the tests of some run, or tried with just these."""
        row = self.rows.get((mutant.file, mutant.number, _digest(mutant.path)))
        return row is not None and (row["status"] in NOTICED or row["tests"] == self.tests)

    def add(self, mutant: Mutant, status: str) -> None:
        row = {"file": mutant.file, "number": mutant.number, "source": _digest(mutant.path)}
        more = {} if status in NOTICED else described(mutant)
        self._write({**row, "tests": self.tests, "status": status, **more})

    def note(self, run: dict[str, Any]) -> None:
        """Where, when and how long."""
        self._write(run)

    def _write(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row) + "\n")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The last line may be half written."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


@functools.cache
def _digest(path: Path) -> str:
    return fingerprint([path])


def fingerprint(paths: Iterable[Path], *more: str) -> str:
    made = hashlib.sha256()
    for path in sorted(paths):
        made.update(path.read_bytes())
    for text in more:
        made.update(text.encode())
    return made.hexdigest()[:16]


# ── processes ───────────────────────────────────────────────────────────────────────────────────


def forks(work: Iterable[Work], jobs: int, limit: Callable[[int], float]) -> Iterator[tuple[int, int]]:
    """Runs each piece of work in a fork; yields its number and its exit code, −n where signal n ended it."""
    running: dict[int, tuple[int, int]] = {}
    slots = list(range(jobs))
    pending = enumerate(work)
    is_more = True
    try:
        while is_more or running:
            while is_more and slots:
                number, one = next(pending, (-1, None))
                if one is None:
                    is_more = False
                    break
                slot = slots.pop()
                pid = os.fork()
                if pid == 0:
                    _child(one, slot, limit(number))
                running[pid] = number, slot
            if running:
                pid, status = os.wait()
                if pid not in running:
                    continue
                _end(pid)
                number, slot = running.pop(pid)
                slots.append(slot)
                yield number, os.waitstatus_to_exitcode(status)
    finally:
        for pid in running:
            _end(pid)


def _end(pid: int) -> None:
    """The process, those that a test has left behind, and their files."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    shutil.rmtree(temporary(pid), ignore_errors=True)


def temporary(pid: int) -> Path:
    """Where a fork has its temporary files."""
    return Path(tempfile.gettempdir()) / f"refold-mutation-{pid}"


def _child(work: Work, slot: int, limit: float) -> None:
    """Never returns. The alarm ends the process, whatever it is doing, also after `exec`."""
    code = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for number in (signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        code = work(slot)
    except BaseException:
        code = 1
    finally:
        os._exit(code)


def run_items(items: Sequence[Any], slot: int) -> int:
    """Runs collected tests until one fails."""
    session = items[0].session
    failures = session.testsfailed  # a module that could not be imported counts as one
    _own_folder(session.config)
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed > failures:
            return 1
    return 0


def _own_folder(config: Any) -> None:
    folder = temporary(os.getpid())
    folder.mkdir()
    config._tmp_path_factory._basetemp = folder


def watch(loaded: Loaded, items: Sequence[Any], part: Path, slot: int) -> int:
    """Runs the tests of one file; writes how long each took and what it reached."""
    session = items[0].session
    _own_folder(session.config)
    loaded.forget()
    for item, following in zip(items, [*items[1:], None], strict=True):
        reached: set[tuple[str, str]] = set()
        failures = session.testsfailed
        began = time.perf_counter()
        noting(reached)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        noting(None)
        session.shouldfail = False
        row = {"name": item.nodeid, "seconds": round(time.perf_counter() - began, 4)}
        row |= {"failed": session.testsfailed > failures, "reaches": sorted(reached)}
        with part.open("a") as rows:
            rows.write(json.dumps(row) + "\n")
    return 0


_SOURCE = f"{ROOT / 'src' / 'refold'}/"


def noting(reached: set[tuple[str, str]] | None) -> None:
    """From now on adds the functions that start to the set, in whatever thread; None: no longer."""

    def note(code: CodeType) -> None:
        if code.co_filename.startswith(_SOURCE):
            reached.add((code.co_filename[len(_SOURCE) :], code.co_qualname.partition(".<locals>")[0]))

    if sys.version_info < (3, 12):
        trace = None if reached is None else lambda frame, *_: note(frame.f_code)
        sys.settrace(trace)
        threading.settrace(trace)  # type: ignore[arg-type]
        return
    watcher = sys.monitoring
    tool, start = watcher.COVERAGE_ID, watcher.events.PY_START
    if reached is None:
        watcher.set_events(tool, 0)
        watcher.free_tool_id(tool)
        return
    watcher.use_tool_id(tool, "reached functions")
    # Once is enough: nearly nothing is left of the cost of watching.
    watcher.register_callback(tool, start, lambda code, _: note(code) or watcher.DISABLE)
    watcher.set_events(tool, start)
    watcher.restart_events()


# ── one mutant ──────────────────────────────────────────────────────────────────────────────────


class Loaded(NamedTuple):
    """What of the package is in memory."""

    functions: dict[str, list[FunctionType]]
    """By file."""
    caches: list[Any]

    @classmethod
    def now(cls) -> Loaded:
        functions: dict[str, list[FunctionType]] = defaultdict(list)
        caches: list[Any] = []
        for thing in gc.get_objects():
            if isinstance(thing, FunctionType):
                functions[thing.__code__.co_filename].append(thing)
            elif isinstance(thing, functools._lru_cache_wrapper) and f"{thing.__module__}.".startswith(
                "refold."
            ):
                caches.append(thing)
        return cls(functions, caches)

    def forget(self) -> None:
        """What a function has returned before is no longer known."""
        for cache in self.caches:
            cache.cache_clear()


def attempt_warm(loaded: Loaded, mutant: Mutant, items: Sequence[Any], slot: int) -> int:
    """In this process: give the functions that are there other code."""
    tree, _, _ = mutants.mutated(mutant.path.read_text(encoding="utf-8"), mutant.number)
    fresh = dict(_codes(compile(tree, str(mutant.path), "exec")))
    is_changed = False
    for function in loaded.functions[str(mutant.path)]:
        code = function.__code__
        if code.co_qualname.partition(".<locals>")[0] == mutant.scope:
            other = fresh.get((code.co_qualname, code.co_firstlineno))
            if other is None or len(other.co_freevars) != len(code.co_freevars):
                return attempt_cold(mutant, items, slot)
            function.__code__ = other
            is_changed = True
    loaded.forget()
    return run_items(items, slot) if is_changed else attempt_cold(mutant, items, slot)


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield (const.co_qualname, const.co_firstlineno), const
            yield from _codes(const)


def attempt_cold(mutant: Mutant, items: Sequence[Any], slot: int) -> int:
    """In a new process that imports everything from a copy of the tree."""
    tree, _, _ = mutants.mutated(mutant.path.read_text(encoding="utf-8"), mutant.number)
    folder = WORK / f"slot-{slot}"
    changed = folder / "changed"
    if not changed.exists():
        shutil.rmtree(folder, ignore_errors=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("results"))
            else:
                shutil.copy2(ROOT / name, folder / name)
    elif last := changed.read_text():
        shutil.copy2(ROOT / "src" / "refold" / last, folder / "src" / "refold" / last)
    changed.write_text(mutant.file)
    (folder / "src" / "refold" / mutant.file).write_text(ast.unparse(tree), encoding="utf-8")
    (folder / "tests.json").write_text(json.dumps([item.nodeid for item in items]))
    arguments = [sys.executable, "-B", str(HERE), COLD, str(folder), str(temporary(os.getpid()))]
    os.execv(sys.executable, arguments)


def cold(folder: Path, scratch: str) -> int:
    import pytest

    os.chdir(folder)
    sys.path[:] = [str(folder / "src"), str(folder), *(path for path in sys.path if path != str(ROOT))]
    os.environ["PYTHONPATH"] = str(folder / "src")
    names = json.loads(Path("tests.json").read_text())
    return int(pytest.main([*OPTIONS, "-x", f"--basetemp={scratch}", *names], plugins=[Quick()]))


# ── the report ──────────────────────────────────────────────────────────────────────────────────


def join(folder: Path, given: argparse.Namespace) -> int:
    """One result of all that was found; mutants of modules that have changed since do not count."""
    journal = Journal(folder, given.shard)
    found = {
        mutant: status
        for mutant in draw(ROOMS, 0, given.seed)
        if (status := journal.status(mutant)) is not None
    }
    if not found or not journal.runs:
        print(f"Nothing in {folder} is about the modules as they are now", file=sys.stderr)
        return 1
    runs = list(journal.runs.values())
    made = {name: value for name, value in runs[-1].items() if name not in ("run", "seed", "tests")}
    seeds = sorted({run["seed"] for run in runs})
    result = {"seeds": seeds, "tests": runs[-1]["tests"], "left_out": LEFT_OUT, **report(found)}
    seconds = sum(run["seconds"] for run in runs)
    path = results.write(
        "mutation", result, seconds=seconds, before=made["load_before"], quick=False, made=made
    )
    tables.rewrite_all()
    for room, row in result["rooms"].items():
        print(f"{room}: {row['score']} % of {row['sampled']} ({row['mutants']} in all)")
    print(f"{result['score']} %: {path}", flush=True)
    return 0


def report(tried: dict[Mutant, str]) -> dict[str, Any]:
    """Counts and scores by room; by file and line what nobody noticed, and why some of it does not count."""
    reasons = equivalents()
    rooms: dict[str, Any] = {}
    survived: list[dict[str, Any]] = []
    equivalent: list[dict[str, Any]] = []
    for room in ROOMS:
        mine = {mutant: status for mutant, status in tried.items() if mutant.room == room}
        counts = dict.fromkeys((*NOTICED, "survived", "unreached", "equivalent"), 0)
        for mutant, status in sorted(mine.items()):
            if status not in NOTICED:
                row = described(mutant)
                if reason := reasons.get(tuple(row[name] for name in SAME)):
                    status = "equivalent"
                    equivalent.append({**row, "reason": reason})
                else:
                    survived.append({**row, "status": status})
            counts[status] += 1
        judged = len(mine) - counts["equivalent"]
        score = round(100 * sum(counts[name] for name in NOTICED) / judged, 1) if judged else None
        size = sum(1 for _ in draw([room], 0, 0))
        rooms[room] = {"mutants": size, "sampled": len(mine), **counts, "score": score}
    judged = [(row["score"], row["mutants"]) for row in rooms.values() if row["score"] is not None]
    mean = sum(score * size for score, size in judged) / sum(size for _, size in judged)
    return {"score": round(mean, 1), "rooms": rooms, "survivors": survived, "equivalents": equivalent}


def described(mutant: Mutant) -> dict[str, Any]:
    source = mutant.path.read_text(encoding="utf-8")
    _, change, becomes = mutants.mutated(source, mutant.number)
    return {
        "file": mutant.file,
        "line": change.line,
        "in": change.scope or "",
        "text": source.splitlines()[change.line - 1].strip(),
        "was": change.was,
        "becomes": becomes,
    }


def equivalents() -> dict[tuple[str, ...], str]:
    """Mutants that behave like the original: file, function, what stood there, what stands there → the reason."""
    rows = tomllib.loads((HERE.parent / "mutation.toml").read_text(encoding="utf-8")).get("mutant", [])
    return {tuple(row[name] for name in SAME): row["reason"] for row in rows}


if __name__ == "__main__":
    sys.exit(cold(Path(sys.argv[2]), sys.argv[3]) if COLD in sys.argv else main(sys.argv[1:]))
