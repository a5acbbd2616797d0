"""Records conversations for the documentation: `python -m tests.agent.record`.

Writes `docs/recordings/chat-*.cast` (asciinema, version 2): the real program in a pseudo-terminal, in its time, with a
scripted model behind HTTP on this machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from refold import messages as m
from refold.models.scripted import ScriptedReply, say
from refold.testing.wire import WireServer
from refold.text.lenient_json import JsonObject
from tests.agent.terminal import Nursery, Terminal, environment

OUT = Path(__file__).parents[2] / "docs" / "recordings"
SIZE = (30, 100)
KEY, THINK, READ = 0.04, 0.7, 1.2
"""Seconds between two keys of the user, that the model takes, and that it takes to read the screen."""
LONG = "It is one of the parts that everything else rests on, so I describe it at some length. " * 12


class Recording:
    """A user at a terminal; what the terminal shows is kept with its time."""

    def __init__(self, folder: Path, nursery: Nursery, server: WireServer) -> None:
        self.folder, self.nursery, self.server = folder, nursery, server
        self.root, self.home = folder / "project", folder / "home"
        self.root.mkdir()
        self.home.mkdir()
        self.pieces: list[tuple[float, str]] = []
        self.run: Terminal

    def start(self, *arguments: str) -> None:
        line = " ".join(["refold chat", *arguments])
        self.pieces.append((time.monotonic(), f"$ {line}\r\n"))
        given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": self.server.v1}
        options = [
            "--model",
            "openai:gpt-5",
            "--store",
            f"sqlite:{self.folder / 'chat.db'}",
            "--summariser",
            "digest",
        ]
        words = ["chat", *options, *arguments]
        self.run = self.nursery.start(words, self.root, environment(self.home, **given), SIZE)
        self.run.until("› ", "free ")

    def type(self, text: str, *expected: str, end: str = "\r") -> None:
        """One key after the other; then what is expected, and a moment to read it."""
        for key in text:
            self.run.type(key, end="")
            self.run.settle(KEY)
        self.run.type("", end=end)
        self.run.until(*expected)
        end = time.monotonic() + READ
        while time.monotonic() < end:
            self.run.settle(KEY)

    def leave(self) -> None:
        self.run.leave()
        self.stop()

    def kill(self) -> None:
        self.run.kill()
        self.stop()
        self.pieces.append((time.monotonic(), "\r\nKilled\r\n"))

    def stop(self) -> None:
        self.pieces += self.run.pieces

    def write(self, name: str, title: str) -> None:
        header = {"version": 2, "width": SIZE[1], "height": SIZE[0], "title": title}
        began = self.pieces[0][0]
        events = [[round(at - began, 3), "o", text] for at, text in self.pieces]
        rows = [json.dumps(each, ensure_ascii=False) for each in (header, *events)]
        text = "\n".join(rows).replace(str(self.root), "~/project")
        assert str(self.folder) not in text
        (OUT / f"{name}.cast").write_text(text + "\n")


def an_edit(recording: Recording) -> None:
    (recording.root / "prices.py").write_text(
        "def total(prices, rebate=0):\n    result = sum(prices)\n    return result - result * rebate / 10\n"
    )
    (recording.root / "test.sh").write_text(
        "python3 -c 'import prices; assert prices.total([60, 40], 10) == 90' && echo 1 passed\n"
    )
    recording.start()
    recording.type("A rebate of 10 is ten per cent, but everything is free. See @prices.py", "n(o):")
    recording.type("y", "n(o):")
    recording.type("y", "all tests pass", "› ")
    recording.type("/diff", "+    return", "› ")
    recording.leave()


EDIT = [
    say("I look at it first.", m.call("1", "Read", path="prices.py")),
    say(
        "It divides by 10 where it should divide by 100.",
        m.call("2", "Edit", path="prices.py", old_string="rebate / 10", new_string="rebate / 100"),
    ),
    say("Now its test.", m.call("3", "Bash", command="PATH=/usr/bin:/bin sh test.sh")),
    say("A rebate is now taken as **per cent**, and all tests pass."),
]


def a_fold(recording: Recording) -> None:
    (recording.root / "log.txt").write_text(
        "".join(f"{n:03} request took {n * 7 % 90} ms\n" for n in range(200))
    )
    recording.start("--window", "6000")
    for part in ("parser", "planner", "store"):
        recording.type(f"Describe the {part}", f"That is the {part}.", "› ")
    recording.type("And what is in log.txt?", "(/expand 1)", "slow ones", "› ")
    recording.type("/compact the parser", "Folded ", "/undo to undo", "› ")
    recording.type("/undo", "undone", "› ")
    recording.type("/redo", "redone", "› ")
    recording.type("/recall planner", "turn 2", "› ")
    recording.type("/expand 1", "199 request", "› ")
    recording.leave()


FOLD = [
    *(say(f"{LONG}\n\nThat is the {part}.") for part in ("parser", "planner", "store")),
    say(m.call("1", "Read", path="log.txt")),
    say("Two hundred requests; the slow ones take 89 ms."),
]


def a_kill(recording: Recording) -> None:
    recording.start("--permission", "all")
    recording.type("Build it, please", "compiling part 2")
    recording.kill()
    recording.start("--continue", "--permission", "all")
    recording.type("Go on", "It was interrupted", "› ")
    recording.type("Have somebody look at it", "nothing is left of it", "› ")
    recording.type("And build it again", "compiling part 2")
    recording.type("", "interrupted; the conversation so far is kept", "› ", end="\x03")
    recording.leave()


BUILD = "for n in 1 2 3 4 5 6 7 8 9; do echo compiling part $n; sleep 1; done"
KILL = [
    say("I build it.", m.call("1", "Bash", command=BUILD)),
    say("It was interrupted, and what it did is unknown. I have it looked at before I build again."),
    say(m.call("2", "Task", description="look for leftovers", prompt="Is anything left of a build here?")),
    say("I look.", m.call("3", "LS", path=".")),
    say("The folder is empty."),
    say("The sub-agent says: nothing is left of it."),
    say("Once more, then.", m.call("4", "Bash", command=BUILD)),
]

RECORDINGS: dict[str, tuple[str, Callable[[Recording], None], list[ScriptedReply]]] = {
    "chat-edit": ("refold chat: an edit, seen before it is made, and its test", an_edit, EDIT),
    "chat-fold": ("refold chat: a fold, undo, expand and recall", a_fold, FOLD),
    "chat-kill": ("refold chat: killed and resumed, a sub-agent, Ctrl-C", a_kill, KILL),
}


def main() -> None:
    nursery = Nursery()
    for name in sys.argv[1:] or RECORDINGS:
        title, play, script = RECORDINGS[name]
        left = list(script)

        def answer(_: JsonObject, left: list[ScriptedReply] = left) -> ScriptedReply:
            time.sleep(THINK)
            return left.pop(0)

        with WireServer(then=answer) as server, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            recording = Recording(Path(folder), nursery, server)
            play(recording)
            recording.write(name, title)
    nursery.close()


if __name__ == "__main__":
    main()
