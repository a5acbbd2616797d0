"""DESIGN 1: `forget` takes content out of the log and its files for good, wherever it was copied to."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import refold
from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.cli import main
from refold.cli.chat_history import create_history
from refold.compaction.plan import Plan
from refold.compaction.plan_context import PlanRequest
from refold.errors import Conflict, DoesNotFit, EntryNotFound, FoldError, StalePlan, StorageError, UsageError
from refold.format import encode
from refold.loop import run
from refold.models.scripted import Scripted
from refold.protocols import SessionInfo
from refold.recall import recall
from refold.registry.sessions import stored
from refold.session.forget import FORGOTTEN_MARK, forget
from refold.stores import open_store
from refold.stores.jsonl import JsonlStore
from refold.testing.validators import validate_view

SECRET = "ghp_" + "q1W2e3R4t5Y6u7I8o9" * 2
PHRASE = "the merger with Umbrella is on Friday the thirteenth"


@pytest.fixture(params=["jsonl", "sqlite", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {"jsonl": f"jsonl:{tmp_path / 's.jsonl'}", "sqlite": f"sqlite:{tmp_path / 's.db'}", "memory": "memory:"}[request.param]  # fmt: skip


def filled(place: str) -> tuple[Session, dict[str, str]]:
    """A session that holds a secret in a result, and copies of it in a fold, a line, a note and a branch summary."""
    session = refold.open(place)
    ids: dict[str, str] = {}
    ids["first"] = session.append(m.user("Read the settings.")).id
    session.append(m.Assistant((m.thinking("I will look", "sig"), m.call("c1", "Read", path=".env"))))
    ids["result"] = session.append(m.result("c1", f"TOKEN={SECRET}\n{PHRASE}\n", name="Read")).id
    ids["reply"] = session.append(m.assistant("Done, there is a token.")).id
    session.append(m.user("Next."))
    last = session.append(m.assistant("Yes.")).id
    fold = session.make(
        e.Fold,
        edits=(
            e.Edit(ids["first"], ids["result"], (m.user(f"The token is {SECRET[:20]} and so on."),)),
            e.Edit(last, last, (m.assistant("Y"),), "clip"),
        ),
        preset="refold", strategy="clip", tokens_before=9_000, tokens_after=800, summary=f"token {SECRET}", details={"lines": [SECRET]},
        ledger=(e.Lost(ids["result"], "tool", 9, "abcd", "k"),),
    )  # fmt: skip
    ids["fold"] = session.append(fold).id
    ids["line"] = session.append(
        session.make(e.TurnLine, target=ids["first"], turn=1, text="read Umbrella plans")
    ).id
    ids["note"] = session.append(
        session.make(e.Note, content=m.content(f"Pinned:\n{PHRASE}!"), kind="pinned")
    ).id
    ids["state"] = session.append(session.make(e.State, name="env", value={"deep": [f"x{SECRET}"]})).id
    ids["repeats"] = session.append(m.assistant(f"By the way: {PHRASE}")).id
    leaf = session.leaf
    summary = session.make(
        e.BranchSummary, parent=ids["first"], summary="It was about Umbrella.", origin=leaf
    )
    ids["branch"] = session.append(summary).id
    session.append(session.make(e.Leaf, target=leaf))
    return session, ids


def files(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_no_byte_of_it_stays(place: str, tmp_path: Path) -> None:
    session, ids = filled(place)
    before = files(tmp_path)
    found = forget(session, [e.key(ids["result"])])
    assert found.entries == (ids["result"],)
    assert found.folds == (ids["fold"],)
    assert set(found.quoting) == {ids["line"], ids["note"], ids["state"], ids["branch"]}
    assert found.also == (ids["repeats"],)
    forget(session, [ids["repeats"]])
    if not place.startswith("memory"):
        assert SECRET.encode() in before
        for telling in (SECRET, SECRET[:20], PHRASE, "Umbrella", "umbrella", "thirteenth"):
            assert telling.encode() not in files(tmp_path), telling
    assert not any(
        SECRET[:20].encode() in encode(entry) or b"Umbrella" in encode(entry) for entry in session.entries
    )


@pytest.mark.parametrize("hidden", [True, False])
def test_a_command_of_the_user_is_forgotten_and_stays_one(place: str, hidden: bool, tmp_path: Path) -> None:
    session = refold.open(place)
    ran = session.append(m.Bash(f"export TOKEN={SECRET}", PHRASE, exit_code=3, hidden=hidden))
    session.append(m.user("Go on."))
    forget(session, [ran.id])
    left = session[ran.id]
    assert isinstance(left, e.MessageEntry) and left.message == m.Bash(FORGOTTEN_MARK, hidden=hidden)
    assert SECRET.encode() not in files(tmp_path) and PHRASE.encode() not in files(tmp_path)


def test_the_hole_keeps_its_place(place: str) -> None:
    session, ids = filled(place)
    before = [(entry.id, getattr(entry, "parent", None)) for entry in session.entries]
    old = session[ids["result"]]
    forget(session, [ids["result"]])
    after = [(entry.id, getattr(entry, "parent", None)) for entry in session.entries]
    assert after[: len(before)] == before
    assert [type(entry) for entry in session.entries[len(before) :]] == [e.State, e.Leaf]
    new = session[ids["result"]]
    assert isinstance(old, e.MessageEntry) and isinstance(new, e.MessageEntry)
    assert new.message == m.result("c1", FORGOTTEN_MARK, name="Read")
    assert (new.time, new.usage, new.model) == (old.time, old.usage, old.model)
    assert session.store is not None
    assert list(session.store.load(session.id).entries) == list(session.entries)
    session.append(m.user("And now?"))
    assert list(session.store.load(session.id).entries) == list(session.entries)


def test_what_a_fold_had_replaced_shows_again_and_undo_brings_nothing_back(place: str) -> None:
    session, ids = filled(place)
    forget(session, [ids["result"]])
    engine = Engine(presets.get("refold"))
    view = engine.view(session)
    assert "Read the settings." in view.text
    assert SECRET[:20] not in view.text and "Umbrella" not in view.text.replace(PHRASE, "")
    assert validate_view(view, partial=True) == []
    shown = [item.entries for item in view.items]
    assert shown == [(x.id,) for x in session.path if isinstance(x, (e.MessageEntry, e.Note))], "not in part"
    with pytest.raises(FoldError, match="undone already"):
        engine.undo(session, ids["fold"])


def long_session() -> Session:
    session = refold.open("memory:")
    for n in range(24):
        session.append(m.user(f"Please take step {n}."))
        session.append(
            m.assistant(f"Step {n}.", m.call(f"c{n}", "Write", path=f"f{n}.py", content=f"x = {n}\n" * 150))
        )
        session.append(m.result(f"c{n}", f"wrote {n}, and the tests say:\n" + f"passed {n}\n" * 60))
        session.append(m.assistant(f"done {n}"))
    return session  # fmt: skip


def untold(engine: Engine, session: Session) -> set[str]:
    """The messages of the path that no item of the view stands for, and no record in the view tells of."""
    path = session.path
    place = {entry.id: at for at, entry in enumerate(path)}
    items = engine.view(session).items
    told = {id for item in items for id in item.entries}
    for fold in (entry for entry in path if isinstance(entry, e.Fold)):
        if any(item.fold == fold.id and item.message in fold.edits[0].put for item in items):
            for edit in (edit for edit in fold.edits if edit.kind == e.LEFT):
                told |= {entry.id for entry in path[place[edit.first] : place[edit.last] + 1]}
    return {entry.id for entry in path if isinstance(entry, e.MessageEntry)} - told


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", presets.NAMES)
def test_no_other_message_is_lost_with_a_record(name: str) -> None:
    session = long_session()
    engine = Engine(presets.get(name, budget=3000), model=Scripted(then=lambda _: "## Goal\nAll well."))
    for more in ("", "And one thing more. " * 300):
        if more:
            session.append(m.user(more))
        plan = engine.plan(session, force=True)
        if isinstance(plan, Plan):
            run(engine.apply(session, plan))
    before = untold(engine, session)
    entries = list(session.entries)
    for target in [entry.id for entry in session.path if isinstance(entry, e.MessageEntry)][::3]:
        copy = Session(entries=entries)
        forget(copy, [target])
        assert untold(engine, copy) <= before


def test_messages_that_left_for_a_record_return_with_it_in_stores_of_0_1(tmp_path: Path) -> None:
    """There, `forget` took the record and left the edits of messages that only it told of."""
    session = refold.open(f"jsonl:{tmp_path / 's.jsonl'}")
    ids = [
        session.append(m.user(f"asked {n}") if n % 2 == 0 else m.assistant(f"said {n}")).id for n in range(6)
    ]
    fold = session.make(e.Fold, edits=(e.Edit(ids[3], ids[4], (), e.LEFT),), preset="refold")
    session.append(fold)
    again = refold.open(f"jsonl:{tmp_path / 's.jsonl'}")
    engine = Engine(presets.get("refold"))
    assert [item.entries[0] for item in engine.view(again).items] == ids
    with pytest.raises(FoldError, match="no fold to undo"):
        engine.undo(again)


def test_folds_made_with_it_on_their_path_are_undone_and_earlier_ones_stay() -> None:
    """A record also tells of messages that stay, and of what other records told."""
    session, ids, folds = Session(), list[str](), list[str]()

    def say(first: int, last: int) -> None:
        for n in range(first, last):
            said = m.user(f"asked {n}") if n % 2 == 0 else m.assistant(f"said {n}")
            ids.append(session.append(said).id)

    def fold(*edits: e.Edit) -> None:
        folds.append(session.append(session.make(e.Fold, edits=edits, preset="refold", summary="s")).id)

    say(0, 4)
    fold(e.Edit(ids[0], ids[1], (m.user("in short"),)))
    say(4, 8)
    fold(e.Edit(ids[0], ids[3], (m.user("in short, 5 left"),)), e.Edit(ids[5], ids[5], (), e.LEFT))
    fold(e.Edit(ids[0], ids[4], (m.user("what 5 told, in other words"),)))
    assert forget(session, [ids[5]]).folds == (folds[1], folds[2])
    view = Engine(presets.get("refold")).view(session)
    assert [item.entries for item in view.items] == [tuple(ids[:2]), *((id,) for id in ids[2:])]


def telling(n: int) -> list[m.Message]:
    """A turn whose every message has words that occur nowhere else, in lines that are too long to be quoted whole."""
    rest = "and so on, for everything that is done later, because a good deal more depends on it than can be seen now"
    return [
        m.user(f"Please repair quagu{n} first: always keep the rule of quagv{n} in mind {rest} quagw{n}"),
        m.assistant(f"I chose glipu{n} over glipv{n}, {rest}.", m.call(f"c{n}", "Bash", command=f"pytest blor{n}.py -k {rest!r}")),
        m.result(f"c{n}", f"FAILED blor{n}.py::vrapu{n} - AssertionError: vrapv{n} {rest}\n" + f"passed {n}\n" * 120, name="Bash"),
        m.assistant(f"That did it: flum{n}, {rest}."),
    ]  # fmt: skip


@pytest.mark.parametrize("preset", ["refold", "layered", "rounds"])
def test_no_word_of_it_stays_in_what_was_made_of_it(preset: str) -> None:
    """Whichever message it is: one that left the view, one that stayed, one that is told in a line."""
    session = refold.open("memory:")
    for n in range(24):
        for message in telling(n):
            session.append(message)
    with contextlib.suppress(DoesNotFit):
        run(Engine(presets.get(preset, window=6_000)).prepare(session))
    made = [x for x in session.entries if not isinstance(x, e.MessageEntry)]
    quoted, one = 0, re.compile(rb"(?:quag|glip|blor|vrap|flum)[u-w]?\d+")
    for entry in session.entries:
        words = set(one.findall(encode(entry))) if isinstance(entry, e.MessageEntry) else set[bytes]()
        if not any(words & set(one.findall(encode(x))) for x in made):
            continue
        quoted += 1
        copy = Session(session.entries)
        forget(copy, [entry.id])
        left = [x for x in copy.entries if not isinstance(x, e.MessageEntry)]
        assert not any(words & set(one.findall(encode(x))) for x in left), entry
    assert quoted > 20


def test_a_title_made_of_it_goes_with_it(place: str, tmp_path: Path) -> None:
    """The gateway and importers call a session by the beginning of its first message."""
    title = f"{PHRASE[:30]}… · aider"
    for said in ("at creation", "later"):
        info = SessionInfo(
            id=f"s-{said[:2]}", created=1.0, name=title if said == "at creation" else "aider: work"
        )
        store = open_store(place.replace("s.jsonl", f"{said}.jsonl")).store
        store.create(info)
        session = stored(store, info.id)
        first = session.append(m.user(f"Listen: {PHRASE}, and nobody may hear of it.")).id
        other = session.append(m.assistant("I say nothing.")).id
        if said == "later":
            session.append(session.make(e.Info, name=title, cwd="/work"))
        forget(session, [other])
        assert session.name == title, "it tells nothing of that"
        assert [x.name for x in store.sessions() if x.id == info.id] == [title]
        forget(session, [first])
        for known in (session, stored(store, info.id)):
            assert known.name is None, known.name
        assert [x.name for x in store.sessions() if x.id == info.id] == [None]
        assert b"Umbrella" not in files(tmp_path)
        session.append(m.user("And now?"))
        store.close()


def test_a_call_that_is_forgotten_keeps_its_result(place: str) -> None:
    session = refold.open(place)
    session.append(m.user("Go."))
    call = session.append(m.assistant(f"with {SECRET}", m.call("c1", "Bash", command=f"login {SECRET}"))).id
    session.append(m.result("c1", "ok"))
    forget(session, [call])
    [made] = session.path[1].message.calls  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    assert (made.id, made.name, made.arguments) == ("c1", "Bash", {})
    assert validate_view(Engine(presets.get("refold")).view(session)) == []


def test_recall_and_search_find_it_no_more(place: str) -> None:
    session, ids = filled(place)
    assert recall(session, "Umbrella")
    forget(session, [ids["result"], ids["repeats"]])
    assert recall(session, "Umbrella merger thirteenth") == []
    search = getattr(session.store, "search", None)
    if search is not None:
        assert search(["umbrella"]) == []


@pytest.mark.sample(1)
def test_folding_goes_on_after_it(place: str) -> None:
    session = refold.open(place)
    for n in range(30):
        session.append(m.user(f"step {n}"))
        session.append(m.assistant("", m.call(f"c{n}", "Bash", command="ls")))
        session.append(m.result(f"c{n}", f"TOKEN={SECRET}\n" * 20 if n == 3 else f"file {n}\n" * 80))
        session.append(m.assistant(f"done {n}"))
    for name in presets.NAMES:
        engine = Engine(presets.get(name, budget=1500), model=Scripted(then=lambda _: "## Goal\nAll well."))
        plan = engine.plan(session, force=True)
        if plan:
            run(engine.apply(session, plan))
        target = next(x.id for x in session.path if "TOKEN" in repr(x) or FORGOTTEN_MARK in repr(x))
        forget(session, [target])
        again = engine.plan(session, force=True)
        if again:
            run(engine.apply(session, again))
        assert SECRET not in engine.view(session).text


def test_a_dry_run_changes_nothing(place: str, tmp_path: Path) -> None:
    session, ids = filled(place)
    entries, before = list(session.entries), files(tmp_path)
    assert forget(session, [ids["result"]], dry_run=True).folds == (ids["fold"],)
    assert list(session.entries) == entries
    assert files(tmp_path) == before


def test_it_is_refused_when_somebody_went_on(place: str) -> None:
    session, ids = filled(place)
    assert session.store is not None
    other = Session.of(session.store.load(session.id), store=session.store)
    other.append(m.user("I was faster."))
    with pytest.raises(Conflict):
        forget(session, [ids["result"]])
    assert SECRET in repr(session[ids["result"]])


HOLDER = """
import sys, refold
session = refold.open(sys.argv[1], id=sys.argv[2])
print("open", flush=True)
sys.stdin.readline()
"""


def test_it_is_refused_while_another_writer_has_the_database_open(tmp_path: Path) -> None:
    place = f"sqlite:{tmp_path / 's.db'}"
    session, ids = filled(place)
    command = [sys.executable, "-c", HOLDER, place, session.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StorageError, match="open elsewhere"):
            forget(session, [ids["result"]])
        assert SECRET in repr(session[ids["result"]])
        session.append(m.user("still works"))
        holder.stdin.write("\n")
        holder.stdin.close()
    forget(session, [ids["result"]])
    session.append(m.user("and after it"))


def test_what_an_upgrade_kept_goes_too(tmp_path: Path) -> None:
    session, ids = filled(f"jsonl:{tmp_path / 's.jsonl'}")
    (tmp_path / "s.jsonl.v0").write_text(SECRET)
    forget(session, [ids["result"]])
    assert SECRET.encode() not in files(tmp_path)


def test_errors_say_what_to_do(place: str) -> None:
    session, _ = filled(place)
    with pytest.raises(EntryNotFound):
        forget(session, ["nonsense"])
    with pytest.raises(UsageError, match="name ids"):
        forget(session, [])
    leaf = next(x for x in session.entries if isinstance(x, e.Leaf))
    with pytest.raises(UsageError, match="no content to forget"):
        forget(session, [leaf.id])


# ── the command ─────────────────────────────────────────────────────────────────────────────────


def call(*arguments: str, said: str = "") -> Any:
    return CliRunner().invoke(main, ["forget", *arguments], input=said)


def test_the_command_asks_first(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    _, ids = filled(f"jsonl:{path}")
    done = call(str(path), ids["result"], said="n\n")
    assert done.exit_code == 1
    assert SECRET in path.read_text()
    assert SECRET not in done.output, "not even while asking"
    assert "1 other message contains" in done.output
    dry = call(str(path), ids["result"], "--dry-run")
    told = f"1 fold that contains it will be undone:\n  {ids['fold']}  refold, strategy clip: 9,000 → 800 tokens\n"
    assert told in dry.output and told in done.output and dry.exit_code == 0
    assert SECRET in path.read_text()
    assert call(str(path), ids["result"], said="y\n").exit_code == 0
    assert SECRET not in path.read_text()


def test_the_command_for_machines(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    _, ids = filled(f"jsonl:{path}")
    assert call(str(path), ids["result"], "--json").exit_code == 2
    dry = json.loads(call(str(path), "#2", "--json", "--dry-run").output)
    assert dry == {"forgotten": False, "entries": [ids["result"]], "folds": [ids["fold"]], "also": [ids["repeats"]],
                   "quoting": dry["quoting"], "prompts": 0, "remains": []}  # fmt: skip
    assert json.loads(call(str(path), e.key(ids["result"]), "--json", "--yes").output)["forgotten"] is True
    assert SECRET not in path.read_text()
    assert call(str(path), "nonsense", "--yes").exit_code == 1


KEPT = ["and the tests?", "first line\n\n# a heading\n+ an item", "the merger", "ok"]
GONE = [
    PHRASE,
    f"please note:\n  {PHRASE}\r\nthanks",
    f"use {SECRET} for it",
    "hunter2",
    f"# {PHRASE} \n+{PHRASE}",
]


@pytest.mark.parametrize("asked", [["--yes"], ["--yes", "--json"]])
def test_prompts_that_repeat_it_leave_the_history_of_the_chat(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prompt_toolkit.history import FileHistory

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    path = create_history()
    for kept, gone in zip([*KEPT, ""], GONE, strict=True):
        FileHistory(str(path)).store_string(kept)
        FileHistory(str(path)).store_string(gone)
    session = refold.open(f"jsonl:{tmp_path / 's.jsonl'}")
    session.append(m.user(f"{PHRASE}\nhunter2\n{SECRET}"))
    assert call(str(tmp_path / "s.jsonl"), "#0", "--dry-run").exit_code == 0
    assert PHRASE in path.read_text()
    done = call(str(tmp_path / "s.jsonl"), "#0", *asked).output
    assert "deleted 5 prompts" in done or json.loads(done)["prompts"] == 5
    assert list(FileHistory(str(path)).load_history_strings())[::-1] == [*KEPT, ""]
    assert path.stat().st_mode & 0o777 == 0o600
    left = files(tmp_path)
    assert not [text for text in (PHRASE, SECRET, "hunter2") if text.encode() in left]


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_damaged_lines_that_were_moved_are_named(kind: str, tmp_path: Path) -> None:
    store = {"file": f"jsonl:{tmp_path}/s.jsonl", "link": f"jsonl:{tmp_path}/link", "folder": f"jsonl:{tmp_path}/all/"}[kind]  # fmt: skip
    if kind == "link":
        (tmp_path / "link").symlink_to(tmp_path / "s.jsonl")
    session, ids = filled(store)
    [path] = tmp_path.rglob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"id":"' + ids["result"].encode(), b'"ix":"', 1))
    CliRunner().invoke(main, ["sessions", "doctor", "--store", store, "--repair"])
    [aside] = tmp_path.rglob("*.bad")
    assert SECRET in aside.read_text()
    assert f"{aside} has damaged lines" in call(f"{store}#{session.id}", "#0", "--dry-run").output
    done = call(f"{store}#{session.id}", "#0", "--yes", "--json").output
    assert json.loads(done)["remains"] == [str(aside)]


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_many_secrets_one_after_the_other(kind: str, tmp_path: Path) -> None:
    session = refold.open(f"{kind}:{tmp_path / ('s.db' if kind == 'sqlite' else 's.jsonl')}")
    secrets = [f"ghp_{n:04d}" + "aB3dE6gH9k" * 3 + "zz" for n in range(40)]
    ids: list[str] = []
    for n, secret in enumerate(secrets):
        session.append(m.user(f"step {n}"))
        session.append(m.assistant("", m.call(f"c{n}", "Bash", command="cat")))
        ids.append(session.append(m.result(f"c{n}", f"{secret}\n" * 30)).id)
        session.append(m.assistant("fine " * 300))
    for n, id in enumerate(ids):
        forget(session, [id])
        left = files(tmp_path)
        assert secrets[n].encode() not in left
        assert all(other.encode() in left for other in secrets[n + 1 :])


def test_the_label_of_a_forgotten_entry_goes_with_it() -> None:
    session = Session()
    entry = session.append(m.user("The key is under the mat."))
    other = session.append(m.assistant("Understood."))
    session.append(session.make(e.Label, target=entry.id, text="where the key is"))
    session.append(session.make(e.Label, target=other.id, text="an answer"))
    forget(session, [entry.id])
    assert [label.text for label in session.entries if isinstance(label, e.Label)] == [
        "[forgotten]",
        "an answer",
    ]


@pytest.mark.parametrize("refreshed", [True, False])
def test_who_has_the_session_open_forgets_it_too_and_brings_nothing_back(
    refreshed: bool, tmp_path: Path
) -> None:
    """The gateway, `refold mcp` and `refold explore` keep sessions open while `refold forget` runs."""
    session = refold.open(f"jsonl:{tmp_path / 's.jsonl'}")
    for n in range(20):
        session.append(m.user(f"Question {n} of Umbrella{n}? " + "And so on. " * 30))
        session.append(m.assistant(f"Answer {n}. " + "And so on. " * 30))
    other = stored(JsonlStore(tmp_path / "s.jsonl"), session.id)
    engine = Engine(presets.get("refold", window=4_000))
    plan = run(engine.planner.planned(other, PlanRequest(force=True)))
    assert isinstance(plan, Plan)
    forget(session, [session.path[8].id])
    if refreshed:
        other.refresh()
        assert "Umbrella4?" not in str(other.entries) and other.entries == session.entries
        assert run(engine.prepare(other)) and isinstance(other.entries[-1], e.Fold)
    else:
        with pytest.raises((Conflict, StalePlan)):
            run(engine.apply(other, plan))
    assert b"Umbrella4?" not in files(tmp_path)
    assert b"Umbrella5?" in files(tmp_path)
