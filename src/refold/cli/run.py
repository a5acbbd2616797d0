"""`refold run`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

import click
import msgspec

from refold.cli.options import NameChoice, Tokens
from refold.cli.output import echo
from refold.compare.money import folds_saved
from refold.errors import RefoldError
from refold.gateway.client_settings import PROGRAMS, Start
from refold.gateway.run import ProgramGateway
from refold.registry import configuration
from refold.registry.sessions import stored
from refold.stores import open_store
from refold.text.plural import counted


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--upstream", metavar="URL", help="Address of the model.  [default: as configured in the program]"
)
@click.option("--store", help="Where sessions are kept.  [default: yours]")
@click.option("--window", type=Tokens(), help="Window for unlisted models.")
@click.option("--preset", help="Preset; see `refold presets`.")
@click.option("--own-summary", is_flag=True, help="Leave the program's compaction to its own model.")
@click.argument("program", type=NameChoice(lambda: tuple(PROGRAMS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    program: str,
    arguments: tuple[str, ...],
    upstream: str | None,
    own_summary: bool,
    **given: str | int | None,
) -> None:
    """Start a coding agent with a gateway of its own, which ends with it.

    The program keeps its keys and settings; they are not changed. Long requests are folded, and its
    compaction requests are answered by refold at once.
    """
    if find_spec("aiohttp") is None:
        raise click.UsageError('the gateway needs `pip install "refold[gateway]"` (aiohttp is missing)')
    about, binary = PROGRAMS[program], shutil.which(program)
    if binary is None:
        raise click.UsageError(f"{program} is not on the PATH; install it with `{about.install}`")
    start = Start(binary, arguments, dict(os.environ), Path.cwd())
    chosen = {key: value for key, value in given.items() if value is not None}
    began = time.time()
    with ProgramGateway() as gateway:
        told = about.tell(start, gateway.url)
        settings = configuration.load_configuration().gateway
        compaction = settings.compaction and not own_summary
        chosen |= {"upstream": upstream or told.upstream, "compaction": compaction}
        settings = msgspec.structs.replace(settings, **chosen)
        advice = f"To continue without it, quit {about.name} and run `{about.without}`."
        gateway.start(settings, advice)
        line = [binary, *told.options, *arguments]
        if program == "aider":  # of an option that is given twice, the last one counts
            line = [binary, *arguments, *told.options]
        code = _run(line, {**start.environment, **told.environment})
    if gateway.has_died:
        echo(f"refold: the gateway ended before {about.name}. {advice}", err=True)
    echo(f"refold: {_account(settings.store, began)}", err=True)
    if code < 0:  # ended by a signal: so does this
        with suppress(OSError):  # there is no handler for SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _run(line: list[str], environment: dict[str, str]) -> int:
    """Runs the program in the foreground: it gets the terminal's signals, and other signals from here."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []
    """Signals that arrive while it is being started."""

    def ignore(number: int, frame: FrameType | None) -> None:
        pass

    def hand_on(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    handlers = {
        signal.SIGINT: ignore,
        signal.SIGQUIT: ignore,
        signal.SIGTERM: hand_on,
        signal.SIGHUP: hand_on,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        process = subprocess.Popen(line, env=environment)
        for number in early:
            process.send_signal(number)
        # A signal that comes just before a wait without an end would be looked at only after it.
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _account(spec: str, since: float) -> str:
    """Folds since then, and what they saved."""
    try:
        store = open_store(spec).store
        touched = [stored(store, info.id) for info in store.sessions() if info.updated >= since]
    except (RefoldError, OSError) as error:
        return f"the store cannot be read ({error})"
    if not touched:
        return "no requests went through the gateway"
    rows = [(*folds_saved(session, since), session.id) for session in touched]
    folds, tokens, money = (sum(column) for column in list(zip(*rows, strict=True))[:3])
    _, _, _, id = max(rows)
    where = id if spec == "sqlite:" else f"{spec}#{id}"
    if not folds:
        return f"nothing was folded; `refold show {where}` shows the session"
    more = "saved" if money >= 0 else "more than without folding,"
    saved = f", ${abs(money):.2f} {more} net of cache" if money else ""
    return (
        f"{counted(folds, 'fold')}, {tokens:,} tokens fewer sent{saved}; "
        f"`refold show {where} --ledger` (`refold undo {where}` takes the last one back)"
    )
