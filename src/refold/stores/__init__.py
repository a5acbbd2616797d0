"""Stores of sessions: `memory:`, `jsonl:FILE` (or a folder of such files), `sqlite:DATABASE`, `postgres://…`.

A kind of store is a module and a row in `KINDS`. Nothing heavy is imported before a store is opened.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from refold.errors import FormatError, StorageError, UnknownName, UsageError, expect
from refold.stores.disk import os_errors_translated

if TYPE_CHECKING:
    from refold.protocols import Store

__all__ = ["KINDS", "Kind", "Opened", "default_database", "is_store", "open_store", "without_password"]


class Opened(NamedTuple):
    """A store, and the session that its name selects (None: none yet, or many)."""

    store: Store
    session: str | None = None


SPEC_HINT = "the store must be a string such as sqlite:agent.db, or a path"


class Kind(NamedTuple):
    """A kind of store, and how its files are recognised. Abilities beyond `protocols.Store` are optional
    protocols."""

    module: str
    """Module with `opened(rest) -> Opened`, where `rest` follows the colon of `KIND:…`."""
    endings: tuple[str, ...] = ()
    head: bytes = b""
    """First bytes of its files, if they are always the same."""
    many: bool = False
    """True if a file holds many sessions, so that `PATH#SESSION` names one."""
    folders: bool = False
    """True if a folder can be a store, too."""
    shared: bool = False
    """True if other programs have similar files; the module's `is_ours(path)` decides."""


STORE_ENTRY_POINTS = "refold.stores"
"""Entry points: `name = "package.module:KIND"`, a `Kind`, for stores called `name:…`."""
KINDS: dict[str, Kind] = {
    "sqlite": Kind("refold.stores.sqlite", (".db", ".sqlite", ".sqlite3"), b"SQLite format 3\0", many=True),
    "jsonl": Kind("refold.stores.jsonl", (".jsonl",), folders=True, shared=True),
    "memory": Kind("refold.stores.memory"),
    "postgres": Kind("refold.stores.postgres", many=True),
    "postgresql": Kind("refold.stores.postgres", many=True),
}
_PASSWORD = re.compile(r"^//[^:/?#@]*:[^/@]*@")
_SECRETS = re.compile(r"^([a-z]{1,20}://[^:/?#@]*):.*@|((?:pass|password|sslpassword)=)[^&#]*")


def open_store(spec: str | os.PathLike[str] = "sqlite:") -> Opened:
    """The store that `spec` names: `sqlite:PATH` (no path: the user's own database), `sqlite:PATH#SESSION`,
    `jsonl:PATH`, `memory:`, or a bare path, recognised by content or name."""
    name, rest = store_kind(spec)
    session = ""
    if KINDS[name].many and "#" in _PASSWORD.sub("", rest) and not Path(rest).expanduser().exists():
        rest, _, session = rest.rpartition("#")
    store, found = cast("Callable[[str], Opened]", import_module(KINDS[name].module).opened)(rest)
    return Opened(store, session or found)


def store_kind(spec: str | os.PathLike[str]) -> tuple[str, str]:
    """The kind of store that `spec` names, and the rest of it; nothing is opened."""
    expect(spec, (str, os.PathLike), SPEC_HINT)
    text = os.fspath(spec)
    if "\0" in text:
        raise StorageError("a path cannot contain NUL: choose another name")
    name, colon, rest = text.partition(":")
    if colon and _known(name):
        return name, rest
    if colon and len(name) > 1 and not _exists(text) and "/" not in name and "." not in name:
        raise UnknownName("store", name, tuple(KINDS))
    with os_errors_translated(Path(text)):
        return _guess(Path(text).expanduser()), text


def _known(name: str) -> bool:
    """Whether there is such a kind; one of an installed package is added to `KINDS`."""
    if name not in KINDS and name.isidentifier() and len(name) > 1:
        from importlib.metadata import entry_points

        for point in entry_points(group=STORE_ENTRY_POINTS, name=name):
            try:
                KINDS[name] = point.load()
            except Exception as error:
                raise UsageError(f"the store {name!r} ({point.value}) cannot be loaded: {error!r}") from error
    return name in KINDS


def without_password(spec: str) -> str:
    """The spec without a password, for messages."""
    expect(spec, str, SPEC_HINT)
    return _SECRETS.sub(lambda found: f"{found[1]}@" if found[2] is None else f"{found[2]}…", spec)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # such as a name that is too long
        return False


def is_store(spec: str) -> bool:
    """True if the text names a store of refold (otherwise it may be another program's transcript)."""
    expect(spec, str, SPEC_HINT)
    name, colon, _ = spec.partition(":")
    if colon and _known(name):
        return True
    path = Path(spec).expanduser()
    try:
        with os_errors_translated(path):
            if not path.is_file():
                return False
            kind = KINDS[_guess(path)]
            return not kind.shared or cast("Callable[[Path], bool]", import_module(kind.module).is_ours)(path)
    except FormatError:
        return False


def default_database() -> Path:
    """The user's own database. `REFOLD_DATABASE` overrides it."""
    if chosen := os.environ.get("REFOLD_DATABASE"):
        return Path(chosen).expanduser()
    return data_folder() / "sessions.db"


def beside_postgres() -> Path:
    """The file that stands for a PostgreSQL database where a gateway keeps something beside its store."""
    return default_database().with_name("gateway")


def data_folder() -> Path:
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/refold").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "refold"
    base = os.environ.get("XDG_DATA_HOME") or ""
    # The XDG rules: a relative path is to be ignored.
    return (Path(base) if Path(base).is_absolute() else Path("~/.local/share").expanduser()) / "refold"


def _guess(path: Path) -> str:
    """The kind of a path, by its suffix or its first bytes."""
    if path.is_dir():
        return next(name for name, kind in KINDS.items() if kind.folders)
    text = str(path).lower()
    for name, kind in KINDS.items():
        if kind.endings and (text.partition("#")[0] if kind.many else text).endswith(kind.endings):
            return name
    if path.is_file():
        head = _head(path)
        known = (name for name, kind in KINDS.items() if kind.head and head.startswith(kind.head))
        return next(known, None) or next(name for name, kind in KINDS.items() if kind.shared)
    raise FormatError(
        f"{path} does not exist, and its name does not tell the kind of store: add sqlite: or jsonl: in front"
    )


def _head(path: Path) -> bytes:
    # A database this process has open must not be opened again: closing it would drop SQLite's locks.
    connections = sys.modules.get("refold.stores.connections")
    if connections is not None and connections.is_open(path):
        return KINDS["sqlite"].head
    with path.open("rb") as file:
        return file.read(max(len(kind.head) for kind in KINDS.values()))
