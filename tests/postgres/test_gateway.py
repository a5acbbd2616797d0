"""The gateway as several workers that keep nothing of their own: any of them may get the next request."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from refold import entries as e
from refold.registry.sessions import stored
from refold.session import Session
from refold.stores.postgres.store import PostgresStore
from refold.testing.wire import WireServer
from tests.stores.processes import ROOT

pytest.importorskip("aiohttp", reason="the gateway needs the extra gateway")


@contextmanager
def worker(url: str, upstream: str, *more: str) -> Iterator[str]:
    """The address of a `refold serve` in a process of its own."""
    command = ["serve", "--upstream", upstream, "--port", "0", "--store", url, *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "refold", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield next(word for word in line.split() if word.startswith("http"))
    finally:
        process.terminate()
        _, log = process.communicate(timeout=120)
        assert "Traceback" not in log, log


def ask(address: str, talk: list[tuple[str, str]]) -> tuple[str, str]:
    """(the answer, what the gateway says it did)."""
    body: dict[str, Any] = {
        "model": "m",
        "messages": [{"role": role, "content": text} for role, text in talk],
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        said = json.loads(reply.read())["choices"][0]["message"]["content"]
        return said, reply.headers.get("x-refold", "")


def said(session: Session) -> list[tuple[str, str]]:
    found = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    return [(message.role, message.text) for message in found]


def alternate(url: str, turns: int, question: str, *more: str) -> tuple[list[tuple[str, str]], list[str]]:
    """A conversation of which each request goes to the other worker, at once: nobody waits until the answer before
    it was written down."""
    talk: list[tuple[str, str]] = []
    done: list[str] = []
    with ExitStack() as stack:
        server = stack.enter_context(WireServer(*(f"Answer {n}." for n in range(turns))))
        workers = [stack.enter_context(worker(url, server.url, *more)) for _ in range(2)]
        for number in range(turns):
            talk.append(("user", question.format(number)))
            answer, what = ask(workers[number % 2], talk)
            talk.append(("assistant", answer))
            done.append(what.partition(" ")[0])
    return talk, done


def kept(url: str) -> Session:
    store = PostgresStore(url)
    found = list(store.sessions())
    assert len(found) <= 1
    session = stored(store, found[0].id) if found else Session()
    store.close()
    return session


def test_a_conversation_goes_from_worker_to_worker(url: str) -> None:
    talk, done = alternate(url, 6, "Question {}?")
    session = kept(url)
    assert said(session) == talk and set(done) == {"pass"}
    assert len({entry.id for entry in session.entries}) == len(session.entries)


def test_a_fold_of_one_worker_is_the_fold_of_the_other(url: str) -> None:
    words = " ".join(f"value-{n}" for n in range(450))
    talk, done = alternate(url, 8, f"Question {{}}: {words}", "--window", "8000")
    session = kept(url)
    assert said(session) == talk and "fold" in done
    assert len(session.annotations(e.Fold)) < len(talk)
