"""A long session in a pseudo-terminal: the real command, a scripted model behind HTTP, a backlog of small tasks in a real
git repository; folds, undo, branches, sub-agents, kills and resumes on the way.

The model is told nothing but what the client sends. The user's words name the turn (`T0042`), so that a view which lost
them is noticed at once; each turn is a short list of steps (`Turn.steps`).
"""

from __future__ import annotations

import json
import os
import pty
import random
import re
import subprocess
import sys
import termios
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import refold
from refold import messages as m
from refold import tokens
from refold.entries import Fold, MessageEntry
from refold.models.scripted import ScriptedReply, say
from refold.stores import open_store
from refold.testing.wire import Http, WireServer
from refold.text.lenient_json import JsonObject
from tests.agent.terminal import COLUMNS, PATIENCE, ROWS, Terminal, environment, results

WINDOW = 8_000
PER_TASK = 20
TOKEN = re.compile(r"\b([TS]\d{4}b?)\b")
FILLER = "The change is small, its test says what it should do, and nothing else depends on it."
NOTES = """## Goal
Work through the backlog, one small task after another.

## Progress
Done what was asked for so far.

## Decisions
(none)

## Tried and failed
(none)

## Facts to keep
Each task has a test of its own: sh check.sh.

## Next step
What the user asks for next.
"""
SLOW = 0.15
"""Seconds that the model takes for each step of a turn in which the program is killed."""


class Turn(NamedTuple):
    token: str
    typed: str
    steps: list[ScriptedReply]

    @property
    def answer(self) -> str:
        return f"Done {self.token}."


def value(task: int) -> int:
    return task * 7 + 3


def make_repository(root: Path, tasks: int) -> None:
    (root / "work").mkdir(parents=True)
    for task in range(tasks):
        (root / "work" / f"task_{task:03}.py").write_text(
            f'"""Task {task}."""\n\n\ndef answer():\n    return None\n'
        )
    (root / "check.sh").write_text('grep -q "return $2$" work/task_$1.py && echo "passed $1"\n')
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "The backlog"]):
        own = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *own, *words], cwd=root, check=True, env=environment(root.parent))


def make_turn(number: int, tasks: int, again: bool = False) -> Turn:
    """What is asked for, and how the model goes about it."""
    task, place = number // PER_TASK, number % PER_TASK
    token, file = f"T{number:04}{'b' if again else ''}", f"work/task_{task:03}.py"
    calls: list[m.Call] = []

    def call(name: str, **arguments: Any) -> None:
        calls.append(m.call(f"c{token}_{len(calls)}", name, **arguments))

    match place:
        case 1:
            what = f"look at @{file}"
            call("Read", path=file)
        case 2:
            what = f"make task {task} return {value(task)} and run its test"
            call("Read", path=file)
            call("Edit", path=file, old_string="return None", new_string=f"return {value(task)}")
            call("Bash", command=f"sh check.sh {task:03} {value(task)}")
        case 3:
            what = f"write a note about task {task}"
            call("Write", path=f"notes/{task:03}.md", content=f"# Task {task}\n\nIt returns {value(task)}.\n")
        case 4:
            what = f"commit task {task}"
            command = f"git add -A && git -c user.name=a -c user.email=a@b.c commit -qm 'task {task:03}'"
            call("Bash", command=command)
        case 5:
            what = "count, which is long"
            call("Bash", command="seq 1 300; echo end of counting")
        case 6:
            what = f"what was said about task {max(task - 1, 0)}?"
            call("recall_conversation", query=f"task {max(task - 1, 0)} return")
        case 7 if task == tasks // 2:
            what = "have two others look at it"
            for helper in range(2):
                call(
                    "Task",
                    description=f"helper {helper}",
                    prompt=f"S{2 * number % 5_000 + helper:04} look at {file}",
                )
        case 8:
            what = f"find task {task}"
            call("Grep", pattern=f"Task {task}\\b")
        case _:
            what = f"and what about point {place}?"
    steps = [say(f"Step {at} of {token}.", each) for at, each in enumerate(calls)]
    if place == 7 and calls:
        steps = [say("Both at once.", *calls)]
    text = (
        f"About task {task}, point {place}: {FILLER}\n\n- one **thing**\n- another `thing`\n\nDone {token}."
    )
    return Turn(token, f"{token} {what}", [*steps, say(text)])


class Backend:
    """The model: steps of the turn that the last words of the user name."""

    def __init__(self) -> None:
        self.turns: dict[str, Turn] = {}
        self.done: Counter[str] = Counter()
        self.current, self.slow = "", False
        self.wrong: list[str] = []
        self.largest = self.summaries = 0
        self.server = WireServer(then=self.answer)

    def answer(self, body: JsonObject) -> ScriptedReply | Http:
        del self.server.requests[:-1]  # hundreds of megabytes otherwise
        users = [json.dumps(message["content"]) for message in body["messages"] if message["role"] == "user"]
        if "This comes from the program" in users[-1]:
            self.summaries += 1
            return say(NOTES)
        self.largest = max(self.largest, size(body))
        token = next((found[-1] for text in reversed(users) if (found := TOKEN.findall(text))), "")
        if self.slow:
            time.sleep(SLOW)
        if token.startswith("S"):
            self.done[token] += 1
            read = m.call(f"c{token}", "Read", path="check.sh")
            return say("Looking.", read) if self.done[token] == 1 else say(f"Seen by {token}.")
        if token != self.current:
            self.wrong.append(f"{self.current}: the last words of the user in the view are {token!r}")
        step, self.done[token] = self.done[token], self.done[token] + 1
        steps = self.turns[token].steps if token in self.turns else [say("?")]
        return steps[min(step, len(steps) - 1)]


def size(body: JsonObject) -> int:
    """Tokens of what a request says, calls and offers."""
    count = tokens.get()
    total = count.tools(body.get("tools", []))
    for message in body["messages"]:
        calls = [json.dumps(call["function"]) for call in message.get("tool_calls", ())]
        said = message.get("content") or ""
        total += count.text("\n".join([said if isinstance(said, str) else json.dumps(said), *calls]))
    return total


class Child:
    """Waits for programs that were started here."""

    def wait(self, pid: int) -> int:
        return os.waitpid(pid, 0)[1]


def start(arguments: list[str], folder: Path, variables: dict[str, str]) -> tuple[Terminal, float]:
    """The real program from nothing, and the seconds until its prompt is on the screen."""
    began = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "refold", *arguments], variables)
    termios.tcsetwinsize(master, (ROWS, COLUMNS))
    run = Terminal(Child(), pid, master)
    while not at_prompt(run):
        run.pump(began + PATIENCE)
    return run, time.perf_counter() - began


def at_prompt(run: Terminal) -> bool:
    screen = run.screen
    return screen.cursor.x == 2 and screen.display[screen.cursor.y].startswith("› ")


class Session:
    """A user with a backlog."""

    def __init__(self, folder: Path, *, tasks: int, kills: int, seed: int = 7) -> None:
        self.tasks, self.total = tasks, tasks * PER_TASK
        self.root, self.home = folder / "project", folder / "home"
        self.home.mkdir(parents=True)
        make_repository(self.root, tasks)
        self.store = f"sqlite:{folder / 'chat.db'}"
        self.chance = random.Random(seed)
        self.kills = set(self.chance.sample(range(1, self.total), kills))
        self.backend = Backend()
        self.run: Terminal
        self.keys: list[float] = []
        self.starts: list[float] = []
        self.acknowledged: list[Turn] = []
        self.broken: list[str] = []
        self.undone = self.branched = self.folds_seen = 0

    def work(self) -> dict[str, Any]:
        began, cpu = time.perf_counter(), os.times()
        with self.backend.server:
            self.open()
            for number in range(self.total):
                self.turn(number)
            self.run.leave()
            problems = list(self.backend.server.problems)
        assert problems == [], problems[:3]
        assert self.backend.wrong == [], self.backend.wrong[:3]
        now = os.times()
        return {
            "turns": self.total,
            "tasks": self.tasks,
            "kills": len(self.kills),
            "folds": self.folds_seen,
            "summaries": self.backend.summaries,
            "undone": self.undone,
            "branches": self.branched,
            "largest_request": self.backend.largest,
            "seconds": round(time.perf_counter() - began, 1),
            "cpu_seconds": round(
                now.children_user + now.children_system - cpu.children_user - cpu.children_system, 1
            ),
            "key_to_screen_ms": spread(self.keys),
            "first_start_ms": round(1000 * self.starts[0], 1),
            "resumed_start_ms": spread(self.starts[1:]) if self.starts[1:] else {},
        }

    def open(self, *more: str) -> None:
        mode = self.chance.choice(["all", "edits"])
        arguments = ["chat", "--model", "openai:scripted", "--window", str(WINDOW), "--store", self.store]
        given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": self.backend.server.v1}
        paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
        variables = environment(self.home, **given, **paths)
        self.run, seconds = start([*arguments, "--permission", mode, *more], self.root, variables)
        self.starts.append(seconds)

    # ── one turn ────────────────────────────────────────────────────────────────────────────────

    def turn(self, number: int, again: bool = False) -> None:
        turn = make_turn(number, self.tasks, again)
        self.backend.turns[turn.token], self.backend.current = turn, turn.token
        dies = number in self.kills and not again
        self.backend.slow = dies
        self.key(turn.typed[0])
        self.run.type(turn.typed[1:])
        if dies:
            self.die(number)
            self.turn(number, again=True)
            return
        self.finish(turn)
        if number % 97 == 50:
            self.look_around()
        if number % 211 == 60 or number == self.total // 2:
            self.branch(number)

    def key(self, char: str) -> None:
        """From a key to the screen."""
        began = time.perf_counter()
        self.run.type(char, end="")
        while self.run.screen.cursor.x != 3:
            self.run.pump(began + PATIENCE)
        self.keys.append(time.perf_counter() - began)

    def finish(self, turn: Turn) -> None:
        """Answer what is asked until the answer and the next prompt are there; then the screen is whole."""
        seen = self.answer_until(turn.answer)
        self.wait_for_prompt()
        if seen.count(turn.answer) != 1:
            self.broken.append(f"{turn.token}: its answer is shown {seen.count(turn.answer)} times")
        self.folds_seen += seen.count("Folded ")
        self.acknowledged.append(turn)
        self.check_screen(turn.token)

    def answer_until(self, text: str) -> str:
        since, answered, end = len(self.run.seen), False, time.perf_counter() + PATIENCE
        while text not in self.run.seen[since:]:
            self.run.pump(end)
            asks = self.run.screen.display[self.run.screen.cursor.y].rstrip().endswith("n(o):")
            if asks and not answered:
                self.run.type(self.chance.choice("yyya"))
            answered = asks
        return self.run.seen[since:]

    def wait_for_prompt(self) -> None:
        end = time.perf_counter() + PATIENCE
        while not at_prompt(self.run):
            self.run.pump(end)

    def check_screen(self, where: str) -> None:
        """The prompt with the cursor behind it, one status line at the bottom, nothing of what only moved."""
        end = time.perf_counter() + 5  # the status line comes a moment after the prompt
        while (found := self.flaws()) and time.perf_counter() < end:
            self.run.settle(0.02)
        if found:
            self.broken += [f"{where}: {each}" for each in found]
            self.broken.append(self.run.screen.shown)
        self.run.screen.above.clear()
        self.run.forget()

    def flaws(self) -> list[str]:
        screen = self.run.screen
        rows, bars = screen.display, [row for row in screen.display if " free " in row and "░" in row]
        return [
            *screen.oddities,
            *(f"left on the screen: {row!r}" for row in screen.transcript if "Ctrl-C stops)" in row),
            *([] if len(bars) == 1 and bars[0] == rows[-1] else [f"status lines: {bars}"]),
            *([] if at_prompt(self.run) else ["the cursor is not behind the prompt"]),
        ]

    def command(self, line: str, *expected: str) -> str:
        self.run.type(line)
        seen = self.run.until(*expected) if expected else ""
        self.wait_for_prompt()
        self.check_screen(line)
        return seen

    def look_around(self) -> None:
        self.command("/context", "free", "tokens;")
        self.command("/cost", "Total")
        self.command("/recall return", "turn")
        self.command("/expand")
        self.command("/compact", "old")  # folded, or nothing to fold
        if self.folds_seen:
            self.command("/undo", "undone")
            self.command("/redo", "redone")
            self.undone += 1

    def branch(self, number: int) -> None:
        """Back to the last own message, and the same again on a branch of its own."""
        last = self.acknowledged[-1]
        tree = self.command("/tree", "← leaf")
        key = re.findall(rf"([0-9a-f]{{12}}) user +{last.token} ", tree)[-1]
        self.run.type(f"/tree {key}")
        self.run.until("your message is in the prompt", f"› {last.token}")
        turn = make_turn(number, self.tasks, again=True)
        self.backend.turns[turn.token], self.backend.current = turn, turn.token
        self.run.type("", end="\x01" + "\x06" * len(last.token) + "b\r")  # to the beginning, behind the token
        self.finish(turn)
        self.branched += 1

    def die(self, number: int) -> None:
        """Killed at any moment of the turn, at the prompt or at a question."""
        end = time.perf_counter() + self.chance.uniform(0, 4 * SLOW)
        while (left := end - time.perf_counter()) > 0:
            self.run.settle(min(left, 0.05))
        self.run.kill()
        if self.acknowledged or self.stored():
            self.open("--continue")
            if " so far; see /tree" not in self.run.seen:
                self.run.until(" so far; see /tree")
        else:
            self.open()
        self.wait_for_prompt()

    # ── afterwards ──────────────────────────────────────────────────────────────────────────────

    def stored(self) -> list[str]:
        return [
            info.id for info in open_store(self.store).store.sessions() if not info.id.startswith("task-")
        ]

    def check(self) -> None:
        """Nothing is lost, nothing is there twice, the work is done."""
        assert self.broken == [], "\n".join(self.broken[:6])
        [id] = self.stored()
        session = refold.open(self.store, id=id)
        said = [x.message for x in session.entries if isinstance(x, MessageEntry)]
        asked = Counter(token for x in said if isinstance(x, m.User) for token in TOKEN.findall(x.text)[:1])
        answered = Counter(
            re.findall(r"Done (T\d{4}b?)\.", " ".join(x.text for x in said if isinstance(x, m.Assistant)))
        )
        shown = [turn.token for turn in self.acknowledged]
        assert [token for token in shown if asked[token] != 1 or answered[token] != 1] == []
        assert len(shown) == self.total + self.branched
        assert max(asked.values()) == 1
        assert all(len(texts) == 1 for texts in results(session).values())
        assert len(list(open_store(self.store).store.sessions())) == 3, (
            "two sub-agents, each in a session of its own"
        )
        assert self.backend.largest <= WINDOW
        for task in range(self.tasks):
            assert f"return {value(task)}\n" in (self.root / "work" / f"task_{task:03}.py").read_text()
            assert f"It returns {value(task)}." in (self.root / "notes" / f"{task:03}.md").read_text()
        log = self.git("log", "--format=%s").split("\n")
        assert sorted(set(log)) == sorted(["The backlog", *(f"task {task:03}" for task in range(self.tasks))])
        assert self.git("status", "--porcelain") == ""
        self.git("fsck", "--no-dangling")
        assert any(isinstance(x, Fold) for x in session.entries)

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env=environment(self.home),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


def spread(seconds: list[float]) -> dict[str, float]:
    """Milliseconds: the middle one, the 95th of a hundred, the longest."""
    rows = sorted(1000 * each for each in seconds)
    return {
        "median": round(median(rows), 1),
        "p95": round(rows[min(int(len(rows) * 0.95), len(rows) - 1)], 1),
        "longest": round(rows[-1], 1),
    }


ECHO = """
import os, tty
tty.setraw(0)
while True:
    os.write(1, os.read(0, 1))
"""


def echo(keys: int = 100) -> dict[str, float]:
    """From a key to the screen where a program does nothing but echo it: what this machine takes just now."""
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ECHO])
    run, found = Terminal(Child(), pid, master), list[float]()
    run.settle(1.0)
    for key in range(keys):
        began, before = time.perf_counter(), len(run.raw)
        run.type("ab"[key % 2], end="")
        while len(run.raw) == before:
            run.pump(began + PATIENCE)
        found.append(time.perf_counter() - began)
    run.kill()
    return spread(found)
