"""D8: how many tokens a conversation of 10, 50 and 100 rounds takes under the strategies of `rounds`, beside the
published figures. The conversation is generated (fixed seed, about 200 tokens a round).

    python -m benchmarks.rounds
"""

from __future__ import annotations

import random
from statistics import mean
from typing import Any

from refold import Engine, Session, presets, tokens
from refold import messages as m
from refold.engine.maintenance import maintain
from refold.loop import run as run_now

ROUNDS = (10, 50, 100)
SEED = 20_260_101
PUBLISHED = {
    "compressed": (2500, 3000, 3500),
    "recent-only": (900, 1500, 2000),
    "summary-only": (500, 2500, 5000),
}

_TASKS = ("fix the", "add a test for the", "refactor the", "document the", "speed up the", "look into the")
_PARTS = ("login form", "date parser", "cache layer", "export job", "retry logic", "search index", "billing page",
          "config loader", "upload handler", "session store")  # fmt: skip
_FILES = ("auth", "dates", "cache", "export", "retry", "search", "billing", "config", "upload", "sessions")
_WORDS = ("value", "handler", "error", "request", "result", "context", "state", "buffer", "option", "query",
          "index", "token", "module", "branch", "limit", "field", "record", "worker", "socket", "schema")  # fmt: skip
_NOTES = ("It keeps failing in production since yesterday.", "Keep the public interface as it is.",
          "Do it the way the other modules do.", "The reviewers asked for it twice.")  # fmt: skip


def conversation(rounds: int, seed: int = SEED) -> list[list[m.Message]]:
    """Rounds of a coding session: a request, one tool step, an answer."""
    chance = random.Random(seed)
    return [_round(chance, number) for number in range(1, rounds + 1)]


def _round(chance: random.Random, number: int) -> list[m.Message]:
    part = chance.randrange(len(_PARTS))
    task, name, file = chance.choice(_TASKS), _PARTS[part], f"src/{_FILES[part]}.py"
    body = "\n".join(
        f"{at * 7}: {' '.join(chance.choices(_WORDS, k=6))} = {chance.randrange(1000)}" for at in range(1, 10)
    )
    return [
        m.user(f"Please {task} {name}. {chance.choice(_NOTES)}"),
        m.assistant(
            f"I will look at {file} first.",
            m.call(f"c{number}", "Edit", path=file, old_string="x", new_string="y"),
        ),
        m.result(f"c{number}", body, name="Edit"),
        m.assistant(
            f"The {name} works now. I changed {chance.randrange(2, 40)} lines in {file} and ran the tests."
        ),
    ]


def view_tokens(rounds: int, **settings: Any) -> int:
    """Size of the view after so many rounds, each followed as it ended."""
    session, engine = Session(), Engine(presets.get("rounds", **settings))
    for each in conversation(rounds):
        for message in each:
            session.append(message)
        run_now(maintain(engine.planner, session))
    return engine.view(session).tokens


def run() -> dict[str, Any]:
    """Ours beside the published figures."""
    counter = tokens.get()
    whole = [sum(counter.message(x) for x in each) for each in conversation(max(ROUNDS))]
    return {
        "seed": SEED,
        "tokens_a_round": round(mean(whole), 1),
        "rounds": list(ROUNDS),
        "everything": [sum(whole[:count]) for count in ROUNDS],
        "strategies": {
            name: {
                "ours": [view_tokens(count, history_strategy=name) for count in ROUNDS],
                "published": list(figures),
            }
            for name, figures in PUBLISHED.items()
        },
    }


def table(found: dict[str, Any]) -> str:
    """Rows of a Markdown table."""
    rows = [
        "| strategy | " + " | ".join(f"{count} rounds" for count in found["rounds"]) + " |",
        "|---|---|---|---|",
    ]
    rows.append("| everything | " + " | ".join(f"{size:,}" for size in found["everything"]) + " |")
    for name, figures in found["strategies"].items():
        cells = (
            f"{ours:,} (≈ {theirs:,})"
            for ours, theirs in zip(figures["ours"], figures["published"], strict=True)
        )
        rows.append(f"| `{name}`, ours (published) | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(run()))
