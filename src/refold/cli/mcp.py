"""`refold mcp`."""

from __future__ import annotations

import os
import secrets

import click

from refold.cli.memory import default_path
from refold.cli.options import WholeNumber
from refold.cli.output import echo
from refold.mcp.collections import Collection, Collections
from refold.mcp.synced_sessions import synced_collections
from refold.stores import open_store
from refold.stores.memory_file import MemoryFile

TOKEN = "REFOLD_MCP_TOKEN"


@click.command("mcp")
@click.option(
    "--store",
    "specs",
    multiple=True,
    metavar="STORE",
    help="Store to serve; may be repeated.  [default: yours]",
)
@click.option("--own", is_flag=True, help="Serve only these stores, no sessions of other programs.")
@click.option(
    "--http", "port", type=WholeNumber(1, 65535), metavar="PORT", help="Serve over HTTP instead of stdio."
)
def command(specs: tuple[str, ...], own: bool, port: int | None) -> None:
    """Start an MCP server, so that any agent can look up what any agent did.

    It serves your own stores and, read-only, the sessions of other programs on this machine. With
    --http it listens only on 127.0.0.1, for clients that send the token in REFOLD_MCP_TOKEN (if it is unset,
    a token is made and printed).
    """
    try:
        import anyio

        from refold.mcp.server import serve_http, serve_stdio
    except ImportError as error:
        raise click.UsageError(
            f'the MCP server needs `pip install "refold[mcp]"` ({error.name} is missing)'
        ) from error
    collections = open_collections(specs, own)
    collections.refresh()
    if port is None:
        anyio.run(serve_stdio, collections)
        return
    token = os.environ.get(TOKEN)
    if not token:
        token = secrets.token_urlsafe(32)
        echo(f"refold: the token is {token}", err=True)
    anyio.run(serve_http, collections, token, port)


def open_collections(specs: tuple[str, ...], own: bool) -> Collections:
    found = [
        Collection("refold" if number == 0 else f"refold-{number + 1}", open_store(spec).store)
        for number, spec in enumerate(specs or ("sqlite:",))
    ]
    others = [] if own else synced_collections()
    found += [Collection(each.program, each.store, each) for each in others]
    return Collections(found, MemoryFile(default_path()))
