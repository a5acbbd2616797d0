"""`refold mcp`."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import click

from refold.cli.output import say

if TYPE_CHECKING:
    from refold.mcp.library import Library

TOKEN = "REFOLD_MCP_TOKEN"


@click.command("mcp")
@click.option(
    "--store", "specs", multiple=True, metavar="STORE", help="Which stores to serve.  [default: yours]"
)
@click.option("--own", is_flag=True, help="Only these; not the sessions of other programs.")
@click.option("--http", "port", type=click.IntRange(1, 65535), metavar="PORT", help="HTTP instead of stdio.")
def command(specs: tuple[str, ...], own: bool, port: int | None) -> None:
    """Let any agent look up what any agent did: an MCP server.

    It serves your own stores and, read-only, the sessions of other programs on this machine. With
    --http it listens on 127.0.0.1 alone, to whoever sends the token in REFOLD_MCP_TOKEN (where there is none,
    one is made and printed).
    """
    try:
        import anyio

        from refold.mcp.server import serve_http, serve_stdio
    except ImportError as error:
        raise click.UsageError(
            f'the MCP server needs `pip install "refold[mcp]"` ({error.name} is missing)'
        ) from error
    library = open_library(specs, own)
    library.refresh()
    if port is None:
        anyio.run(serve_stdio, library)
        return
    token = os.environ.get(TOKEN)
    if not token:
        token = secrets.token_urlsafe(32)
        say(f"refold: the token is {token}", err=True)
    anyio.run(serve_http, library, token, port)


def open_library(specs: tuple[str, ...], own: bool) -> Library:
    from refold.cli.memory import default_path
    from refold.mcp.library import Library, Shelf
    from refold.mcp.mirror import mirrors
    from refold.stores import open_store
    from refold.stores.memory_file import MemoryFile

    shelves = [
        Shelf("refold" if number == 0 else f"refold-{number + 1}", open_store(spec).store)
        for number, spec in enumerate(specs or ("sqlite:",))
    ]
    shelves += [] if own else [Shelf(mirror.program, mirror.store, mirror) for mirror in mirrors()]
    return Library(shelves, MemoryFile(default_path()))
