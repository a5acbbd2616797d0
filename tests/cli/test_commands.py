"""The commands on real and wrong input: documented JSON, exit codes, one sentence, nothing changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.cli import COMMANDS, main
from refold.presets import NAMES
from refold.registry.sessions import load, save
from tests.data import shared
from tests.rights import ordinary_rights


def refold(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def as_json(*arguments: str) -> Any:
    result = refold(*arguments, "--json")
    told = json.loads(result.stdout)
    fits = arguments[0] != "compact" or told["fits"]
    assert result.exit_code == (0 if fits else 1), result.output[-400:]
    return told


@pytest.fixture
def own(tmp_path: Path) -> str:
    session = Session()
    for number in range(30):
        session.append(m.user(f"question {number} about src/module{number}.py " + "and more words " * 60))
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/module{number}.py")))
        session.append(m.result(f"c{number}", "some code\n" * 120, name="Read"))
        session.append(m.assistant(f"answer {number}"))
    path = tmp_path / "session.jsonl"
    save(session, path)
    return str(path)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_explains_itself_and_has_json(name: str) -> None:
    result = refold(name, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output
    text = result.output
    if "COMMAND [ARGS]" in text:
        return  # a group: its commands have it
    if name in ("explore", "mcp", "serve", "run"):
        return  # a server, or another program: what it prints is theirs
    assert "--json" in text


PLAN_KEYS = {
    "preset", "measure", "reason", "first_kept", "fold", "turn_prefix", "masked", "split", "tokens_before",
    "tokens_after", "window", "requests", "cost", "files", "previous_summary",
}  # fmt: skip


@pytest.mark.data
def test_plan_json_of_a_pi_session() -> None:
    plan = as_json("plan", str(shared("pi/before-compaction.jsonl")), "--preset", "pi")
    assert set(plan) >= PLAN_KEYS
    assert plan["first_kept"] == "e946"
    assert (len(plan["fold"]), len(plan["turn_prefix"]), plan["split"]) == (383, 7, True)
    assert (len(plan["files"]["read"]), len(plan["files"]["modified"])) == (2, 12)
    assert set(plan["cost"]) >= {"now", "per_turn", "break_even_turns"}
    assert plan["reason"] == {"code": "asked", "text": "you asked for it"}


def test_plan_json_has_the_same_keys_when_nothing_is_to_do(tmp_path: Path) -> None:
    path = tmp_path / "short.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    plan = as_json("plan", str(path), "--preset", "pi")
    assert set(plan) >= PLAN_KEYS
    assert plan["fold"] == []
    assert plan["first_kept"] is None


@pytest.mark.data
def test_plan_settings_from_the_command_line() -> None:
    file = str(shared("pi/large-session.jsonl"))
    plan = as_json("plan", file, "--preset", "pi", "--set", "keep_recent_tokens=5000", "--window", "100000")
    assert plan["first_kept"] == "e983"
    assert plan["window"] == 100_000
    assert plan["due"] is True


@pytest.mark.sample(3)
@pytest.mark.parametrize("preset", NAMES)
def test_compact_json(preset: str, own: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out.jsonl")
    done = as_json("compact", own, "--preset", preset, "--budget", "6000", "--passes", "2", "-o", out)
    assert set(done) >= {"view", "fits", "folds", "passes"}
    assert done["passes"] == 2
    assert done["fits"] == (done["view"]["tokens"] <= 6000)
    assert done["folds"] or preset == "rounds"  # its lines are housekeeping: not listed with --passes
    assert all(
        set(f) >= {"strategy", "rung", "tokens_before", "tokens_after", "verified", "requests"}
        for f in done["folds"]
    )
    assert set(done["view"]["messages"][0]) >= {"role", "content", "entries"}
    if not done["fits"]:
        assert done["why"]
    assert len([x for x in load(out).entries if x.on_path and hasattr(x, "message")]) == 120


@pytest.mark.parametrize("passes", [1, 3, 10])
def test_compact_really_folds_so_many_times_at_growing_prefixes(passes: int, own: str) -> None:
    done = as_json("compact", own, "--budget", "5000", "--passes", str(passes))
    assert 1 <= len(done["folds"]) <= passes  # a prefix that fits is not folded (R20)
    assert done["fits"]


def test_compact_says_when_it_cannot_fit(tmp_path: Path) -> None:
    path = tmp_path / "giant.json"
    path.write_text(json.dumps([{"role": "user", "content": "word " * 5000}]))
    done = as_json("compact", str(path), "--budget", "1000")
    assert done["fits"] is False
    assert "newest user message" in done["why"]


def test_compact_in_place_undo_redo_pin_unpin(own: str) -> None:
    before = as_json("show", own)
    fold = as_json("compact", own, "--budget", "5000")["folds"][0]["id"]
    after = as_json("show", own, "--view")
    assert after["tokens"] < before["tokens"]
    assert as_json("undo", own)["undo"] == fold
    assert as_json("show", own)["messages"] == before["messages"]
    assert as_json("redo", own)["redo"] == fold
    assert as_json("show", own)["messages"] == after["messages"]
    entry = before["messages"][0]["entries"][0]
    assert as_json("pin", own, entry)["pins"] == [entry]
    assert as_json("unpin", own, entry)["pins"] == []
    assert refold("unpin", own, entry).exit_code == 1


@pytest.mark.parametrize("look", ["--view", "--tree", "--ledger", "--abridged", "--trail", "--why"])
def test_show_every_look_for_people_and_machines(look: str, own: str) -> None:
    refold("compact", own, "--budget", "5000")
    assert as_json("show", own, look)
    result = refold("show", own, look)
    assert result.exit_code == 0, result.output
    assert result.output.strip()


def test_show_why_names_the_entries_that_each_line_comes_from(tmp_path: Path) -> None:
    path = tmp_path / "work.jsonl"
    session = Session()
    session.append(m.user("Fix the login. Never touch migrations."))
    for n in range(40):
        session.append(m.assistant("Looking.", m.call(f"r{n}", "Read", file_path=f"src/part{n}.py")))
        session.append(m.result(f"r{n}", f"line {n}\n" * 60, name="Read"))
        session.append(
            m.assistant(
                "", m.call(f"e{n}", "Edit", file_path=f"src/part{n}.py", old_string="a", new_string="b")
            )
        )
        session.append(m.result(f"e{n}", "ok", name="Edit"))
    save(session, path)
    assert as_json("show", str(path), "--why") == {"folds": []}
    fold = as_json("compact", str(path), "--budget", "3000")["folds"][0]["id"]
    [shown] = as_json("show", str(path), "--why")["folds"]
    assert (shown["id"], shown["active"], shown["sources"]) == (fold, True, True)
    entries = {entry.id: number for number, entry in enumerate(session.path)}
    rows = {row["text"]: [entries[id] for id in row["ids"]] for row in shown["lines"]}
    own = next(text for text in rows if text.startswith("[#0] "))
    assert rows[own] == [0]
    named = next(text for text in rows if text.startswith("- src/: part"))
    assert all(f"part{(number - 3) // 4}.py" in named for number in rows[named])
    done = next(text for text in rows if text.startswith("- ") and "Edit src/part" in text)
    call = int(done.rsplit("#", 1)[1])
    assert rows[done] == [call, call + 1]
    bare = [text for text, numbers in rows.items() if not numbers and text]
    assert all(
        text.startswith(("[", "(", "The user's own words", "Quoted record", "<", "</", "## ", "- (and "))
        or text.endswith(":")
        for text in bare
    )
    text = refold("show", str(path), "--why").output
    assert f"← {e.key(session.path[0].id)}" in text
    assert "recall FILE --keys" in text


def test_show_why_of_a_fold_that_noted_nothing_says_so(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    session = Session()
    first, last = session.append(m.user("one")), session.append(m.assistant("two"))
    session.append(
        session.make(
            e.Fold, edits=(e.Edit(first.id, last.id, (m.user("What happened: …"),)),), preset="refold"
        )
    )
    save(session, path)
    [shown] = as_json("show", str(path), "--why")["folds"]
    assert shown["sources"] is False
    assert [row["ids"] for row in shown["lines"]] == [[]]
    assert "does not record its sources" in refold("show", str(path), "--why").output


@pytest.mark.parametrize("wire", ["openai", "anthropic", "responses"])
def test_show_wire(wire: str, own: str) -> None:
    assert as_json("show", own, "--wire", wire)


def test_foreign_transcripts_are_never_changed(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    before = path.read_bytes()
    for command in (("undo",), ("pin", "e0")):
        result = refold(command[0], str(path), *command[1:])
        assert result.exit_code == 2
        assert "never changes" in result.output
    assert path.read_bytes() == before


def test_presets_lists_every_setting_with_its_meaning() -> None:
    rows = as_json("presets")["presets"]
    assert [row["name"] for row in rows] == list(NAMES)
    for row in rows:
        assert row["idea"]
        assert all(setting["meaning"] for setting in row["settings"]), row["name"]
    assert refold("presets", "pi").exit_code == 0


# ── wrong input ─────────────────────────────────────────────────────────────────────────────────


def wrong_files(folder: Path) -> dict[str, Path]:
    files = {
        "directory": folder,
        "missing": folder / "nowhere.jsonl",
        "empty": folder / "empty.jsonl",
        "binary": folder / "binary.bin",
        "not a transcript": folder / "poem.txt",
        "truncated": folder / "cut.jsonl",
        "wrong json": folder / "wrong.json",
        "no permission": folder / "secret.jsonl",
    }
    files["empty"].write_bytes(b"")
    files["binary"].write_bytes(bytes(range(256)) * 50)
    files["not a transcript"].write_text("Roses are red\nviolets are blue\n")
    files["truncated"].write_text('{"type":"mess')
    files["wrong json"].write_text('{"a": 1}')
    files["no permission"].write_text("{}")
    files["no permission"].chmod(0)
    return files


@pytest.mark.parametrize(
    "kind",
    [
        "directory",
        "missing",
        "empty",
        "binary",
        "not a transcript",
        "truncated",
        "wrong json",
        "no permission",
    ],
)
@pytest.mark.parametrize("command", ["show", "plan", "compact", "stats", "undo"])
def test_wrong_input_is_one_clear_sentence_and_an_exit_code(command: str, kind: str, tmp_path: Path) -> None:
    path = wrong_files(tmp_path)[kind]
    before = path.read_bytes() if path.is_file() and kind != "no permission" else b""
    with ordinary_rights():
        result = refold(command, str(path))
    assert result.exit_code in (1, 2), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    said = [line for line in result.output.strip().splitlines() if line]
    assert said
    assert len(said[-1]) < 400
    if before:
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "x", "--preset", "nonsense"),
        ("plan", "x", "--preset", "pi", "--set", "keep_recent_tokens=many"),
        ("plan", "x", "--preset", "pi", "--set", "nonsense=1"),
        ("plan", "x", "--preset", "pi", "--set", "nothing"),
        ("compact", "x", "--passes", "0"),
        ("compact", "x", "--budget", "-5"),
        ("nonsense",),
        ("show", "x", "--wire", "morse"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_to_do(arguments: tuple[str, ...], own: str) -> None:
    result = refold(*(own if a == "x" else a for a in arguments))
    assert result.exit_code == 2, result.output
    assert "Error" in result.output


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.json"
    path.write_text(json.dumps([{"role": "user", "content": "\x1b[2Jboo\u202e\x07\x9b31m"}]))
    for arguments in (
        ("show", str(path)),
        ("show", str(path), "--tree"),
        ("plan", str(path)),
        ("stats", str(path)),
    ):
        result = refold(*arguments)
        assert result.exit_code == 0, result.output
        assert "boo" in result.output or arguments[0] != "show"
        assert not any(c in result.output for c in "\x1b\u202e\x07\x9b"), arguments
