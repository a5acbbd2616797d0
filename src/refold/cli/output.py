"""Output of commands, for people and for programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from refold.errors import Conflict, EntryNotFound, RefoldError, SessionExists, UsageError
from refold.text.terminal import clean, escaped
from refold.text.truncate import one_line, tail

if TYPE_CHECKING:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from refold.cli.console import Screen


T = TypeVar("T")


def echo(text: str = "", *, err: bool = False) -> None:
    """Prints a line to standard output or standard error. Only this, `emit` and `console` print."""
    click.echo(clean(text), err=err)


def first_line(text: str, width: int = 100) -> str:
    return clean(one_line(text, width))


def path_end(path: str, width: int = 25) -> str:
    """The end of a path, which says more than its beginning."""
    path = first_line(path, 1_000)
    return path if len(path) <= width else "…" + tail(path, width - 1)


def emit(value: Any) -> None:
    """JSON on standard output."""
    from refold.messages import compact_json

    click.echo(escaped(compact_json(msgspec.to_builtins(value))))


def program() -> str:
    """How to call `refold` here: by path if its environment is not active."""
    here = Path(sys.executable).with_name("refold")
    return "refold" if shutil.which("refold") or not here.exists() else os.path.relpath(here)


def say_next(arguments: str) -> None:
    """Prints the refold command that usually follows."""
    echo(f"next: {program()} {arguments}")


def print_answer(value: Any, told: str | Callable[[], None], as_json: bool, *, next: str = "") -> None:
    """Prints a result as JSON, as text, or with a function, and the command that usually follows."""
    if as_json:
        emit(value)
    elif isinstance(told, str):
        echo(told)
    else:
        told()
    if next and not as_json:
        say_next(next)


def console(*, stderr: bool = False) -> Screen:
    from refold.cli.console import Screen

    return Screen(stderr=stderr)


def _for_people() -> bool:
    """True if the output is for people, who may watch."""
    context = click.get_current_context(silent=True)
    return not (context and context.params.get("as_json"))


@contextmanager
def waiting(what: str) -> Generator[None]:
    """Shows a spinner on standard error."""
    if sys.stderr.isatty() and _for_people():
        with console(stderr=True).status(first_line(what, 80)):
            yield
    else:
        yield


@contextmanager
def progress_bar(what: str, total: float, *, show: bool = True) -> Generator[Callable[[float, str], None]]:
    """A progress bar on a terminal. Yields a function that takes the number done and a few words."""
    out = console(stderr=True)
    if not (show and out.is_terminal and _for_people()):
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


def progress(what: str, items: Sequence[T]) -> Iterator[T]:
    """The items one by one, with a progress bar."""
    with progress_bar(what, len(items), show=len(items) > 1) as tell:
        for number, item in enumerate(items, 1):
            yield item
            tell(number, f"{number}/{len(items)}")


def styled(*pieces: str | tuple[str, str]) -> Text:
    """A line with styled pieces: `styled(("3", "bold"), " messages")`."""
    from rich.text import Text

    return Text.assemble(*pieces)


def indented(text: str, by: int) -> Padding:
    """Indented text, also where the terminal wraps it."""
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text(text), (0, 0, 0, by), expand=False)


def text_table(
    headings: Sequence[str], rows: Iterable[Iterable[object]], *, right: Sequence[str] = ()
) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, header_style="dim", show_header=bool(headings))
    for heading in headings:
        made.add_column(heading, justify="right" if heading in right else "left")
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    return made


def drop_columns(table: Table, out: Screen, headings: Sequence[str]) -> None:
    """Leaves out these columns one by one until the terminal has room for the others in full."""
    unbounded = out.options.update_width(10_000)
    for heading in headings:
        if out.measure(table, options=unbounded).maximum <= out.width:
            return
        table.columns = [column for column in table.columns if column.header != heading]


@contextmanager
def guarded() -> Generator[None]:
    """Turns errors into one sentence and an exit code: 2 for wrong usage, 1 for failure."""
    try:
        yield
    except UsageError as error:
        raise click.UsageError(clean(str(error))) from error
    except click.ClickException as error:
        vars(error)["message"] = clean(error.message)  # declared final, and shown by click itself
        raise
    except Conflict as error:
        lost = "another process wrote to this session at the same time: run the command again"
        echo(f"refold: {error if isinstance(error, SessionExists) else lost}", err=True)
        sys.exit(1)
    except RefoldError as error:
        hint = "; `refold show FILE --tree` lists ids" if isinstance(error, EntryNotFound) else ""
        echo(f"refold: {error}{hint}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        echo(f"refold: {_failed_access(error)}", err=True)
        sys.exit(1)
    except MemoryError as error:
        echo(f"refold: {error}", err=True)
        sys.exit(1)


def _failed_access(error: OSError) -> str:
    """`out/x.json: permission denied`."""
    if not error.strerror or not isinstance(error.filename, str):
        return str(error)
    return f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"


def write_private(path: Path, data: bytes) -> None:
    """Writes a file readable only by its owner, atomically."""
    from refold.stores.disk import Disk, place_file

    path.parent.mkdir(parents=True, exist_ok=True)
    place_file(Disk(), path, data, replace=True)


def byte_size(count: int) -> str:
    """`87 kB`."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count = count // 1000 if unit == "B" else round(count / 1000)
    return f"{count} GB"
