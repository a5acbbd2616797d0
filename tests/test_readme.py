"""README.md and the quick start: their lines run, their figures are so, and what is installed is what they show."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import refold
from refold.cli import demo, main
from refold.testing.wire import WireServer
from tests.data import shared

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
START = (ROOT / "docs" / "quick-start.md").read_text()
LINES = README.split("```python\n")[1].split("```")[0]


def run(*words: str) -> Result:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done


def test_the_lines_of_python_run_and_are_ten() -> None:
    assert len([line for line in LINES.splitlines() if line]) <= 10
    program = f"{LINES}\nprint(ask('What is part seven?'))\nprint(ask('And eight?'))\n"
    with WireServer("A screw.", "A nut.") as server:
        env = {**os.environ, "OPENAI_BASE_URL": server.v1, "OPENAI_API_KEY": "none"}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120
        )
    assert done.stdout == "A screw.\nA nut.\n", done.stderr
    assert not server.problems
    assert [message["role"] for message in server.bodies[-1]["messages"]] == ["user", "assistant", "user"]


def test_before_and_after_are_those_of_the_bundled_session(tmp_path: Path) -> None:
    """The README quotes what `compact` prints, all but the id of the fold."""
    demo.unpack(tmp_path / "sample.jsonl")
    printed = run("compact", str(tmp_path / "sample.jsonl"), "--budget", "10k").stdout
    quoted = README.split("`compact` prints:\n\n```\n")[1].split("```")[0]
    assert _without_id(quoted) == _without_id(printed.partition("next: ")[0])
    whole, clipped, lines, gone = map(int, re.findall(r"[:,] (\d+) ", quoted.split("of 210 messages")[1])[:4])
    assert whole + clipped + lines + gone == 210
    view = " ".join(run("show", str(tmp_path / "sample.jsonl"), "--full").stdout.split())
    examples = re.findall(r"`(\[… .+?|Bash python.+?)`", README)
    assert len(examples) == 2 and all(example in view for example in examples)
    words = ("compare", str(tmp_path / "sample.jsonl"), "--presets", "refold", "--budgets", "10k", "--json")
    [row] = json.loads(run(*words).stdout)["rows"]
    assert [row["forms"][form]["messages"] for form in ("whole", "clipped", "lines", "gone")] == [
        whole, clipped, lines, gone,
    ]  # fmt: skip
    assert f"all {row['counts']['words']['of']} words" in README
    assert row["counts"]["words"]["kept"] == row["counts"]["words"]["of"]


def _without_id(text: str) -> list[str]:
    return [re.sub(r"^[0-9a-f]{12} ", "ID ", line).rstrip() for line in text.splitlines()]


@pytest.mark.slow
def test_the_quick_start_runs_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    blocks = re.findall(r"(?ms)^```bash\n(.*?)^```", START)
    names: list[str] = []
    for line in "".join(blocks).splitlines():
        name, *rest = shlex.split(line.partition("  #")[0])[1:]
        names.append(name)
        if name == "demo":
            Path("out").mkdir()
            demo.unpack(Path("out/sample.jsonl"))  # what the command leaves, without its comparison
        else:
            run(name, *(word if word != "--last" else "out/sample.jsonl" for word in rest))
    assert names[0] == "demo"
    assert {"show", "recall", "undo", "stats", "plan", "compact", "compare"} <= set(names)


@pytest.mark.data
@pytest.mark.parametrize(
    ("client", "folder", "file", "resume"),
    [
        (
            "claude-code",
            ".claude/projects/-p",
            "claude-code/session-share-general-tool-calls.jsonl",
            r"claude --resume",
        ),
        (
            "codex",
            ".codex/sessions/2025/09/24",
            "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl",
            r"codex resume",
        ),
    ],
)
def test_four_commands_lead_to_an_own_session_folded_and_resumed(
    client: str, folder: str, file: str, resume: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = START.split("## Keep all your sessions")[1].split("\n## ")[0]
    commands = re.findall(r"(?m)^(refold .+?) +#", section)
    assert [command.split()[1] for command in commands] == ["import", "sessions", "compact", "export"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REFOLD_DATABASE", str(tmp_path / "mine.db"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    transcript = shared(file)
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / transcript.name).write_bytes(transcript.read_bytes())
    project = str(tmp_path / folder.partition("/")[0] / folder.split("/")[1])
    id, said = "", dict[str, str]()
    for command in commands:
        typed = (
            command.replace("~/.claude/projects", project)
            .replace("claude-code", client)
            .replace(" ID", f" {id}")
        )
        _, name, *words = shlex.split(typed)
        words += ["--cwd", str(tmp_path)] if name == "export" else []
        said[name] = run(name, *words).output
        if name == "sessions":
            id = re.findall(r"(?m)^([0-9a-f]{8})-[0-9a-f-]+ ", said[name])[0]
    assert ": fits" in said["compact"]
    written = Path(re.search(r"written to (.+)", said["export"])[1])  # pyright: ignore
    resumed = re.search(rf"next: cd (.+) && {resume} ([0-9a-f-]+)", said["export"])
    assert resumed
    assert resumed[2] in written.name
    before, after = (refold.Engine("refold").view(refold.load(path)) for path in (transcript, written))
    assert after.tokens <= 20_000 < before.tokens
    assert after.to_openai()[-1] == before.to_openai()[-1]


# ── what is installed ───────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `pip install` gets it, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    package = ROOT / "src" / "refold"
    ours = {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        theirs = {name for name in archive.namelist() if not name.startswith("refold-")}
    assert theirs == ours


@pytest.mark.slow
def test_what_is_installed_compares_and_writes_a_report(wheel: Path, tmp_path: Path) -> None:
    """Styles, scripts, prompts, prices and the sample come from the wheel."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = """
import sys, refold
from refold.cli import main
assert refold.__file__.startswith(sys.argv[1]), refold.__file__
main(["demo", "--out", sys.argv[2], "--json"])
"""
    out = tmp_path / "out"
    given = [sys.executable, "-c", program, str(site), str(out)]
    env = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(given, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert [row["preset"] for row in json.loads(done.stdout)["rows"]] == list(refold.presets.NAMES)
    page = (out / "report.html").read_text()
    for part in ("explorer.html", "explorer.js", "style.css"):
        text = (ROOT / "src" / "refold" / "compare" / "report" / part).read_text()
        assert max(text.splitlines(), key=len).strip() in page
