"""Where sessions live: `memory:`, `jsonl:FILE` (or a folder of such files), `sqlite:DATABASE`.

Nothing heavy is imported before a store is opened.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

from refold.errors import FormatError, UnknownName
from refold.protocols import Store

__all__ = ["Opened", "default_database", "is_store", "open_store"]

KINDS = ("sqlite", "jsonl", "memory")
_SQLITE_NAMES = (".db", ".sqlite", ".sqlite3")
_SQLITE_HEAD = b"SQLite format 3\0"


class Opened(NamedTuple):
    """A store, and the session that the text which named it also names (None: none yet, or many)."""

    store: Store
    session: str | None = None


def open_store(spec: str | os.PathLike[str] = "sqlite:") -> Opened:
    """The store that `spec` names: `sqlite:PATH` (no path: the user's own database), `sqlite:PATH#SESSION`,
    `jsonl:PATH`, `memory:`, or a bare path, recognised by what it is or by how it is called."""
    text = os.fspath(spec)
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        if colon and len(kind) > 1 and not Path(text).exists() and "/" not in kind and "." not in kind:
            raise UnknownName("store", kind, KINDS)
        kind, rest = _guess(Path(text).expanduser()), text
    if kind == "memory":
        return _memory()
    if kind == "jsonl":
        return _jsonl(rest)
    return _sqlite(rest)


def is_store(spec: str) -> bool:
    """Whether the text names one of our stores (otherwise it may be a transcript of another program)."""
    kind, colon, _ = spec.partition(":")
    if colon and kind in KINDS:
        return True
    path = Path(spec).expanduser()
    try:
        return path.is_file() and (_guess(path) == "sqlite" or _is_our_file(path))
    except FormatError:
        return False


def default_database() -> Path:
    """The user's own database. `REFOLD_DATABASE` overrides it."""
    if chosen := os.environ.get("REFOLD_DATABASE"):
        return Path(chosen).expanduser()
    return data_folder() / "sessions.db"


def data_folder() -> Path:
    """Where programs of this user keep their data."""
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/refold").expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser() / "refold"
    base = os.environ.get("XDG_DATA_HOME") or ""
    # The XDG rules: a relative path is to be ignored.
    return (Path(base) if Path(base).is_absolute() else Path("~/.local/share").expanduser()) / "refold"


def _memory() -> Opened:
    from refold.stores.memory import MemoryStore

    return Opened(MemoryStore())


def _jsonl(rest: str) -> Opened:
    from refold.stores.jsonl import JsonlStore

    if not rest:
        raise FormatError("jsonl: needs a file or a folder, as in jsonl:session.jsonl")
    path = Path(rest).expanduser()
    store = JsonlStore(path, folder=True if rest.endswith(("/", os.sep)) else None)
    return Opened(store, store.session_id)


def _sqlite(rest: str) -> Opened:
    from refold.stores.sqlite import SqliteStore

    if not rest:
        path = default_database()
        store = SqliteStore(path)
        _own_folder(path.parent)
        return Opened(store)
    session: str | None = None
    path = Path(rest).expanduser()
    if "#" in rest and not path.exists():
        rest, _, session = rest.rpartition("#")
        path = Path(rest).expanduser() if rest else default_database()
    return Opened(SqliteStore(path), session or None)


def _own_folder(folder: Path) -> None:
    """Our folder is for its owner only, also where it was made with laxer rights."""
    if folder == data_folder() and folder.is_dir() and os.name == "posix":
        folder.chmod(0o700)


def _guess(path: Path) -> str:
    if path.is_dir():
        return "jsonl"
    named = str(path).partition("#")[0]
    if named.lower().endswith(_SQLITE_NAMES):
        return "sqlite"
    if path.suffix.lower() == ".jsonl":
        return "jsonl"
    if path.is_file():
        return "sqlite" if _head(path) == _SQLITE_HEAD else "jsonl"
    raise FormatError(f"{path} does not exist and its name does not say what to make: use sqlite: or jsonl:")


def _head(path: Path) -> bytes:
    # A database this process has open must not be opened again: closing it would drop SQLite's locks.
    connections = sys.modules.get("refold.stores.connections")
    if connections is not None and connections.is_open(path):
        return _SQLITE_HEAD
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEAD))


def _is_our_file(path: Path) -> bool:
    from refold.stores.jsonl import JsonlStore

    return JsonlStore(path, folder=False).session_id is not None
