"""Tests, builds and linters: which commands are such checks, and what a run of one proves.

An exit code decides only where the check ends an unpiped line; otherwise the last line in which the runner sums
up is quoted, and nothing is said of how it ended. Lists of words choose what is shown; none decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from refold.preserve.shell import CommandLine, folder_before, operands, parse
from refold.text.frames import without_escapes
from refold.text.truncate import one_line

_RUNNERS = frozenset("""
    pytest py.test tox nox unittest doctest jest vitest mocha ava karma cypress playwright rspec phpunit behave ctest
    gotestsum make gmake ninja cmake mvn mvnw gradle gradlew sbt ant msbuild webpack tsc tsgo vue-tsc eslint biome
    mypy pyright basedpyright ruff flake8 pylint stylelint oxlint golangci-lint staticcheck shellcheck pre-commit
    """.split())  # fmt: skip
_LAUNCHERS = frozenset("""
    npm pnpm yarn bun deno npx bunx pnpx go cargo just task rake mix invoke dotnet swift zig mise uv uvx poetry pipenv
    pdm hatch rye bundle coverage docker podman python python2 python3 py node tsx ruby perl php bash sh bazel nx turbo
    """.split())  # fmt: skip
_TASK = re.compile(
    r"(?:[^\s:._/-]{0,80}[:._/-]){0,8}(?:tests?|e2e|spec|check|lint|build|compile|verify|types?|typecheck|vet|clippy)"
    r"(?:[:._/-]\S{0,200})?$"
)
_OTHERWISE = frozenset("""
    install i add remove uninstall init create update upgrade publish get mod version help linters cache config clean
    fmt format pip
    """.split())  # fmt: skip
"""First words after the program with which nothing is checked."""
_ASKS = frozenset(("--version", "--help", "-V", "--dry-run", "--collect-only"))
_TRIVIAL = frozenset("cd export set unset source . pushd popd echo printf true :".split())
"""Commands before a check that do not fail, or say so by themselves."""
_STASH = ("git", "stash")
"""What is checked then is not the work, and the command says so."""
_END, _WIDEST, _QUOTED = 16_000, 600, 160
_SUMMARY = re.compile(
    r"^.{0,30}\b\d{1,9} (?:passed|failed|passing|failing|errors?|failures?|problems?|issues?|examples?|assertions?)\b"
    r"|^(?:ok|FAIL)[ \t]{1,8}\S|^(?:OK$|OK \(|FAILED \()|\bBUILD [SF]|\bBuild (?:succeeded|FAILED)|test result: "
    r"|All checks passed|no issues found|No ESLint|Checked \d{1,9} file|Found \d{1,9} error|Tests run: |Ran \d{1,9} test"
    r"|error TS\d|could not compile|Finished .{0,80}target|(?:^|\s)(?:# |ℹ )fail \d|tests passed"
    r"|g?make(?:\[\d{1,3}\])?: (?:\*\*\*|Nothing)|ninja: |CMake Error|errors occurred|ELIFECYCLE|ERR_PNPM"
    r"|npm (?:ERR!|error) (?:code|command failed|Lifecycle|Test failed)|:\d{1,9}:\d{1,9}: (?:\w{1,20} )?error"
)


class CheckRun(msgspec.Struct, frozen=True):
    """The checks of one command line."""

    text: str
    """The line from the first of them to the last, as it was written."""
    commands: tuple[tuple[str, ...], ...]
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
    places = [at for at, simple in enumerate(parsed.commands) if is_check(simple.words)]
    if not places:
        return None
    stashes = (at for at in range(places[0]) if parsed.commands[at].words[:3] in (_STASH, (*_STASH, "push")))
    first, last = parsed.commands[next(stashes, places[0])], parsed.commands[places[-1]]
    zero, other = _proves(parsed, places)
    return CheckRun(
        one_line(parsed.text[first.start : last.end], 4_000),
        tuple(parsed.commands[at].words for at in places),
        folder_before(parsed, places[0]),
        zero,
        other,
    )


def _proves(line: CommandLine, places: Sequence[int]) -> tuple[bool, bool]:
    """What exit code 0 and what another one says of all the checks of a line."""
    commands = line.commands
    last = len(commands) - 1
    if not (line.plain and line.closed) or places[-1] != last or any(c.joined[:1] == "|" for c in commands):
        return False, False
    chained = all(c.joined == "&&" for c in commands[places[0] + 1 :])
    before = range(last - 1, -1, -1)
    reached = next((at + 1 for at in before if commands[at + 1].joined != "&&"), 0)
    stops = any(c.program == "set" and "e" in "".join(c.words[1:2]) for c in commands)
    earlier = commands[0 if stops else reached : last]
    return chained, len(places) == 1 and all(c.program in _TRIVIAL for c in earlier)


def is_check(words: Sequence[str]) -> bool:
    """Whether a command tests, builds or checks the work."""
    if not words:
        return False
    program, rest = words[0].rsplit("/", 1)[-1], tuple(word[-300:] for word in words[:14])
    named = operands(rest)[:3]
    if _ASKS & set(rest) or _OTHERWISE & set(named[:1]) or (program in ("make", "gmake") and "-n" in rest):
        return False
    if program in _RUNNERS | _LAUNCHERS:
        return program in _RUNNERS or any(word in _RUNNERS or _TASK.match(word) for word in named)
    return "/" in words[0] and _TASK.match(words[0][-300:]) is not None


def tells_of_failure(summary: str) -> bool:
    """Whether a summary counts failures: reason enough not to call something done."""
    return _FAILURES.search(summary) is not None


_FAILURES = re.compile(r"\b[1-9]\d{0,8} (?:failed|failing|errors?|failures?|problems?|issues?)|FAIL|error", re.I)


_TIME = re.compile(r" in \d[\d.]{0,12}m?s(?: \([\d:]{1,12}\))?$")


def summary_line(output: str) -> str:
    """The last line of an output in which a runner sums up; empty where there is none."""
    for row in reversed(without_escapes(output[-_END:]).splitlines()):
        if _SUMMARY.search(row[:_WIDEST]):
            return one_line(_TIME.sub("", row.strip("= \t")), _QUOTED)
    return ""
