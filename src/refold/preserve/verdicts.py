"""How a build or a test run ended, read from what it printed: one small reader per tool, in a table.

A verdict comes from the lines that a tool is known to print about the whole run, never from words such as
"error" or "success" somewhere in a log. Where no reader knows a line, the verdict is unknown. Only the two
ends of an output are looked at, and only the beginning of a long line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from refold.text.frames import without_escapes
from refold.text.truncate import one_line

HEAD, TAIL = 2_000, 16_000
"""Characters looked at: tools sum up at the end; what stopped them before they began stands at the start."""
_WIDEST, _LINE = 600, 160
"""Characters of a line that are looked at, and told."""
_NAMES = 5
_CUT = "… not looked at …"
"""Stands where the middle of an output was left out."""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run ended, by its own words. `passed` is None where they do not say."""

    passed: bool | None = None
    line: str = ""
    failing: tuple[str, ...] = ()
    """Names of what failed: the first few."""
    partial: bool = False
    """Only a linter or a compiler spoke well: of a script that goes on after it, this is a part."""


UNKNOWN = Verdict()
Reader: TypeAlias = Callable[[Sequence[str]], Verdict | None]


@lru_cache(maxsize=4)
def verdict(text: str) -> Verdict:
    """The verdict of an output. Where several tools speak, one that failed decides, and is heard first. Who
    reads a result asks more than once."""
    edge = without_escapes(text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{_CUT}\n{text[-TAIL:]}")
    heard = {name: reader for name, (words, reader) in READERS.items() if any(word in edge for word in words)}
    rows = _rows(edge) if heard else ()
    said = {name: made for name, reader in heard.items() if (made := reader(rows))}
    decided = {name: made for name, made in said.items() if made.passed is not None}
    if not decided:
        return next(iter(said.values()), UNKNOWN)
    failed = {name: made for name, made in decided.items() if not made.passed}
    # Who only ran the others repeats that they failed.
    loud = {name: made for name, made in failed.items() if name not in ("npm", "make")} or failed or decided
    lines = dict.fromkeys(made.line for made in loud.values() if made.line)
    names = dict.fromkeys(name for made in failed.values() for name in made.failing)
    partial = not failed and decided.keys() <= {"lint", "eslint", "tsc", "make"}
    return Verdict(not failed, one_line("; ".join(list(lines)[:3]), _LINE), tuple(names)[:_NAMES], partial)


def _rows(edge: str) -> list[str]:
    """Lines, none too long; a row of `=` around a summary is not part of its width."""
    rows = (row.strip("= ") if row.startswith("====") else row for row in edge.splitlines())
    return [row[:_WIDEST].rstrip() for row in rows if row]


def _judged(
    said: Sequence[tuple[bool | None, str]], rows: Sequence[str], names: Sequence[re.Pattern[str]] = ()
) -> Verdict | None:
    """What lines about whole runs say together: one that failed decides. The last of them are told, and what
    failed by the first of the patterns that finds any."""
    if not said:
        return None
    outcomes = {passed for passed, _ in said}
    good = False if False in outcomes else True if True in outcomes else None
    failing = next(filter(None, (_names(rows, pattern) for pattern in names)), ()) if good is False else ()
    return Verdict(good, one_line("; ".join(line for _, line in said[-3:]), _LINE), failing)


def _lines(
    pattern: re.Pattern[str],
    passed: bool | Callable[[re.Match[str]], bool | None],
    *names: re.Pattern[str],
    last: int = 0,
) -> Reader:
    """A reader of lines that match; `last`: of no more than so many."""

    def read(rows: Sequence[str]) -> Verdict | None:
        found = _matches(rows, pattern)[-last:]
        said = [(passed(one) if callable(passed) else passed, _told(one)) for one in found]
        return _judged(said, rows, names)

    return read


def _told(line: re.Match[str]) -> str:
    """What of a line is told: its first group, or all of it without the full stop."""
    return next(filter(None, line.groups()), line[0].rstrip("."))


def _first_of(*readers: Reader) -> Reader:
    """The first that has something to say."""
    return lambda rows: next((made for reader in readers if (made := reader(rows))), None)


def _matches(rows: Iterable[str], pattern: re.Pattern[str]) -> list[re.Match[str]]:
    return [found for row in rows if (found := pattern.match(row))]


def _names(rows: Iterable[str], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """What the first group names in the first few lines that match."""
    return tuple(dict.fromkeys(one_line(found[1], 120) for found in _matches(rows, pattern)))[:_NAMES]


def _sums(rows: Sequence[str], found: Sequence[re.Match[str]], *groups: int) -> tuple[str, list[int]]:
    """Numbers added up over several summaries; the least there were where the middle was left out."""
    said = "at least " if len(found) > 1 and _CUT in rows else ""
    return said, [sum(int(one[group]) for one in found) for group in groups]


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


def _passed(summary: re.Match[str]) -> bool | None:
    counts = _counts(summary[1])
    if counts.get("failed") or counts.get("error"):
        return False
    return True if counts.keys() - {"warning", "deselected"} else None


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
            said.append(({"OK": True, "FAILED": False}.get(found[1]), f"{ran} tests: {found[0]}"))
            ran = ""
    return _judged(said, rows, (_UNITTEST_NAME,))


_LINT_GOOD = re.compile(
    r"All checks passed!$|Success: no issues found in \d+ source files?|0 errors, \d+ warnings?\b"
    r"|Checked \d+ files? in [\d.]+\w+\. (?:No fixes applied|Fixed \d+ files?)\."
)
_LINT_BAD = re.compile(
    r"Found [1-9]\d* errors?(?: in \d+ files?.*| \(\d+ fixed, \d+ remaining\).*)?\.?$"
    r"|[1-9]\d* errors?, \d+ warnings?\b"
)
"""ruff, mypy, pyright, biome: one line about the whole run each."""


# ── Rust, Go ────────────────────────────────────────────────────────────────────────────────────

_CARGO_TESTS = re.compile(r"test result: (ok|FAILED)\. (\d+) passed; (\d+) failed;")
_CARGO_NEXT = re.compile(r"\s*Summary \[[^\]]{0,40}\]\s+(\d+(?:/\d+)? tests? run: .*)$")
_CARGO_NAME = re.compile(r"test (\S+) \.\.\. FAILED")
_CARGO_BROKEN = re.compile(r"error: (could not compile .*|aborting due to .*)")
_CARGO_NEXT_NAME = re.compile(r"\s*FAIL \[[^\]]{0,40}\] (.*)$")
_CARGO_BUILT = re.compile(r"\s*(Finished (?!`?test\b).*target\(s\).*)$")
_CARGO_ERROR = re.compile(r"(error(?:\[E\d+\])?: .*)$")


def _cargo_broken(rows: Sequence[str]) -> Verdict | None:
    made = _lines(_CARGO_BROKEN, False, _CARGO_ERROR, last=1)(rows)
    return made and msgspec.structs.replace(made, failing=made.failing[:1])


def _cargo_tests(rows: Sequence[str]) -> Verdict | None:
    runs = _matches(rows, _CARGO_TESTS)
    least, (passed, failed) = _sums(rows, runs, 2, 3)
    good = not failed and all(run[1] == "ok" for run in runs)
    line = f"{least}{passed} passed; {failed} failed"
    return _judged([(good, line)], rows, (_CARGO_NAME,)) if runs else None


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
    failing = names or tuple(bad[:_NAMES]) or broken
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
    return _judged([(not bad, line)], rows, (_MAVEN_NAME, _MAVEN_ROW, _MAVEN_ERROR))


_GRADLE_END = re.compile(r"BUILD (SUCCESSFUL|FAILED)(?: in \S.*)?$")
_GRADLE_TESTS = re.compile(r"\d+ tests? completed(?:, \d+ (?:failed|skipped))*$")
_GRADLE_NAME = re.compile(r"^\s*+(\S.*? > .*\S) FAILED$")
_GRADLE_TASK = re.compile(r"> Task (\S+) FAILED$")


def _gradle(rows: Sequence[str]) -> Verdict | None:
    ends = _matches(rows, _GRADLE_END)
    good = all(end[1] == "SUCCESSFUL" for end in ends)
    tests = [found[0] for found in _matches(rows, _GRADLE_TESTS)[-1:]]
    said = [(good, ", ".join([end[0], *tests])) for end in ends[-1:]]
    return _judged(said, rows, (_GRADLE_NAME, _GRADLE_TASK))


# ── JavaScript ──────────────────────────────────────────────────────────────────────────────────

_VITEST = re.compile(r"\s*(Test Files|Tests|Errors) {2,}((?:\d+ [a-z]+(?: \| )?)+)(?: \(\d+\))?$")
_JEST = re.compile(r"\s*(Tests|Test Suites): +((?:\d+ [a-z]+(?:, )?)+)$")
_JS_NAME = re.compile(r"\s*FAIL  ?(\S.*)$")
_JS_MARK = re.compile(r"\s*× (\S.*)$")
_JEST_NAME = re.compile(r"\s*● (.* › .*)$")


def _totals(pattern: re.Pattern[str], *names: re.Pattern[str]) -> Reader:
    """Totals by name: `Tests  1 failed | 244 passed (245)`. What counts is the line about tests."""

    def read(rows: Sequence[str]) -> Verdict | None:
        found = _matches(rows, pattern)
        good = not any(_counts(one[2]).keys() & {"failed", "error"} for one in found)
        lines = [one for one in found if one[1] == "Tests"] or found
        return _judged([(good, one[2]) for one in lines], rows, names)

    return read


_MOCHA = re.compile(r"\s+(\d+) (passing|failing|pending)\b(?: \(\d+\w+\))?$")
_PLAYWRIGHT = re.compile(r" +(\d+) (passed|failed|flaky|skipped|did not run)(?: \([\d.]+\w+\))?$")


def _mocha(rows: Sequence[str]) -> Verdict | None:
    """mocha and Playwright print a line per count."""
    found = _matches(rows, _MOCHA) or _matches(rows, _PLAYWRIGHT)
    if not any(one[2] in ("passing", "passed", "failing", "failed") for one in found):
        return None
    bad = any(one[2] in ("failing", "failed") and int(one[1]) for one in found)
    return Verdict(not bad, ", ".join(f"{one[1]} {one[2]}" for one in found[-4:]))


_TAP = re.compile(r"(?:#|ℹ) (tests|pass|fail) (\d+)$")
_TAP_NAME = re.compile(r"\s*(?:not ok \d+ - |✖ )(?!failing tests)(\S.*)$")


def _node(rows: Sequence[str]) -> Verdict | None:
    """node --test and TAP: `# pass 4`, `# fail 1`."""
    counts = {found[1]: int(found[2]) for found in _matches(rows, _TAP)}
    line = ", ".join(f"{word} {n}" for word, n in counts.items())
    return _judged([(not counts["fail"], line)], rows, (_TAP_NAME,)) if "fail" in counts else None


_NPM = re.compile(
    r"npm (?:ERR!|error) (Lifecycle script .* failed.*|code E?[A-Z]*LIFECYCLE|Test failed.*|command failed$)"
    r"|\s*(ELIFECYCLE\b.*)|\s*(ERR_PNPM_RECURSIVE_RUN_FIRST_FAIL\b.*)"
    r"|error (Command failed with exit code \d+)"
)


def _npm(rows: Sequence[str]) -> Verdict | None:
    """What npm, pnpm and yarn say of a script that failed; of one that did well they say nothing."""
    said = [_told(found) for found in _matches(rows, _NPM)[:1]]
    return Verdict(False, one_line(said[0], 100).removeprefix("command failed")) if said else None


_TSC = re.compile(r"(\S.*?[(:]\d+[,:]\d+\)?(?::| -) error TS\d+: .*)$|(error TS\d+: .*)$")
_TSC_NONE = re.compile(r"(?:\[[^\]]{1,30}\] )?(Found 0 errors)\.")


def _tsc(rows: Sequence[str]) -> Verdict | None:
    errors = list(dict.fromkeys(map(_told, _matches(rows, _TSC))))
    more = f"{len(errors)} type errors" if len(errors) > 1 else "1 type error"
    return Verdict(False, more, tuple(one_line(row, 140) for row in errors[:3])) if errors else None


_ESLINT = re.compile(r"\s*✖ (\d+ problems? \((\d+) errors?, \d+ warnings?\))")
_ESLINT_NONE = re.compile(r"✔ (No ESLint warnings or errors)")


# ── C and the rest ──────────────────────────────────────────────────────────────────────────────

_MAKE_BAD = re.compile(
    r"g?make(?:\[\d+\])?: (\*\*\* .*)$|ninja: (build stopped: .*)$|(CMake Error at .*)$"
    r"|-- (Configuring incomplete, errors occurred!)"
)
_MAKE_GOOD = re.compile(
    r"g?make(?:\[\d+\])?: (Nothing to be done for .*|'.*' is up to date\.)$|ninja: (no work to do\.)$"
)


def _compiler(rows: Sequence[str]) -> Verdict | None:
    errors = _names(rows, _COMPILER)
    return Verdict(False, errors[0], errors[1:]) if errors else None


_OTHERS = (
    # ctest, rspec, phpunit (two lines), .NET (two lines), swift; a group is there where something failed
    re.compile(r"\d+% tests passed, (?:0|(\d+)) tests failed out of \d+"),
    re.compile(r"\d+ examples?, (?:0|(\d+)) failures?(?:, \d+ errors? .*|, \d+ pending)*$"),
    re.compile(r"OK \(\d+ tests?, \d+ assertions?\)$"),
    re.compile(r"(Tests: \d+, Assertions: \d+, (?:Failures|Errors): [1-9].*)$"),
    re.compile(r"(?:Passed|(Failed))! +- Failed: .*Total: +\d+"),
    re.compile(r"Build (?:succeeded|(FAILED))\.$"),
    re.compile(r"\s*Executed \d+ tests?, with (?:0|(\d+)) failures?"),
)


def _others(rows: Sequence[str]) -> Verdict | None:
    found = [one for pattern in _OTHERS for one in _matches(rows, pattern)]
    bad = [one for one in found if any(one.groups())]
    return _judged([(not bad, " ".join(one[0].split())) for one in bad or found[-1:]], rows)


READERS: Mapping[str, tuple[tuple[str, ...], Reader]] = {
    "pytest": (("ed in ", "warning in ", "warnings in ", "error in ", "errors in ", "rerun in ", "ran in "),
               _lines(_PYTEST, _passed, _PYTEST_NAMES, _PYTEST_ROW)),
    "unittest": (("Ran ",), _unittest),
    "cargo": (("test result:", "Summary [", "could not compile", "aborting due to", "target(s)"),
              _first_of(_cargo_broken, _cargo_tests, _lines(_CARGO_NEXT, _passed, _CARGO_NEXT_NAME, last=1),
                        _lines(_CARGO_BUILT, True, last=1))),
    "go": (("ok \t", "ok  \t", "FAIL\t", "--- FAIL", ".go:"), _go),
    "maven": (("Tests run:", "] BUILD "), _maven),
    "gradle": (("BUILD SUCCESSFUL", "BUILD FAILED"), _gradle),
    "vitest": (("Tests  ", "Test Files  "), _totals(_VITEST, _JS_NAME, _JS_MARK)),
    "jest": (("Tests: ", "Test Suites: "), _totals(_JEST, _JEST_NAME, _JS_NAME)),
    "mocha": ((" passing", " failing", " passed", " failed"), _mocha),
    "node": (("# fail ", "ℹ fail "), _node),
    "tsc": (("error TS", "Found 0 errors"), _first_of(_tsc, _lines(_TSC_NONE, True, last=1))),
    "eslint": (("✖ ", "No ESLint"),
               _first_of(_lines(_ESLINT, lambda x: not int(x[2])), _lines(_ESLINT_NONE, True, last=1))),
    "lint": (("All checks passed!", "no issues found", "Checked ", "Found ", " errors, ", " error, "),
             _first_of(_lines(_LINT_BAD, False, _COMPILER), _lines(_LINT_GOOD, True, last=1))),
    "make": (("***", "CMake Error", "errors occurred!", "build stopped", "Nothing to be done", "up to date",
              "no work to do", "error: "),
             _first_of(_lines(_MAKE_BAD, False, _COMPILER, last=1), _compiler,
                       _lines(_MAKE_GOOD, True, last=1))),
    "others": (("failed out of", "examples, ", "example, ", "assertion", "Assertions: ", "Failed: ",
                "Build succeeded.", "Build FAILED.", "Executed "), _others),
    "npm": (("npm ERR!", "npm error", "ELIFECYCLE", "ERR_PNPM", "Command failed with exit code"), _npm),
}  # fmt: skip
"""Tool → words without which its line does not stand there, and its reader. In the order in which they are
heard where several failed."""
