"""What every design makes of the same conversations, as recorded: when it folds and why, what leaves its place, what
stands there instead, what a model is asked, how large it counts everything.

The rules have tests of their own; this one says that nothing else changed. Where it should have:

    REFOLD_RECORD=1 python -m pytest tests/presets/test_recorded.py

writes the file anew, and its difference is what the change does.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refold import Engine, Session, presets, tokens
from refold import entries as e
from refold import messages as m
from refold.compaction.plan import Plan
from refold.engine.summarise import ByModel
from refold.errors import DoesNotFit
from refold.loop import run
from refold.models.retry import NO_RETRY
from refold.models.scripted import Scripted

RECORD = Path(__file__).parents[1] / "golden" / "folds.json"
PROMPT = "Summarise.\n## Goal\n## Done\n## Files\n## Next\n## Rules\n## Open\n## Errors\n## Words\n## Notes"
DESIGNS: dict[str, list[dict[str, Any]]] = {
    "refold": [{"window": 4_000}, {"window": 2_500, "words_share": 0.2}, {"budget": 1_500}],
    "pi": [{"window": 4_000, "reserve_tokens": 2_000, "keep_recent_tokens": 500}],
    "window": [{"compact_threshold": 19, "compact_window": 9, "max_history": 22}],
    "augment": [
        {
            "trigger_on_history_size_chars": 4_000,
            "history_tail_size_chars_to_exclude": 1_200,
            "prompt": PROMPT,
        }
    ],
    "rounds": [
        {"history_strategy": "recent-only", "recent_conversation_rounds": 2, "summaries_budget": 120},
        {"history_strategy": "compressed", "compressed_budget": 900},
    ],
    "layered": [{"window": 2_500, "threshold": 0.6, "keep_rounds": 2, "archive_tokens": 300}],
}


def lines(name: str, number: int) -> str:
    return "\n".join(
        f"{name}: {n} gives {n * 7919 % 1009} in src/{name}/part{n % 3}.py" for n in range(number)
    )


def work() -> Iterator[m.Message]:
    """A coding agent: reads, edits, runs, fails, thinks, is interrupted."""
    yield m.system("You are a careful engineer.")
    for n in range(7):
        rule = f" Never touch migrations/{n}." if n % 2 == 0 else ""
        yield m.user(f"Fix bug {n} in the login.{rule} The limit is {n * 37 + 11} ms.")
        think = [m.thinking(f"Where is bug {n}?", f"sig{n}")] if n in (2, 5) else []
        calls = [m.call(f"r{n}{k}", "Read", path=f"src/login/part{n}{k}.py") for k in range(1 + n % 3)]
        yield m.assistant([*think, "Looking.", *calls])
        for call in calls:
            yield m.result(call.id, f"def part_{call.id}():\n{lines(call.id, 14)}\n", name="Read")
        yield m.assistant(
            [m.call(f"w{n}", "Edit", path=f"src/login/part{n}0.py", old_string="a", new_string="b")]
        )
        yield m.result(f"w{n}", "ok", name="Edit")
        yield m.assistant("", m.call(f"t{n}", "Bash", command=f"pytest tests/login -k bug{n}"))
        failed = n in (1, 4)
        told = f"FAILED tests/login/test_bug.py::test_{n} - assert {n} == 0\n" if failed else ""
        verdict = "1 failed, 8 passed in 0.4s" if failed else "9 passed in 0.3s"
        yield m.result(f"t{n}", f"{lines('log', 10)}\n{told}{verdict}", name="Bash", is_error=failed)
        if n == 3:
            yield m.assistant("", m.call("lost", "Bash", command="sleep 1000"))
            continue
        yield m.assistant(
            f"Bug {n} is {'not yet ' if failed else ''}fixed: part{n} returned the wrong value."
        )
    yield m.user("What is left to do?")


def talk() -> Iterator[m.Message]:
    """Two people, no tools."""
    for n in range(24):
        yield m.user(f"On day {n} Anna paid {n * 7 + 3} euros for the boat in Kiel. {lines('note', n % 4)}")
        yield m.assistant(f"Noted: Anna, {n * 7 + 3} euros. Shall I add it up? {lines('sum', n % 3)}")
    yield m.user("How much was it in all, and who paid on day 3?")


def heap() -> Iterator[m.Message]:
    """One request, many parallel and large results, a picture, an unknown part, a todo list."""
    yield m.user(
        [
            m.text("<context>\nfolder: /srv/app\n</context>\n", "program"),
            "Read all of it, then write REPORT.md.",
        ]
    )
    todos = [{"content": f"step {n}", "status": "completed" if n < 2 else "pending"} for n in range(4)]
    yield m.assistant("Plan.", m.call("plan", "TodoWrite", todos=todos))
    yield m.result("plan", "ok", name="TodoWrite")
    for n in range(5):
        calls = [
            m.call(
                f"g{n}{k}",
                ("Grep", "Read", "Bash")[k],
                **({"pattern": f"x{n}"}, {"path": f"a/{n}.md"}, {"command": f"cat a/{n}"})[k],
            )
            for k in range(3)
        ]
        yield m.assistant([f"Batch {n}.", *calls])
        yield m.result(calls[0].id, lines(f"hit{n}", 30), name="Grep")
        yield m.Result(
            calls[1].id, (m.Text(lines(f"page{n}", 40)), m.Image("image/png", data="iVBORw0KGgo=")), "Read"
        )
        yield m.Result(calls[2].id, (m.Text("same output\n" * 60), m.Opaque({"type": "odd", "n": n})), "Bash")
    yield m.assistant("", m.call("w", "Write", path="REPORT.md", content=lines("report", 60)))
    yield m.result("w", "written", name="Write")
    yield m.assistant("REPORT.md is written.")
    yield m.user("Shorten it.")
    yield m.assistant("", m.call("open", "Read", path="REPORT.md"))  # fmt: skip


CONVERSATIONS: dict[str, Callable[[], Iterator[m.Message]]] = {"work": work, "talk": talk, "heap": heap}
CASES = [
    f"{design}-{number}-{conversation}-{writer}"
    for design, chosen in DESIGNS.items()
    for number in range(len(chosen))
    for conversation in CONVERSATIONS
    for writer in ("model", "rule")
]


def session_and_engine(case: str) -> tuple[Session, Engine, Scripted, list[str]]:
    """The conversation as it went, and on the way what would have been done if somebody had asked for it."""
    design, number, conversation, writer = case.split("-")
    ids, answers, now = count(), count(1), 1_000.0

    def clock() -> float:
        """Goes on with the messages: how often it is looked at changes nothing."""
        return now

    session = Session(id="s", new_id=lambda: f"x{next(ids)}", clock=clock)
    model = Scripted(
        then=lambda request: (
            f"## Goal\nSummary {next(answers)} ({request.purpose}) of src/login/part00.py, limit 11 ms."
        ),
        context_window=100_000,
    )
    preset = presets.get(design, **DESIGNS[design][int(number)])
    by = (
        {"model": model, "summariser": ByModel(model, tokens.get(), retries=NO_RETRY)}
        if writer == "model"
        else {}
    )
    engine = Engine(preset, clock=clock, **by)
    plans: list[str] = []
    for turn, message in enumerate(CONVERSATIONS[conversation]()):
        now = 1_000.0 + 3 * turn
        session.append(
            message,
            usage=m.Usage(50 * turn, 20) if isinstance(message, m.Assistant) and turn % 9 == 5 else None,
        )
        if isinstance(message, m.User) or turn % 5 == 0:
            try:
                run(engine.prepare(session, system="Be brief.", tools=()))
            except DoesNotFit:
                pass
        if turn % 8 == 7:
            told = plan_as_rows(engine, session, force=True)
            plans.append(
                f"{turn} {[value for key, value in told.items() if key in SHORT] or [*told]} {mark(told)}"
            )
    return session, engine, model, plans


SHORT = ("strategy", "tokens_before", "tokens_after", "first_kept")


def mark(value: Any) -> str:
    """Enough of a value to know it by, and to read in a difference."""
    text = (
        value
        if isinstance(value, str)
        else json.dumps(value, default=str, sort_keys=True, ensure_ascii=False)
    )
    if len(text) <= 60:
        return text
    return f"{text[:30]}…{len(text)} {hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def said(message: m.Message) -> str:
    return f"{message.role} {mark(json.loads(msgspec.json.encode(message)))}"


def fold_as_rows(fold: e.Fold) -> dict[str, Any]:
    whole = msgspec.to_builtins(fold)
    del whole["edits"]
    edits = [f"{x.first}-{x.last} {x.kind} {[said(message) for message in x.put]}" for x in fold.edits]
    return {**{key: mark(value) for key, value in whole.items()}, "edits": [mark(edit) for edit in edits]}


def plan_as_rows(engine: Engine, session: Session, *, force: bool) -> dict[str, Any]:
    try:
        plan = engine.plan(session, force=force, system="Be brief.")
    except DoesNotFit as error:
        return {"does not fit": str(error)}
    if not isinstance(plan, Plan):
        return {plan.code: str(plan)}
    asks = [
        (
            ask.purpose,
            ask.target_tokens,
            mark([said(x) for x in ask.render(ask.sources, ask.previous).messages]),
        )
        for ask in plan.asks
    ]
    names = (
        "strategy",
        "tokens_before",
        "tokens_after",
        "first_kept",
        "fold",
        "turn_prefix",
        "masked",
        "clipped",
        "split",
        "window",
    )
    told = {name: mark(getattr(plan, name)) for name in names}
    rest = {
        name: mark(getattr(plan, name))
        for name in ("stretch", "smaller", "shorter", "min_gain", "author", "timeout")
    }
    rest["previous"] = mark(plan.previous_summary)
    return {"why": f"{plan.reason.code}: {plan.reason}", **told, **rest, "asks": asks}  # fmt: skip


def recorded(case: str) -> dict[str, Any]:
    session, engine, model, plans = session_and_engine(case)
    view = engine.view(session, system="Be brief.")
    return {
        "folds": [fold_as_rows(entry) for entry in session.entries if isinstance(entry, e.Fold)],
        "others": [mark(msgspec.to_builtins(x)) for x in session.entries if not isinstance(x, e.Fold | e.MessageEntry)],
        "view": [len(view.items), mark([f"{said(item.message)} {len(item.entries)}" for item in view.items])],
        "tokens": view.tokens,
        "plans": plans,
        "sizes": {name: mark(view.to(name)) for name in ("openai", "anthropic", "responses")},
        "plan": plan_as_rows(engine, session, force=False),
        "forced": plan_as_rows(engine, session, force=True),
        "asked": [f"{r.purpose} {r.max_tokens} {r.temperature} {[said(x) for x in r.messages]}"[:200] for r in model.requests],
    }  # fmt: skip


@pytest.mark.sample(27)
@pytest.mark.parametrize("case", CASES)
def test_a_design_makes_of_a_conversation_what_it_made_of_it(case: str) -> None:
    found = json.loads(json.dumps(recorded(case)))
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    if os.environ.get("REFOLD_RECORD"):
        text = json.dumps({**known, case: found}, indent=1, ensure_ascii=False, sort_keys=True)
        RECORD.write_text(f"{text}\n", encoding="utf-8")
        return
    assert found == known[case], "if it should: REFOLD_RECORD=1, and look at the difference"
