"""What the tools say of a whole run: one small reader per tool, in a table.

Each is given the lines of an output, none longer than a few hundred characters, and answers
only to a line that its tool is known to print.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from refold.text.truncate import one_line

NAMES = 5
LINE = 160
CUT = "… not looked at …"
"""Stands where the middle of an output was left out."""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run ended, by its own words. `passed` is None where they do not say."""

    passed: bool | None = None
    line: str = ""
    failing: tuple[str, ...] = ()
    """Names of what failed: the first few."""
    partial: bool = False
    """Only a linter or a compiler spoke well: of a script that goes on after it, this is a part."""


Reader: TypeAlias = Callable[[Sequence[str]], Verdict | None]
Parts: TypeAlias = Mapping[str, str | None]


def _sums(rows: Sequence[str], found: Sequence[re.Match[str]], *groups: int) -> tuple[str, list[int]]:
    """Numbers added up over several summaries; the least there were where the middle was left out."""
    said = "at least " if len(found) > 1 and CUT in rows else ""
    return said, [sum(int(one[group]) for one in found) for group in groups]


def _matches(rows: Iterable[str], pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [found for row in rows if (found := pattern.match(row))]


def _names(rows: Iterable[str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """What the first group names in the first few lines that match."""
    return tuple(dict.fromkeys(one_line(found[1], 120) for found in _matches(rows, pattern)))[:NAMES]


def _number(text: str | None) -> int:
    return int(text[:12]) if text else 0


_COUNT = re.compile(r"(\d{1,9}) ([a-z]+)")


def _counts(text: str) -> dict[str, int]:
    """`2 failed, 11 passed` → numbers by word."""
    return {word.rstrip("s"): int(number) for number, word in _COUNT.findall(text)}


_COMPILER = re.compile(r"(\S+?:\d+(?::\d+)?: (?:fatal )?error: .*)$")
"""What compilers and checkers of many languages print: file, line, column, message."""


# ── Python ──────────────────────────────────────────────────────────────────────────────────────

_PYTEST = re.compile(
    r"((?:\d+ (?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun|subtests passed)"
    r"(?:, )?)+|no tests ran) in [\d.]+s(?: \([\d:]+\))?$"
)
_PYTEST_NAMES = re.compile(r"(?:FAILED|ERROR) (\S+::.+?|\S+\.py)(?: - .*)?$")
_PYTEST_ROW = re.compile(r"(?<!\S)((?=\S*?::\S)\S++) (?:FAILED|ERROR)\b")


def _pytest(rows: Sequence[str]) -> Verdict | None:
    found = _matches(rows, _PYTEST)
    if not found:
        return None
    counts = [_counts(one[1]) for one in found]
    bad = any(count.get("failed") or count.get("error") for count in counts)
    good = any(set(count) - {"warning", "deselected"} for count in counts)
    names = _names(rows, _PYTEST_NAMES) or _names(rows, _PYTEST_ROW)
    return Verdict(False if bad else good or None, _joined(one[1] for one in found), names if bad else ())


def _joined(lines: Iterable[str]) -> str:
    """Several summaries of one kind: the last ones, in order."""
    kept = list(lines)
    return one_line("; ".join(kept[-3:]), LINE)


_UNITTEST_RAN = re.compile(r"Ran (\d+) tests? in [\d.]+s")
_UNITTEST_END = re.compile(r"(OK|FAILED)( \([a-z ]+=\d+[^)]{0,80}\))?$|NO TESTS RAN$")
_UNITTEST_NAME = re.compile(r"(?:FAIL|ERROR): (\w[\w.]* \([\w.]+\)|\w[\w.]*)")


def _unittest(rows: Sequence[str]) -> Verdict | None:
    """`Ran N tests` and then `OK` or `FAILED (…)`; the one without the other says nothing."""
    said: list[tuple[bool | None, str]] = []
    ran = ""
    for row in rows:
        if found := _UNITTEST_RAN.match(row):
            ran = found[1]
        elif ran and (found := _UNITTEST_END.match(row)):
            passed = {"OK": True, "FAILED": False}.get(found[1] or "")
            said.append((passed, f"{ran} tests: {found[0]}"))
            ran = ""
    if not said:
        return None
    bad = any(passed is False for passed, _ in said)
    names = _names(rows, _UNITTEST_NAME) if bad else ()
    good = True if any(passed for passed, _ in said) else None
    return Verdict(False if bad else good, _joined(line for _, line in said), names)


_LINT_GOOD = re.compile(
    r"All checks passed!$|Success: no issues found in \d+ source files?|0 errors, \d+ warnings?\b"
    r"|Checked \d+ files? in [\d.]+\w+\. (?:No fixes applied|Fixed \d+ files?)\."
)
_LINT_BAD = re.compile(
    r"Found [1-9]\d* errors?(?: in \d+ files?.*| \(\d+ fixed, \d+ remaining\).*)?\.?$"
    r"|[1-9]\d* errors?, \d+ warnings?\b"
)


def _lint(rows: Sequence[str]) -> Verdict | None:
    """ruff, mypy, pyright, biome: one line about the whole run each."""
    bad, good = _matches(rows, _LINT_BAD), _matches(rows, _LINT_GOOD)
    if bad:
        return Verdict(False, _joined(found[0].rstrip(".") for found in bad), _names(rows, _COMPILER))
    return Verdict(True, good[-1][0].rstrip(".")) if good else None


# ── Rust, Go ────────────────────────────────────────────────────────────────────────────────────

_CARGO_TESTS = re.compile(r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed;")
_CARGO_NEXT = re.compile(r"\s*Summary \[[^\]]{0,40}\]\s+(\d+(?:/\d+)? tests? run: .*)$")
_CARGO_NAME = re.compile(r"test (\S+) \.\.\. FAILED")
_CARGO_BROKEN = re.compile(r"error: (could not compile .*|aborting due to .*)")
_CARGO_NEXT_NAME = re.compile(r"\s*FAIL \[[^\]]{0,40}\] (.*)$")
_CARGO_BUILT = re.compile(r"\s*Finished (?!`?test\b)(.*target\(s\).*)$")
_CARGO_ERROR = re.compile(r"(error(?:\[E\d+\])?: .*)$")


def _cargo(rows: Sequence[str]) -> Verdict | None:
    broken = _matches(rows, _CARGO_BROKEN)
    if broken:
        first = _names(rows, _CARGO_ERROR)
        return Verdict(False, one_line(broken[-1][1], LINE), first[:1])
    runs, nextest = _matches(rows, _CARGO_TESTS), _matches(rows, _CARGO_NEXT)
    if runs:
        least, (passed, failed) = _sums(rows, runs, 2, 3)
        bad = failed > 0 or any(run[1] == "FAILED" for run in runs)
        line = f"{least}{passed} passed; {failed} failed"
        return Verdict(not bad, line, _names(rows, _CARGO_NAME) if bad else ())
    if nextest:
        line = nextest[-1][1]
        bad = bool(_counts(line).get("failed"))
        return Verdict(not bad, line, _names(rows, _CARGO_NEXT_NAME) if bad else ())
    built = _matches(rows, _CARGO_BUILT)
    return Verdict(True, f"Finished {built[-1][1]}") if built else None


_GO_PACKAGE = re.compile(r"(ok|FAIL) *\t(\S+)(?:\t(.*)| (\[.*))$")
_GO_NAME = re.compile(r"\s*--- FAIL: (\S+)")
_GO_BROKEN = re.compile(r"(?:vet: )?(\S+\.go:\d+:\d+: .*)$")


def _go(rows: Sequence[str]) -> Verdict | None:
    packages, names = _matches(rows, _GO_PACKAGE), _names(rows, _GO_NAME)
    bad = [found[2] for found in packages if found[1] == "FAIL"]
    good = len(packages) - len(bad)
    broken = _names(rows, _GO_BROKEN)
    if not packages and not names:
        # A compiler speaks only of what is wrong: each message names file, line and column.
        header = any(row.startswith("# ") for row in rows)
        return Verdict(False, broken[0], ()) if broken and header else None
    counted = ", ".join(f"{n} {word}" for n, word in ((good, "ok"), (len(bad), "failed")) if n)
    line = f"{counted} (packages)" if packages else "tests failed"
    failing = names or tuple(bad[:NAMES]) or broken
    return Verdict(not (bad or names), line, failing if bad or names else ())


# ── JVM ─────────────────────────────────────────────────────────────────────────────────────────

_MAVEN_END = re.compile(r"\[(?:INFO|ERROR)\] (BUILD (?:SUCCESS|FAILURE))$")
_MAVEN_TESTS = re.compile(
    r"(?:\[\w+\] +)?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(, Time elapsed)?"
)
_MAVEN_NAME = re.compile(r"\[ERROR\] {2,}([\w.$]+\.\w[^ :]*):\d+")
_MAVEN_ROW = re.compile(r"\[ERROR\] +([\w.$]+\.\w\S*) .*<<< (?:FAILURE|ERROR)!")
_MAVEN_ERROR = re.compile(r"\[ERROR\] (\S+\.(?:java|kt|scala):\S+ .*)$")


def _maven(rows: Sequence[str]) -> Verdict | None:
    ends = _matches(rows, _MAVEN_END)
    # Lines with a time are single classes; those without sum up a module.
    totals = [found for found in _matches(rows, _MAVEN_TESTS) if not found[5]]
    if not ends and not totals:
        return None
    least, (ran, failures, errors, skipped) = _sums(rows, totals, 1, 2, 3, 4)
    bad = failures + errors > 0 if not ends else any(end[1].endswith("FAILURE") for end in ends)
    counts = ((ran, "tests"), (failures, "failures"), (errors, "errors"), (skipped, "skipped"))
    counted = least + ", ".join(f"{n} {word}" for n, word in counts if n)
    line = ", ".join(filter(None, (*(end[1] for end in ends[-1:]), counted)))
    names = _names(rows, _MAVEN_NAME) or _names(rows, _MAVEN_ROW) or _names(rows, _MAVEN_ERROR)
    return Verdict(not bad, line, names if bad else ())


_GRADLE_END = re.compile(r"BUILD (SUCCESSFUL|FAILED)(?: in \S.*)?$")
_GRADLE_TESTS = re.compile(r"\d+ tests? completed(?:, \d+ (?:failed|skipped))*$")
_GRADLE_NAME = re.compile(r"^\s*+(\S.*? > .*\S) FAILED$")
_GRADLE_TASK = re.compile(r"> Task (\S+) FAILED$")


def _gradle(rows: Sequence[str]) -> Verdict | None:
    ends = _matches(rows, _GRADLE_END)
    if not ends:
        return None
    bad = any(end[1] == "FAILED" for end in ends)
    line = ", ".join([ends[-1][0], *(found[0] for found in _matches(rows, _GRADLE_TESTS)[-1:])])
    return Verdict(not bad, line, (_names(rows, _GRADLE_NAME) or _names(rows, _GRADLE_TASK)) if bad else ())


# ── JavaScript ──────────────────────────────────────────────────────────────────────────────────

_VITEST = re.compile(r"\s*(Test Files|Tests|Errors) {2,}((?:\d+ [a-z]+(?: \| )?)+)(?: \(\d+\))?$")
_JEST = re.compile(r"\s*(Tests|Test Suites): +((?:\d+ [a-z]+(?:, )?)+)$")
_JS_NAME = re.compile(r"\s*FAIL  ?(\S.*)$")
_JS_MARK = re.compile(r"\s*× (\S.*)$")
_JEST_NAME = re.compile(r"\s*● (.* › .*)$")


def _vitest(rows: Sequence[str]) -> Verdict | None:
    return _totals(_matches(rows, _VITEST), rows, (_JS_NAME, _JS_MARK))


def _jest(rows: Sequence[str]) -> Verdict | None:
    return _totals(_matches(rows, _JEST), rows, (_JEST_NAME, _JS_NAME))


def _totals(
    found: list[re.Match[str]], rows: Sequence[str], names: Sequence[re.Pattern[str]]
) -> Verdict | None:
    """Totals by name: `Tests  1 failed | 244 passed (245)`. What counts is the line about tests."""
    if not found:
        return None
    bad = any(_counts(one[2]).keys() & {"failed", "error"} for one in found)
    lines = [one for one in found if one[1] == "Tests"] or found
    failing = next((made for pattern in names if (made := _names(rows, pattern))), ())
    return Verdict(not bad, _joined(one[2] for one in lines), failing if bad else ())


_MOCHA = re.compile(r"\s+(\d+) (passing|failing|pending)\b(?: \(\d+\w+\))?$")
_PLAYWRIGHT = re.compile(r" +(\d+) (passed|failed|flaky|skipped|did not run)(?: \([\d.]+\w+\))?$")


def _mocha(rows: Sequence[str]) -> Verdict | None:
    """mocha and Playwright print a line per count."""
    found = _matches(rows, _MOCHA) or _matches(rows, _PLAYWRIGHT)
    if not any(one[2] in ("passing", "passed", "failing", "failed") for one in found):
        return None
    bad = any(one[2] in ("failing", "failed") and _number(one[1]) for one in found)
    return Verdict(not bad, ", ".join(f"{one[1]} {one[2]}" for one in found[-4:]))


_TAP = re.compile(r"(?:#|ℹ) (tests|pass|fail) (\d+)$")


def _node(rows: Sequence[str]) -> Verdict | None:
    """node --test and TAP: `# pass 4`, `# fail 1`."""
    counts = {found[1]: int(found[2]) for found in _matches(rows, _TAP)}
    if "fail" not in counts:
        return None
    names = _names(rows, re.compile(r"\s*(?:not ok \d+ - |✖ )(?!failing tests)(\S.*)$"))
    line = ", ".join(f"{word} {n}" for word, n in counts.items())
    return Verdict(not counts["fail"], line, names if counts["fail"] else ())


_NPM = re.compile(
    r"npm (?:ERR!|error) (Lifecycle script .* failed.*|code E?[A-Z]*LIFECYCLE|Test failed.*|command failed$)"
    r"|\s*(ELIFECYCLE\b.*)|\s*(ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\b.*)"
    r"|error (Command failed with exit code \d+)"
)


def _npm(rows: Sequence[str]) -> Verdict | None:
    """What npm, pnpm and yarn say of a script that failed; of one that did well they say nothing."""
    found = _matches(rows, _NPM)
    if not found:
        return None
    said = next(filter(None, found[0].groups()), "")
    return Verdict(False, "" if said == "command failed" else one_line(said, 100))


_TSC = re.compile(r"(\S.*?[(:]\d+[,:]\d+\)?(?::| -) error TS\d+: .*)$|(error TS\d+: .*)$")
_TSC_NONE = re.compile(r"(?:\[[^\]]{1,30}\] )?Found 0 errors\.")


def _tsc(rows: Sequence[str]) -> Verdict | None:
    errors = list(dict.fromkeys(found[1] or found[2] for found in _matches(rows, _TSC)))
    if errors:
        more = f"{len(errors)} type errors" if len(errors) > 1 else "1 type error"
        return Verdict(False, more, tuple(one_line(row, 140) for row in errors[:3]))
    return Verdict(True, "Found 0 errors") if _matches(rows, _TSC_NONE) else None


_ESLINT = re.compile(r"\s*✖ (\d+ problems? \((\d+) errors?, \d+ warnings?\))")
_ESLINT_NONE = re.compile(r"✔ (No ESLint warnings or errors)")


def _eslint(rows: Sequence[str]) -> Verdict | None:
    found, none = _matches(rows, _ESLINT), _matches(rows, _ESLINT_NONE)
    if found:
        bad = any(_number(one[2]) for one in found)
        return Verdict(not bad, _joined(one[1] for one in found))
    return Verdict(True, none[-1][1]) if none else None


# ── C and the rest ──────────────────────────────────────────────────────────────────────────────

_MAKE_BAD = re.compile(
    r"g?make(?:\[\d+\])?: (\*\*\* .*)$|ninja: (build stopped: .*)$|(CMake Error at .*)$"
    r"|-- (Configuring incomplete, errors occurred!)"
)
_MAKE_GOOD = re.compile(
    r"g?make(?:\[\d+\])?: (Nothing to be done for .*|'.*' is up to date\.)$|ninja: (no work to do\.)$"
)


def _make(rows: Sequence[str]) -> Verdict | None:
    bad = _matches(rows, _MAKE_BAD)
    if bad:
        outermost = next(filter(None, bad[-1].groups()), "")
        return Verdict(False, one_line(outermost, LINE), _names(rows, _COMPILER))
    if errors := _names(rows, _COMPILER):
        return Verdict(False, errors[0], errors[1:])
    good = _matches(rows, _MAKE_GOOD)
    return Verdict(True, next(filter(None, good[-1].groups()), "")) if good else None


_OTHERS: Sequence[tuple[re.Pattern[str], Callable[[Parts], bool]]] = (
    # ctest, rspec, phpunit (two lines), .NET (two lines), swift
    (re.compile(r"\d+% tests passed, (?P<bad>\d+) tests failed out of \d+"), lambda p: p["bad"] == "0"),
    (
        re.compile(r"\d+ examples?, (?P<bad>\d+) failures?(?:, \d+ errors? .*|, \d+ pending)*$"),
        lambda p: p["bad"] == "0",
    ),
    (re.compile(r"OK \(\d+ tests?, \d+ assertions?\)$"), lambda _: True),
    (re.compile(r"Tests: \d+, Assertions: \d+, (?:Failures|Errors): [1-9].*$"), lambda _: False),
    (re.compile(r"(?P<word>Passed|Failed)! +- Failed: .*Total: +\d+"), lambda p: p["word"] == "Passed"),
    (re.compile(r"Build (?P<word>succeeded\.|FAILED\.)$"), lambda p: p["word"] == "succeeded."),
    (
        re.compile(r"\s*Executed \d+ tests?, with (?P<bad>\d+) failures?"),
        lambda p: p["bad"] == "0",
    ),
)  # fmt: skip


def _others(rows: Sequence[str]) -> Verdict | None:
    said = [
        (good(found.groupdict()), found[0].strip())
        for pattern, good in _OTHERS
        for found in _matches(rows, pattern)
    ]
    if not said:
        return None
    bad = [line for good, line in said if not good]
    return Verdict(not bad, _joined(" ".join(line.split()) for line in bad or [said[-1][1]]))


READERS: Mapping[str, tuple[tuple[str, ...], Reader]] = {
    "pytest": (("ed in ", "warning in ", "warnings in ", "error in ", "errors in ", "rerun in ", "ran in "),
               _pytest),
    "unittest": (("Ran ",), _unittest),
    "cargo": (("test result:", "Summary [", "could not compile", "aborting due to", "target(s)"), _cargo),
    "go": (("ok \t", "ok  \t", "FAIL\t", "--- FAIL", ".go:"), _go),
    "maven": (("Tests run:", "] BUILD "), _maven),
    "gradle": (("BUILD SUCCESSFUL", "BUILD FAILED"), _gradle),
    "vitest": (("Tests  ", "Test Files  "), _vitest),
    "jest": (("Tests: ", "Test Suites: "), _jest),
    "mocha": ((" passing", " failing", " passed", " failed"), _mocha),
    "node": (("# fail ", "ℹ fail "), _node),
    "tsc": (("error TS", "Found 0 errors"), _tsc),
    "eslint": (("✖ ", "No ESLint"), _eslint),
    "lint": (("All checks passed!", "no issues found", "Checked ", "Found ", " errors, ", " error, "), _lint),
    "make": (("***", "CMake Error", "errors occurred!", "build stopped", "Nothing to be done", "up to date",
              "no work to do", "error: "), _make),
    "others": (("failed out of", "examples, ", "example, ", "assertion", "Assertions: ", "Failed: ",
                "Build succeeded.", "Build FAILED.", "Executed "), _others),
    "npm": (("npm ERR!", "npm error", "ELIFECYCLE", "ERR_PNPM", "Command failed with exit code"), _npm),
}  # fmt: skip
"""Tool → words without which its line does not stand there, and its reader. In the order in which they are
heard where several failed."""
