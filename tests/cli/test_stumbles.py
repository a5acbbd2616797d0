"""Where new users stumbled: what each command prints, and how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

import refold as library
from refold import Session, loop, presets
from refold import messages as m
from refold.cli import main
from refold.cli.console import Screen
from refold.cli.options import WholeNumber
from refold.presets import NAMES
from refold.registry.sessions import save
from refold.transcripts import read
from tests.data import shared
from tests.rights import ordinary_rights


def refold(*arguments: str, **more: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env=more)


@pytest.fixture
def own(tmp_path: Path) -> str:
    session = Session()
    for number in range(12):
        session.append(m.user(f"question {number} " + "and more words " * 40))
        path = f"a/rather/long/folder/of/a/repository/with/many/levels/src/module{number}.py"
        session.append(m.assistant(f"Looking at {path}", m.call(f"c{number}", "Read", path=path)))
        session.append(m.result(f"c{number}", "some code\n" * 120, name="Read"))
        session.append(m.assistant(f"answer {number}"))
    save(session, tmp_path / "session.jsonl")
    return str(tmp_path / "session.jsonl")


@pytest.mark.parametrize("look", ["--view", "--tree", "--trail", "--abridged"])
@pytest.mark.parametrize("columns", ["40", "80"])
def test_piped_output_is_never_wrapped(own: str, look: str, columns: str) -> None:
    lines = refold("show", own, look, "--full", COLUMNS=columns).output.splitlines()
    assert any("levels/src/" in line and "module3.py" in line and "a/rather/long" in line for line in lines)


def test_piped_tables_are_never_cut(own: str, tmp_path: Path) -> None:
    store = f"jsonl:{tmp_path}/"
    name = "a name of a session that is longer than the columns of a terminal"
    library.open(f"{store}", id="long" * 20).append(m.user(name))
    assert "long" * 20 in refold("sessions", "--store", store, COLUMNS="40").output
    assert len(refold("recall", own, "question 3", COLUMNS="20").output.splitlines()[1]) > 100


def test_compact_that_does_not_fit_exits_1_and_says_so_once_with_the_strategy(own: str) -> None:
    done = refold("compact", own, "--budget", "200", "--preset", "pi")
    assert done.exit_code == 1
    assert done.output.count("does not fit") == 1
    assert "does not fit, after strategy" in done.output
    assert "strategy  failed" not in done.output


def test_what_cannot_be_folded_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "giant.json"
    path.write_text(json.dumps([{"role": "user", "content": "word " * 5000}]))
    done = refold("compact", str(path), "--budget", "1k")
    assert done.exit_code == 1
    assert done.output.count("newest user message") == 1
    assert "nothing is left to fold" not in done.output
    assert "nothing was folded: what cannot be folded needs 5," in done.output
    assert "or use a larger budget or window" in done.output


def test_a_view_that_fits_is_not_followed_by_why_it_would_not(own: str) -> None:
    """The second attempt, at what is already the least, fails; nobody asked for it."""
    done = refold("compact", own, "--budget", "270")
    assert done.exit_code == 0, done.output
    assert "no further fold" not in done.output


def test_compact_says_where_nothing_was_written(tmp_path: Path) -> None:
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps([{"role": "user", "content": "hello"}]))
    assert "not saved: -o FILE saves the session" in refold("compact", str(file)).output
    assert "nothing was written" not in refold("compact", str(file), "-o", str(tmp_path / "out.jsonl")).output


@pytest.mark.parametrize("preset", ["layered", "window"])
def test_plan_shows_the_size_that_compact_reaches_and_whether_it_fits(preset: str, own: str) -> None:
    asked = own, "--preset", preset, "--budget", "600"
    text = refold("plan", *asked).output
    planned = json.loads(refold("plan", *asked, "--json").stdout)
    done = json.loads(refold("compact", *asked, "--json").stdout)
    assert planned["strategy"] in [fold["strategy"] for fold in done["folds"]]
    assert (planned["tokens_after"], planned["fits"]) == (done["view"]["tokens"], done["fits"])
    verdict = "fits" if done["fits"] else "does not fit"
    assert f"→ {done['view']['tokens']:,} tokens of 600: {verdict}" in text


@pytest.mark.parametrize("preset", ["pi", "window"])
def test_the_table_of_compact_counts_as_the_view_does(preset: str, own: str) -> None:
    size = json.loads(refold("show", own, "--json").stdout)["tokens"]
    done = refold("compact", own, "--preset", preset, "--budget", "1k")
    sizes = [line.split()[2:4] for line in done.output.splitlines() if " summary " in line]
    assert sizes[0][0] == f"{size:,}"
    assert [before for before, _ in sizes[1:]] == [after for _, after in sizes[:-1]]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[1]"])
def test_params_that_are_no_json_object_are_refused(content: bytes, own: str, tmp_path: Path) -> None:
    file = tmp_path / "bin.json"
    file.write_bytes(content)
    done = refold("compact", own, "--preset", "augment", "--params", str(file))
    assert done.exit_code == 2
    assert "params: must be a JSON object" in done.output


def test_who_lost_a_race_is_told_to_run_the_command_again(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append = Session.append

    def late(session: Session, *said: object, **more: object) -> object:
        library.open(f"jsonl:{own}").move(session.path[3].id)
        return append(session, *said, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(Session, "append", late)
    done = refold("compact", own, "--budget", "1k")
    assert (done.exit_code, "run the command again" in done.output) == (1, True)
    assert "refresh()" not in done.output


@pytest.mark.parametrize("place", ["x.json", "new/x.json"])
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(own: str, tmp_path: Path, place: str) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir(0o500)
    with ordinary_rights():
        done = refold("export", own, "--to", "openai", "-o", str(folder / place))
    named = folder / place if place == "x.json" else folder / "new"
    assert done.output == f"refold: {named}: permission denied\n"
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("compact", "FILE", "--last"), "FILE and --last exclude each other: give one of them"),
        (("show", "FILE#zzz"), "has no session 'zzz': # is followed by the id of a session"),
        (("import", "FILE/nowhere"), "FILE/nowhere: no such file or folder"),
        (("import", "FILE", "--format", "nope"), "unknown transcript format 'nope'"),
        (("compare", "FILE", "--presets", "pi,refold:nope=1"), "nope: no such setting"),
        (("compare", "FILE", "--presets", "refold:window=much"), "window: must be a whole number"),
    ],
)
def test_a_wrong_name_is_wrong_usage(own: str, arguments: tuple[str, ...], told: str) -> None:
    done = refold(*(argument.replace("FILE", own) for argument in arguments))
    assert done.exit_code == 2
    assert told.replace("FILE/", f"{own}/") in done.output


def test_forget_shows_the_calls_of_a_message_without_text(tmp_path: Path) -> None:
    session = Session([])
    session.append(m.user("look"))
    bare = session.append(m.assistant("", m.call("c", "Read", path="src/auth.py")))
    session.append(m.result("c", "code"))
    save(session, tmp_path / "s.jsonl")
    done = refold("forget", str(tmp_path / "s.jsonl"), bare.id, "--dry-run")
    assert f"{bare.id}  assistant  Read src/auth.py\n" in done.output


def test_a_move_to_the_same_place_is_no_move(own: str) -> None:
    at = Session.of(read(own)).path[3].id
    assert "moved from" in refold("branch", own, at).output
    assert f"already at {at}; the view now has" in refold("branch", own, at).output


def test_an_unknown_parameter_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"colour": 1}')
    done = refold("presets", "augment", "--params", str(tmp_path / "p.json"))
    assert done.output.count("ignored") == 1
    (tmp_path / "p.json").write_bytes(b"\xff")
    assert refold("presets", "augment", "--params", str(tmp_path / "p.json")).exit_code == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"\x00\xff" * 99, "binary file"), (b"", "is empty"), (b'{"a": 1}', "not a transcript")],
)
def test_explore_refuses_a_file_that_is_no_transcript(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "other.json"
    file.write_bytes(content)
    done = refold("explore", str(file), "--no-browser", "--port", "0")
    assert done.exit_code == 1 and told in done.output and "http" not in done.output


def test_a_file_that_is_hardly_in_the_format_named_is_not_imported(own: str, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/s.db"
    done = refold("import", own, "--format", "codex", "--to", store)
    assert done.exit_code == 1 and "is not in the format codex" in done.output
    assert json.loads(refold("sessions", "--store", store, "--json").stdout)["total"] == 0
    assert refold("import", own, "--format", "refold", "--to", store).exit_code == 0


def test_a_summary_that_took_too_long_says_who_was_asked(own: str) -> None:
    class Slow:
        name, uses_model = "slow:model", True

        async def answer(self, ask: object) -> object:
            await asyncio.sleep(60)

    session = library.load(own)
    engine = library.Engine(presets.get("augment", summary_seconds=0.05), summariser=Slow())  # type: ignore[arg-type]
    plan = engine.plan(session, force=True)
    assert isinstance(plan, library.Plan)
    outcome = loop.run(engine.apply(session, plan))
    assert isinstance(outcome, library.Failed)
    assert outcome.text == "slow:model did not answer in time"


def test_plan_says_about_of_a_size_that_was_not_counted_exactly(own: str) -> None:
    assert "due, about " in refold("plan", own, "--budget", "500").output
    assert "about" not in refold("plan", own, "--budget", "3k").output


@pytest.mark.parametrize("command", ["compact", "plan"])
def test_a_budget_is_written_as_people_write_it(command: str, own: str) -> None:
    windows = [
        refold(command, own, "--window", b, "--json").stdout for b in ("8k", "8K", "8000", "8_000", "8,000")
    ]
    assert (
        len({json.loads(printed).get("budget", json.loads(printed).get("window")) for printed in windows})
        == 1
    )
    assert refold(command, own, "--budget", "8_000_000").exit_code == 0
    assert refold("recall", own, "question", "--budget", "1.5k").exit_code == 0
    assert refold(command, own, "--window", "200k").exit_code == 0
    for wrong in ("lots", "0", "-1", "", "20%"):
        done = refold(command, own, "--budget", wrong)
        assert done.exit_code == 2
        assert (
            f"{wrong!r} is not a number of tokens: use a number above 0, written 8000, 8k or 1.5m."
            in done.output
        )


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("compcat",), "compact"),
        (("sessions", "dcotor"), "doctor"),
        (("memory", "lsit"), "list"),
        (("plan", "FILE", "--preset", "refodl"), "refold"),
        (("plan", "FILE", "--set", "windw=3"), "window"),
        (("presets", "agument"), "augment"),
        (("compact", "FILE", "--model", "opneai:gpt-5"), "openai"),
        (("models", "claude-sonet-4-5"), "claude-sonnet-4-5"),
        (("export", "FILE", "--to", "markdwon"), "markdown"),
        (("compare", "FILE", "--presets", "refodl"), "refold"),
    ],
)
def test_a_misspelt_name_is_guessed(arguments: tuple[str, ...], meant: str, own: str) -> None:
    done = refold(*(own if one == "FILE" else one for one in arguments))
    assert done.exit_code == 2
    assert f"id you mean {meant}?" in done.output


@pytest.mark.parametrize("command", [("compact",), ("export", "--to", "markdown")])
def test_output_is_written_over_only_when_forced(command: tuple[str, ...], own: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    refused = refold(command[0], own, *command[1:], "-o", str(out))
    assert refused.exit_code == 2
    assert "overwrite it with --force" in refused.output
    assert out.read_text() == "mine"
    assert refold(command[0], own, *command[1:], "-o", str(out), "--force").exit_code == 0
    assert "answer 11" in out.read_text()


def test_forgetting_a_note_that_is_not_there_says_so(tmp_path: Path) -> None:
    file = str(tmp_path / "memory.md")
    refold("memory", "--file", file, "add", "tabs, not spaces")
    done = refold("memory", "--file", file, "forget", "9")
    assert done.exit_code == 1
    assert done.output == "refold: no note 9; the memory has 1 note (`refold memory list`)\n"
    assert "no note contains 'x y'" in refold("memory", "--file", file, "forget", "--match", "x y").output
    assert refold("memory", "--file", file, "forget", "1").output.startswith("Deleted 1 note\n")


def test_models_hides_test_doubles_unless_asked() -> None:
    assert "scripted" not in refold("models").output
    assert "scripted" in refold("models", "--all").output


# ── sessions ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Two imported conversations without names."""
    for number, day in ((1, "2025-03-01"), (2, "2025-02-01")):
        lines = [
            {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": f"5e55-{number}{number}",
             "timestamp": f"{day}T10:00:00Z", "cwd": "/home/me/project",
             "message": {"role": "user", "content": f"Please repair the gate number {number}"}},
            {"type": "assistant", "uuid": f"a{number}", "parentUuid": f"u{number}", "sessionId": f"5e55-{number}{number}",
             "timestamp": f"{day}T11:00:00Z",
             "message": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}},
        ]  # fmt: skip
        (tmp_path / f"{number}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return str(tmp_path)


def test_a_session_that_is_called_by_its_id_alone_has_its_first_prompt_as_title(tmp_path: Path) -> None:
    session = Session(id="gate-4588")
    session.info = msgspec.structs.replace(session.info, name="gate-4588")
    session.append(m.user("Please repair the gate."))
    save(session, tmp_path / "gate-4588.jsonl")
    assert "Please repair the gate." in refold("sessions", "--store", f"jsonl:{tmp_path}/").output


@pytest.mark.parametrize("kind", ["sqlite:{}/s.db", "jsonl:{}/own/"])
def test_sessions_have_the_first_prompt_as_title_and_the_dates_of_the_conversation(
    store: str, kind: str
) -> None:
    place = kind.format(store)
    done = refold("import", f"{store}/1.jsonl", f"{store}/2.jsonl", "--to", place)
    assert done.exit_code == 0
    assert place.partition(":")[2].rstrip("/") in done.output
    head, _, first, second, *_ = refold("sessions", "--store", place).output.splitlines()
    assert head == f"store: {place.partition(':')[2].rstrip('/')}"
    assert "Please repair the gate number 1" in first
    assert "2025-03-01" in first
    assert "/home/me/project" in first
    assert "2025-02-01" in second
    found = refold("sessions", "--store", place, "--name", "GATE number 2").output
    assert "5e55-22" in found
    assert "5e55-11" not in found


@pytest.mark.parametrize("kind", ["sqlite:{}/s.db", "jsonl:{}/own/"])
def test_an_imported_session_was_last_active_when_its_newest_message_was_written(
    tmp_path: Path, kind: str
) -> None:
    records = [
        {"type": "user", "uuid": f"u{day}", "parentUuid": None if day == 1 else "u1", "sessionId": "s",
         "timestamp": f"2025-03-0{day}T12:00:00Z", "message": {"role": "user", "content": f"day {day}"}}
        for day in (1, 5, 3)
    ]  # fmt: skip
    file, place = tmp_path / "s.jsonl", kind.format(tmp_path)
    file.write_text("\n".join(map(json.dumps, records)))
    refold("import", str(file), "--to", place)
    assert "2025-03-05" in refold("sessions", "--store", place).output
    assert json.loads(refold("sessions", "--store", place, "--since", "2025-03-04", "--json").output)["total"]
    assert not json.loads(refold("sessions", "--store", place, "--until", "2025-03-04", "--json").output)[
        "total"
    ]


def records(*parents: str | None) -> str:
    """A transcript of Claude Code: u0, u1 …, each with its parent."""
    made = (
        {"type": "user", "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s",
         "timestamp": "2025-03-01T12:00:00Z", "message": {"role": "user", "content": f"say {number}"}}
        for number, parent in enumerate(parents)
    )  # fmt: skip
    return "\n".join(map(json.dumps, made))


@pytest.mark.parametrize(
    ("parents", "said"),
    [
        ((None, "gone", "gone too"), "2 records name a parent that is not in this file; they were attached"),
        ((None, "gone"), "1 record names a parent that is not in this file; it was attached"),
    ],
)
def test_a_parent_that_is_not_in_the_file_is_said_as_such(
    tmp_path: Path, parents: tuple[str | None, ...], said: str
) -> None:
    file, place = tmp_path / "s.jsonl", f"sqlite:{tmp_path}/s.db"
    file.write_text(records(*parents))
    assert f"refold: {said} to the record before\n" in refold("show", str(file)).stderr
    done = refold("import", str(file), "--to", place).output
    assert f"s.jsonl: {said} to the record before\n" in done
    assert "could not be read" not in done


def test_what_could_not_be_read_is_said_with_the_first_of_it(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text(records(None) + "\n{oops\n")
    assert "refold: 1 problem while reading: line 2: not JSON" in refold("show", str(file)).stderr
    file.write_text(records(None) + "\n{oops\n{oops\n")
    assert "refold: 2 problems while reading; the first: line 2: not JSON" in refold("show", str(file)).stderr


def test_a_stored_session_is_not_folded_in_the_file_of_a_program(tmp_path: Path) -> None:
    database = str(tmp_path / "s.db")
    library.open(f"sqlite:{database}", id="mine").append(m.user("hello"))
    done = refold("compact", "mine", "--in-place", REFOLD_DATABASE=database)
    assert done.exit_code == 2
    assert "session mine is in refold's store; --in-place is for files of Claude Code or Codex" in done.output


def test_one_thing_is_not_many(tmp_path: Path) -> None:
    session = Session()
    session.append(m.user("the word is zebra"))
    save(session, tmp_path / "s.jsonl")
    file = str(tmp_path / "s.jsonl")
    assert " tokens in 1 message and 1 turn (1 entry in the log)" in refold("stats", file).output
    assert refold("show", file).output.splitlines()[-1].endswith("; the log has 1 entry")
    assert "Delete 1 session?" in refold("sessions", "delete", session.id, "--store", f"jsonl:{file}").output
    session.append(m.assistant("zebra, understood"))
    save(session, file, replace=True)
    assert " tokens in 2 messages and 1 turn (2 entries in the log)" in refold("stats", file).output


def test_options_of_stores_are_described() -> None:
    assert "Sessions to list at most." in refold("sessions", "--help").output
    assert "postgres://" in refold("import", "--help").output


def test_the_beginning_of_an_id_is_enough(store: str) -> None:
    database = f"{store}/mine.db"
    refold("import", f"{store}/1.jsonl", f"{store}/2.jsonl", "--to", f"sqlite:{database}")
    assert "number 2" in refold("show", f"sqlite:{database}#5e55-2").output
    assert "number 1" in refold("show", "5e55-1", REFOLD_DATABASE=database).output
    several = refold("show", "5e55", REFOLD_DATABASE=database)
    assert several.exit_code == 2
    assert "2 session ids begin with 5e55: give more of the id" in several.output
    assert (
        "no session or file '77'; `refold sessions` lists ids"
        in refold("show", "77", REFOLD_DATABASE=database).output
    )
    assert refold("sessions", "delete", "5e55-1", "--yes", REFOLD_DATABASE=database).exit_code == 0


def test_at_a_terminal_a_session_is_a_line_with_as_much_of_its_id_as_is_needed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow() -> Screen:
        screen = Screen()
        screen.is_piped, screen.soft_wrap, screen.width = False, False, 80
        return screen

    place = f"sqlite:{store}/s.db"
    for end in ("a", "b"):
        session = library.open(place, id=f"01a1e28e-00f3-7602-{end}")
        session.info = msgspec.structs.replace(session.info, cwd=f"/home/me/{'long/' * 30}project-{end}")
        session.append(m.user(f"Please repair the {end} " + "words " * 40))
    monkeypatch.setattr("refold.cli.sessions.console", narrow)
    _, _, *rows, _ = refold("sessions", "--store", place).output.splitlines()
    assert len(rows) == 2
    for row in rows:
        assert len(row) <= 80
        assert "  Please repa" in row
    assert {row.split()[0] for row in rows} == {"01a1e28e-00f3-7602-a", "01a1e28e-00f3-7602-b"}


def test_on_a_narrow_terminal_columns_are_left_out_and_no_id_or_number_is_cut(
    store: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def narrow() -> Screen:
        screen = Screen()
        screen.is_piped, screen.soft_wrap, screen.width = False, False, 40
        return screen

    place = f"sqlite:{store}/s.db"
    for end in ("a", "b"):
        library.open(place, id=f"swe-project-00f3-7602-{end}").append(m.user("words " * 40))
    monkeypatch.setattr("refold.cli.sessions.console", narrow)
    monkeypatch.setattr("refold.cli.compare.console", narrow)
    listed = refold("sessions", "--store", place).output
    assert all(f"swe-project-00f3-7602-{end}" in listed for end in "ab")
    given = own, "--presets", "refold,pi", "--budgets", "1k"
    rows = json.loads(refold("compare", *given, "--json").stdout)["rows"]
    compared = refold("compare", *given).output
    assert "…" not in compared
    for row in rows:
        assert any(
            line.startswith(row["preset"]) and f" {row['tokens']:,}" in line for line in compared.splitlines()
        )


def test_where_nothing_matches_that_is_said_and_not_that_there_is_nothing(store: str) -> None:
    place = f"sqlite:{store}/s.db"
    refold("import", f"{store}/1.jsonl", "--to", place)
    assert "no session contains 'zebra'\n" in refold("sessions", "--store", place, "--search", "zebra").output
    assert "no matching sessions\n" in refold("sessions", "--store", place, "--name", "zebra").output


# ── looking ─────────────────────────────────────────────────────────────────────────────────────


def test_the_ledger_says_what_left_how_large_it_was_and_how_to_get_it_back(own: str) -> None:
    refold("compact", own, "--budget", "3k")
    said = refold("show", own, "--ledger").output
    assert re.search(r"folds or clips \d+ messages \([\d,]+ tokens\); the log keeps them:", said)
    key = re.search(
        r"  (\w{7}) +[\d,]+ tokens  (?:clipped|as one line|not shown) +result of Read: some code", said
    )
    back = re.search(r"to read one: `refold recall FILE --keys (\w{7}) --full`", said)
    assert key
    assert back
    assert refold("recall", own, "--keys", back[1], "--full").exit_code == 0
    assert "some code" in refold("recall", own, "--keys", key[1], "--full").output


def test_one_fold_is_counted_alike_by_compact_show_and_compare(own: str, tmp_path: Path) -> None:
    shutil.copy(own, tmp_path / "same.jsonl")
    compared = refold(
        "compare", str(tmp_path / "same.jsonl"), "--presets", "refold", "--budgets", "3k"
    ).output
    outputs = [refold("compact", own, "--budget", "3k").output, refold("show", own).output]
    outputs += [refold("show", own, "--ledger").output, compared]
    sentences = {re.search(r"(?i)of 48 messages: [^.;\n]+\)", output) for output in outputs}
    assert None not in sentences
    assert len({found[0].lower() for found in sentences if found}) == 1
    assert re.search(r"folds \d+ of 48 messages; ", refold("plan", own, "--budget", "2k").output)


def test_the_ledger_says_of_each_message_its_form_in_the_view(own: str) -> None:
    refold("compact", own, "--budget", "3k")
    value = json.loads(refold("show", own, "--ledger", "--json").output)
    view = json.loads(refold("show", own, "--json").output)
    assert value["forms"] == view["forms"] and sum(value["forms"].values()) == 48
    shown = str(view["messages"])
    [fold] = value["folds"]
    assert {row["form"] for row in fold["lost"]} >= {"lines"}
    for row in fold["lost"]:
        text = library.load(own)[row["id"]].message.text.strip()  # pyright: ignore
        assert row["form"] != "whole" or text in shown
        assert row["form"] != "clipped" or text not in shown
    refold("undo", own)
    [fold] = json.loads(refold("show", own, "--ledger", "--json").output)["folds"]
    assert {row["form"] for row in fold["lost"]} == {"whole"}


def test_a_tree_is_indented_only_where_it_branches(tmp_path: Path) -> None:
    session = Session()
    first = session.append(m.user("start")).id
    for number in range(5):
        session.append(m.assistant(f"rejected {number}"))
        session.move(first)
        first = session.append(m.user(f"instead {number}")).id
    save(session, tmp_path / "s.jsonl")
    lines = refold("show", str(tmp_path / "s.jsonl"), "--tree").output.splitlines()
    assert len({len(line) - len(line.lstrip("├ ")) for line in lines if "instead" in line}) == 1
    assert all(line.startswith("  ") for line in lines if "rejected" in line)


def test_what_a_format_cannot_hold_is_one_line(own: str, tmp_path: Path) -> None:
    refold("compact", own, "--budget", "3k")
    done = refold("export", own, "--to", "openai", "-o", str(tmp_path / "out.json"))
    [line] = done.stderr.splitlines()
    assert line.startswith("refold: 2 notes: 1 fold not exported")


def test_transcripts_that_fit_as_they_are_are_counted(own: str, tmp_path: Path) -> None:
    for name in ("small", "smaller"):
        session = Session()
        session.append(m.user(name))
        save(session, tmp_path / f"{name}.jsonl")
    words = (own, str(tmp_path / "small.jsonl"), "--presets", "refold", "--budgets", "3k", "--on", "here")
    assert "\n2 transcripts\n\nfolded to 3k tokens; 1 fits as it is\n" in refold("compare", *words).output
    words = (str(tmp_path / "smaller.jsonl"), *words)
    assert "\n3 transcripts\n\nfolded to 3k tokens; 2 fit as they are\n" in refold("compare", *words).output


def test_a_fold_of_another_program_is_said_to_be_one_and_its_entries_are_counted(tmp_path: Path) -> None:
    boundary = {"type": "system", "uuid": "b", "parentUuid": None, "logicalParentUuid": "u2", "sessionId": "s",
                "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 9000}}  # fmt: skip
    summary = {"type": "user", "uuid": "s", "parentUuid": "b", "sessionId": "s", "isCompactSummary": True,
               "message": {"role": "user", "content": "what was said"}}  # fmt: skip
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join((records(None, "u0", "u1"), json.dumps(boundary), json.dumps(summary))))
    said = "Claude Code made this fold; its 3 entries are in the log"
    assert refold("show", str(file), "--ledger").output.endswith(f"\ns {said}\n")
    why = refold("show", str(file), "--why").output
    assert said in why and "earlier release" not in why
    [fold] = json.loads(refold("show", str(file), "--ledger", "--json").output)["folds"]
    assert (fold["origin"], fold["tokens_before"]) == (said, 9000)


@pytest.mark.data
def test_the_tree_leaves_out_records_that_say_nothing() -> None:
    file = str(shared("claude-code/agentcmd-full-session-two.jsonl"))
    said = refold("show", file, "--tree").output
    assert "other" not in {line.split()[1] for line in said.splitlines()}
    assert "… and 5 records without content; --full shows them" in said


@pytest.mark.data
def test_entries_are_counted_in_one_way(tmp_path: Path) -> None:
    file, store = str(shared("claude-code/agentcmd-full-session-two.jsonl")), f"sqlite:{tmp_path}/x.db"
    told = [json.loads(refold("import", file, "--to", store, "--json").stdout)["sessions"][0]["entries"],
            json.loads(refold("sessions", "--store", store, "--json").stdout)["sessions"][0]["entries"],
            json.loads(refold("show", file, "--json").stdout)["entries"]]  # fmt: skip
    assert len(set(told)) == 1
    assert f"the log has {told[0]} entries" in refold("show", file).output
    assert f"({told[0]} entries in the log)" in refold("stats", file).output


@pytest.mark.data
def test_a_plan_explains_its_numbers() -> None:
    file = str(shared("pi/before-compaction.jsonl"))
    said = refold("plan", file).output
    assert re.search(r"now 203,289 tokens by the provider's count \(.*\), 169,754 by ours", said)
    said = refold("plan", file, "--budget", "5k").output
    assert "saves $0.0536 at once" in said
    assert "$-" not in said
    assert "after 0 turn" not in said


@pytest.mark.data
def test_nothing_is_due_where_nothing_is_to_do() -> None:
    file = str(shared("claude-code/agentcmd-full-session-two.jsonl"))
    said = refold("plan", file, "--budget", "20k").output
    assert "not due" in said
    assert "refused" not in said
    told = json.loads(refold("plan", file, "--budget", "20k", "--json").stdout)
    assert (told["due"], told["tokens_after"]) == (False, told["tokens_before"])


@pytest.mark.parametrize("preset", NAMES)
def test_an_upper_bound_is_never_above_what_there_was(preset: str, own: str) -> None:
    told = json.loads(refold("plan", own, "--preset", preset, "--json").stdout)
    assert told["tokens_after"] <= told["tokens_before"]


@pytest.mark.data
def test_a_file_with_many_conversations_says_how_to_choose() -> None:
    said = refold("show", str(shared("tau-bench/gpt-4o-airline.first80.json")))
    assert "could not be read" not in said.output
    assert "holds 80 conversations; this is the first: name another as FILE#1 … FILE#79" in said.output


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("typed", "taken"), [("7\n", 7), ("\n", 0), ("no such\n-1\n200\n31\n", 31), ("WORDS 19\n198\n", 198)]
)
def test_a_person_at_a_terminal_picks_one_of_200_conversations(
    typed: str, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.jsonl"
    lines = ({"messages": [{"role": "user", "content": f"some words {number}"}]} for number in range(200))
    path.write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr("refold.cli.session_argument.is_interactive", lambda: True)
    said = CliRunner().invoke(main, ["show", str(path)], input=typed).output
    first, *asked = said.split("Which conversation? A number, or words to search for [0]: ")
    assert first.startswith("   0  some words 0\n   1  some words 1\n")
    assert first.endswith("  29  some words 29\n   …  and 170 more\n")
    assert f"user      some words {taken}\n" in asked[-1]
    if "no such" in typed:
        assert "no first prompt contains 'no such'; the numbers are 0 to 199" in asked[0]
    if "19" in typed:
        assert asked[0].splitlines()[1:] == [f"{n:4}  some words {n}" for n in (19, 119, *range(190, 200))]


def test_a_file_of_one_conversation_has_no_other(own: str, store: str) -> None:
    for file in (f"{store}/1.jsonl#z7", f"{own}#z7"):
        done = refold("show", file)
        assert done.exit_code != 0
        assert "z7" in done.output


def test_a_folder_without_transcripts_is_named(tmp_path: Path) -> None:
    done = refold("compare", str(tmp_path))
    assert done.exit_code == 1
    assert done.output == f"Error: no transcripts in {tmp_path}\n"


@pytest.mark.parametrize(
    "command", [("compact",), ("export", "--to", "jsonl"), ("compare", "--presets", "refold")]
)
def test_what_is_written_is_said_and_its_folder_is_made(
    command: tuple[str, ...], own: str, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder" / "out"
    done = refold(command[0], own, *command[1:], "-o", str(out))
    assert done.exit_code == 0, done.output
    assert out.exists()
    assert str(out) in done.output


# ── waiting, interrupting, completing ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [("compact",), ("export", "--to", "jsonl"), ("compare", "--html")])
def test_ctrl_c_leaves_no_half_file(
    command: tuple[str, ...], own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: all is written, and only the name is missing."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for name in ("rename", "replace", "link"):
        monkeypatch.setattr(os, name, interrupted)
    monkeypatch.setattr(Path, "replace", interrupted)
    folder = tmp_path / "results"
    folder.mkdir()
    out = (str(folder / "out"),) if "--html" in command else ("-o", str(folder / "out"))
    done = refold(command[0], own, *command[1:], *out)
    assert done.exit_code == 1
    assert "Aborted!" in done.output
    assert not list(folder.iterdir())


def test_a_terminal_sees_that_work_goes_on_and_a_pipe_does_not(own: str) -> None:
    program = [sys.executable, "-m", "refold", "compact", own, "--budget", "3k", "--passes", "3"]
    ours, theirs = os.openpty()
    piped = subprocess.run(program, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=60).stdout
    os.close(theirs)
    shown = os.read(ours, 65_536)
    os.close(ours)
    assert b"folding" in shown
    assert b"\x1b" not in piped
    assert b"fits" in piped


TAB = """
eval "$(_REFOLD_COMPLETE=bash_source refold)"
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [[ $line == *" " ]] && COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
    compopt() { [ "$2" = default ] && COMPREPLY+=(FILES); }
    _refold_completion refold
    echo "${COMPREPLY[*]}"
done
"""
"""What bash does when Tab is pressed at the end of each line; `compopt` is how it is told to offer files."""
OFFERED = {
    "refold comp": "compact compare completion",
    "refold compact --budg": "--budget",
    "refold plan x --preset re": "refold",
    "refold compare x --presets pi,aug": "pi,augment",
    "refold presets ro": "rounds",
    "refold export x --to mark": "markdown",
    "refold sessions doc": "doctor",
    "refold show ": "FILES",
    "refold show 5e55": "5e55-11 5e55-22",
    "refold sessions delete 5e55-2": "5e55-22",
    "refold compact sess": "FILES",
}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_shell_completes_names_files_and_sessions(store: str, own: str) -> None:
    database = f"{store}/mine.db"
    refold("import", f"{store}/1.jsonl", f"{store}/2.jsonl", "--to", f"sqlite:{database}")
    program = Path(store, "refold")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m refold "$@"\n')
    program.chmod(0o755)
    source = str(Path(library.__file__).parents[1])
    env = {
        **os.environ,
        "REFOLD_DATABASE": database,
        "PATH": f"{store}:{os.environ['PATH']}",
        "PYTHONPATH": source,
    }
    typed = "\n".join(OFFERED) + "\n"
    done = subprocess.run(
        ["bash", "-c", TAB],
        input=typed,
        cwd=Path(own).parent,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert dict(zip(OFFERED, done.stdout.splitlines(), strict=True)) == OFFERED, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_a_script_too(shell: str) -> None:
    done = CliRunner().invoke(main, prog_name="refold", env={"_REFOLD_COMPLETE": f"{shell}_source"})
    assert f"_REFOLD_COMPLETE={shell}_complete" in done.output


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('[gateway]\nupsteam = "x"', '[gateway] unknown key "upsteam"; did you mean "upstream"?'),
        ("gatway = 1", 'unknown key "gatway"; did you mean "gateway"?'),
        ('[providers.openai]\napikey = "x"', '[providers.*] unknown key "apikey"; did you mean "api_key"?'),
        ("[gateway]\nzzz = 1", '[gateway] unknown key "zzz"'),
    ],
)
def test_a_misspelt_key_of_the_configuration_is_named_with_what_was_meant(
    tmp_path: Path, written: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(written)
    done = refold("serve", "--upstream", "http://localhost:1", REFOLD_CONFIG=str(file))
    assert (done.exit_code, done.output.strip()) == (2, f"Error: {file}: {said}")


@pytest.mark.parametrize(
    ("given", "meant"), [("localhost:9911", "; did you mean http://localhost:9911?"), ("ftp://x", "")]
)
def test_an_upstream_that_is_not_a_url_is_quoted(given: str, meant: str) -> None:
    done = refold("serve", "--upstream", given)
    assert done.exit_code == 2 and f"{given!r} is not an http:// or https:// address{meant}" in done.output


def test_a_port_in_use_is_said_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = refold("serve", "--upstream", "http://localhost:1", "--port", str(port))
    assert done.exit_code == 2 and f"Port {port} is in use; choose another with --port" in done.output


@pytest.mark.parametrize(
    ("command", "option"), [(("explore", "--no-browser"), "--port"), (("mcp",), "--http")]
)
def test_a_port_in_use_is_said_by_every_server(command: tuple[str, ...], option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = refold(*command, option, port, HOME=str(tmp_path), REFOLD_DATABASE=str(tmp_path / "mine.db"))
    assert done.exit_code == 2 and f"Port {port} is in use; choose another with {option}" in done.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[gateway]\nport = "x"', "[gateway] port must be a whole number, not text in quotes"),
        ("[gateway]\nupstream = 5", "[gateway] upstream must be text in quotes, not a whole number"),
        ('[chat]\npermission = "yes"', "[chat] permission must be one of ask, edits, read-only, all"),
        ('[providers.a]\ncache = "2h"', "cache must be one of 5m, 1h, off"),
        ("model = 3", "model must be text in quotes, not a whole number"),
        ("x = [", "not valid TOML: Invalid value"),
    ],
)
def test_a_wrong_value_in_the_configuration_is_named_with_what_is_needed(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    done = refold("models", REFOLD_CONFIG=str(file))
    assert done.exit_code == 2 and said in done.output, done.output


def test_an_unknown_model_is_said_to_be_one() -> None:
    done = refold("models", "nope")
    assert done.exit_code == 2 and "unknown model 'nope'; `refold models --all`" in done.output


def test_parameters_for_a_preset_that_takes_none_are_refused(own: str, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text("{}")
    done = refold("compact", own, "--params", str(file))
    assert done.exit_code == 2 and "the preset refold has no --params; use --set KEY=VALUE" in done.output


def test_conditions_that_nothing_meets_are_not_called_words(own: str) -> None:
    assert "Nothing found; no entry meets --tool\n" in refold("recall", own, "--tool", "Nope").output
    assert "Nothing found; try other words" in refold("recall", own, "qwertyuiop").output


def test_the_id_of_a_session_that_a_client_named_is_listed_as_it_is_and_can_be_used(tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path / 's.db'}"
    id = "t81.8e1f0c3b5a7d92e46f10b8c7d3a5e962"
    library.open(store, id=id).append(m.user("hello there, the key is " + "sk-ant-api03-" + "Zq7Rt2Lp9X" * 8))
    assert id in refold("sessions", "--store", store).output
    assert id in refold("sessions", "--store", store, "--search", "hello").output
    [row] = json.loads(refold("sessions", "--store", store, "--json").output)["sessions"]
    assert row["id"] == id and "redacted" in row["title"]
    assert "hello there" in refold("show", f"{store}#{row['id']}").output


def test_windows_of_the_gateway_are_written_as_everywhere_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = refold("serve", "--upstream", "http://localhost:1", "--window", "12k", "--port", port)
    assert f"Port {port} is in use" in done.output
    assert "is not on the PATH" in refold("run", "--window", "1.5m", "codex", PATH=str(tmp_path)).output
    for command in (("serve",), ("run", "codex")):
        done = refold(command[0], "--window", "much", *command[1:])
        assert done.exit_code == 2 and "'much' is not a number of tokens" in done.output


@pytest.mark.parametrize("passes", [(), ("--passes", "2")])
def test_the_fallback_of_a_preset_is_honoured_where_its_own_folds_leave_too_much(
    own: str, passes: tuple[str, ...], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jsonl"
    shutil.copy(own, copy)
    options = ("--preset", "layered", "--budget", "2k", *passes, "--json")
    without = refold("compact", own, *options)
    assert without.exit_code == 1 and not json.loads(without.output)["fits"]
    done = refold("compact", str(copy), *options, "--set", "fallback=digest")
    made = json.loads(done.output)
    assert done.exit_code == 0 and made["fits"], made["why"]
    assert made["folds"][-1]["strategy"] == "fallback"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[presets.refold]\nwindw = 3", "[presets.refold] windw: no such setting"),
        (
            "[presets.refold]\nwindow = -3",
            "[presets.refold] window: must be a whole number of at least 1, not -3",
        ),
        (
            '[presets.refold]\nfallback = "x"',
            "[presets.refold] fallback: must be one of none, digest, not 'x'",
        ),
        ("[presets.refld]\nkeep = 1", "unknown preset 'refld'; there are: refold"),
        ('preset = "nope"', "unknown preset 'nope'"),
        ('[gateway.models."x"]\npreset = "nope"', "unknown preset 'nope'"),
        ('[models."m"]\nwindow = -1', '[models."m"] window: must be a whole number of at least 1, not -1'),
        ('[models."m"]\nwindow = "x"', '[models."m"] window: must be a whole number, not text in quotes'),
        ('[models."m"]\ninput = -0.5', '[models."m"] input: must be a number of at least 0, not -0.5'),
        ('[models."m"]\ncahce_read = 1', '[models."m"] cahce_read: no such setting; there are: cache_read'),
        ("[models]\nm = 5", "[models] * must be a table, not a whole number"),
        (
            '[providers.x]\nbase_url = "http://x"',
            "[providers.x] type: must be one of openai, openai-responses",
        ),
        ("[gateway]\nconcurrent = 0", "[gateway] concurrent must be a whole number of at least 1"),
        ("[gateway]\nsilent_seconds = -1", "[gateway] silent_seconds must be a number above 0"),
        ("[chat]\nmax_iterations = -1", "[chat] max_iterations must be a whole number of at least 1"),
    ],
)
@pytest.mark.parametrize("command", ["stats", "show", "plan"])
def test_a_wrong_configuration_stops_every_command(
    own: str, tmp_path: Path, command: str, written: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(written)
    done = refold(command, own, REFOLD_CONFIG=str(file))
    assert done.exit_code == 2
    assert done.output.startswith(f"Error: {file}: {said}")
    assert refold(command, "--help", REFOLD_CONFIG=str(file)).exit_code == 0


def test_a_configuration_that_is_not_text_is_one_sentence(own: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe")
    done = refold("plan", own, REFOLD_CONFIG=str(file))
    assert (done.exit_code, done.output) == (2, f"Error: {file}: not UTF-8 text: save it as UTF-8\n")


def test_a_wrong_variable_is_named(own: str) -> None:
    done = refold("stats", own, REFOLD_REFOLD_WINDOW="abc")
    assert (done.exit_code, done.output) == (
        2, "Error: REFOLD_REFOLD_WINDOW: must be a whole number, not 'abc'\n"
    )  # fmt: skip


def test_the_configured_preset_is_the_default(own: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('preset = "pi"')
    assert json.loads(refold("plan", own, "--json", REFOLD_CONFIG=str(file)).stdout)["preset"] == "pi"
    given = refold("plan", own, "--json", "--preset", "window", REFOLD_CONFIG=str(file))
    assert json.loads(given.stdout)["preset"] == "window"


def test_a_gateway_with_an_unknown_store_does_not_start() -> None:
    done = refold("serve", "--upstream", "http://127.0.0.1:9", "--port", "0", "--store", "foo:x")
    assert done.exit_code == 2
    assert "unknown store 'foo'; there are: sqlite, jsonl" in done.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("stats", ""), 2, "FILE is empty: name a transcript or a session"),
        (("plan", "FILE", "--set", "window=abc"), 2, "window: must be a whole number, not 'abc'"),
        (
            ("pin", "FILE", "nosuch"),
            1,
            "no entry 'nosuch' in this session; `refold show FILE --tree` lists ids",
        ),
        (("export", "FILE"), 2, "Choose from: openai, "),
        (("config", "nope"), 2, "No such command 'nope'. Commands: init"),
        (("sessions", "search"), 2, "No such command 'search'. Commands: "),
        (("serve", "--upstream", "ftp://x"), 2, "'ftp://x' is not an http:// or https:// address"),
        (
            ("plan",),
            2,
            "Missing argument 'FILE'. Name a transcript or a session, or use --last for the newest",
        ),
        (
            ("compact", "FILE", "--in-place"),
            2,
            "--in-place is for claude-code and codex: leave out --in-place",
        ),
        (("recall", "FILE", "x", "--turns", "5-2"), 2, "--turns 5-2: the first number is larger; write 2-5"),
        (("compare", "FILE", "--budgets", "0"), 2, "'0' is too small: a view needs at least one token"),
        (("show", "sqlite:nosuch/none.db#x"), 1, "nosuch/none.db does not exist"),
        (("serve", "--upstream", "https://a.b/v1/messages"), 2, "leave out /v1/messages: give https://a.b"),
        (("compare", "nosuch.txt"), 1, "no session or file 'nosuch.txt'"),
    ],
)
def test_a_mistake_on_the_command_line_is_answered_with_what_to_do(
    own: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = refold(*(own if one == "FILE" else one for one in arguments))
    assert done.exit_code == code
    assert said in done.output


def test_broken_json_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_text('[{"role": "user",\n "content": }]')
    done = refold("stats", str(path))
    assert (done.exit_code, done.output) == (
        1, f"refold: {path} is not valid JSON: Expecting value: line 2 column 13 (char 30)\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (("--view", "--tree"), "--view, --tree"),
        (("--why", "--ledger", "--trail"), "--ledger, --trail, --why"),
        (("--tree", "--wire", "anthropic"), "--tree, --wire"),
    ],
)
def test_show_refuses_two_aspects_at_once(own: str, asked: tuple[str, ...], named: str) -> None:
    result = refold("show", own, *asked)
    assert result.exit_code == 2
    assert result.output.endswith(f"Error: choose one of {named}\n")
    assert (
        refold("show", own, "--view", "--wire", "anthropic", "--json").exit_code == 0
    )  # what is sent is the view


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("recall", "x", "words", "--limit", "22a"), "'22a' is not a whole number from 1 to 1000."),
        (("stats", "x", "--top", "0"), "'0' is not a whole number from 1 to 1000."),
        (("memory", "forget", "1.5"), "'1.5' is not a whole number of at least 1."),
    ],
)
def test_what_is_no_number_is_told_in_plain_words(arguments: tuple[str, ...], said: str) -> None:
    result = refold(*arguments)
    assert result.exit_code == 2
    assert result.output.endswith(f"{said}\n")


def test_every_number_of_a_command_is_asked_for_in_these_words() -> None:
    def parameters(command: click.Command) -> Iterator[click.Parameter]:
        yield from command.params
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                yield from parameters(
                    cast("click.Command", command.get_command(click.Context(command), name))
                )

    numbers = (click.types.IntParamType, click.types.FloatParamType)
    found = [one for one in parameters(main) if isinstance(one.type, numbers)]
    assert found and all(isinstance(one.type, WholeNumber) for one in found), found
