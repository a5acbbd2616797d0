"""An error at every I/O call of a scripted session: it surfaces in that call, nothing acknowledged is lost,
and the store works again afterwards."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold.errors import RefoldError, SessionExists, UnknownName
from refold.protocols import SessionInfo
from refold.stores.disk import Disk
from refold.stores.jsonl import JsonlStore

from . import kit
from .faults import FAULTS, FaultyDisk, FaultyVfs, Trigger


class Forgiving(FaultyDisk):
    """Planted: a failed sync is tried again, and the second answer believed."""

    def sync(self, fd: int) -> None:
        try:
            super().sync(fd)
        except OSError:
            super().sync(fd)


class Careless(JsonlStore):
    """Planted: a short write is not noticed and not taken back."""

    def _write(self, path: Path, fd: int, data: bytes) -> None:
        self._disk.write(fd, data)
        self._disk.sync(fd)


def opened(kind: str, place: Path, trigger: Trigger) -> Any:
    if kind == "sqlite":
        vfs = FaultyVfs(trigger)
        store = kit.make(kind, place, vfs=vfs.label, timeout=1.0)
        store.kept = vfs
        return store
    disk = Forgiving(trigger) if kind == "forgiving" else FaultyDisk(trigger)
    cls = Careless if kind == "careless" else JsonlStore
    return cls(place / "s.jsonl", folder=False, disk=disk)


class Script:
    """A session of ten steps. A step that fails is tried again, as a caller would."""

    def __init__(self, kind: str, place: Path, trigger: Trigger) -> None:
        self.kind, self.place, self.trigger = kind, place, trigger
        self.promised: list[str] = []
        self.tried: set[str] = set()
        self.failures: list[str] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        store = self.store = opened(self.kind, self.place, self.trigger)
        self.step(lambda: self.create(store))
        for number in range(4):  # the first of many entries are a new file
            self.step(lambda n=number: self.append(store, [f"a{n}"] if n else ["a", "a0"]))
        self.step(lambda: self.append(store, ["b0", "b1", "b2"]))
        self.step(lambda: store.load(kit.S))
        self.step(lambda: self.append(store, ["c"], size=9000))
        self.step(store.close)
        self.step(lambda: self.append(store, ["d"]))
        self.step(store.close)

    def step(self, work: Callable[[], Any]) -> None:
        for attempt in range(self.trigger.times + 1):
            fired = len(self.trigger.fired)
            try:
                work()
            except RefoldError as error:
                self.failures.append(str(error))
                if len(self.trigger.fired) == fired:
                    self.wrong.append(f"an error without a cause in this call: {error!r}")
                if attempt == self.trigger.times:
                    self.wrong.append(f"does not work again: {error!r}")
                continue
            except Exception as error:
                self.wrong.append(f"not an error of ours: {error!r}")
            if self.trigger.fault == "EIO" and "sync" in self.trigger.fired[fired:]:
                self.wrong.append("a failed sync was reported as success")
            return

    def create(self, store: Any) -> None:
        try:
            store.create(SessionInfo(id=kit.S, created=1.0))
        except SessionExists:
            if not self.failures:
                raise

    def append(self, store: Any, ids: list[str], size: int = 50) -> None:
        known = [entry.id for entry in store.load(kit.S).entries]
        if ids[-1] in known:
            self.wrong.append(f"{ids} is there although its append failed")
        self.tried.update(ids)
        store.append(kit.S, [kit.said(id, None, size) for id in ids], after=known[-1] if known else None)
        self.promised += ids

    def judge(self) -> list[str]:
        store = kit.make("sqlite" if self.kind == "sqlite" else "jsonl", self.place)
        loaded = store.load(kit.S)
        ids = [entry.id for entry in loaded.entries]
        if ids != self.promised:
            self.wrong.append(f"promised {self.promised}, found {ids}")
        if not all(kit.is_intact(entry) for entry in loaded.entries):
            self.wrong.append("changed")
        if loaded.problems:
            self.wrong.append(f"{loaded.problems}")
        store.close()
        return self.wrong


def played(kind: str, fault: str, at: int, times: int = 1) -> tuple[Script, list[str]]:
    with kit.ram_folder() as place:
        script = Script(kind, place, Trigger(fault, at, times))
        script.run()
        wrong = [f"{fault} at {at} ({script.trigger.fired}): {text}" for text in script.judge()]
        return script, wrong


class Sticky(Script):
    """The disk stays broken: every call fails from the n-th on. Then it is repaired, and the same store is used
    on, or it is closed and somebody else looks. Whoever was told that nothing was added finds nothing."""

    uncertain: bool = False

    def step(self, work: Callable[[], Any]) -> None:
        try:
            work()
        except RefoldError as error:
            self.failures.append(str(error))
            if not isinstance(error, UnknownName) and not _ADVICE.search(str(error)):
                self.wrong.append(f"does not say what to do: {error}")
            self.uncertain |= "whether the entry is there" in str(error)
        except Exception as error:
            self.wrong.append(f"not an error of ours: {error!r}")

    def repaired(self) -> None:
        """The same object goes on, and what failed is not there, now or later."""
        self.trigger.at = 10**9
        self.step(lambda: self.create(self.store))
        self.step(lambda: self.append(self.store, ["z"]))
        if self.promised[-1:] != ["z"]:
            self.wrong.append(f"does not work again: {self.failures[-1]}")
        # What could not be taken back has been by now; only a database that was closed in between cannot, and
        # whoever was told so may find it.
        self.uncertain = self.uncertain and self.kind == "sqlite"

    def judge(self) -> list[str]:
        self.trigger.at = 10**9
        store = kit.make("sqlite" if self.kind == "sqlite" else "jsonl", self.place)
        try:
            ids = [entry.id for entry in store.load(kit.S).entries]
        except UnknownName:
            ids = []
        kept = [id for id in ids if id in self.promised or not self.uncertain]
        if kept != self.promised:
            self.wrong.append(f"promised {self.promised}, found {ids}; said {self.failures}")
        store.close()
        return self.wrong


_ADVICE = re.compile(r": .*(?:try again|check|restore it|choose|run `refold)")


def stuck(
    kind: str, fault: str, step: int, only: tuple[str, ...] = (), *, goes_on: bool = False
) -> tuple[int, int, list[str]]:
    fired, uncertain, found = 0, 0, []
    for at in range(1, calls_of(kind) + 1, step):
        with kit.ram_folder() as place:
            script = Sticky(kind, place, Trigger(fault, at, 10**9, only))
            script.run()
            fired += bool(script.trigger.fired)
            if goes_on:
                script.repaired()
            found += [f"{fault} from {at}: {text}" for text in script.judge()]
            uncertain += script.uncertain
    return fired, uncertain, found


SYNCS = ("sync", "xSync")
WRITES = ("write", "sync", "truncate", "xWrite", "xSync", "xTruncate")


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("only", [(), SYNCS, WRITES], ids=["all", "syncs", "writes"])
@pytest.mark.parametrize(("kind", "fault"), [(k, f) for k in kit.REAL for f in ("EIO", "ENOSPC")])
def test_a_disk_that_stays_broken_shows_no_failed_append_later(
    kind: str, fault: str, only: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    fired, uncertain, wrong = stuck(kind, fault, 1 if kind == "jsonl" else 9, only)
    assert wrong[:3] == [] and (fired or (fault, only) == ("ENOSPC", SYNCS))
    if only == SYNCS:
        assert uncertain == 0  # what was written can always be taken back


STAYING = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "short")


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "fault"), [(k, f) for k in kit.REAL for f in STAYING])
def test_a_store_goes_on_when_the_disk_is_mended(
    kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    fired, _, wrong = stuck(kind, fault, 1 if kind == "jsonl" else 9, goes_on=True)
    assert wrong[:3] == [] and fired


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fault", STAYING)
@pytest.mark.parametrize("only", [(), SYNCS, WRITES], ids=["all", "syncs", "writes"])
def test_a_database_goes_on_whenever_the_disk_broke(
    fault: str, only: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    assert stuck("sqlite", fault, 1, only, goes_on=True)[2][:3] == []


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("only", [(), SYNCS, WRITES], ids=["all", "syncs", "writes"])
@pytest.mark.parametrize("fault", STAYING)
def test_a_database_on_a_disk_that_breaks_at_every_call(
    fault: str, only: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    assert stuck("sqlite", fault, 1, only)[2][:3] == []


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("times", [2, 3])
def test_two_failed_syncs_in_a_row_do_not_show_the_append_later(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    found: list[str] = []
    for at in range(1, calls_of("sqlite") + 1, 3):
        with kit.ram_folder() as place:
            script = Script("sqlite", place, Trigger("EIO", at, times, SYNCS))
            script.run()
            found += [f"{at}: {text}" for text in script.judge()]
    assert found[:3] == []


def calls_of(kind: str) -> int:
    script, wrong = played(kind, "EIO", 10**9)
    assert not wrong and not script.failures
    return script.trigger.calls


def every(kind: str, fault: str, step: int, times: int = 1) -> tuple[int, list[str]]:
    fired, found = 0, []
    for at in range(1, calls_of(kind) + 1, step):
        script, wrong = played(kind, fault, at, times)
        fired += bool(script.trigger.fired)
        found += wrong
    return fired, found


def _pairs(kinds: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(k, f) for k in kinds for f in FAULTS]


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "fault"), _pairs(kit.REAL))
def test_an_error_surfaces_and_nothing_is_lost(
    kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    fired, wrong = every(kind, fault, 1 if kind == "jsonl" else 9)
    assert wrong == []
    assert fired > 3


@pytest.mark.torture
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "fault"), _pairs(kit.REAL))
def test_an_error_at_every_call(kind: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    fired, wrong = every(kind, fault, 1)
    assert wrong == []
    assert fired > 10


@pytest.mark.sample(1)
@pytest.mark.parametrize("fault", ["EIO", "ENOSPC", "short"])
def test_two_errors_in_a_row_leave_the_file_repairable(fault: str) -> None:
    """The write fails and taking it back fails too: the next call does it."""
    fired, wrong = every("jsonl", fault, 1, times=2)
    assert wrong == [] and fired > 3


@pytest.mark.parametrize(("kind", "fault"), [("forgiving", "EIO"), ("careless", "short")])
def test_planted_carelessness_is_caught_by_faults(kind: str, fault: str) -> None:
    assert every(kind, fault, 1)[1] != []


@pytest.mark.parametrize("kind", kit.REAL)
def test_a_file_that_may_not_grow_loses_nothing(kind: str) -> None:
    """A real limit of the operating system instead of a planted error."""
    resource = pytest.importorskip("resource", reason="only where files can be limited")
    with kit.ram_folder() as place:
        store = kit.make(kind, place)
        store.create(SessionInfo(id=kit.S, created=1.0))
        promised: list[str] = []
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        refused = [0, 0]
        try:
            for number in range(60):
                small = (200_000, limits[1]) if number % 40 < 30 else limits
                resource.setrlimit(resource.RLIMIT_FSIZE, small)
                try:
                    last = promised[-1] if promised else None
                    store.append(kit.S, [kit.said(f"n{number}", None, 9_000)], after=last)
                    promised.append(f"n{number}")
                except RefoldError as error:
                    refused[number % 40 >= 30] += bool(_ADVICE.search(str(error)))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [entry.id for entry in store.load(kit.S).entries] == promised
        store.close()
        again = kit.make(kind, place)
        assert [entry.id for entry in again.load(kit.S).entries] == promised
        again.close()
    assert refused[0] and not refused[1]


def test_the_real_disk_is_used_by_default(tmp_path: Path) -> None:
    assert type(JsonlStore(tmp_path / "x.jsonl")._disk) is Disk
