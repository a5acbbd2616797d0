"""Recall of sessions that are not in memory: a store proposes, the one ranker decides."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold import entries as e
from refold import messages as m
from refold.protocols import SessionInfo, Store
from refold.recall import SearchedLog, recall
from refold.recall import search_logs as ranked
from refold.registry.search import search_sessions, search_store
from refold.session import Session
from refold.stores.jsonl import JsonlStore
from refold.stores.memory import MemoryStore
from refold.stores.sqlite import SqliteStore

SESSIONS = 1000


def keep(store: Store, id: str, *said: m.Message, time: float = 0.0) -> list[e.MessageEntry]:
    """A session of these messages. Entry ids are the same in every session."""
    parent: str | None = None
    entries: list[e.MessageEntry] = []
    for at, message in enumerate(said):
        entries.append(e.MessageEntry(id=f"e{at}", parent=parent, message=message, time=time))
        parent = entries[-1].id
    store.create(SessionInfo(id=id))
    store.append(id, entries, after=None)
    return entries


def billing(n: int) -> list[m.Message]:
    return [
        m.user(f"Look at the billing report of customer{n}"),
        m.assistant("", m.call("c", "Read", path=f"reports/customer_{n}.csv")),
        m.result("c", f"customer_{n},total,{n * 131 + 70000}"),
        m.assistant(f"The total is {n * 131 + 70000}." + (" 发票已经寄出。" if n == 77 else "")),
    ]


class QuickStore(SqliteStore):
    SYNCHRONOUS = "OFF"


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    store = QuickStore(tmp_path_factory.mktemp("db") / "sessions.db")
    for n in range(SESSIONS):
        keep(store, f"s{n}", *billing(n), time=1.7e9 + n)
    yield store
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("customer_512.csv", "s512"),
        ("customer831 billing", "s831"),
        ("发票", "s77"),
        (f"{300 * 131 + 70000}", "s300"),
    ],
)
def test_R1_one_of_a_thousand_sessions_is_found_by_what_was_said(
    thousand: SqliteStore, query: str, wanted: str
) -> None:
    found = search_sessions(thousand, query, limit=3)
    assert found[0].session == wanted
    again = recall(Session.of(thousand.load(wanted)), query, limit=3)
    there = {one.hit.entry_id: one.hit for one in found if one.session == wanted}
    assert again and all(
        (there[hit.entry_id].key, there[hit.entry_id].turn) == (hit.key, hit.turn)
        for hit in again
        if hit.entry_id in there
    )


@pytest.mark.slow
def test_R1_another_process_finds_it_and_says_where(thousand: SqliteStore) -> None:
    command = [
        "-m",
        "refold",
        "sessions",
        "--store",
        f"sqlite:{thousand.path}",
        "--search",
        "customer_512.csv",
    ]
    told = subprocess.run([sys.executable, *command, "--json"], capture_output=True, text=True, check=True)
    best = json.loads(told.stdout)["sessions"][0]
    assert best["id"] == "s512" and best["hits"][0]["entry_id"] == "e1"
    assert best["hits"][0]["key"] == e.key("e1") and best["hits"][0]["turn"] == 1
    assert best["hits"][0]["time"] == 1.7e9 + 512 and "customer_512.csv" in best["text"]
    shown = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True).stdout
    assert "s512" in shown and f"turn 1  {e.key('e1')}" in shown


@pytest.mark.slow
def test_a_word_of_every_session_gives_as_many_sessions_as_wanted(thousand: SqliteStore) -> None:
    found = search_sessions(thousand, "billing", limit=50, each=1)
    assert len({one.session for one in found}) == 50


@pytest.fixture(params=["sqlite", "jsonl", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "s.db")
    elif request.param == "jsonl":
        store = JsonlStore(tmp_path / "sessions", folder=True)
    else:
        store = MemoryStore()
    keep(
        store,
        "music",
        m.user("Ann: What instrument did you start to learn?"),
        m.assistant("Bob: The clarinet, since last spring! It was in the Café."),
        m.user("Ann: And how are the agencies?"),
    )
    keep(store, "work", m.user("Fix checkPassword"), m.assistant("a -> b"), m.user("한국 データ 数据库"))
    keep(store, "other", *(m.user(f"clarinet number {n}") for n in range(5)))
    yield store
    store.close()


@pytest.mark.parametrize(
    ("query", "session", "entry"),
    [
        ("instruments", "music", "e1"),  # the answer
        ("agency", "music", "e2"),
        ("cafe", "music", "e1"),
        ("checkPassword", "work", "e0"),
        ("password", "work", "e0"),
        ("->", "work", "e1"),
        ("数据", "work", "e2"),
        ("한국", "work", "e2"),
    ],
)
def test_R1_every_kind_of_store_is_searched(store: Store, query: str, session: str, entry: str) -> None:
    best = search_sessions(store, query)[0]
    assert (best.session, best.hit.entry_id) == (session, entry)
    assert best.hit.key == e.key(entry)


def test_the_answer_is_found_by_the_words_of_the_question_before_it(store: Store) -> None:
    assert "e1" in [
        one.hit.entry_id
        for one in search_sessions(store, "Which instrument does Bob learn?")
        if one.session == "music"
    ]


def test_sessions_can_be_named_and_hits_of_each_are_bounded(store: Store) -> None:
    assert {one.session for one in search_sessions(store, "clarinet")} == {"music", "other"}
    assert {one.session for one in search_sessions(store, "clarinet", sessions=["music"])} == {"music"}
    assert (
        search_sessions(store, "clarinet", sessions=["gone"])
        == []
        == search_sessions(store, "clarinet", sessions=[])
    )
    each = [one.session for one in search_sessions(store, "clarinet", each=2)]
    assert each.count("other") == 2
    assert len(search_sessions(store, "clarinet", limit=3)) == 3
    result = search_store(store, "clarinet", limit=1)
    assert result.matches == {"music": 1, "other": 5} and len(result.found) == 1


def test_nothing_asked_nothing_found(store: Store) -> None:
    assert search_sessions(store, "  ") == [] == search_sessions(store, "xylophone")


def test_only_the_neighbourhood_of_candidates_is_ranked() -> None:
    said = [m.user("the needle is here" if n in (2, 40) else f"filler {n}") for n in range(60)]
    entries = [
        e.MessageEntry(id=f"e{n}", parent=f"e{n - 1}" if n else None, message=message)
        for n, message in enumerate(said)
    ]
    found = ranked([SearchedLog("s", entries, {"e40"})], "needle filler", limit=50)
    assert {one.hit.entry_id for one in found} == {f"e{n}" for n in range(37, 44)}
    assert found[0].hit.turn == 41
    assert {one.hit.entry_id for one in ranked([SearchedLog("s", entries)], "needle", limit=2)} == {
        "e2",
        "e40",
    }
