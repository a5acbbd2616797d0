"""What `make mutation` leaves out is there to be left out."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

from benchmarks import mutants

ROOT = Path(__file__).parents[1]
ROWS = tomllib.loads((ROOT / "benchmarks" / "mutation.toml").read_text())["mutant"]


def test_every_equivalent_names_a_mutant_and_says_why() -> None:
    named = Counter((row["file"], row["in"], row["was"], row["becomes"]) for row in ROWS)
    assert {name: count for name, count in named.items() if count > 1} == {}
    assert [row for row in ROWS if len(row["reason"]) < 10] == []
    there: set[tuple[str, ...]] = set()
    for file in {row["file"] for row in ROWS}:
        source = (ROOT / "src" / "refold" / file).read_text()
        sought = {name[1:3] for name in named if name[0] == file}
        for number, change in enumerate(mutants.changes(ast.parse(source))):
            if (change.scope or "", change.was) in sought:
                _, _, becomes = mutants.mutated(source, number)
                there.add((file, change.scope or "", change.was, becomes))
    assert sorted(named.keys() - there) == []
