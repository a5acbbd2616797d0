"""Command lines as runs: which are builds and tests, which only look around, which are the same run again."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from refold.messages import Call
from refold.preserve.action import tidy
from refold.preserve.shell import Simple, command_name, simple_commands
from refold.preserve.verdicts import UNKNOWN, Verdict, verdict
from refold.session.toolnames import Kind, command_line, kind, quoted
from refold.text.truncate import one_line

SHOWN, _KEPT = 160, 4_000
"""Characters of a command that are shown, and kept: what is cut loses its secrets first."""


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command line as far as its outcome matters."""

    key: str
    """The same for the same run again: no directory, wrappers, output filters, harmless options."""
    folder: str = ""
    """Where it ran, as far as the line says; empty: where the shell stood."""
    shown: str = ""
    checked: str = ""
    """Of what is shown, the builds and tests alone: their verdict is not that of the steps before them."""
    check: bool = False
    """A build, a test run, a linter: something with a verdict."""
    looks: bool = False
    """Only looks around: what it finds or misses says nothing of the state of the work."""
    covered: bool = False
    """The status of the line is not that of the run: a filter, an `echo` or `|| true` comes after it."""
    shows: Kind = "bash"
    """What its output is: that of a tool that reads, searches or lists, where it does no more than that."""
    whole: str = ""
    """For a check that names no part: what it is the whole of."""
    stashes: bool | None = None
    """Whether it leaves the changes of the work put away, or brings them back; None: neither."""


@lru_cache(maxsize=64)
def run(line: str) -> Run:
    """What a command line runs."""
    folder, kept, covered = "", list[Simple](), False
    for simple in simple_commands(line):
        name = command_name(simple.words)
        if name == "cd" and len(simple.words) > 1:
            folder = tidy(posixpath.join(folder, simple.words[1]))
            folder = "" if folder == "." else folder
        elif _GROUP.get(name) == "silent" or (_GROUP.get(name) == "filter" and simple.joined in ("|", "|&")):
            covered = covered or (bool(kept) and simple.joined != "&&")
        elif name:
            covered = covered or (bool(kept) and simple.joined not in ("&&", "|", "|&"))
            kept.append(simple)
    looks = all(_looks(simple) for simple in kept)
    checks = [simple for simple in kept if is_check(simple.words)]
    stashes = _stashes(kept)
    away = any(stashes)  # what runs then says nothing of the changes
    main = checks if checks and not away else kept
    key = " && ".join(" ".join(_plain(simple.words)) for simple in main)
    shown = " && ".join(_shown(simple) for simple in kept) if checks else without_folder(line)
    checked = " && ".join(map(_shown, checks)) if not away else shown
    whole = _whole(checks[0].words) if len(checks) == 1 and not away else ""
    kinds: set[Kind] = {_SHOWS.get(command_name(simple.words), "bash") for simple in kept if looks}
    shows: Kind = kinds.pop() if len(kinds) == 1 else "bash"
    return Run(
        key[:_KEPT], folder, one_line(shown, _KEPT), one_line(checked, _KEPT), bool(checks), looks, covered,
        shows, whole, stashes[-1] if stashes else None,
    )  # fmt: skip


def shown_by(call: Call | None) -> Kind:
    """What the result of a call shows: `cat F` in a shell is a read like any other."""
    what = kind(call.name) if call else "other"
    if call and what == "bash":
        return run(command_line(call)).shows
    return "read" if call and what == "editor" and call.arguments.get("command") == "view" else what


def judge(ran: Run, body: str) -> Verdict:
    """What a run says of itself. A linter that did well does not speak for what a filter may have cut off."""
    if ran.looks or (not ran.check and ran.key.startswith("git ")):
        return UNKNOWN
    judged = verdict(body)
    return msgspec.structs.replace(judged, passed=None) if judged.partial and ran.covered else judged


_CD = re.compile(r"\s{0,80}cd (?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s;&|]{1,400}) ?(?:&&|;|\n)\s{0,80}")


def without_folder(line: str) -> str:
    """The command without the `cd` in front of it."""
    found = _CD.match(line)
    return line[found.end() :] if found else line


_GROUPS: Mapping[str, str] = {
    "silent": "echo printf sleep true : export set source . wait date exit",
    "filter": """tail head grep egrep fgrep rg sed awk cat less more sort uniq wc cut tr nl jq column fold
        tee xargs""",
    "look": """ls find pwd which type whereis stat file du df tree fd diff cmp test [ [[ env ps whoami uname
        id hexdump xxd strings bat history man open goto scroll_up scroll_down find_file search_dir
        search_file pgrep lsof command""",
    "checker": """pytest py.test tox nox ctest rspec phpunit jest vitest mocha ava karma cypress behave
        nosetests nose2 pest bats prove minitest gotestsum tap trial green make gmake ninja cmake mvn mvnw
        gradle gradlew sbt lein ant tsc tsgo vue-tsc eslint biome mypy pyright basedpyright flake8 pylint
        stylelint oxlint golangci-lint staticcheck shellcheck lint-imports webpack msbuild pre-commit""",
    "task": """npm pnpm yarn bun deno npx bunx pnpx go cargo just task rake mix invoke dotnet swift zig
        flutter dart rails bazel bazelisk buck2 stack cabal php composer ruff next vite astro nuxt ng nx
        turbo lerna hatch""",
    "wrapper": "uv poetry pipenv pdm rye bundle coverage conda docker podman docker-compose kubectl",
    "module": "unittest doctest compileall py_compile playwright build",
    "script": "python python2 python3 py node tsx ts-node ruby perl bash sh zsh",
}
_GROUP = {name: group for group, names in _GROUPS.items() for name in names.split()}
_LOOKERS: Mapping[Kind, str] = {
    "read": "cat sed head tail nl bat less more", "grep": "grep egrep fgrep rg", "ls": "ls find tree fd",
}  # fmt: skip
_SHOWS: Mapping[str, Kind] = {name: what for what, names in _LOOKERS.items() for name in names.split()}
"""Commands whose output is that of a tool that only looks."""
_GIT_LOOKS = {
    "status", "log", "diff", "show", "branch", "blame", "ls-files", "rev-parse", "remote", "config", "grep",
    "describe", "shortlog",
}  # fmt: skip


def _looks(simple: Simple) -> bool:
    words, name = simple.words, command_name(simple.words)
    if name == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _GIT_LOOKS
    in_place = name == "sed" and any(re.match(r"-[nrEsz]*i|--in-place", word) for word in words[1:])
    return _GROUP.get(name) in ("look", "filter") and name not in ("tee", "xargs") and not in_place


def _stashes(commands: Sequence[Simple]) -> list[bool]:
    """Where changes are put away (true) and brought back."""
    words = [simple.words for simple in commands if simple.words[:2] == ("git", "stash")]
    back = [next((word for word in rest[2:] if not word.startswith("-")), "push") for rest in words]
    return [word in ("push", "save") for word in back if word in ("push", "save", "pop", "apply")]


# ── builds and tests ────────────────────────────────────────────────────────────────────────────

_WORD = (
    r"(?:t|tests?|tst|e2e|unit|spec|check|lint|build|compile|verify|ci|types?|type-?check|tsc|validate|vet|clippy"
    r"|nextest|analyze)"
)
_TASK = re.compile(rf"(?:\S*[:.\-_/])?{_WORD}(?:[:.\-_]\S*)?$")
_WORD_END = 300
"""Characters of a word that are looked at: a path tells at its end what it is."""
_SCRIPT = re.compile(
    rf"(?:\S*/)?(?:\S*[_.\-])?(?:run)?{_WORD}(?:[_.\-]\S*)?\.\w{{1,4}}$|(?:\S*/)?tests?/\S+$|(?:\S*/)?manage\.py$"
)
_PASSED_ON = {"run", "run-script", "exec", "dlx", "x", "compose", "workspace", "--", "-m", "artisan", "rake"}
_VALUED = {
    "-w", "-C", "-F", "--filter", "--prefix", "--workspace", "--dir", "--cwd", "-p", "--project", "-n", "-X",
}  # fmt: skip


def is_check(words: Sequence[str]) -> bool:
    """Whether a command builds, tests or checks the work."""
    name = command_name(words)
    if not name or {"--version", "--help", "--collect-only", "-V"} & set(words[1:3]):
        return False
    group, rest = _GROUP.get(name), [word[:300] for word in words[1:14]]
    if group == "checker":
        return True
    if group == "task":
        first = next(_operands(rest), "")
        return first in _CHECKERS or _TASK.match(first) is not None
    if group == "wrapper":
        return any(word in _CHECKERS for word in rest) and rest[0] not in ("add", "install", "remove", "pip")
    if group == "script":
        return _script(rest)
    return "/" in words[0] and _TASK.match(words[0][:300]) is not None


_CHECKERS = {*_GROUPS["checker"].split(), *_GROUPS["module"].split()}


def _operands(words: Sequence[str]) -> Iterator[str]:
    """Words that are neither options, nor their values, nor only pass on what follows."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word.startswith("-") or word in _PASSED_ON:
            skip = word in _VALUED
        else:
            yield word


def _script(words: Sequence[str]) -> bool:
    """`python -m pytest`, `python test_x.py`, `bash tests/1.sh`, `node --test`."""
    if "--test" in words or ("-m" in words[:-1] and words[words.index("-m") + 1] in _CHECKERS):
        return True
    first = next(_operands(words), "")
    return "-m" not in words and "-c" not in words and _SCRIPT.match(first[-_WORD_END:]) is not None


# ── the same run again ──────────────────────────────────────────────────────────────────────────

_HARMLESS = re.compile(
    r"-(?:v+|q+|s|x|rA|ra|rf|rs|l|n ?\d+|j\d*|B|i|race|count=\d+)$"
    r"|--(?:verbose|quiet|silent|color\S*|no-color|no-header"
    r"|tb=\S+|reporter=\S+|no-progress|maxfail=\S+|console=\S+|no-daemon|stacktrace|info|nocapture|bail|run)$"
)


def _plain(words: Sequence[str]) -> Iterator[str]:
    """The words that make a run what it is; of a commit not its message, of a script in the line not its
    text: whoever writes it anew tries the same again."""
    if tuple(words[:2]) == ("git", "commit"):
        words = words[:2]
    for index, word in enumerate(words[:200]):
        if words[index - 1] in ("-c", "-e", "--eval") and any(map(str.isspace, word)):
            continue
        if index == 0:
            yield re.sub(r"^python[23](?:\.\d+)?$", "python", word.rsplit("/", 1)[-1])
        elif not _HARMLESS.match(word):
            yield one_line(word, 400).removeprefix("./")


def _shown(simple: Simple) -> str:
    text = " ".join(quoted(word) for word in simple.words[:40])
    return f"{text} <<…" if simple.heredoc else text


def _whole(words: Sequence[str]) -> str:
    """What a check that names no part of the work is the whole of: `pytest`, `cargo test`."""
    plain = list(_plain(words))
    parts = [word for word in plain[1:] if not word.startswith("-")]
    tool = plain[0] if plain else ""
    if tool in ("pytest", "jest", "vitest", "tsc", "eslint") and not parts:
        return tool
    if tool == "python" and plain[1:] == ["-m", "pytest"]:
        return "python -m pytest"
    if (tool, *parts) in (("cargo", "test"), ("go", "test", "./..."), ("mvn", "test"), ("gradlew", "test")):
        return f"{tool} test"
    return ""
