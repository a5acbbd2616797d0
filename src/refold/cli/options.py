"""Shared options of commands, their values, and shell completion for them."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from click.shell_completion import CompletionItem

from refold.cli.output import echo
from refold.errors import RefoldError, SettingError, nearest
from refold.text.terminal import clean

if TYPE_CHECKING:
    from refold.compaction.preset import Preset
    from refold.protocols import Model

    TextType = click.ParamType[str]
    CountType = click.ParamType[int]
else:  # older releases of click take no type argument
    TextType = CountType = click.ParamType


# ── what a shell offers when Tab is pressed ─────────────────────────────────────────────────────


def preset_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Completes the last of several comma-separated names."""
    from refold import presets

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in presets.names() if name.startswith(last)]


def session_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """Completes files, and ids of the user's own sessions with their titles."""
    here = Path(incomplete)
    is_path = any(path.name.startswith(here.name) for path in here.parent.glob("*"))
    ids = _own(incomplete) if incomplete and not is_path else []
    return ids or [CompletionItem(incomplete, type="file")]


def _own(beginning: str) -> list[CompletionItem]:
    from refold.registry.sessions import session_title
    from refold.stores import default_database, open_store

    if not default_database().exists():
        return []
    try:
        with closing(open_store("sqlite:").store) as store:
            found = [info for info in store.sessions() if info.id.startswith(beginning)]
            return [CompletionItem(info.id, help=session_title(store, info)) for info in found]
    except RefoldError:
        return []  # a database that cannot be read is told by the command, not by Tab


def complete_model_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from refold.costs import known_models

    return [row.name for row in known_models() if row.name.startswith(incomplete)]


# ── options ─────────────────────────────────────────────────────────────────────────────────────

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Overwrite the file that -o names.")


def combined_options(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, listed in this order."""
    return lambda function: functools.reduce(lambda made, option: option(made), reversed(options), function)


class _SessionName(TextType):
    name = "text"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return "Name a transcript or a session, or use --last for the newest"


def _file_argument(last: str, help: str) -> Callable[[F], F]:
    """FILE, or `--last`, for which the group inserts the newest session (`with_newest`)."""
    return combined_options(
        click.argument("file", metavar="FILE", type=_SessionName(), shell_complete=session_names),
        click.option("--last", last, is_flag=True, expose_value=False, help=help),
    )


file_argument: Callable[..., Any] = _file_argument(
    "last", "Use the newest session on this machine instead of FILE."
)
own_argument: Callable[..., Any] = _file_argument("last_own", "Use your newest session instead of FILE.")


def with_newest(command: click.Command | None, arguments: list[str]) -> list[str]:
    """The arguments of a command, with the newest session first if `--last` is given."""
    options, rest = arguments, list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        options, rest = arguments[:at], arguments[at:]
    names = {param.name for param in command.params} if command else set[str | None]()
    if command is None or "--last" not in options or names.isdisjoint(("last", "last_own")):
        return arguments
    made = [option for option in options if option != "--last"]
    context = click.Context(command, resilient_parsing=True)
    _, extra, _ = command.make_parser(context).parse_args(["FILE", *made, *rest])
    if extra:
        raise click.UsageError("FILE and --last exclude each other: give one of them")
    from refold.registry.sessions import newest_session

    name = newest_session(own="last_own" in names)
    echo(f"refold: the newest session is {name}", err=True)
    return [name, *made, *rest]


class NameChoice(TextType):
    """One of the names known at the moment; a wrong one is answered by the closest."""

    name = "name"

    def __init__(self, known: Callable[[], Sequence[str]]) -> None:
        self.known = known

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return f"[{'|'.join(self.known())}]"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return f"Choose from: {', '.join(self.known())}"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = self.known()
        if value not in known:
            meant = nearest(value, known)
            hint = f" Did you mean {meant}?" if meant else ""
            self.fail(f"{clean(value)!r} is not one of {', '.join(known)}.{hint}", param, ctx)
        return value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


class WholeNumber(click.IntRange):
    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            bounds = f"of at least {self.min}" if self.max is None else f"from {self.min} to {self.max}"
            self.fail(f"{clean(str(value))!r} is not a whole number {bounds}.", param, ctx)


_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?:,|$))")


class Tokens(CountType):
    """A number of tokens as people write it: 8000, 8k, 1.5m."""

    name = "tokens"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from refold.compare.budgets import parse_budget

        try:
            tokens = parse_budget(_THOUSANDS.sub("", str(value))).tokens
        except SettingError:
            tokens = None
        if tokens is None:
            example = "a number above 0, written 8000, 8k or 1.5m"
            self.fail(f"{clean(str(value))!r} is not a number of tokens: use {example}.", param, ctx)
        return tokens


def preset_options(function: F) -> F:
    """--preset, --set, --params, --window and --budget, passed on as `preset`."""

    @functools.wraps(function)
    def wrapped(
        *,
        preset: str,
        settings: tuple[str, ...],
        params: Any,
        window: int | None,
        budget: int | None,
        **more: Any,
    ) -> Any:
        from refold import presets

        given = dict(pair(text) for text in settings)
        given |= {"window": window} if window is not None else {}
        given |= {"params": read_params(params)} if params is not None else {}
        if params is not None and all(setting.name != "params" for setting in presets.settings_of(preset)):
            raise click.UsageError(f"the preset {preset} has no --params; use --set KEY=VALUE")
        if budget and window and budget > window:
            raise click.UsageError(f"--budget {budget:,} is larger than --window {window:,}")
        return function(preset=_preset(preset, given, budget), **more)

    made: Any = wrapped
    return combined_options(
        preset_option("Preset; see `refold presets`."),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="K=V",
            help="A setting of the preset; may be repeated.",
        ),
        click.option("--params", type=click.File("r"), help="Settings of augment as a JSON object."),
        click.option("--window", type=Tokens(), help="Context window of the model, in tokens."),
        click.option("--budget", type=Tokens(), help="Size of the view in tokens: 8000, 8k."),
    )(made)


def read_params(file: TextIO) -> str:
    try:
        return file.read()
    except UnicodeDecodeError:
        raise SettingError("params", "must be a JSON object") from None


def preset_option(help: str) -> Callable[[F], F]:
    return click.option(
        "--preset",
        callback=_configured_preset,
        shell_complete=preset_names,
        help=f"{help}  [default: the configuration's, or refold]",
    )


def _configured_preset(ctx: click.Context, param: click.Parameter, value: str | None) -> str:  # noqa: ARG001
    from refold.registry.configuration import load_configuration

    return value or load_configuration().preset or "refold"


def _preset(name: str, given: dict[str, Any], budget: int | None) -> Preset:
    """The preset; warnings about its settings go to standard error."""
    from refold import registry

    preset, told = warned(lambda: registry.preset(name, given, budget=budget))
    for sentence in told:
        echo(f"refold: {sentence}", err=True)
    return preset


def warned(work: Callable[[], T]) -> tuple[T, list[str]]:
    """The result of work, and the warnings it caused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = work()
    return made, [str(warning.message) for warning in caught]


def pair(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"--set takes KEY=VALUE, not {text!r}")
    return key.strip(), value


def named_model(name: str | None) -> Model | None:
    """The model that writes summaries; None: the digest."""
    from refold.registry.models import model

    return model(name) if name else None


def refuse_existing(output: str | None, force: bool) -> None:
    """Refuses to overwrite a file, before the work starts."""
    if output and not force and Path(output).exists():
        raise click.UsageError(f"{output} already exists; choose another name, or overwrite it with --force")
