"""What is kept beside a session saves time and decides nothing: with every cache off, folds and views are the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold.loop import run
from refold.messages import Message
from refold.protocols import TokenCounter
from refold.session.history import DerivedValues, History
from tests.test_waits import PRESETS, work

DESIGNS = {name: PRESETS[name]() for name in presets.NAMES} | {
    "pi": presets.get("pi", window=9_000, reserve_tokens=1_000, keep_recent_tokens=2_000, fallback="digest"),
    "augment": presets.get("augment", budget=4_000, window=9_000, fallback="digest"),
}


def made(_: DerivedValues, owner: Any, make: Callable[[], Any]) -> Any:
    return make()


def counted(_: History, key: str, message: Message, counter: TokenCounter, known: int | None = None) -> int:
    return counter.message(message)


def folded(name: str) -> list[object]:
    """Views and edits over a conversation that is prepared at every message."""
    numbers = count(1)
    session = Session(clock=lambda: 0.0, new_id=lambda: f"{next(numbers):012x}")
    engine, seen = Engine(DESIGNS[name], clock=lambda: 0.0), list[object]()
    for entry in work().path:
        assert isinstance(entry, e.MessageEntry)
        session.append(entry.message)
        seen.append(run(engine.prepare(session)).to_openai())
    seen += [fold.edits for fold in session.annotations(e.Fold)]
    assert session.annotations(e.Fold)
    return seen


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", presets.NAMES)
def test_with_every_cache_switched_off_the_bytes_are_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = folded(name)
    monkeypatch.setattr(DerivedValues, "of", made)
    monkeypatch.setattr(History, "cached_count", counted)
    assert folded(name) == kept
