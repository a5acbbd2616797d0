"""The recordings of the chat are well-formed, draw a whole screen, and show today's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyte
import pytest

from tests.agent.record import RECORDINGS
from tests.agent.terminal import Emulator

ROOT = Path(__file__).parents[2]
SHOWN = {
    "chat-edit": [
        "; /help lists commands, Ctrl-D quits",
        "always in this conversation: ",
        "y(es)",
        "a(lways)",
        "it can write only there and in /tmp, and has ",
    ],
    "chat-fold": [
        "more lines (/expand ",
        "Folded ",
        "/undo to undo",
        " undone",
        " redone",
    ],
    "chat-kill": [
        "running ",
        "(Ctrl-C stops)",
        " so far; see /tree",
        ": outcome unknown; not run again",
        "interrupted; the conversation so far is kept",
        "Resume with: refold chat --resume ",
    ],
}
"""Words of the program, as its source has them."""


def test_each_recording_is_checked() -> None:
    assert SHOWN.keys() == RECORDINGS.keys()


@pytest.mark.parametrize("name", SHOWN)
def test_a_recording_shows_the_words_of_the_program(name: str) -> None:
    lines = (ROOT / "docs" / "recordings" / f"{name}.cast").read_text("utf-8").splitlines()
    header: dict[str, Any] = json.loads(lines[0])
    assert (header["version"], header["title"]) == (2, RECORDINGS[name][0])
    events: list[tuple[float, str, str]] = [json.loads(line) for line in lines[1:]]
    times = [at for at, _, _ in events]
    assert times == sorted(times) and times[0] == 0.0 and times[-1] < 90
    assert {kind for _, kind, _ in events} == {"o"}
    screen = Emulator(header["width"], header["height"])
    pyte.Stream(screen).feed("".join(text for _, _, text in events))
    assert screen.oddities == []
    drawn = "".join(text for _, _, text in events)
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src/refold").rglob("*.py"))
    for words in SHOWN[name]:
        assert words in source, f"the program no longer says {words!r}: python -m tests.agent.record {name}"
        assert words in drawn, f"{name} does not show {words!r}"
    assert f"recordings/{name}.cast" in (ROOT / "docs" / "chat.md").read_text("utf-8")
    assert "/tmp/tmp" not in drawn
