"""Where a store lives: links, several who create it at once, places that cannot be used."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import entries as e
from refold import messages as m
from refold.errors import RefoldError, StorageError
from refold.protocols import SessionInfo
from refold.stores import doctor, is_store
from refold.stores.jsonl import JsonlStore

from . import kit

S = kit.S


@pytest.mark.parametrize("missing", [False, True], ids=["link", "dangling link"])
def test_a_file_behind_a_link_is_written_there_and_the_link_stays(tmp_path: Path, missing: bool) -> None:
    real, link = tmp_path / "disk" / "real.jsonl", tmp_path / "s.jsonl"
    real.parent.mkdir()
    if not missing:
        JsonlStore(real, folder=False).create(SessionInfo(id=S))
    link.symlink_to(real)
    store = JsonlStore(link, folder=False)
    if missing:
        store.create(SessionInfo(id=S))
    store.append(S, [kit.said("a", None), kit.said("b", "a")], after=None)  # a new file, put in its place
    with real.open("ab") as file:
        file.write(b"{garbage\n")
    doctor.examine(store, repair=True)
    store.append(S, [kit.said("c", "b")], after="b")
    assert link.is_symlink() and not real.is_symlink()
    assert [e.id for e in JsonlStore(real, folder=False).load(S).entries] == ["a", "b", "c"]
    store.delete(S)
    assert not link.is_symlink() and not real.exists()


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    found: list[Any] = [None] * count
    ready = threading.Barrier(count)

    def run(number: int) -> None:
        ready.wait()
        try:
            found[number] = work(number)
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


@pytest.mark.parametrize(
    "spec", ["jsonl:{}/s.jsonl", "sqlite:{}/s.db#x", "jsonl:{}/folder/", "jsonl:{}/empty.jsonl"]
)
def test_of_many_who_open_a_new_session_one_makes_it_and_all_have_it(tmp_path: Path, spec: str) -> None:
    for turn in range(8):
        place = tmp_path / str(turn)
        place.mkdir()
        (place / "empty.jsonl").touch()
        name = None if spec.endswith(".jsonl") else "x"
        found = at_once(6, lambda _, place=place, name=name: refold.open(spec.format(place), name))
        assert all(isinstance(session, refold.Session) for session in found), found
        assert len({session.id for session in found}) == 1
        found[0].append(m.user("hello"))
        assert len(refold.open(spec.format(place), found[0].id)) == 1


# ── places that cannot be used ──────────────────────────────────────────────────────────────────


def places(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "loop.db").symlink_to(tmp_path / "loop.db")
    (tmp_path / "folder.db").mkdir()
    long = "n" * 5000
    return {
        "below a file": f"{tmp_path}/file/x.jsonl",
        "below a file, database": f"sqlite:{tmp_path}/file/x.db",
        "loop": f"{tmp_path}/loop.jsonl",
        "loop, database": f"sqlite:{tmp_path}/loop.db",
        "long": f"{tmp_path}/{long}.jsonl",
        "long, database": f"sqlite:{tmp_path}/{long}.db",
        "folder": f"sqlite:{tmp_path}/folder.db",
        "zero": f"jsonl:{tmp_path}/a\0b.jsonl",
        "nowhere": "jsonl:/proc/nowhere/s.jsonl",
        "nowhere, database": "sqlite:/proc/nowhere/s.db",
    }


@pytest.mark.parametrize("which", range(10))
def test_a_place_that_cannot_be_used_is_one_of_our_errors(tmp_path: Path, which: int) -> None:
    spec = list(places(tmp_path).values())[which]
    with pytest.raises(RefoldError) as caught:
        refold.open(spec).append(m.user("x"))
    assert str(caught.value)


CALLS = ("stat", "exists", "is_dir", "is_file", "open", "glob", "mkdir", "chmod", "is_symlink")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("spec", ["{}/s.jsonl", "jsonl:{}/sub/folder/", "sqlite:{}/sub/s.db", "{}/other"])
def test_no_permission_is_one_of_our_errors(
    tmp_path: Path, call: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refold.open(f"jsonl:{tmp_path}/s.jsonl").append(m.user("x"))
    (tmp_path / "other").write_bytes(b"something else\n")

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    for work in (
        lambda: refold.open(spec.format(tmp_path), "x").append(m.user("y")),
        lambda: is_store(spec.format(tmp_path)),
        lambda: JsonlStore(tmp_path / "s.jsonl").examine(),
        lambda: list(JsonlStore(tmp_path / "s.jsonl").sessions()),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Path, call, denied)
            try:
                work()
            except RefoldError as error:
                assert isinstance(error, StorageError) or str(error)


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("loss", ["removed", "folder moved", "replaced"])
def test_what_is_appended_to_a_file_that_is_gone_is_not_acknowledged(
    kind: str, loss: str, tmp_path: Path
) -> None:
    """SQLite itself goes on writing to a file that has no name any more."""
    folder, elsewhere = tmp_path / "here", tmp_path / "there"
    file = folder / "session"
    spec = f"{kind}:{file}"
    session = refold.open(spec, id="s")
    session.append("Before.")
    if loss == "folder moved":
        folder.rename(elsewhere)
    else:
        elsewhere.mkdir()
        for part in folder.iterdir():
            part.rename(elsewhere / part.name)
        if loss == "replaced":
            file.mkdir()
    for _ in range(2):
        with pytest.raises(RefoldError):
            session.append("Lost?")
    if loss == "replaced":
        file.rmdir()
    if loss == "folder moved":
        assert not folder.exists(), "nothing is made in its place"
        elsewhere.rename(folder)
    else:
        for part in elsewhere.iterdir():
            part.rename(folder / part.name)
    session.append("After.")
    texts = [x.message.text for x in refold.open(spec, id="s").path if isinstance(x, e.MessageEntry)]
    assert texts == ["Before.", "After."]
