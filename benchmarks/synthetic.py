"""Made-up transcripts with a fixed seed: what the engine and its peers are timed on and made to cut.

Messages are plain dicts in OpenAI's chat form, which every library can take in: a peer runs in an
environment of its own and gets them as a file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

SEED = 20_261_115
Wire = dict[str, Any]

_TOOLS = ("Read", "Grep", "Bash", "Edit", "Write")
_WORDS = [
    "value",
    "handler",
    "error",
    "request",
    "result",
    "context",
    "state",
    "buffer",
    "option",
    "query",
    "index",
    "token",
    "module",
    "branch",
    "limit",
    "field",
    "record",
    "worker",
    "socket",
    "schema",
    "login",
    "parser",
    "cache",
    "export",
    "retry",
    "search",
    "billing",
    "config",
    "upload",
    "session",
    "return",
    "import",
    "class",
    "async",
    "await",
    "yield",
    "lambda",
    "assert",
    "raise",
    "except",
    "finally",
    "global",
    "self",
    "cls",
    "None",
    "True",
    "False",
]
_ASKED = (
    "Please fix the {0} {1}; it fails since the last release.",
    "Add a test for the {0} {1} and keep the public interface as it is.",
    "Now look into the {0} {1}. Never touch the {0} migrations.",
    "Why is the {0} {1} so slow on large inputs?",
)


def agent_transcript(messages: int, seed: int = SEED) -> list[Wire]:
    """A coding session of exactly so many messages: turns of a request, three to eight tool steps and an answer;
    tool results of 0.5 to 8 KB."""
    return list(_messages(random.Random(seed), messages))


def _messages(chance: random.Random, wanted: int) -> Iterator[Wire]:
    lines = [_line(chance) for _ in range(4_000)]
    made = step = 0
    while made < wanted:
        turn = list(_turn(chance, lines, step))
        step += len(turn)
        if len(turn) > wanted - made:
            # The rest is talk without tools, so that the last message closes everything.
            turn = [_said(chance, "user" if n % 2 == 0 else "assistant") for n in range(wanted - made)]
        made += len(turn)
        yield from turn


def _turn(chance: random.Random, lines: list[str], step: int) -> Iterator[Wire]:
    yield {"role": "user", "content": chance.choice(_ASKED).format(*chance.sample(_WORDS, 2))}
    for number in range(chance.randint(3, 8)):
        id, path = (
            f"call_{step}_{number}",
            f"src/{chance.choice(_WORDS)}/{chance.choice(_WORDS)}_{step % 97}.py",
        )
        yield called([(id, chance.choice(_TOOLS), path)], f"I will look at {path} next.")
        yield answered(id, _text(chance, lines))
    yield {"role": "assistant", "content": f"Done: {' '.join(chance.choices(_WORDS, k=30))}."}


def called(calls: list[tuple[str, str, str]], said: str = "") -> Wire:
    """An assistant message with tool calls (id, tool, path)."""
    return {
        "role": "assistant",
        "content": said,
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": tool, "arguments": f'{{"path":"{path}"}}'}}
            for id, tool, path in calls
        ],
    }


def answered(id: str, text: str) -> Wire:
    return {"role": "tool", "tool_call_id": id, "content": text}


def _line(chance: random.Random) -> str:
    words = chance.choices(_WORDS, k=chance.randint(3, 9))
    return f"    {words[0]}_{words[1]} = {'.'.join(words[2:])}({chance.randrange(10_000)})"


def _text(chance: random.Random, lines: list[str]) -> str:
    size, start, taken, total = chance.randint(500, 8_000), chance.randrange(len(lines)), list[str](), 0
    while total < size:
        line = lines[(start + len(taken)) % len(lines)]
        taken.append(line)
        total += len(line) + 1
    return "\n".join(taken)[:size]


def _said(chance: random.Random, role: str) -> Wire:
    return {"role": role, "content": " ".join(chance.choices(_WORDS, k=12)).capitalize() + "."}


# ── pair safety ─────────────────────────────────────────────────────────────────────────────────


def valid_transcripts(number: int = 150, seed: int = SEED) -> list[list[Wire]]:
    """Short random transcripts in which every call is answered at once: single calls and parallel batches."""
    chance = random.Random(seed)
    return [_valid(chance) for _ in range(number)]


def late_transcripts(number: int = 150, seed: int = SEED + 1) -> list[list[Wire]]:
    """The same with results that come late: other messages stand between a call and some of its results, as
    when a user speaks while a tool runs."""
    chance = random.Random(seed)
    return [_late(chance, _valid(chance)) for _ in range(number)]


def _valid(chance: random.Random) -> list[Wire]:
    made: list[Wire] = []
    for turn in range(chance.randint(4, 14)):
        made.append(_said(chance, "user"))
        for step in range(chance.randint(0, 5)):
            ids = [f"c{turn}_{step}_{n}" for n in range(chance.choice((1, 1, 1, 2, 3)))]
            made.append(called([(id, chance.choice(_TOOLS), f"src/{id}.py") for id in ids]))
            made += [answered(id, " ".join(chance.choices(_WORDS, k=chance.randint(5, 120)))) for id in ids]
        if chance.random() < 0.9:
            made.append(_said(chance, "assistant"))
    return made


def _late(chance: random.Random, transcript: list[Wire]) -> list[Wire]:
    """Every third result, on average, comes two to twelve messages later than it should."""
    made = list(transcript)
    for at in range(len(made) - 1, -1, -1):
        if made[at]["role"] == "tool" and chance.random() < 1 / 3:
            late = made.pop(at)
            made.insert(min(at + chance.randint(2, 12), len(made)), late)
    return made


def orphans(messages: list[Wire]) -> int:
    """Tool results without a call before them, and calls that no later message answers although the
    conversation went on: what a provider refuses."""
    open_calls: set[str] = set()
    wrong = 0
    for message in messages:
        if message.get("tool_calls"):
            open_calls |= {call["id"] for call in message["tool_calls"]}
        elif message["role"] == "tool":
            if message["tool_call_id"] in open_calls:
                open_calls.discard(message["tool_call_id"])
            else:
                wrong += 1
    return wrong + len(open_calls)
