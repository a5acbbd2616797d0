"""One bad entry never hides the others: a flipped bit anywhere in a log leaves everything else readable, the
place of what it hit is marked, appending goes on, and the doctor says what is so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from refold import Session, presets
from refold import entries as e
from refold import format as fmt
from refold import messages as m
from refold.engine import Engine
from refold.errors import FormatError, NewerFormat, RefoldError
from refold.protocols import SessionInfo
from refold.registry.sessions import stored
from refold.stores import damage, doctor
from refold.stores.jsonl import JsonlStore
from refold.stores.sqlite import SqliteStore
from refold.testing.validators import validate_view

ENGINE = Engine(presets.get("refold", window=100_000))


def conversation(store: Any, count: int) -> Session:
    """Turns with calls and results, notes, labels, pins, a branch, some of them appended together."""
    numbers = iter(range(10_000))
    store.create(SessionInfo(id="s", created=1.0, name="n"))
    session = Session(id="s", store=store, clock=lambda: 1.5, new_id=lambda: f"e{next(numbers):03}")
    session.append(m.user("Begin."))
    while len(session) < count:
        n = len(session)
        session.append(m.assistant(f"Reading {n}.", m.call(f"c{n}", "Read", path=f"f{n}.py")))
        result = session.make(e.MessageEntry, message=m.result(f"c{n}", f"text of {n}\n"))
        session.extend((result, session.make(e.Label, target=result.id, text="seen")))
        session.append(m.user(f"Next, {n}?"))
        if n % 7 == 0:
            session.append(session.make(e.Note, content=m.content("a note"), kind="k"))
            session.append(session.make(e.Pin, target="e000"))
        if n % 20 == 4:
            session.move(session.path[-2].id)
    return session


def checked(store: Any, before: dict[str, bytes], hit: set[str], what: str) -> list[str]:
    """What is wrong with a store in which `hit` entries were damaged."""
    wrong: list[str] = []
    said = {finding.state for finding in doctor.examine(store)}
    try:
        name = getattr(store, "session_id", None) or "s"
        session = stored(store, name)
    except RefoldError as error:
        if "lasting" not in said:
            wrong.append(f"{what}: the doctor says {said}, but {error!r}")
        if not isinstance(error, NewerFormat):
            wrong.append(f"{what}: {error!r}")
        return wrong
    if "lasting" in said:
        wrong.append(f"{what}: it opens, and the doctor says it does not")
    there = {entry.id: entry for entry in session.entries}
    nameless = {_nameless(entry) for entry in session.entries if not entry.on_path}
    for id, line in before.items():
        if id in hit or (id in there and fmt.encode(there[id]) == line):
            continue
        # Where damage gave another entry this id, an annotation, which nobody names, may have a new one.
        if _nameless(fmt.decode(line)) not in nameless:
            wrong.append(f"{what}: {id} is {there.get(id)}")
    session.append(m.user("It goes on."))
    again = stored(store, name)
    if again.path[-1].id != session.leaf or [x.id for x in again.path] != [x.id for x in session.path]:
        wrong.append(f"{what}: the next entry is not there, or elsewhere")
    if found := problems_of_view(session):
        wrong.append(f"{what}: {found}")
    return wrong


_SEEN: dict[tuple[bytes, ...], list[Any]] = {}


def problems_of_view(session: Session) -> list[Any]:
    """What is wrong with the view of a path that goes on. Most damage leaves one of a few paths: each of
    them is judged once."""
    path = tuple(map(fmt.encode, session.path[:-1]))
    if path not in _SEEN:
        _SEEN[path] = list(validate_view(ENGINE.view(session)))
    return _SEEN[path]


def _nameless(entry: e.AnyEntry) -> bytes:
    return fmt.encode(msgspec.structs.replace(entry, id=""))


def hit_by(data: bytes, at: int) -> set[str]:
    """The entries in the line that a byte is in (a line of several: the one it is in), and the next line's if
    the byte ends a line."""
    start = data.rfind(b"\n", 0, at) + 1
    end = data.find(b"\n", at)
    line = data[start:end]
    if not line.startswith(b"["):
        return {found.id} if (found := _entry(line)) else set()
    for piece in damage.entries_in_damaged_line(line):
        begin = start + line.find(piece)
        if begin - 1 <= at <= begin + len(piece):
            return {found.id} if (found := _entry(piece)) else set()
    return set()


def _entry(line: bytes) -> e.AnyEntry | None:
    try:
        return fmt.decode(line)
    except RefoldError:
        return None


PARTS = 4
"""In how many tests the long runs are done, side by side where there are cores."""


def flipped_file(place: Path, count: int, step: int, bit: int | None = None, first: int = 0) -> list[str]:
    place.mkdir()
    path = place / "s.jsonl"
    store = JsonlStore(path, folder=False)
    session = conversation(store, count)
    data = path.read_bytes()
    before = {entry.id: fmt.encode(entry) for entry in session.entries}
    wrong: list[str] = []
    for at in range(first, len(data), step):
        chosen = (at * 5 + step) % 8 if bit is None else bit
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << chosen)]) + data[at + 1 :])
        wrong += checked(JsonlStore(path, folder=False), before, hit_by(data, at), f"byte {at} bit {chosen}")
    assert len(data) > count * 50
    return wrong


@pytest.mark.slow
def test_a_flipped_bit_in_a_file_hides_nothing_else(tmp_path: Path) -> None:
    assert flipped_file(tmp_path / "x", 30, 11)[:5] == []


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_at_every_byte_of_a_file(tmp_path: Path, bit: int, part: int) -> None:
    assert flipped_file(tmp_path / "x", 100, PARTS, bit, part)[:5] == []


def flipped_rows(place: Path, count: int, step: int, first: int = 0) -> list[str]:
    store = SqliteStore(place / "s.db")
    session = conversation(store, count)
    with store.connection() as connection:
        rows = connection.execute("SELECT row, id, line FROM entries").fetchall()
    before = {entry.id: fmt.encode(entry) for entry in session.entries}
    wrong: list[str] = []
    for row, id, line in rows:
        for at in range((row + first) % step, len(line), step):
            bad = line[:at] + bytes([line[at] ^ (1 << at % 8)]) + line[at + 1 :]
            with store.writing() as connection:
                connection.execute("UPDATE entries SET line=? WHERE row=?", (bad, row))
            wrong += checked(store, before, {id}, f"row {row} byte {at}")
            tip = session._after
            with store.writing() as connection:
                connection.execute("UPDATE entries SET line=? WHERE row=?", (line, row))
                connection.execute("DELETE FROM entries WHERE row > ?", (rows[-1][0],))
                connection.execute("DELETE FROM words WHERE rowid > ?", (rows[-1][0],))
                connection.execute("UPDATE sessions SET entries=?, tip=?", (len(rows), tip))
    return wrong


def test_a_flipped_bit_in_a_row_hides_nothing_else(tmp_path: Path) -> None:
    assert flipped_rows(tmp_path, 30, 61)[:5] == []


@pytest.mark.torture
@pytest.mark.parametrize("part", range(2 * PARTS))
def test_a_flipped_bit_at_every_byte_of_every_row(tmp_path: Path, part: int) -> None:
    assert flipped_rows(tmp_path, 100, 2 * PARTS, part)[:5] == []


def flipped_pages(place: Path, count: int, step: int, first: int = 0) -> tuple[int, list[str]]:
    """Of the whole database: it opens without what was hit, or says in an error of ours that it does not."""
    store = SqliteStore(place / "whole.db")
    session = conversation(store, count)
    with store.connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    store.close()
    data = (place / "whole.db").read_bytes()
    opened, wrong = 0, []
    for at in range(first, len(data), step):
        path = place / f"f{at}" / "s.db"
        path.parent.mkdir()
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        path.chmod(0o600)
        hurt = SqliteStore(path)
        try:
            said = {finding.state for finding in doctor.examine(hurt)}
            found = stored(hurt, "s")
        except RefoldError:
            if "lasting" not in said:
                wrong.append(f"byte {at}: the doctor says {said}, but it does not open")
        else:
            opened += 1
            whole = [fmt.encode(x) for x in session.entries]
            same = sum(fmt.encode(x) in whole for x in found.entries)
            if same < len(whole) // 3:
                wrong.append(f"byte {at}: only {same} entries are left")
        hurt.close()
        shutil.rmtree(path.parent)
    return opened, wrong


def test_a_flipped_bit_in_a_database_is_survived_or_said(tmp_path: Path) -> None:
    opened, wrong = flipped_pages(tmp_path, 30, 997)
    assert wrong[:5] == [] and opened > 10


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_flipped_bits_all_over_a_database(tmp_path: Path, part: int) -> None:
    opened, wrong = flipped_pages(tmp_path, 100, 23 * PARTS, 23 * part)
    assert wrong[:5] == [] and opened > 100


# ── what is said, and what is left ──────────────────────────────────────────────────────────────


@pytest.fixture
def file(tmp_path: Path) -> JsonlStore:
    store = JsonlStore(tmp_path / "s.jsonl", folder=False)
    conversation(store, 20)
    return store


def test_repair_writes_the_hole_down_and_sets_the_bytes_aside(file: JsonlStore) -> None:
    lines = file.path.read_bytes().split(b"\n")
    number = next(n for n, line in enumerate(lines) if b'"role":"tool"' in line)
    bad = lines[number].replace(b'"role":"tool"', b'"role":"t\x00ol"', 1)
    lines[number] = bad
    file.path.write_bytes(b"\n".join(lines))
    session = stored(file, "s")
    holes = [entry for entry in session.entries if isinstance(entry, e.Hole)]
    assert len(holes) == 1 and session.problems
    found = doctor.examine(file, repair=True)
    assert {finding.state for finding in found} == {"lost"}  # never "repaired" where something is lost
    assert holes[0].id in str(found) and "s.jsonl.bad" in str(found)
    assert bad[:40].lstrip(b"[")[:30] in file.path.with_name("s.jsonl.bad").read_bytes()
    again = stored(file, "s")
    assert [x.id for x in again.path] == [x.id for x in session.path] and again.problems == ()
    later = doctor.examine(file)
    assert {finding.state for finding in later} == {"lost"} and holes[0].id in str(later)


def test_a_missing_line_is_a_hole_of_the_name_its_child_says(file: JsonlStore) -> None:
    lines = file.path.read_bytes().split(b"\n")
    gone = fmt.decode(lines[1])
    file.path.write_bytes(b"\n".join([lines[0], *lines[2:]]))
    session = stored(file, "s")
    assert isinstance(session[gone.id], e.Hole) and session.path[0].id == gone.id
    assert {finding.state for finding in doctor.examine(file)} == {"lost"}


@pytest.mark.parametrize("damaged", [b"{", b'{"type":"sess', b'{"type":"session","version":0,"id":"s"}', b""])
def test_a_destroyed_header_hides_nothing(file: JsonlStore, damaged: bytes) -> None:
    lines = file.path.read_bytes().split(b"\n")
    before = [entry.id for entry in stored(file, "s").entries]
    file.path.write_bytes(b"\n".join([damaged, *lines[1:]]))
    store = JsonlStore(file.path, folder=False)
    session = stored(store, store.session_id or "")
    assert [entry.id for entry in session.entries] == before and session.problems
    session.append(m.user("next"))
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"repaired"}
    assert doctor.examine(store) == []


@pytest.mark.parametrize(
    "damaged",
    [b'{"type":"ses\nsion","version":1,"id":"s"}\n', b"\xff\xfe\n\x00\n\n[{\n", b""],
    ids=["a line end inside", "several lines of rubbish", "no line at all"],
)
def test_a_header_that_is_no_line_any_more_hides_nothing(file: JsonlStore, damaged: bytes) -> None:
    header, _, rest = file.path.read_bytes().partition(b"\n")
    before = [entry.id for entry in stored(file, "s").entries]
    file.path.write_bytes(damaged + rest)
    store = JsonlStore(file.path, folder=False)
    session = stored(store, store.session_id or "")
    assert header and [entry.id for entry in session.entries] == before and session.problems
    session.append(m.user("next"))
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"repaired"}
    assert doctor.examine(store) == []


def test_an_annotation_whose_id_is_taken_is_kept_under_another(file: JsonlStore) -> None:
    lines = file.path.read_bytes().split(b"\n")
    labels = [line for line in lines if b'"type":"label"' in line]
    ids = [fmt.decode(piece).id for line in labels[:2] for piece in damage.entries_in_damaged_line(line)[1:]]
    file.path.write_bytes(
        file.path.read_bytes().replace(f'"id":"{ids[0]}"'.encode(), f'"id":"{ids[1]}"'.encode())
    )
    session = stored(file, "s")
    targets = [entry.target for entry in session.entries if isinstance(entry, e.Label)]
    assert len(targets) == len(set(targets)) == sum(line.count(b'"type":"label"') for line in lines)
    assert session.problems


TENTH = "(SELECT row FROM entries ORDER BY row LIMIT 1 OFFSET 10)"
COLUMNS = {
    "an id that is no UTF-8": f"UPDATE entries SET id=CAST(x'ff41' AS TEXT) WHERE row={TENTH}",
    "an id of bytes": f"UPDATE entries SET id=x'ff00' WHERE row={TENTH}",
    "no id": f"UPDATE entries SET id=NULL WHERE row={TENTH}",
    "a version that never was": f"UPDATE entries SET version=-3 WHERE row={TENTH}",
    "a row far away": f"UPDATE entries SET row=row+(1<<34) WHERE row={TENTH}",
    "the last row far away": "UPDATE entries SET row=row+(1<<34) WHERE row=(SELECT max(row) FROM entries)",
    "rows missing at the end": "UPDATE sessions SET entries=entries+1000",
    "a number of rows out of the air": "UPDATE sessions SET entries=1<<35",
    "too few rows": "UPDATE sessions SET entries=3",
    "less than no rows": "UPDATE sessions SET entries=-5",
    "a name that is no UTF-8": "UPDATE sessions SET name=CAST(x'ff' AS TEXT), cwd=x'ff'",
    "a tip that is no UTF-8": "UPDATE sessions SET tip=CAST(x'ff' AS TEXT)",
}


@pytest.mark.parametrize("damaged", COLUMNS)
def test_a_damaged_column_hides_nothing_else(tmp_path: Path, damaged: str) -> None:
    """One bit in an id, and no session of the database could be opened; one in a count, and loading had no end."""
    store = SqliteStore(tmp_path / "s.db")
    session = conversation(store, 30)
    before = {entry.id: fmt.encode(entry) for entry in session.entries}
    with store.connection() as connection:
        connection.execute(COLUMNS[damaged])
    hit = {session.entries[10].id} if "version" in damaged else set[str]()
    assert checked(store, before, hit, damaged) == []
    assert [info.id for info in store.sessions()] == ["s"]
    doctor.examine(store, repair=True)
    assert checked(store, before, hit, f"{damaged}, repaired") == []


@pytest.mark.parametrize(
    "damaged", ["line=NULL", "line=7", "line='x'", "line=1.5", "version=NULL", "version='x'"]
)
def test_a_column_of_another_kind_hides_nothing_else(tmp_path: Path, damaged: str) -> None:
    """The table is strict, and one flipped bit in the head of a row passes it."""
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    session = conversation(store, 30)
    before = {entry.id: fmt.encode(entry) for entry in session.entries}
    store.close()
    strict = next(
        iter(apsw.Connection(str(path)).execute("SELECT sql FROM sqlite_master WHERE name='entries'"))
    )
    loose = (str(strict[0]).replace(" STRICT", "").replace(" NOT NULL", ""),)
    table = "UPDATE sqlite_master SET sql=? WHERE name='entries'"
    for statement, values in (
        (table, loose),
        (f"UPDATE entries SET {damaged} WHERE row={TENTH}", ()),
        (table, strict),
    ):
        connection = apsw.Connection(str(path))
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(statement, values)
        connection.close()
    store = SqliteStore(path)
    hit = {session.entries[10].id}
    assert checked(store, before, hit, damaged) == []
    doctor.examine(store, repair=True)
    assert checked(store, before, hit, f"{damaged}, repaired") == []


def test_a_session_whose_id_is_damaged_gets_one_that_can_be_said(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    before = conversation(store, 10)
    with store.connection() as connection:
        connection.execute("UPDATE sessions SET id=CAST(x'73ff' AS TEXT)")
    assert {finding.state for finding in doctor.examine(store, repair=True)} == {"repaired"}
    [info] = store.sessions()
    assert [x.id for x in stored(store, info.id).entries] == [x.id for x in before.entries]


def test_a_database_of_a_version_that_never_was_is_refused_in_a_sentence(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    conversation(store, 10)
    with store.connection() as connection:
        connection.execute("PRAGMA user_version=0")
    store.close()
    with pytest.raises(FormatError, match="never was"):
        stored(SqliteStore(tmp_path / "s.db"), "s")


def test_missing_rows_of_a_database_are_holes(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    session = conversation(store, 30)
    with store.writing() as connection:
        connection.execute("DELETE FROM entries WHERE row % 5 = 2")
    again = stored(store, "s")
    assert any(isinstance(entry, e.Hole) for entry in again.path)
    assert again.leaf == session.leaf
    again.append(m.user("next"))
    assert stored(store, "s").leaf == again.leaf
    assert doctor.examine(store, repair=True) and stored(store, "s").leaf == again.leaf
    again.append(m.user("and next"))
    assert stored(store, "s").leaf == again.leaf
