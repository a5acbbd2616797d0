"""No exchange that a client got goes unrecorded: not where the worker is slow, nor where it or the gateway dies."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import apsw
import pytest

import refold
from refold import messages as m
from refold.errors import StorageError
from refold.gateway import spool, worker, worker_client
from refold.gateway.ipc import PassedRequest, UpstreamReply
from refold.session.forget import forget
from refold.stores.postgres.store import PostgresStore
from refold.stores.sqlite import SqliteStore
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run
from tests.gateway.test_sessions import PATHS, ask, body, long_talk, said, sessions
from tests.soon import until


def _recorded(path: Path) -> set[str]:
    """Questions that stand in the store with their answer."""
    talks = [said(session) for session in sessions(path)]
    return {talk[0][1] for talk in talks if talk and talk[-1] == ("assistant", "Fine.")}


def _break_off(folder: Path) -> None:
    """As if the gateway had died while it was writing."""
    [left] = folder.glob("*.spool/*")
    left.write_bytes(left.read_bytes() + b"\0\0\1\0half of a packet")


def _family(pid: int) -> list[int]:
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def test_what_the_worker_cannot_take_yet_waits_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MAX_UNWRITTEN_BYTES", 10)
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 2_000)

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (made, client):
            for n in range(0, 30, 5):
                talks = [[("user", f"Question {n + m}?")] for m in range(5)]
                answers = await asyncio.gather(
                    *(ask(client, "openai", body("openai", talk)) for talk in talks)
                )
                assert {status for status, _, _ in answers} == {200}
        assert made.worker.counts["unrecorded"] == 0

    with WireServer(*(["Fine."] * 30)) as server:
        run(work)
    assert _recorded(tmp_path / "a.db") == {f"Question {n}?" for n in range(30)}
    assert not list(tmp_path.glob("*.spool/*")), "what is written down is not kept twice"


def test_a_gateway_writes_down_what_one_before_it_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = worker.GatewayWorker.take

    def lazy(self: worker.GatewayWorker, packet: Any) -> None:
        if not isinstance(packet, PassedRequest | UpstreamReply):
            take(self, packet)

    async def work() -> None:
        store = f"sqlite:{tmp_path / 'a.db'}"
        with monkeypatch.context() as patch:
            patch.setattr(worker.GatewayWorker, "take", lazy)
            async with gateway(server.url, store=store, window=16_000) as (_, client):
                for dialect in PATHS:
                    await ask(client, dialect, body(dialect, [("user", f"{dialect}?")], stream=False))
                    await ask(client, dialect, body(dialect, [("user", f"long {dialect}?"), *long_talk(8)]))
        assert not _recorded(tmp_path / "a.db")
        _break_off(tmp_path)
        async with gateway(server.url, store=store), gateway(server.url, store=store):
            pass
        async with gateway(server.url, store=store):
            pass

    with WireServer(*(["Fine."] * 6)) as server:
        run(work)
    wanted = {f"{dialect}?" for dialect in PATHS} | {f"long {dialect}?" for dialect in PATHS}
    assert _recorded(tmp_path / "a.db") == wanted
    assert not list(tmp_path.glob("*.spool/*"))
    for session in sessions(tmp_path / "a.db"):
        assert [text for role, text in said(session)].count("Fine.") == 1, "written down once"


def test_requests_wait_where_neither_disk_nor_memory_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-pressure comes last; where nothing is ever written, requests pass, and what is lost is counted."""
    monkeypatch.setattr(spool, "MEMORY", 40_000)
    monkeypatch.setattr(spool.Spool, "_current", lambda self: (_ for _ in ()).throw(OSError(28, "full")))
    write = worker.GatewayWorker._write_together

    def slow(self: worker.GatewayWorker, batch: Any) -> Any:
        time.sleep(0.02)
        return write(self, batch)

    def never(self: worker.GatewayWorker, batch: Any) -> Any:
        return ()

    async def work() -> None:
        store = f"sqlite:{tmp_path / 'a.db'}"
        for how, lost, seconds in ((slow, False, 20.0), (never, True, 0.05)):
            monkeypatch.setattr(worker.GatewayWorker, "_write_together", how)
            monkeypatch.setattr(worker_client, "ROOM_SECONDS", seconds)
            async with gateway(server.url, store=store) as (made, client):
                for n in range(0, 60, 4):
                    talks = [[("user", f"{n + m}? " + "x" * 2_000)] for m in range(4)]
                    answers = await asyncio.gather(
                        *(ask(client, "openai", body("openai", talk)) for talk in talks)
                    )
                    assert {status for status, _, _ in answers} == {200}
            assert bool(made.worker.counts["unrecorded"]) == lost

    with WireServer(*(["Fine."] * 120)) as server:
        run(work)
    assert len(_recorded(tmp_path / "a.db")) == 60


@pytest.mark.sample(1)
@pytest.mark.parametrize("failing", [0, 2])
def test_exchanges_of_many_sessions_are_one_commit_and_each_its_own_where_that_fails(
    failing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, set_up, commits = worker.GatewayWorker.take, SqliteStore._set_up, list[bool]()

    def lazy(self: worker.GatewayWorker, packet: Any) -> None:
        if not isinstance(packet, PassedRequest | UpstreamReply):
            take(self, packet)

    def counted(self: SqliteStore, connection: apsw.Connection) -> None:
        set_up(self, connection)
        connection.set_commit_hook(lambda: commits.append(True) or len(commits) <= failing)

    async def work() -> None:
        store = f"sqlite:{tmp_path / 'a.db'}"
        with monkeypatch.context() as patch:
            patch.setattr(worker.GatewayWorker, "take", lazy)
            async with gateway(server.url, store=store) as (_, client):
                for n in range(30):
                    await ask(client, "openai", body("openai", [("user", f"Question {n}?")]))
        monkeypatch.setattr(SqliteStore, "_set_up", counted)
        async with gateway(server.url, store=store) as (made, _):
            await until(lambda: made.worker.counts["recorded"] == 30)
        assert made.worker.counts["unrecorded"] == 0

    with WireServer(*(["Fine."] * 30)) as server:
        run(work)
    assert _recorded(tmp_path / "a.db") == {f"Question {n}?" for n in range(30)}
    for session in sessions(tmp_path / "a.db"):
        assert said(session).count(("assistant", "Fine.")) == 1
    assert failing or len(commits) < 10


@pytest.mark.slow
def test_what_a_killed_worker_had_not_written_down_the_next_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, pids = worker_client._process, list[int]()

    def process(there: Any) -> Any:
        worker = start(there)
        pids.append(worker.join.__self__.pid)
        return worker

    monkeypatch.setattr(worker_client, "_process", process)

    async def work() -> None:
        async with gateway(
            server.url, in_process=True, store=f"sqlite:{tmp_path / 'a.db'}", window=16_000
        ) as (
            made,
            client,
        ):
            await ask(client, "openai", body("openai", [("user", "long?"), *long_talk(8)]))
            asked = [ask(client, "openai", body("openai", [("user", f"{n}?")])) for n in range(20)]
            answers = asyncio.gather(*asked)
            await until(lambda: made.worker.counts["recorded"] > 3)
            os.kill(pids[0], signal.SIGKILL)
            assert {status for status, _, _ in await answers} == {200}
            await until(lambda: len(pids) > 1 and not made.worker._unwritten)
        assert made.worker.counts["unrecorded"] == 0

    with WireServer(*(["Fine."] * 41)) as server:
        run(work)
    assert _recorded(tmp_path / "a.db") == {"long?"} | {f"{n}?" for n in range(20)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "size"),
    [
        (3, 0),
        (11, 0),
        (25, 0),
        *(pytest.param(n, 90_000, marks=pytest.mark.torture) for n in range(1, 40, 2)),
    ],
)
def test_killing_gateway_and_worker_loses_nothing_that_a_client_got(
    after: int, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"

    def started() -> tuple[subprocess.Popen[str], str]:
        options = ["--upstream", server.url, "--port", "0", "--store", f"sqlite:{path}", "--window", "100000"]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "refold", "serve", *options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    async def work() -> None:
        process, url = started()
        got: set[str] = set()

        async def question(client: aiohttp.ClientSession, n: int) -> None:
            text = f"{n}?" + "x" * size
            status, _, data = await ask(client, "openai", body("openai", [("user", text)]))
            if status == 200 and b"[DONE]" in data:
                got.add(text)

        few = aiohttp.TCPConnector(limit=8)  # the upstream of tests takes few connections at once
        async with aiohttp.ClientSession(base_url=url, connector=few) as client:
            tasks = [asyncio.ensure_future(question(client, n)) for n in range(40)]
            await until(lambda: len(got) >= after)
            for pid in _family(process.pid):
                os.kill(pid, signal.SIGKILL)
            known = set(got)
            await asyncio.gather(*tasks, return_exceptions=True)
        process.wait()
        again, _ = started()
        again.send_signal(signal.SIGTERM)
        again.wait(60)
        for each in (process, again):
            assert each.stdout is not None
            each.stdout.close()
        assert known <= _recorded(path), {text[:3] for text in known - _recorded(path)}

    with WireServer(*(["Fine."] * 80)) as server:
        run(work)


def test_files_of_the_spool_stay_small_and_go_once_all_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 100)
    made = spool.Spool(tmp_path / "spool")
    places = [made.add(bytes([n]) * 60) for n in range(6)]
    sizes = [path.stat().st_size for path in tmp_path.glob("spool/*")]
    assert sizes == [120, 120, 120]
    assert [made.read(place) for place in places] == [bytes([n]) * 60 for n in range(6)]
    for place in places:
        made.done(place)
    assert [path.stat().st_size for path in tmp_path.glob("spool/*")] == [0]
    last = made.add(b"x" * 60)
    assert made.read(last) == b"x" * 60
    assert [path.stat().st_size for path in tmp_path.glob("spool/*")] == [60]


def test_a_worker_is_given_no_more_than_it_may_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    take = worker.GatewayWorker.take

    def idle(self: worker.GatewayWorker, packet: Any) -> None:
        if isinstance(packet, PassedRequest | UpstreamReply):
            given.append(packet)
        else:
            take(self, packet)

    monkeypatch.setattr(worker_client, "MAX_UNWRITTEN_BYTES", 10)
    monkeypatch.setattr(worker_client, "WORKER_END_SECONDS", 0.5)
    monkeypatch.setattr(worker.GatewayWorker, "take", idle)

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            for n in range(4):
                await ask(client, "openai", body("openai", [("user", f"Question {n}?")]))
            await until(lambda: given)
            await asyncio.sleep(0.1)

    with WireServer(*(["Fine."] * 4)) as server:
        run(work)
    assert len(given) == 1


def test_requests_whose_replies_never_come_are_kept_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "MAX_PENDING_REQUESTS", 3)
    monkeypatch.setattr(spool, "SEGMENT_BYTES", 1)
    spools, path = tmp_path / "a.db.spool", tmp_path / "a.db"

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{path}") as (made, _):
            for n in range(10):
                raw = b'{"model":"m","messages":[{"role":"user","content":"%d?"}]}' % n
                made.worker.tell(PassedRequest(number=100 + n, path=PATHS["openai"], raw=raw))
            await until(lambda: path.exists() and len(sessions(path)) == 10)
            await until(lambda: len(list(spools.iterdir())) <= 4)

    with WireServer() as server:
        run(work)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how it dies
@pytest.mark.parametrize("dies_at", [PassedRequest, UpstreamReply])
def test_a_worker_that_dies_between_a_request_and_its_reply_loses_neither(
    dies_at: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one gets both, the request first."""
    take, deaths = worker.GatewayWorker.take, 0

    def mortal(self: worker.GatewayWorker, packet: Any) -> None:
        nonlocal deaths
        if isinstance(packet, dies_at) and deaths < 3:
            deaths += 1
            raise SystemExit
        take(self, packet)

    monkeypatch.setattr(worker_client, "MAX_UNWRITTEN_BYTES", 10)
    monkeypatch.setattr(worker_client, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(worker.GatewayWorker, "take", mortal)

    async def work() -> None:
        async with gateway(server.url, store=f"sqlite:{tmp_path / 'a.db'}") as (made, client):
            for n in range(4):
                await ask(client, "openai", body("openai", [("user", f"Question {n}?")]))
            await until(lambda: made.worker.counts["recorded"] == 4)

    with WireServer(*(["Fine."] * 4)) as server:
        run(work)
    assert deaths == 3
    assert _recorded(tmp_path / "a.db") == {f"Question {n}?" for n in range(4)}


def test_what_another_gateway_has_still_to_write_is_not_taken_from_it(tmp_path: Path) -> None:
    lives, comes = spool.Spool(tmp_path / "spool"), spool.Spool(tmp_path / "spool")
    packet = (3).to_bytes(4, "big") + b"abc"
    place = lives.add(packet)
    assert [list(left) for left in comes.left()] == []
    assert lives.read(place) == packet
    assert len(list(tmp_path.glob("spool/*"))) == 1
    lives.close()  # as if it had died: what was not written down stays
    assert [list(left) for left in comes.left()] == [[b"abc"]]
    assert not list(tmp_path.glob("spool/*"))


@pytest.mark.parametrize("cut", [1, 3, 4, 6, 7])
def test_a_packet_that_was_cut_off_is_left_out_and_those_before_it_are_read(cut: int, tmp_path: Path) -> None:
    """A gateway that is killed while it writes, or a disk that is full."""
    packets = [len(text).to_bytes(4, "big") + text for text in (b"", b"abc", b"defg")]
    (tmp_path / f"1-x{spool.ENDING}").write_bytes(b"".join(packets)[:-cut])
    assert [list(left) for left in spool.Spool(tmp_path).left()] == [[b"", b"abc"]]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["sqlite:{}/a.db", "jsonl:{}/a.jsonl", "jsonl:{}/folder/"])
def test_nothing_is_forgotten_while_exchanges_wait_that_would_bring_it_back(
    place: str, tmp_path: Path
) -> None:
    spec = place.format(tmp_path)
    session = refold.open(spec)
    key = session.append(m.user("The merger with Umbrella is on Friday.")).id
    folder = spool.folder_of(spec)
    left, lives = spool.Spool(folder), spool.Spool(folder)
    left.add((8).to_bytes(4, "big") + b"Umbrella")
    left.close()  # as if it had died
    with pytest.raises(StorageError, match=r"\.spool has exchanges .*start `refold serve`"):
        forget(session, [key])
    assert session.store is not None and "Umbrella" in str(session.store.load(session.id).entries)
    lives.done(lives.add(b"a packet"))  # what another one has written down is in nobody's way
    assert [list(packets) for packets in lives.left()] == [[b"Umbrella"]]
    forget(session, [key])
    session.store.close()
    lives.close()
    assert not [x for x in tmp_path.rglob("*") if x.is_file() and b"Umbrella" in x.read_bytes()]


def test_nothing_is_forgotten_in_postgresql_either_while_exchanges_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever database they are for: they are in one folder. Nothing is asked of the server."""
    monkeypatch.setenv("REFOLD_DATABASE", str(tmp_path / "sessions.db"))
    left = spool.Spool(spool.folder_of("postgres://localhost/any"))
    left.add((8).to_bytes(4, "big") + b"Umbrella")
    left.close()
    with pytest.raises(StorageError, match=r"gateway\.spool has exchanges"):
        PostgresStore("postgres://localhost/any").replace("a", {}, after=None)
