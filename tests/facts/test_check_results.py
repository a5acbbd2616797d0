"""Which commands are checks, what a run of one proves, and what of its output is quoted (R10)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.facts.check_results import check_run, is_check, summary, tells_of_failure
from refold.facts.shell import parse
from tests.timing import JUDGED

OUTPUTS = Path(__file__).parent / "outputs"
QUOTED = {
    "biome-passed": "Checked 232 files in 121ms. No fixes applied.",
    "cargo-build-failed": "error: could not compile `shop` (lib) due to 1 previous error",
    "cargo-build-passed": "Finished `dev` profile [unoptimized + debuginfo] target(s)",
    "cargo-test-failed": "test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished",
    "cargo-test-passed": "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished",
    "cmake-failed": "-- Configuring incomplete, errors occurred!",
    "ctest-failed": "67% tests passed, 1 tests failed out of 3",
    "dotnet-failed": "Failed! - Failed: 1, Passed: 11, Skipped: 0, Total: 12, Duration: 40 ms - Ledger.Tests.dll (net8.0)",
    "eslint-failed": "✖ 2 problems (1 error, 1 warning)",
    "eslint-warnings": "✖ 1 problem (0 errors, 1 warning)",
    "go-build-failed": "internal/cart/cart.go:15:2: missing return",
    "go-failed": "FAIL shop.example/internal/login 0.012s",
    "go-passed": "ok shop.example/internal/mail (cached)",
    "go-test-build-failed": "FAIL shop.example/internal/cart [build failed]",
    "gradle-failed": "BUILD FAILED",
    "gradle-passed": "BUILD SUCCESSFUL",
    "jest-failed": "Tests: 1 failed, 4 passed, 5 total",
    "jest-passed": "Tests: 1 skipped, 9 passed, 10 total",
    "make-failed": "make: *** [Makefile:192: build] Error 2",
    "make-ignored": "",
    "make-nothing": "make: Nothing to be done for 'all'.",
    "make-runs-pytest": "1 failed, 4 passed",
    "maven-compile-failed": "[INFO] BUILD FAILURE",
    "maven-failed": "[INFO] BUILD FAILURE",
    "maven-modules": "[INFO] BUILD SUCCESS",
    "maven-passed": "[INFO] BUILD SUCCESS",
    "mocha-failed": "1 failing",
    "mypy-failed": "Found 1 error in 1 file (checked 14 source files)",
    "mypy-passed": "Success: no issues found in 14 source files",
    "next-lint": "✔ No ESLint warnings or errors",
    "nextest-failed": "Summary [ 0.012s] 12 tests run: 11 passed, 1 failed, 0 skipped",
    "node-test-failed": "ℹ fail 1",
    "phpunit-passed": "OK (5 tests, 9 assertions)",
    "pnpm-failed": "",
    "pytest-collection": "1 error",
    "pytest-cut": "",
    "pytest-failed": "2 failed, 11 passed",
    "pytest-none": "no tests ran",
    "pytest-passed-wide": "23 passed",
    "pytest-quiet": "7 passed, 1 skipped, 1 xfailed, 1 warning",
    "rspec-failed": "12 examples, 1 failure, 2 pending",
    "ruff-failed": "Found 1 error.",
    "tsc-failed": "src/app/(shop)/page.tsx(20,3): error TS2304: Cannot find name 'total'.",
    "tsc-pretty": "Found 1 error in src/cart.ts:12",
    "tsc-watch": "[10:02:12 PM] Found 0 errors. Watching for file changes.",
    "unittest-failed": "FAILED (failures=1, errors=1)",
    "unittest-passed": "OK (skipped=1)",
    "vitest-failed": "Tests 1 failed | 14 passed (15)",
    "vitest-passed-colour": "Tests 245 passed (245)",
}
NOISE = {"log", "prose"}
"""Outputs that no runner printed: what stands there is quoted or not, and decides nothing."""


PARTS = {"go-passed", "cargo-test-passed", "go-build-failed", "tsc-failed"}
"""Outputs of runs that are summed up part by part, or that only list mistakes."""


def summary_quote(text: str) -> str:
    return summary(text).quote


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


@pytest.mark.parametrize(("name", "line"), QUOTED.items(), ids=list(QUOTED))
def test_R10_the_last_line_in_which_a_runner_sums_up_is_quoted(name: str, line: str) -> None:
    assert summary_quote(output(name)) == line
    noise = "\n".join(f"INFO row {i} was written, all went well" for i in range(2_000))
    assert not line or summary_quote(f"{noise}\n{output(name)}") == line


@pytest.mark.parametrize("name", sorted(QUOTED))
def test_R22_a_line_of_one_part_of_the_work_says_that_there_are_others(name: str) -> None:
    assert summary(output(name)).others is (name in PARTS)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("FAIL\tshop/cart\t0.1s\nok  \tshop/mail\t(cached)\nok  \tshop/web\t(cached)\nFAIL", "FAIL shop/cart 0.1s"),
        ("--- FAIL: TestTotal (0.0s)\n    cart_test.go:9: 3\nok  \tshop/mail\t(cached)\n", "--- FAIL: TestTotal (0.0s)"),
        ("--- FAIL: TestTotal (0.0s)\n    cart_test.go:9: 3", "--- FAIL: TestTotal (0.0s)"),
        ("a.go:1:2: undefined: x\na.go:9:1: too many errors", "a.go:1:2: undefined: x"),
        ("ok  \tshop/cart\t0.1s\nok  \tshop/mail\t0.2s [no tests to run]", "ok shop/cart 0.1s"),
        ("test result: FAILED. 1 passed; 1 failed\ntest result: ok. 9 passed; 0 failed", "test result: FAILED. 1 passed; 1 failed"),
        ("npm error Lifecycle script `test` failed with error:\nnpm error code 1\nnpm error command failed", ""),
        ("> shop@1.0.0 test\n> node build.mjs\n\n ELIFECYCLE  Test failed. See above for more details.", ""),
        ("====== test session starts ======\ncollected 13 items / 2 errors\n====== ERRORS ======", ""),
    ],
)  # fmt: skip
def test_R22_no_banner_and_no_part_that_passed_stands_for_the_result(text: str, quote: str) -> None:
    assert summary_quote(text) == quote


@pytest.mark.parametrize("name", [name for name, line in QUOTED.items() if line])
def test_R10_what_is_quoted_stands_in_one_line_of_the_output(name: str) -> None:
    rows = [" ".join(row.split()) for row in output(name).replace("\x1b", "").splitlines()]
    assert any(summary_quote(output(name)).split()[-1] in row for row in rows)


def test_R10_every_output_is_a_case() -> None:
    assert {*QUOTED, *NOISE} == {path.stem for path in OUTPUTS.glob("*.txt")}


@pytest.mark.parametrize("name", sorted(QUOTED))
def test_R10_a_summary_of_failures_is_told_from_one_of_success(name: str) -> None:
    speaks = (
        "cargo-test-failed",
        "jest-failed",
        "pytest-failed",
        "go-failed",
        "unittest-failed",
        "tsc-failed",
    )
    well = (
        "jest-passed",
        "pytest-passed-wide",
        "go-passed",
        "vitest-passed-colour",
        "unittest-passed",
        "cargo-test-passed",
        "tsc-watch",
        "next-lint",
        "mypy-passed",
    )
    if name in speaks + well:
        assert tells_of_failure(summary_quote(output(name))) is (name in speaks)


@pytest.mark.parametrize(
    "command",
    ["make", "npm run build", "pnpm --filter @x/y lint", "yarn test:unit", "npx tsc --noEmit", "./gradlew build", "bash tests/1.2.sh",
     "python test_x.py", "uv run pytest", "docker compose run web pytest -q", "python3 -m unittest", "cargo clippy", "go vet ./...",
     "bundle exec rspec", "./scripts/run_tests.sh", "mvn -q verify", "ruff check src", "node --test x", "poetry run mypy src",
     "pytest -n 4", "mise run test:ci", "golangci-lint run ./...", "timeout 60 pytest", "CI=1 pytest", "cmake --build ."],
)  # fmt: skip
def test_R10_what_is_a_build_or_test(command: str) -> None:
    assert is_check(parse(command).commands[0].words)


@pytest.mark.parametrize(
    "command",
    ["ls tests", "cat test.py", "git commit -m 'run pytest'", "grep test x", "pip install pytest", "npm install jest",
     "which pytest", "cat pytest.log", "poetry add pytest", "pytest --version", "make clean", "make -n build",
     "golangci-lint linters", "npm version minor", "go mod tidy", "ruff format .", "echo make", "npm run dev"],
)  # fmt: skip
def test_R10_what_is_no_build_or_test(command: str) -> None:
    assert check_run(command) is None


@pytest.mark.parametrize(
    ("line", "zero", "other"),
    [
        ("pytest -q", True, True),
        ("cd x && pytest -q 2>&1", True, True),
        ("export A=1 && cd x && make", True, True),
        ("npm ci; npm test", True, True),
        ("cat > t.py <<'E'\nx && y | z\nE\npytest t.py", True, True),
        ("bash -lc 'pytest -q'", True, True),
        ("npm ci && npm test", True, False),  # which of them failed?
        ("set -e; npm ci; npm test", True, False),
        ("npm run build && npm test", True, False),
        ("pytest -q | tail -5", False, False),
        ("pytest -q; echo done", False, False),
        ("pytest -q && echo ok", False, False),
        ("pytest -q || true", False, False),
        ("test -d x || make", False, False),
        ("pytest a; pytest b", False, False),
        ("pytest -q &", False, False),
        ("(cd x && make)", False, False),
        ("if true; then make; fi", False, False),
        ("for t in a b; do pytest $t; done", False, False),
        ("cat x | make", False, False),
    ],
)
def test_R10_an_exit_code_decides_where_the_check_ends_an_unpiped_line(
    line: str, zero: bool, other: bool
) -> None:
    run = check_run(line)
    assert run is not None
    assert (run.zero_proves, run.other_proves) == (zero, other)


@pytest.mark.parametrize(
    ("line", "text", "folder"),
    [
        ("cd a && cd b && FOO=1 pytest -q 'x y' 2>&1 | tail -3", "FOO=1 pytest -q 'x y'", "a/b"),
        ("npm ci && npm run lint && npm test > out.txt", "npm run lint && npm test", ""),
        ("git stash && make; git stash pop", "git stash && make", ""),
        ("make \\\n  all", "make all", ""),
    ],
)
def test_R10_a_check_is_told_as_it_was_written(line: str, text: str, folder: str) -> None:
    run = check_run(line)
    assert run is not None
    assert (run.text, run.folder) == (text, folder)


@given(st.text(alphabet="ab '\"\\$()`|&;<>\n#={}-EOF", max_size=200))
def test_R10_any_command_line_is_read(line: str) -> None:
    parsed = parse(line)
    assert all(0 <= simple.start < simple.end <= len(parsed.text) for simple in parsed.commands)
    check_run(line)


HOSTILE = [
    "\n" * 200_000, " \n" * 200_000, "=" * 2_000_000, "1 passed, " * 200_000, ("1 passed, " * 59 + "\n") * 2_000,
    "error TS1: " * 100_000, ("a" * 590 + ": error\n") * 1_000, ("a:1" * 190 + " error TS\n") * 1_000,
    "\x1b[" * 500_000, "9" * 1_000_000 + " passed in 1s", ("Finished " * 60 + "\n") * 1_000, ("x:1:" * 150 + "\n") * 1_000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_R10_hostile_outputs_are_bounded(text: str) -> None:
    started = time.process_time()
    summary_quote(text)
    took = time.process_time() - started
    assert not JUDGED or took < 0.5


@given(
    st.lists(st.sampled_from([line for name in QUOTED for line in output(name).splitlines()]), max_size=40)
)
def test_R10_of_any_mixture_of_lines_one_is_quoted(lines: list[str]) -> None:
    assert len(summary_quote("\n".join(lines))) <= 160
