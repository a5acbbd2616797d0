"""What really reaches the kernel, seen by strace where it is installed: the other runs record above it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import kit
from .processes import ROOT

SCRIPT = """
import os, sys
from pathlib import Path
from tests.stores import kit
store = kit.begin(sys.argv[1], Path(sys.argv[2]))
after = None
for number in range(5):
    os.write(2, b"BEGIN\\n")
    store.append(kit.S, [kit.said(f"e{number}", after, 5000)], after=after)
    os.write(2, b"ACK\\n")
    after = f"e{number}"
"""


def appends(kind: str, place: Path) -> list[list[tuple[str, str]]]:
    """The (call, file) of each of five appends."""
    log = place / "calls"
    data = place / "data"
    data.mkdir()
    command = [
        "strace",
        "-f",
        "-y",
        "-s",
        "8",
        "-o",
        str(log),
        "-e",
        "trace=write,pwrite64,fsync,fdatasync,ftruncate",
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", SCRIPT, kind, str(data)],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    if b"ptrace" in done.stderr.lower() or b"operation not permitted" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    found: list[list[tuple[str, str]]] = []
    inside = False
    for line in log.read_text(errors="replace").splitlines():
        if '"BEGIN' in line:
            inside = True
            found.append([])
        elif '"ACK' in line:
            inside = False
        elif inside and (call := re.search(r"(\w+)\(\d+<([^>]*)>", line)) and str(data) in call[2]:
            found[-1].append((call[1], Path(call[2]).name))
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("kind", kit.REAL)
def test_an_append_writes_once_and_syncs_before_it_returns(kind: str, tmp_path: Path) -> None:
    found = appends(kind, tmp_path)
    assert len(found) == 5
    for calls in found[1:]:  # the first one of a database also makes its log
        assert calls[-1][0] in ("fdatasync", "fsync"), calls
        assert sum(call in ("fdatasync", "fsync") for call, _ in calls) == 1
        if kind == "jsonl":
            assert calls == [("write", "s.jsonl"), ("fdatasync", "s.jsonl")]
        else:
            assert {name for _, name in calls} == {"s.db-wal"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("kind", ["jsonl-unsynced", "sqlite-normal"])
def test_planted_missing_sync_is_seen(kind: str, tmp_path: Path) -> None:
    found = appends(kind, tmp_path)
    assert not any(call in ("fdatasync", "fsync") for calls in found[1:] for call, _ in calls)


UNDER_FAULTS = """
import json, sys
from pathlib import Path
from tests.stores import kit
from refold.errors import StorageError
store = kit.begin(sys.argv[1], Path(sys.argv[2]))
promised, errors = [], []
for number in range(40):
    known = store.load(kit.S).entries
    try:
        store.append(kit.S, [kit.said(f"e{number}", None, 3000)], after=known[-1].id if known else None)
        promised.append(f"e{number}")
    except StorageError as error:
        errors.append(str(error))
found = [entry.id for entry in kit.make(sys.argv[1], Path(sys.argv[2])).load(kit.S).entries]
print(json.dumps({"promised": promised, "found": found, "errors": len(errors)}))
"""


@pytest.mark.sample(2)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("kind", kit.REAL)
@pytest.mark.parametrize("fault", ["EINTR", "EIO", "ENOSPC"])
def test_faults_of_the_kernel_itself(kind: str, fault: str, tmp_path: Path) -> None:
    """Every seventh write after the first sixty fails (counted per kind of call, all files together)."""
    (data := tmp_path / "data").mkdir()
    files = [str(data / name) for name in ("s.db", "s.db-wal", "s.jsonl")]
    only = [option for file in files for option in ("-P", file)]
    call = "write" if kind == "jsonl" else "pwrite64"
    inject = f"inject={call}:error={fault}:when={3 if kind == 'jsonl' else 60}+7"
    traced = ["strace", "-f", "-o", "/dev/null", *only, "-e", f"trace={call}", "-e", inject]
    done = subprocess.run(
        [*traced, sys.executable, "-c", UNDER_FAULTS, kind, str(data)],
        cwd=ROOT,
        capture_output=True,
        timeout=120,
        check=False,
    )
    if b"ptrace" in done.stderr.lower() or b"operation not permitted" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["found"] == told["promised"]
    assert bool(told["errors"]) == (fault != "EINTR"), told
    assert len(told["promised"]) + told["errors"] == 40
