"""`refold branch`."""

from __future__ import annotations

import sys
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from refold.cli.opening import own_session
from refold.cli.options import json_option, named_model, own_argument
from refold.cli.output import answer, emit, first_line, say

if TYPE_CHECKING:
    from refold.compaction.plan import Failed
    from refold.engine.branch import Branched


@click.command("branch")
@own_argument
@click.argument("to")
@click.option("--summarize", is_flag=True, help="Leave a summary of the branch that is left.")
@click.option("--model", help="Who writes the summary, e.g. openai:gpt-…; default: the embedded digest.")
@click.option("--focus", help="What the summary should pay attention to.")
@json_option
def command(file: str, to: str, summarize: bool, model: str | None, focus: str | None, as_json: bool) -> None:
    """Move to another place in the tree; summarise what is left.

    TO is the id, the label or the recall key of an entry (`refold show FILE --tree` lists them). Going to a
    message of the user places the session before it and prints the message, to be said again differently.
    Nothing is lost: the branch that is left stays in the log.
    """
    from refold import loop
    from refold.compaction.plan import Failed
    from refold.hooks import Hooks
    from refold.registry.engine import Engine

    if not summarize and (model or focus):
        raise click.UsageError("--model and --focus are about the summary: add --summarize")
    session = own_session(file)
    engine = Engine(model=named_model(model), summariser="same", hooks=Hooks.installed())
    done = loop.run(engine.branch(session, to, summarize=summarize, instructions=focus))
    if isinstance(done, Failed):
        _refused(done, session.leaf, as_json)
        sys.exit(1)
    tokens = engine.view(session).tokens
    answer(as_dict(done, tokens), _told(done, tokens), as_json, next=f"show {quote(file)} --tree")


def as_dict(done: Branched, tokens: int) -> dict[str, Any]:
    """The documented JSON."""
    import msgspec

    from refold.session import redacted

    made = done.summary
    return {
        "from": done.origin,
        "leaf": done.leaf,
        "text": done.text,
        "summary": made and made.summary,
        "entry": made and made.id,
        "author": made and made.author,
        "files": made and redacted.values(msgspec.to_builtins(made.files)),
        "requests": done.requests,
        "tokens": tokens,
    }


def _refused(failed: Failed, leaf: str | None, as_json: bool) -> None:
    if as_json:
        emit({"leaf": leaf, "failed": {"code": failed.code, "text": failed.text}})
    say(f"refold: the leaf stays where it is: {first_line(failed.text, 300)}", err=True)


def _told(done: Branched, tokens: int) -> str:
    place, origin = done.leaf or "the beginning", done.origin or "the beginning"
    told = f"moved from {origin} to {place}; the view has {tokens} tokens now"
    if done.summary is not None:
        told += f"\n\nleft behind, by {done.summary.author}:\n\n{done.summary.summary}"
    return told if done.text is None else f"{told}\n\nto be said again:\n\n{done.text}"
