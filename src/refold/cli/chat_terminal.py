"""The conversation in a terminal: a prompt with history and completion, a status line, turns that can be
stopped.

The prompt appears before the engine is loaded: slow imports happen while the user types.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import fragment_list_len, fragment_list_width
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from refold.cli.chat_history import create_history
from refold.cli.output import echo, first_line
from refold.text.plural import counted
from refold.text.terminal import clean

if TYPE_CHECKING:
    from rich.console import Console

    from refold.agent.chat import Chat
    from refold.agent.events import TurnEvent
    from refold.agent.permissions import NeedsPermission, PermissionAnswer
    from refold.cli.chat_diff import DiffRow
    from refold.cli.chat_screen import Printer, Verbosity
    from refold.messages import Call
    from refold.session import Session

BAR = 24
"""Width of the bar in the status line."""
_COMMAND = re.compile(r"/[^/\s]*(?=\s|\Z)")
"""Text that begins with a slash and is not a path."""
_PLAIN = re.compile(r"[A-Za-z0-9/._-]*")
_MENTION = re.compile(r'(?:^|(?<=[^A-Za-z0-9]))@("?)([^"\n@]*)$')


class Terminal:
    """One conversation, until the user leaves it. `make` is called while the first prompt waits. `resumes`:
    the state of an earlier conversation is shown."""

    chat: Chat
    printer: Printer
    screen: Console

    def __init__(
        self,
        make: Callable[[], Chat],
        verbosity: Verbosity,
        *,
        resumes: bool = False,
        rules: Sequence[str] = (),
    ) -> None:
        self._make, self._resumes, self._rules = make, resumes, rules
        self._verbosity: Verbosity = verbosity
        self._later: list[TurnEvent] = []
        """Events during the prompt, shown after it."""
        self._asking = False
        self._shown = asyncio.Event()
        """Set when the prompt is displayed."""
        self.draft = ""
        """Initial text of the next prompt: a message returned for editing (B16)."""
        self.leaving = False
        self._status: list[StyleAndTextTuples] = [[("", " starting … ")]]
        """The status line, from its longest form to its shortest."""
        self._prompt: PromptSession[str] = PromptSession(
            history=FileHistory(str(create_history())),
            completer=ChatCompleter(Path.cwd()),
            complete_while_typing=False,
            multiline=True,
            key_bindings=_keys(),
            bottom_toolbar=self._toolbar,
            prompt_continuation="  ",
        )

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        echo(f"refold chat in {Path.cwd()}; /help lists commands, Ctrl-D quits")
        if self._rules:
            echo(f"rules: {', '.join(self._rules)}")
        self._prompt.app.after_render += self._is_shown
        loading = asyncio.ensure_future(self._loaded())
        try:
            await self._talk(loading)
        finally:
            await loading
            await self.chat.close()
        if self.chat.session.entries:
            self.screen.print(f"Resume with: refold chat --resume {self.chat.session.id}", style="dim")

    async def _talk(self, loading: asyncio.Future[None]) -> None:
        while not self.leaving:
            try:
                text = await self._read()
            except EOFError:
                return
            except KeyboardInterrupt:
                continue
            finally:
                self._shown.set()
            await loading
            self._tell_later()
            with _silent_keys():
                if _COMMAND.match(text):
                    from refold.cli.chat_commands import run_command

                    await run_command(self, text)
                elif text.strip():
                    await self.turn(text)
            self.refresh()

    def _tell(self, event: TurnEvent) -> None:
        if self._prompt.app.is_running or self._asking:
            self._later.append(event)
        else:
            self.printer(event)

    def _tell_later(self) -> None:
        """Shows what happened while the user typed, except that something started."""
        from refold.agent.events import FoldStarted

        events, self._later = self._later, []
        for event in events:
            if not isinstance(event, FoldStarted):
                self.printer(event)

    async def _read(self) -> str:
        draft, self.draft = self.draft, ""
        return await self._prompt.prompt_async([("bold ansicyan", "› ")], default=draft)

    # ── beginning ───────────────────────────────────────────────────────────────────────────────

    async def _loaded(self) -> None:
        """Loads the rest while the prompt is shown; a failure ends the prompt."""
        await self._shown.wait()
        try:
            await asyncio.to_thread(self._load)
            if self._resumes and self._prompt.app.is_running:
                await run_in_terminal(self._tell_state)  # above the prompt
            elif self._resumes:
                self._tell_state()
            self.refresh()
        except BaseException:
            self.leaving = True
            if self._prompt.app.is_running:
                self._prompt.app.exit(exception=EOFError)
            raise
        self._prompt.app.invalidate()

    def _is_shown(self, _: object) -> None:
        self._shown.set()

    def _load(self) -> None:
        from refold.cli.chat_screen import Printer
        from refold.cli.output import console

        self.chat, self.screen = self._make(), console()
        self.printer = Printer(self.screen, self._verbosity)
        self.chat.tell, self.chat.ask = self._tell, self._ask

    async def turn_to(self, session: Session) -> None:
        """Switches to another conversation in the same folder."""
        left, self.chat = self.chat, self.chat.beside(session)
        await left.leave()
        if self.chat.agent:
            self.chat.agent.resume()

    def _tell_state(self) -> None:
        """Prints the state of a resumed conversation."""
        session, agent = self.chat.session, self.chat.agent
        waiting = agent.resume() if agent else 0
        self.screen.print(f"{counted(len(session.turns), 'turn')} so far; see /tree", style="dim")
        if waiting:
            text = f"{counted(waiting, 'interrupted call')}: outcome unknown; not run again"
            self.screen.print(text, style="yellow")

    async def turn(self, text: str) -> None:
        """One turn; Ctrl-C stops only the turn."""
        from refold.cli.chat_once import attempt

        outcome = await attempt(self.chat, text)
        if outcome.reply is not None:
            self.printer.done(outcome.reply)
            return
        self.printer.broken()
        why = "interrupted; the conversation so far is kept" if outcome.interrupted else outcome.error or ""
        self.screen.print(first_line(why, 500), style="yellow")

    # ── what stands around ──────────────────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """Updates the status line: model, use of the window, cost."""
        from refold.agent.figures import bills, filling, total_dollars

        chat = self.chat
        name = chat.model.name if chat.model else "no model"
        f = filling(chat.engine, chat.session, system=chat.system(), tools=chat.specs)
        spoken = f.used - f.system - f.summary
        bar: StyleAndTextTuples = []
        for size, style, mark in (
            (f.system, "fg:ansiblue", "█"),
            (f.summary, "fg:ansimagenta", "▓"),
            (spoken, "fg:ansigreen", "█"),
        ):
            cells = min(round(size * BAR / f.window + (0.49 if size else 0)), BAR)
            bar.append((style, mark * cells))
        bar.append(("fg:ansigray", "░" * max(BAR - fragment_list_len(bar), 0)))
        paid = total_dollars(bills([chat.session, *chat.children], chat.config.models))
        money = "" if paid is None else f" ${paid:.4f}"
        shares = f"system {f.system:,} summary {f.summary:,} verbatim {spoken:,} free {f.free:,}"
        short: StyleAndTextTuples = [("", f" {first_line(name, 20)} free {f.free:,}{money} ")]
        self._status = [
            [("", f" {first_line(name, 40)} "), *bar, ("", f" {shares}{money} ")],
            [("", " "), *bar, *short],
            short,
            [("", f" free {f.free:,} ")],
        ]

    def _toolbar(self) -> StyleAndTextTuples:
        room = self._prompt.app.output.get_size().columns
        return next((form for form in self._status if fragment_list_width(form) <= room), self._status[-1])

    def _show_lines(self, call: Call, lines: Sequence[DiffRow | str | None]) -> None:
        from refold.cli.chat_diff import render_rows

        for line in render_rows(str(call.arguments.get("path")), lines):
            self.screen.print(line, soft_wrap=True)

    async def _ask(self, call: Call, question: NeedsPermission) -> PermissionAnswer:
        """Asks whether a call may be made: yes, always, no. Events meanwhile are shown afterwards."""
        from refold.cli.chat_diff import MAX_DIFF_ROWS, diff_rows, written_out
        from refold.cli.output import styled
        from refold.tools.edit import preview

        self.printer.wait(None)
        changed = preview(call.name, call.arguments, self.chat.place.workspace)
        lines = diff_rows(*changed) if changed else written_out(call, question.question, self.screen.width)
        self._show_lines(call, lines[:MAX_DIFF_ROWS])
        self.screen.print(styled(("? ", "bold yellow"), question.question))
        for detail in question.details:
            self.screen.print(detail, style="dim", soft_wrap=True)
        if question.offer:
            self.screen.print(f"always in this conversation: {question.offer}", style="dim", soft_wrap=True)
        keys = ["y(es)", *(["a(lways)"] if question.offer else []), "n(o)"]
        if len(lines) > MAX_DIFF_ROWS:
            self.screen.print(f"… {len(lines) - MAX_DIFF_ROWS:,} more lines (d shows all)", style="dim")
            keys.append("d(iff)" if changed else "d(etails)")
        self._asking, waiting = True, None
        self._forget_keys()
        try:
            while (given := await _answer(f"{', '.join(keys)}: ", len(lines) > MAX_DIFF_ROWS)) == "details":
                self._show_lines(call, lines)
            waiting = None if given == "no" else f"running {first_line(call.name, 40)}"
            return given
        except (KeyboardInterrupt, EOFError):
            raise asyncio.CancelledError from None
        finally:
            self._asking = False
            self._tell_later()
            self.printer.wait(waiting)

    def _forget_keys(self) -> None:
        """Discards keys that were typed before a question appeared."""
        clear_typeahead(self._prompt.app.input)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def _silent_keys() -> Generator[None]:
    """Hides keys typed while there is no prompt; the next prompt receives them."""
    before = termios.tcgetattr(sys.stdin)
    after = [*before]
    after[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, after)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


async def _answer(prompt: str, more: bool) -> PermissionAnswer | Literal["details"]:
    answers: dict[str, PermissionAnswer | Literal["details"]] = {"y": "once", "a": "always", "n": "no"}
    if more:
        answers["d"] = "details"
    asked: PromptSession[str] = PromptSession()
    while True:
        # The turn has a handler for Ctrl-C: one of the prompt would take its place, and leave none.
        given = await asked.prompt_async(prompt, handle_sigint=False)
        if (first := given.strip().lower()[:1]) in answers:
            return answers[first]


def _keys() -> KeyBindings:
    """Enter sends (as Ctrl-J before the prompt appears); Alt-Enter starts a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


class ChatCompleter(Completer):
    """Completes /commands at the beginning and @files anywhere."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            from refold.cli.chat_commands import CHAT_COMMANDS

            for name, command in CHAT_COMMANDS.items():
                if f"/{name}".startswith(text):
                    yield Completion(f"/{name}", -len(text), display_meta=command.help)
            return
        if mention := _MENTION.search(text):
            yield from self._files(mention[2], len(mention[0]))

    def _files(self, typed: str, length: int) -> Iterable[Completion]:
        folder, _, prefix = typed.rpartition("/")
        try:
            here = (self._root / folder).resolve()
            if not here.is_relative_to(self._root):
                return
            found = sorted(os.scandir(here), key=lambda entry: entry.name)
        except (OSError, ValueError):
            return
        for entry in found:
            if not entry.name.startswith(prefix) or (entry.name.startswith(".") and not prefix):
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            path += "/" if entry.is_dir() else ""
            shown = f"@{path}" if _PLAIN.fullmatch(path) else f'@"{path}' + ("" if entry.is_dir() else '"')
            if path.isprintable() and '"' not in path:
                yield Completion(shown, -length, display=clean(entry.name))
