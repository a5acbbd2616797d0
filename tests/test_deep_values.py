"""A model that loses its way writes brackets for ever. Values deeper than a stack, and integers longer than
Python's own JSON writes, are kept as they are; everything that has to be done with them later still works."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.loop import run
from refold.session.dialects import DIALECTS
from refold.transcripts.export import export, targets

SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def nested(levels: int) -> Any:
    value: Any = [SECRET]
    for _ in range(levels):
        value = [value]
    return value


KINDS: dict[str, Callable[[], m.AnyPart]] = {
    "call": lambda: m.Call("c", "Read", {"path": nested(700)}),
    "todos": lambda: m.Call("c", "TodoWrite", {"todos": nested(700)}),
    "edits": lambda: m.Call("c", "MultiEdit", {"path": "a.py", "edits": [{"old_string": nested(700)}]}),
    "deeper": lambda: m.Call("c", "Bash", {"command": nested(2_000)}),
    "integer": lambda: m.Call("c", "Read", {"offset": 10**6_000, "token": SECRET}),
    "opaque": lambda: m.Opaque({"type": "server_tool_use", "id": "s", "name": "web", "input": nested(2_000)}),
}


def work(kind: str) -> Session:
    session = Session()
    for turn in range(3):
        session.append(m.user(f"Go on with part {turn}."))
        part = KINDS[kind]()
        session.append(m.Assistant((m.Text("Looking. " * 40), part)))
        if isinstance(part, m.Call):
            session.append(m.result("c", "ok " * 300))
    session.append(m.user("And now?"))
    return session


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_sent_folded_exported_and_found(kind: str) -> None:
    session = work(kind)
    view = Engine().view(session)
    for dialect in DIALECTS:
        json.dumps(view.to(dialect), allow_nan=False)
    for target in targets():
        assert SECRET.encode() not in export(session, target, redact=True).data
    engine = Engine(presets.get("refold", budget=2_000))
    assert run(engine.prepare(session)).tokens <= 2_000
    assert session.annotations(e.Fold)
    assert engine.recall(session, "looking")


@pytest.mark.parametrize("name", [name for name in presets.NAMES if name != "refold"])
def test_every_design_folds_it(name: str) -> None:
    session = work("call")
    engine = Engine(presets.get(name, budget=3_000))
    if plan := engine.plan(session, force=True):
        assert isinstance(run(engine.apply(session, plan)), e.Fold)
