"""The output of a turn in a terminal, in three verbosities (A21).

`full`: everything, as it comes. `compact`: one line per call, result and intermediate message, and the last
message in full. `quiet`: only the last message.
"""

from __future__ import annotations

import asyncio
import re
from threading import RLock
from time import monotonic
from typing import Any, Literal, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from refold.agent import events
from refold.agent.chat import envelope
from refold.cli.output import first_line, styled
from refold.compaction.details import LayeredDetails
from refold.messages import Assistant, Call, Result, arguments_json, compact_json
from refold.messages import Text as Said
from refold.protocols import TextDelta, ThinkingDelta
from refold.text.terminal import clean
from refold.text.truncate import head

Verbosity: TypeAlias = Literal["full", "compact", "quiet"]
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.M)
TAIL_LINES, TAIL_CHARS = 4, 4_000
"""Lines of a running command's output that are shown, and characters that are kept for them."""
EDGE_LINES, UNCUT_CHARS = 8, 2_400
"""Lines shown from the beginning and the end of a long text; length up to which a text is not shortened."""
TICK = 0.1
"""Seconds between two frames of the spinner."""
CALL_CHARS, ARGUMENT_CHARS = 300, 60
"""Maximum characters of a call, and of an argument on one line."""


class Waiting:
    """What is being waited for, for how long, and the last lines of a command's output."""

    def __init__(self, what: str) -> None:
        self.what, self._since, self._written = what, monotonic(), ""

    def hear(self, text: str) -> None:
        self._written = (self._written + text)[-TAIL_CHARS:]

    def __rich__(self) -> Text:
        seconds = int(monotonic() - self._since)
        text = styled(f"{self.what} … {f'{seconds} s ' if seconds else ''}(Ctrl-C stops)")
        for line in self._written.rstrip().split("\n")[-TAIL_LINES:] if self._written.strip() else ():
            text.append(f"\n{first_line(line, 400)}", "dim")
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


class Printer:
    """Prints events of a turn. The screen cleans all output: no text can control the terminal."""

    def __init__(self, screen: Console, verbosity: Verbosity = "full") -> None:
        self.screen = screen
        self.verbosity: Verbosity = verbosity
        self._text = ""
        """Text of the reply that is not printed yet."""
        self._printed = False
        self._live: Live | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lock = RLock()  # some events are told by threads
        self._waiting = Waiting("")
        self.collapsed: list[str] = []
        """Shortened texts, which `/expand` shows in full."""

    def __call__(self, event: events.TurnEvent) -> None:
        with self._lock:
            self._show(event)

    def _show(self, event: events.TurnEvent) -> None:
        match event:
            case events.RequestStarted(attempt=attempt, failure=failure):
                self._asking(attempt, failure)
            case events.ReplyStreamed(event=TextDelta(text)):
                self.wait("writing")
                self._hear(text)
            case events.ReplyStreamed(event=ThinkingDelta()):
                self.wait("thinking")
            case events.ReplyFinished(message):
                self.wait(None)
                self._answered(message)
            case events.ToolStarted(call):
                self._running(call)
            case events.ToolOutput(text=text):
                self._waiting.hear(text)
            case events.ToolFinished(call, result):
                self.wait(None)
                self._ran(call, result)
            case events.FoldStarted(reason, model):
                self.wait(f"folding the conversation ({first_line(model, 40)}: {first_line(reason, 60)})")
            case events.FoldFinished(fold):
                self.wait(None)
                self._folded(fold)
            case events.FoldFailed(code, text):
                self.wait(None)
                self.note(f"Not folded ({code}): {text}")
            case events.Notice(text):
                self.note(text)
            case events.ReplyStreamed():
                pass

    def done(self, reply: Assistant) -> None:
        """Ends the turn with its last message."""
        self.wait(None)
        if self.verbosity != "full":
            self._markdown(final_text(reply))

    def broken(self) -> None:
        """Ends an interrupted turn and shows the partial reply."""
        self.wait(None)
        if self.verbosity == "full":
            self._flush()
        self._text = ""

    def note(self, text: str) -> None:
        """Prints a remark about the conversation."""
        if self.verbosity != "quiet":
            self.screen.print(first_line(text, 400), style="dim")

    def wait(self, what: str | None) -> None:
        """Shows a spinner while nothing comes; Ctrl-C stops the turn."""
        if what is None:
            self._stop_waiting()
        if what is None or not self.screen.is_terminal or self.verbosity == "quiet":
            return
        if self._live is None or what != self._waiting.what:
            self._waiting = Waiting(what)
        if self._live is None:
            # Rich would draw it in a thread of its own, between the halves of what is printed here.
            self._live = Live(console=self.screen, auto_refresh=False, transient=True)
            self._live.start()
        spinner = Spinner("dots", self._waiting, style="status.spinner")
        self._live.update(spinner, refresh=True)
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        with self._lock:
            if self._live is not None:
                self._live.refresh()
                try:
                    self._timer = asyncio.get_running_loop().call_later(TICK, self._tick)
                except RuntimeError:  # no loop here: it stands still
                    self._timer = None

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._live is not None:
            self._live.stop()
        self._timer = self._live = None

    # ── the reply ───────────────────────────────────────────────────────────────────────────────

    def _asking(self, attempt: int, failure: str) -> None:
        if attempt > 1:
            self.broken()
            why = re.sub(r"; try again\b.*", "", failure)  # it is tried again by itself
            self.note(f"{why or 'the connection was lost'}; retrying")
        self._text, self._printed = "", False
        self.wait("waiting for the model")

    def _hear(self, text: str) -> None:
        self._text += text
        if self.verbosity != "full":
            return
        if not self.screen.is_terminal:
            return  # whole at the end: the output is not a terminal, and pieces would be torn apart
        while (at := _block_end(self._text)) is not None:
            block, self._text = self._text[:at], self._text[at:]
            self._printed = True
            self._markdown(block)

    def _answered(self, message: Assistant) -> None:
        if self.verbosity == "full":
            if not self._text and not self._printed:
                self._text = message.text
            self._flush()
        elif self.verbosity == "compact" and message.calls and message.text.strip():
            self._line(first_line(message.text, self._width()))
        self._text = ""

    def _flush(self) -> None:
        text, self._text = self._text, ""
        self._markdown(text)

    def _markdown(self, text: str) -> None:
        if not text.strip():
            return
        if not self.screen.is_terminal:
            self.screen.print(text.strip("\n"), soft_wrap=True)
            return
        from rich.markdown import Markdown

        # Links are shown as text: the terminal is told no address that a model chose.
        self.screen.print(Markdown(clean(text), hyperlinks=False))

    # ── tools ───────────────────────────────────────────────────────────────────────────────────

    def _running(self, call: Call) -> None:
        if self.verbosity == "quiet":
            return
        if self.verbosity == "compact":
            self._line(("→ ", "cyan"), call_line(call, self._width() - 2))
        else:
            self._line(("→ ", "cyan"), (call.name, "bold"), f" {self._arguments(call)}")
        self.wait(f"running {first_line(call.name, 40)}")

    def _ran(self, call: Call, result: Result) -> None:
        if self.verbosity == "quiet":
            return
        mark = ("✗ ", "red") if result.is_error else ("← ", "green")
        if self.verbosity == "compact":
            line = f"{call.name}: {result_line(result)}"
            self._line(mark, first_line(line, self._width() - 2))
        else:
            text = result_text(result, brief=self.screen.is_terminal)
            self._line(mark, (call.name, "bold"), "\n", (self._part(text), "dim"))

    def _arguments(self, call: Call) -> str:
        """Arguments for a terminal: a path or command in full, others shortened to one line."""
        whole = arguments_json(call)
        if not self.screen.is_terminal:
            return whole
        if call.name in ("Edit", "MultiEdit") and "path" in call.arguments:
            return first_line(str(call.arguments["path"]), CALL_CHARS)
        if call.arguments.keys() in ({"path"}, {"command"}) and len(whole) <= CALL_CHARS:
            return first_line(str(next(iter(call.arguments.values()))), CALL_CHARS)
        if len(whole) <= CALL_CHARS:
            return whole
        self.collapsed.append(whole)
        return (
            f"{call_line(call, CALL_CHARS).removeprefix(call.name).strip()} (/expand {len(self.collapsed)})"
        )

    def _part(self, text: str) -> str:
        """The beginning and the end of a long text; the whole text if the output is not a terminal."""
        lines = text.split("\n")
        if not self.screen.is_terminal or (len(lines) <= 2 * EDGE_LINES + 1 and len(text) <= UNCUT_CHARS):
            return text
        self.collapsed.append(text)
        if len(lines) > 2 * EDGE_LINES + 1:
            more = f"… {len(lines) - 2 * EDGE_LINES:,} more lines (/expand {len(self.collapsed)})"
            lines = [*lines[:EDGE_LINES], more, *lines[-EDGE_LINES:]]
        shown = "\n".join(head(line, UNCUT_CHARS // EDGE_LINES) for line in lines)
        return head(shown, UNCUT_CHARS) + (
            f" (/expand {len(self.collapsed)})" if len(lines) <= 2 * EDGE_LINES else ""
        )

    def _folded(self, fold: Any) -> None:
        sizes = f"{fold.tokens_before:,} → {fold.tokens_after:,} tokens"
        self.note(f"Folded {sizes} ({fold.author or fold.strategy}); /undo to undo")
        if notice := LayeredDetails.of(fold).notice:
            self.note(notice)

    def _line(self, *pieces: str | tuple[str, str]) -> None:
        self.screen.print(styled(*pieces), soft_wrap=True)

    def _width(self) -> int:
        return max(self.screen.width, 40) if self.screen.is_terminal else 160


def final_text(reply: Assistant) -> str:
    texts = [part.text for part in reply.content if isinstance(part, Said) and part.text.strip()]
    return texts[-1] if texts else ""


def call_line(call: Call, width: int) -> str:
    """`Read path=src/a.py limit=20`"""
    if call.raw is not None:
        return first_line(f"{call.name} {call.raw}", width)
    shown = (f"{name}={first_line(str(value), ARGUMENT_CHARS)}" for name, value in call.arguments.items())
    return first_line(" ".join([call.name, *shown]), width)


def result_line(result: Result) -> str:
    """A result in a few words."""
    found = envelope(result)
    if found is None:
        return first_line(result.text, 200)
    if found.error is not None:
        return f"{found.error.code}: {found.error.message}"
    return f"{found.status} {found.text or result_text(result)}".strip()


_KNOWN = frozenset(
    ["path", "start_line", "end_line", "total_lines", "mtime", "applied", "replacements", "lines_added",
     "lines_removed", "bytes", "preview", "duration_seconds", "description"]
)  # fmt: skip
"""Fields that a reader knows from the call or does not need."""


def result_text(result: Result, *, brief: bool = False) -> str:
    """A result for a reader. `brief`: without what only a model needs."""
    found = envelope(result)
    if found is None:
        return result.text
    rows = [found.text] if found.text else []
    if found.error is not None:
        rows.append(f"{found.error.code}: {found.error.message}")
    for name, value in found.data.items():
        told = value if isinstance(value, str) else compact_json(value)
        if brief and name in ("content", "stdout", "stderr", "diff", "text", "answer"):
            rows += [told.rstrip("\n")] if told.strip() else []
        elif not (brief and (name in _KNOWN or (name, value) == ("exit_code", 0))):
            rows.append(f"{name}: {told}")
    return "\n".join(rows) or found.status


def _block_end(text: str) -> int | None:
    """The end of the first block of a Markdown text, if it is complete: a blank line outside a fence."""
    at = 0
    while (at := text.find("\n\n", at)) >= 0:
        if len(_FENCE.findall(text, 0, at)) % 2 == 0 and text[:at].strip():
            return at + 2
        at += 1
    return None
