"""Recall of sessions that are not in memory: a store proposes, the one ranker decides."""

from __future__ import annotations

import pytest

from refold import messages as m
from refold.entries import MessageEntry
from refold.protocols import SessionInfo
from refold.recall import plain, recall, rerank
from refold.session import Session
from refold.stores.sqlite import SqliteStore

SESSIONS = 1000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SqliteStore:
    store = SqliteStore(tmp_path_factory.mktemp("db") / "sessions.db")
    for n in range(SESSIONS):
        store.create(SessionInfo(id=f"s{n}"))
        said = [
            m.user(f"Look at the billing report of customer{n}"),
            m.assistant("", m.call("c", "Read", path=f"reports/customer_{n}.csv")),
            m.result("c", f"customer_{n},total,{n * 131 + 70000}"),
            m.assistant(f"The total is {n * 131 + 70000}." + (" 发票已经寄出。" if n == 77 else "")),
        ]
        parent: str | None = None
        entries: list[MessageEntry] = []
        for at, message in enumerate(said):
            entries.append(MessageEntry(id=f"s{n}e{at}", parent=parent, message=message))
            parent = entries[-1].id
        store.append(f"s{n}", entries, after=None)
    return store


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
    store: SqliteStore, query: str, wanted: str
) -> None:
    candidates = store.search(plain(query), limit=20)
    assert candidates
    found = list(dict.fromkeys(candidate.session for candidate in candidates))[:5]
    entries = [entry for name in found for entry in store.load(name).entries]
    hits = rerank(entries, query, limit=3)
    assert hits[0].entry_id.startswith(f"{wanted}e"), hits
    again = recall(Session.of(store.load(wanted)), query, limit=3)
    assert {hit.entry_id for hit in again} & {hit.entry_id for hit in hits}
