"""The same contract on Ray, and the commands on it (`make test-ray`)."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from refold import batch
from refold.batch import Executor
from refold.cli import main
from refold.errors import StorageError
from refold.registry.sessions import save
from tests.batch.contract import ExecutorContract, is_alive, until
from tests.compare.sessions import agent_session

if find_spec("ray") is None:
    pytest.skip("ray is not installed: `make test-ray` runs this", allow_module_level=True)

ROOT = Path(__file__).parents[2]
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
"""Otherwise Ray keeps one in the home of the first test, and its servers look for it in that of the next."""


class TestRay(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def on(cls) -> Iterator[Executor]:
        with batch.open_executor("ray") as on:
            yield on


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "transcripts"
    made.mkdir()
    for number in range(12):
        save(agent_session(3 + number % 4), made / f"{number:02}.jsonl")
    (made / "half.json").write_text("{")
    return made


def told(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.stdout, (done.exception, done.stderr)
    found = json.loads(done.stdout)
    for row in found.get("rows", ()):
        row.pop("seconds")
    return found


def processes(beginning: bytes) -> list[int]:
    """Processes that call themselves so."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(beginning):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def killed_once() -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for worker in processes(b"ray::attempt"):
            os.kill(worker, signal.SIGKILL)
            return
        time.sleep(0.005)


def test_a_comparison_on_ray_with_a_worker_killed_in_the_middle_is_that_of_one_process(folder: Path) -> None:
    asked = ("compare", str(folder), "--presets", "refold,pi,augment", "--budgets", "900", "--anew")
    serial = told(*asked, "--on", "here")
    killer = threading.Thread(target=killed_once)
    killer.start()
    on_ray = told(*asked, "--on", "ray")
    killer.join()
    assert on_ray["rows"] == serial["rows"]
    assert on_ray["batch"]["jobs"] == 13
    assert told(*asked[:-1], "--on", "ray")["batch"]["kept"] == 13


def test_an_import_on_ray_is_that_of_one_process(folder: Path, tmp_path: Path) -> None:
    found = [
        told("import", str(folder), "--to", f"sqlite:{tmp_path / name}.db", "--on", name)
        for name in ("here", "ray")
    ]
    assert found[0]["sessions"] == found[1]["sessions"]


def test_whoever_is_killed_leaves_nothing_of_ray_behind(tmp_path: Path) -> None:
    code = (
        "import os, sys; from refold.batch import Batch, Job, open_executor; from tests.batch import works\n"
        "with open_executor('ray') as on:\n"
        "    list(Batch(works.sleeps).run([Job(sys.argv[1])], on))\n"
    )
    file = tmp_path / "worker"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    giver = subprocess.Popen([sys.executable, "-c", code, str(file)], env=environment)
    until(lambda: file.exists() and file.read_text())
    below = [int(child) for child in Path(f"/proc/{giver.pid}/task/{giver.pid}/children").read_text().split()]
    giver.kill()
    giver.wait()
    until(lambda: not any(map(is_alive, [int(file.read_text()), *below])))


DIES_AT_BIRTH = """
import os, pathlib, sys
born = pathlib.Path(os.environ["BORN"])
if "--mode=specific-server" in sys.orig_argv and not born.exists():
    born.touch()
    os._exit(1)
"""
"""What Ray's proxy forks while its threads run dies now and then before its first line; here the first one always."""


@pytest.mark.parametrize("first_server_dies", [False, pytest.param(True, marks=pytest.mark.torture)])
def test_a_cluster_does_the_same_through_its_client_server(
    folder: Path, tmp_path: Path, first_server_dies: bool
) -> None:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    environment = {**os.environ, **token, "PYTHONPATH": f"{ROOT / 'src'}", "RAY_USAGE_STATS_ENABLED": "0"}
    of_head = environment
    born = tmp_path / "born"
    if first_server_dies:
        (tmp_path / "sitecustomize.py").write_text(DIES_AT_BIRTH)
        of_head = {
            **environment,
            "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}",
            "BORN": str(born),
            "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "15",
        }
    start = [
        "start",
        "--head",
        "--block",
        "--port=0",
        f"--ray-client-server-port={port}",
        "--include-dashboard=false",
    ]
    told_by_head = tmp_path / "head"
    with told_by_head.open("wb") as written:
        head = subprocess.Popen(
            [Path(sys.executable).with_name("ray"), *start],
            env=of_head,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    asked = [
        sys.executable,
        "-m",
        "refold",
        "compare",
        str(folder),
        "--presets",
        "refold",
        "--budgets",
        "900",
        "--json",
    ]
    try:
        until(lambda: b"Ray runtime started" in told_by_head.read_bytes() or head.poll() is not None, 180)
        done = subprocess.run(
            [*asked, "--on", f"ray://127.0.0.1:{port}"], env=environment, capture_output=True
        )
    finally:
        head.terminate()
        head.wait()
    assert done.returncode == 0, done.stderr.decode() + told_by_head.read_text()
    assert born.exists() == first_server_dies
    rows = json.loads(done.stdout)["rows"]
    for row in rows:
        row.pop("seconds")
    assert rows == told(*asked[3:-1], "--anew", "--on", "here")["rows"]


def test_a_cluster_that_is_not_there_is_said_in_one_sentence() -> None:
    with (
        pytest.raises(StorageError, match=r"no Ray at ray://127\.0\.0\.1:1"),
        batch.open_executor("ray://127.0.0.1:1"),
    ):
        pass
