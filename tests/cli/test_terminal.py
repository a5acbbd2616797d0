"""R17: nothing from a transcript reaches the terminal raw, in any command, as table, line, error or JSON."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import refold
from refold import entries as e
from refold import messages as m
from refold.cli import COMMANDS, main

EVIL = "\x1b]52;c;ZXZpbA==\x07\x1b[2J[/bold][red]\x9b31m\u202eevil\u2066\x00\r\ud83d[/]\\"
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def hostile(folder: Path) -> Path:
    """A session in which everything that has a name or a text attacks the terminal."""
    path = folder / "evil.jsonl"
    session = refold.open(f"jsonl:{path}", id=f"s{EVIL}")
    session.append(session.make(e.Info, name=EVIL, cwd=EVIL))
    for number in range(8):
        session.append(m.user(f"{EVIL} please fix {number} {'words ' * 200}"), model=f"anthropic:{EVIL}")
        call = m.call(f"c{number}{EVIL}", f"Read{EVIL}", {"path": f"src/{EVIL}{number}.py", EVIL: EVIL})
        reply = m.Assistant((m.thinking(EVIL, EVIL), m.Text(EVIL), call), "tool_use", EVIL)
        session.append(reply, model=f"anthropic:{EVIL}", usage=m.Usage(1000 * number, 10))
        session.append(m.result(call.id, f"{EVIL} " + "text " * 300, name=f"Read{EVIL}"))
        bash = m.call(f"b{number}", "Bash", command=f"pytest {EVIL}")
        session.append(m.assistant(EVIL, bash), model=f"anthropic:{EVIL}")
        session.append(m.result(bash.id, f"FAILED {EVIL}\n1 failed", name="Bash", is_error=True))
        session.append(m.assistant(f"done {EVIL}"), model=f"anthropic:{EVIL}")
    first = session.path[0]
    session.label(first.id, EVIL)
    fold = session.make(
        e.Fold,
        edits=(e.Edit(first.id, session.path[2].id, (m.user(f"summary {EVIL}"),)),),
        preset=EVIL, strategy=EVIL, reason=EVIL, author=EVIL, summary=EVIL, check={EVIL: EVIL},
        ledger=(e.Lost(EVIL, EVIL, 1, EVIL, EVIL),),
    )  # fmt: skip
    assert session.store is not None
    session.store.append(session.id, [fold], after=session.tip)  # nobody may append it; a file may hold it
    session.refresh()
    session.append(session.make(e.Failure, target=first.id, code=EVIL, text=EVIL, preset=EVIL, strategy=EVIL))
    return path


def calls(file: Path, folder: Path) -> dict[str, list[list[str]]]:
    """Every command, in each of its looks."""
    f, db, script = str(file), f"sqlite:{folder / 'x.db'}", folder / "script"
    said = EVIL.replace("\ud83d", "")
    script.write_text(
        f'{said}\n@call Read {{"path": "evil.jsonl"}}\n@call {EVIL[-4:]} {{}}\n---\n{said}', newline=""
    )
    session = refold.load(f)
    first = session.path[0].id
    return {
        "plugin": [["plugin", "list"], ["plugin", "install", said]],
        "plan": [["plan", f], ["plan", f, "--preset", "pi", "--window", "4000"], ["plan", f, "--budget", "2000"]],
        "show": [["show", f, *look, *full]
                 for look in ([], ["--view"], ["--tree"], ["--ledger"], ["--abridged"], ["--trail"])
                 for full in ([], ["--full"])] + [["show", f, "--wire", w] for w in ("openai", "anthropic", "responses")],
        "stats": [["stats", f]],
        "recall": [["recall", f, "evil"], ["recall", f, "evil", "--full"], ["recall", f, "--keys", f"x{EVIL}"]],
        "compact": [["compact", f, "--budget", b, "-o", str(folder / f"out{b}.jsonl")] for b in ("3000", "40")],
        "compare": [["compare", f, "--presets", "refold,pi", "--budgets", "3000", "--passes", "1",
                     "--html", str(folder / "r.html")], ["compare", str(folder / f"no{EVIL[:9]}.jsonl".replace("\x00", ""))]],
        "demo": [["demo", "--out", f]],  # is a file; the sample holds no text of others
        "export": [["export", f, "--to", to] for to in ("markdown", "openai", "anthropic", "jsonl", "pi")],
        "import": [["import", f, "--store", db], ["import", str(file.parent), "--store", db]],
        "sessions": [["sessions", "--store", f"jsonl:{file.parent}/"], ["sessions", "--search", "evil", "--store", f"jsonl:{file.parent}/"],
                     ["sessions", "doctor", "--store", f"jsonl:{file.parent}"]],
        "pin": [["pin", f, first], ["pin", f, f"no{EVIL}".replace("\x00", "")]],
        "unpin": [["unpin", f, first]],
        "undo": [["undo", f]],
        "redo": [["redo", f]],
        "branch": [["branch", f, session.path[6].id, "--summarize"]],
        "forget": [["forget", f, first, "--dry-run"], ["forget", f, first, "--yes"]],
        "memory": [["memory", "--file", str(folder / "m.md"), "add", "note evil \x1b[2J\u202e[/bold]"],
                   ["memory", "--file", str(folder / "m.md"), "list"]],
        "mcp": [["mcp", "--store", f"none:{EVIL}".replace("\x00", ""), "--own"]],
        "serve": [["serve", "--upstream", f"x{EVIL}"], ["serve", "--upstream", "http://h", "--preset", f"x{EVIL}"]],
        "models": [["models"]],
        "doctor": [["doctor"]],
        "explore": [["explore", f"x{EVIL}".replace("\x00", ""), "--no-browser"]],
        "run": [["run", f"x{EVIL}".replace("\x00", "")]],
        "discover": [["discover", str(file.parent)], ["discover", str(file.parent), "--html", str(folder / "d.html")]],
        "config": [["config", "init", "--force"]],
        "completion": [["completion", "install", "fish"], ["completion", "install", f"x{EVIL}".replace("\x00", "")]],
        "chat": [["chat", "-p", f"x{EVIL}", "--model", f"scripted:{script}", "--store", db, *look]
                 for look in ([], ["--compact"], ["--quiet"], ["--resume", f"no{EVIL}"])],
        "presets": [["presets"], ["presets", "refold"]],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("terminal")


def run(arguments: list[str], colour: bool) -> Result:
    return CliRunner().invoke(main, arguments, color=colour, env={"FORCE_COLOR": "1"} if colour else {})


STYLE = re.compile("\x1b\\[[0-9;]*m|\x1b\\[\\?25[lh]|\r?\x1b\\[[12]?[AK]")
"""Colours, and what a progress bar of our own does."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_nothing_reaches_the_terminal_raw(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / name
    place.mkdir()
    monkeypatch.chdir(place)
    file = hostile(place)
    for arguments in calls(file, place)[name]:
        copy = place / "copy" / "evil.jsonl"
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
        for colour in (False, True):
            for machine in ([], ["--json"]):
                done = run([*arguments, *machine], colour)
                if done.exception and not isinstance(done.exception, SystemExit):
                    raise done.exception
                out = STYLE.sub("", done.output) if colour else done.output
                assert not RAW.search(out), (arguments, out[max(RAW.search(out).start() - 60, 0) :][:160])  # pyright: ignore
                assert "\x1b" not in out
                if machine and done.exit_code == 0 and out.lstrip().startswith("{"):
                    json.loads(out.splitlines()[0])


def test_markup_is_shown_not_obeyed(folder: Path) -> None:
    place = folder / "markup"
    place.mkdir()
    said = run(["plan", str(hostile(place)), "--budget", "2000"], colour=False).output
    assert "[/bold][red]" in said


def test_there_is_one_way_to_the_terminal() -> None:
    """`say`, `emit` and `console`, all in `cli/output.py`."""
    for path in Path(refold.__file__).parent.joinpath("cli").glob("*.py"):
        if path.name in ("output.py", "session_argument.py", "console.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {
                    ("click", "secho"),
                    ("sys", "stdout"),
                    ("sys", "stderr"),
                }, path
                # What `export` prints is a file: it is escaped there.
                assert (node.value.id, node.attr) != ("click", "echo") or path.name == "export.py", path
            assert not (isinstance(node, ast.Name) and node.id == "print"), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("Console", "print"), path
