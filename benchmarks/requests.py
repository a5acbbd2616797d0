"""M10: what a fold asks of a summariser, by the size of the history, by the summariser's window and by what it does.

Every request is counted, second tries included, and every token sent. The clock is a virtual one: stalling and
dripping take no time here. Bound: 2 + 2 × (tokens to be read / usable window of the summariser).

    python -m benchmarks.requests [--quick]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.virtual import run_virtually

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.engine.summarise import ByModel
from refold.errors import DoesNotFit, Overflow, Transient
from refold.models.retry import Retry
from refold.models.scripted import Scripted, ScriptStep, fail, say, stall
from refold.protocols import Request
from refold.tokens import get as counter

COUNTER = counter()
WINDOWS = (1_700, 2_048, 8_000, 32_000, 200_000)


def text_of(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


BEHAVIOURS: dict[str, ScriptStep] = {
    "good": "## Goal\nThe user wants the login fixed.\n## Done\nPart of it was read.",
    "copies": lambda request: text_of(request),
    "doubles": lambda request: 2 * text_of(request),
    "stalls": stall(),
    "drips": say("word " * 4_000, pace=1.0),
    "breaks": fail(Transient("503")),
    "refuses": fail(Overflow("prompt is too long")),
}


def work(tokens: int) -> Session:
    """A session of a coding agent of about so many tokens."""
    made = _made(tokens)
    session = Session(made.entries)
    session.share_counts(made)
    return session


@cache
def _made(tokens: int) -> Session:
    session, size, number = Session(), 0, 0
    while size < tokens:
        for message in (
            m.user(f"Please fix bug {number}. " + "The login fails for some users. " * 20),
            m.assistant("Looking.", m.call(f"c{number}", "Read", path=f"src/part{number}.py")),
            m.result(f"c{number}", f"def part_{number}(): return compute(number)\n" * 40, name="Read"),
            m.assistant(f"Fixed bug {number}: " + "it returned the wrong value; now it does not. " * 20),
        ):
            session.append(message)
            size += COUNTER.message(message)
        number += 1
    session.append(m.user("What is left?"))
    return session


def engines(window: int, tokens: int) -> dict[str, Callable[[Any], Engine]]:
    presets_of: dict[str, Callable[[], presets.Preset]] = {
        "refold": lambda: presets.get("refold", window=tokens // 2),
        "pi": lambda: presets.get(
            "pi", window=tokens // 2, keep_recent_tokens=tokens // 20, reserve_tokens=4_000
        ),
        "augment": lambda: presets.get("augment", budget=tokens // 8),
        "layered": lambda: presets.get("layered", budget=tokens // 2, keep_rounds=3),
        "window": lambda: presets.get("window"),
        "rounds": lambda: presets.get("rounds"),
    }

    def engine(name: str) -> Callable[[Any], Engine]:
        def make(step: ScriptStep) -> Engine:
            model = Scripted(then=step, context_window=window)
            by = ByModel(model, COUNTER, retries=Retry(total=1e9))
            return Engine(presets_of[name](), model=model, summariser=by)

        return make

    return {name: engine(name) for name in presets_of}


def usable(window: int) -> int:
    """What of a summariser's window is for reading, as for any model's (R12)."""
    return window - min(16_384, window // 5)


SHOWN = ("good", "copies", "doubles", "stalls", "drips")
LONG = 1_000_000
LONG_WINDOWS, LONG_SHOWN = (1_700,), ("good",)
"""What is asked of the longest history here; `make torture` asks for all of it."""


def measured(name: str, window: int, behaviour: str, tokens: int) -> dict[str, Any]:
    session = work(tokens)
    engine = engines(window, tokens)[name](BEHAVIOURS[behaviour])
    model = engine.model
    assert isinstance(model, Scripted)
    read = Engine().view(session).tokens

    async def prepare() -> str:
        try:
            await engine.prepare(session)
        except DoesNotFit:
            return "does not fit"
        folds = session.annotations(e.Fold)
        return folds[-1].strategy if folds else "nothing"

    end, seconds = run_virtually(prepare())
    return {
        "preset": name,
        "history": tokens,
        "window": window,
        "behaviour": behaviour,
        "requests": len(model.requests),
        "bound": int(2 + 2 * read / usable(window)),
        "sent": sum(COUNTER.message(x) for request in model.requests for x in request.messages),
        "seconds": round(seconds),
        "end": end,
    }


def run(*, quick: bool = False) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for name in presets.NAMES:
        for tokens in (20_000,) if quick else (100_000, LONG):
            windows, shown = (LONG_WINDOWS, LONG_SHOWN) if tokens == LONG else (WINDOWS, SHOWN)
            rows += [measured(name, window, behaviour, tokens) for window in windows for behaviour in shown]
    over = [row for row in rows if row["requests"] > row["bound"]]
    return {"measure": "M10", "rows": rows, "over": len(over)}


if __name__ == "__main__":
    json.dump(run(quick="--quick" in sys.argv), sys.stdout, indent=1, ensure_ascii=False)
    print()
