"""What the coding agent costs beside the model: until the prompt is there, and in every turn.

Start-up is measured as a user sees it: the real command in a pseudo-terminal, from its start to the prompt; beside it
what Python and importing click take. A turn is one question, one Read and one answer of a scripted model that takes no
time; beside it the same turn by hand on a bare list, and the part of it that is the engine's.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import results

PROMPT = "›".encode()


def run(quick: bool = False) -> dict[str, Any]:
    rounds = 3 if quick else 15
    with tempfile.TemporaryDirectory() as folder:
        started = {
            "python": timed(rounds, lambda: python("pass")),
            "import click": timed(rounds, lambda: python("import click")),
            "refold chat, to the prompt": timed(rounds, lambda: to_prompt(Path(folder))),
        }
    turns = {
        str(length): turn(length, 20 if quick else 100) for length in ((50,) if quick else (50, 500, 2000))
    }
    return {"start": started, "turns": turns}


def timed(rounds: int, step: Callable[[], float]) -> dict[str, float]:
    """Milliseconds: the best and the middle one."""
    step()
    found = sorted(1000 * step() for _ in range(rounds))
    return {"best": round(found[0], 1), "median": round(median(found), 1)}


def compiled() -> dict[str, str]:
    """An environment in which modules are compiled once, as where a package is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    cache = str(Path(tempfile.gettempdir()) / "refold-bench-pycache")
    return {**kept, "PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": str(results.ROOT / "src")}


def python(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=compiled())
    return time.perf_counter() - began


def to_prompt(folder: Path) -> float:
    """Seconds from the start of the command to its prompt."""
    environment = {
        **compiled(),
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "TERM": "xterm",
    }
    began = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "refold", "chat"], environment)
    seen = b""
    while PROMPT not in seen:
        select.select([master], [], [], 60)
        seen += os.read(master, 65536)
    took = time.perf_counter() - began
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(master)
    return took


# ── a turn ──────────────────────────────────────────────────────────────────────────────────────


def turn(length: int, rounds: int) -> dict[str, float]:
    """Milliseconds of one turn in a conversation of so many turns."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a.py").write_text("def f():\n    return 1\n" * 40)
        whole, engine = agent_turns(root, length, rounds)
        return {"whole": ms(whole), "engine": ms(engine), "by hand": ms(bare_turns(root, length, rounds))}


def script(turns: int) -> list[Any]:
    from refold import messages as m
    from refold.models.scripted import say

    reads = [say("I look.", m.call(f"c{n}", "Read", path="a.py")) for n in range(turns)]
    return [line for read in reads for line in (read, "It returns 1.")]


def ms(seconds: list[float]) -> float:
    return round(1000 * median(seconds), 2)


def agent_turns(root: Path, length: int, rounds: int) -> tuple[list[float], list[float]]:
    """Of whole turns, and of what `prepare` and appending take in each."""
    from refold.agent.chat import Chat, ChatOptions
    from refold.agent.folder_sessions import fresh
    from refold.models.scripted import Scripted

    model = Scripted(*script(length + rounds))
    chat = Chat(fresh(root), root, ChatOptions(permission="all"), model=model)
    spent = 0.0

    def clocked(method: Callable[..., Any]) -> Callable[..., Any]:
        async def prepare(*given: Any, **more: Any) -> Any:
            nonlocal spent
            began = time.perf_counter()
            try:
                return await method(*given, **more)
            finally:
                spent += time.perf_counter() - began

        return prepare

    chat.engine.prepare = clocked(chat.engine.prepare)

    async def work() -> tuple[list[float], list[float]]:
        nonlocal spent
        whole: list[float] = []
        engine: list[float] = []
        for number in range(length + rounds):
            began, spent = time.perf_counter(), 0.0
            await chat.say(f"Question {number}: what does it return?")
            whole.append(time.perf_counter() - began)
            engine.append(spent)
        return whole[length:], engine[length:]

    return asyncio.run(work())


def bare_turns(root: Path, length: int, rounds: int) -> list[float]:
    """The same by hand: a list, the model, the file."""
    from refold import messages as m
    from refold.models.reply import complete
    from refold.models.scripted import Scripted
    from refold.protocols import Request

    model = Scripted(*script(length + rounds))
    messages: list[m.Message] = []

    async def work() -> list[float]:
        found: list[float] = []
        for number in range(length + rounds):
            began = time.perf_counter()
            messages.append(m.user(f"Question {number}: what does it return?"))
            for _ in range(2):
                reply = await complete(model, Request(messages=tuple(messages)))
                messages.append(reply.message)
                calls = reply.message.calls
                messages.extend(m.result(c.id, (root / c.arguments["path"]).read_text()) for c in calls)
            found.append(time.perf_counter() - began)
        return found[length:]

    return asyncio.run(work())
