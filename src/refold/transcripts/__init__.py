"""Transcripts of other programs, as our entries; and our entries for other programs.

    loaded = transcripts.read("session.jsonl")
    session = Session(loaded.entries, problems=loaded.problems, info=loaded.info)

Each format is a module of its own (`refold.transcripts.base.Format`); `FORMATS` is the table.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from os import PathLike
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from refold.errors import FormatError, NotJson, StorageError, UnknownName, expect
from refold.protocols import Loaded
from refold.transcripts.base import HEAD_BYTES, Format, Head, TranscriptFile
from refold.transcripts.opencode_db import MAGIC, sessions_in

__all__ = ["FORMATS", "detect", "format_of", "read", "read_all", "read_stream"]

FORMATS: dict[str, str] = {
    "refold": "refold_jsonl",
    "pi": "pi",
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "copilot": "copilot",
    "openhands": "openhands",
    "swe-agent": "swe_agent",
    "mini-swe-agent": "mini_swe_agent",
    "tau-bench": "tau_bench",
    "adp": "adp",
    "openai": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "plain": "plain",
}
"""Name → module of this package. If two are equally sure, the earlier one wins."""

MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""Bytes of a gzip file, unpacked."""
_SURE = 0.1
"""Minimum confidence for recognition."""


def read(path: str | PathLike[str], *, format: str | None = None, index: int | None = None) -> Loaded:
    """The transcript in a file; its format is detected unless given. If the file has several conversations,
    `index` (or `FILE#3`) selects one, counted from 0; default: the first."""
    expect(path, (str, PathLike), "pass the path of a transcript")
    path = Path(path)
    if index is None and not path.exists():
        path, index = _chosen(path)
    with _opened(path) as stream:
        return read_stream(stream, name=_name(path), format=format, index=index)


def read_all(path: str | PathLike[str], *, format: str | None = None) -> Iterator[tuple[str, Loaded]]:
    """Every conversation of a file, each with the name of its format."""
    path = Path(path)
    with _opened(path) as stream:
        found = format or detect(TranscriptFile(stream).head(), name=str(path))
        source = TranscriptFile(stream, name=_name(path))
        count, index = 1, 0
        while index < count:
            source = source.at(index)
            loaded = format_of(found).read(source)
            yield found, loaded
            count, index = source.conversations, index + 1


def _chosen(path: Path) -> tuple[Path, int | None]:
    """Splits `FILE#3` into file and number."""
    stem, mark, number = path.name.rpartition("#")
    if mark and stem and number.isascii() and number.isdigit() and len(number) < 10:
        return path.with_name(stem), int(number)
    return path, None


def read_stream(
    stream: BinaryIO, *, name: str = "", format: str | None = None, index: int | None = None
) -> Loaded:
    """The transcript in a seekable binary stream (wrap bytes in `io.BytesIO`)."""
    source = TranscriptFile(stream, name=name, index=index)
    loaded = format_of(format or detect(source.head(), name=name)).read(source)
    if source.conversations == 1:
        source.choose(1)  # most formats hold one, and do not look at the number
    return loaded


def detect(head: Head | bytes, *, name: str = "") -> str:
    """Name of the format with this beginning; raises `FormatError` if it is unknown."""
    if isinstance(head, bytes):
        head = Head(head, whole=len(head) < HEAD_BYTES)
    title = name or "this file"
    if not head.raw.strip():
        raise FormatError(f"{title} is empty")
    if b"\x00" in head.raw and not head.raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(f"{title} is a binary file, not a transcript")
    scores = {known: format_of(known).detect(head) for known in FORMATS}
    best = max(scores, key=lambda known: scores[known])
    if scores[best] < _SURE:
        if wrong := _json_error(head):
            raise NotJson(f"{title} is not valid JSON: {wrong}")
        raise FormatError(f"{title} is not a transcript in a format that refold knows ({', '.join(FORMATS)})")
    return best


def _json_error(head: Head) -> str:
    """What is wrong with a file that is one JSON value, and broken; empty for any other."""
    if head.whole and head.raw.lstrip()[:1] in (b"{", b"["):
        try:
            json.loads(head.raw)
        except json.JSONDecodeError as error:
            return "" if error.msg == "Extra data" else str(error)
        except (ValueError, RecursionError):
            pass
    return ""


def format_of(name: str) -> Format:
    """The module that reads `name`."""
    if name not in FORMATS:
        raise UnknownName("transcript format", name, tuple(FORMATS))
    return cast("Format", import_module(f"refold.transcripts.{FORMATS[name]}"))


def _name(path: Path) -> str:
    return str(path).removesuffix(".gz")


class _Unpacked(gzip.GzipFile):
    """A gzip file, read up to a limit: a few megabytes may unpack to many gigabytes."""

    def read(self, size: int | None = -1) -> bytes:
        return self._checked(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._checked(super().readline(size))

    def _checked(self, data: bytes) -> bytes:
        if self.tell() > MAX_UNPACKED_BYTES:
            size = MAX_UNPACKED_BYTES >> 20
            raise StorageError(f"{self.name} unpacks to more than {size} MB: unpack it first")
        return data


def _seekable(stream: BinaryIO) -> BinaryIO:
    """The stream, or what comes out of a pipe as one."""
    if stream.seekable():
        return stream
    saved = cast("BinaryIO", TemporaryFile())  # noqa: SIM115, the caller closes it
    copyfileobj(stream, saved)
    saved.seek(0)
    return saved


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    try:
        path.lstat()
    except ValueError as error:  # a NUL, half a character
        raise StorageError("no file is called that") from error
    except OSError:
        pass  # told below
    try:
        if path.is_dir():
            raise StorageError(f"{path} is a folder: name a file, or import all of it with `refold import`")
        with path.open("rb", buffering=1 << 20) as opened, _seekable(opened) as stream:
            magic = stream.read(len(MAGIC))
            stream.seek(0)
            if magic.startswith(b"\x1f\x8b"):
                yield cast("BinaryIO", _Unpacked(str(path), fileobj=stream))
            else:
                yield (sessions_in(path) if magic == MAGIC else None) or stream
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StorageError(f"{path} is a damaged gzip file") from error
    except sqlite3.Error as error:
        raise StorageError(f"{path} could not be read: {error}") from error
    except FileNotFoundError as error:
        raise StorageError(f"no session or file {str(path)!r}; `refold sessions` lists ids") from error
    except PermissionError as error:
        raise StorageError(f"no permission to read {path}") from error
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror}") from error
