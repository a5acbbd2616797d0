"""Bash: a command in the workspace, confined, with a time limit and bounded output; no process is left
running."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from refold.text.frames import without_escapes
from refold.tools import sandbox
from refold.tools.base import Envelope, ToolContext, as_word, success, tool
from refold.tools.git_guard import GitGuard
from refold.tools.sandbox import Ground
from refold.tools.temp_folders import folder_for
from refold.tools.workspace import ToolRefused

T = TypeVar("T")
DEFAULT_SECONDS = 120
MAX_SECONDS = 600
OUTPUT_CHARS = 30_000
"""Maximum characters of stdout and of stderr; longer output loses its middle."""
_GIT = re.compile(r"(?<![\w.-])git(?=\s)")
QUESTION = "The command changed what git runs later, outside of the sandbox:\n{}\nKeep it?"
UNDONE = "Undone, because git would run it later outside of the sandbox and the user did not want it:"
_GRACE = 3.0
"""Seconds that a supervisor has to end everything before it is killed."""


class BashArguments(msgspec.Struct, frozen=True):
    command: Annotated[str, msgspec.Meta(description="Run by bash in the working folder; no terminal.")]
    timeout: Annotated[
        float,
        msgspec.Meta(
            description=f"Seconds until it is ended (default {DEFAULT_SECONDS}, at most {MAX_SECONDS})."
        ),
    ] = DEFAULT_SECONDS
    network: Annotated[
        bool, msgspec.Meta(description="It needs the network, localhost included; the user is asked.")
    ] = False


@tool("Bash", "run")
async def bash_tool(arguments: BashArguments, place: ToolContext) -> Envelope:
    """Run a command with bash in the working folder. It can change files there and in /tmp; it sees no other
    files of the user, no secrets, and no network unless network is set. What git keeps (.git) is changed
    only by commands that name git themselves, not by scripts that call it. Ended after timeout seconds;
    processes left in the background are ended with it. Output beyond 30000 characters is cut in the
    middle. Use Read, Grep, Glob and Edit rather than cat, grep, find and sed."""
    if not as_word(arguments.command).strip():
        raise ToolRefused("invalid_arguments", "Bash: the command is empty.")
    box = await asyncio.to_thread(sandbox.find_sandbox, place.workspace.root)
    if box is None and not place.unconfined:
        raise ToolRefused(
            "no_sandbox",
            "There is no sandbox here (bubblewrap or Landlock), and the user did not allow this command to "
            "run without one.",
        )
    names_git = _GIT.search(arguments.command) is not None
    ground = Ground(
        place.workspace.root, scratch(place), place.network, git=names_git, variables=place.variables
    )
    shell = ["bash", "--noprofile", "--norc", "-c", arguments.command]
    words = box(shell, ground) if box and not place.unconfined else sandbox.supervised(shell)
    limit = arguments.timeout if 0 < arguments.timeout < MAX_SECONDS else MAX_SECONDS
    with place.workspace.own_changes():
        if place.unconfined:
            return await _run(words, ground, limit, place.output)
        return await guarded_by_git(
            place, arguments.command, lambda: _run(words, ground, limit, place.output)
        )


async def guarded_by_git(
    place: ToolContext, command: str, run: Callable[[], Awaitable[Envelope]]
) -> Envelope:
    """The result of a confined command. The user is asked about anything that git would run later because
    of it; without consent it is undone."""
    guard = place.git_guard = place.git_guard or GitGuard(place.workspace.root)
    await _to_its_end(lambda: guard.begin(command))
    try:
        envelope = await run()
        changes = await _to_its_end(guard.changes)
        if not changes:
            return envelope
        if place.approve is not None and await place.approve(QUESTION.format(guard.describe(changes))):
            await _to_its_end(guard.accept)
            return envelope
    except BaseException:
        await _to_its_end(guard.put_back)
        raise
    else:
        await _to_its_end(guard.put_back)
        said = f"{envelope.text} {UNDONE}\n{guard.describe(changes)}".strip()
        return msgspec.structs.replace(envelope, text=said)
    finally:
        guard.end()


async def _to_its_end(work: Callable[[], T]) -> T:
    """Runs work in a thread and waits for it even if the task is cancelled."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def scratch(place: ToolContext) -> Path:
    """The folder for what commands write outside the workspace; it lasts as long as the context."""
    if place.scratch is None:
        place.scratch = folder_for(place)
    return place.scratch


class _Kept:
    """The beginning and the end of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self.cut = 0

    def add(self, data: bytes) -> None:
        room = self._limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = len(self._tail) - self._limit
        if over > 0:
            self.cut += over
            del self._tail[:over]

    def text(self) -> str:
        whole = bytes(self._head + self._tail) if not self.cut else bytes(self._head)
        text = without_escapes(whole.decode(errors="replace"))
        if self.cut:
            text += f"\n…[{self.cut} bytes cut]…\n" + without_escapes(self._tail.decode(errors="replace"))
        return text


Hear = Callable[[str], None]


async def _drain(stream: asyncio.StreamReader | None, kept: _Kept, hear: Hear | None) -> None:
    while stream is not None and (data := await stream.read(1 << 16)):
        kept.add(data)
        if hear is not None:
            hear(without_escapes(data.decode(errors="replace")))


async def _run(words: list[str], ground: Ground, limit: float, hear: Hear | None) -> Envelope:
    started = time.monotonic()
    process = await _start(words, ground)
    out, err = _Kept(OUTPUT_CHARS), _Kept(OUTPUT_CHARS)
    reading = asyncio.gather(_drain(process.stdout, out, hear), _drain(process.stderr, err, hear))
    late = False
    try:
        async with asyncio.timeout(limit):
            await process.wait()
    except TimeoutError:
        late = True
    finally:
        await _end(process)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await reading
    return _report(process.returncode, out, err, time.monotonic() - started, limit if late else None)


async def _start(words: list[str], ground: Ground) -> asyncio.subprocess.Process:
    """Starts a process, and ends it with its children if it is cancelled meanwhile. (asyncio would kill
    only the process and wait for pipes that its children keep open.)"""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words,
            cwd=ground.root,
            env=sandbox.command_environment(ground),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _end(await starting)
        raise


async def _end(process: asyncio.subprocess.Process) -> None:
    """Asks the supervisor to end everything, then kills it."""
    for asked, seconds in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, _GRACE)):
        if process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, asked)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.wait()


def _report(code: int | None, out: _Kept, err: _Kept, seconds: float, late: float | None) -> Envelope:
    stdout, stderr = out.text(), err.text()
    data: dict[str, Any] = {
        "exit_code": code if late is None else 124,  # as `timeout` says it
        "stdout": stdout,
        **({"stderr": stderr} if stderr else {}),
        "duration_seconds": round(seconds, 2),
        **({"timed_out": True} if late is not None else {}),
        **({"truncated": True} if out.cut or err.cut else {}),
    }
    remarks = (
        f"It was ended after {late:g} seconds, with everything it had started." if late is not None else ""
    )
    return success(data, remarks)
