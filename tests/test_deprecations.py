"""Old names of what was renamed work for one release, and warn."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from refold.entries import Fold
from refold.format import encode

RENAMED = [
    ("refold.tools.base", "Place", "ToolContext"),
    ("refold.compare.run", "Plan", "ComparisonPlan"),
    ("refold.compare.jobs", "files_of", "transcript_files"),
    ("refold.registry.client_sessions", "install", "install_session"),
    ("refold.registry", "window", "model_window"),
    ("refold.costs", "Known", "KnownModel"),
    ("refold.costs", "Summary", "SummaryCost"),
    ("refold.tokens", "checked", "checked_counter"),
    ("refold.stores", "shown", "without_password"),
    ("refold.stores", "moving", "transfer"),
    ("refold.stores", "watching", "watcher"),
    ("refold.stores.transfer", "copy", "copy_session"),
    ("refold.compare.budgets", "parse_list", "parse_budgets"),
    ("refold.registry.search", "across", "search_sessions"),
    ("refold.agent.events", "Heard", "ReplyStreamed"),
    ("refold.agent.chat", "Settings", "ChatOptions"),
    ("refold.testing.wire", "Body", "JsonObject"),
    ("refold.batch", "attempt", "attempt_job"),
    ("refold.format", "canonical", "canonical_line"),
    ("refold.protocols", "Watch", "AppendWatch"),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_is_the_new_one_and_warns(module: str, old: str, new: str) -> None:
    loaded = import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is now called {new}"):
        value = getattr(loaded, old)
    assert value is getattr(loaded, new)


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = import_module("refold.costs").nothing


def test_the_strategy_of_a_fold_is_also_called_by_its_old_name() -> None:
    fold = Fold(id="f", edits=(), preset="mine", strategy="lines")
    with pytest.warns(DeprecationWarning, match="`rung` is now called `strategy`"):
        assert fold.rung == "lines"
    assert json.loads(encode(fold))["rung"] == "lines", "stored as ever"
