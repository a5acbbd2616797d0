"""What the doctor says is so: a store that it finds well opens with everything; one that lost something says what;
one that does not open is called that; and after a repair it is as the doctor says then. Nothing readable is lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from refold import format as fmt
from refold.errors import RefoldError
from refold.registry.sessions import stored
from refold.session import Session
from refold.stores import doctor
from refold.stores.jsonl import JsonlStore
from refold.stores.sqlite import SqliteStore
from tests.rights import ordinary_rights
from tests.stores.test_damage import conversation

STORES: dict[str, tuple[type[JsonlStore] | type[SqliteStore], str]] = {
    "jsonl": (JsonlStore, "s.jsonl"),
    "sqlite": (SqliteStore, "s.db"),
}
FOREIGN = (
    b"no store at all\n",
    b'{"type":"user","uuid":"1"}\n',
    b"SQLite format 3\0",
    b"\x89PNG\r\n",
    b"\xff\xfe{\0}\0",
)
Damage = Callable[[random.Random, bytes], bytes]

# ── damage ──────────────────────────────────────────────────────────────────────────────────────


def flip(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 20))):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def truncate(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def nul_run(chance: random.Random, data: bytes) -> bytes:
    at, length = chance.randrange(len(data)), chance.choice((1, 10, 100, 5_000))
    return (data[:at] + b"\0" * min(length, len(data) - at) + data[at + length :])[: len(data)]


def page(chance: random.Random, data: bytes) -> bytes:
    """A block of the disk that is another's."""
    at = chance.randrange(0, max(len(data) // 4096, 1)) * 4096
    return data[:at] + chance.randbytes(min(4096, len(data) - at)) + data[at + 4096 :]


def lines(change: Callable[[random.Random, list[bytes]], None]) -> Damage:
    def damage(chance: random.Random, data: bytes) -> bytes:
        split = data.split(b"\n")
        change(chance, split)
        return b"\n".join(split)

    return damage


def shuffle(chance: random.Random, split: list[bytes]) -> None:
    a, b = chance.randrange(len(split)), chance.randrange(len(split))
    split[a], split[b] = split[b], split[a]


ANY: dict[str, Damage] = {
    "flipped bits": flip,
    "truncated": truncate,
    "a run of NULs": nul_run,
    "a foreign block": page,
    "empty": lambda _, __: b"",
    "a foreign file": lambda chance, _: chance.choice(FOREIGN),
    "something behind": lambda chance, data: (
        data + chance.choice((b"{torn", b"\0\0\0", b"\n\n", b'{"id": 5}\n'))
    ),
}
OF_LINES: dict[str, Damage] = {
    "a line twice": lines(lambda chance, split: split.insert(0, chance.choice(split))),
    "a line doubled in place": lines(
        lambda chance, split: split.insert(at := chance.randrange(len(split)), split[at])
    ),
    "a line gone": lines(lambda chance, split: split.__delitem__(chance.randrange(len(split)))),
    "lines exchanged": lines(shuffle),
    "Windows line ends": lambda _, data: data.replace(b"\n", b"\r\n"),
    "a mark of byte order": lambda _, data: b"\xef\xbb\xbf" + data,
}

# ── the verdict ─────────────────────────────────────────────────────────────────────────────────


def opened(store: Any) -> Session | None:
    """Every session there is, if all of them open (there is one, unless damage hid it or made another)."""
    try:
        names = [info.id for info in store.sessions()]
        sessions = [stored(store, name) for name in names]
    except RefoldError as error:
        assert str(error)
        return None
    return max(sessions, key=len, default=None)


def kind_of(store: Any) -> str:
    return "jsonl" if isinstance(store, JsonlStore) else "sqlite"


def entries(session: Session | None) -> dict[str, bytes]:
    return {entry.id: fmt.encode(entry) for entry in session.entries} if session else {}


def check(store: Any, before: dict[str, bytes]) -> None:
    found = doctor.examine(store)
    states = {finding.state for finding in found}
    session = opened(store)
    there = entries(session)
    if not found:  # what has no check sum may say something else now, and an end that is gone left no trace
        assert session is None or not session.problems, "found well, and has holes"
    if session is None and "lasting" not in states:
        assert not list(store.sessions()), f"does not open, and the doctor says {found}"
    if "lasting" in states and kind_of(store) == "jsonl":  # a database may open whose other pages are damaged
        assert session is None, "it opens, and the doctor says that it does not"
    if session is not None and session.problems:
        assert found, "holes that the doctor does not see"
    readable = {id for id, line in there.items() if before.get(id) == line}
    repaired = doctor.examine(store, repair=True)
    saved = [
        type(store)(finding.where)
        for finding in repaired
        if finding.where.endswith(".db") and finding.state == "repaired"
    ]
    left = entries(opened(store))
    for other in saved:
        left |= entries(opened(other))
    assert readable <= left.keys(), f"a repair lost {sorted(readable - left.keys())[:5]}"
    after = {finding.state for finding in doctor.examine(store)}
    if "lasting" not in {finding.state for finding in repaired}:
        assert "lasting" not in after and "repairable" not in after, f"after a repair: {after}"
        session = opened(store)
        if session is not None:
            session.append("It goes on.")
            assert entries(opened(store)).keys() >= {session.leaf}


def attack(kind: str, folder: Path, seeds: range) -> None:
    make, name = STORES[kind]
    origin = folder / "origin"
    origin.mkdir()
    store = make(origin / name)
    before = entries(conversation(store, 20))
    store.close()
    data = (origin / name).read_bytes()
    damages = {**ANY, **(OF_LINES if kind == "jsonl" else {})}
    for seed in seeds:
        chance = random.Random(seed)
        what = chance.choice(list(damages))
        place = folder / f"{seed}"
        shutil.copytree(origin, place)
        damaged = damages[what](chance, data)
        (place / name).write_bytes(damaged)
        if chance.random() < 0.3:
            for aside in place.glob(f"{name}-*"):
                aside.unlink()
        broken = make(place / name)
        try:
            check(broken, before)
        except (AssertionError, Exception) as error:
            raise AssertionError(f"seed {seed}, {what}: {error!r}") from error
        finally:
            broken.close()
        shutil.rmtree(place)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", STORES)
def test_the_verdict_of_the_doctor_is_so(kind: str, tmp_path: Path) -> None:
    attack(kind, tmp_path, range(40))


@pytest.mark.torture
@pytest.mark.parametrize("part", range(32))
@pytest.mark.parametrize("kind", STORES)
def test_the_verdict_of_the_doctor_is_so_at_any_damage(kind: str, part: int, tmp_path: Path) -> None:
    attack(kind, tmp_path, range(1_000 + 100 * part, 1_100 + 100 * part))


@pytest.mark.parametrize("kind", STORES)
def test_what_is_no_file_is_said_and_left(kind: str, tmp_path: Path) -> None:
    make, name = STORES[kind]
    (tmp_path / name).mkdir()
    try:
        store = make(tmp_path / name)
        assert list(store.sessions()) == [] and doctor.examine(store, repair=True) == []  # a folder of files
    except RefoldError as error:
        assert "folder" in str(error)
    assert (tmp_path / name).is_dir() and not list((tmp_path / name).iterdir())


@pytest.mark.parametrize("kind", STORES)
def test_what_may_not_be_read_is_said(kind: str, tmp_path: Path) -> None:
    make, name = STORES[kind]
    store = make(tmp_path / name)
    before = entries(conversation(store, 20))
    store.close()
    (tmp_path / name).chmod(0)
    with ordinary_rights():
        assert doctor.examine(make(tmp_path / name), repair=True)
    (tmp_path / name).chmod(0o600)
    assert entries(stored(make(tmp_path / name), "s")) == before


def test_a_lost_first_entry_is_repaired_once(tmp_path: Path) -> None:
    """Its hole has no parent, as any first entry: it is an entry like the others afterwards."""
    store = JsonlStore(tmp_path / "s.jsonl")
    conversation(store, 20)
    store.close()
    split = (tmp_path / "s.jsonl").read_bytes().split(b"\n")
    (tmp_path / "s.jsonl").write_bytes(b"\n".join((split[0], *split[2:])))
    store = JsonlStore(tmp_path / "s.jsonl")
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"lost"}
    repaired = (tmp_path / "s.jsonl").read_bytes()
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"lost"}
    assert (tmp_path / "s.jsonl").read_bytes() == repaired


def test_an_index_whose_declaration_is_damaged_is_found_and_made_anew(tmp_path: Path) -> None:
    place = tmp_path / "s.db"
    store = SqliteStore(place)
    session = conversation(store, 4)
    store.close()
    with closing(apsw.Connection(str(place))) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute("UPDATE sqlite_schema SET sql=replace(sql,'porter','pXrter') WHERE name='words'")
    store = SqliteStore(place)
    assert [finding.state for finding in doctor.examine(store)] == ["repairable"]
    assert [finding.state for finding in doctor.examine(store, repair=True)] == ["repaired"]
    stored(store, session.id).append("It goes on.")
    assert doctor.examine(store) == []
    store.close()
