"""M1 dialogue retention and M2 future references: what a fold keeps that is asked for later.

The measures (`dialogues.py`, `references.py`) share no code with what they measure. Run
`python -m benchmarks.retention [--quick]`; `run()` gives the same as a value that can be written as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks.cells import markdown
from benchmarks.dialogues import m1
from benchmarks.measuring import DATA
from benchmarks.references import m2


def run(quick: bool = False, on: str = "here") -> dict[str, Any]:
    """Both measures; {} where the transcripts are not there."""
    if not DATA.exists():
        print(f"no transcripts in {DATA}: set REFOLD_DATA to the folder that has them", file=sys.stderr)
        return {}
    return {"m1": m1(quick=quick, on=on), "m2": m2(quick=quick, on=on)}


def table(result: dict[str, Any]) -> str:
    """M1 as Markdown."""
    dialogue = result["m1"]
    sizes = list(next(iter(dialogue["views"].values())))
    rows: list[list[str]] = []
    for name, row in dialogue["views"].items():
        ends = [row[sizes[-1]]["chance"], row[sizes[-1]]["evidence"]]
        scores = (f"{row[size]['score']}{_over(row[size]['over_budget'])}" for size in sizes)
        rows.append([name, *scores, *map(str, ends)])
    whole = dialogue["ceiling"]
    rows.append(
        ["full text", *[str(whole["score"])] * len(sizes), str(whole["chance"]), str(whole["evidence"])]
    )
    return markdown(["view", *(f"{int(size):,}" for size in sizes), "chance", "evidence"], rows)


def _over(times: float) -> str:
    """Said of a view that passes its budget: its figure is not comparable."""
    return f" (over budget {int(times)}×)" if times else ""


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv[1:]), indent=1))
