"""`make bench`: measure, write `benchmarks/results/`, rewrite the tables of the README.

    python -m benchmarks [NAME …] [--quick] [--on WHERE] [--tables]
    python -m benchmarks --print [TABLE …]

Without names, all measures. `--quick` runs small versions of them in about two minutes, to see that they work;
the README stays as it is. `--on processes:4` (or `ray`, `ray://HOST:PORT`) lets measures that can (`retention`, `drift`,
`closed_loop`, `cache_cost`, `continuation`, `long_run`) do several of their parts at a time. `--tables` measures nothing and rewrites the tables from
the stored results; `--print` prints tables that no page shows (single cases, examples), or their names.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

from benchmarks import results, tables

MEASURES: dict[str, str] = {
    "continuation": "M9: what a view still tells about the next steps (a few cases; all: `make bench-continuation`)",
    "retention": "M1, M2: what a fold keeps that is asked for later",
    "recall": "M4: what recall finds",
    "tokens": "M7: predicted and true size of requests",
    "drift": "M3: what is left of planted facts after 1 to 20 folds, by preset and strategy",
    "closed_loop": "M13: whether chores get done from a view (an hour on one core; --on processes:N)",
    "cache_cost": "M15: money net of the providers' caches, sessions replayed request by request",
    "verification": "M8: fabrications caught, true claims left alone",
    "requests": "M10: what a fold asks of a summariser",
    "redaction": "R17: secrets found, code left alone",
    "rounds": "D8: sizes beside the published ones",
    "stores": "opening and appending",
    "engine": "M5: what the engine costs",
    "start": "M5: `import refold`, the first `prepare`, `refold --help`; sizes of the wheel and of what it installs",
    "stalls": "M5: what an event loop notices while 1, 6 and 20 sessions are folded at once",
    "agent": "the coding agent: until the prompt is there, and in every turn",
    "chat_session": "the coding agent: a session of 2,000 turns with twenty kills, from key to screen",
    "gateway": "first bytes through the gateway, a thousand streams at once, beside a bare pass-through and LiteLLM",
    "house": "files, floors, and what one step goes through, before and after the rebuild",
    "long_run": "M5: a session of 10,000 and of 50,000 messages, turn by turn, beside other libraries",
    "many": "what many transcripts cost: per session, per fold, per gigabyte, and per job",
    "many_ray": "the comparison of thousands of transcripts by one process and on Ray, a worker killed in the middle",
    "peers": "M5 and pair safety of other libraries",
}


def runner(name: str) -> Callable[..., dict[str, Any]]:
    module = import_module("benchmarks.peers.run" if name == "peers" else f"benchmarks.{name}")
    return module.run


def measure(name: str, *, quick: bool, on: str = "here") -> str | None:
    """Run one measure and store its result; the reason, where there is none."""
    run = runner(name)
    options = {"quick": quick, "on": on}
    options = {name: options[name] for name in signature(run).parameters if name in options}
    before, began = results.load(), time.perf_counter()
    try:
        found = run(**options)
    except Exception as error:
        traceback.print_exc()
        return f"it failed: {type(error).__name__}: {error}"
    seconds = time.perf_counter() - began
    if "skipped" in found or not found:
        return found.get("skipped", "the transcripts are not here: set REFOLD_DATA to their folder")
    path = results.write(name, found, seconds=seconds, before=before, quick=quick)
    print(f"{name}: {seconds:.0f} s, {path.relative_to(results.ROOT)}")
    return None


def printed(names: Sequence[str]) -> int:
    if unknown := set(names) - set(tables.TABLES | tables.PRINTED):
        print(f"no such table: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    found = results.read()
    print(
        "\n\n".join(tables.table(name, found) for name in names) or "\n".join(tables.TABLES | tables.PRINTED)
    )
    return 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure, and rewrite the README's tables."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(MEASURES)}")
    parser.add_argument("--quick", action="store_true", help="small runs, to see that they work")
    parser.add_argument(
        "--on", default="here", help="who does the parts of a measure: here, processes:4, ray …"
    )
    parser.add_argument("--tables", action="store_true", help="only rewrite the tables from stored results")
    parser.add_argument(
        "--print", nargs="*", metavar="TABLE", help="print tables from stored results; none: their names"
    )
    chosen = parser.parse_args(arguments)
    if chosen.print is not None:
        return printed(chosen.print)
    unknown = [name for name in chosen.names if name not in MEASURES]
    if unknown:
        parser.error(f"no such measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    wanted = [] if chosen.tables else chosen.names or list(MEASURES)
    without = {name: reason for name in wanted if (reason := measure(name, quick=chosen.quick, on=chosen.on))}
    for name, reason in without.items():
        print(f"NOT MEASURED  {name} ({MEASURES[name]}): {reason}", file=sys.stderr)
    if not chosen.quick:
        tables.rewrite_all()
    return 1 if any(reason.startswith("it failed") for reason in without.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
