"""Stores by name."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from refold.errors import FormatError, StorageError, UnknownName
from refold.protocols import SessionInfo
from refold.stores import default_database, is_store, open_store, transfer
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore

from . import kit


def test_kinds_by_name(tmp_path: Path) -> None:
    assert isinstance(open_store("memory:").store, MemoryStore)
    assert isinstance(open_store(f"sqlite:{tmp_path}/x").store, SqliteStore)
    assert isinstance(open_store(f"jsonl:{tmp_path}/x").store, JsonlStore)
    assert isinstance(open_store(f"{tmp_path}/x.db").store, SqliteStore)
    assert isinstance(open_store(tmp_path / "x.jsonl").store, JsonlStore)
    with pytest.raises(UnknownName, match="sqlite"):
        open_store("redis:x")
    with pytest.raises(FormatError, match="sqlite:"):
        open_store(str(tmp_path / "unclear"))
    assert list(tmp_path.iterdir()) == []


def test_kinds_by_content(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "one").create(SessionInfo(id="a"))
    JsonlStore(tmp_path / "two").create(SessionInfo(id="b"))
    assert isinstance(open_store(str(tmp_path / "one")).store, SqliteStore)
    store, session = open_store(str(tmp_path / "two"))
    assert isinstance(store, JsonlStore) and session == "b"
    (tmp_path / "foreign.jsonl").write_text('{"role":"user","content":"x"}\n')
    names = ["one", "two", "foreign.jsonl", "missing.jsonl"]
    assert [is_store(str(tmp_path / name)) for name in names] == [True, True, False, False]
    assert is_store("sqlite:") and not is_store("C:\\x")


def test_a_session_can_be_named_with_its_database(tmp_path: Path) -> None:
    assert open_store(f"sqlite:{tmp_path}/a.db#s1").session == "s1"
    assert open_store(f"{tmp_path}/a.db#s1").session == "s1"
    SqliteStore(tmp_path / "a#b.db").create(SessionInfo(id="x"))
    assert open_store(f"sqlite:{tmp_path}/a#b.db").session is None


@pytest.mark.skipif(sys.platform != "linux", reason="XDG")
def test_your_own_database_is_in_your_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REFOLD_DATABASE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_database() == tmp_path / "data" / "refold" / "sessions.db"
    (tmp_path / "data" / "refold").mkdir(parents=True, mode=0o755)
    store = open_store().store
    store.create(SessionInfo(id="a"))
    assert stat.S_IMODE((tmp_path / "data" / "refold").stat().st_mode) == 0o700
    assert stat.S_IMODE(default_database().stat().st_mode) == 0o600
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_database().is_absolute()


def test_a_copy_that_differs_is_not_kept(tmp_path: Path) -> None:
    class Forgetful(MemoryStore):
        def append_lines(self, session, lines, *, after) -> None:
            super().append_lines(session, lines[:-1], after=after)

    source, target = kit.begin("sqlite", tmp_path), Forgetful()
    source.append(kit.S, [kit.said("a", None), kit.said("b", "a")], after=None)
    with pytest.raises(StorageError, match="differs"):
        transfer.copy_session(source, kit.S, target)
    assert list(target.sessions()) == []
    with pytest.raises(StorageError, match="differs"):
        transfer.move_session(source, kit.S, target)
    assert len(source.load(kit.S).entries) == 2


def test_moving_in_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "BATCH_LINES", 7)
    source = kit.begin("sqlite", tmp_path)
    source.append(kit.S, [kit.said(f"e{n}", None) for n in range(50)], after=None)
    source.append_lines(kit.S, [b"bad", b"{}", b"[1]"], after="e49")
    middle = JsonlStore(tmp_path / "x.jsonl")
    transfer.copy_session(source, kit.S, middle)
    end = SqliteStore(tmp_path / "end.db")
    transfer.move_session(middle, kit.S, end)
    assert list(end.lines(kit.S)) == list(source.lines(kit.S))
    assert end.load(kit.S).entries == source.load(kit.S).entries
    assert not (tmp_path / "x.jsonl").exists()
