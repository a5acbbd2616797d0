"""Simulated power failures: nothing acknowledged is lost, nothing is corrupt, and writing goes on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from refold.errors import RefoldError
from refold.protocols import SessionInfo

from . import kit
from .power import Left, RecordingDisk, RecordingVfs, Tape, failures


def recorded(kind: str, place: Path, appends: int) -> Tape:
    """The tape of a scripted session: single appends of all sizes, and one of several entries."""
    tape = Tape()
    if kind.startswith("jsonl"):
        store = kit.make("jsonl", place, disk=RecordingDisk(tape, syncs=not kind.endswith("unsynced")))
    else:
        vfs = RecordingVfs(tape)
        store = kit.make(kind, place, vfs=vfs.label)
    store.create(SessionInfo(id=kit.S, created=1.0))
    tape.acknowledge("")
    chance, after = random.Random(3), None
    for number in range(appends):
        size = chance.choice((10, 100, 1000, 9000))
        batch = [kit.said(f"p{number}.{i}", None, size) for i in range(4 if number == appends // 2 else 1)]
        store.append(kit.S, batch, after=after)
        after = batch[-1].id
        tape.acknowledge(*(entry.id for entry in batch))
        if number == appends * 2 // 3 and hasattr(store, "connection"):
            with store.connection() as connection:  # the log starts again from its beginning
                connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    store.close()
    return tape


def judge(kind: str, left: Left, place: Path) -> str:
    """What is wrong with a disk; empty if nothing is."""
    for name, data in left.files.items():
        (place / name).write_bytes(data)
    wanted = [id for id in left.promised if id]
    store: Any = kit.make(kind.partition("-")[0], place)
    try:
        if not left.promised and not any(info.id == kit.S for info in store.sessions()):
            return ""
        loaded = store.load(kit.S)
        ids = [entry.id for entry in loaded.entries]
        if [id for id in ids if id in set(wanted)] != wanted:
            return f"lost {len(set(wanted) - set(ids))}"
        if not all(kit.is_intact(entry) for entry in loaded.entries):
            return "changed"
        if len(ids) - len(wanted) not in (0, 1, 4):
            return f"part of an append: {ids[len(wanted) :]}"
        after = ids[-1] if ids else None
        store.append(kit.S, [kit.said("after", after)], after=after)
        if [entry.id for entry in store.load(kit.S).entries] != [*ids, "after"]:
            return "cannot go on"
        if hasattr(store, "connection"):
            with store.connection() as connection:
                found = connection.execute("PRAGMA integrity_check").get
            return "" if found == "ok" else f"corrupt: {found}"
        return ""
    except RefoldError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        store.close()


def losses(kind: str, tmp_path: Path, *, appends: int, each: int, step: int) -> list[str]:
    with kit.ram_folder() as ram:
        (ram / "made").mkdir()
        tape = recorded(kind, ram / "made", appends)
        found: list[str] = []
        for number, left in enumerate(failures(tape, each=each, seed=1, step=step)):
            place = ram / f"left{number}"
            place.mkdir()
            if wrong := judge(kind, left, place):
                found.append(f"after call {left.at} of {len(tape.calls)}: {wrong}")
            for path in place.iterdir():
                path.unlink()
            place.rmdir()
        return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", kit.REAL)
def test_power_failures_lose_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    assert losses(kind, tmp_path, appends=9, each=1, step=2) == []


@pytest.mark.torture
@pytest.mark.parametrize("kind", kit.REAL)
def test_every_power_failure_loses_nothing_acknowledged(kind: str, tmp_path: Path) -> None:
    assert losses(kind, tmp_path, appends=60, each=6, step=1) == []


@pytest.mark.parametrize("kind", ["jsonl-unsynced", "sqlite-unsynced", "sqlite-normal"])
def test_planted_missing_sync_is_caught_by_power_failures(kind: str, tmp_path: Path) -> None:
    found = losses(kind, tmp_path, appends=6, each=0, step=3)
    assert any("lost" in text or "unknown" in text for text in found), found


def test_a_session_that_was_deleted_does_not_come_back_after_a_power_failure(tmp_path: Path) -> None:
    tape = Tape()
    store: Any = kit.make("jsonl", tmp_path, disk=RecordingDisk(tape))
    store.create(SessionInfo(id=kit.S, created=1.0))
    created = len(tape.calls)
    store.delete(kit.S)
    deleted = len(tape.calls)
    left = [x for x in failures(tape, each=0, seed=1) if x.at in (created, deleted)]
    assert [(x.at, any(name.endswith(".jsonl") for name in x.files)) for x in left] == [
        (created, True),
        (created, True),
        (deleted, False),
        (deleted, False),
    ]
