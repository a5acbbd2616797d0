"""How a tool call ended, read from its result: exit status, error line, test verdict."""
# ruff: noqa: E501 (patterns: an alternative a line reads better than wrapped ones)

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from refold.messages import Result
from refold.preserve.shelled import simple_commands
from refold.text.truncate import middle, one_line

_EDGE = 6_000
"""Characters looked at from each end of a result: agents put the status there."""
_EXIT = re.compile(
    r"(?:exit(?:ed with)? (?:code|status)|exit_code\"?|returned? code|Command exited with code|return code)"
    r"\"?\s*[:=]?\s*(-?\d{1,4})\b",
    re.I,
)
_BROKEN = re.compile(
    r"^\s*(?:Traceback \(most recent call last\)|(?:[\w.]*(?:Error|Exception))\b.*:|error(?:\[\w+\])?:|fatal:|panic:"
    r"|npm ERR!|bash: |sh: |zsh: |FAILED\b|No such file or directory|Error executing|ERROR:|command not found)",
    re.M,
)
_REFUSED = re.compile(
    r"^\s*(?:<tool_use_error>|Error[: ]|ERROR|failed in sandbox|No replacement was performed|Invalid `|\[Operation Cancelled\]"
    r"|The user doesn't want|Tool .{0,60} (?:failed|not found)|File (?:not found|does not exist)|Failed to"
    r"|Could not find|old_string not found|String to replace not found|Your proposed edit has introduced"
    r"|apply_patch verification failed|Invalid )",
)


class Outcome(msgspec.Struct, frozen=True):
    ok: bool | None = None
    """None: the result does not say."""
    exit: int | None = None
    error: str = ""


def outcome(result: Result) -> Outcome:
    """How the call ended that this result answers."""
    text = result.text
    body, exit_code = unwrapped(text)
    if exit_code is None:
        exit_code = _exit_code(text)
    if result.is_error or (exit_code not in (None, 0)):
        return Outcome(False, exit_code, error_line(body))
    if exit_code == 0:
        return Outcome(True, 0)
    if _REFUSED.match(body[:400]):
        return Outcome(False, None, error_line(body))
    return Outcome(None)


def unwrapped(text: str) -> tuple[str, int | None]:
    """The readable body of a result, and the exit status where a JSON envelope states it."""
    if not text.startswith("{") or len(text) > 4_000_000:
        return text, None
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text, None
    return _envelope(cast("dict[str, Any]", value), text) if isinstance(value, dict) else (text, None)


def _envelope(value: Mapping[str, Any], text: str) -> tuple[str, int | None]:
    """Codex: `{output, metadata: {exit_code}}`; layered: `{status, data, text, error …}`."""
    inside = [
        value,
        *(cast("dict[str, Any]", value[k]) for k in ("metadata", "data") if isinstance(value.get(k), dict)),
    ]
    code = next(
        (m[k] for m in inside for k in ("exit_code", "exitCode", "exit_status") if type(m.get(k)) is int),
        None,
    )
    error = value.get("error")
    if code is None and (value.get("status") == "error" or (isinstance(error, str | dict) and error)):
        code = -1
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("message")
    bodies = (error, value.get("output"), value.get("stderr"), value.get("text"))
    return next((b for b in bodies if isinstance(b, str) and b), text), code


def _exit_code(text: str) -> int | None:
    edge = middle(text, 2 * 600, "\n")
    low = edge.lower()
    if ("exit" not in low and "return" not in low) or ("code" not in low and "status" not in low):
        return None
    codes = _EXIT.findall(edge)
    return int(codes[-1]) if codes else None


def error_line(text: str) -> str:
    """The line that says what went wrong: the last of a traceback, otherwise the first that names an error."""
    edge = middle(text, 2 * _EDGE, "\n")
    found = list(_BROKEN.finditer(edge))
    if not found:
        said = (
            line for line in edge.splitlines() if line.strip() and not line.startswith("EXECUTION RESULT")
        )
        return one_line(next(said, ""), 300)
    if found[0][0].lstrip().startswith("Traceback"):
        last = [line for line in edge[found[0].start() :].splitlines() if line[:1].strip()]
        return one_line(next((row for row in last[1:] if re.match(r"[\w.]+(?::|$)", row)), last[0]), 300)
    start = edge.rfind("\n", 0, found[0].start() + 1) + 1
    end = edge.find("\n", found[0].end())
    row = edge[max(start, found[0].start()) : end if end >= 0 else len(edge)]
    return one_line(row if len(row.strip()) > 12 else edge[found[0].start() :].strip()[:300], 300)


# ── tests ───────────────────────────────────────────────────────────────────────────────────────

_RUNNERS = frozenset(
    [
        "pytest",
        "py.test",
        "tox",
        "nox",
        "ctest",
        "rspec",
        "phpunit",
        "jest",
        "vitest",
        "mocha",
        "ava",
        "karma",
        "cypress",
        "behave",
        "nosetests",
        "nose2",
        "pest",
        "bats",
        "prove",
        "minitest",
        "gotestsum",
        "tap",
        "trial",
        "green",
    ]
)
_TASKS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for names, pattern in (
        ("npm pnpm yarn bun deno", r"(?:run |run-script )?(?:t|test|tst|tests|e2e|unit)(?:[:.\-]\S*)?(?: |$)|(?:exec |dlx |x |run )?(?:jest|vitest|mocha|playwright test)\b"),
        ("npx bunx pnpx", r"(?:--?\S+ )*(?:jest|vitest|mocha|ava|playwright test|cypress run|tap|tsx --test|tape)\b"),
        ("go", r"test\b"),
        ("cargo", r"(?:\+\S+ )?(?:test|nextest|t)\b"),
        ("make gmake just task rake mix", r"(?:-\S+ )*(?:\S*test\S*|check|spec)\b"),
        ("mvn mvnw gradle gradlew sbt lein ant", r".*\b(?:test|verify|check)\b"),
        ("dotnet swift zig flutter dart rails bazel buck2 stack cabal php", r"(?:artisan |build )?test\b"),
        ("python python3 python2", r"-m (?:pytest|unittest|nose|nose2|tox|doctest)\b|(?:\S*/)?(?:test_\S*|\S+_test|runtests|manage)\.py(?: test)?\b"),
        ("node", r"--test\b"),
        ("uv poetry pipenv hatch pdm rye bundle coverage conda", r".*?\b(?:pytest|unittest|rspec|rake test|hatch test|nose2|tox|test)\b"),
    )
    for name in names.split()
}  # fmt: skip


def test_command(line: str) -> bool:
    """Whether a command line runs tests."""
    for simple in simple_commands(line):
        words = simple.words
        name = words[0].rsplit("/", 1)[-1] if words else ""
        if name in _RUNNERS:
            return "--collect-only" not in words
        pattern = _TASKS.get(name)
        rest = " ".join(words[1:12])
        # Workspace options come before the task: `pnpm --filter app test`, `npm -w pkg test`.
        if not name.startswith("python"):
            rest = re.sub(r"^(?:(?:-w|-C|-F|--filter|--prefix|--workspace|--dir)[ =]\S+ |-\S+ )+", "", rest)
        if pattern and pattern.match(rest):
            return True
    return False


_SUMMARY = re.compile(
    r"^.*(?:\b\d+ (?:passed|failed|passing|failing|errors?|failures?|skipped|tests?|examples?)\b"
    r"|^(?:ok|FAIL|FAILED|OK|PASS|PASSED)\b|test result:|Tests?:\s|BUILD (?:SUCCESS|FAIL)|# (?:pass|fail) \d).*$",
    re.M,
)
_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|failing|errors?|failures?)\b|^(?:FAIL|FAILED|ERROR)\b|test result: FAILED|BUILD FAIL"
    r"|^# fail [1-9]|\bfailures=[1-9]|\berrors=[1-9]|ELIFECYCLE|npm ERR!|Failed:\s*[1-9]",
    re.M,
)
_PASSED = re.compile(
    r"\b\d+ (?:passed|passing)\b|^(?:OK|ok|PASS)\b|test result: ok|BUILD SUCCESS|^# fail 0\b|\b0 failures\b",
    re.M,
)


def verdict(result: Result, ended: Outcome) -> tuple[bool | None, str]:
    """Whether the tests passed, and the line of the output that says so."""
    body, _ = unwrapped(result.text)
    edge = "\n".join(row for row in body[-_EDGE:].splitlines()[-80:] if _tells(row))
    lines = [m[0] for m in _SUMMARY.finditer(edge)]
    summary = one_line(lines[-1].strip("= "), 160) if lines else ""
    if _FAILED.search(edge) or ended.ok is False:
        return False, summary or ended.error
    if _PASSED.search(edge) or ended.ok:
        return True, summary
    return None, summary


def _tells(row: str) -> bool:
    """Whether a line may speak of how tests ended; most of a log does not, and need not be matched."""
    low = row.lower()
    return len(row) < 2_000 and any(
        word in low for word in ("pass", "fail", "err", "ok", "build", "test", "life")
    )
