"""The command line. Each command is a module, imported when it is called."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

COMMANDS = {
    "branch": ("branch", "Move to another entry; summarise the branch you leave."),
    "chat": ("chat", "A coding agent in this folder."),
    "compact": ("compact", "Fold a transcript until its view fits."),
    "compare": ("compare", "Compare presets on your transcripts."),
    "completion": ("completion", "Set up Tab completion in your shell."),
    "config": ("config", "Create the configuration file."),
    "demo": ("demo", "Fold a bundled session, and compare all presets on it."),
    "discover": ("discover", "Where the tokens of your sessions went, and what compactions lost."),
    "doctor": ("doctor", "Check the setup and show how to fix problems."),
    "explore": ("explore", "Look at sessions in the browser."),
    "export": ("export", "Write a session in another format."),
    "forget": ("forget", "Delete the content of entries for good."),
    "import": ("import_", "Import transcripts of other agents."),
    "mcp": ("mcp", "Serve your sessions to any agent (MCP)."),
    "memory": ("memory", "Long-term notes across sessions."),
    "models": ("models", "List the configured models."),
    "pin": ("undo", "Keep an entry verbatim in every fold."),
    "plan": ("plan", "Show what a fold would do (dry run)."),
    "plugin": ("plugin", "Install refold in Claude Code, Codex or opencode."),
    "presets": ("presets", "List presets and their settings."),
    "recall": ("recall", "Find what was said, folded or not."),
    "redo": ("undo", "Redo an undone fold."),
    "run": ("run", "Start Claude Code, Codex, opencode or aider behind a gateway."),
    "serve": ("serve", "Start a gateway that keeps any client inside the window."),
    "sessions": ("sessions", "List, search, check and delete stored sessions."),
    "show": ("show", "Show a session: view, tree, ledger …"),
    "stats": ("stats", "Show where the tokens go."),
    "undo": ("undo", "Undo a fold."),
    "unpin": ("undo", "Remove a pin."),
}


ANY_CONFIGURATION = ("completion", "config", "doctor", "plugin", "serve")
"""Commands that run with a wrong configuration, or check another one."""


class CommandGroup(click.Group):
    """A group that suggests the command that was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from refold.errors import nearest

        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            meant = nearest(args[0], known)
            hint = f"Did you mean {meant}?" if meant else f"Commands: {', '.join(known)}."
            ctx.fail(f"No such command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)


class Commands(CommandGroup):
    """A group that imports its commands when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if "--help" in rest or "-h" in rest or ctx.resilient_parsing:
            return name, command, rest
        if name not in ANY_CONFIGURATION:
            from refold.registry.setting_check import check_settings

            check_settings()
        if "--last" in rest:
            from refold.cli.options import with_newest

            rest = with_newest(command, rest)
        return name, command, rest

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"refold.cli.{COMMANDS[cmd_name][0]}")
        return getattr(module, "command", None) or getattr(module, cmd_name)  # of a pair that shares a module

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        from refold.cli.output import guarded

        with guarded():
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="refold", prog_name="refold", version="0.1.0")
def main() -> None:
    """Keep long agent conversations inside the model's window, and lose nothing.

    FILE is a transcript of refold, Claude Code, Codex, pi, Gemini CLI, OpenHands, SWE-agent or a list of
    OpenAI or Anthropic messages; or a stored session, as sqlite:FILE#ID.
    """
