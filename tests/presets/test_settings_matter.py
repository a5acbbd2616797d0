"""Every setting of every preset does something: set to another value, a plan, a view, a request or a fold differs."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Failed, Plan, Reason
from refold.errors import RefoldError, SettingError
from refold.models.scripted import Scripted, say
from refold.presets.augment import SUMMARY_PROMPT
from refold.shrink import RULES
from tests.virtual import run_virtually

START = 1_700_000_000.0
MODEL = "scripted:script"

SMALL: dict[str, tuple[dict[str, Any], ...]] = {
    "refold": (
        {"window": 6_000},
        {"window": 6_000, "summary_request": "cached-prefix"},
        {"window": 9_000, "summary_tokens": 200},
    ),
    "augment": (
        {
            "prompt": SUMMARY_PROMPT,
            "trigger_on_history_size_chars": 12_000,
            "trigger_on_history_size_chars_when_cache_expiring": 9_000,
            "history_tail_size_chars_to_exclude": 3_000,
            "cache_ttl_ms": 300_000,
            "buffer_time_before_cache_expiration_ms": 30_000,
        },
    ),
    "pi": ({"window": 7_000, "reserve_tokens": 1_000, "keep_recent_tokens": 2_000},),
    "window": ({"max_history": 30, "compact_threshold": 24, "compact_window": 14},),
    "rounds": ({}, {"history_strategy": "compressed"}, {"lines": "rule", "summaries_budget": 150}),
    "layered": (
        {"window": 6_000, "keep_rounds": 2},
        {"window": 6_000, "keep_rounds": 2, "min_messages": 500},
    ),
}
"""Settings with which a short conversation is folded; where one setting hides another, several of them."""

TIGHT: dict[str, Any] = {"window": 1_500}
"""A window that what a design keeps does not fit."""

SAME = {
    ("refold", "fallback"): "its own strategies end with the lines that others may borrow",
    **{
        (name, "layers"): "needs a project and todos: test_E1_prepare_puts_the_layers_in_order"
        for name in presets.NAMES
    },
    **{
        (name, "summary_model"): "needs another model: test_another_model_writes_the_summaries_of_any_preset"
        for name in presets.NAMES
    },
}
"""Settings that cannot matter here, and why."""

OTHERS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("augment", "tool_kinds"): ({"Edit": "read"}, {"edit": "read"}),
    ("augment", "params"): ('{"min_tail_exchanges": 4}',),
    ("augment", "prompt"): ("Write <summary> of it.",),
    ("augment", "bot_type"): ("review", "code_review", 1),
    ("augment", "history_summary_min_version"): ("",),
    ("augment", "memories_params"): ({"max_lines": 10},),
    ("augment", "summary_node_request_message_template"): ("{summary} and {abridged_history}",),
    ("augment", "abridged_history_params"): ({"total_chars_limit": 400},),
    ("layered", "limits"): ({"read_lines": 2},),
    ("layered", "rules"): ({"bash": RULES["write"]},),
    ("rounds", "workspace"): (lambda session: f"{len(session.path)} entries",),
    ("pi", "models"): ({MODEL: {"keep_recent_tokens": 500}},),
    ("refold", "output_reserve"): (3_000,),
    ("refold", "min_gain"): (0.9,),
    ("refold", "state_tokens"): (20,),
    ("refold", "lines_share"): (0.9, 0.0),
}


def conversation() -> list[list[m.Message]]:
    """Rounds with tool calls, long results, a secret and demands."""
    rounds: list[list[m.Message]] = []
    for n in range(1, 13):
        steps: list[m.Message] = [
            m.user(f"Please fix part {n} in src/p{n}.py; never touch file{n}.cfg. " + f"Reason {n}. " * 20)
        ]
        for step, tool in enumerate(("Read", "Edit", "Bash")):
            id = f"c{n}.{step}"
            arguments = {"command": f"pytest -q tests/p{n}"} if tool == "Bash" else {"path": f"src/p{n}.py"}
            steps.append(m.assistant(f"Step {step} of part {n}.", m.call(id, tool, **arguments)))
            steps.append(
                m.result(
                    id,
                    f'api_key = "sk-ant-api03-Zk3vQ9xW7rT2mN8bL5pY1c{n:04d}"\n'
                    + f"line {n} of output\n" * 60,
                )
            )
        rounds.append(
            [*steps, m.assistant(f"Part {n} is fixed: {n}00 ms instead of {n}000 ms in p{n}.py. " * 3)]
        )
    return rounds


class Probe:
    """One conversation under a preset, and everything that can be seen of it; up to where it departs from what
    was seen before, if that is given."""

    def __init__(self, preset: presets.Preset, before: list[Any] | None = None) -> None:
        self.preset, self.seen, self.now = preset, list[Any](), START
        self.before = before
        numbers = itertools.count()
        self.session = Session(id="s", clock=lambda: self.now, new_id=lambda: f"e{next(numbers):06d}")
        self.model = Scripted(
            name=MODEL,
            context_window=100_000,
            then=lambda r: say(
                f"<summary>\n## Goal\nAll {len(r.messages)} parts; the port is 4711.\n"
                + "More. " * 400
                + "</summary>"
                if r.purpose != "line"
                else "All parts were fixed and " + "measured " * 60,
                delay=20.0,
            ),
        )
        self.engine = Engine(preset, model=self.model, clock=lambda: self.now)

    async def run(self) -> list[Any]:
        for number, said in enumerate(conversation(), 1):
            for message in said:
                usage = m.Usage(input=900 * number, output=20) if isinstance(message, m.Assistant) else None
                self.session.append(message, usage=usage, model=MODEL if usage else None)
                self.now += 5.0
                if isinstance(message, m.User) or message is said[-1]:
                    await self.look()
                    if self.before is not None and self.seen[-4:] != self.before[: len(self.seen)][-4:]:
                        return self.seen
        self.seen += [
            self.preset.cache_delay(10.0),
            self.preset.settings.problems(),
            self.preset.reserve,
        ]
        self.seen.append(self.preset.settings.summary_model)
        if isinstance(asked := self.engine.plan(self.session, force=True), Plan):
            done = await self.engine.apply(self.session, asked)
            self.seen.append(done.code if isinstance(done, Failed) else type(done).__name__)
        await self.turn()
        self.seen += [msgspec.json.encode(r) for r in self.model.requests]
        self.seen += [
            msgspec.json.encode(x) for x in self.session.entries if not isinstance(x, e.MessageEntry)
        ]
        return self.seen

    async def look(self) -> None:
        """What it would do, and what it does."""
        expiring, soft = self.engine.plan(self.session, cache_expiring=True), self.preset.soft_trigger()
        asked = self.engine.plan(self.session, force=True)
        self.seen += [planned(expiring), planned(asked)]
        if soft is not None:
            self.seen.append(repr(soft.due(self.engine.planner.context(self.session))))
        try:
            view = await self.engine.prepare(self.session)
        except RefoldError as error:
            self.seen.append(repr(error))
        else:
            self.seen.append([item.message.text for item in view.items])

    async def turn(self) -> None:
        """A turn that calls tools as long as it may."""
        session, numbers = Session(), itertools.count()
        session.append(m.user("look everywhere"))
        chat = Scripted(then=lambda r: say(m.call(f"c{next(numbers)}", "ls")) if r.tools else "done")
        tools = [{"name": "ls", "input_schema": {}}]
        try:
            await Engine(self.preset).turn(session, lambda _: "a", chat, tools=tools)
        except RefoldError as error:
            self.seen.append(repr(error))
        self.seen.append(len(chat.requests))


def planned(plan: Plan | Reason) -> Any:
    if isinstance(plan, Reason):
        return plan
    return plan.reason, plan.strategy, plan.first_kept, plan.fold, plan.masked, plan.clipped, plan.requests


def bases(name: str) -> tuple[dict[str, Any], ...]:
    return (*SMALL[name], {**SMALL[name][0], **TIGHT})


@cache
def _seen(name: str, base: int) -> list[Any]:
    return seen(name, bases(name)[base])


def seen(name: str, settings: dict[str, Any], before: list[Any] | None = None) -> list[Any]:
    return run_virtually(Probe(presets.get(name, **settings), before).run())[0]


def others(name: str, field: msgspec.structs.FieldInfo, value: Any) -> tuple[Any, ...]:
    """Other values of a setting."""
    kind = get_args(field.type)[0]
    if (name, field.name) in OTHERS:
        return OTHERS[name, field.name]
    if get_origin(kind) is Literal:
        return tuple(choice for choice in get_args(kind) if choice != value)
    match value:
        case bool():
            return (not value,)
        case float():
            return (value / 10, value / 3, min(value * 2, 1.0) if value < 1 else value * 2, 0.0)
        case int():
            return (value // 2, value * 2, value // 10, value + 1, 500)
        case _:
            return ("zh", "x")


ROWS = [
    (name, field.name) for name in presets.NAMES for field in msgspec.structs.fields(presets.class_of(name))
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", presets.NAMES)
def test_the_same_settings_show_the_same(name: str) -> None:
    assert seen(name, SMALL[name][0]) == _seen(name, 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "setting"), ROWS)
def test_every_setting_does_something(name: str, setting: str) -> None:
    [field] = [f for f in msgspec.structs.fields(presets.class_of(name)) if f.name == setting]
    kind = get_args(field.type)[0]
    if get_origin(kind) is Literal and len(get_args(kind)) == 1:
        # There is one value: the design itself must name the setting.
        [row] = [row for row in presets.settings_of(name) if row.name == setting]
        assert row.origin
        return
    if (name, setting) in SAME:
        return
    for number, base in enumerate(bases(name)):
        try:
            now = getattr(presets.get(name, **base).settings, setting)
        except SettingError:
            continue  # so small a window contradicts the other settings
        for other in others(name, field, now):
            try:
                changed = seen(name, {**base, setting: other}, _seen(name, number))
            except SettingError:
                continue  # not a value of this setting
            if changed != _seen(name, number):
                return
    pytest.fail(f"{setting} does nothing")
