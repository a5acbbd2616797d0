"""Chains of ten folds on real transcripts, for the five published designs: what must hold after every one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Failed, Plan
from refold.compaction.strategies.turn_lines import WORKSPACE
from refold.engine.maintenance import maintain
from refold.errors import DoesNotFit
from refold.loop import run
from refold.models.scripted import Scripted
from refold.session import View
from refold.session.edits import said_by
from refold.session.items import Item
from refold.transcripts import read
from tests.data import DATA, all_transcripts, shared
from tests.presets.chains import check_wire, orphans, summariser
from tests.strategies import conversations, examples

FOLDS = 10
SAMPLE = 300
"""Entries of a transcript in the quick run; `make torture` takes them all."""

PRESETS: dict[str, dict[str, Any]] = {
    "augment": {"prompt": "Write a <summary>.", "history_tail_size_chars_to_exclude": 4_000},
    "augment+carry": {
        "prompt": "Write a <summary>.",
        "history_tail_size_chars_to_exclude": 4_000,
        "carry_previous_summary": True,
    },
    "pi": {"keep_recent_tokens": 1_500},
    "window": {"compact_window": 8, "compact_threshold": 18, "max_history": 30},
    "rounds": {"lines": "rule"},
    "rounds+compressed": {"lines": "rule", "history_strategy": "compressed", "compressed_budget": 1_000},
    "layered": {"keep_rounds": 1},
}


@cache
def source(path: Path) -> tuple[e.AnyPathEntry, ...]:
    return tuple(entry for entry in Session.of(read(path)).path if said_by(entry) is not None)


def names() -> list[str]:
    return [str(path.relative_to(DATA)) for path in all_transcripts()]


class Chain:
    """A transcript fed to a preset, with a fold after every piece of it."""

    def __init__(self, preset: str, entries: Sequence[e.AnyPathEntry], *, digest: bool = False) -> None:
        self.preset = preset
        self.entries = entries
        self.session = Session()
        self.model: Scripted = summariser()
        chosen = presets.get(preset.partition("+")[0], **PRESETS[preset])
        self.engine = Engine(chosen, model=None if digest else self.model)
        self.before: list[Item] = []

    def feed(self, entries: Sequence[e.AnyPathEntry]) -> None:
        for entry in entries:
            self.session.append(msgspec.structs.replace(entry, parent=self.session.leaf))

    def run(self, check: Callable[[Chain, e.Fold, View], None]) -> int:
        """Feed and fold; `check` looks at every fold. Returns how many there were."""
        step = max(len(self.entries) // FOLDS, 1)
        for start in range(0, len(self.entries), step):
            self.feed(self.entries[start : start + step])
            self.before = self.engine.view(self.session).items
            known = len(self.session.annotations(e.Fold))
            run(maintain(self.engine.planner, self.session))
            plan = self.engine.plan(self.session, force=True)
            if isinstance(plan, Plan):
                outcome = run(self.engine.apply(self.session, plan))
                assert not isinstance(outcome, Failed) or outcome.code == "inflated", outcome
            view = self.engine.view(self.session)
            for fold in self.session.annotations(e.Fold)[known:]:
                check(self, fold, view)
        return len(self.session.annotations(e.Fold))


def always(chain: Chain, fold: e.Fold, view: View) -> None:
    """What every design owes: no orphan, both dialects valid, the log whole, every edit on the path."""
    assert fold.edits
    shown = [item for item in view.items if item.fold is None]
    late = {x.call_id for x in late_results(chain.entries)}
    assert set(orphans(view.items)) <= late
    check_wire(view)
    assert [item.message for item in shown] == [said_by(chain.session[item.entries[0]]) for item in shown]


def late_results(entries: Sequence[e.AnyPathEntry]) -> list[m.Result]:
    """Results in the source itself that have no call before them."""
    calls: set[str] = set()
    found: list[m.Result] = []
    for entry in entries:
        message = said_by(entry)
        calls |= {call.id for call in message.calls} if message else set()
        if isinstance(message, m.Result) and message.call_id not in calls:
            found.append(message)
    return found


def newest_is_untouched(chain: Chain, fold: e.Fold, view: View) -> None:
    """From the first kept entry on, the view is byte for byte what it was."""
    if fold.first_kept is None:
        return
    kept = chain.session.position(fold.first_kept)
    assert kept is not None
    after = [x.message for x in view.items if (chain.session.position(x.entries[0]) or 0) >= kept]
    before = [x.message for x in chain.before if (chain.session.position(x.entries[0]) or 0) >= kept]
    assert after == before


def replaced_not_nested(chain: Chain, fold: e.Fold, view: View) -> None:
    """A12: the model never sees its last summary; the view shows one node."""
    request = chain.model.requests[-1]
    assert all("SUMMARY " not in message.text for message in request.messages)
    assert sum(1 for item in view.items if item.fold) == 2


def nested(chain: Chain, fold: e.Fold, view: View) -> None:
    """A12 the other way: from the second fold on the model is given its last summary."""
    number = len(chain.session.annotations(e.Fold))
    if number > 1:
        assert f"SUMMARY {number - 1} " in chain.model.requests[-1].messages[-1].text


def stable_prefix(chain: Chain, fold: e.Fold, view: View) -> None:
    """D4: lines in front of the workspace only grow at their end, except where a merge says so."""
    before, after = (lines(items) for items in (chain.before, view.items))
    if fold.strategy != "merge":
        assert after[: len(before)] == before


def lines(items: Sequence[Item]) -> list[str]:
    return [
        x.message.text
        for x in items
        if x.fold and isinstance(x.message, m.User) and WORKSPACE not in x.message.text
    ]


def archives_stay(chain: Chain, fold: e.Fold, view: View) -> None:
    """E6: archives of before are there, word for word, in front of the new one."""
    if fold.strategy == "archive":
        before, after = (
            [x.message for x in items if x.fold and isinstance(x.message, m.System)]
            for items in (chain.before, view.items)
        )
        assert after[: len(before)] == before
        assert len(after) > len(before)


CHECKS: dict[str, tuple[Callable[[Chain, e.Fold, View], None], ...]] = {
    "augment": (newest_is_untouched, replaced_not_nested),
    "augment+carry": (newest_is_untouched, nested),
    "pi": (newest_is_untouched,),
    "window": (newest_is_untouched,),
    "rounds": (newest_is_untouched, stable_prefix),
    "rounds+compressed": (stable_prefix,),
    "layered": (archives_stay,),
}


def chained(preset: str, entries: Sequence[e.AnyPathEntry]) -> int:
    def check(chain: Chain, fold: e.Fold, view: View) -> None:
        always(chain, fold, view)
        for each in CHECKS[preset]:
            each(chain, fold, view)

    return Chain(preset, entries).run(check)


@pytest.mark.data
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("preset", list(PRESETS))
def test_chains_of_ten_folds(preset: str, name: str) -> None:
    entries = source(DATA / name)[:SAMPLE]
    folds = chained(preset, entries)
    rounds = sum(isinstance(said_by(entry), m.User) for entry in entries)
    if len(entries) >= 100 and preset in ("pi", "augment", "augment+carry"):
        assert folds >= FOLDS - 2
    elif rounds >= 8:
        assert folds >= 2


@pytest.mark.data
@pytest.mark.parametrize("name", ["pi/large-session.jsonl", "claude-code/agentcmd-full-session-two.jsonl"])
@pytest.mark.parametrize("preset", list(PRESETS))
def test_chains_without_a_model(preset: str, name: str) -> None:
    chain = Chain(preset, source(shared(name))[:SAMPLE], digest=True)
    assert chain.run(always)
    assert not chain.model.requests


TINY: dict[str, dict[str, Any]] = {
    **PRESETS,
    "augment": {"prompt": "Write a <summary>.", "min_tail_exchanges": 0},
    "pi": {"keep_recent_tokens": 20},
    "window": {"compact_window": 2, "compact_threshold": 12, "max_history": 12},
    "rounds": {"lines": "rule", "recent_conversation_rounds": 1, "summaries_budget": 40},
    "layered": {"keep_rounds": 0},
}


DESIGNS = ["augment", "pi", "window", "rounds", "rounds+compressed", "layered"]
PIECES = st.lists(conversations(most=6), min_size=1, max_size=3)


def valid_throughout(preset: str, pieces: list[list[m.Message]]) -> None:
    """Folds between the pieces, and each undone at the end: what is sent is valid at every step."""
    session, model = Session(), summariser()
    session.append(m.user("Hello."))
    engine = Engine(presets.get(preset.partition("+")[0], **TINY[preset]), model=model)
    for piece in pieces:
        for message in (*piece, m.user("And now?")):
            session.append(message)
        run(maintain(engine.planner, session))
        plan = engine.plan(session, force=True)
        if isinstance(plan, Plan):
            run(engine.apply(session, plan))
        check_wire(engine.view(session))
    for fold in reversed([x for x in session.path if isinstance(x, e.Fold)]):
        engine.undo(session, fold.id)
        check_wire(engine.view(session))
    assert engine.view(session).messages == [said for x in session.path if (said := said_by(x)) is not None]


@pytest.mark.sample(3)
@pytest.mark.parametrize("preset", DESIGNS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces=PIECES)
def test_random_transcripts_with_folds_in_between_are_valid(
    preset: str, pieces: list[list[m.Message]]
) -> None:
    valid_throughout(preset, pieces)


@pytest.mark.torture
@pytest.mark.parametrize("preset", DESIGNS)
@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces=PIECES)
def test_many_random_transcripts_with_folds_in_between_are_valid(
    preset: str, pieces: list[list[m.Message]]
) -> None:
    valid_throughout(preset, pieces)


@pytest.mark.data
@pytest.mark.torture
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("preset", list(PRESETS))
def test_chains_of_ten_folds_on_whole_transcripts(preset: str, name: str) -> None:
    chained(preset, source(DATA / name))


# ── what is sent fits the declared window (A11, R2) ─────────────────────────────────────────────

OPEN = [{"content": f"todo number {number} of the work", "status": "pending"} for number in range(60)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("fallback", ["none", "digest"])
@pytest.mark.parametrize(
    ("preset", "given"),
    [
        ("refold", {}),
        ("refold", {"auto": False}),
        ("pi", {"reserve_tokens": 1_000}),
        ("pi", {"reserve_tokens": 1_000, "enabled": False}),
        ("window", {}),
        ("rounds", {}),
        ("layered", {}),
        ("augment", {}),
        ("augment", {"prompt": "Summarise.", "trigger_on_history_size_chars": 10**9}),
        ("augment", {"prompt": "Summarise.", "bot_type": 1}),
        ("augment", {"history_summary_min_version": ""}),
    ],
)
def test_A11_R2_what_is_sent_fits_the_declared_window_or_the_caller_hears_it(
    preset: str, given: dict[str, Any], fallback: str
) -> None:
    session = Session()
    session.append(m.user("Plan it."))
    session.append(m.assistant("Planned.", m.call("t", "TodoWrite", todos=OPEN)))
    session.append(m.result("t", "ok"))
    session.append(m.assistant("Begun."))
    for number in range(12):
        session.append(m.user(f"Question {number}: " + "why is that so? " * 100))
        session.append(m.assistant(f"Answer {number}: " + "because of this. " * 100))
    session.append(m.user("And now?"))
    chosen = {**given, "window": 4_000, "fallback": fallback, "layers": True}
    engine = Engine(presets.get(preset, **chosen))
    try:
        sent = run(engine.prepare(session))
    except DoesNotFit:
        assert fallback == "none" or not given.get("auto", given.get("enabled", True))
    else:
        assert sum(tokens.get().message(item.message) for item in sent.items) <= 4_000
