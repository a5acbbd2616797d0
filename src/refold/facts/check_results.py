"""Tests, builds and linters: which commands are such checks, and what a run of one proves.

An exit code decides only where the check ends an unpiped line; otherwise the last line in which the runner
sums up is quoted, and nothing is said of how it ended. Lists of words choose what is told; none decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from refold.facts.shell import CommandLine, normalised, operands, parse
from refold.text.frames import without_escapes
from refold.text.patterns import lazy_pattern
from refold.text.truncate import one_line

_WORDS: Mapping[str, str] = {
    "runner": """pytest py.test tox nox unittest doctest jest vitest mocha ava karma cypress playwright rspec
        phpunit behave ctest gotestsum make gmake ninja cmake mvn mvnw gradle gradlew sbt ant msbuild webpack
        tsc tsgo vue-tsc eslint biome mypy pyright basedpyright ruff flake8 pylint stylelint oxlint
        golangci-lint staticcheck shellcheck pre-commit""",
    "launcher": """npm pnpm yarn bun deno npx bunx pnpx go cargo just task rake mix invoke dotnet swift zig
        mise uv uvx poetry pipenv pdm hatch rye bundle coverage docker podman python python2 python3 py node
        tsx ruby perl php bash sh bazel nx turbo""",
    "aside": """install i add remove uninstall init create update upgrade publish get mod version help linters
        cache config clean fmt format pip --version --help -V --dry-run --collect-only""",
    "trivial": "cd export set unset source . pushd popd echo printf true :",
}
_RUNNERS, _LAUNCHERS, _ASIDE, _TRIVIAL = (frozenset(words.split()) for words in _WORDS.values())
"""Checks; programs that run one they are told; words after which nothing is checked; commands before a check
that do not fail in its place."""
_TASK = re.compile(
    r"(?:[^\s:._/-]{0,80}[:._/-]){0,8}(?:tests?|e2e|spec|check|lint|build|compile|verify|types?|typecheck|vet"
    r"|clippy)(?:[:._/-]\S{0,200})?$"
)


class CheckRun(msgspec.Struct, frozen=True):
    """The checks of one command line."""

    text: str
    """The line from the first of them to the last, as it was written."""
    commands: frozenset[tuple[str, ...]]
    """The checks, normalised: what tells whether one ran again."""
    folder: str = ""
    """Where they ran, as far as the line says."""
    zero_proves: bool = False
    """Exit code 0 says that they passed."""
    other_proves: bool = False
    """Another exit code says that they failed."""


@lru_cache(maxsize=64)
def check_run(line: str) -> CheckRun | None:
    """The checks that a command line runs; None where there are none."""
    parsed = parse(line)
    commands = parsed.commands
    places = [at for at, simple in enumerate(commands) if is_check(simple.words)]
    if not places:
        return None
    # What is checked after `git stash` is not the work: the command says so.
    stashes = (at for at in range(places[0]) if commands[at].words[:2] == ("git", "stash"))
    start = commands[next(stashes, places[0])].start
    return CheckRun(
        one_line(parsed.text[start : commands[places[-1]].end], 4_000),
        frozenset(normalised(commands[at].words) for at in places),
        commands[places[0]].folder,
        *_proves(parsed, places),
    )


def _proves(line: CommandLine, places: Sequence[int]) -> tuple[bool, bool]:
    """What exit code 0, and what another one, says of all the checks of a line."""
    commands, last = line.commands, len(line.commands) - 1
    if not (line.plain and line.closed) or places[-1] != last or any(c.joined[:1] == "|" for c in commands):
        return False, False
    chained = all(c.joined == "&&" for c in commands[places[0] + 1 :])
    stops = any(c.program == "set" for c in commands)
    first = 0 if stops else next((at for at in range(last, 0, -1) if commands[at].joined != "&&"), 0)
    return chained, len(places) == 1 and all(c.program in _TRIVIAL for c in commands[first:last])


def is_check(words: Sequence[str]) -> bool:
    """Whether a command tests, builds or checks the work."""
    if not words:
        return False
    program, rest = words[0].rsplit("/", 1)[-1], tuple(word[-300:] for word in words[:14])
    named = operands(rest)[:4]
    options = {word for word in rest if word.startswith("-")}
    if _ASIDE & {*options, *named[:1]} or (program in ("make", "gmake") and "-n" in options):
        return False
    if program in _LAUNCHERS:
        if "-m" in rest:  # a module of Python
            named = rest[rest.index("-m") + 1 :][:1]
        return "--test" in options or any(word in _RUNNERS or _TASK.match(word) for word in named)
    return program in _RUNNERS or ("/" in words[0] and _TASK.match(words[0][-300:]) is not None)


# ── what a runner says of itself ────────────────────────────────────────────────────────────────

_END, _WIDEST, _QUOTED = 16_000, 600, 160
"""Characters of an output, and of a line, that are looked at; of a line that are told."""
_SUMMARY = lazy_pattern(
    r"^(?!Snapshots:|collected ).{0,30}\b\d{1,9} (?:passed|failed|passing|failing|errors?|failures?|problems?"
    r"|issues?|examples?|tests? run:)(?!\w)|^(?:ok|FAIL)[ \t]{1,8}[^\s\[](?!.*\[no tests to run\]$)"
    r"|^(?:OK$|OK \(|FAILED \(|(?:Passed|Failed)! )"
    r"|\bBUILD [SF]|\bBuild (?:succeeded|FAILED)|test result: |All checks passed|no issues found|No ESLint"
    r"|Checked \d{1,9} file|Found \d{1,9} error|Tests run: |error TS\d|could not compile|errors occurred"
    r"|Finished .{0,80}target|tests (?:passed|ran)|(?:^|\s)(?:# |ℹ )fail \d"
)
_MISTAKE = r"\S{1,200}:\d{1,9}:\d{1,9}: (?!too many errors)"
_BROKEN = lazy_pattern(rf"g?make(?:\[\d{{1,3}}\])?: (?:\*\*\*|Nothing)|ninja: |CMake Error|^{_MISTAKE}")
"""What compilers print of each mistake, and make says at its end."""
_FAILED_TEST = lazy_pattern(r"^(?:--- FAIL: |panic: )")
"""What Go prints of one test, where the line that sums up was cut off."""
_PART = re.compile(r"(?:ok|FAIL)[ \t]|test result: ")
"""Go and cargo sum up each part of the work, and never the whole."""
_ONE_OF_MANY = lazy_pattern(
    rf"(?:ok|FAIL)[ \t]|test result: |--- FAIL: |panic: |{_MISTAKE}|\S{{1,200}}\([\d,]{{1,19}}\): error TS"
)
_NUMBER = re.compile(r"\d+")
_TIME = re.compile(r" in \d[\d.]{0,12}m?s(?: \([\d:]{1,12}\))?$")
_FAILURES = re.compile(
    r"\b[1-9]\d{0,8} (?:failed|failing|errors?|failures?|problems?|issues?)|FAIL|error", re.I
)
_NONE = re.compile(
    r"\b(?:0|no(?: \w{1,20}){0,3}) (?:fail|error|problem|issue)\w*|(?:fail|error)\w*[:=]? {0,9}0\b", re.I
)


class RunSummary(NamedTuple):
    """What a runner says of itself."""

    quote: str = ""
    """The last line of its output in which it sums up; empty where there is none."""
    others: bool = False
    """It is of one part of the work, or one mistake: there are lines like it of others."""


def summary(output: str, *, failed: bool = False) -> RunSummary:
    """The last line of an output in which a runner sums up. Of a run that `failed`, or of many parts, the
    last one that counts failures, if one does: it may end with one that passed. Where none sums up, the last
    mistake that is shown."""
    rows = [row.strip("= \t") for row in without_escapes(output[-_END:]).splitlines()][::-1]

    def found(pattern: re.Pattern[str]) -> list[str]:
        return [row for row in rows if pattern.search(row[:_WIDEST])]

    told = found(_SUMMARY)
    if parts := bool(told and _PART.match(told[0])):
        told = [row for row in told if _PART.match(row)]
    counting = [row for row in told if tells_of_failure(row[:_WIDEST])] if failed or parts else []
    if not counting and (parts or not told):
        counting = found(_FAILED_TEST)
    told = counting or told or found(_BROKEN)
    if not told:
        return RunSummary()
    like = [row for row in told if _shape(row) == _shape(told[0])]
    return RunSummary(one_line(_TIME.sub("", told[0]), _QUOTED), len(like) > 1)


def _shape(row: str) -> str:
    """The same for lines in which a runner sums up parts of the work, or shows mistakes."""
    if _ONE_OF_MANY.match(row):
        return "one of many"
    found = _SUMMARY.search(row[:_WIDEST])
    return _NUMBER.sub("0", found[0]) if found else row


def tells_of_failure(summary: str) -> bool:
    """Whether a summary counts failures: reason enough not to call something done."""
    return _FAILURES.search(_NONE.sub("", summary)) is not None
