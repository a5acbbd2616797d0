"""`refold chat -p`: one turn, for scripts; and the choice of a model for any conversation."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Sequence
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

from refold import entries as e
from refold import registry
from refold.agent.chat import Chat
from refold.agent.figures import bills, total_dollars
from refold.cli.chat_screen import Printer, final_text
from refold.cli.output import echo, emit
from refold.errors import RefoldError
from refold.messages import Assistant, Call, Result, argument_text
from refold.protocols import Model
from refold.registry.configuration import Configuration
from refold.text.truncate import one_line

T = TypeVar("T")
STOPS = (signal.SIGINT, signal.SIGTERM)


class Outcome(NamedTuple):
    """The result of a turn: a reply, or an error."""

    reply: Assistant | None
    error: str | None = None
    interrupted: bool = False


async def stoppable(work: Coroutine[Any, Any, T]) -> T:
    """Runs work that Ctrl-C cancels without ending the program."""
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    for number in STOPS:
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    finally:
        for number in STOPS:
            loop.remove_signal_handler(number)


async def attempt(chat: Chat, text: str, attached: str = "") -> Outcome:
    """One turn; a failure becomes a sentence."""
    try:
        reply = await stoppable(chat.say(text, attached))
        return Outcome(reply, _unasked(chat.unasked))
    except asyncio.CancelledError:
        return Outcome(None, interrupted=True)
    except RefoldError as error:
        return Outcome(None, str(error))


def _unasked(calls: Sequence[Call]) -> str | None:
    if not calls:
        return None
    names = ", ".join(dict.fromkeys(one_line(f"{call.name} {argument_text(call)}", 80) for call in calls))
    return f"Not done, because it needs permission: {names}. Allow it with --permission edits or all."


def run_once(chat: Chat, text: str, attached: str, *, printer: Printer | None) -> None:
    """Runs the turn and prints it as it comes or, without a printer, as one JSON object at the end."""
    first = len(chat.session.entries)

    async def work() -> Outcome:
        try:
            return await attempt(chat, text, attached)
        finally:
            await chat.close()

    outcome = asyncio.run(work())
    failed = outcome.error is not None and _leaves_nothing(chat, first)
    if printer is None:
        emit(turn_json(chat, outcome, first) | ({"session": None} if failed else {}))
    elif outcome.reply is not None:
        printer.done(outcome.reply)
    else:
        printer.broken()
    if outcome.reply is not None and outcome.error is None:
        return
    if printer is not None:
        echo(f"refold: {outcome.error or 'interrupted; the conversation so far is kept'}", err=True)
        if not failed:
            echo(f"refold: resume with: refold chat --resume {chat.session.id}", err=True)
    sys.exit(1)


def _leaves_nothing(chat: Chat, first: int) -> bool:
    """Deletes a new conversation that failed before its first reply; returns whether it did."""
    entries = chat.session.entries
    if first or any(isinstance(x, e.MessageEntry) and isinstance(x.message, Assistant) for x in entries):
        return False
    if chat.session.store is not None:
        chat.session.store.delete(chat.session.id)
    return True


def turn_json(chat: Chat, outcome: Outcome, first: int) -> dict[str, Any]:
    """The documented JSON of a turn; `first` is its beginning in the log."""
    entries = chat.session.entries[first:]
    said = [entry.message for entry in entries if isinstance(entry, e.MessageEntry)]
    failed = {message.call_id: message.is_error for message in said if isinstance(message, Result)}
    rows = bills([chat.session, *chat.children], chat.config.models)
    view = chat.engine.view(chat.session, system=chat.system(), tools=chat.specs)
    return {
        "session": chat.session.id,
        "model": chat.model.name if chat.model else None,
        "preset": chat.engine.preset.name,
        "answer": None if outcome.reply is None else final_text(outcome.reply),
        "stop": None if outcome.reply is None else outcome.reply.stop,
        "interrupted": outcome.interrupted,
        "error": outcome.error,
        "requests": sum(message.role == "assistant" for message in said),
        "calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments, "failed": failed.get(call.id)}
            for message in said
            for call in message.calls
        ],
        "folds": [entry.id for entry in entries if isinstance(entry, e.Fold)],
        "tasks": [child.id for child in chat.children],
        "tokens": view.tokens,
        "window": chat.engine.preset_for(chat.session).window,
        "usage": rows,
        "cost": total_dollars(rows),
    }


def named(name: str | None, config: Configuration) -> Model | None:
    """The model of that name (`demo`: a bundled script), or the default one; None if there is none."""
    if name == "demo":
        from refold.models.script_file import parse_script
        from refold.models.scripted import Scripted

        lines, then = parse_script(
            files("refold.data").joinpath("chat_demo.script").read_text("utf-8"), "demo"
        )
        return Scripted(*lines, name="scripted:demo", then=then)
    chosen = name or config.chat_model()
    return registry.model(chosen, config=config) if chosen else None
