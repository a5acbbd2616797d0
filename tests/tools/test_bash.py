"""Bash: what it answers, when it ends, and what a confined command cannot do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from refold.tools import bash, sandbox, supervisor
from refold.tools.sandbox import BOXES, Ground
from refold.tools.workspace import Workspace
from tests.offline import Offline
from tests.timing import alarm
from tests.tools.place import Bench


@pytest.fixture(params=[*BOXES, "none"])
def shell(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A place whose commands are confined by each of these, or by nobody because the user allowed it."""
    bench.place.unconfined = request.param == "none"
    if request.param != "none":
        confine(bench, request.param, monkeypatch)
    return bench


def confine(bench: Bench, name: str, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if not sandbox.works(name):
        pytest.skip(
            f"{name} does not work on this machine (bubblewrap: Debian package; Landlock: Linux 6.12)"
        )
    monkeypatch.setattr(sandbox, "find_sandbox", lambda _=None: BOXES[name])
    return bench


@pytest.fixture(params=list(BOXES))
def confined(request: pytest.FixtureRequest, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return confine(bench, request.param, monkeypatch)


def alive(marker: str) -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # gone
    return [row for row in found if marker in row]


def gone(marker: str) -> bool:
    """Whether nothing of that name is running, within a moment."""
    until = time.monotonic() + 60
    while alive(marker) and time.monotonic() < until:
        time.sleep(0.05)
    return not alive(marker)


# ── what it answers ─────────────────────────────────────────────────────────────────────────────


def test_streams_and_status_come_back_and_files_stay(shell: Bench) -> None:
    found = shell.data("Bash", command="echo out; echo err >&2; echo x > new.txt; exit 3")
    assert (found["stdout"], found["stderr"], found["exit_code"]) == ("out\n", "err\n", 3)
    assert (shell.root / "new.txt").read_text() == "x\n"


def test_output_is_cut_in_the_middle_and_loses_its_colours(shell: Bench) -> None:
    envelope = shell.call("Bash", command="printf '\\033[31mfirst\\033[0m\\n'; seq 1 200000; echo last")
    text = envelope.data["stdout"]
    assert text.startswith("first\n1\n")
    assert text.endswith("last\n")
    assert len(text) <= bash.OUTPUT_CHARS + 100
    assert f"beyond {bash.OUTPUT_CHARS} characters" in bash.bash_tool.spec.description
    assert "bytes cut]…" in text
    assert (envelope.status, envelope.data["truncated"]) == ("partial", True)


def test_a_command_has_no_terminal_and_nobody_to_ask(shell: Bench) -> None:
    found = shell.data("Bash", command="read -r line || echo none; test -t 1 || echo no terminal")
    assert found["stdout"] == "none\nno terminal\n"


def test_E13_what_a_command_changes_is_no_change_from_outside(shell: Bench) -> None:
    shell.write("a.txt", "one\n")
    shell.call("Read", path="a.txt")
    shell.data("Bash", command="echo two > a.txt")
    assert shell.call("Read", path="a.txt").text == ""


@pytest.mark.parametrize("command", ["", "  \n", "echo \0", "echo \ud800"])
def test_no_command_is_said(bench: Bench, command: str) -> None:
    assert bench.error("Bash", command=command)[0] == "invalid_arguments"


PYTHON = os.path.realpath(sys.executable)
"""Not the one of a virtual environment: that may lie in the folder for temporary files, which a sandbox hides."""


# ── when it ends ────────────────────────────────────────────────────────────────────────────────

SLEEP = f"sleep {os.getpid()}{{}}"
"""A number that no other run of the tests on this machine has."""


def hiders(number: int) -> str:
    one = SLEEP.format(number)
    return f"{one}1 & setsid {one}2 & (setsid nohup {one}3 >/dev/null 2>&1 &); trap '' TERM HUP;"


def test_nothing_is_left_running_after_a_command(shell: Bench) -> None:
    with alarm(120):  # the pipe of a background job keeps nobody waiting
        assert shell.data("Bash", command=f"{hiders(41)} echo done")["stdout"] == "done\n"
    assert gone(SLEEP.format(41))


@pytest.mark.sample(1)
def test_a_command_ends_in_time_with_all_it_started(shell: Bench) -> None:
    with alarm(120):
        envelope = shell.call("Bash", command=f"{hiders(42)} echo begun; {SLEEP.format(42)}4", timeout=2.5)
    assert (envelope.data["timed_out"], envelope.data["exit_code"], envelope.data["stdout"]) == (
        True,
        124,
        "begun\n",
    )
    assert "ended after 2.5 seconds" in envelope.text
    assert gone(SLEEP.format(42))


def test_a_command_that_is_cancelled_ends_with_all_it_started(shell: Bench) -> None:
    async def cancelled() -> None:
        task = asyncio.ensure_future(
            shell.acall("Bash", command=f"{hiders(43)} touch begun; {SLEEP.format(43)}4")
        )
        while not (shell.root / "begun").exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert gone(SLEEP.format(43))


def test_a_command_that_is_cancelled_while_it_starts_ends_too(
    shell: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may be running before the loop has connected its pipes."""
    connect = BaseSubprocessTransport._connect_pipes  # pyright: ignore

    async def late(self: BaseSubprocessTransport, *args: object) -> None:
        while not (shell.root / "begun").exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        await connect(self, *args)  # pyright: ignore

    monkeypatch.setattr(BaseSubprocessTransport, "_connect_pipes", late)
    with alarm(120):
        test_a_command_that_is_cancelled_ends_with_all_it_started(shell)


def test_a_command_ends_when_the_agent_is_killed(shell: Bench, tmp_path: Path) -> None:
    ground = Ground(shell.root, bash.scratch(shell.place))
    inner = ["bash", "-c", f"{hiders(44)} touch begun; {SLEEP.format(44)}4"]
    box = None if shell.place.unconfined else sandbox.find_sandbox()
    words = box(inner, ground) if box else sandbox.supervised(inner)
    agent = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.run({words!r})"], cwd=shell.root
    )
    while not (shell.root / "begun").exists():
        time.sleep(0.02)
    agent.send_signal(signal.SIGKILL)
    agent.wait()
    assert gone(SLEEP.format(44))


# ── what it cannot do ───────────────────────────────────────────────────────────────────────────


def test_without_a_sandbox_nothing_runs_unless_the_user_allowed_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_sandbox", lambda _: None)
    code, message = bench.error("Bash", command="touch ran")
    assert (code, "no sandbox" in message) == ("no_sandbox", True)
    assert not (bench.root / "ran").exists()
    bench.place.unconfined = True
    bench.data("Bash", command="git init -q . && git config user.name me && touch ran")
    assert (bench.root / "ran").exists()
    assert "me" in (bench.root / ".git/config").read_text(), "nothing is taken back that the user allowed"


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    home = tmp_path / "somebody"
    for name in (".ssh/id_rsa", ".aws/credentials", ".config/gh/hosts.yml", "other/notes.txt"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("SECRET")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SOME_API_KEY", "SECRET")
    return home


def test_nothing_outside_is_written_or_read(confined: Bench, keys: Path) -> None:
    outside = confined.outside
    attempts = [
        f"cat {outside}/secret.txt", f"echo x > {outside}/new", f"rm -rf {outside}", f"ls {outside}",
        f"ln -s {outside} out && cat out/secret.txt", "cat ../outside/secret.txt", f"cp -r {outside} .",
        "cat ~/.ssh/id_rsa", "cat ~/.aws/credentials", "cat ~/.config/gh/hosts.yml", "cat ~/other/notes.txt",
        "echo $SOME_API_KEY", "grep -z API_KEY /proc/self/environ", "cat /etc/shadow /etc/ssh/*",
        "touch /usr/x /etc/x /x", f"python3 -c \"open('{outside}/new', 'w')\"", f"mount --bind {outside} .",
        f"chroot {outside}", "mknod disk b 8 0 && echo SECRET",
        "mknod memory c 1 1 && echo SECRET", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo SECRET",
        "bash -c 'grep -q CapPrm:.*[1-9a-f] /proc/self/status' && echo SECRET",
    ]  # fmt: skip
    found = confined.data(
        "Bash", command="\n".join(f"echo '{i}:'; ( {each} ) 2>/dev/null" for i, each in enumerate(attempts))
    )
    assert "SECRET" not in found["stdout"], found["stdout"]
    assert "root:" not in found["stdout"], found["stdout"]
    assert found["stdout"].count(":\n") == len(attempts), "every attempt was made"
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert not Path("/usr/x").exists()


def test_a_command_sees_only_variables_that_are_known_to_be_harmless(
    shell: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "MYSQL_PWD", "DB_PW", "ADMIN_PWD", "PGPASSFILE", "SOME_API_KEY", "X", "DATABASE_URL", "LD_PRELOAD", "GIT_SSH_COMMAND",
        "SSH_AUTH_SOCK", "BASH_ENV", "PROMPT_COMMAND", "LCX", "path", "PIP_INDEX_URL", "PYTHONSTARTUP", "DOCKER_HOST",
    ):  # fmt: skip
        monkeypatch.setenv(name, "SECRET")
    monkeypatch.setenv("BASH_FUNC_ls%%", "() { echo SECRET; }")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("GOPATH", "/somewhere/go")
    found = shell.data("Bash", command="env; ls; declare -f; tr '\\0' '\\n' < /proc/self/environ")
    assert "SECRET" not in found["stdout"]
    assert "LC_TIME=C\n" in found["stdout"]
    assert "GOPATH=/somewhere/go\n" in found["stdout"]


def test_a_command_sees_further_variables_that_the_user_named(
    shell: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-O2")
    monkeypatch.setenv("CXXFLAGS", "-O3")
    shell.place.variables = ("CFLAGS", "UNSET")
    assert shell.data("Bash", command="env | grep FLAGS")["stdout"] == "CFLAGS=-O2\n"


def test_keys_stay_hidden_where_the_home_directory_is_the_workspace(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    confine(bench, "bubblewrap", monkeypatch)
    monkeypatch.setenv("HOME", str(bench.root))
    bench.write(".ssh/id_rsa", "SECRET")
    bench.write(".netrc", "SECRET")
    assert bench.data("Bash", command="cat .ssh/id_rsa .netrc; ls -A")["stdout"] == ".netrc\n.ssh\n"


def test_a_command_cannot_plant_what_git_runs_later(confined: Bench) -> None:
    git = confined.root / ".git"
    subprocess.run(["git", "init", "-q", confined.root], check=True)
    (git / "hooks/mine").write_text("kept")
    before = (git / "config").read_bytes(), sorted(path.name for path in (git / "hooks").iterdir())
    for planting in (
        "echo evil > .git/hooks/pre-commit; git config core.fsmonitor evil",
        "rm -rf .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/hooks x; ln -s ../x .git/hooks; rm .git/config; ln -s ../x .git/config",
        "mv .git old; git init -q .; git config core.fsmonitor evil",
    ):
        confined.data("Bash", command=f"( {planting} ) 2>/dev/null")
        assert (
            (git / "config").read_bytes(),
            sorted(path.name for path in (git / "hooks").iterdir()),
        ) == before
    commit = "echo a > a && git add a && git -c user.name=x -c user.email=x@x commit -qm a && git log --oneline | wc -l"
    assert confined.data("Bash", command=commit)["stdout"] == "1\n", "git itself goes on working"


@pytest.mark.parametrize("where", [".", "part/of/it", "linked"])
def test_git_works_in_a_part_of_a_repository_and_in_a_linked_tree(confined: Bench, where: str) -> None:
    top = confined.root
    subprocess.run(["git", "init", "-q", top], check=True)
    for name, value in {"user.name": "x", "user.email": "x@x"}.items():
        subprocess.run(["git", "config", name, value], cwd=top, check=True)
    confined.write("part/of/it/a.txt", "a\n")
    confined.write("b.txt", "b\n")
    subprocess.run("git add . && git commit -qm first", cwd=top, shell=True, check=True)
    root = top / where
    if where == "linked":
        root = top.parent / "linked"
        subprocess.run(["git", "worktree", "add", "-q", root], cwd=top, check=True)
    confined.place.workspace = Workspace(root)
    found = confined.data(
        "Bash",
        command="git status --short; echo new > n.txt; git add . && git commit -qm n; git log --oneline | wc -l; echo x > ../x",
    )
    assert found["stdout"] == "2\n", found
    assert not (root.parent / "x").exists()


def test_a_workspace_cannot_name_a_repository_that_is_not_its_own(bench: Bench) -> None:
    for name, text in {"HEAD": "", "commondir": "..", "gitdir": "/elsewhere/.git", "config": ""}.items():
        (bench.outside / name).write_text(text)
    for target in (bench.outside, "../outside", "/", "/etc", ""):
        bench.write(".git", f"gitdir: {target}\n")
        assert sandbox.repository(bench.root) is None
    (bench.root / ".git").unlink()
    (bench.root / ".git").symlink_to(bench.outside)
    assert sandbox.repository(bench.root) is None


def test_a_linked_environment_is_seen_and_no_other_link(bench: Bench) -> None:
    (bench.root / "venv").symlink_to(bench.outside)
    (bench.root / ".venv").symlink_to(sys.prefix)
    assert sandbox.environments(bench.root) == [str(Path(sys.prefix).resolve())]


PROBE = """
import socket
for family, kind in ((socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)):
    try:
        s = socket.socket(family, kind)
        s.settimeout(2)
        s.connect(("127.0.0.1", {port}))
        s.send(b"leak")
        print("reached")
    except OSError:
        print("refused")
for name in ("\\0{name}", "{path}"):
    try:
        s = socket.socket(socket.AF_UNIX)
        s.connect(name)
        print("reached")
    except OSError:
        print("refused")
"""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Somebody who listens on this machine: by TCP, UDP, and local sockets with and without a file."""
    name, path = f"refold-test-{os.getpid()}", Path(tempfile.mkdtemp()) / "socket"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        for local, address in ((abstract, f"\0{name}"), (named, str(path))):
            local.bind(address)
            local.listen()
        udp.bind(tcp.getsockname())
        udp.setblocking(False)
        yield {"port": tcp.getsockname()[1], "name": name, "path": path}
        with pytest.raises(BlockingIOError):
            udp.recv(10)
    shutil.rmtree(path.parent)


def test_no_network_and_no_service_of_this_machine_is_reached(
    confined: Bench, servers: dict[str, Any]
) -> None:
    confined.write("probe.py", PROBE.format(**servers))
    found = confined.data("Bash", command=f"{PYTHON} -S probe.py")
    tcp, _, *local = found["stdout"].split()  # a datagram may leave for a network that has nobody in it
    assert [tcp, *local] == ["refused"] * 3, found


def test_where_the_network_is_allowed_services_of_this_machine_are_still_not_reached(
    confined: Bench, servers: dict[str, Any], offline: Offline
) -> None:
    confined.place.network = True
    confined.write("probe.py", PROBE.format(**servers).replace("SOCK_DGRAM", "SOCK_STREAM"))
    found = confined.data("Bash", command=f"{PYTHON} -S probe.py")
    assert found["stdout"].split()[:2] == ["reached"] * 2, found
    assert found["stdout"].split()[3] == "refused", found


def test_other_processes_are_neither_ended_nor_read(confined: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"], env={"SECRET_OF_OTHERS": "SECRET"}) as other:
        pids = (other.pid, os.getpid(), os.getppid())
        words = "; ".join(f"kill -9 {pid}; cat /proc/{pid}/environ /proc/{pid}/cmdline" for pid in pids)
        found = confined.data("Bash", command=f"{{ {words}; kill -9 -1; }} 2>/dev/null")
        assert "SECRET" not in found["stdout"]
        assert other.poll() is None
        other.kill()


def test_other_terminals_and_shared_memory_are_neither_read_nor_written(confined: Bench) -> None:
    master, slave = os.openpty()
    shared = Path(f"/dev/shm/refold-test-{os.getpid()}")
    shared.write_text("SECRET")
    try:
        os.write(master, b"SECRET typed\n")
        other = os.ttyname(slave)
        attempts = [
            f"timeout 1 head -n 1 {other}", f"timeout 1 head -n 1 < {other}", f"echo SECRET > {other}", f"cat {shared}",
            "cat /dev/shm/*", f"echo changed > {shared}", f"rm {shared}", "timeout 1 head -n 1 /dev/tty",
            "timeout 1 head -n 1 /proc/self/fd/0", f"ln {shared} x && cat x", f"ln -s {other} y && timeout 1 head -n 1 y",
            f"{PYTHON} -S -c \"import fcntl, os, termios; fcntl.ioctl(os.open('{other}', os.O_RDWR), termios.TIOCSTI, b'x')\"",
            "cat /dev/mem /dev/kmsg /dev/input/* /dev/[vs]d? | head -c 1 | grep -q . && echo SECRET",
        ]  # fmt: skip
        command = "\n".join(f"( {each} ) 2>/dev/null" for each in attempts) + "\ntouch tried"
        assert "SECRET" not in confined.data("Bash", command=command)["stdout"]
        assert (confined.root / "tried").exists()
        assert shared.read_text() == "SECRET"
        assert os.read(slave, 100) == b"SECRET typed\n", "it was left for whom it was typed"
        os.set_blocking(master, False)
        assert os.read(master, 1000) == b"SECRET typed\r\n", "only the echo: nothing was written there"
    finally:
        shared.unlink()
        os.close(master)
        os.close(slave)


def test_a_command_has_terminals_and_shared_memory_of_its_own(confined: Bench) -> None:
    """Where a mount is permitted, as it is wherever bubblewrap works."""
    if not sandbox.works("bubblewrap"):
        pytest.skip("mounts are not permitted here")
    confined.write(
        "own.py",
        """
import multiprocessing, os, pty
with multiprocessing.Lock():
    open("/dev/shm/refold-mine", "w").write("x")
master, slave = pty.openpty()
os.write(master, b"hello\\n")
print(os.read(slave, 10), os.ttyname(slave), os.listdir("/dev/shm"))
""",
    )
    found = confined.data("Bash", command=f"{PYTHON} own.py")
    assert found["stdout"].startswith("b'hello\\n' /dev/pts/0 ['refold-mine'"), found
    assert not Path("/dev/shm/refold-mine").exists()


def test_what_programs_need_is_there(confined: Bench) -> None:
    command = f"git --version && {PYTHON} -c 'import json, tempfile; tempfile.mkdtemp()' && cat <(echo ok) && nproc >/dev/null && echo x > /dev/null && mktemp >/dev/null && echo fine"
    found = confined.data("Bash", command=command)
    assert found["stdout"].endswith("ok\nfine\n"), found


def test_what_is_put_into_tmp_is_there_for_the_next_command(confined: Bench) -> None:
    confined.data("Bash", command='echo kept > "$TMPDIR/note"')
    assert confined.data("Bash", command='cat "$TMPDIR/note"')["stdout"] == "kept\n"


def test_a_sandbox_is_believed_only_when_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_door(words: Sequence[str], ground: Ground) -> list[str]:
        return list(words)

    sandbox.works.cache_clear()
    monkeypatch.setitem(BOXES, "bubblewrap", open_door)
    assert not sandbox.works("bubblewrap")
    sandbox.works.cache_clear()


def test_a_kernel_that_does_not_know_all_rules_runs_nothing(tmp_path: Path) -> None:
    """It refuses what it does not know, as one before 6.12 does with scopes."""
    text, known = Path(supervisor.__file__).read_text(), "_SCOPES = 0b11, 0b11"
    assert known in text
    (tmp_path / "supervisor.py").write_text(text.replace(known, "_SCOPES = 0b11, 0xFF00"))
    rules = '{"read": ["/"], "write": ["/"], "network": false}'
    words = [sys.executable, str(tmp_path / "supervisor.py"), rules, "echo", "ran"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (126, "")
    assert "could not be confined" in done.stderr


def test_a_workspace_with_nothing_outside_of_it_has_no_sandbox() -> None:
    assert sandbox.find_sandbox(Path("/")) is None


def test_shrunk_it_keeps_command_status_and_edges(bench: Bench) -> None:
    from refold.messages import Call
    from refold.shrink import Shrinking

    bench.place.unconfined = True
    arguments: dict[str, Any] = {"command": "seq 1 500; seq 1 100 >&2; exit 2"}
    call = Call("c1", "Bash", arguments)
    small = Shrinking(call, bench.call("Bash", **arguments).result(call)).at_once()
    assert small is not None
    assert '"exit_code":2' in small.text
    assert "exit 2\\n(500 lines)\\n1\\n2\\n3\\n4\\n5\\n… (490 lines)\\n496" in small.text


def test_a_directory_on_the_path_that_cannot_be_looked_into_is_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unreadable = (
        f"/{'x' * 5_000}"  # as a directory of another user: stat fails, and not because it is missing
    )
    monkeypatch.setenv("PATH", os.pathsep.join((unreadable, str(tmp_path))))
    assert str(tmp_path) in sandbox.readable_paths() and unreadable not in sandbox.readable_paths()
