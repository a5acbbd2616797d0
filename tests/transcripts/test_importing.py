"""Importing folders: once each, only what is new, and never a half session that stays half."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from refold import messages as m
from refold import transcripts as t
from refold.cli import main
from refold.entries import AnyEntry, Edit, Fold
from refold.protocols import SessionInfo, Store
from refold.registry.sessions import named_session, stored
from refold.session import Projection, Session
from refold.session.forget import forget
from refold.stores.memory import MemoryStore
from refold.transcripts.export import export
from refold.transcripts.importing import Importer, ImportJob, ImportOutcome, find_transcripts, read_for_import
from tests.data import DATA, all_transcripts, shared


def take(store: Store, *paths: Path) -> list[ImportOutcome]:
    importer = Importer(store)
    return [
        outcome
        for path, named in find_transcripts(paths)
        for outcome in importer.put(path, read_for_import(ImportJob(path, named)))
    ]


def chat(*texts: str) -> str:
    return json.dumps({"id": "talk", "messages": [{"role": "user", "content": text} for text in texts]})


def states(outcomes: list[ImportOutcome]) -> dict[str, int]:
    return dict(Counter(outcome.state for outcome in outcomes))


@pytest.mark.data
def test_every_transcript_is_imported_once() -> None:
    shared("pi")
    store = MemoryStore()
    files = all_transcripts()
    first = take(store, *files)
    assert states(first) == {"imported": len(first)}
    assert len(first) > len(files)  # some files hold several conversations
    assert len({outcome.id for outcome in first}) == len(first)
    assert states(take(store, *files)) == {"unchanged": len(first)}
    for outcome in first:
        assert outcome.id is not None
        Session.of(store.load(outcome.id))


@pytest.mark.data
def test_an_imported_session_is_the_transcript() -> None:
    store = MemoryStore()
    [outcome] = take(store, shared("pi/large-session.jsonl"))
    assert outcome.id is not None
    assert store.load(outcome.id).entries == t.read(shared("pi/large-session.jsonl")).entries


def test_a_transcript_that_grew_gets_the_rest(tmp_path: Path) -> None:
    file, store = tmp_path / "a.json", MemoryStore()
    file.write_text(chat("one", "two"))
    assert take(store, file)[0].added == 3  # the facts of the request are an entry, too
    file.write_text(chat("one", "two", "three"))
    [outcome] = take(store, file)
    assert (outcome.state, outcome.added, outcome.id) == ("grown", 1, "talk")
    assert [one.message.text for one in Session.of(store.load("talk")).path] == ["one", "two", "three"]  # type: ignore[union-attr]  messages


def test_a_transcript_that_differs_is_a_session_of_its_own(tmp_path: Path) -> None:
    file, store = tmp_path / "a.json", MemoryStore()
    file.write_text(chat("one", "two"))
    take(store, file)
    file.write_text(chat("one", "other"))
    [outcome] = take(store, file)
    assert outcome.state == "imported"
    assert outcome.id is not None
    assert outcome.id.startswith("talk~")
    assert states(take(store, file)) == {"unchanged": 1}
    assert len(list(store.sessions())) == 2


def test_what_was_forgotten_does_not_come_back_with_the_next_import(tmp_path: Path) -> None:
    file, store = tmp_path / "a.json", MemoryStore()
    file.write_text(chat("one", "the password is hunter2", "three"))
    take(store, file)
    session = stored(store, "talk")
    forget(session, [session.path[1].id])
    assert states(take(store, file)) == {"unchanged": 1}
    file.write_text(chat("one", "the password is hunter2", "three", "four"))
    [outcome] = take(store, file)
    assert (outcome.state, outcome.added, outcome.id) == ("grown", 1, "talk")
    assert "hunter2" not in str([store.load(info.id) for info in store.sessions()])
    file.write_text(chat("one", "the password is hunter2", "3"))
    assert states(take(store, file)) == {"imported": 1}  # another conversation


def test_folds_that_forgetting_took_apart_do_not_come_back(tmp_path: Path) -> None:
    file, store = tmp_path / "work.jsonl", MemoryStore()
    session = folded_session(store)
    file.write_bytes(export(session, "jsonl").data)
    assert states(take(store, file)) == {"unchanged": 1}
    forget(session, [session.path[2].id])
    assert states(take(store, file)) == {"unchanged": 1}
    assert "RECORD" not in str([store.load(info.id) for info in store.sessions()])


def folded_session(store: Store) -> Session:
    """A session in the store, with a fold."""
    store.create(SessionInfo(id="work"))
    session = Session(store=store, id="work")
    session.append(m.user("Repair the loader."))
    session.append(m.assistant("Look.", m.call("c1", "bash", command="ls")))
    session.append(m.result("c1", "a.py"))
    session.append(m.assistant("Done."))
    first, _, last, end = (entry.id for entry in session.path)
    edit = Edit(first, last, (m.user("RECORD"),), "summary")
    session.append(Fold(id="f", parent=end, edits=(edit,), summary="RECORD", preset="refold"))
    return session


def said_since(data: bytes, program: str) -> bytes:
    """The file after the program went on with it."""
    last = json.loads(data.splitlines()[-1])
    if program == "codex":
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]}
        more = {"timestamp": last["timestamp"], "type": "response_item", "payload": item}
    else:
        id = "11111111-2222-4333-8444-555555555555"
        said = {"message": {"role": "user", "content": "And now?"}, "uuid": id, "parentUuid": last["uuid"]}
        more = {**last, "type": "user", **said}
    return data + json.dumps(more).encode() + b"\n"


@pytest.mark.parametrize("program", ["claude-code", "codex"])
def test_a_session_that_was_exported_is_recognised_when_it_comes_back(tmp_path: Path, program: str) -> None:
    store = MemoryStore()
    session = folded_session(store)
    written = export(session, program, cwd="/").data
    file = tmp_path / "new.jsonl"
    file.write_bytes(written)
    assert [(found.state, found.id) for found in take(store, file)] == [("unchanged", "work")]
    file.write_bytes(said_since(written, program))
    assert [(found.state, found.id) for found in take(store, file)] == [("grown", "work")]
    assert [(found.state, found.id) for found in take(store, file)] == [("unchanged", "work")]
    again = Session.of(store.load("work"))
    assert [item.message.text for item in Projection(again).items] == ["RECORD", "Done.", "And now?"]
    assert len(list(store.sessions())) == 1
    elsewhere = MemoryStore()
    assert [found.state for found in take(elsewhere, file)] == ["imported"]


def test_a_session_that_only_says_where_it_comes_from_is_one_of_its_own(tmp_path: Path) -> None:
    store = MemoryStore()
    folded_session(store)
    other = folded_session(MemoryStore())  # of the same name, with other entries
    (tmp_path / "new.jsonl").write_bytes(export(other, "claude-code", cwd="/").data)
    [outcome] = take(store, tmp_path / "new.jsonl")
    assert outcome.state == "imported" and outcome.id != "work"


def test_what_was_added_here_is_left_alone(tmp_path: Path) -> None:
    file, store = tmp_path / "a.json", MemoryStore()
    file.write_text(chat("one", "two"))
    take(store, file)
    session = Session.of(store.load("talk"), store=store)
    session.append(m.user("here"))
    assert states(take(store, file)) == {"unchanged": 1}
    assert len(Session.of(store.load("talk")).path) == 3


class Broken(MemoryStore):
    """Fails after the first batch of every session."""

    def append(self, session: str, entries: Sequence[AnyEntry], *, after: str | None) -> None:
        if after is not None:
            raise KeyboardInterrupt
        super().append(session, entries, after=after)


def test_an_import_that_was_broken_off_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refold.transcripts.importing._BATCH", 3)
    file, store = tmp_path / "a.json", Broken()
    file.write_text(chat(*(str(i) for i in range(10))))
    with pytest.raises(KeyboardInterrupt):
        take(store, file)
    assert len(store.load("talk").entries) == 3
    store.__class__ = MemoryStore
    [outcome] = take(store, file)
    assert (outcome.state, outcome.added) == ("grown", 8)
    assert len(Session.of(store.load("talk")).path) == 10


def test_what_is_no_transcript_is_skipped_in_a_folder_and_fails_by_name(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "talk.json").write_text(chat("one"))
    assert states(take(MemoryStore(), tmp_path)) == {"skipped": 1, "imported": 1}
    assert states(take(MemoryStore(), tmp_path / "package.json")) == {"failed": 1}
    assert states(take(MemoryStore(), tmp_path / "none.json")) == {"failed": 1}


# ── commands ────────────────────────────────────────────────────────────────────────────────────


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def parsed(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_import_command(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text(chat("one", "two"))
    store = f"sqlite:{tmp_path / 's.db'}"
    said = parsed(run("import", str(folder), "--to", store, "--json"))
    assert (said["imported"], said["failed"], said["sessions"][0]["id"]) == (1, 0, "talk")
    again = run("import", str(folder), "--to", store)
    assert again.exit_code == 0
    assert "1 unchanged" in again.output
    assert Projection(named_session(f"{store}#talk")).items[0].message == m.user("one")


def test_import_command_says_what_failed(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("\x1b[31mnothing")
    result = run("import", str(tmp_path / "x.json"), "--to", f"jsonl:{tmp_path / 'out'}/")
    assert result.exit_code == 1
    assert "not a transcript in a format" in result.output.replace("\n", " ")
    assert "\x1b" not in result.output


@pytest.mark.parametrize("target", ["openai", "openai-responses", "anthropic", "pi", "jsonl"])
def test_export_command_writes_what_can_be_read_again(tmp_path: Path, target: str) -> None:
    source, out = tmp_path / "a.json", tmp_path / "out"
    source.write_text(chat("one", "two"))
    result = run("export", str(source), "--to", target, "-o", str(out))
    assert result.exit_code == 0, result.output
    session = named_session(str(out))
    assert " ".join(item.message.text for item in Projection(session).items).split() == ["one", "two"]


def test_export_command_prints_and_lists_losses(tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    source.write_text(chat("one"))
    result = run("export", str(source), "--to", "markdown")
    assert result.stdout.startswith("# talk")
    assert "ids and times" in result.stderr
    said = parsed(run("export", str(source), "--to", "openai", "--json"))
    assert json.loads(said["data"])["messages"] == [{"role": "user", "content": "one"}]
    assert said["lost"]


def test_export_command_never_touches_its_source(tmp_path: Path) -> None:
    source = tmp_path / "a.json"
    source.write_text(chat("one"))
    before = source.read_bytes()
    assert run("export", str(source), "--to", "pi", "-o", str(source)).exit_code == 2
    assert run("export", str(source), "--to", "word").exit_code == 2
    assert run("export", str(tmp_path / "none"), "--to", "pi").exit_code == 1
    assert source.read_bytes() == before


@pytest.mark.data
@pytest.mark.slow
def test_a_whole_folder_into_sqlite(tmp_path: Path) -> None:
    shared("pi")
    copy = tmp_path / "data"
    shutil.copytree(DATA / "claude-code", copy)
    store = f"sqlite:{tmp_path / 's.db'}"
    assert parsed(run("import", str(copy), "--to", store, "--json"))["imported"] == 3
    assert parsed(run("import", str(copy), "--to", store, "--json"))["unchanged"] == 3
