"""What tools print in the sample session: files, logs, test runs."""

from __future__ import annotations

import random

from benchmarks.sample_repo import FIELDS, plural


def numbered(text: str, first: int = 1) -> str:
    """As a Read tool prints a file."""
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.splitlines(), first))


def server_log(seed: int, lines: int, day: str) -> str:
    """Requests of one morning, with the errors that the user complains about among them."""
    rng = random.Random(seed)
    paths = [f"/api/v1/{plural(name)}" for name in FIELDS]
    rows: list[str] = []
    seconds = 7 * 3600
    for _ in range(lines):
        seconds += rng.randint(0, 9)
        at = f"{day}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rng.randrange(1000):03}Z"
        request = f"req-{rng.randrange(16**8):08x}"
        path = f"{rng.choice(paths)}/{rng.randint(1, 4000)}"
        status = rng.choices((200, 201, 204, 404, 409, 500), (70, 12, 5, 5, 5, 3))[0]
        took = rng.randint(2, 900)
        rows.append(f"{at} INFO harbour.web {request} {rng.choice(('GET', 'POST'))} {path} {status} {took}ms")
        if status == 500:
            rows.append(f"{at} ERROR harbour.bookings {request} sqlite3.OperationalError: database is locked")
        if status == 409:
            rows.append(f"{at} WARNING harbour.bookings {request} berth {rng.randint(1, 80)} held twice")
    return "\n".join(rows)


def pytest_run(repo: dict[str, str], failing: dict[str, str], seconds: float, *, verbose: bool = True) -> str:
    """What `pytest -v` prints for the tests of the repository. `failing`: name of a test → its traceback."""
    names = [
        f"{path}::{line[4:].partition('(')[0]}"
        for path, text in repo.items()
        if path.startswith("tests/")
        for line in text.splitlines()
        if line.startswith("def test_")
    ]
    failed = [name for name in names if name.rpartition("::")[2] in failing]
    rows = ["=" * 30 + " test session starts " + "=" * 30, "platform linux -- Python 3.12.4, pytest-8.3.2"]
    if verbose:
        rows += [
            f"{name} {'FAILED' if name in failed else 'PASSED'} [{100 * number // len(names):3}%]"
            for number, name in enumerate(names, 1)
        ]
    for name in failed:
        test = name.rpartition("::")[2]
        rows += ["", "_" * 30 + f" {test} " + "_" * 30, "", failing[test]]
    rows += [""] + [f"FAILED {name}" for name in failed]
    counts = f"{len(failed)} failed, {len(names) - len(failed)} passed" if failed else f"{len(names)} passed"
    return "\n".join([*rows, f"===== {counts} in {seconds:.2f}s ====="])
