"""M1 dialogue retention and M2 future references: what a fold keeps that is asked for later.

The measures (`dialogues.py`, `references.py`) share no code with what they measure. Run
`python -m benchmarks.retention [--quick] [--write FILE.md]`; `run()` gives the same as a value that can be written as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.dialogues import m1
from benchmarks.measuring import DATA
from benchmarks.references import m2


def run(quick: bool = False, on: str = "here") -> dict[str, Any]:
    """Both measures; {} where the transcripts are not there."""
    if not DATA.exists():
        print(f"no transcripts in {DATA}: set REFOLD_DATA to the folder that has them", file=sys.stderr)
        return {}
    return {"m1": m1(quick=quick, on=on), "m2": m2(quick=quick, on=on)}


def tables(result: dict[str, Any]) -> dict[str, str]:
    """The figures of `run` as Markdown: {"M1": …, "M2": …}."""
    dialogue, agent = result["m1"], result["m2"]
    sizes = list(next(iter(dialogue["views"].values())))
    first = [["view", *(f"{int(size):,}" for size in sizes), "chance", "evidence"]]
    for name, row in dialogue["views"].items():
        ends = [row[sizes[-1]]["chance"], row[sizes[-1]]["evidence"]]
        scores = (f"{row[size]['score']}{_over(row[size]['over_budget'])}" for size in sizes)
        first.append([name, *scores, *map(str, ends)])
    ceiling = dialogue["ceiling"]
    first.append(
        ["full text", *[str(ceiling["score"])] * len(sizes), str(ceiling["chance"]), str(ceiling["evidence"])]
    )
    shares = list(next(iter(agent["views"].values())))
    second = [["source", "probes", *(f"{name} {share}" for name in agent["views"] for share in shares)]]
    for source in (*agent["probes"], "all"):
        cells = [
            f"{row[share][source]}{_over(row[share]['over budget']) if source == 'all' else ''}"
            for row in agent["views"].values()
            for share in shares
        ]
        second.append([source, str(agent["probes"].get(source, sum(agent["probes"].values()))), *cells])
    return {"M1": _markdown(first), "M2": _markdown(second)}


def _over(times: float) -> str:
    """Said of a view that passes its budget: its figure is not comparable."""
    return f" (over budget {int(times)}×)" if times else ""


def _markdown(rows: list[list[str]]) -> str:
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def write(path: Path, result: dict[str, Any]) -> None:
    """Put the tables between the marks `<!-- M1 -->` … `<!-- /M1 -->` of a document."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables(result).items():
        text = re.sub(
            rf"<!-- {name} -->.*?<!-- /{name} -->",
            f"<!-- {name} -->\n{table}\n<!-- /{name} -->",
            text,
            flags=re.S,
        )
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    options = sys.argv[1:]
    measured = run(quick="--quick" in options)
    if "--write" in options and measured:
        write(Path(options[options.index("--write") + 1]), measured)
    print(json.dumps(measured, indent=1))
