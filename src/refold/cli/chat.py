"""`refold chat`."""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from refold.cli.options import Tokens, WholeNumber, json_option, pair
from refold.cli.output import console, echo

if TYPE_CHECKING:
    from refold.agent.chat import Chat, ChatOptions
    from refold.agent.permissions import Mode
    from refold.cli.chat_screen import Verbosity
    from refold.registry.configuration import Configuration
    from refold.session import Session

OFFER = (
    "Type /model local:smollm2 for a small model on this machine, /model demo for a scripted demonstration."
)
MODES = ("ask", "edits", "read-only", "all")


@click.command("chat")
@click.option("-p", "--prompt", help="Send this prompt, print the answer, and exit.")
@click.option("--model", help="Model to talk to, e.g. anthropic:…, openai:…, local:smollm2, scripted:FILE.")
@click.option("--preset", help="Preset that folds the conversation; see `refold presets`.")
@click.option(
    "--set", "settings", multiple=True, metavar="K=V", help="One setting of the preset; may be repeated."
)
@click.option("--window", type=Tokens(), help="Context window, in tokens.  [default: the model's]")
@click.option(
    "--summariser",
    help="Model for summaries: a name, same, or digest (no model).  "
    "[default: same; digest for local models and windows under 32k]",
)
@click.option("--resume", metavar="ID", help="Resume this conversation (the beginning of its id is enough).")
@click.option("--continue", "go_on", is_flag=True, help="Resume the newest conversation in this folder.")
@click.option(
    "--permission",
    type=click.Choice(MODES),
    help="What the agent may do without asking.  [default: ask]",
)
@click.option(
    "--compact",
    is_flag=True,
    help="Show less: one line for each call, result and message. (To fold: /compact.)",
)
@click.option("--quiet", is_flag=True, help="Show only the last message of each turn.")
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--text-protocol",
    is_flag=True,
    default=None,
    help="Send tool calls as text, for models without tool calling.",
)
@click.option("--max-iterations", type=WholeNumber(1), help="Maximum number of requests in one turn.")
@click.option("--store", default="sqlite:", show_default=True, help="Store for conversations.")
@json_option
def command(
    prompt: str | None,
    model: str | None,
    preset: str | None,
    settings: tuple[str, ...],
    window: int | None,
    summariser: str | None,
    resume: str | None,
    go_on: bool,
    permission: Mode | None,
    compact: bool,
    quiet: bool,
    output_format: Literal["text", "json"],
    text_protocol: bool | None,
    max_iterations: int | None,
    store: str,
    as_json: bool,
) -> None:
    """A coding agent in this folder.

    In a terminal, and without -p, it is a conversation; /help lists its commands. Piped input is the
    prompt, or is added to that of -p. Mention files as @path.
    """
    from msgspec.structs import asdict

    from refold.agent.rule_files import own_files, rule_files
    from refold.registry import configuration

    if resume and go_on:
        raise click.UsageError("--resume and --continue exclude each other; give one of them")
    config = configuration.load_configuration()
    given = {**dict(pair(text) for text in settings), **({"window": window} if window else {})}
    verbosity: Verbosity = "quiet" if quiet else "compact" if compact else "full"

    def make() -> Chat:
        from refold.agent.chat import ChatOptions
        from refold.cli.memory import default_path
        from refold.stores.memory_file import MemoryFile

        options: dict[str, Any] = {
            "permission": permission,
            "text_protocol": text_protocol,
            "max_iterations": max_iterations,
        }
        chosen = ChatOptions(
            **(asdict(config.chat) | {name: value for name, value in options.items() if value}),
            preset=preset,
            preset_settings=given,
            summariser=summariser,
            own_rules=tuple(own_files(configuration.configuration_path())),
            notes=_notes,
            memory=MemoryFile(default_path()),
        )
        return _chat(chosen, model, config, store, resume, go_on)

    piped = _piped(prompt)
    words = piped if prompt is None else prompt
    if words is None:
        from refold.cli.chat_terminal import Terminal

        if as_json or output_format == "json":
            raise click.UsageError("--json needs a prompt; give one with -p, or pipe one in")
        if model is None and config.chat_model() is None:
            echo(_no_model(config))
            echo(OFFER)
        files = rule_files(
            Path.cwd().resolve(), config.chat.rules, own_files(configuration.configuration_path())
        )
        rules = [file.label for file in files]
        Terminal(make, verbosity, resumes=go_on or resume is not None, rules=rules).run()
        return
    _once(make(), words, piped if prompt is not None else None, verbosity, as_json or output_format == "json")


def _once(chat: Chat, words: str, attached: str | None, verbosity: Verbosity, as_json: bool) -> None:
    from refold.cli import chat_once
    from refold.cli.chat_screen import Printer

    if chat.model is None:
        without_key = "--model local:smollm2 (a small model on this machine) or --model demo (a script)"
        raise click.UsageError(f"{_no_model(chat.config)} Without a key: {without_key}.")
    if not words.strip():
        raise click.UsageError("No prompt. Give one with -p, or pipe one in")
    printer = None if as_json else Printer(console(), verbosity)
    if printer:
        chat.tell = printer
    chat_once.run_once(chat, words, attached or "", printer=printer)


def _no_model(config: Configuration) -> str:
    """Why there is no default model, and how to choose one."""
    from refold.registry.configuration import USUAL_MODELS, configuration_path

    providers = {name: config.provider(name) for name in USUAL_MODELS}
    elsewhere = next((name for name, provider in providers.items() if provider.base_url), None)
    example = f"{elsewhere}:MODEL" if elsewhere else USUAL_MODELS["anthropic"]
    if elsewhere:
        start = f"a base URL for {elsewhere} is set, so name the model: pass"
    elif all(provider.api_key for provider in providers.values()):
        start = "keys for Anthropic and OpenAI are both set; choose a model: pass"
    else:
        start = "set ANTHROPIC_API_KEY or OPENAI_API_KEY (one is enough), pass"
    return (
        f"No model is configured: {start} --model NAME (such as {example}), "
        f'or put model = "NAME" into {configuration_path()}.'
    )


def _piped(prompt: str | None) -> str | None:
    """Piped text. With a prompt, only a pipe or a file is read, since other input may never end."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    if prompt is not None and not _is_fed():
        return None
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _is_fed() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return True  # not a file of the system: it was put there
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


# ── putting it together ─────────────────────────────────────────────────────────────────────────


def _chat(
    settings: ChatOptions,
    model: str | None,
    config: Configuration,
    spec: str,
    resume: str | None,
    go_on: bool,
) -> Chat:
    from refold.agent import folder_sessions
    from refold.agent.chat import Chat
    from refold.agent.snapshots import Snapshots
    from refold.cli.chat_once import named
    from refold.stores import data_folder, open_store

    root = Path.cwd().resolve()
    opened = cache(lambda: open_store(spec).store)  # when it is first needed, once
    session: Session
    if resume is not None:
        session = folder_sessions.resumed(opened(), root, resume)
    else:
        session = folder_sessions.newest(opened(), root) if go_on else folder_sessions.fresh(root)
    return Chat(
        session,
        root,
        settings,
        model=named(model, config),
        snapshots=Snapshots.of(root, data_folder() / "snapshots"),
        store=opened,
        config=config,
    )


def _notes() -> str:
    """Long-term notes as the model sees them; empty if there is no file."""
    from refold.cli.memory import default_path
    from refold.memory import quoted_memory

    try:
        text = default_path().read_text("utf-8", "replace")
    except OSError:
        return ""
    return quoted_memory(text) if text.strip() else ""
