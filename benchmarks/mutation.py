"""`make mutation`: does a test fail when the code is wrong?

    python -m benchmarks.mutation [--rooms session,text] [--sample 75] [--seed 7] [--jobs 2]

One change at a time is made to a copy of the package, and the tests that reach the changed function are run, the
quickest first, until one fails: those of `make test`, then those that only `make test-all` runs. Which tests reach which
functions is found in one run of all of them and kept in `out/mutation/reach.json` until a file of the tree changes. The
working tree is never changed. The result is `benchmarks/results/mutation.json`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
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
MOST_TESTS, MOST_SECONDS = 80, 30.0
"""How many tests are tried at one mutant, and how long they may take together where nothing is changed."""
TIMEOUT = 120


# ── mutants ─────────────────────────────────────────────────────────────────────────────────────


class Mutant(NamedTuple):
    file: str
    line: int
    function: str
    was: str
    becomes: str
    source: str
    """The whole module, changed."""


_SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Add,
}  # fmt: skip


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What a node may be changed into: something that is wrong and still compiles."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _SWAPPED:
            yield _with(node, ops=[_SWAPPED[type(operator)]()])
        case ast.BoolOp() | ast.BinOp() if type(node.op) in _SWAPPED:
            yield _with(node, op=_SWAPPED[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.If() | ast.While() | ast.IfExp():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)) if value and " " not in value:  # no text for people
            yield ast.Constant(value[:-1])
        case ast.Return(value=ast.expr()) if ast.unparse(node) != "return None":
            yield _with(node, value=ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield ast.Pass()
        case _:
            pass


def _with(node: Any, **fields: Any) -> Any:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def mutants(path: Path, chosen: Container[int]) -> Iterator[Mutant | None]:
    """Every mutant of the functions of a module, in order; None for those that are not chosen."""
    tree = ast.parse(path.read_text())
    places = ((function, *place) for function, owner in _functions(tree) for place in _places(owner))
    changes = ((*place, made) for place in places for made in replacements(place[-1]))
    for number, (function, holder, field, index, node, made) in enumerate(changes):
        if number not in chosen:
            yield None
            continue
        was, becomes = ast.unparse(node)[:160], ast.unparse(made)[:160]
        _put(holder, field, index, ast.copy_location(made, node))
        source = ast.unparse(ast.fix_missing_locations(tree))
        _put(holder, field, index, node)
        yield Mutant(str(path.relative_to(PACKAGE)), node.lineno, function, was, becomes, source)


def draw(room: str, count: int, chance: random.Random) -> list[Mutant]:
    paths = [path for path in sorted((PACKAGE / room).rglob("*.py")) if LEFT_OUT not in str(path)]
    every = [(path, number) for path in paths for number, _ in enumerate(mutants(path, ()))]
    drawn = defaultdict[Path, set[int]](set)
    for path, number in chance.sample(every, min(count, len(every))):
        drawn[path].add(number)
    return [made for path, numbers in drawn.items() for made in mutants(path, numbers) if made]


def _functions(
    tree: ast.AST, around: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods with their names in the module, not those inside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{around}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{around}{node.name}.")


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, Any]]:
    """Every node below, with where it hangs."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") or isinstance(node, ast.Raise):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                if hasattr(child, "lineno"):
                    yield node, field, index, child
                yield from _places(child)


def _put(holder: ast.AST, field: str, index: int | None, node: ast.AST) -> None:
    if index is None:
        setattr(holder, field, node)
    else:
        getattr(holder, field)[index] = node


# ── which tests reach what ──────────────────────────────────────────────────────────────────────

PLUGIN = """
import json, os, pathlib, sys, time, pytest

PACKAGE = os.environ["MUTATION_PACKAGE"]
rows = {}

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    reached = set()
    def seen(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            reached.add(frame.f_code)
    began = time.perf_counter()
    sys.setprofile(seen)
    yield
    sys.setprofile(None)
    long = any(item.get_closest_marker(name) for name in ("slow", "data"))
    names = sorted({f"{c.co_filename[len(PACKAGE) + 1:]}:{c.co_qualname.partition('.<locals>')[0]}" for c in reached})
    rows[item.nodeid] = [long, time.perf_counter() - began, names]

def pytest_sessionfinish():
    folder = pathlib.Path(os.environ["MUTATION_INTO"])
    (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json").write_text(json.dumps(rows))
"""


def reach(jobs: int) -> dict[str, list[tuple[bool, float, str]]]:
    """Tests by function: only in `make test-all`, seconds, id. Quick tests first, then the quickest."""
    known = WORK / "reach.json"
    version = _version()
    if not known.exists() or json.loads(known.read_text())["version"] != version:
        folder = WORK / "reached"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "reach_plugin.py").write_text(PLUGIN)
        _pytest(
            ROOT, "-n", str(jobs), "--dist", "worksteal", "-p", "reach_plugin", "-m", f"not ({ELSEWHERE})",
            paths=[folder], MUTATION_PACKAGE=str(PACKAGE), MUTATION_INTO=str(folder),
        )  # fmt: skip
        tests = {
            id: row for path in folder.glob("gw*.json") for id, row in json.loads(path.read_text()).items()
        }
        known.write_text(json.dumps({"version": version, "tests": tests}))
    found: dict[str, list[tuple[bool, float, str]]] = defaultdict(list)
    for id, (long, seconds, names) in json.loads(known.read_text())["tests"].items():
        for name in names:
            found[name].append((long, seconds, id))
    return {name: sorted(rows) for name, rows in found.items()}


def _version() -> str:
    files = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _pytest(
    folder: Path, *arguments: str, paths: list[Path], timeout: int | None = None, **variables: str
) -> int:
    python_path = os.pathsep.join(map(str, [*paths, folder / "src", folder]))
    try:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x" if timeout else "--maxfail=1000", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": python_path, **variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
        ).returncode
    except subprocess.TimeoutExpired:
        return 124


# ── the run ─────────────────────────────────────────────────────────────────────────────────────


def outcome(mutant: Mutant, tests: list[tuple[bool, float, str]], slot: Path) -> str:
    """`killed` by a test of `make test`, `killed slowly` by one of `make test-all`, `survived` or `unreached`."""
    if not tests:
        return "unreached"
    place = slot / "src" / "refold" / mutant.file
    original = place.read_bytes()
    place.write_text(mutant.source)
    try:
        for long, name in ((False, "killed"), (True, "killed slowly")):
            chosen, seconds = list[str](), 0.0
            for is_long, took, id in tests:
                if is_long is long and len(chosen) < MOST_TESTS and seconds < MOST_SECONDS:
                    chosen.append(id)
                    seconds += took
            if chosen and _pytest(slot, "-n", "0", *chosen, paths=[], timeout=TIMEOUT):
                return name
        return "survived"
    finally:
        place.write_bytes(original)


def run(rooms: list[str], sample: int, seed: int, jobs: int) -> dict[str, Any]:
    reached = reach(jobs)
    chance = random.Random(seed)
    drawn = [(room, mutant) for room in rooms for mutant in draw(room, sample, chance)]
    chance.shuffle(drawn)  # a run that is ended early is a fair sample
    slots: list[Path] = []
    for number in range(jobs):
        slots.append(WORK / f"slot-{number}")
        shutil.rmtree(slots[-1], ignore_errors=True)
        kept = ("out", ".git", "*venv*", ".clients*", "__pycache__", ".hypothesis", ".gpu")
        shutil.copytree(ROOT, slots[-1], ignore=shutil.ignore_patterns(*kept), symlinks=True)
    lock, counts = threading.Lock(), defaultdict[str, Counter[str]](Counter)
    survivors: list[dict[str, Any]] = []

    def judge(row: tuple[str, Mutant]) -> None:
        room, mutant = row
        with lock:
            slot = slots.pop()
        result = outcome(mutant, reached.get(f"{mutant.file}:{mutant.function}", []), slot)
        with lock:
            slots.append(slot)
            counts[room][result] += 1
            if not result.startswith("killed"):
                survivors.append({**mutant._asdict(), "source": None, "outcome": result})
            done = sum(found.total() for found in counts.values())
            print(
                f"{done} of {len(drawn)}: {result} {mutant.file}:{mutant.line} {mutant.was} → {mutant.becomes}",
                flush=True,
            )

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(judge, drawn))
    total = sum(counts.values(), Counter[str]())
    return {
        "seed": seed,
        "rooms": {room: {**found, "score": _score(found)} for room, found in counts.items()},
        "score": _score(total),
        "score_of_make_test": round(100 * total["killed"] / max(total.total(), 1), 1),
        "survivors": sorted(survivors, key=lambda row: (row["file"], row["line"])),
    }


def _score(found: Counter[str]) -> float:
    return round(100 * (found["killed"] + found["killed slowly"]) / max(found.total(), 1), 1)


def main() -> None:
    from benchmarks import results

    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rooms", default=",".join(ROOMS))
    options.add_argument("--sample", type=int, default=75, help="mutants of each room")
    options.add_argument("--seed", type=int, default=time.localtime().tm_yday)
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = options.parse_args()
    began, before = time.monotonic(), results.load()
    found = run(chosen.rooms.split(","), chosen.sample, chosen.seed, chosen.jobs)
    results.write("mutation", found, seconds=time.monotonic() - began, before=before, quick=False)
    print(json.dumps({key: value for key, value in found.items() if key != "survivors"}, indent=1))


if __name__ == "__main__":
    main()
