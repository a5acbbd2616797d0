"""A store as somebody would add it: sessions in one file of their own making. All of it is in this module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from refold import format as fmt
from refold.entries import AnyEntry
from refold.protocols import Finding, Loaded, SessionInfo
from refold.stores import Kind, Opened
from refold.stores.memory import MemoryStore

HEAD = b"shelf 1\n"
KIND = Kind("tests.stores.toy_store", (".shelf",), HEAD, many=True)


class ShelfStore:
    """Every line of the file is `SESSION TAB LINE`; the lines of a session without entries are empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._shelf = MemoryStore()
        rows = path.read_bytes().removeprefix(HEAD).splitlines() if path.exists() else []
        for session, _, line in (row.partition(b"\t") for row in rows):
            if line:
                self._shelf.append_lines(session.decode(), [line], after=self._tip(session.decode()))
            else:
                self._shelf.create(SessionInfo(id=session.decode()))

    def create(self, info: SessionInfo) -> None:
        self._shelf.create(info)
        self._write()

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        self._shelf.append(session, entries, after=after)
        self._write()

    def load(self, session: str, start: int = 0) -> Loaded:
        return self._shelf.load(session, start)

    def sessions(self) -> Iterator[SessionInfo]:
        return self._shelf.sessions()

    def delete(self, session: str) -> None:
        self._shelf.delete(session)
        self._write()

    def close(self) -> None:
        pass

    def examine(self, *, repair: bool = False) -> list[Finding]:
        if self.path.read_bytes().startswith(HEAD):
            return []
        if repair:
            self._write()
        return [Finding(str(self.path), "its first line is lost", "repaired" if repair else "repairable")]

    def _tip(self, session: str) -> str | None:
        moving = [entry.id for entry in self._shelf.load(session).entries if entry.moves]
        return moving[-1] if moving else None

    def _write(self) -> None:
        rows: list[bytes] = []
        for info in self._shelf.sessions():
            rows.append(info.id.encode() + b"\t")
            rows += [info.id.encode() + b"\t" + fmt.encode(e) for e in self._shelf.load(info.id).entries]
        self.path.write_bytes(HEAD + b"".join(row + b"\n" for row in rows))


def opened(rest: str) -> Opened:
    return Opened(ShelfStore(Path(rest)))
