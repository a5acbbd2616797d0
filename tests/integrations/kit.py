"""What the tests of the integrations share: a model that uses tools, and what it may be shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from refold import messages as m
from refold.messages import Usage
from refold.models.scripted import ScriptedReply, say
from refold.recall import tool as recall_tool
from refold.session.dialects import parse_list
from refold.testing.wire import WireServer
from refold.tokens import get

WINDOW = 16_000
SECRET = "The code word of the vault is heliotrope."
"""Said in the first turn, folded away later, and recalled at the end."""
LAST = "What is the code word of the vault?"
SYSTEM = "You look things up before you answer."


def question(number: int) -> str:
    start = f" {SECRET}" if number == 0 else ""
    return (
        f"Question {number}.{start} Please look at part {number} of the plan and say what is wrong with it."
    )


def page(number: int, side: str) -> str:
    """What the tool `look` answers."""
    return f"Part {number}, {side} side. " + " ".join(
        f"Line {n} of part {number} names screw {number * 40 + n}." for n in range(25)
    )


def answer(number: int) -> str:
    return f"Answer {number}: part {number} lacks screw {number * 40 + 7}, both sides say so."


def model(body: dict[str, Any]) -> ScriptedReply:
    """The model behind the server: it looks at both sides of a part at once, then answers; what it does not
    see it recalls."""
    messages = parse_list(body.get("messages") or body.get("input") or [])
    last = next(x for x in reversed(messages) if isinstance(x, m.User))
    results = [x for x in messages[messages.index(last) :] if isinstance(x, m.Result)]
    return say(*_reply(last.text, results, len(messages)), usage=Usage(input=size(body), output=30))


def _reply(asked: str, results: list[m.Result], at: int) -> Iterator[Any]:
    if LAST in asked:
        if not results:
            yield m.call(f"r{at}", recall_tool.NAME, query="code word of the vault")
        else:
            yield "heliotrope" if SECRET in results[-1].text else "I do not know."
        return
    number = int(asked.rpartition("Question ")[2].split(".")[0])
    if not results:
        yield "I look at both sides."
        for side in ("left", "right"):
            yield m.call(f"c{number}{side}", "look", number=number, side=side)
    else:
        yield answer(number) if len(results) == 2 else f"{len(results)} results are not two"


def killed(way: str, url: str, store: str, turns: int) -> list[str]:
    """What a process has said when it is killed, in the middle of a turn after so many."""
    with subprocess.Popen(_program(way, url, store, 0, 999), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        said = [program.stdout.readline() for _ in range(turns)]
        program.kill()
        return [line.strip() for line in [*said, *program.stdout]]


def again(way: str, url: str, store: str, turn: int) -> str:
    """What another process says, which goes on with that turn."""
    command = _program(way, url, store, turn, turn + 1)
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _program(way: str, url: str, store: str, first: int, last: int) -> list[str]:
    talk = [sys.executable, "-m", "tests.integrations.talk", way]
    return [*talk, url, store, "killed", str(first), str(last)]


def size(body: dict[str, Any]) -> int:
    """Tokens of all texts of a request: prompts, messages, calls and definitions of tools."""
    counter = get("o200k")
    asked = [body.get(key) for key in ("system", "instructions", "messages", "input", "tools")]
    texts = list(_texts(asked))
    return counter.text("\n".join(texts)) + 4 * len(body.get("messages") or body.get("input") or ())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "encrypted_content":
                yield str(key)
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def check(server: WireServer) -> None:
    """Every request was valid and inside the window, and there were folds."""
    assert server.problems == []
    largest = max(map(size, server.bodies))
    assert WINDOW // 3 < largest <= WINDOW, f"{largest} tokens"
    last = str(server.bodies[-1])
    assert "conversation up to here, folded." in last or " tokens, #" in last, (
        "some in one message, or clipped in place"
    )
