"""The session at the edges of what it promises: foreign objects, holes, secrets, merged lists, repairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from refold import Engine, Session, View, presets
from refold import entries as e
from refold import messages as m
from refold.errors import UnknownName, UsageError
from refold.session import Projection, dialects, redacted, toolnames
from refold.session.dialects.common import as_dict, wire_name
from refold.session.forget import forget, hole
from refold.session.invariants import alternation, batches
from refold.session.redacted import KnownSecrets
from refold.session.repair import Repaired, repaired
from refold.session.toolstatus import bare_output, printed_output
from refold.session.wire_size import WireOverhead, wire_overhead
from refold.testing.builders import items
from refold.testing.validators import validate
from refold.tokens import get as counter
from tests.timing import steps

COUNTER = counter()
ENGINE = Engine(presets.get("pi"))
KEY = "sk-ant-api03-" + "Zk3vQ9xW7rT2mN8bL5pY1c0042"


def view(session: Session) -> View:
    return ENGINE.view(session)


def test_an_unknown_item_that_names_a_call_leaves_it_its_result() -> None:
    session = Session()
    session.merge([
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "tool_progress", "call_id": "c1", "text": "50 %"},
        {"type": "message", "role": "user", "content": "go on"},
    ])  # fmt: skip
    wire = Engine().view(session).to("responses")
    assert {"type": "function_call_output", "call_id": "c1", "output": "a.py"} in wire
    assert validate("responses", wire) == []


# ── foreign objects ─────────────────────────────────────────────────────────────────────────────


class Pydantic:
    """Says with which options it was asked."""

    def model_dump(self, *, mode: str, exclude_none: bool, warnings: bool) -> dict[str, Any]:
        return {"mode": mode, "none": exclude_none, "warnings": warnings}


class Similar:
    def model_dump(self) -> dict[str, Any]:
        return {"role": "user"}


@dataclass
class Plain:
    role: str = "user"


def test_an_object_of_an_sdk_is_asked_for_plain_json() -> None:
    assert as_dict(Pydantic()) == {"mode": "json", "none": True, "warnings": False}
    assert as_dict(Similar()) == as_dict(Plain()) == {"role": "user"}
    with pytest.raises(UsageError, match="pass a dict or an SDK object"):
        as_dict(5)


@pytest.mark.parametrize(
    ("name", "wire"),
    [("a" * 64, "a" * 64), ("a" * 65, "a" * 64), ("a b", "a_b"), ("", "tool"), ("a-b_C9", "a-b_C9")],
)
def test_a_tool_has_a_name_that_every_provider_takes(name: str, wire: str) -> None:
    assert wire_name(name) == wire


def test_an_unknown_dialect_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"unknown dialect 'x'; there are: .*anthropic"):
        dialects.get("x")
    assert dialects.get("openai-responses") is dialects.get("responses")


def test_a_reply_may_be_a_message_alone() -> None:
    for name in ("anthropic", "openai"):
        message, usage, model = dialects.get(name).parse_reply({"role": "assistant", "content": "yes"})
        assert message.text == "yes" and usage is None and model is None


def test_a_command_of_the_user_is_shown_unless_it_is_hidden() -> None:
    session = Session()
    session.append(m.Bash("ls", "a.py"))
    session.append(m.Bash("pwd", "/home", hidden=True))
    for wire in (
        view(session).to_responses(),
        view(session).to_openai(),
        view(session).to_anthropic()["messages"],
    ):
        assert "a.py" in str(wire) and "/home" not in str(wire)
    assert list(view(session)) == list(view(session).items)
    assert repr(session) == f"<Session {session.id}: 2 entries, 2 on the path, 0 folds>"


# ── what was forgotten ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (e.Other(id="x", raw={"secret": 1}), {"raw": {}}),
        (e.Note(id="x", content=m.content("secret"), meta={"a": 1}), {"meta": {}}),
        (
            e.BranchSummary(id="x", summary="secret", files=e.Files(read=("a",)), meta={"a": 1}),
            {"files": e.Files(), "meta": {}},
        ),
        (e.Label(id="x", target="y", text="secret"), {"target": "y"}),
        (e.State(id="x", name="n", value="secret"), {"name": "n", "value": None}),
        (
            e.Info(id="x", name="secret", cwd="/secret", meta={"a": 1}),
            {"name": None, "cwd": None, "meta": {}},
        ),
        (e.Hole(id="x", why="secret"), {"why": "forgotten"}),
    ],
)
def test_what_is_forgotten_leaves_a_hole_of_its_kind(entry: e.AnyEntry, says: dict[str, Any]) -> None:
    empty = hole(entry)
    assert type(empty) is type(entry) and empty.id == "x" and "secret" not in repr(empty)
    assert {name: getattr(empty, name) for name in says} == says


def test_a_forgotten_message_keeps_its_place_and_its_origin() -> None:
    def empty(message: m.Message) -> m.Message:
        found = hole(e.MessageEntry(id="x", message=message, meta={"a": "secret"}))
        assert isinstance(found, e.MessageEntry) and found.meta == {} and "secret" not in repr(found)
        return found.message

    said = empty(m.user([m.attached("secret"), m.Image(data="secret")]))
    assert [(type(part), getattr(part, "origin", None)) for part in said.parts] == [(m.Text, "attached")]
    assert [getattr(part, "origin", "?") for part in empty(m.User((m.Image(data="secret"),))).parts] == [None]
    reply = empty(m.Assistant((m.Text("secret"), m.call("c", "T", a="secret")), "tool_use"))
    assert isinstance(reply, m.Assistant) and reply.stop == "tool_use" and reply.calls == (m.call("c", "T"),)
    result = empty(m.result("c", "secret", name="T", is_error=True))
    assert isinstance(result, m.Result) and (result.call_id, result.name, result.is_error) == ("c", "T", True)


def test_a_branch_summary_is_forgotten_with_what_it_sums_up_and_no_other() -> None:
    session = Session()
    first = session.append(m.user("first"))
    other = session.append(m.assistant("on the branch"))
    session.move(first.id)
    session.append(e.BranchSummary(id="b", parent=first.id, origin=other.id, summary="what the branch said"))
    epoch = session.epoch
    untouched = forget(session, [session.append(m.user("later")).id], dry_run=True)
    assert "b" not in (*untouched.quoting, *untouched.folds)
    done = forget(session, [other.id])
    assert "b" in done.quoting and "what the branch said" not in repr(session["b"])
    assert session.epoch > epoch


def test_a_second_entry_of_an_id_gets_the_one_that_is_missing() -> None:
    log = [
        e.MessageEntry(id="a", message=m.user("1")),
        e.MessageEntry(id="a", parent="a", message=m.assistant("2")),
        e.MessageEntry(id="c", parent="b", message=m.user("3")),
        e.MessageEntry(id="a", parent="c", message=m.assistant("4")),
        e.MessageEntry(id="e", parent="d", message=m.user("5")),
    ]
    tree = repaired(log)
    assert [entry.id for entry in tree.entries] == ["a", "b", "c", "d", "e"]
    assert len(tree.problems) == 2


def test_what_stands_after_the_leaf_is_never_below_itself() -> None:
    moved = [
        e.MessageEntry(id="a", message=m.user("1")),
        e.Leaf(id="leaf", target="c"),
        e.MessageEntry(id="b", parent="leaf", message=m.user("2")),
        e.MessageEntry(id="c", parent="b", message=m.assistant("3")),
    ]
    parents = {entry.id: entry.parent for entry in repaired(moved).entries if isinstance(entry, e.PathEntry)}
    assert parents == {"a": None, "b": None, "c": "b"}


def test_a_shuffled_log_with_many_holes_is_mended_in_time_in_proportion() -> None:
    def work(size: int) -> int:
        first = e.MessageEntry(id="z", parent="y", message=m.user("z"))
        then = e.MessageEntry(id="y", message=m.user("y"))
        many = [e.MessageEntry(id=f"a{n}", parent=f"m{n}", message=m.user("a")) for n in range(size)]
        found: list[Repaired] = []
        lines = steps(lambda: found.append(repaired([first, then, *many])))
        assert len(found[0].entries) == 2 + 2 * size
        return lines

    assert work(1_000) < 3 * work(500)  # a first_feasible for each hole would be four times as much


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────


def test_who_knows_a_secret_knows_its_parts() -> None:
    known = KnownSecrets([m.user(f"the key is {KEY} here")])
    for part in (KEY, KEY[13:], KEY[-8:], KEY[15:23], f"({KEY[14:30]})"):
        assert part.strip("()") not in known.text(f"x {part} y"), part
        assert known.text(f"x {part} y").startswith("x ") and known.text(f"x {part} y").endswith(" y")
    assert known.text(f"x {KEY[-7:]} y") == f"x {KEY[-7:]} y", "too little to tell"
    twice = known.text(f"{KEY[13:24]} and {KEY[-10:]}")
    assert twice.count("[redacted") == 2 and " and " in twice
    assert known.text("nothing of it") == "nothing of it"


def test_a_name_tells_a_secret_in_arguments_and_its_value_alone_is_taken_out() -> None:
    said = redacted.message(
        m.assistant("", m.call("c", "T", password="Zk3vQ9xW7rT2mN8b", user="me", note="plain"))
    )
    [call] = said.calls
    assert call.arguments["user"] == "me" and call.arguments["note"] == "plain"
    assert call.arguments["password"].startswith("[redacted") and call.arguments["password"].endswith("]")
    image = m.Image(data="AAAA")
    assert redacted.message(m.user([image, m.text("x")])).parts[0] is image
    plain = m.assistant("hello", m.call("c", "T", a=1))
    assert redacted.message(plain) is plain
    signed = m.Assistant((m.Thinking(f"use {KEY}", "sig"), m.Thinking("fine", "sig"), m.Text("yes")))
    assert [part.text for part in redacted.message(signed).parts if isinstance(part, m.Thinking)] == ["fine"]


# ── merged lists ────────────────────────────────────────────────────────────────────────────────


def folded(*, kind: str = "summary", count: int = 3) -> Session:
    """A conversation whose turns were folded one after the other, `count` of them."""
    session = Session()
    for n in range(6):
        session.append(m.user(f"ask {n}"))
        session.append(m.assistant(f"answer {n}"))
    ids = [entry.id for entry in session.path]
    for n in range(count):
        edit = e.Edit(ids[2 * n], ids[2 * n + 1], (m.user(f"summary of {n}"),), kind)
        session.append(
            e.Fold(id=f"fold {n}", parent=session.tip, preset="p", edits=(edit,), summary=f"summary of {n}")
        )
    return session


@pytest.mark.parametrize("back", range(4))
def test_a_list_from_some_folds_ago_is_known(back: int) -> None:
    session = folded()
    entries = [
        entry
        for entry in session.entries
        if not (isinstance(entry, e.Fold) and int(entry.id[-1]) >= 3 - back)
    ]
    older = view(Session(entries)).to_openai()
    assert session.merge(older).appended == ()
    merged = session.merge([*older, {"role": "user", "content": "and now"}])
    assert [x.message.text for x in merged.appended] == ["and now"] and not merged.branched


@pytest.mark.parametrize(("kind", "origin"), [("summary", "summary"), ("shrink", None)])
def test_what_a_summary_says_comes_back_as_a_summary(kind: str, origin: str | None) -> None:
    session = folded(kind=kind, count=1)
    given = view(session).to_openai()
    given[1:] = [{"role": "assistant", "content": "otherwise"}, {"role": "user", "content": "summary of 0"}]
    merged = session.merge(given)
    assert merged.branched
    [part] = merged.appended[-1].message.parts
    assert isinstance(part, m.Text) and part.origin == origin


def test_a_shorter_list_is_an_older_state_unless_it_is_meant_exactly() -> None:
    session = folded(count=0)
    given = view(session).to_openai()
    assert not session.merge(given[:-1]).branched and len(session.path) == 12
    assert not session.merge(given, exactly=True).branched
    assert (
        session.merge(given[:-1], exactly=True).branched
        and len([x for x in session.path if isinstance(x, e.MessageEntry)]) == 11
    )


def test_folds_that_lie_before_the_departure_hold_on_the_new_branch() -> None:
    session = folded(count=2)
    given = view(session).to_openai()
    at = next(n for n, x in enumerate(given) if x["content"] == "ask 3")
    merged = session.merge([*given[: at + 1], {"role": "assistant", "content": "otherwise"}])
    assert merged.branched
    assert [item.message.text for item in view(session).items][:2] == ["summary of 0", "summary of 1"]


# ── repairs ─────────────────────────────────────────────────────────────────────────────────────


def test_replies_in_a_row_become_one_and_others_stay_the_objects_they_are() -> None:
    listed = items([m.assistant("a"), m.assistant("b"), m.user("c"), m.assistant("d")])
    fixed = alternation.repair(listed)
    assert [[part.text for part in item.message.parts if isinstance(part, m.Text)] for item in fixed] == [
        ["a", "b"],
        ["c"],
        ["d"],
    ]
    assert fixed[1] is listed[2] and fixed[2] is listed[3] and fixed[0].entries == ("e0", "e1")


def test_a_cut_may_stand_before_a_new_reply_with_calls_but_not_inside_of_a_batch() -> None:
    x, y = m.call("x", "T"), m.call("y", "T")
    listed = items(
        [
            m.user("a"),
            m.assistant("", x, y),
            m.result("x", "1"),
            m.result("y", "2"),
            m.assistant("", m.call("z", "T")),
            m.result("z", "3"),
        ]
    )
    assert [at for at in range(7) if batches.legal(listed, at)] == [0, 1, 4, 5, 6]
    split = items(
        [m.user("a"), m.assistant("", x), m.assistant("", y), m.result("x", "1"), m.result("y", "2")]
    )
    assert [at for at in range(6) if batches.legal(split, at)] == [0, 1, 5]


def test_what_is_sent_beyond_the_items_is_counted_as_the_view_grows() -> None:
    session = Session()
    said = [
        m.user("a"),
        m.assistant("", m.call("x", "T"), m.call("y", "T")),
        m.result("y", "2"),
        m.result("x", "1"),
        m.result("x", "again"),
        m.assistant("b"),
        m.assistant("c"),
    ]
    projection = Projection(session)
    for message in said:
        session.append(message)
        assert WireOverhead.of(projection, COUNTER).total == wire_overhead(list(projection.items), COUNTER)


# ── names and outputs of tools ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("a\n\n(exit code 0)", "a"),
        ("a" + " " * 40 + "\nb", "a\nb"),
        ("a" + " " * 39 + "\nb", "a" + " " * 39 + "\nb"),
    ],
)
def test_an_output_without_what_its_tool_put_around_it(text: str, inside: str) -> None:
    assert bare_output(text) == inside


def test_an_envelope_says_what_would_have_been_printed() -> None:
    assert (
        printed_output('{"status":"ok","data":{"stdout":"one\\ntwo\\n","stderr":"bad\\n","exit_code":3}}')
        == "one\ntwo\nstderr:\nbad\n(exit code 3)"
    )
    assert printed_output('{"status":"ok"}') is None and printed_output("plain") is None


@pytest.mark.parametrize("word", ["X", "aX", "a/b.py", "--x=1"])
def test_a_plain_word_is_not_quoted(word: str) -> None:
    assert toolnames.shell_quoted(word) == word
