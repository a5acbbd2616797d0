"""Verdicts of builds and tests (R10): read from what the tools say of the whole run, unknown otherwise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.preserve.verdicts import HEAD, READERS, TAIL, UNKNOWN, verdict
from tests.timing import JUDGED

OUTPUTS = Path(__file__).parent / "outputs"
CASES: list[tuple[str, bool | None, str, str]] = [
    # output, passed, the line that says so, the first thing that failed
    ("biome-passed", True, "Checked 232 files in 121ms. No fixes applied", ""),
    ("cargo-build-failed", False, "could not compile `shop` (lib) due to 1 previous error", "error[E0308]: mismatched types"),
    ("cargo-build-passed", True, "Finished `dev` profile [unoptimized + debuginfo] target(s) in 4.02s", ""),
    ("cargo-test-failed", False, "2 passed; 1 failed", "cart::tests::sums"),
    ("cargo-test-passed", True, "45 passed; 0 failed", ""),
    ("cmake-failed", False, "Configuring incomplete, errors occurred!", ""),
    ("ctest-failed", False, "67% tests passed, 1 tests failed out of 3", ""),
    ("dotnet-failed", False, "Failed! - Failed: 1, Passed: 11, Skipped: 0, Total: 12", ""),
    ("eslint-failed", False, "2 problems (1 error, 1 warning)", ""),
    ("eslint-warnings", True, "1 problem (0 errors, 1 warning)", ""),
    ("go-build-failed", False, "internal/cart/cart.go:12:9: undefined: total", ""),
    ("go-failed", False, "1 ok, 1 failed (packages)", "TestLogin"),
    ("go-passed", True, "2 ok (packages)", ""),
    ("go-test-build-failed", False, "1 failed (packages)", "shop.example/internal/cart"),
    ("gradle-failed", False, "BUILD FAILED in 3s, 12 tests completed, 1 failed", "LedgerTest > sums()"),
    ("gradle-passed", True, "BUILD SUCCESSFUL in 12s", ""),
    ("jest-failed", False, "1 failed, 4 passed, 5 total", "cart › sums"),
    ("jest-passed", True, "1 skipped, 9 passed, 10 total", ""),
    ("make-failed", False, "*** [Makefile:192: build] Error 2", "cart.c:12:9: error: 'total' undeclared (first use in this function)"),
    ("make-nothing", True, "Nothing to be done for 'all'.", ""),
    ("make-runs-pytest", False, "1 failed, 4 passed", "tests/test_cart.py::test_sum"),
    ("maven-compile-failed", False, "BUILD FAILURE", "/srv/ledger/src/main/java/org/example/Ledger.java:[12,9] cannot find symbol"),
    ("maven-failed", False, "BUILD FAILURE, 9 tests, 1 failures, 1 errors", "LedgerTest.sums"),
    ("maven-modules", True, "BUILD SUCCESS, 30 tests, 1 skipped", ""),
    ("maven-passed", True, "BUILD SUCCESS, 7097 tests, 12 skipped", ""),
    ("mocha-failed", False, "1 passing, 1 failing", ""),
    ("mypy-failed", False, "Found 1 error in 1 file (checked 14 source files)", 'src/cart.py:12: error: Incompatible return value type (got "str", expected "int") [return-value]'),
    ("mypy-passed", True, "Success: no issues found in 14 source files", ""),
    ("next-lint", True, "No ESLint warnings or errors", ""),
    ("nextest-failed", False, "12 tests run: 11 passed, 1 failed, 0 skipped", "shop cart::tests::sums"),
    ("node-test-failed", False, "tests 2, pass 1, fail 1", "sums (1.1ms)"),
    ("phpunit-passed", True, "OK (5 tests, 9 assertions)", ""),
    ("pnpm-failed", False, "ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL shop@1.0.0 build: `node build.mjs`", ""),
    ("pytest-collection", False, "1 error", "tests/test_export.py"),
    ("pytest-failed", False, "2 failed, 11 passed", "tests/test_login.py::test_wrong_password"),
    ("pytest-passed-wide", True, "23 passed", ""),
    ("pytest-quiet", True, "7 passed, 1 skipped, 1 xfailed, 1 warning", ""),
    ("rspec-failed", False, "12 examples, 1 failure, 2 pending", ""),
    ("ruff-failed", False, "Found 1 error", ""),
    ("tsc-failed", False, "2 type errors", "src/cart.ts(12,5): error TS2322: Type 'string' is not assignable to type 'number'."),
    ("tsc-pretty", False, "1 type error", "src/cart.ts:12:5 - error TS2322: Type 'string' is not assignable to type 'number'."),
    ("tsc-watch", True, "Found 0 errors", ""),
    ("unittest-failed", False, "5 tests: FAILED (failures=1, errors=1)", "test_delete (tests.test_cart.CartTest.test_delete)"),
    ("unittest-passed", True, "212 tests: OK (skipped=1)", ""),
    ("vitest-failed", False, "1 failed | 14 passed", "test/cart.test.ts > cart > sums"),
    ("vitest-passed-colour", True, "245 passed", ""),
    # unknown: no tool speaks of the whole run
    ("log", None, "", ""),
    ("make-ignored", None, "", ""),
    ("prose", None, "", ""),
    ("pytest-cut", None, "", ""),
    ("pytest-none", None, "no tests ran", ""),
]  # fmt: skip


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


@pytest.mark.parametrize(("name", "passed", "line", "failing"), CASES, ids=[case[0] for case in CASES])
def test_R10_verdict_of_an_output(name: str, passed: bool | None, line: str, failing: str) -> None:
    made = verdict(output(name))
    assert (made.passed, made.line, next(iter(made.failing), "")) == (passed, line, failing)


def test_R10_every_output_is_a_case() -> None:
    assert {case[0] for case in CASES} == {path.stem for path in OUTPUTS.glob("*.txt")}


@pytest.mark.parametrize("name", [case[0] for case in CASES if case[1] is not None])
def test_R10_the_verdict_stands_at_the_end_of_a_long_log(name: str) -> None:
    noise = "\n".join(f"INFO row {i} was written, 0 errors, tests passed" for i in range(20_000))
    assert verdict(f"{noise}\n{output(name)}").passed is verdict(output(name)).passed


def test_R10_one_failing_tool_among_several_decides() -> None:
    made = verdict(output("pytest-passed-wide") + output("eslint-failed"))
    assert (made.passed, made.line) == (False, "2 problems (1 error, 1 warning)")


def test_R10_sums_of_an_output_that_was_not_read_whole_are_a_minimum() -> None:
    modules = "[INFO] Tests run: 10, Failures: 0, Errors: 0, Skipped: 0\n" + "x\n" * HEAD
    text = modules + "[INFO] Tests run: 5, Failures: 0, Errors: 0, Skipped: 0\n" + "x\n" * TAIL
    assert verdict(text + output("maven-modules")).line == "BUILD SUCCESS, at least 40 tests, 1 skipped"


def test_R10_nothing_said_is_unknown() -> None:
    assert verdict("") == UNKNOWN


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_R10_line_ends_do_not_matter(ending: str) -> None:
    assert (
        verdict(output("maven-passed").replace("\n", ending)).line == "BUILD SUCCESS, 7097 tests, 12 skipped"
    )


HOSTILE = [
    "\n" * 200_000,
    " \n" * 200_000,
    "=" * 2_000_000,
    "1 passed, " * 200_000,
    ("1 passed, " * 59 + "\n") * 2_000,
    "error TS1: " * 100_000,
    ("a" * 590 + ": error\n") * 1_000,
    ("a:1" * 190 + " error TS\n") * 1_000,
    "Tests run: 1, Failures: 1, Errors: 1, Skipped: 1\n" * 20_000,
    "\x1b[" * 500_000,
    "● › " * 100_000,
    "FAILED " + "a::" * 100_000,
    ("[ERROR]  " + "a." * 290 + "\n") * 1_000,
    "9" * 1_000_000 + " passed in 1s",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_R10_hostile_outputs_are_bounded(text: str) -> None:
    started = time.process_time()
    verdict(text)
    took = time.process_time() - started
    assert not JUDGED or took < 0.5


@given(
    st.lists(st.sampled_from([line for name, *_ in CASES for line in output(name).splitlines()]), max_size=40)
)
def test_R10_any_mixture_of_lines_is_read(lines: list[str]) -> None:
    made = verdict("\n".join(lines))
    assert len(made.line) <= 160
    assert len(made.failing) <= 5
    assert made.failing == () or made.passed is False
    assert set(READERS) >= {
        "pytest",
        "unittest",
        "cargo",
        "go",
        "maven",
        "gradle",
        "vitest",
        "jest",
        "tsc",
        "eslint",
        "make",
        "npm",
    }
