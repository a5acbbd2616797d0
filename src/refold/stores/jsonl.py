"""One file per session: a header line, then a line for every append (`docs/format.md`).

An append is one write of whole lines under the file's lock, its length checked, then fdatasync. A torn tail
is terminated before the next line, so lines never merge; what cannot be read stays in the file and is
reported.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from refold.entries import AnyEntry
from refold.errors import (
    FormatError,
    NotJson,
    RefoldError,
    SessionExists,
    StorageError,
    UnknownName,
    UsageError,
)
from refold.format import VERSION
from refold.protocols import Finding, Loaded, Problem, SessionInfo
from refold.stores import Opened, damage, doctor_jsonl, forks, rows
from refold.stores import disk as calls
from refold.stores import lines as reading
from refold.stores.disk import Disk
from refold.stores.lines import ReadState
from refold.stores.rows import SessionTally, StoredLine

MAX_HEADER = 64 * 1024


class JsonlStore:
    """Sessions in files. `path` is a file (one session) or a folder (one `ID.jsonl` per session)."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        folder: bool | None = None,
        timeout: float = 60.0,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        with calls.os_errors_translated(self.path):
            self.is_folder = self.path.is_dir() if folder is None else folder
        self.timeout = timeout
        self._disk = disk or Disk()
        self._clock = clock
        self._mutex = threading.RLock()
        forks.call_after_fork(self)
        self._known: dict[Path, ReadState] = {}
        self._unwanted: dict[Path, tuple[int, int]] = {}
        """Files whose last append failed and could not be undone: (good length, length)."""
        self._exchanged: dict[Path, tuple[Path, int]] = {}
        """The same for appends that are a new file: (the previous file, length)."""

    # ── the protocol ────────────────────────────────────────────────────────────────────────────

    def create(self, info: SessionInfo) -> None:
        path = self._place(info.id)
        header = rows.header_line(rows.new_tally(info, self._clock()).info) + b"\n"
        try:
            calls.make_folder(self._disk, path.parent)
            if not path.exists():
                calls.place_file(self._disk, path, header, replace=False)
                return
            with self._mutex, self._file(path, write=True) as fd:  # of many who find it empty, one
                if os.fstat(fd).st_size:
                    raise SessionExists(info.id)
                calls.place_file(self._disk, path, header, replace=True)
        except FileExistsError:
            raise SessionExists(info.id) from None
        except OSError as error:
            raise calls.disk_error(path, error) from error

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._add(session, rows.of_entries(entries), after, together=True)

    def append_lines(self, session: str, lines: Sequence[bytes], *, after: str | None) -> None:
        """Appends lines. A power failure may keep only the first of them, because unreadable lines cannot be
        framed."""
        flat = (line.replace(b"\n", b" ") for line in lines)
        self._add(session, rows.of_lines(flat), after, together=False)

    def load(self, session: str, start: int = 0) -> Loaded:
        if self._place(session) in self._unwanted:
            with self._mutex, self._opened(session, write=True) as (path, fd):
                self._catch_up(path, fd)
        with self._mutex, self._opened(session, write=False) as (path, fd), rows.decoding():
            known = self._known.get(path)
            if known is None or not self._current(fd, known) or start < known.tally.entries:
                known = self._begin(path, fd)
            known.tally.updated = os.fstat(fd).st_mtime
            numbered = ((f"line {number}", row) for number, row in reading.read_rows(self._disk, fd, known))
            loaded = rows.loaded(numbered, start - known.tally.entries, known.tally)
            self._known[path] = known
            return msgspec.structs.replace(loaded, problems=(*known.header, *loaded.problems))

    def lines(self, session: str) -> Iterator[bytes]:
        with self._mutex, self._opened(session, write=False) as (path, fd):
            known = self._begin(path, fd)
            return iter(
                [
                    rows.upgraded_line(row.line, known.version)
                    for _, row in reading.read_rows(self._disk, fd, known)
                ]
            )

    def sessions(self) -> Iterator[SessionInfo]:
        """The sessions, newest first. A file that cannot be read is left out; `doctor` reports it."""
        found: list[SessionInfo] = []
        for path in self.files():
            with contextlib.suppress(RefoldError):
                found.append(self.describe(path))
        return iter(sorted(found, key=lambda info: -info.updated))

    def delete(self, session: str) -> None:
        with self._mutex, self._opened(session, write=True) as (path, _):
            try:
                self._disk.unlink(path)
                if not self.is_folder and self.path.is_symlink():
                    self._disk.unlink(self.path)
                self._disk.sync_folder(path.parent)
            except OSError as error:
                raise calls.disk_error(path, error) from error
            self._known.pop(path, None)

    def replace(self, session: str, entries: Mapping[str, AnyEntry], *, after: str | None) -> None:
        """Replaces the file atomically; afterwards the old bytes are in no file."""
        calls.check_spool(self.path)
        path = self._place(session)
        with self.exclusive(path) as (header, found):
            tally = SessionTally("")
            tally.add(found)
            tally.check(after)
            named, _ = rows.parse_header(header, str(path))
            named.name = None
            new = [rows.replaced(row, entries).line for row in found]
            self.rewrite(path, [rows.header_line(named.info), *new])
            for older in path.parent.glob(f"{glob.escape(path.name)}.v[0-9]*"):
                older.unlink()  # what an upgrade kept

    def close(self) -> None:
        """Does nothing: no file is kept open between calls."""
        self._known.clear()

    def examine(self, *, repair: bool = False) -> list[Finding]:
        return doctor_jsonl.examine(self, repair)

    def after_fork(self) -> None:
        """Called in a forked child: another thread may have been in the middle of a call."""
        self._mutex = threading.RLock()
        self._known, self._unwanted, self._exchanged = {}, {}, {}

    # ── beyond the protocol ─────────────────────────────────────────────────────────────────────

    def files(self) -> list[Path]:
        with calls.os_errors_translated(self.path):
            if self.is_folder:
                return sorted(p for p in self.path.glob("*.jsonl") if not p.name.startswith("."))
            return [self.path] if self.path.exists() and self.path.stat().st_size else []

    def describe(self, path: Path) -> SessionInfo:
        """Information on a file without decoding its messages."""
        with self._mutex, self._file(path, write=False) as fd:
            known = self._begin(path, fd)
            pieces: list[bytes] = []
            for line, _ in reading.raw_lines(self._disk, fd, known):
                pieces = rows.split_line(line)
                named = rows.of_lines(piece for piece in pieces if b'"info"' in piece)
                known.tally.add(named)
                known.tally.entries += len(pieces) - len(named)
            stat = os.fstat(fd)
        said = rows.newest_time(rows.of_lines(pieces[-1:]))
        known.tally.bytes, known.tally.updated = stat.st_size, said or stat.st_mtime
        return known.tally.info

    @contextlib.contextmanager
    def exclusive(self, path: Path) -> Generator[tuple[bytes, list[StoredLine]]]:
        """The file under its lock: (header, rows). A destroyed header is rebuilt, and is a row."""
        with self._mutex, self._file(path, write=True) as fd:
            known = self._begin(path, fd)
            header, version = rows.header_line(known.tally.info), known.version
            found = [StoredLine(problem.raw, None, problem.text) for problem in known.header]
            found += [row for _, row in reading.read_rows(self._disk, fd, known)]
            yield (
                header,
                [StoredLine(rows.upgraded_line(row.line, version), row.entry, row.why) for row in found],
            )

    def rewrite(self, path: Path, lines: list[bytes]) -> None:
        """Replaces the file with these lines, durably and atomically."""
        self._known.pop(path, None)
        data = b"\n".join(lines) + b"\n"
        try:
            calls.place_file(self._disk, path, data, replace=True)
        except OSError as error:
            if isinstance(error, calls.Undecided):
                self._exchanged[path] = error.old, len(data)
            raise calls.disk_error(path, error) from error

    @property
    def session_id(self) -> str | None:
        """The session of a single file; None if the file does not exist yet."""
        if self.is_folder or not self.files():
            return None
        with calls.os_errors_translated(self.path), self._file(self.path, write=False) as fd:
            return self._begin(self.path, fd).tally.id

    # ── appending ───────────────────────────────────────────────────────────────────────────────

    def _add(self, session: str, new: list[StoredLine], after: str | None, *, together: bool) -> None:
        if not new:
            return
        with self._mutex, self._opened(session, write=True) as (path, fd):
            known = self._catch_up(path, fd)
            known.tally.guard(new, after)
            if known.version < VERSION:
                self._upgrade(path, fd, new)
                return
            if len(new) > 1 and known.number == 1 and not known.torn:
                # The first entries, and many: a new file, so that each has a line of its own and still all
                # of them are there or none.
                self.rewrite(path, [rows.header_line(known.tally.info), *(row.line for row in new)])
                return
            lines = [row.line for row in new]
            text = (rows.join_lines(lines) if together else b"\n".join(lines)) + b"\n"
            if together and len(text) > reading.MAX_LINE_BYTES:
                raise UsageError(
                    f"{len(lines):,} entries in one append are {len(text):,} bytes; append fewer at a time"
                )
            self._write(path, fd, (b"\n" if known.torn else b"") + text)
            known.end += len(text) + known.torn
            known.number += 1 if together else len(lines)
            known.torn = False
            known.tally.add(new)

    def _upgrade(self, path: Path, fd: int, new: list[StoredLine]) -> None:
        """Writes a new file for new lines after those of an older release; the old file stays beside it."""
        known = self._begin(path, fd)
        header, old = rows.header_line(known.tally.info), known.version
        lines = [rows.upgraded_line(row.line, old) for _, row in reading.read_rows(self._disk, fd, known)]
        kept = path.with_name(f"{path.name}.v{old}")
        if not kept.exists():
            self._disk.link(path, kept)
        self.rewrite(path, [header, *lines, *(row.line for row in new)])

    def _write(self, path: Path, fd: int, data: bytes) -> None:
        good = os.fstat(fd).st_size
        try:
            calls.write_all(self._disk, fd, data)
            self._disk.sync(fd)
        except BaseException as error:
            # Whatever happened, the bytes are not promised. What the kernel still holds of a failed sync may
            # never reach the medium, so they are taken back and nothing is remembered about the file.
            self._known.pop(path, None)
            undone = self._take_back(path, fd, good)
            if isinstance(error, OSError):
                raise calls.disk_error(path, error, undone=undone) from error
            raise

    def _take_back(self, path: Path, fd: int, good: int) -> bool:
        self._unwanted.pop(path, None)
        try:
            self._disk.truncate(fd, good)
        except OSError:
            self._unwanted[path] = (good, os.fstat(fd).st_size)
            return False
        return True

    def _catch_up(self, path: Path, fd: int) -> ReadState:
        """Reads what others have written since the last look."""
        size = os.fstat(fd).st_size
        if path in self._unwanted:
            good, reached = self._unwanted.pop(path)
            if size == reached and not self._take_back(path, fd, good):
                raise StorageError(f"{path} still ends with a failed append: check the disk")
            self._known.pop(path, None)
        known = self._known.get(path)
        if known is None or not self._current(fd, known):
            known = self._begin(path, fd)
        for _ in reading.read_rows(self._disk, fd, known):
            pass
        self._known[path] = known
        return known

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def _begin(self, path: Path, fd: int) -> ReadState:
        stat = os.fstat(fd)
        head = self._disk.read(fd, MAX_HEADER, 0)
        line, ended, _ = head.partition(b"\n")
        known = ReadState((stat.st_dev, stat.st_ino), len(line) + len(ended), 1, SessionTally(id=""))
        try:
            if len(line) == MAX_HEADER:
                raise FormatError(f"{path} is not a refold session: its first line is not a session header")
            known.tally, known.version = rows.parse_header(line, str(path))
        except FormatError as error:
            found = damage.split_header(head)
            if found is None:
                what = f"{path} is not a refold session: its first line is {error}"
                raise (NotJson(what) if isinstance(error, NotJson) else error) from None
            left, known.end = found
            ended = b"\n"
            facts = damage.header_facts(left)
            known.tally = SessionTally(
                id=facts.get("id", path.stem), name=facts.get("name"), cwd=facts.get("cwd")
            )
            known.header = (Problem("line 1", f"the header is destroyed ({error})", left[: rows.RAW_LIMIT]),)
        known.tally.updated = stat.st_mtime
        known.torn = not ended
        return known

    def _current(self, fd: int, known: ReadState) -> bool:
        stat = os.fstat(fd)
        return (stat.st_dev, stat.st_ino) == known.inode and stat.st_size >= known.end and not known.torn

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def _place(self, session: str) -> Path:
        if not self.is_folder:
            return calls.target(self.path)
        name = quote(session.encode("utf-8", "surrogatepass"), safe=" ()[]+=@,")
        if not name or len(name) > 200 or name.startswith("."):
            raise StorageError(f"{session[:40]!r} is not a possible file name: choose another session id")
        return self.path / f"{name}.jsonl"

    @contextlib.contextmanager
    def _opened(self, session: str, *, write: bool) -> Generator[tuple[Path, int]]:
        path = self._place(session)
        try:
            if path in self._exchanged:
                self._put_back(path)
            with self._file(path, write=write) as fd:
                known = self._known.get(path)
                known = known if known and self._current(fd, known) else self._begin(path, fd)
                if known.tally.id != session:
                    raise UnknownName("session", session, (known.tally.id,))
                yield path, fd
        except FileNotFoundError:
            raise UnknownName("session", session) from None
        except OSError as error:
            raise calls.unopened(path, error) from error

    def _put_back(self, path: Path) -> None:
        """Restores the file after a failed append, unless another writer has continued since."""
        old, length = self._exchanged[path]
        with self._file(path, write=True) as fd:
            if os.fstat(fd).st_size == length:
                self._disk.replace(old, path)
        del self._exchanged[path]

    @contextlib.contextmanager
    def _file(self, path: Path, *, write: bool) -> Generator[int]:
        while True:
            try:
                fd = self._disk.open(path, (os.O_RDWR | os.O_APPEND) if write else os.O_RDONLY)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise calls.unopened(path, error) from error
            try:
                with calls.locked(fd, path, shared=not write, timeout=self.timeout):
                    if calls.same_file(fd, path):
                        yield fd
                        return
            finally:
                with contextlib.suppress(OSError):  # what was promised is on the medium already
                    self._disk.close(fd)


def opened(rest: str) -> Opened:
    if not rest:
        raise FormatError("jsonl: needs a file or a folder, as in jsonl:session.jsonl")
    store = JsonlStore(Path(rest).expanduser(), folder=rest.endswith(("/", os.sep)) or None)
    return Opened(store, store.session_id)


def is_ours(path: Path) -> bool:
    return JsonlStore(path, folder=False).session_id is not None


def write_session_file(
    path: str | os.PathLike[str], info: SessionInfo, entries: Sequence[AnyEntry], *, replace: bool = False
) -> None:
    """Writes a whole session as one new file, durably, or raises and leaves no file."""
    lines = [rows.header_line(info), *(row.line for row in rows.of_entries(entries))]
    try:
        calls.place_file(Disk(), Path(path), b"\n".join(lines) + b"\n", replace=replace)
    except FileExistsError:
        raise StorageError(f"{path} already exists: choose another name") from None
    except OSError as error:
        raise calls.disk_error(Path(path), error) from error
