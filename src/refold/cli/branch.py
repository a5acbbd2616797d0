"""`refold branch`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from refold.cli.common import emit, file_argument, first_line, json_option, named_model, own_session, say

if TYPE_CHECKING:
    from refold.compaction.plan import Failed
    from refold.engine.branch import Branched


@click.command("branch")
@file_argument
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
    from refold.engine import Engine
    from refold.hooks import Hooks

    if not summarize and (model or focus):
        raise click.UsageError("--model and --focus are about the summary: add --summarize")
    session = own_session(file)
    engine = Engine(model=named_model(model), hooks=Hooks.installed())
    done = loop.run(engine.branch(session, to, summarize=summarize, instructions=focus))
    if isinstance(done, Failed):
        _refused(done, session.leaf, as_json)
        sys.exit(1)
    tokens = engine.view(session).tokens
    if as_json:
        emit(as_dict(done, tokens))
    else:
        _print(done, tokens)


def as_dict(done: Branched, tokens: int) -> dict[str, Any]:
    """The documented JSON."""
    return {
        "from": done.origin,
        "leaf": done.leaf,
        "text": done.text,
        "summary": done.summary.summary if done.summary else None,
        "entry": done.summary.id if done.summary else None,
        "author": done.summary.author if done.summary else None,
        "files": done.summary.files if done.summary else None,
        "requests": done.requests,
        "tokens": tokens,
    }


def _refused(failed: Failed, leaf: str | None, as_json: bool) -> None:
    if as_json:
        emit({"leaf": leaf, "failed": {"code": failed.code, "text": failed.text}})
    say(f"refold: the leaf stays where it is: {first_line(failed.text, 300)}", err=True)


def _print(done: Branched, tokens: int) -> None:
    place = done.leaf or "the beginning"
    say(f"moved from {done.origin or 'the beginning'} to {place}; the view has {tokens} tokens now")
    if done.summary is not None:
        say(f"\nleft behind, by {done.summary.author}:\n\n{done.summary.summary}")
    if done.text is not None:
        say(f"\nto be said again:\n\n{done.text}")
