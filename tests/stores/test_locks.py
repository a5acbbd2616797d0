"""Whatever else this process does with a database, its writer keeps its locks."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from refold.protocols import SessionInfo
from refold.stores import doctor, is_store, open_store, transfer
from refold.stores.sqlite import SqliteStore

from . import kit
from .processes import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")


@contextmanager
def prober(database: Path) -> Iterator[Callable[[], str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.stores.prober", str(database)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout

    def ask() -> str:
        process.stdin.write("?\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    with process:
        yield ask
        process.stdin.close()


def operations(store: SqliteStore, place: Path) -> dict[str, Callable[[], object]]:
    numbers = itertools.count()

    def other_store() -> None:
        other = SqliteStore(store.path)
        assert len(other.load(kit.S).entries) == 5
        other.close()

    return {
        "doctor": lambda: doctor.examine(store),
        "backup": lambda: store.backup(place / f"b{next(numbers)}.db"),
        "export": lambda: transfer.copy_session(
            store, kit.S, open_store(place / f"x{next(numbers)}.jsonl").store
        ),
        "chmod": lambda: store.path.chmod(0o600),
        "list": lambda: list(store.sessions()),
        "search": lambda: store.search(["a1"]),
        "bare name": lambda: open_store(str(store.path)),
        "is it ours": lambda: is_store(str(store.path)),
        "another store": other_store,
    }


def drops(place: Path, count: int, more: dict[str, Callable[[Path], object]] | None = None) -> list[str]:
    """Do `count` mixed operations while a write transaction is open; after each, ask about the locks."""
    # No ending: what the file is can only be guessed by its first bytes, which must not be read now.
    store = SqliteStore(place / "database")
    store.create(SessionInfo(id=kit.S))
    store.append(kit.S, [kit.said(f"a{n}", None) for n in range(5)], after=None)
    work = operations(store, place)
    work |= {name: (lambda act=act: act(store.path)) for name, act in (more or {}).items()}
    names = [name for name in work for _ in range(1 if name in ("backup", "export") else 4)]
    chance, found = random.Random(1), []
    with ThreadPoolExecutor(3) as pool, store.writing(), prober(store.path) as ask:
        assert ask() == "held"
        for _ in range(count):
            name = chance.choice(names)
            pool.submit(work[name]).result()
            if (answer := ask()) != "held":
                found.append(f"{name}: {answer}")
                break
            for leftover in [*place.glob("b*.db*"), *place.glob("x*.jsonl")]:
                leftover.unlink()
    assert list(store.load(kit.S).entries)
    store.close()
    return found


def test_mixed_operations_never_drop_locks() -> None:
    with kit.ram_folder() as place:
        assert drops(place, 150) == []


@pytest.mark.torture
def test_ten_thousand_mixed_operations_never_drop_locks() -> None:
    with kit.ram_folder() as place:
        assert drops(place, 10_000) == []


@pytest.mark.parametrize(
    "careless", [lambda path: path.read_bytes(), lambda path: shutil.copy(path, path.with_name("bcopy.db"))]
)
def test_planted_second_opening_is_caught(careless: Callable[[Path], object]) -> None:
    with kit.ram_folder() as place:
        assert drops(place, 150, {"careless": careless}) == ["careless: dropped ['database']"]
