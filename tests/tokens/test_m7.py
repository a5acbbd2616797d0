"""M7: predicted request sizes on transcripts that carry provider usage."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.data import shared


@cache
def table() -> dict[str, Any]:
    from benchmarks import tokens

    return tokens.run(quick=True)["sources"]


@pytest.mark.data
@pytest.mark.parametrize(("source", "requests"), [("pi", 900), ("claude-code", 50), ("codex", 150)])
def test_M7_mean_error_after_five_requests_is_at_most_five_per_cent(source: str, requests: int) -> None:
    shared(source)
    row = table()[source]["o200k"]
    assert row["requests"] >= requests
    assert row["after"]["mean"] <= 0.05
    assert row["anchored"]["mean"] <= row["after"]["mean"] < row["before"]["mean"] / 2
