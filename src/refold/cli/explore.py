"""`refold explore`."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from refold.cli.mcp import open_collections
from refold.cli.memory import default_path
from refold.cli.options import WholeNumber, session_names
from refold.cli.output import echo
from refold.errors import UnknownName
from refold.explorer.session_list import SessionList
from refold.mcp.collections import Collection, Collections
from refold.mcp.synced_sessions import SyncedSessions
from refold.registry import configuration
from refold.registry.sessions import find_session, load
from refold.stores import is_store, open_store, without_password
from refold.stores.memory_file import MemoryFile

if TYPE_CHECKING:
    from refold.explorer.server import Explorer

GATEWAY_KEY_VARIABLE = "REFOLD_GATEWAY_KEY"


@click.command("explore")
@click.argument("place", metavar="[STORE|FILE|FOLDER]", required=False, shell_complete=session_names)
@click.option("--own", is_flag=True, help="Show only your own sessions, not those of other programs.")
@click.option("--port", type=WholeNumber(0, 65535), default=0, help="Port.  [default: any free one]")
@click.option(
    "--gateway", metavar="URL", help="The gateway whose meter is shown.  [default: the configured address]"
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def command(place: str | None, own: bool, port: int, gateway: str | None, no_browser: bool) -> None:
    """Sessions in the browser: what was said, what the model saw at each point, what folds did.

    Shows your own sessions and, read-only, those of Claude Code, Codex, pi, Gemini CLI, opencode and Copilot
    CLI on this machine; or those of STORE, FILE or FOLDER. The page is served only on 127.0.0.1,
    to clients with its token, and loads nothing from the network. If the gateway needs a key, set
    REFOLD_GATEWAY_KEY.
    """
    try:
        from refold.explorer.server import Explorer
    except ImportError as error:
        raise click.UsageError(
            f'the explorer needs `pip install "refold[gateway]"` ({error.name} is missing)'
        ) from error
    settings = configuration.load_configuration().gateway
    address = (gateway or f"http://{settings.host}:{settings.port}").rstrip("/")
    if not address.startswith(("http://", "https://")):
        raise click.UsageError(f"{address!r} is not a URL; did you mean http://{address}?")
    with ExitStack() as stack:
        session_list, first = _session_list(place, own, stack)
        made = Explorer(
            session_list,
            port=port,
            gateway=address,
            gateway_key=os.environ.get(GATEWAY_KEY_VARIABLE),
            first=first,
        )
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(made, browser=not no_browser))


def _session_list(place: str | None, own: bool, stack: ExitStack) -> tuple[SessionList, str]:
    """The sessions to show, and the first one."""
    if place is None:
        return SessionList(open_collections((), own)), ""
    path, _, id = place.rpartition("#")
    spec, id = (path, id) if path and is_store(path) else (place, "")
    if is_store(spec):
        collections = open_collections((spec,), own=True)
        named = id or open_store(spec).session
        first = f"refold:{find_session(collections.by_name['refold'].store, named).id}" if named else ""
        return SessionList(collections, {"refold": without_password(spec)}), first
    if Path(place).is_file():
        load(place)  # what is no transcript is refused before the page is served
    if Path(place).exists():
        return SessionList(_synced(Path(place), stack)), ""
    collections = open_collections((), own)
    try:
        found = find_session(collections.by_name["refold"].store, place)
    except UnknownName:
        raise click.UsageError(f"no session or file {place!r}; `refold sessions` lists ids") from None
    return SessionList(collections), f"refold:{found.id}"


def _synced(path: Path, stack: ExitStack) -> Collections:
    """A file or folder of transcripts; the search database is deleted when the process ends."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="refold-explore-"))
    synced = SyncedSessions("files", path.absolute(), Path(folder) / "files.db")
    stack.callback(synced.store.close)
    return Collections([Collection("files", synced.store, synced)], MemoryFile(default_path()))


async def _serve(made: Explorer, *, browser: bool) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(name, stopped.set)
    async with made:
        echo(made.url)
        if browser:
            import webbrowser

            webbrowser.open(made.url)
        await stopped.wait()
