"""`refold serve`."""

from __future__ import annotations

import os

import click
import msgspec

from refold.cli.options import Tokens, WholeNumber
from refold.cli.output import echo
from refold.registry import configuration
from refold.stores import store_kind


@click.command("serve")
@click.option(
    "--upstream",
    metavar="URL",
    help="Provider that requests are passed on to, for example https://api.anthropic.com.",
)
@click.option(
    "--host", help="Address to listen on; anything but this machine needs keys.  [default: 127.0.0.1]"
)
@click.option("--port", type=WholeNumber(0, 65535), help="Port; 0 for any free one.  [default: 8787]")
@click.option("--store", help="Where sessions are kept.  [default: yours]")
@click.option("--window", type=Tokens(), help="Window for unlisted models.")
@click.option("--preset", help="Preset; see `refold presets`.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False), help="Another configuration file.")
def command(config: str | None, **given: str | int | None) -> None:
    """Start a gateway between any OpenAI or Anthropic client and any upstream.

    Requests that fit go through byte for byte; longer ones are folded first. The first line on standard
    output is the address it listens on; the log, on standard error, holds no contents.
    """
    try:
        from refold.gateway.run import run_loop
        from refold.gateway.server import serve
    except ImportError as error:
        raise click.UsageError(
            f'the gateway needs `pip install "refold[gateway]"` ({error.name} is missing)'
        ) from error
    if config is not None:
        os.environ["REFOLD_CONFIG"] = config
    chosen = {key: value for key, value in given.items() if value is not None}
    settings = msgspec.structs.replace(configuration.load_configuration().gateway, **chosen)
    if settings.upstream is None:
        raise click.UsageError("missing --upstream URL (for example https://api.anthropic.com)")
    store_kind(settings.store)  # a store that cannot be reached does not stop a gateway; a wrong name does
    run_loop(serve(settings, say=echo))
