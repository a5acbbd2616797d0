"""`make mutation`: does a test fail when the code is wrong?

    python -m benchmarks.mutation [--rooms session,text] [--sample 75] [--seed 7] [--jobs 2]

One function at a time gets code with one change in it, and the tests of `make test` that reach it run until one fails.
Which tests reach which functions is found in one run of `make test`, kept in `out/mutation/reach.json` while package and
tests are the same. Tests are collected once, and each mutant is judged in a fork; no file of the package is changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks import results

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "refold"
WORK = ROOT / "out" / "mutation"
ROOMS = ("session", "compaction", "stores", "text")
LEFT_OUT = "stores/postgres"
"""Its tests need a server (`make test-postgres`)."""
ELSEWHERE = "torture or timing or live or local or clients or browser"
SECONDS = 40.0
"""Of the processor, that the tests tried at one mutant take together where nothing is changed."""
LIMIT, MEMORY = 120, 8 << 30
"""Seconds and bytes after which tests are ended. They hang then: that is noticed."""


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


PLUGIN = """
import cProfile, json, os, pathlib, threading, time, pytest
PACKAGE = os.path.abspath("src/refold") + os.sep
rows, elsewhere = [], set()  # `elsewhere`: what is called in other threads; one of them outlives the tests
threading.setprofile(lambda frame, *_: elsewhere.add(frame.f_code))

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    elsewhere.clear()
    profile, began = cProfile.Profile(builtins=False, subcalls=False), time.process_time()
    with profile:
        outcome = yield
    if outcome.excinfo is None:
        codes = elsewhere.copy() | {row.code for row in profile.getstats() if not isinstance(row.code, str)}
        inside = [code for code in codes if code.co_filename.startswith(PACKAGE)]
        names = {f"{code.co_filename[len(PACKAGE):]}:{code.co_qualname.partition('.<locals>')[0]}" for code in inside}
        rows.append([item.nodeid, time.process_time() - began, sorted(names)])
def pytest_sessionfinish():
    pathlib.Path(__file__).with_name(f"reached-{os.environ.get('PYTEST_XDIST_WORKER')}.json").write_text(json.dumps(rows))
"""


def reach(jobs: int) -> list[tuple[str, float, list[str]]]:
    """The tests of `make test` that pass: name, seconds and the functions that each of them calls."""
    known = WORK / "reach.json"
    files = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    version = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    if not known.exists() or json.loads(known.read_text())["version"] != version:
        shutil.rmtree(WORK, ignore_errors=True)
        WORK.mkdir(parents=True)
        (WORK / "reach_plugin.py").write_text(PLUGIN)
        spread = ("-p", "reach_plugin", "-n", str(jobs), "--dist", "worksteal")
        command = [sys.executable, "-m", "pytest", *spread, "-m", f"not (slow or data or {ELSEWHERE})"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(WORK)}, check=False)
        rows = [row for path in WORK.glob("reached-gw*.json") for row in json.loads(path.read_text())]
        known.write_text(json.dumps({"version": version, "tests": rows}))
    return json.loads(known.read_text())["tests"]


def chosen(mutant: Mutant, every: list[tuple[str, float, list[str]]]) -> list[str]:
    """As many as there is time for, those first that call the fewest functions: they are about this one."""
    place = f"{mutant.file}:{mutant.function}"
    reaching = sorted((len(all_of), took, name) for name, took, all_of in every if place in all_of)
    spent = itertools.accumulate(took for _, took, _ in reaching)
    return [name for (_, took, name), end in zip(reaching, spent, strict=True) if end - took < SECONDS]


class Judge:
    """A plugin of pytest: tests are collected once, and then each mutant meets its tests in a fork."""

    def __init__(self, tried: list[tuple[Mutant, list[str]]]) -> None:
        self.tried = tried
        self.found: list[tuple[Mutant, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant, ids in self.tried:
            left = [items[name] for name in ids if name in items]
            how = "survived" if left else "unreached"
            while left and (failed := first_failure(left, mutant)) is not None:
                if first_failure(left[failed : failed + 1]) is None:
                    how = "killed"
                    break
                del left[: failed + 1]  # it fails without the mutant too
            self.found.append((mutant, how))
            print(f"{how}: {mutant.file}:{mutant.line} {mutant.was} → {mutant.becomes}", flush=True)
        return True


def first_failure(items: list[pytest.Item], mutant: Mutant | None = None) -> int | None:
    """Which of the tests fails first, hangs or ends its process; None where all pass, or the mutant cannot be made."""
    ours, theirs = os.pipe()
    if not (child := os.fork()):
        try:
            os.setsid()
            signal.alarm(LIMIT)
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))  # a test may set the alarm anew
            for standard in range(3):
                os.dup2(os.open(os.devnull, os.O_RDWR), standard)
            passed = bool(mutant) and not exchanged(mutant)
            for item, following in () if passed else itertools.zip_longest(items, items[1:]):
                os.write(theirs, b".")
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                passed = not item.session.testsfailed
                if not passed:
                    break
            os._exit(not passed)
        finally:
            os._exit(1)
    os.close(theirs)
    status = os.waitpid(child, 0)[1]
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it may have left running
    with open(ours, "rb") as began:
        return len(began.read()) - 1 if status else None


def exchanged(mutant: Mutant) -> bool:
    """Whether the function has the mutant's code now, wherever it is known; what was cached is forgotten."""
    name = f"refold.{mutant.file.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
    found: Any = importlib.import_module(name)
    codes = [compile(mutant.written(), str(PACKAGE / mutant.file), "exec", dont_inherit=True)]
    for part in mutant.function.split("."):
        found = vars(found).get(part)
        codes = [x for code in codes for x in code.co_consts if getattr(x, "co_name", "") == part]
    for inner in ("fget", "func", "__func__", "__wrapped__", "__wrapped__"):
        found = getattr(found, inner, found)
    with suppress(AttributeError, ValueError):
        found.__code__ = codes[-1]
    for module in [module for name, module in sys.modules.items() if name.startswith("refold")]:
        for clear in [getattr(value, "cache_clear", None) for value in vars(module).values()]:
            if callable(clear):
                clear()
    return getattr(found, "__code__", None) is codes[-1]


def run(rooms: list[str], sample: int, seed: int, jobs: int) -> dict[str, Any]:
    every, chance = reach(jobs), random.Random(seed)
    drawn = [mutant for room in rooms for mutant in draw(room, sample, chance)]
    judge = Judge([(mutant, chosen(mutant, every)) for mutant in drawn])
    pytest.main(["-q", "-n", "0", str(ROOT / "tests")], plugins=[judge])
    counts = {room: Counter[str]() for room in rooms}
    for mutant, found in judge.found:
        counts[mutant.file.partition("/")[0]][found] += 1
    counts["all"] = sum(counts.values(), Counter[str]())
    scored = {x: {**n, "make test": round(100 * n["killed"] / n.total(), 1)} for x, n in counts.items()}
    return {
        "seed": seed,
        "mutants": len(judge.found),
        "tests": len(every),
        "all": scored.pop("all"),
        "rooms": scored,
        "survivors": [{**x._asdict(), "outcome": how} for x, how in sorted(judge.found) if how != "killed"],
    }


def main() -> None:
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
