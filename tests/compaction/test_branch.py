"""The rules of spec page `pi`, B15: what is read when a branch is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction.branch import BranchPlan, branch_ask, every_file, prepare_branch
from tests.presets.test_pi import marked, names, oracle, session_of


def test_B15_two_hundred_branches_as_pi_prepares_them(tmp_path: Path) -> None:
    cases = oracle()
    assert len(cases) == 200
    for case in cases:
        check_case(case, session_of(case, tmp_path))


def check_case(case: dict[str, Any], session: Session) -> None:
    known = case["out"]["branch"]
    plan = prepare_branch(session, case["leafId"], case["target"], case["tokenBudget"])
    assert plan.common_ancestor == known["commonAncestorId"]
    assert [x.id for x in plan.entries] == known["entries"]
    assert names(session, [x.id for x in plan.sources]) == marked(known["messages"])
    assert plan.tokens == known["totalTokens"]
    assert list(plan.files.read) == known["files"]["readFiles"]
    assert list(plan.files.modified) == known["files"]["modifiedFiles"]
