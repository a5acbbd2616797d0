"""What commands share: opening files, options, output for people and for machines."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from refold.cli.completion import preset_names, session_names
from refold.errors import RefoldError, SettingError, UsageError, nearest
from refold.text.terminal import clean, escaped
from refold.text.truncate import one_line

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from refold.cli.screen import Screen
    from refold.compaction.preset import Preset
    from refold.protocols import Model
    from refold.session import Session

    TextType = click.ParamType[str]
    CountType = click.ParamType[int]
else:
    TextType = CountType = click.ParamType  # older releases of click take no type argument

LISTED = 30
"""Conversations of a file that are offered at once: a screen of them."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def say(text: str = "", *, err: bool = False) -> None:
    """A line on standard output or standard error. This, `emit` and `console` are the only ways out."""
    click.echo(clean(text), err=err)


def first_line(text: str, width: int = 100) -> str:
    return clean(one_line(text, width))


class Names(TextType):
    """One of the names that a table holds; the table is read when the option is used, or shown."""

    name = "name"

    def __init__(self, known: Callable[[], tuple[str, ...]]) -> None:
        self.known = known

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        return f"[{'|'.join(self.known())}]"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.known():
            meant = nearest(value, self.known())
            hint = f" Did you mean {meant}?" if meant else ""
            self.fail(f"{clean(value)!r} is none of {', '.join(self.known())}.{hint}", param, ctx)
        return value

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.known() if name.startswith(incomplete)]


class Tokens(CountType):
    """A number of tokens as people write it: 8000, 8k, 1.5m."""

    name = "tokens"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from refold.compare.budgets import parse

        try:
            tokens = parse(str(value)).tokens
        except SettingError:
            tokens = None
        if tokens is None:
            example = "a number above 0, written 8000, 8k or 1.5m"
            self.fail(f"{clean(str(value))!r} is no number of tokens: {example}.", param, ctx)
        return tokens


@contextmanager
def guarded() -> Generator[None]:
    """Errors become one sentence and an exit code: 2 where the call was wrong, 1 where it failed."""
    try:
        yield
    except UsageError as error:
        raise click.UsageError(clean(str(error))) from error
    except click.ClickException as error:
        vars(error)["message"] = clean(error.message)  # declared final, and shown by click itself
        raise
    except RefoldError as error:
        say(f"refold: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (OSError, MemoryError) as error:
        say(f"refold: {error}", err=True)
        sys.exit(1)


def emit(value: Any) -> None:
    """JSON on standard output."""
    from refold.messages import compact_json

    click.echo(escaped(compact_json(msgspec.to_builtins(value))))


def answer(value: Any, told: str, as_json: bool) -> None:
    """What a command did: as JSON, or in words."""
    if as_json:
        emit(value)
    else:
        say(told)


def console(*, stderr: bool = False) -> Screen:
    from refold.cli.screen import Screen

    return Screen(stderr=stderr)


@contextmanager
def waiting(what: str, *, show: bool = True) -> Generator[None]:
    """Something to look at, on standard error, while one piece of work takes its time."""
    if show and sys.stderr.isatty():
        with console(stderr=True).status(first_line(what, 80)):
            yield
    else:
        yield


@contextmanager
def bar(what: str, total: float, *, show: bool = True) -> Generator[Callable[[float, str], None]]:
    """A bar on standard error, where that is a terminal. Gives what is told how much is done, and a few words
    about it."""
    out = console(stderr=True)
    if not (show and out.is_terminal):
        yield lambda _, __: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (TextColumn(what, markup=False), BarColumn(), words, TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as drawn:
        task = drawn.add_task("", total=total)

        def tell(done: float, now: str) -> None:
            drawn.update(task, completed=done, description=first_line(now, 40))

        yield tell


def progress(what: str, items: Sequence[T], *, show: bool = True) -> Iterator[T]:
    """The items one by one, with a bar."""
    with bar(what, len(items), show=show and len(items) > 1) as tell:
        for number, item in enumerate(items, 1):
            yield item
            tell(number, f"{number}/{len(items)}")


def styled(*pieces: str | tuple[str, str]) -> Text:
    """A line of which some pieces have a style: `styled(("3", "bold"), " messages")`."""
    from rich.text import Text

    return Text.assemble(*pieces)


def indented(text: str, by: int) -> Padding:
    """Also where it goes on in the next line of a terminal."""
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(text), (0, 0, 0, by), expand=False)


def table(headings: Sequence[str], rows: Iterable[Iterable[object]], *, right: Sequence[str] = ()) -> Table:
    """A plain table. Cells are texts as they are; the screen makes them safe."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="dim", show_header=bool(headings))
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return made


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
force_option = click.option("--force", is_flag=True, help="Write over what -o names.")
file_argument = click.argument("file", metavar="FILE", shell_complete=session_names)


def refuse_existing(output: str | None, force: bool) -> None:
    """Said before the work, not after it."""
    if output and not force and Path(output).exists():
        raise click.UsageError(f"{output} exists already: choose another name, or --force writes over it")


def preset_options(function: F) -> F:
    """--preset, --set, --params, --window and --budget; what they come to is handed on as `preset`."""

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
        given = dict(pair(text) for text in settings)
        given |= {"window": window} if window is not None else {}
        given |= {"params": params.read()} if params is not None else {}
        return function(preset=_preset(preset, given, budget), **more)

    made: Any = wrapped
    for option in (
        click.option("--budget", type=Tokens(), help="The view must fit so many tokens: 8000, 8k."),
        click.option("--window", type=Tokens(), help="Context window of the model, in tokens."),
        click.option("--params", type=click.File("r"), help="Settings of the preset as a JSON object."),
        click.option("--set", "settings", multiple=True, metavar="K=V", help="One setting; may be repeated."),
        click.option(
            "--preset",
            default="refold",
            show_default=True,
            shell_complete=preset_names,
            help="Which design; see `refold presets`.",
        ),
    ):
        made = option(made)
    return made


def _preset(name: str, given: dict[str, Any], budget: int | None) -> Preset:
    """With what the settings made Python warn of said on standard error."""
    from refold import registry

    preset, told = warned(lambda: registry.preset(name, given, budget=budget))
    for sentence in told:
        say(f"refold: {sentence}", err=True)
    return preset


def warned(work: Callable[[], T]) -> tuple[T, list[str]]:
    """What comes of it, and what Python was made to warn of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = work()
    return made, [str(warning.message) for warning in caught]


def named_model(name: str | None) -> Model | None:
    """Who writes summaries; None: the embedded digest."""
    from refold.registry.models import model

    return model(name) if name else None


def pair(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"--set takes KEY=VALUE, not {text!r}")
    return key.strip(), value


def open_session(file: str) -> Session:
    """A session from any supported file or store. Refold's own are opened for writing. Of several in one
    file, a person at a terminal chooses."""
    from refold.registry import sessions as opening
    from refold.transcripts.base import MANY

    with waiting(f"reading {file} …"):
        session = opening.session_of(file)
    several = any(problem.where == MANY for problem in session.problems)
    if several and is_interactive():
        return opening.session_of(f"{file}#{_picked(file)}")
    return session


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _picked(file: str) -> int:
    from refold.entries import MessageEntry
    from refold.preserve.words import typed
    from refold.transcripts import read_all

    titles: list[str] = []
    for _, loaded in progress("reading", list(read_all(file))):
        messages = (entry.message for entry in loaded.entries if isinstance(entry, MessageEntry))
        titles.append(next((said for message in messages if (said := typed(message))), ""))
    return _chosen(titles)


def _chosen(titles: Sequence[str]) -> int:
    """The number that is typed; words make the list shorter."""
    shown = list(range(len(titles)))
    while True:
        for number in shown[:LISTED]:
            say(f"{number:4}  {first_line(titles[number], 90)}")
        if len(shown) > LISTED:
            say(f"   …  and {len(shown) - LISTED} more")
        answer: str = click.prompt("Which conversation? A number, or words to search for", default="0")
        if answer.isdecimal() and int(answer) < len(titles):
            return int(answer)
        words = answer.casefold().split()
        found = (n for n, title in enumerate(titles) if all(word in title.casefold() for word in words))
        shown = list(found)
        if not shown:
            say(f"no first prompt has {answer!r}; the numbers are 0 to {len(titles) - 1}")


def own_session(file: str) -> Session:
    """A session that can be changed; foreign transcripts cannot."""
    session = open_session(file)
    if session.store is None:
        raise click.UsageError(
            f"{file} is a transcript of another program and is never changed: "
            "make a copy with `refold export FILE --to jsonl -o OUT` and work on that"
        )
    return session


def tell_problems(session: Session) -> None:
    """What could not be understood, or was not chosen, is said on standard error."""
    from refold.transcripts.base import sentences

    for sentence in sentences(session.problems):
        say(f"refold: {sentence}", err=True)


def write_private(path: Path, data: bytes) -> None:
    """A file for its owner alone, all of it or nothing: what was there stays until the new one is
    complete."""
    from refold.stores.disk import Disk, place

    path.parent.mkdir(parents=True, exist_ok=True)
    place(Disk(), path, data, replace=True)
