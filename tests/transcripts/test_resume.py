"""Sessions for Claude Code and Codex, without these programs: what is written, what is refused, what stays."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import refold
from refold import Engine, presets
from refold import entries as e
from refold import messages as m
from refold.cli import main
from refold.errors import FormatError, StorageError, UsageError
from refold.loop import run
from refold.mcp.collections import Collection, Collections
from refold.mcp.synced_sessions import SyncedSessions
from refold.mcp.tools import answer_tool_call
from refold.recall import tool
from refold.registry import client_activity
from refold.registry.client_sessions import InPlace, home, install_session
from refold.session import Projection, Session
from refold.session.edits import said_by
from refold.stores.memory_file import MemoryFile
from refold.transcripts import claude_write, codex_write, read_stream
from refold.transcripts.export import export, spoken_items
from refold.transcripts.programs import WRITERS, page_of, writer
from refold.transcripts.read_back import spoken_texts
from refold.transcripts.resume import Resumable, resumable
from tests.transcripts.sound_records import unsound

PROGRAMS = sorted(WRITERS)


def talk(turns: int = 4) -> Session:
    session = Session(id="talk")
    session.append(m.system("Be brief."))
    for n in range(turns):
        session.append(m.user(f"Question {n}"))
        session.append(
            m.assistant(
                f"Reading {n}.", m.call(f"c{n}", "Read", path="a.py"), m.call(f"d{n}", "LS", path=".")
            ),
            usage=m.Usage(90_000 + n, 5),
            model="anthropic:claude-x",
        )
        session.append(m.result(f"c{n}", f"text {n}"))
        session.append(m.result(f"d{n}", "no such folder", is_error=True))
        session.append(m.assistant(f"Answer {n}."))
    return session


def fold(session: Session, first: int, last: int, *put: m.Message, kind: str = "summary") -> None:
    path = session.path
    edit = e.Edit(path[first].id, path[last].id, put, kind)
    session.append(session.make(e.Fold, edits=(edit,), preset="refold", summary=put[0].text))


def folded() -> Session:
    session = talk()
    fold(session, 1, 10, m.user([m.text("A record of the first two turns.", "summary")]))
    return session


def exported(session: Session, program: str, **more: Any) -> Resumable:
    found = export(session, program, cwd="/tmp", **more)
    assert isinstance(found, Resumable)
    return found


def records(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def back(data: bytes, program: str) -> Session:
    return Session.of(read_stream(io.BytesIO(data), name="x.jsonl", format=program))


def shown(session: Session, program: str) -> list[tuple[str, ...]]:
    return spoken_texts(item.message for item in page_of(session, writer(program)).view)


# ── what is written ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_view_comes_back_and_everything_said_stands_before_it(program: str) -> None:
    session = folded()
    found = exported(session, program)
    again = back(found.data, program)
    assert shown(again, program) == shown(session, program)
    said = " ".join(entry.message.text for entry in again.entries if isinstance(entry, e.MessageEntry))
    assert all(f"Question {n}" in said and f"text {n}" in said for n in range(4))
    assert again.problems == ()


def continued(data: bytes, program: str, text: str) -> bytes:
    """As the program goes on from what it finds."""
    *_, last = records(data)
    stamp = {"timestamp": "2031-01-01T00:00:00.000Z"}
    if program == "codex":
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        more: dict[str, Any] = {"type": "response_item", "payload": item, **stamp}
    else:
        kept = ("sessionId", "cwd", "version", "gitBranch", "userType", "isSidechain")
        more = {key: last[key] for key in kept} | {"type": "user", "uuid": claude_write.new_id(), **stamp}
        more |= {"parentUuid": last["uuid"], "message": {"role": "user", "content": text}}
    return data + json.dumps(more).encode() + b"\n"


def twice_folded() -> Session:
    """A session with entries of all sorts, which no program of another kind can hold: they keep their places."""
    session = talk()
    session.append(session.make(e.ModelChange, model="openai:other"))
    session.append(session.make(e.Note, content=m.content("By the way."), kind="hint"))
    session.append(m.Bash("ls", "a.py"))
    session.append(m.assistant("One."))
    session.append(m.assistant("Two, at once."))
    session.append(m.user("Go on."))
    session.append(m.assistant("Reading.", m.call("x" * 90, "Read", path="b.py")))
    session.append(m.result("x" * 90, "long id"))
    fold(session, 1, 10, m.user([m.text("A record of the first two turns.", "summary")]))
    fold(session, 1, 15, m.user([m.text("A record of three turns.", "summary")]))
    return session


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("make", [folded, twice_folded])
def test_what_is_read_again_is_the_session_and_nothing_is_there_twice(
    program: str, make: Callable[[], Session]
) -> None:
    """Numbers on the path (`#12`) are what a model recalls by: they name what they named."""
    session = make()
    data = continued(exported(session, program).data, program, "And now?")
    again = back(data, program)
    assert again.problems == ()
    assert [entry.id for entry in again.path[:-1]] == [entry.id for entry in session.path]
    assert shown(again, program) == [*shown(session, program), ("user", "Andnow?")]
    said, before = ([item.message for item in spoken_items(each)] for each in (again, session))
    assert [spoken_texts([message]) for message in said[:-1]] == [
        spoken_texts([message]) for message in before
    ]
    assert len(said) == sum(said_by(entry) is not None for entry in again.entries)
    while Projection(again).folds:
        Engine("refold").undo(again)
    assert shown(again, program)[:2] == [("user", "Question0"), ("assistant", "Reading0.")]


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_exported_session_is_folded_in_place_and_exported_again(program: str, tmp_path: Path) -> None:
    first = exported(twice_folded(), program)
    file = install_session(
        msgspec.structs.replace(first, data=continued(first.data, program, "And now?")), tmp_path
    )
    place = InPlace(file, folder=tmp_path)
    fold(place.session, 1, 17, m.user([m.text("Short.", "summary")]))
    place.write()
    again = refold.load(file)
    assert [entry.id for entry in again.path] == [entry.id for entry in place.session.path]
    assert shown(again, program) == shown(place.session, program)
    for other in PROGRAMS:
        third = back(exported(again, other).data, other)
        assert [entry.id for entry in third.path] == [entry.id for entry in again.path]
        assert shown(third, other) == shown(again, other)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("damage", ["record", "entry", "row", "order"])
def test_a_path_that_does_not_fit_the_file_is_passed_over(program: str, damage: str) -> None:
    session = folded()
    lines = records(exported(session, program).data)
    holder = next(line for line in lines if '"refold"' in json.dumps(line) and "anew" in json.dumps(line))
    carrying = holder.get("refold") or holder["payload"]["refold"]
    rows = carrying["entries"]
    at = next(number for number, row in enumerate(rows) if isinstance(row, list))
    match damage:
        case "record":
            rows[at][0] = "elsewhere"
        case "entry":
            rows[at][1] = rows[at + 1][1]
        case "row":
            rows[at] = [None]
        case _:
            rows.reverse()
    again = back(b"".join(json.dumps(line).encode() + b"\n" for line in lines), program)
    assert "do not fit this file" in str(again.problems)
    assert shown(again, program) == shown(session, program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_without_folds_has_no_record_of_a_compaction(program: str) -> None:
    found = exported(talk(), program)
    assert b"compact" not in found.data
    assert shown(back(found.data, program), program) == shown(talk(), program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_view_alone_leaves_out_what_stands_before_the_boundary(program: str) -> None:
    found = exported(folded(), program, view=True)
    assert b"Question 0" not in found.data
    assert shown(back(found.data, program), program) == shown(folded(), program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fold_that_only_masks_keeps_the_users_words_typed(program: str) -> None:
    session = talk()
    fold(session, 3, 3, m.result("c0", "[masked]"), kind="mask")
    again = back(exported(session, program).data, program)
    assert shown(again, program) == shown(session, program)
    first = next(item.message for item in Projection(again).items if isinstance(item.message, m.User))
    assert [part.origin for part in first.content if isinstance(part, m.Text)] == [None]


@pytest.mark.parametrize("program", PROGRAMS)
def test_ids_are_fresh_and_the_place_is_the_programs(program: str) -> None:
    one, other = exported(folded(), program), exported(folded(), program)
    assert one.id != other.id
    assert one.place.name.endswith(f"{one.id}.jsonl")
    assert one.command == f"cd /tmp && {writer(program).resume_command(one.id)}"
    if program == "claude-code":
        ids = [[record["uuid"] for record in records(each.data)] for each in (one, other)]
        assert not set(ids[0]) & set(ids[1])


def test_claude_code_is_told_nothing_of_the_old_size_of_the_window() -> None:
    found = records(exported(folded(), "claude-code").data)
    at = next(n for n, record in enumerate(found) if record.get("subtype") == "compact_boundary")
    used = [record["message"]["usage"]["input_tokens"] for record in found if record["type"] == "assistant"]
    copied = [r["message"]["usage"]["input_tokens"] for r in found[at:] if r["type"] == "assistant"]
    assert max(used) > 90_000
    assert set(copied) == {0}
    assert found[at + 1]["isCompactSummary"] is True
    assert found[at]["logicalParentUuid"] == found[at - 1]["uuid"]


def test_the_name_of_a_project_is_the_one_that_claude_code_gives_it() -> None:
    assert claude_write.project_folder("/home/me/my project_1.x") == "-home-me-my-project-1-x"
    long = claude_write.project_folder("/" + "a" * 300)
    assert len(long) > 200
    assert long.startswith("-" + "a" * 199 + "-")


def test_calls_whose_argument_is_a_text_stay_such_calls_in_codex() -> None:
    session = Session()
    session.append(m.user("Patch it."))
    session.append(m.Assistant((m.Call("c", "apply_patch", {}, "*** Begin Patch"),)))
    session.append(m.result("c", "Done."))
    items = [record["payload"] for record in records(exported(session, "codex").data)]
    kinds = [item.get("type") for item in items]
    assert "custom_tool_call" in kinds
    assert "custom_tool_call_output" in kinds
    assert (
        next(item for item in items if item.get("type") == "custom_tool_call")["input"] == "*** Begin Patch"
    )


def test_what_codex_says_at_the_beginning_of_a_session_is_left_to_it() -> None:
    session = Session()
    session.append(m.user("<environment_context>\n<cwd>/old</cwd>\n</environment_context>"))
    session.append(m.user("Hello."))
    assert b"/old" not in exported(session, "codex").data


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_empty_session_cannot_be_resumed(program: str) -> None:
    with pytest.raises(UsageError, match="no messages"):
        export(Session(), program)


# ── what is refused ─────────────────────────────────────────────────────────────────────────────

Lines = list[dict[str, Any]]


def _cut(data: bytes) -> bytes:
    return data[:-20]


def _without_a_line(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(lines[:3] + lines[4:])


def _twice(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join([*lines[:4], lines[3], *lines[4:]])


def _changed(change: Callable[[Lines], None]) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        found = records(data)
        change(found)
        return b"".join(json.dumps(record).encode() + b"\n" for record in found)

    return damage


def _first(found: Lines, kind: str) -> dict[str, Any]:
    return next(record for record in found if record["type"] == kind)


def _history(found: Lines) -> list[dict[str, Any]]:
    return _first(found, "compacted")["payload"]["replacement_history"]


DAMAGE: dict[str, dict[str, Callable[[bytes], bytes]]] = {
    "claude-code": {
        "cut": _cut,
        "a line is missing": _without_a_line,
        "a line is there twice": _twice,
        "no parent": _changed(lambda found: found[3].update(parentUuid=None)),
        "an id that is none": _changed(lambda found: found[3].update(uuid="x")),
        "another session": _changed(lambda found: found[3].update(sessionId="x")),
        "no time": _changed(lambda found: found[3].pop("timestamp")),
        "no content": _changed(lambda found: _first(found, "user")["message"].update(content=[])),
        "the wrong role": _changed(lambda found: _first(found, "user")["message"].update(role="assistant")),
        "a boundary in the air": _changed(
            lambda found: _first(found, "system").update(logicalParentUuid="x")
        ),
        "a boundary with a parent": _changed(
            lambda found: _first(found, "system").update(parentUuid=found[0]["uuid"])
        ),
    },
    "codex": {
        "cut": _cut,
        "no header": lambda data: data.split(b"\n", 1)[1],
        "another session": _changed(lambda found: found[0]["payload"].update(id="x")),
        "no payload": _changed(lambda found: found[3].pop("payload")),
        "a result without its call": _changed(
            lambda found: _history(found).remove(
                next(item for item in _history(found) if item["type"] == "function_call")
            )
        ),
        "an empty message": _changed(lambda found: _history(found)[0].update(content=[])),
        "an item without a type": _changed(lambda found: _history(found)[0].pop("type")),
        "ordinals that fall": _changed(lambda found: [r.update(ordinal=-n) for n, r in enumerate(found)]),
    },
}
CASES = [(program, name) for program, kinds in DAMAGE.items() for name in kinds]


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_we_write_is_sound(program: str) -> None:
    found = exported(folded(), program)
    assert unsound(found.data, program, found.id) == []


@pytest.mark.parametrize(("program", "name"), CASES)
def test_damage_is_seen(program: str, name: str) -> None:
    found = exported(folded(), program)
    assert unsound(DAMAGE[program][name](found.data), program, found.id) != []


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_export_that_says_something_else_is_never_written(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command fails and no file is there."""
    from refold.transcripts import resume as room

    monkeypatch.setenv(writer(program).home_variable, str(tmp_path / "own"))
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(folded(), "jsonl").data)
    plain = room.json_lines
    monkeypatch.setattr(room, "json_lines", lambda found: plain(found).replace(b"Answer 3.", b"Answer 4."))
    done = CliRunner().invoke(main, ["export", str(source), "--to", program, "--cwd", str(tmp_path)])
    assert done.exit_code == 1
    assert "would not resume" in done.output
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_that_says_something_else_is_refused(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from refold.transcripts import resume as room

    plain = room.json_lines
    monkeypatch.setattr(room, "json_lines", lambda found: plain(found).replace(b"Answer 3.", b"Answer 4."))
    with pytest.raises(FormatError, match="differs"):
        exported(folded(), program)


# ── where it lies ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_command_puts_it_into_the_programs_folder_and_says_how_to_go_on(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(writer(program).home_variable, str(tmp_path / "own"))
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(folded(), "jsonl").data)
    done = CliRunner().invoke(
        main, ["export", str(source), "--to", program, "--cwd", str(tmp_path), "--json"]
    )
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    file = Path(answer["output"])
    assert file.is_relative_to(tmp_path / "own")
    assert file == tmp_path / "own" / answer["place"]
    assert file.stat().st_mode & 0o077 == 0
    assert answer["command"].endswith(answer["id"])
    assert unsound(file.read_bytes(), program, answer["id"]) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_command_that_cannot_work_is_not_printed(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program looks only into its own folder, and the session's folder may be on another machine."""
    monkeypatch.setenv(writer(program).home_variable, str(tmp_path / "own"))
    away = folded()
    away.info = msgspec.structs.replace(away.info, cwd=str(tmp_path / "away"))
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(away, "jsonl").data)

    def printed(*more: str) -> str:
        done = CliRunner().invoke(main, ["export", str(source), "--to", program, *more])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert f"next: cd {tmp_path} && " in printed("--cwd", str(tmp_path))
    assert "next: " not in printed("--cwd", str(tmp_path), "-o", str(tmp_path / "elsewhere.jsonl"))
    assert f"there is no folder {tmp_path / 'away'}; choose another with --cwd DIR" in printed()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    found = exported(folded(), "codex")
    install_session(found, tmp_path)
    with pytest.raises(FileExistsError):
        install_session(found, tmp_path)


# ── in place ────────────────────────────────────────────────────────────────────────────────────


def installed(program: str, folder: Path) -> Path:
    """A session of the program, without folds."""
    return install_session(exported(talk(), program), folder)


@pytest.mark.parametrize("program", PROGRAMS)
def test_folding_in_place_appends_and_comes_back_as_it_was_made(program: str, tmp_path: Path) -> None:
    file = installed(program, tmp_path)
    file.chmod(0o640)
    before = file.read_bytes()
    place = InPlace(file, folder=tmp_path)
    fold(place.session, 0, 5, m.user([m.text("Short.", "summary")]))
    done = place.write()
    assert done is not None
    assert done.backup.read_bytes() == before
    assert file.read_bytes().startswith(before)
    assert file.stat().st_mode & 0o777 == 0o640
    assert done.command.endswith(writer(program).resume_command(done.id))
    again = refold.load(file)
    assert again.problems == ()
    assert [entry.id for entry in again.path] == [entry.id for entry in place.session.path]
    assert shown(again, program) == shown(place.session, program)
    # A second time: on top of the first, from the same entries.
    second = InPlace(file, folder=tmp_path)
    fold(second.session, 0, 10, m.user([m.text("Shorter.", "summary")]))
    written = second.write()
    assert written is not None
    assert written.backup != done.backup
    assert shown(refold.load(file), program) == shown(second.session, program)
    assert len(Projection(refold.load(file)).folds) == 2


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_that_was_changed_by_hand_shows_no_folds_that_do_not_fit_it(
    program: str, tmp_path: Path
) -> None:
    file = installed(program, tmp_path)
    place = InPlace(file, folder=tmp_path)
    fold(place.session, 0, 5, m.user([m.text("Short.", "summary")]))
    place.write()
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(
        b"".join([*lines[:2], *lines[3:]])
    )  # a record is gone: places are no longer what they were
    said = shown(refold.load(file), program)
    assert said[0] == ("user", "Short.")
    assert said == shown(place.session, program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_session_that_was_not_folded_is_left_as_it_was(program: str, tmp_path: Path) -> None:
    file = installed(program, tmp_path)
    before = file.read_bytes()
    assert InPlace(file, folder=tmp_path).write() is None
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*.bak"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_that_changed_in_the_meantime_is_left_as_it_is(program: str, tmp_path: Path) -> None:
    file = installed(program, tmp_path)
    place = InPlace(file, folder=tmp_path)
    fold(place.session, 0, 5, m.user("Short."))
    with file.open("ab") as more:
        more.write(b"{}\n")
    before = file.read_bytes()
    with pytest.raises(StorageError, match="changed"):
        place.write()
    assert file.read_bytes() == before


def test_only_folds_are_written_back(tmp_path: Path) -> None:
    place = InPlace(installed("codex", tmp_path), folder=tmp_path)
    place.session.append(m.user("More."))
    fold(place.session, 0, 5, m.user("Short."))
    with pytest.raises(UsageError, match="only folds"):
        place.write()


def test_other_formats_are_not_folded_in_place(tmp_path: Path) -> None:
    file = tmp_path / "messages.json"
    file.write_bytes(export(talk(), "openai").data)
    done = CliRunner().invoke(main, ["compact", str(file), "--in-place"])
    assert done.exit_code == 2
    assert "claude-code and codex" in done.output


# ── in use ──────────────────────────────────────────────────────────────────────────────────────

needs_processes = pytest.mark.skipif(
    not client_activity.PROCESSES.is_dir(), reason="this system shows no processes"
)


@needs_processes
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_that_another_process_has_open_is_in_use(program: str, tmp_path: Path) -> None:
    file = installed(program, tmp_path)
    waiting = "import sys; f = open(sys.argv[1], 'ab'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", waiting, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout and other.stdout.readline() == b"open\n"
        with pytest.raises(StorageError, match=f"process {other.pid} has the file open"):
            InPlace(file, folder=tmp_path)
        other.communicate(b"")
    InPlace(file, folder=tmp_path)


def test_a_session_that_claude_code_claims_is_in_use(tmp_path: Path) -> None:
    file = installed("claude-code", tmp_path)
    claims = tmp_path / "sessions"
    claims.mkdir()
    claim = claims / "1.json"
    (claims / "broken.json").write_text("{")
    claim.write_text(json.dumps({"pid": os.getpid(), "sessionId": "another"}))
    InPlace(file, folder=tmp_path)
    claim.write_text(json.dumps({"pid": os.getpid(), "sessionId": file.stem}))
    with pytest.raises(StorageError, match="Claude Code"):
        InPlace(file, folder=tmp_path)
    claim.write_text(json.dumps({"pid": 2**22 + 7, "sessionId": file.stem}))  # a claim that was left behind
    InPlace(file, folder=tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="locks of this kind are POSIX")
def test_a_session_that_codex_has_locked_is_in_use(tmp_path: Path) -> None:
    import fcntl

    file = installed("codex", tmp_path)
    locks = tmp_path / "thread-writer-locks"
    locks.mkdir()
    id = json.loads(file.read_bytes().splitlines()[0])["payload"]["id"]
    with (locks / f"{id}.lock").open("wb") as lock:
        InPlace(file, folder=tmp_path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="Codex has this session open"):
            InPlace(file, folder=tmp_path)


def test_where_no_processes_are_shown_a_file_that_just_changed_counts_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = installed("codex", tmp_path)
    monkeypatch.setattr(client_activity, "PROCESSES", tmp_path / "nowhere")
    with pytest.raises(StorageError, match="last 60 seconds"):
        InPlace(file, folder=tmp_path)
    os.utime(file, (1, 1))
    InPlace(file, folder=tmp_path)


def test_homes_are_those_of_the_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in PROGRAMS:
        chosen = writer(program)
        monkeypatch.delenv(chosen.home_variable, raising=False)
        assert home(program) == Path.home() / chosen.home_folder
        monkeypatch.setenv(chosen.home_variable, str(tmp_path))
        assert home(program) == tmp_path


def test_ids_of_codex_are_sorted_by_time() -> None:
    assert codex_write.new_id()[14] == "7"
    assert resumable(talk(), "codex", cwd="/", clock=lambda: 0.0).place.parts[1] in ("1969", "1970")


# ── reading folded messages again ───────────────────────────────────────────────────────────────


def folded_beside_the_tool() -> Session:
    """A session that was folded where the model had `recall_conversation`."""
    session = talk(12)
    engine = Engine(presets.get("refold", budget=600))
    run(engine.prepare(session, tools=[tool.for_openai()]))
    assert any("recall_conversation with" in item.message.text for item in Projection(session).items)
    return session


@pytest.mark.parametrize("program", [*PROGRAMS, "opencode", "markdown", "openai"])
def test_an_export_names_no_tool_that_its_program_lacks(program: str) -> None:
    data = export(folded_beside_the_tool(), program, view=True).data.decode()
    assert "Go on from here." in data
    assert "recall" not in data


@pytest.mark.parametrize(
    ("program", "name"), [("claude-code", "mcp__refold__recall"), ("codex", "recall (mcp__refold)")]
)
def test_with_mcp_the_record_names_the_tool_and_the_session(program: str, name: str) -> None:
    made = exported(folded_beside_the_tool(), program, server=("/bin/refold", "mcp"))
    [end] = {
        line
        for item in Projection(back(made.data, program)).items
        for line in item.message.text.splitlines()
        if line.startswith("[Go on from here.")
    }
    assert end == (
        f'[Go on from here. Full messages: {name} with keys=["#12"] and session="{program}:{made.id}", '
        'or query="…".]'
    )


def test_with_mcp_the_command_sets_the_server_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: `pip install refold[mcp]`")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(folded_beside_the_tool(), "jsonl").data)

    def command(*more: str) -> list[str]:
        done = CliRunner().invoke(main, ["export", str(source), *more, "--json"])
        assert done.exit_code == 0, done.output
        return shlex.split(json.loads(done.output)["command"])

    [_, _, _, *claude] = command("--to", "claude-code", "--with-mcp")
    assert claude[:2] == ["claude", "--resume"]
    [server] = json.loads(claude[claude.index("--mcp-config") + 1])["mcpServers"].items()
    assert server[0] == "refold"
    assert server[1]["args"] == ["mcp"]
    assert Path(server[1]["command"]).is_absolute()
    [_, _, _, *codex] = command("--to", "codex", "--with-mcp")
    assert codex[:2] == ["codex", "resume"]
    settings = tomllib.loads("\n".join(codex[at + 1] for at, word in enumerate(codex) if word == "-c"))
    assert settings["mcp_servers"]["refold"] == {**server[1], "required": True}
    assert not {"--mcp-config", "-c"} & {*command("--to", "claude-code"), *command("--to", "codex")}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--to", "markdown"), "--with-mcp works for claude-code and codex, not for markdown"),
        (("--to", "codex", "--view"), "leave out --view"),
    ],
)
def test_with_mcp_is_refused_where_it_cannot_help(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    source = tmp_path / "s.jsonl"
    source.write_bytes(export(talk(), "jsonl").data)
    done = CliRunner().invoke(main, ["export", str(source), *more, "--with-mcp"])
    assert done.exit_code != 0
    assert said in done.output


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_mcp_recall_finds_what_the_record_names(program: str, tmp_path: Path) -> None:
    """The numbers of the record are keys of the session that it names, once that is on its shelf."""
    session = folded_beside_the_tool()
    made = exported(session, program, server=("refold", "mcp"))
    file = tmp_path / "home" / made.place
    file.parent.mkdir(parents=True)
    file.write_bytes(made.data)
    mirror = SyncedSessions(program, tmp_path / "home", tmp_path / "mirror.db")
    mirror.refresh()
    library = Collections([Collection(program, mirror.store, mirror)], MemoryFile(tmp_path / "memory.md"))
    for number in (2, 13, 37):
        asked = {"session": f"{program}:{made.id}", "keys": [f"#{number}"]}
        there = said_by(session.path[number])
        assert there is not None
        assert there.text in answer_tool_call(library, "recall", asked), number
