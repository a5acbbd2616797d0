"""Tests cannot reach the network, not even by accident; this machine they can."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refold import messages as m
from refold.models import complete
from refold.models.openai import OpenAIChat
from refold.protocols import Request
from tests.offline import Offline

ELSEWHERE = "192.0.2.1"
"""An address for documentation: nobody has it."""


def tcp() -> None:
    with socket.socket() as made:
        made.settimeout(0.01)
        made.connect((ELSEWHERE, 80))


def tcp_by_number() -> None:
    with socket.socket(socket.AF_INET6) as made:
        made.connect_ex(("2001:db8::1", 80))


def udp() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as made:
        made.sendto(b"x", (ELSEWHERE, 53))


def message() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as made:
        made.sendmsg([b"x"], [], 0, (ELSEWHERE, 53))


def asynchronous() -> None:
    asyncio.run(asyncio.open_connection(ELSEWHERE, 80))


def by_name() -> None:
    socket.create_connection(("example.com", 80))


def sdk() -> None:
    model = OpenAIChat("x", api_key="none", base_url="http://example.com/v1")
    asyncio.run(complete(model, Request(messages=(m.user("hello"),))))


@pytest.mark.parametrize("reach", [tcp, tcp_by_number, udp, message, asynchronous, by_name, sdk])
def test_reaching_for_the_network_fails_at_once(reach: Callable[[], None], offline: Offline) -> None:
    with pytest.raises(pytest.fail.Exception, match="reached for the network"):
        reach()
    assert len(offline.attempts) == 1
    offline.attempts.clear()


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, server.getsockname()[1])).close()
    one, other = socket.socketpair()
    one.sendall(b"x")
    assert other.recv(1) == b"x"
    one.close()
    other.close()


PROGRAM = """
import socket, threading

def reach():
    try:
        socket.create_connection(("192.0.2.1", 80))
    except BaseException:
        pass

def test_that_swallows_it():
    reach()

def test_that_reaches_in_a_thread():
    thread = threading.Thread(target=reach)
    thread.start()
    thread.join()

def test_that_stays_at_home():
    pass
"""


@pytest.mark.slow
def test_who_swallows_the_failure_fails_afterwards(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PROGRAM)
    command: list[Any] = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path / "test_it.py"], capture_output=True, text=True, cwd=root
    )
    assert "3 passed, 2 errors" in done.stdout, done.stdout
