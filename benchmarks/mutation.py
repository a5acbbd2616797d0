"""`make mutation`: does a test fail when the code is wrong?

    python -m benchmarks.mutation [--rooms session,text] [--sample 75] [--seed 7] [--jobs 2]

One change at a time is made in a copy of the tree, and the tests that reach the changed function are run until one
fails: those of `make test`, and where none of them does, those that `make test-all` adds. Which tests reach which
functions is found in one run of `make test` in such a copy, and kept in `out/mutation/reach.json` while the package and
the tests are the same. The result is `benchmarks/results/mutation.json`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import itertools
import json
import os
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "refold"
WORK = ROOT / "out" / "mutation"
ROOMS = ("session", "compaction", "stores", "text")
LEFT_OUT = "stores/postgres"
"""Its tests need a server (`make test-postgres`)."""
ELSEWHERE = "torture or timing or live or local or clients or browser"
SECONDS = 40.0
"""How long the tests of `make test` that are tried at one mutant take together where nothing is changed."""
FILES = 6
"""How many files of tests are tried with what `make test-all` adds."""
LIMIT, MEMORY = 180, 8 << 30
"""Seconds and bytes after which tests are ended. Those of `make test` hang then: that is noticed."""


# ── mutants ─────────────────────────────────────────────────────────────────────────────────────


class Mutant(NamedTuple):
    file: str
    line: int
    function: str
    was: str
    becomes: str
    begin: int
    """Of what is replaced, in the bytes of the file."""
    end: int

    def written(self) -> bytes:
        source = (PACKAGE / self.file).read_bytes()
        return source[: self.begin] + self.becomes.encode() + source[self.end :]

    def compiles(self) -> bool:
        try:
            compile(self.written(), self.file, "exec", dont_inherit=True)
        except SyntaxError:
            return False
        return True


_SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Add,
}  # fmt: skip


def changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """What is replaced, and by which text: something that is wrong and may still compile."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
            yield node, ast.unparse(ast.Compare(node.left, [_SWAPPED[type(operator)]()], node.comparators))
        case ast.BoolOp(op=operator) if type(operator) in _SWAPPED:
            yield node, ast.unparse(ast.BoolOp(_SWAPPED[type(operator)](), node.values))
        case ast.BinOp(op=operator) if type(operator) in _SWAPPED:
            yield node, ast.unparse(ast.BinOp(node.left, _SWAPPED[type(operator)](), node.right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, ast.unparse(operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Constant(value=bool(value)):
            yield node, repr(not value)
        case ast.Constant(value=int(value)):
            yield node, repr(value + 1)
        case ast.Constant(value=str(value)) if value and " " not in value:  # no text for people
            yield node, repr(value[:-1])
        case ast.Return(value=ast.expr()) if ast.unparse(node) not in (
            "return None",
            "return False",
        ):  # as false
            yield node, "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield node, "pass"
        case _:
            pass


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of the functions of a module."""
    source, file = path.read_bytes(), str(path.relative_to(PACKAGE))
    starts = [0, *itertools.accumulate(len(line) for line in source.splitlines(keepends=True))]
    for function, body in _functions(ast.parse(source)):
        inner = (node for statement in body for node in _inside(statement))
        for node, text in itertools.chain.from_iterable(map(changes, inner)):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            text = text if isinstance(node, ast.stmt | ast.Constant) else f"({text})"
            yield Mutant(file, node.lineno, function, source[begin:end].decode(), text, begin, end)


def _functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, list[ast.stmt]]]:
    """The bodies of functions and methods with their names in the module, not of those inside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{around}{node.name}", node.body
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The code of a statement: no types, errors and f-strings (their parts may not know where they stand)."""
    yield node
    left = [getattr(node, name, None) for name in ("annotation", "returns")]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast":
        left.append(node.args[0])
    for child in ast.iter_child_nodes(node):
        if child not in left and not isinstance(child, ast.arguments | ast.JoinedStr | ast.Raise):
            yield from _inside(child)


def draw(room: str, count: int, chance: random.Random) -> list[Mutant]:
    paths = [path for path in sorted((PACKAGE / room).rglob("*.py")) if LEFT_OUT not in str(path)]
    every = [mutant for path in paths for mutant in mutants(path)]
    chance.shuffle(every)
    return list(itertools.islice(filter(Mutant.compiles, every), count))


# ── tests ───────────────────────────────────────────────────────────────────────────────────────


class Test(NamedTuple):
    """One that passes in a copy of the tree."""

    file: str
    id: str
    seconds: float
    functions: list[str]


PLUGIN = """
import cProfile, json, os, pathlib, threading, time, pytest
PACKAGE = os.path.abspath("src/refold") + os.sep
rows, elsewhere = [], set()  # `elsewhere`: what is called in threads that tests start

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    elsewhere.clear()
    threading.setprofile(lambda frame, *_: elsewhere.add(frame.f_code))
    profile, began = cProfile.Profile(builtins=False, subcalls=False), time.perf_counter()
    with profile:
        outcome = yield
    threading.setprofile(None)
    if outcome.excinfo is None:
        codes = elsewhere.copy() | {row.code for row in profile.getstats() if not isinstance(row.code, str)}
        inside = [code for code in codes if code.co_filename.startswith(PACKAGE)]
        names = {f"{code.co_filename[len(PACKAGE):]}:{code.co_qualname.partition('.<locals>')[0]}" for code in inside}
        rows.append([item.nodeid.partition("::")[0], item.nodeid, time.perf_counter() - began, sorted(names)])
def pytest_sessionfinish():
    pathlib.Path(f"reached-{os.environ.get('PYTEST_XDIST_WORKER')}.json").write_text(json.dumps(rows))
"""


def reach(jobs: int) -> list[Test]:
    """The tests of `make test` that pass, with the functions each of them calls."""
    known = WORK / "reach.json"
    files = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    version = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    if not known.exists() or json.loads(known.read_text())["version"] != version:
        slot = _copy("reach")
        (slot / "reach_plugin.py").write_text(PLUGIN)
        marked = f"not (slow or data or {ELSEWHERE})"
        pytest(slot, "-p", "reach_plugin", "-n", str(jobs), "--dist", "worksteal", "-m", marked, limit=None)
        rows = [row for path in slot.glob("reached-gw*.json") for row in json.loads(path.read_text())]
        assert rows, f"no test passes: {slot / 'log'}"
        known.write_text(json.dumps({"version": version, "tests": rows}))
    return [Test(*row) for row in json.loads(known.read_text())["tests"]]


def _copy(name: str) -> Path:
    shutil.rmtree(WORK / name, ignore_errors=True)
    left = shutil.ignore_patterns("out", ".git", "*venv*", ".clients*", "__pycache__", ".hypothesis")
    return shutil.copytree(ROOT, WORK / name, ignore=left, symlinks=True)


def pytest(slot: Path, *arguments: str, limit: float | None = LIMIT) -> int | None:
    """Its exit status; None where it did not end in time."""
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    data = str(ROOT.parent / "shared" / "data")
    env = {"REFOLD_DATA": data, **os.environ, "PYTHONPATH": f"{slot / 'src'}{os.pathsep}{slot}"}
    with (slot / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=slot, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def chosen(reaching: list[Test]) -> list[str]:
    """As many as there is time for, those first that call the fewest functions: they are about this one."""
    ordered = sorted(reaching, key=lambda test: (len(test.functions), test.seconds))
    spent = itertools.accumulate(test.seconds for test in ordered)
    return [test.id for test, end in zip(ordered, spent, strict=True) if end - test.seconds < SECONDS]


def outcome(mutant: Mutant, every: list[Test], slot: Path) -> str:
    """`killed` by a test of `make test`, `killed slowly` by one of `make test-all`, `survived` or `unreached`."""
    name = f"{mutant.file}:{mutant.function}"
    reaching = [test for test in every if name in test.functions]
    if not reaching:
        return "unreached"
    place = slot / "src" / "refold" / mutant.file
    place.write_bytes(mutant.written())
    try:
        if pytest(slot, "-n", "0", "-x", *chosen(reaching)) != 0:
            return "killed"
        files = [file for file, _ in Counter(test.file for test in reaching).most_common(FILES)]
        marked = f"(slow or data or hypothesis) and not ({ELSEWHERE})"
        status = pytest(slot, "-n", "0", "-x", "--hypothesis-profile=all", "-m", marked, *files)
        return "killed slowly" if status == 1 else "survived"
    finally:
        shutil.copyfile(PACKAGE / mutant.file, place)


# ── the run ─────────────────────────────────────────────────────────────────────────────────────


def run(rooms: list[str], sample: int, seed: int, jobs: int) -> dict[str, Any]:
    slots = queue.SimpleQueue[Path]()
    for number in range(jobs):
        slots.put(_copy(f"slot-{number}"))
    every, chance = reach(jobs), random.Random(seed)
    drawn = [mutant for room in rooms for mutant in draw(room, sample, chance)]

    def judge(mutant: Mutant) -> str:
        slot = slots.get()
        found = outcome(mutant, every, slot)
        slots.put(slot)
        print(f"{found}: {mutant.file}:{mutant.line} {mutant.was} → {mutant.becomes}", flush=True)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        judged = sorted(zip(drawn, pool.map(judge, drawn), strict=True))
    counts = {room: Counter[str]() for room in rooms}
    for mutant, found in judged:
        counts[mutant.file.partition("/")[0]][found] += 1
    total = sum(counts.values(), Counter[str]())
    return {
        "seed": seed,
        "mutants": len(judged),
        "tests": len(every),
        "all": _scored(total),
        "rooms": {room: _scored(found) for room, found in counts.items()},
        "survivors": [{**mutant._asdict(), "outcome": how} for mutant, how in judged if how != "killed"],
    }


def _scored(found: Counter[str]) -> dict[str, float]:
    quick, both = found["killed"], found["killed"] + found["killed slowly"]
    shares = {"make test": quick / found.total(), "make test-all": both / found.total()}
    return {**found, **{name: round(100 * share, 1) for name, share in shares.items()}}


def main() -> None:
    from benchmarks import results

    options = argparse.ArgumentParser(description="Does a test fail when the code is wrong?")
    options.add_argument("--rooms", default=",".join(ROOMS))
    options.add_argument("--sample", type=int, default=75, help="mutants of each room")
    options.add_argument("--seed", type=int, default=time.localtime().tm_yday)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    began, before = time.monotonic(), results.load()
    found = run(given.rooms.split(","), given.sample, given.seed, given.jobs)
    results.write("mutation", found, seconds=time.monotonic() - began, before=before, quick=False)
    print(json.dumps({key: value for key, value in found.items() if key != "survivors"}, indent=1))


if __name__ == "__main__":
    main()
