"""`make mutate`: does a test fail when the code is wrong?

    python -m benchmarks.mutation [ROOM …] [--sample N] [--seed S] [--children K] [--anew]

mutmut changes one thing at a time (an operator, a constant, an argument, a branch) and runs the tests that reach
the changed function. It works in a copy of the tree, `out/mutation/ROOM`; the working tree is never changed. Of
each room a sample is drawn by a seed. A run that was interrupted goes on where it stopped; after a change of the
tests only what survived is tried again (`--anew` forgets everything).

The score is the share of mutants that some test noticed. Two kinds are left out: mutants that change nothing but
the wording of a sentence for people, and those that `mutation.toml` names as equivalent, each with its reason.
What mutmut cannot reach: constants and patterns outside of functions.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import results

ROOT = results.ROOT
WORK = ROOT / "out" / "mutation"
ROOMS: dict[str, tuple[str, ...]] = {
    "session": ("tests/session", "tests/test_seams.py", "tests/test_fold.py"),
    "compaction": (
        "tests/compaction",
        "tests/presets",
        "tests/test_engine.py",
        "tests/test_fold.py",
        "tests/test_breaker.py",
        "tests/test_hooks.py",
        "tests/test_overflow.py",
        "tests/test_seams.py",
    ),
    "stores": ("tests/stores", "tests/memory", "tests/recall/test_stores.py"),
    "text": (
        "tests/text",
        "tests/test_redact.py",
        "tests/test_format.py",
        "tests/test_poison.py",
        "tests/digest/test_digest.py",
        "tests/preserve/test_abridged.py",
        "tests/recall/test_frame.py",
        "tests/recall/test_tool.py",
        "tests/shrink",
    ),
}
"""The tests that answer for each room; of these, mutmut runs those that reach the changed function."""
COPIED = ("src", "tests", "pyproject.toml", "docs", "README.md", "benchmarks", "examples")
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/refold/{room}/*"]
also_copy = ["docs", "README.md", "benchmarks", "examples"]
process_isolation = "forkserver"
timeout_multiplier = 3.0
timeout_constant = 10.0
use_git_change_detection = false
pytest_add_cli_args = ["-m", "not torture and not local and not live and not slow", "-p", "no:xdist"]
pytest_add_cli_args_test_selection = {tests}
"""
CONFTEST = '''

# ── added in the copy: the same answer every time, and soon ─────────────────────────────────────

import itertools
import json
import time

settings.register_profile("mutation", parent=settings.get_profile("refold"), derandomize=True, database=None, max_examples=25)
settings.load_profile("mutation")
# Two mutants run side by side on a busy machine: what a test measures by the clock says nothing about them.
_ticks = itertools.count()
time.process_time = time.perf_counter = lambda: next(_ticks) / 1e6


def pytest_itemcollected(item):
    item._nodeid = item.nodeid  # mutmut 3.8 asks for what pytest 9.2 calls otherwise


def pytest_collection_modifyitems(items):
    """The quickest tests first: most mutants are noticed by one of them."""
    try:
        known = json.loads(Path("mutmut-stats.json").read_text())["duration_by_test"]
    except OSError:
        return
    items.sort(key=lambda item: known.get(item.nodeid, 0.0))
'''
GENERATE = """
import os
from mutmut import __main__ as mutmut
mutmut.set_mutant_under_test("mutant_generation")
os.makedirs("mutants", exist_ok=True)
mutmut.copy_src_dir()
mutmut.copy_also_copy_files()
mutmut.setup_source_paths()
mutmut.create_mutants({children})
"""
STATUS = {1: "killed", 3: "killed", 0: "survived", 33: "untested"}
"""Exit codes as mutmut stores them; any other but None is a mutant that ran out of time or crashed."""
_SENTENCE = re.compile(r'"[^"]*[^"\s] [^"]*"|\'[^\']*[^\'\s] [^\']*\'')


class Mutant(NamedTuple):
    name: str
    file: str
    """Beneath `src/refold`."""
    status: str | None
    """None: not tried yet."""


class Change(NamedTuple):
    line: int
    was: str
    becomes: str

    @property
    def is_wording(self) -> bool:
        """Nothing but the text of a sentence differs."""
        return _SENTENCE.sub('""', self.was) == _SENTENCE.sub('""', self.becomes)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation", description=__doc__.split("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], metavar="ROOM", help=", ".join(ROOMS))
    parser.add_argument("--sample", type=int, default=250, help="mutants per room; 0: all of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--children", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--anew", action="store_true", help="forget what earlier runs found")
    given = parser.parse_args(arguments)
    before, began = results.load(), time.perf_counter()
    stored = results.read().get("mutation", {}).get("result", {}).get("rooms", {})
    for room in given.rooms or ROOMS:
        stored[room] = measure(room, given.sample, given.seed, given.children, anew=given.anew)
        print(f"{room}: {stored[room]['score']} % of {stored[room]['sample']}", flush=True)
        ordered = {name: stored[name] for name in ROOMS if name in stored}
        seconds = time.perf_counter() - began
        results.write("mutation", {"rooms": ordered}, seconds=seconds, before=before, quick=False)
    return 0


def measure(room: str, sample: int, seed: int, children: int, *, anew: bool = False) -> dict[str, Any]:
    folder = WORK / room
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    is_news = copy_tree(folder, room)
    run([sys.executable, "-c", GENERATE.format(children=children)], folder)
    chosen, wording = draw(folder, sample, seed)
    known = {mutant.name: mutant.status for mutant in mutants(folder)}
    again = ("survived", "untested") if is_news else ()
    pending = [name for name in chosen if known[name] is None or known[name] in again]
    if pending:
        run(
            [str(Path(sys.executable).parent / "mutmut"), "run", f"--max-children={children}", *pending],
            folder,
        )
        (folder / "tests.hash").write_text(fingerprint(folder / "tests"))
    return report(folder, room, chosen, wording, seed)


# ── the copy ────────────────────────────────────────────────────────────────────────────────────


def copy_tree(folder: Path, room: str) -> bool:
    """Bring the copy up to date; True where its tests are others than those that were run before."""
    for name in COPIED:
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    # What mutmut copied stays as it was: it would keep tests that are gone here.
    shutil.rmtree(folder / "mutants" / "tests", ignore_errors=True)
    tests = json.dumps([path for path in ROOMS[room] if (ROOT / path).exists()])
    append(folder / "pyproject.toml", SETTINGS.format(room=room, tests=tests))
    append(folder / "tests" / "conftest.py", CONFTEST)
    seen = folder / "tests.hash"
    return not seen.exists() or seen.read_text() != fingerprint(folder / "tests")


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def fingerprint(folder: Path) -> str:
    made = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        made.update(path.read_bytes())
    return made.hexdigest()


def run(command: Sequence[str], folder: Path) -> None:
    """Run in the copy; its own source comes first, in processes that tests start as well."""
    data = os.environ.get("REFOLD_DATA", str(ROOT.parent / "shared" / "data"))
    mutants = folder / "mutants"
    surroundings = {
        **os.environ,
        "REFOLD_DATA": data,
        "PYTHONPATH": f"{mutants / 'src'}{os.pathsep}{mutants}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(command, cwd=folder, env=surroundings)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:80]} ended with {done.returncode}, in {folder}")


# ── mutants ─────────────────────────────────────────────────────────────────────────────────────


def mutants(folder: Path) -> Iterator[Mutant]:
    """Every mutant of the copy's room, in the order of the source."""
    top = folder / "mutants" / "src" / "refold"
    for path in sorted(top.rglob("*.py.meta")):
        file = str(path.relative_to(top)).removesuffix(".meta")
        for name, code in json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].items():
            yield Mutant(name, file, None if code is None else STATUS.get(code, "timeout"))


def draw(folder: Path, sample: int, seed: int) -> tuple[dict[str, Change], int]:
    """A sample of the mutants with what each changes, and how many were passed over for their wording. The same
    seed draws the same mutants of the same source, and a larger sample holds the smaller one."""
    every = list(mutants(folder))
    random.Random(seed).shuffle(every)
    chosen: dict[str, Change] = {}
    wording = 0
    for mutant in every:
        if sample and len(chosen) == sample:
            break
        made = change(folder, mutant)
        wording += made.is_wording
        if not made.is_wording:
            chosen[mutant.name] = made
    return chosen, wording


def change(folder: Path, mutant: Mutant) -> Change:
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    here = Path.cwd()
    os.chdir(folder)
    try:
        diff = get_diff_for_mutant(mutant.name, path=f"src/refold/{mutant.file}").splitlines()[2:]
    finally:
        os.chdir(here)
    lines = [line for line in diff if line[:1] in "-+"]
    was = "\n".join(line[1:].strip() for line in lines if line[0] == "-")
    becomes = "\n".join(line[1:].strip() for line in lines if line[0] == "+")
    return Change(_line(folder / "src" / "refold" / mutant.file, mutant.name, diff), was, becomes)


def _line(path: Path, name: str, diff: Sequence[str]) -> int:
    """The first line that differs, in the file: that of the function and the place in the difference."""
    from mutmut.utils.format_utils import orig_function_and_class_names_from_key

    function, owner = orig_function_and_class_names_from_key(name)
    start = int(diff[0].split()[1].lstrip("-").split(",")[0])
    offset = start + next(n for n, line in enumerate(diff[1:]) if line[:1] in "-+") - 1
    body: Sequence[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    if owner:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    node = next(node for node in body if isinstance(node, kinds) and node.name == function.rpartition(".")[2])
    return min((node.lineno, *(x.lineno for x in node.decorator_list))) + offset


# ── the report ──────────────────────────────────────────────────────────────────────────────────


def report(folder: Path, room: str, chosen: dict[str, Change], wording: int, seed: int) -> dict[str, Any]:
    found = {mutant.name: mutant for mutant in mutants(folder)}
    reasons = equivalents()
    rows: list[dict[str, Any]] = []
    counts = dict.fromkeys(("killed", "timeout", "survived", "untested", "equivalent"), 0)
    for name in sorted(chosen, key=lambda name: (found[name].file, chosen[name].line)):
        made, mutant = chosen[name], found[name]
        status = mutant.status or "untested"
        reason = reasons.get((mutant.file, made.was, made.becomes))
        if status in ("survived", "untested"):
            status = "equivalent" if reason else status
            row = {"at": f"src/refold/{mutant.file}:{made.line}", "was": made.was, "becomes": made.becomes}
            rows.append({**row, **({"equivalent": reason} if reason else {"status": status})})
        counts[status] += 1
    judged = len(chosen) - counts["equivalent"]
    noticed = counts["killed"] + counts["timeout"]
    return {
        "mutants": len(found),
        "sample": len(chosen),
        "seed": seed,
        "wording": wording,
        **counts,
        "score": round(100 * noticed / judged, 1) if judged else None,
        "survivors": rows,
    }


def equivalents() -> dict[tuple[str, str, str], str]:
    """Mutants that behave like the original: file, line, changed line → the reason."""
    rows: Iterable[dict[str, str]] = tomllib.loads(
        (ROOT / "benchmarks" / "mutation.toml").read_text(encoding="utf-8")
    ).get("mutant", [])
    return {(row["file"], row["was"], row["becomes"]): row["reason"] for row in rows}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
