"""What a confined command leaves for git to run later: shown, asked about, and undone unless it is wanted."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from refold.tools import git_guard
from refold.tools.base import ToolContext
from refold.tools.git_guard import GitGuard
from refold.tools.workspace import Workspace
from tests.timing import alarm
from tests.tools.place import Bench
from tests.tools.test_bash import confined

__all__ = ["confined"]

IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x",
    "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x", "PATH": os.environ["PATH"], "GIT_EDITOR": "true",
}  # fmt: skip


def git(folder: Path, *words: str, check: bool = True) -> str:
    allow = ("-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *allow, *words], cwd=folder, env=IDENTITY, capture_output=True, text=True, check=check
    )
    return done.stdout


@cache
def template() -> Path:
    """A repository with a submodule, a nested repository and a linked working tree, as a user may have it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library, top = folder / "library", folder / "work"
    for each in (library, top):
        each.mkdir()
        git(each, "init", "-q", "-b", "master")
        (each / "a.txt").write_text("a\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "first")
    git(top, "submodule", "--quiet", "add", str(library), "sub")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    git(top, "clone", "-q", str(library), "nested")
    git(top, "worktree", "add", "-q", str(folder / "linked"))
    return folder


class Project:
    """A copy of it."""

    def __init__(self, bench: Bench, *, where: str = "main") -> None:
        self.bench, self.top, self.linked = bench, bench.root, bench.root.parent / "linked"
        for copy in (self.top, self.linked):
            shutil.copytree(template() / copy.name, copy, dirs_exist_ok=True, symlinks=True)
        (self.linked / ".git").write_text(f"gitdir: {self.top}/.git/worktrees/linked\n")
        (self.top / ".git/worktrees/linked/gitdir").write_text(f"{self.linked}/.git\n")
        self.root = self.linked if where == "linked" else self.top
        self.ran = bench.outside / "ran"
        self.script = f"#!/bin/sh\ntouch {self.ran}\n"
        bench.place = ToolContext(Workspace(self.root))
        self.asked: list[str] = []
        """What the user was asked."""

    def answer(self, yes: bool) -> None:
        async def approve(question: str) -> bool:
            self.asked.append(question)
            return yes

        self.bench.place.approve = approve

    def run(self, command: str) -> Any:
        payload = f"printf '%s' '{self.script}' > evil; chmod +x evil; E=$PWD/evil\n"
        return self.bench.call("Bash", command=f"{payload}( {command}\n) 2>/dev/null; true")

    def use_git(self) -> None:
        """What the user does next."""
        folders = [self.top, self.linked, self.top / "sub", self.top / "nested", *self.root.glob("new*")]
        for folder in folders:
            if folder.is_dir():
                for words in (
                    ("status",), ("add", "-A"), ("commit", "-qm", "more", "--allow-empty"), ("checkout", "-q", "."),
                    ("rebase", "--continue"), ("submodule", "foreach", "git status"), ("log", "-1"),
                ):  # fmt: skip
                    git(folder, *words, check=False)


def hooks(folder: str) -> str:
    return f"for h in pre-commit post-checkout post-index-change post-commit; do cp evil {folder}/$h; done"


FAKE = "mkdir -p {0}/objects {0}/refs; echo 'ref: refs/heads/master' > {0}/HEAD; printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = %s\\nbare = false\\nworktree = %s\\n' $E $PWD > {0}/config"
PLANTS = {
    "hook": hooks(".git/hooks"),
    "hooks made anew": f"rm -rf .git/hooks; mkdir .git/hooks; {hooks('.git/hooks')}",
    "hooks as a link": f"rm -rf .git/hooks; mkdir h; {hooks('h')}; ln -s ../h .git/hooks",
    "hooks as a link, nothing removed": f"mv .git/hooks .git/x; mkdir h; {hooks('h')}; ln -s $PWD/h .git/hooks",
    "config": "git config core.fsmonitor $E",
    "config by hand": "printf '[core]\\n\\tfsmonitor = %s\\n' $E >> .git/config",
    "config as a link": "cp .git/config c; printf '[core]\\n\\tfsmonitor = %s\\n' $E >> c; ln -sf ../c .git/config",
    "config included": "printf '[core]\\n\\tfsmonitor = %s\\n' $E > c; printf '[include]\\npath = ../c\\n' >> .git/config",
    "worktree's configuration": "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $E",
    "commondir": f"cp -r .git c; {hooks('c/hooks')}; echo $PWD/c > .git/commondir",
    "commondir of a linked tree": f"cp -r .git c; {hooks('c/hooks')}; echo $PWD/c > .git/worktrees/linked/commondir",
    "linked tree's own hooks": "printf '[core]\\nfsmonitor = %s\\n' $E > .git/worktrees/linked/config.worktree; git config extensions.worktreeConfig true",
    "submodule's configuration": "git config -f .git/modules/sub/config core.fsmonitor $E",
    "submodule's hooks": hooks(".git/modules/sub/hooks"),
    "submodule's pointer": FAKE.format("store") + "; echo gitdir: $PWD/store > sub/.git",
    "submodule's pointer is a folder": "rm sub/.git; " + FAKE.format("sub/.git"),
    "git's folder replaced": f"mv .git old; git init -q .; {hooks('.git/hooks')}; git config core.fsmonitor $E",
    "git's folder copied and replaced": f"cp -r .git new; {hooks('new/hooks')}; rm -rf .git; mv new .git",
    "git's folder is a file": f"mv .git old; {hooks('old/hooks')}; echo gitdir: $PWD/old > .git",
    "git's folder is a link": f"mv .git old; {hooks('old/hooks')}; ln -s old .git",
    "nested repository's hooks": hooks("nested/.git/hooks"),
    "new nested repository": f"git init -q new1; {hooks('new1/.git/hooks')}; git -C new1 config core.fsmonitor $E",
    "new repository, made by hand": "mkdir new2; " + FAKE.format("new2/.git"),
    "new bare repository": "mkdir new3; " + FAKE.format("new3"),
    "sources that become a bare repository": "mkdir new4; echo mine > new4/mine; " + FAKE.format("new4"),
    "new repository in the index": "mkdir new5; git init -q new5; git -C new5 commit -q --allow-empty -m x; git add new5; git -C new5 config core.fsmonitor $E",
    "pointer in a new folder": FAKE.format("store") + "; mkdir new6; echo gitdir: $PWD/store > new6/.git",
    "steps of a rebase": "mkdir -p .git/rebase-merge; echo \"exec $E\" > .git/rebase-merge/git-rebase-todo; for f in onto orig-head; do git rev-parse HEAD > .git/rebase-merge/$f; done; echo refs/heads/master > .git/rebase-merge/head-name; touch .git/rebase-merge/interactive .git/rebase-merge/done; echo 1 > .git/rebase-merge/msgnum; echo 1 > .git/rebase-merge/end",
    "filter": "git config filter.x.clean $E; git config filter.x.smudge $E; echo '* filter=x' > .git/info/attributes; touch a.txt",
    "alias of a pager": "git config core.pager $E; git config core.editor $E; git config sequence.editor $E; git config commit.gpgSign true; git config gpg.program $E",
    "mode of a sample": "cp evil .git/hooks/pre-commit.sample; mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("by", ["git", "another program"])
def test_no_plant_is_run_by_the_users_next_git_command(confined: Bench, plant: str, by: str) -> None:
    project = Project(confined)
    named = "git --version >/dev/null; " if by == "git" else ""
    command = PLANTS[plant] if by == "git" else PLANTS[plant].replace("git ", '"$G" ')
    answer = project.run(f"G=git; {named}{command}")
    assert answer.error is None
    project.use_git()
    assert not project.ran.exists()
    if (project.top / "new4").exists():
        assert (project.top / "new4/mine").read_text() == "mine\n", "nothing of the user's is removed"
    if plant != "git's folder copied and replaced":
        assert git(project.top, "log", "--format=%s").endswith("first\n"), "the user's commits are there"


NAMED = {
    "hooks among the sources": ("core.hooksPath", ".githooks", ".githooks/pre-commit"),
    "hooks that are not there yet": ("core.hooksPath", "tools/hooks", "tools/hooks/pre-commit"),
    "a further configuration": ("include.path", "../team.cfg", "team.cfg"),
    "the program of a filter": ("filter.team.clean", "sh ./filter.sh %f", "filter.sh"),
    "a program that git asks for changes": ("core.fsmonitor", "./watch.sh", "watch.sh"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.parametrize("there", [True, False])
def test_files_of_the_workspace_that_a_configuration_names_are_asked_about(
    confined: Bench, named: str, there: bool
) -> None:
    project = Project(confined)
    key, value, file = NAMED[named]
    (project.top / ".gitattributes").write_text("* filter=team\n")
    if there:
        (project.top / file).parent.mkdir(parents=True, exist_ok=True)
        (project.top / file).write_text("# mine\n")
    git(project.top, "config", key, value)
    runs = f"#!/bin/sh\ntouch {project.ran}\n"
    if file.endswith(".cfg"):
        (project.top / "evil.sh").write_text(runs)
        (project.top / "evil.sh").chmod(0o755)
        runs = "[core]\n\tfsmonitor = ./evil.sh\n"
    (project.top / "planted").write_text(runs)
    project.run(f"mkdir -p $(dirname {file}); cp planted {file}; chmod +x {file}")
    project.use_git()
    assert not project.ran.exists()
    assert not there or (project.top / file).read_text() == "# mine\n"


def test_what_git_would_run_is_shown_and_kept_where_the_user_wants_it(confined: Bench) -> None:
    project = Project(confined)
    project.answer(True)
    answer = project.run(
        "git config core.editor nano; cp evil .git/hooks/pre-commit; ln -s x .git/hooks/pre-push"
    )
    [question] = project.asked
    assert ".git/config: changed\n    +\teditor = nano" in question
    assert f".git/hooks/pre-commit: new\n    +#!/bin/sh\n    +touch {project.ran}" in question
    assert ".git/hooks/pre-push: new\n    a link to x" in question
    assert "nano" in (project.top / ".git/config").read_text()
    assert answer.text == ""
    project.run("git status")
    assert len(project.asked) == 1, "what the user wants is not asked about again"


def test_what_was_undone_is_told_to_the_model(confined: Bench) -> None:
    project = Project(confined)
    project.answer(False)
    before = (project.top / ".git/config").read_bytes()
    answer = project.run("git config core.editor nano")
    assert "Undone, because git would run it later" in answer.text
    assert ".git/config: changed" in answer.text
    assert (project.top / ".git/config").read_bytes() == before


def test_terminal_codes_in_what_is_shown_do_nothing(confined: Bench) -> None:
    project = Project(confined)
    project.answer(False)
    project.run(
        "git --version; printf '\\033[2J\\rharmless' > .git/hooks/pre-commit; touch $'.git/\\033[2Jx'"
    )
    assert "\x1b" not in project.asked[0]
    assert "\r" not in project.asked[0]


WORK = """
git checkout -q -b topic && echo b > b.txt && git add . && git commit -qm b && git tag one && git stash list
git checkout -q master && echo c > c.txt && git add c.txt && git commit -qm c && git rebase -q topic
git merge -q topic && git branch -qD topic && echo d >> c.txt && git stash -q && git stash pop -q && git gc -q
git reset -q --hard HEAD~1 && git cherry-pick ORIG_HEAD >/dev/null && git log --oneline | wc -l
"""


def test_what_git_only_keeps_is_not_asked_about(confined: Bench) -> None:
    project = Project(confined)
    project.answer(False)
    for name, value in {"user.name": "x", "user.email": "x@x"}.items():
        git(project.top, "config", name, value)
    found = confined.data("Bash", command=WORK)
    assert found["stdout"].strip() == "3", found
    assert project.asked == []


def test_what_git_keeps_is_read_only_to_commands_that_do_not_name_git(
    confined: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(confined, where="linked")
    before = git(project.top, "for-each-ref")
    project.run(
        "G=git; echo x > x; $G add . && $G -c user.name=x -c user.email=x@x commit -qm x; $G tag evil"
    )
    assert git(project.top, "for-each-ref") == before
    confined.data("Bash", command="git tag wanted")
    assert "wanted" in git(project.top, "tag")


def test_a_repository_where_there_was_none_is_asked_about(confined: Bench) -> None:
    confined.data("Bash", command="git init -q . && git config core.fsmonitor evil")
    assert not (confined.root / ".git/config").exists()
    assert not (confined.root / ".git/HEAD").exists()
    with pytest.raises(subprocess.CalledProcessError):
        git(confined.root, "rev-parse", "--git-dir")


@pytest.mark.slow
@pytest.mark.parametrize("where", ["linked", "part"])
def test_a_repository_that_the_workspace_is_only_a_part_of_is_guarded(confined: Bench, where: str) -> None:
    project = Project(confined, where=where)
    if where == "part":
        (project.top / "part").mkdir()
        confined.place = ToolContext(Workspace(project.top / "part"))
    place = f"{project.top}/.git"
    for plant in (
        hooks(f"{place}/hooks"),
        f"echo $PWD > {place}/worktrees/linked/commondir",
        f"git config core.fsmonitor $E; rm -rf {place}/hooks; ln -s $PWD {place}/hooks",
        hooks(f"{place}/modules/sub/hooks"),
        f"echo gitdir: $PWD/x > .git; {FAKE.format('x')}",
    ):
        for named in ("git --version; ", ""):
            project.run(named + plant)
            project.use_git()
            assert not project.ran.exists(), plant


def test_what_is_undone_is_not_written_through_links(confined: Bench) -> None:
    """Where a folder of git's is a link by now, nothing behind it is touched."""
    project = Project(confined)
    victim = confined.outside / "victim"
    for name in ("config", "hooks/pre-commit", "modules/sub/config", "HEAD"):
        (victim / name).parent.mkdir(parents=True, exist_ok=True)
        (victim / name).write_text("kept")
    for plant in (
        f"rm -rf .git; ln -s {victim} .git",
        f"rm -rf .git/hooks .git/modules; ln -s {victim}/hooks .git/hooks; ln -s {victim}/modules .git/modules",
        f"rm -rf nested; ln -s {victim} nested; rm -rf sub; mkdir sub; ln -s {victim} sub/.git",
        f"rm -f .git/config; ln -s {victim}/config .git/config; rm -rf .git/modules/sub; ln -s {victim} .git/modules/sub",
    ):
        for named in ("git --version; ", ""):
            project.run(named + plant)
            found = {path for path in victim.rglob("*") if path.is_file()}
            assert {path.read_text() for path in found} == {"kept"}
            assert len(found) == 4


def test_a_command_that_is_cancelled_has_planted_nothing(confined: Bench) -> None:
    project = Project(confined)
    told: list[str] = []
    confined.place.git_guard = GitGuard(project.root)
    confined.place.git_guard.tell = told.append

    async def cancelled() -> None:
        command = (
            "git --version; echo evil > .git/hooks/pre-commit; echo x > .git/commondir; touch begun; sleep 60"
        )
        task = asyncio.ensure_future(confined.acall("Bash", command=command))
        while not (project.root / "begun").exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with alarm(120):
        asyncio.run(cancelled())
    assert not (project.root / ".git/hooks/pre-commit").exists()
    assert not (project.root / ".git/commondir").exists()
    assert ".git/hooks/pre-commit" in told[0]


def test_commands_side_by_side_do_not_take_each_others_plants_for_what_was_there(confined: Bench) -> None:
    """Of two agents in one workspace: the second command begins when the first one has planted."""
    project = Project(confined)
    saved = confined.outside.parent / "saved"
    first, second = GitGuard(project.root, saved), GitGuard(project.root, saved)
    first.begin("one")
    plant = project.root / ".git/hooks/pre-commit"
    plant.write_text("evil")
    second.begin("two")
    assert first.put_back() == []
    first.end()
    assert second.changes() == []
    plant.write_text("evil")
    assert [change.path for change in second.changes()] == [str(plant)]
    second.put_back()
    second.end()
    assert not plant.exists()
    assert GitGuard(project.root, saved).left_over() is None


AGENT = """
import asyncio, sys
from pathlib import Path
from refold.messages import Call
from refold import tools
from refold.tools import sandbox
from refold.tools.base import ToolContext, call_tool
from refold.tools.git_guard import GitGuard
from refold.tools.git_guard import GitGuard
from refold.tools.workspace import Workspace
name, root, saved, command = sys.argv[1:]
sandbox.find_sandbox = lambda _=None: sandbox.BOXES[name]
place = ToolContext(Workspace(root), git_guard=GitGuard(Path(root), Path(saved)))
asyncio.run(call_tool(tools.tools_by_name(), Call("1", "Bash", {"command": command}), place))
"""


def test_a_plant_that_survives_a_kill_of_the_agent_is_found_at_the_next_start(
    confined: Bench, request: pytest.FixtureRequest
) -> None:
    from refold.agent.chat import Chat, ChatOptions
    from refold.agent.folder_sessions import fresh
    from refold.models.scripted import Scripted
    from refold.stores import data_folder

    project = Project(confined)
    command = "git --version; echo evil > .git/hooks/pre-commit; touch begun; sleep 60"
    name = request.node.callspec.params["confined"]
    words = [sys.executable, "-c", AGENT, name, str(project.root), str(data_folder() / "git"), command]
    with alarm(120), subprocess.Popen(words) as agent:
        while not (project.root / "begun").exists():
            time.sleep(0.02)
        agent.send_signal(signal.SIGKILL)
    assert (project.root / ".git/hooks/pre-commit").exists()
    asked: list[str] = []

    async def ask(call: Any, question: Any) -> Any:
        asked.append(f"{call.arguments['command']}: {question.question}")
        return "no"

    def next_start() -> None:
        settings = ChatOptions(permission="all", summariser="digest")
        chat = Chat(fresh(project.root), project.root, settings, model=Scripted(then="Hello."), ask=ask)
        asyncio.run(chat.say("Go on."))

    next_start()
    assert len(asked) == 1
    assert asked[0].startswith(command)
    assert ".git/hooks/pre-commit: new" in asked[0]
    assert not (project.root / ".git/hooks/pre-commit").exists()
    next_start()
    assert len(asked) == 1, "decided once"


@pytest.mark.sample(1)
def test_git_does_not_write_through_a_link_that_a_command_left(confined: Bench) -> None:
    project = Project(confined)
    victim = confined.outside / "victim"
    victim.write_text("kept\n")
    (project.top / "b.txt").write_text("b")
    for name in ("COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads/master", "MERGE_MSG", "refs/heads/topic"):
        project.run(f"git --version; ln -sf {victim} .git/{name}")
        project.use_git()
        assert victim.read_text() == "kept\n", name


def test_a_repository_hidden_among_objects_is_found(confined: Bench) -> None:
    """A folder of the working tree that looks like a bare repository, as tests of other programs have them."""
    project = Project(confined)
    for name in ("objects/x", "refs"):
        (project.top / "fixture" / name).mkdir(parents=True)
    (project.top / "fixture/HEAD").write_text("ref: refs/heads/master\n")
    nested = "fixture/objects/x"
    project.run(
        f"git init -q {nested}; git -C {nested} -c user.name=x -c user.email=x@x commit -q --allow-empty -m x; "
        f"git add {nested}; git -C {nested} config core.fsmonitor $E"
    )
    project.use_git()
    assert not project.ran.exists()


def test_what_cannot_be_looked_into_is_said(confined: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(confined)
    project.answer(False)
    project.run('for i in $(seq 30); do mkdir -p $(printf "%0200d" $i) && cd -P $(printf "%0200d" $i); done')
    assert "cannot be looked into" in project.asked[0]
    shutil.rmtree(project.top / f"{1:0200d}")
    monkeypatch.setattr(git_guard, "MAX_FOLDERS", 3_000)
    project.run("git --version; mkdir -p $(seq -f m%g 3000); echo evil > .git/hooks/pre-commit")
    assert ".git/hooks/pre-commit: new" in project.asked[1]
    assert "cannot be looked into" in project.asked[1]


@pytest.mark.parametrize(
    "names",
    [
        ["x/refs/a", "x/objects/a", "x/config", "x/HEAD"],
        ["x/HEAD", "x/config", "x/refs/a", "x/objects/a"],
        ["x/config", "x/HEAD", "x/commondir"],
        ["store/config"],
        ["store/hooks/pre-commit"],
        ["store/modules/new/config"],
    ],
)
def test_tools_that_edit_write_no_repository_of_any_name(bench: Bench, names: list[str]) -> None:
    git(bench.root, "init", "-q", "--separate-git-dir", "store")
    for name in names[:-1]:
        bench.data("Write", path=name, content="ref: refs/heads/master")
    assert bench.error("Write", path=names[-1], content="evil")[0] == "refused"
    bench.data("Write", path="y/HEAD", content="x")
    if (bench.root / "x").exists():
        with pytest.raises(subprocess.CalledProcessError):
            git(bench.root / "x", "--git-dir", ".", "rev-parse", "HEAD")
