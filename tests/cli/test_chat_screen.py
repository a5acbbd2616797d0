"""What a turn looks like (A21): Markdown comes block by block, whole, in order, and nothing is printed twice."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold import messages as m
from refold.agent import events
from refold.cli.chat_screen import Printer, call_line, final_text, result_line, result_text
from refold.cli.console import Screen
from refold.protocols import TextDelta
from refold.tools.base import failure, success


class Blocks(Printer):
    """Keeps what is printed as Markdown."""

    def __init__(self) -> None:
        screen = Screen()
        screen.file = io.StringIO()
        screen._force_terminal = True
        super().__init__(screen)
        self.blocks: list[str] = []

    def _markdown(self, text: str) -> None:
        self.blocks.append(text)


LINES = ["", "", "text", "# title", "- item", "```", "```python", "~~~", "    code", "| a | b |", "\t"]


@given(st.lists(st.sampled_from(LINES), max_size=20).map("\n".join), st.integers(1, 9))
@example("before\n\n```\na\n\nb\n```\n\nafter", 1)
@example("", 1)
def test_blocks_are_the_text_and_no_fence_is_torn(text: str, size: int) -> None:
    printer = Blocks()
    printer(events.RequestStarted("r", 1))
    for at in range(0, len(text), size):
        printer(events.ReplyStreamed(TextDelta(text[at : at + size])))
    printer(events.ReplyFinished(m.assistant(text)))
    assert "".join(printer.blocks) == text
    for block in printer.blocks[:-1]:
        assert sum(line.lstrip(" ").startswith(("```", "~~~")) for line in block.split("\n")) % 2 == 0


def test_a_block_is_shown_as_soon_as_it_ends() -> None:
    printer = Blocks()
    printer(events.RequestStarted("r", 1))
    printer(events.ReplyStreamed(TextDelta("First.\n\nSecond, not yet")))
    assert printer.blocks == ["First.\n\n"]
    printer(events.RequestStarted("r", 2))
    assert printer.blocks == ["First.\n\n", "Second, not yet"], (
        "what came before the reply broke off is shown"
    )


def test_before_a_retry_the_reason_is_shown() -> None:
    printer = Blocks()
    printer(events.RequestStarted("r", 2, "m: 429 rate limit; try again later"))
    printer(events.RequestStarted("r", 3, "m: 500 server error"))
    shown = printer.screen.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "m: 429 rate limit; retrying" in shown and "m: 500 server error; retrying" in shown


def test_a_reply_that_came_without_pieces_is_shown() -> None:
    printer = Blocks()
    printer(events.RequestStarted("r", 1))
    printer(events.ReplyFinished(m.assistant("All at once.")))
    assert printer.blocks == ["All at once."]


def test_the_final_text_is_the_last_one() -> None:
    assert final_text(m.Assistant((m.Text("a thought"), m.Text("the answer")))) == "the answer"
    assert final_text(m.Assistant(())) == ""


@pytest.mark.parametrize("evil", ["\x1b[2J", "a\nb", "\u202e"])
def test_lines_are_lines(evil: str) -> None:
    call = m.call("c", f"Read{evil}", path=f"x{evil}", content="y" * 1000)
    line = call_line(call, 100)
    assert len(line) <= 100
    assert "\n" not in line
    assert "\x1b" not in line


def test_results_are_told_in_words() -> None:
    call = m.call("c", "Read", path="a")
    good = success({"path": "a", "content": "1\tx = 1"}, "The whole file.").result(call)
    bad = failure("not_found", "`a` does not exist").result(call)
    assert result_line(good) == "success The whole file."
    assert result_line(bad) == "not_found: `a` does not exist"
    assert result_text(good).splitlines() == ["The whole file.", "path: a", "content: 1\tx = 1"]
    assert result_text(m.result("c", "plain text")) == "plain text"
