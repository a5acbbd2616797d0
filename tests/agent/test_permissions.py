"""What may be done without asking, and what an earlier yes covers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import Session, tools
from refold import entries as e
from refold.agent.permissions import (
    PERMISSIONS_STATE,
    Allow,
    Grant,
    Mode,
    NeedsPermission,
    PermissionDecision,
    Refuse,
    decide,
    load_grants,
    remember,
    simple_commands,
)
from refold.registry.sessions import open as open_session

BASH = shutil.which("bash") or "bash"
TABLE = tools.tools_by_name()
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Bash": {"command": "make test"},
    "Edit": {"path": "src/a.py", "old_string": "a", "new_string": "b"},
}


def decided(
    mode: Mode, tool: str, remembered: tuple[Grant, ...] = (), *, confined: bool = True, **arguments: Any
) -> PermissionDecision:
    return decide(mode, TABLE[tool], arguments or ARGUMENTS.get(tool, {}), remembered, confined=confined)


def said_always(tool: str, *, confined: bool = True, **arguments: Any) -> tuple[Grant, ...]:
    asked = decided("ask", tool, confined=confined, **arguments)
    assert isinstance(asked, NeedsPermission)
    return asked.grants


def covered(before: str, now: str) -> bool:
    """Whether "always" to one command covers another."""
    return decided("ask", "Bash", said_always("Bash", command=before), command=now) == Allow()


# ── modes ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mode", "edit", "run", "unconfined"),
    [("ask", NeedsPermission, NeedsPermission, NeedsPermission), ("edits", Allow, NeedsPermission, NeedsPermission), ("read-only", Refuse, Refuse, Refuse), ("all", Allow, Allow, NeedsPermission)],
)  # fmt: skip
def test_each_mode_allows_what_it_says(mode: Mode, edit: type, run: type, unconfined: type) -> None:
    for tool in ("Read", "LS", "Glob", "Grep", "TodoWrite", "recall_conversation", "Task"):
        assert decided(mode, tool) == Allow()
    for tool in ("Edit", "MultiEdit", "Write"):
        assert isinstance(decided(mode, tool), edit)
    assert isinstance(decided(mode, "Bash"), run)
    assert isinstance(decided(mode, "Bash", confined=False), unconfined)


def test_a_question_says_what_would_happen_and_what_always_means() -> None:
    asked = decided("ask", "Bash", command="git push origin && make test")
    assert isinstance(asked, NeedsPermission)
    assert asked.question == "Run `git push origin && make test`?"
    assert asked.offer == "only this command, word for word"
    shows = decided("ask", "Bash", command="git log -5 | head -n 3")
    assert isinstance(shows, NeedsPermission)
    assert shows.offer == "`git log …` with options that only show, `head …` with options that only show"
    edit = decided("ask", "Write", path="src/deep/a.py", content="")
    assert isinstance(edit, NeedsPermission)
    assert (edit.question, edit.offer) == ("Change `src/deep/a.py` with Write?", "files in `src/deep/`")
    unconfined = decided("all", "Bash", confined=False)
    assert isinstance(unconfined, NeedsPermission)
    assert unconfined.question == "Run `make test` WITHOUT A SANDBOX?"


# ── what an earlier yes covers ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("git status", "git status"),
        ("git status", "git status --short"),
        ("git status", "'git' \"status\""),
        ("git status", "git status > /dev/null 2>&1"),
        ("git status && git log", "git log; git status | git log"),
        ("pytest -x tests/a.py", "pytest -x tests/a.py"),
        ("git log", "git log -n 5 --oneline --since=yesterday main..topic -- src"),
        ("git diff --stat | head", "git diff --cached -U10 HEAD~3 | head -50"),
        ("ls -la", "ls"),
        ("ls", "ls 'a b' *.py"),
        ("x=1 make", "x=1 make"),
        ("echo $(date) > log", "echo $(date) > log"),
        ("python -c 'print(1)'", "python -c 'print(1)'"),
        ("npm run build", "npm run build"),
    ],
)
def test_always_covers_the_same_again(before: str, now: str) -> None:
    assert covered(before, now)


@pytest.mark.parametrize(
    "now",
    [
        "git status; rm -rf x", "git status && rm -rf x", "git status || rm x", "git status | sh", "git status & rm x",
        "git status\nrm x", "git status $(rm x)", "git status `rm x`", 'git status "$(rm x)"', "git status <(rm x)",
        "git status > ~/.bashrc", "git status >> x", "git status 2> x", "git status >| x", "git status &> x",
        "git status |& sh", "git statusx", "git -c core.fsmonitor=evil status", "gitstatus", "git", "git push",
        "GIT_SSH_COMMAND=evil git status", "sudo git status", "bash -c 'git status'", "(git status; rm x)",
        "{ git status; rm x; }", "! git status", "git status # x\nrm x", "git \\status", "git stat\\\nus; rm x",
        "if git status; then rm x; fi", "git status;; rm x", "git status 2>&1; rm x", "git status >/dev/null; rm x",
        "git status >/dev/nullx", "git status 2>&1x", "$IFS", "git status ${x:=`rm x`}", "git status <<EOF\n$(rm x)\nEOF",
        "git status <<< $(rm x)", "\x00git status", "git status\rrm x", "git\u00a0status", "env git status",
        "eval git status", "git status; :(){ :|:& };:", "git 'status; rm x", "coproc rm x", "a=git status",
        "git status 'x' $'\\n' rm", "[[ -n x ]] && rm x", "git {status,push}", "time git status", "/tmp/git status",
        "git\tpush", "git status && && rm x; rm x", "",
    ],
)  # fmt: skip
def test_a_remembered_command_covers_nothing_else(now: str) -> None:
    assert not covered("git status", now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("git log", "git log --output=/home/me/.bashrc"), ("git log", "git log --outp=x"), ("git log", "git log -O x --output x"),
        ("git diff", "git diff --ext-diff"), ("git diff", "git diff --no-index /etc/passwd x"), ("git log", "git log *"),
        ("git show", "git show [a-z]*"), ("git log", "git log ~"), ("git log", "git log --format='%h' --output=x"),
        ("git log", "git --exec-path=. log"), ("git log", "git -C x log"), ("git log", "git -p log"), ("git log", "git log --"'-output=x'),
        ("git log", "git log -p --textconv"), ("git log", "git log -c core.pager=x"), ("git status", "git log"),
        ("git fetch", "git fetch --upload-pack=./evil"), ("git fetch origin", "git fetch ext::evil"), ("git push", "git push --exec=x"),
        ("make test", "make test SHELL=./evil"), ("make test", "make -f evil test"), ("make", "make test"),
        ("npm run build", "npm run evil"), ("pytest", "pytest -p evil"), ("cargo build", "cargo build --config x"),
        ("ls", "./ls"), ("ls", "/tmp/ls"), ("cat a", "tee a"), ("cat a", "cat a > b"), ("echo a", "echo a >> b"),
    ],
)  # fmt: skip
def test_another_argument_is_another_command(before: str, now: str) -> None:
    assert not covered(before, now)


PROGRAMS = ["bash", "sh", "zsh", "env", "sudo", "doas", "xargs", "eval", "exec", "source", "command", "nohup", "timeout", "nice", "setsid", "find", "fd", "awk", "gawk", "sed", "perl", "python", "python3", "ruby", "node", "deno", "bun", "npx", "uvx", "ssh", "scp", "rsync", "watch", "parallel", "busybox", "php", "lua", "Rscript", "make", "cmake", "ninja", "just", "task", "tox", "nox", "pytest", "npm", "yarn", "pnpm", "cargo", "go", "mvn", "gradle", "docker", "podman", "kubectl", "terraform", "ansible", "pip", "uv", "poetry", "hatch", "conda", "apt", "brew", "git-shell", "vim", "less", "man", "tar", "zip", "sort", "uniq", "tee", "dd", "ed", "ex", "ftp", "curl", "wget", "nc", "socat", "gdb", "strace", "ltrace", "script", "expect", "tmux", "screen", "at", "batch", "crontab", "systemd-run", "unshare", "chroot", "flock", "stdbuf", "time", "ionice", "taskset", "rg", "diff", "split", "tree", "file", "date", "openssl", "psql", "mysql", "sqlite3", "jq"]  # fmt: skip


def test_programs_that_may_run_or_write_are_remembered_word_for_word() -> None:
    for program in PROGRAMS:
        for before in (f"{program} x", f"{program} --help", f"/usr/bin/{program} x"):
            assert said_always("Bash", command=before) == (Grant("Bash", exact=before),)
            assert not covered(before, f"{before} more")


def test_without_a_sandbox_also_what_only_shows_is_remembered_word_for_word() -> None:
    grants = said_always("Bash", command="cat a.txt", confined=False)
    assert isinstance(
        decided("ask", "Bash", grants, confined=False, command="cat .ssh/id_rsa"), NeedsPermission
    )
    assert decided("ask", "Bash", grants, confined=False, command="cat a.txt") == Allow()


def test_what_an_earlier_release_remembered_of_a_program_covers_no_more_than_it_would_now() -> None:
    for words in (("make", "test"), ("git", "fetch"), ("python",), ()):
        assert isinstance(
            decided("ask", "Bash", (Grant("Bash", words),), command=" ".join(words) or "ls"), NeedsPermission
        )


WORDS = st.lists(
    st.sampled_from(
        ["git", "status", "rm", "-rf", "x", ";", "&&", "||", "|", "&", ">", "<", "$(", ")", "`", "'", '"', "\\", "\n",
         "#", "{", "}", "(", "2>&1", ">/dev/null", "$x", "a=b", "!", "if", "then", "é", "\t", "~", "*"]
    ),
    max_size=8,
)  # fmt: skip


@given(words=WORDS, glue=st.sampled_from([" ", ""]))
def test_what_is_covered_runs_that_program_and_no_other(words: list[str], glue: str) -> None:
    """Judged by bash itself, with programs that only say that they ran."""
    command = glue.join(["git status", *words])
    if not covered("git status", command):
        return
    functions = 'git() { echo "git $1"; }; rm() { echo rm; }; x() { echo x; }; status() { echo status; };'
    done = subprocess.run(
        [BASH, "--norc", "-c", f"{functions} eval \"$1\"", "bash", command],
        capture_output=True, text=True, check=False, cwd="/", env={"PATH": ""}, timeout=120,
    )  # fmt: skip
    assert set(done.stdout.split("\n")) <= {"git status", ""}, command


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a 'b c' d\"e\"f", [("a", "b c", "def")]),
        ("a;b&&c||d|e\nf", [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]),
        ("a 2>&1 | b >/dev/null", [("a",), ("b",)]),
        ("a ''", [("a", "")]),
        ("a2>/dev/null", None),
        ("", None),
        ("a" * 20_000, None),
    ],
)
def test_commands_are_read_whole_or_not_at_all(command: str, words: list[tuple[str, ...]] | None) -> None:
    assert simple_commands(command) == words


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        ("src/a.py", True), ("src/deep/b.py", True), ("./src//c.py", True), ("srcs/a.py", False), ("a.py", False),
        ("src/../a.py", False), ("/src/a.py", False), ("src/x/../../a.py", False), ("tests/src/a.py", False),
    ],
)  # fmt: skip
def test_edits_are_remembered_by_folder_for_all_tools_that_edit(path: str, yes: bool) -> None:
    grants = said_always("Edit", path="src/main.py")
    for tool in ("Edit", "MultiEdit", "Write"):
        assert (decided("ask", tool, grants, path=path) == Allow()) == yes
    assert isinstance(decided("ask", "Bash", grants), NeedsPermission)


def test_a_file_at_the_root_is_remembered_alone() -> None:
    grants = said_always("Write", path="README.md")
    assert decided("ask", "Edit", grants, path="README.md") == Allow()
    assert isinstance(decided("ask", "Edit", grants, path="setup.py"), NeedsPermission)


def test_what_was_allowed_in_a_sandbox_is_asked_again_without_one() -> None:
    inside = said_always("Bash", command="make test")
    assert isinstance(decided("ask", "Bash", inside, confined=False), NeedsPermission)
    outside = said_always("Bash", command="make test", confined=False)
    assert decided("ask", "Bash", outside, confined=False) == Allow()
    assert decided("ask", "Bash", outside) == Allow()


@given(
    path=st.none() | st.integers() | st.text(max_size=5),
    command=st.none() | st.lists(st.text(max_size=3)) | st.text(max_size=9),
)
def test_whatever_the_arguments_are_there_is_a_decision(path: Any, command: Any) -> None:
    for tool in ("Bash", "Write"):
        assert isinstance(
            decided("ask", tool, said_always("Bash"), path=path, command=command), NeedsPermission | Allow
        )


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


def test_decisions_are_remembered_with_the_session(tmp_path: Path) -> None:
    session = open_session(f"jsonl:{tmp_path / 's.jsonl'}")
    for command in ("git status", "make test", "git status"):
        asked = decided("ask", "Bash", command=command)
        assert isinstance(asked, NeedsPermission)
        remember(session, asked)
    tip = session.tip
    again = open_session(f"jsonl:{tmp_path / 's.jsonl'}")
    assert [grant.words or grant.exact for grant in load_grants(again)] == [("git", "status"), "make test"]
    assert again.tip == tip, "an annotation: the conversation does not move"
    assert load_grants(Session()) == ()


def test_what_somebody_else_wrote_into_a_session_allows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = decided("ask", "Bash", command="rm -rf build")
    assert isinstance(asked, NeedsPermission)
    mine = Session()
    remember(mine, asked)
    assert load_grants(mine)
    other = Session()
    other.append(other.make(e.State, name=PERMISSIONS_STATE, value=mine.state(PERMISSIONS_STATE)))
    assert load_grants(other) == (), "allowed in another session"
    wider = {**mine.state(PERMISSIONS_STATE), "grants": [{"tool": "Bash"}]}
    mine.append(mine.make(e.State, name=PERMISSIONS_STATE, value=wider))
    assert load_grants(mine) == (), "changed"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    mine = Session()
    remember(mine, asked)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    assert load_grants(mine) == (), "sealed on another machine"
    assert (tmp_path / "refold" / "permissions.key").stat().st_mode & 0o077 == 0


def test_any_command_can_be_remembered(tmp_path: Path) -> None:
    session = open_session(f"jsonl:{tmp_path / 's.jsonl'}")
    for command in ("echo \ud800", "echo \x00", "é'", "x" * 50_000):
        asked = decided("ask", "Bash", load_grants(session), command=command)
        assert isinstance(asked, NeedsPermission)
        remember(session, asked)
        again = open_session(f"jsonl:{tmp_path / 's.jsonl'}")
        assert decided("ask", "Bash", load_grants(again), command=command) == Allow()


def test_where_no_secret_can_be_kept_decisions_last_as_long_as_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    session = Session()
    asked = decided("ask", "Bash")
    assert isinstance(asked, NeedsPermission)
    remember(session, asked)
    assert load_grants(session) == asked.grants


@pytest.mark.parametrize(
    "value",
    [
        "all",
        3,
        [{"tool": 1}],
        {"tool": "Bash"},
        [["Bash"]],
        {"grants": [{"tool": "Bash"}], "seal": "é"},
        None,
    ],
)
def test_what_cannot_be_read_allows_nothing(value: Any) -> None:
    session = Session()
    session.append(session.make(e.State, name=PERMISSIONS_STATE, value=value))
    assert load_grants(session) == ()


# ── the network ─────────────────────────────────────────────────────────────────────────────────


def test_the_network_is_asked_for_once_per_command() -> None:
    asked = decided("ask", "Bash", command="pip download x", network=True)
    assert isinstance(asked, NeedsPermission) and asked.question == "Run `pip download x` with the network?"
    assert "with the network" in asked.offer
    again = {"command": "pip download x", "network": True}
    assert decided("ask", "Bash", asked.grants, **again) == Allow()
    assert isinstance(
        decided("ask", "Bash", asked.grants, command="pip download y", network=True), NeedsPermission
    )
    assert decided("all", "Bash", **again) == Allow()
    assert isinstance(decided("read-only", "Bash", **again), Refuse)


@pytest.mark.parametrize("network", [True, "true", 1, "yes"])
def test_a_yes_without_the_network_is_none_with_it(network: Any) -> None:
    for command in ("make test", "cat a.txt"):
        grants = said_always("Bash", command=command)
        assert decided("ask", "Bash", grants, command=command, network=False) == Allow()
        assert isinstance(decided("ask", "Bash", grants, command=command, network=network), NeedsPermission)
