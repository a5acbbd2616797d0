"""`refold branch`."""

from __future__ import annotations

import sys
from shlex import quote
from typing import Any

import click
import msgspec

from refold import loop
from refold.cli.options import json_option, named_model, own_argument
from refold.cli.output import echo, emit, first_line, print_answer
from refold.cli.session_argument import own_session
from refold.compaction.plan import Failed
from refold.engine.branch import Branched
from refold.hooks import Hooks
from refold.registry.engine import Engine
from refold.session import redacted


@click.command("branch")
@own_argument
@click.argument("to")
@click.option("--summarize", is_flag=True, help="Summarise the branch you leave.")
@click.option("--model", help="Model that writes the summary, e.g. openai:gpt-…; default: none.")
@click.option("--focus", help="What the summary should focus on.")
@json_option
def command(file: str, to: str, summarize: bool, model: str | None, focus: str | None, as_json: bool) -> None:
    """Move to another entry; summarise the branch you leave.

    TO is the id, the label or the recall key of an entry (`refold show FILE --tree` lists them). For a
    message of yours, the session moves to the point before it and prints the message, so that you can
    rephrase it. Nothing is lost: the branch you leave stays in the log.
    """
    if not summarize and (model or focus):
        raise click.UsageError("--model and --focus need --summarize")
    session = own_session(file)
    engine = Engine(model=named_model(model), summariser="same", hooks=Hooks.installed())
    done = loop.run(engine.branch(session, to, summarize=summarize, instructions=focus))
    if isinstance(done, Failed):
        if as_json:
            emit({"leaf": session.leaf, "failed": {"code": done.code, "text": done.text}})
        echo(f"refold: not moved: {first_line(done.text, 300)}", err=True)
        sys.exit(1)
    tokens = engine.view(session).tokens
    print_answer(branch_json(done, tokens), _told(done, tokens), as_json, next=f"show {quote(file)} --tree")


def branch_json(done: Branched, tokens: int) -> dict[str, Any]:
    """The documented JSON."""
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


def _told(done: Branched, tokens: int) -> str:
    place, origin = done.leaf or "the beginning", done.origin or "the beginning"
    moved = f"already at {place}" if place == origin else f"moved from {origin} to {place}"
    told = f"{moved}; the view now has {tokens:,} tokens"
    if done.summary is not None:
        told += f"\n\nsummary of the branch, by {done.summary.author}:\n\n{done.summary.summary}"
    return told if done.text is None else f"{told}\n\nyour message:\n\n{done.text}"
