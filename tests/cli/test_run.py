"""`refold run`: what it says at the end, and before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from refold import entries as e
from refold import messages as m
from refold.cli import main
from refold.cli.run import _account
from refold.protocols import SessionInfo
from refold.registry.sessions import stored
from refold.stores import open_store


def test_at_the_end_it_says_what_was_folded_and_what_that_was_worth_net_of_cache(tmp_path: Path) -> None:
    spec = f"sqlite:{tmp_path / 'a.db'}"
    store = open_store(spec).store
    assert _account(spec, 0.0) == "no requests went through the gateway"
    store.create(SessionInfo(id="s", created=1.0))
    session = stored(store, "s")
    first = session.append(m.user("Do it."))
    session.append(m.assistant("Step."), model="anthropic:claude-sonnet-5")
    assert _account(spec, 0.0).startswith("nothing was folded; `refold show")
    edit = e.Edit(first.id, first.id, (m.user("RECORD"),), "record")
    session.append(
        session.make(e.Fold, edits=(edit,), preset="refold", tokens_before=100_000, tokens_after=10_000)
    )
    session.append(m.user("On."))
    session.append(m.assistant("One."))
    dear = _account(spec, 0.0)
    assert dear.startswith(
        "1 fold, 90,000 tokens fewer sent, $0.01 more than without folding, net of cache"
    ), dear
    for n in range(9):
        session.append(m.user("On."))
        session.append(m.assistant(f"Again {n}."))
    told = _account(spec, 0.0)
    assert told.startswith("1 fold, 900,000 tokens fewer sent, $0.16 saved net of cache"), told
    assert f"`refold show {spec}#s --ledger`" in told and f"`refold undo {spec}#s`" in told


def test_a_program_that_is_not_there_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = CliRunner().invoke(main, ["run", "codex", "exec", "--help"])
    assert said.exit_code == 2 and "npm install -g @openai/codex" in said.output
    said = CliRunner().invoke(main, ["run", "cladue"])
    assert said.exit_code == 2 and "claude" in said.output
