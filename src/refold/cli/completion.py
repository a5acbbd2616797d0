"""What a shell offers when Tab is pressed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from refold.errors import RefoldError


def preset_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The last of several that stand between commas."""
    from refold import presets

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in presets.names() if name.startswith(last)]


def session_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Files; and of the user's own sessions those whose id begins like this, with their titles."""
    here = Path(incomplete)
    is_path = any(path.name.startswith(here.name) for path in here.parent.glob("*"))
    ids = _own(incomplete) if incomplete and not is_path else []
    return ids or [CompletionItem(incomplete, type="file")]


def _own(beginning: str) -> list[CompletionItem]:
    from refold.registry.sessions import title
    from refold.stores import default_database, open_store

    if not default_database().exists():
        return []
    try:
        with closing(open_store("sqlite:").store) as store:
            found = [info for info in store.sessions() if info.id.startswith(beginning)]
            return [CompletionItem(info.id, help=title(store, info)) for info in found]
    except RefoldError:
        return []  # a database that cannot be read is told by the command, not by Tab


def model_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from refold.costs import known_models

    return [row.name for row in known_models() if row.name.startswith(incomplete)]
