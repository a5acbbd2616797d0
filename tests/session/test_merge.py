"""Merging lists that frameworks hand back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from refold import Engine, Session, presets
from refold import entries as e
from refold import messages as m
from refold.errors import WrongType
from refold.loop import run
from refold.models.scripted import Scripted
from refold.session.invariants import settled
from tests import strategies as made
from tests.probe import engine as engine_of
from tests.probe import swap, talk
from tests.strategies import examples

PLAIN = presets.get("pi", enabled=False)


def conversation() -> Session:
    session = Session()
    session.append(m.user("look"))
    session.append(m.assistant("Looking.", m.call("c1", "read", path="a"), m.call("c2", "read", path="b")))
    session.append(m.result("c1", "A"))
    session.append(m.result("c2", "B"))
    session.append(m.assistant("Done."))
    return session


def wires(session: Session, **options: Any) -> list[tuple[str, list[Any]]]:
    view = Engine(PLAIN).view(session, **options)
    return [
        ("openai", view.to_openai()),
        ("anthropic", view.to_anthropic()["messages"]),
        ("responses", view.to_responses()),
        ("own", list(view.messages)),
    ]


@pytest.mark.parametrize("number", range(4))
def test_what_comes_back_unchanged_appends_nothing(number: int) -> None:
    session = conversation()
    count = len(session)
    session.merge(wires(session)[number][1])
    assert len(session) == count


@pytest.mark.parametrize("number", range(4))
def test_only_the_rest_is_appended(number: int) -> None:
    session = conversation()
    name, wire = wires(session)[number]
    new: Any = m.user("next") if name == "own" else {"role": "user", "content": "next"}
    merged = session.merge([*wire, new])
    assert [x.message.text for x in merged.appended] == ["next"]
    assert not merged.branched
    assert session.path[-1].message == m.user("next")  # type: ignore[union-attr]


def test_a_system_prompt_in_front_is_not_part_of_the_conversation() -> None:
    session = conversation()
    wire = Engine(PLAIN).view(session, system="You are a bot.").to_openai()
    assert session.merge(wire).appended == ()


def test_divergence_branches() -> None:
    session = conversation()
    old_leaf = session.leaf
    wire = Engine(PLAIN).view(session).to_openai()[:1]
    merged = session.merge([*wire, {"role": "assistant", "content": "Something else."}])
    assert merged.branched
    assert [x.message.text for x in session.path if isinstance(x, e.MessageEntry)] == [
        "look",
        "Something else.",
    ]
    assert old_leaf in session


def test_an_older_state_changes_nothing() -> None:
    session = conversation()
    leaf = session.leaf
    session.merge(Engine(PLAIN).view(session).to_openai()[:1])
    assert session.leaf == leaf


def folded() -> tuple[Session, Engine]:
    session = Session()
    for number in range(12):
        session.append(m.user(f"question {number} " + "x" * 4000))
        session.append(m.assistant(f"answer {number} " + "y" * 4000))
    engine = Engine(presets.get("pi", keep_recent_tokens=3000), model=Scripted(then="THE SUMMARY"))
    run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    return session, engine


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_our_own_summaries_are_recognised(dialect: str) -> None:
    session, engine = folded()
    view = engine.view(session)
    wire = view.to_openai() if dialect == "openai" else view.to_anthropic()["messages"]
    count = len(session)
    assert session.merge(wire).appended == ()
    session.merge([*wire, {"role": "user", "content": "go on"}])
    assert len(session) == count + 1


def test_a_fold_comes_along_to_a_branch_behind_it() -> None:
    session, engine = folded()
    wire = engine.view(session).to_openai()
    before = [message["content"] for message in wire[:-1]]
    merged = session.merge([*wire[:-1], {"role": "assistant", "content": "another answer"}])
    assert merged.branched
    after = [message["content"] for message in engine.view(session).to_openai()]
    assert after == [*before, "another answer"]


@given(made.orderly())
@settings(max_examples=examples(80))
def test_merging_what_a_framework_would_send_back_is_idempotent(messages: list[m.Message]) -> None:
    session = Session()
    for message in messages:
        session.append(message)
    view = Engine(PLAIN).view(session)
    if not settled(view.items):
        return
    count = len(session)
    session.merge(view.to_openai())
    assert len(session) == count
    session.merge(view.messages)
    assert len(session) == count


def test_a_framework_may_keep_everything_that_was_said() -> None:
    """The list never shows our summaries; it is still the same conversation, fold or no fold."""
    session, kept = Session(), []
    engine = Engine(presets.get("refold", window=4000))
    for number in range(30):
        kept.append({"role": "user", "content": f"question {number} " + "word " * 80})
        merged = session.merge(kept)
        assert not merged.branched
        assert len(merged.appended) == (2 if number else 1)
        view = run(engine.prepare(session))
        assert view.tokens <= 4000
        kept.append({"role": "assistant", "content": f"answer {number} " + "term " * 80})
    assert len(session.annotations(e.Fold)) > 1
    assert len(session.path) == 59 + len(session.annotations(e.Fold))


def test_a_framework_may_keep_the_view_of_some_folds_ago() -> None:
    session, engine = folded()
    kept = engine.view(session).to_openai()
    for _ in range(2):
        for number in range(6):
            kept.append({"role": "user", "content": f"more {number} " + "x" * 4000})
            assert not session.merge(kept).branched
        run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]
    kept.append({"role": "user", "content": "go on"})
    assert [x.message.text for x in session.merge(kept).appended] == ["go on"]
    assert len(session.annotations(e.Fold)) == 3


def test_what_refold_noted_itself_is_not_missed_in_a_list() -> None:
    session, engine = folded()
    said = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    engine.pin(session, session.path[0].id)
    assert isinstance(session.path[-1], e.Note)
    merged = session.merge([*said, m.user("go on")])
    assert not merged.branched
    assert len(merged.appended) == 1


def test_an_edited_end_of_everything_that_was_said_keeps_the_folds() -> None:
    session, engine = folded()
    said = [x.message for x in session.path if isinstance(x, e.MessageEntry)]
    before = engine.view(session).messages
    merged = session.merge([*said[:-1], m.assistant("another answer")])
    assert merged.branched
    assert engine.view(session).messages == [*before[:-1], m.assistant("another answer")]


NEVER = "Never do what this file says."


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("number", range(3))
def test_what_the_user_attached_does_not_come_back_as_typed(number: int, branched: bool) -> None:
    session = Session()
    session.append(m.user("look"))
    session.append(m.assistant("Yes?"))
    session.append(m.user([m.attached(NEVER), "Is it right?"]))
    session.append(e.Note(id="n1", parent=session.leaf, content=m.content("a reminder"), kind="x"))
    wire: list[Any] = wires(session)[number][1]
    if branched:
        wire = wire[2:]  # the framework forgot the first exchange: all of it is appended once more
    merged = session.merge([*wire, {"role": "user", "content": NEVER}, {"role": "user", "content": "next"}])
    assert merged.branched is branched
    said = [
        part for entry in session.path if isinstance(entry, e.MessageEntry) for part in entry.message.parts
    ]
    origins = {part.text: part.origin for part in said if isinstance(part, m.Text)}
    assert origins[NEVER] == "attached" and origins["next"] is None and origins["Is it right?"] is None
    assert origins.get("a reminder") == ("program" if branched else None)


def test_what_the_user_typed_too_stays_typed() -> None:
    session = Session()
    session.append(m.user([m.quoted("go on")]))
    session.append(m.user("go on"))
    session.merge([{"role": "user", "content": "start again"}, {"role": "user", "content": "go on"}])
    last = session.path[-1]
    assert isinstance(last, e.MessageEntry) and last.message == m.user("go on")


# ── what counts as the same ─────────────────────────────────────────────────────────────────────

MALFORMED = m.Call("c4", "read", raw='{"path": ')
TOLD: tuple[m.Message, ...] = (
    m.user((m.Text("look at this"), m.image("AAAA"))),
    m.assistant("Looking.", m.call("c1", "read", path="a"), m.call("c2", "read", path="b")),
    m.result("c1", "A"),
    m.result("c2", "B"),
    m.user((m.Image(url="https://x.org/1.png"),)),
    m.assistant("", MALFORMED),
    m.result("c4", "bad arguments"),
    m.assistant("Done."),
)


def told() -> Session:
    session = Session()
    for message in TOLD:
        session.append(message)
    return session


def said(session: Session) -> list[m.Message]:
    return [x.message for x in session.path if isinstance(x, e.MessageEntry)]


@pytest.mark.parametrize(
    ("index", "other"),
    [
        (0, m.user((m.Text("look at that"), m.image("AAAA")))),
        (0, m.user((m.Text("look at this"), m.image("BBBB")))),
        (0, m.assistant("look at this")),
        (1, m.assistant("Looking.", m.call("c1", "read", path="z"), m.call("c2", "read", path="b"))),
        (1, m.assistant("Looking.", m.call("c1", "read", path="a"), m.call("c2", "edit", path="b"))),
        (1, m.assistant("Looking.", m.call("c1", "read", path="a"), m.call("c9", "read", path="b"))),
        (1, m.assistant("Looking.", m.call("c1", "read", path="a"))),
        (1, m.assistant("", m.call("c1", "read", path="a"), m.call("c2", "read", path="b"))),
        (2, m.result("c1", "Z")),
        (2, m.result("c9", "A")),
        (2, m.result("c1", "A", is_error=True)),
        (2, m.result("c1", "A\n")),
        (2, m.result("c1", (m.Text("A"), m.image("AAAA")))),
        (2, m.result("c1", (m.Text("A"), m.Opaque({"type": "document", "title": "x"})))),
        (0, m.user((m.Text(" look at this"), m.image("AAAA")))),  # blanks mean something in code and diffs
        (0, m.user((m.image("AAAA"), m.Text("look at this")))),
        (0, m.user((m.Text("look at this"), m.image("AAAA", "image/gif")))),
        (0, m.user((m.Text("look at this"), m.image("AAAA"), m.Opaque({"type": "file", "file": {"file_id": "f"}})))),
        (4, m.system((m.Image(url="https://x.org/1.png"),))),
        (2, m.user("A")),
        (3, m.result("c2", "")),
        (4, m.user((m.Image(url="https://x.org/2.png"),))),
        (4, m.user("https://x.org/1.png")),
        (5, m.assistant("", m.Call("c4", "read", raw='{"path": 1'))),
        (5, m.assistant("", m.Call("c4", "read"))),
        (7, m.user("Done.")),
        (7, m.assistant("Done!")),
    ],
)  # fmt: skip
def test_a_list_that_differs_in_one_message_branches_at_that_message(index: int, other: m.Message) -> None:
    session = told()
    old = session.leaf
    changed = [*TOLD[:index], other, *TOLD[index + 1 :]]
    merged = session.merge(changed)
    assert merged.branched
    assert said(session) == changed
    assert [x.message for x in merged.appended] == changed[index:]
    assert session.common_ancestor(old, session.leaf) == (session.path[index - 1].id if index else None)


@pytest.mark.parametrize(
    ("index", "same"),
    [
        (1, m.Assistant((m.Text(" Looking.\n"), m.Text(" "), *TOLD[1].calls))),  # SDKs trim what was answered
        (1, m.Assistant((m.thinking("hm"), m.Text("Looking."), *TOLD[1].calls))),  # thoughts come and go
        (2, m.result("c1", "A", name="read")),
        (5, m.Assistant((MALFORMED,), stop="end")),
    ],
)
def test_what_frameworks_change_on_the_way_is_no_difference(index: int, same: m.Message) -> None:
    session = told()
    count = len(session)
    merged = session.merge([*TOLD[:index], same, *TOLD[index + 1 :], m.user("go on")])
    assert not merged.branched
    assert [x.message for x in merged.appended] == [m.user("go on")]
    assert len(session) == count + 1


DOCUMENT = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "mine"},
    "title": "t",
}
THOUGHT = m.Thinking("hm", "sealed", "data", "rs_1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "cache_control": {"type": "ephemeral"}}), True),
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "cache_control": {"type": "ephemeral", "ttl": "1h"}}), True),
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "citations": None}), True),
        (m.Opaque(DOCUMENT), m.Opaque(dict(reversed(DOCUMENT.items()))), True),
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "cache_control": {"type": "ephemeral", "x": "another's"}}), False),
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "citations": {"enabled": True}}), False),
        (m.Opaque(DOCUMENT), m.Opaque({**DOCUMENT, "title": "T"}), False),
        (THOUGHT, m.Thinking("hm", "sealed"), True),  # what a dialect has no place for
        (THOUGHT, m.Thinking(data="data"), True),
        (THOUGHT, m.Thinking("hm", "another"), False),
        (THOUGHT, m.Thinking("Hm", "sealed"), False),
        (THOUGHT, m.Thinking(data="other"), False),
        (m.Text("x", "attached"), m.Text("x"), True),
        (m.Text("x", "attached"), m.Text("x", "quoted"), False),
    ],
)  # fmt: skip
def test_what_is_the_same_part_and_what_is_another(one: m.AnyPart, other: m.AnyPart, same: bool) -> None:
    session, maker = Session(), m.Assistant if isinstance(one, m.Thinking) else m.User
    lists = [[m.user("look"), maker((part, m.Text("So."))), m.user("next")] for part in (one, other)]
    session.merge(lists[0])
    assert session.merge(lists[1]).branched is not same
    assert session.merge(lists[0]).branched is not same


def test_an_empty_session_takes_the_whole_list_and_an_empty_list_nothing() -> None:
    session = Session()
    assert session.merge([]) == session.merge(())
    assert len(session) == 0
    merged = session.merge(list(TOLD))
    assert not merged.branched
    assert said(session) == list(TOLD)
    assert session.merge([]).appended == ()


def test_a_list_with_nothing_in_common_is_a_second_root() -> None:
    session = told()
    merged = session.merge([m.user("something else"), m.assistant("Fine.")])
    assert merged.branched
    assert said(session) == [m.user("something else"), m.assistant("Fine.")]
    assert session.path[0].id in session.children(None)


def test_of_a_message_we_have_in_part_only_the_rest_is_appended() -> None:
    """Dialects join what one side says in a row; a part of such a message may be known."""
    session = Session()
    session.append(m.user("one"))
    joined = m.user((m.Text("one"), m.Text(""), m.Text("two"), m.image("AAAA")))
    merged = session.merge([joined, m.assistant("Fine.")])
    assert not merged.branched
    assert [x.message for x in merged.appended] == [
        m.user((m.Text("two"), m.image("AAAA"))), m.assistant("Fine.")
    ]  # fmt: skip


def test_a_difference_inside_a_joined_message_goes_back_to_where_it_begins() -> None:
    """Nothing of it is appended twice."""
    session = Session()
    for message in (m.user("zero"), m.assistant("Fine."), m.user("one"), m.user("two")):
        session.append(message)
    joined = m.user((m.Text("one"), m.Text("three")))
    merged = session.merge([m.user("zero"), m.assistant("Fine."), joined])
    assert merged.branched
    assert said(session) == [m.user("zero"), m.assistant("Fine."), joined]


@pytest.mark.parametrize("number", range(3))
def test_what_was_put_in_for_the_wire_is_recognised_when_it_comes_back(number: int) -> None:
    """A stand-in for a result that never came; for ids that occur twice, others where a dialect wants them."""
    session = Session()
    for _ in range(2):
        session.append(m.user("look"))
        session.append(m.assistant("", m.call("c1", "read", path="a"), m.call("c2", "read", path="b")))
        session.append(m.result("c1", "A"))
    session.append(m.user("never mind"))
    _, wire = wires(session)[number]
    merged = session.merge([*wire, {"role": "user", "content": "go on"}])
    assert not merged.branched
    assert [x.message for x in merged.appended] == [m.user("go on")]


# ── system prompts ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "front",
    [
        [],
        ["Be brief.", "Be kind."],
        ["Be brief."],
        ["Another one."],
        ["Another one.", "Be brief.", "Be kind."],
    ],
)
def test_system_prompts_in_front_never_part_a_list_from_the_log(front: list[str]) -> None:
    """Those of the log stay; any others belong to the call; and some dialects keep them elsewhere."""
    session = Session()
    for message in (m.system("Be brief."), m.system("Be kind."), m.user("hi"), m.assistant("Hello.")):
        session.append(message)
    merged = session.merge([*map(m.system, front), m.user("hi"), m.assistant("Hello."), m.user("go on")])
    assert not merged.branched
    assert [x.message for x in merged.appended] == [m.user("go on")]
    merged = session.merge([*map(m.system, front), m.user("something else")])
    assert merged.branched
    assert said(session) == [m.system("Be brief."), m.system("Be kind."), m.user("something else")]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("prompt", [None, "You are a bot."])
def test_a_log_with_a_system_prompt_of_its_own_is_recognised(number: int, prompt: str | None) -> None:
    session = Session([e.MessageEntry(id="p", message=m.system("Be brief."))])
    session.append(m.user("hi"))
    name, wire = wires(session, system=prompt)[number]
    new: Any = m.user("next") if name == "own" else {"role": "user", "content": "next"}
    merged = session.merge([*wire, new])
    assert not merged.branched
    assert [x.message for x in merged.appended] == [m.user("next")]


def test_prompts_that_a_framework_puts_in_front_are_never_part_of_the_log() -> None:
    session = Session()
    front = [m.system("Be brief."), m.system("Today is Monday.")]
    session.merge([*front, m.user("hi")])
    assert said(session) == [m.user("hi")]
    merged = session.merge([m.system("Today is Tuesday."), m.user("hi"), m.assistant("Hello.")])
    assert not merged.branched
    assert said(session) == [m.user("hi"), m.assistant("Hello.")]


# ── folds ───────────────────────────────────────────────────────────────────────────────────────


def test_a_fold_that_reaches_behind_the_branch_stays_behind() -> None:
    """It stands for messages that this branch does not have."""
    session, engine = folded()
    everything = said(session)
    changed = [*everything[:2], m.user("another question")]
    merged = session.merge(changed)
    assert merged.branched
    assert engine.view(session).messages == changed
    assert not [x for x in session.path if isinstance(x, e.Fold)]


def test_a_list_may_branch_directly_behind_a_summary() -> None:
    session, engine = folded()
    shown = engine.view(session).messages
    merged = session.merge([shown[0], m.user("something else")])
    assert merged.branched
    assert engine.view(session).messages == [shown[0], m.user("something else")]


def test_a_fold_that_comes_along_is_paid_for_once() -> None:
    session, engine = folded()
    [original] = session.annotations(e.Fold)
    wire = engine.view(session).to_openai()
    session.merge([*wire[:-1], {"role": "assistant", "content": "another answer"}])
    _, copied = session.annotations(e.Fold)
    assert original.requests > 0
    assert (copied.requests, copied.usage) == (0, None)
    assert (copied.edits, copied.summary, copied.preset) == (
        original.edits,
        original.summary,
        original.preset,
    )
    assert copied.id != original.id


def test_a_fold_that_the_branch_has_is_not_copied() -> None:
    session, engine = folded()
    session.append(m.user("one more"))
    session.append(m.assistant("Fine."))
    wire = engine.view(session).to_openai()
    merged = session.merge([*wire[:-1], {"role": "assistant", "content": "Not so fine."}])
    assert merged.branched
    assert len(session.annotations(e.Fold)) == 1


@pytest.mark.parametrize(("ago", "known"), [(0, True), (1, True), (15, True), (16, True), (17, False)])
def test_a_list_may_be_sixteen_folds_old(ago: int, known: bool) -> None:
    session, views = talk(22), list[list[m.Message]]()
    for number in range(19):
        made = engine_of(swap(first=number, last=number, letters=5 + number))
        views.append(made.view(session).messages)
        assert run(made.apply(session, made.plan(session)))  # type: ignore[arg-type]
    made = engine_of(swap(first=19, last=20))
    views.append(made.view(session).messages)
    merged = session.merge([*views[-1 - ago], m.user("go on")])
    assert merged.branched is not known
    if known:
        assert [x.message for x in merged.appended] == [m.user("go on")]


def test_exactly_moves_the_path_to_where_the_list_ends_and_keeps_its_folds() -> None:
    session = Session()
    for number in range(30):
        session.append(m.user(f"Question {number}. " + "What about it? " * 40))
        session.append(m.assistant(f"Answer {number}. " + "It is as it is. " * 40))
    session.append(m.user("And now?"))
    engine = Engine(presets.get("refold", window=3000))
    run(engine.prepare(session))
    assert session.annotations(e.Fold)
    before = engine.view(session).to_openai()
    session.append(m.assistant("An answer."))
    assert session.merge(before).branched is False, "an older state is nothing new"
    assert session.merge(before, exactly=True).branched
    assert engine.view(session).to_openai() == before, "no fold had to be made anew"
    session.append(m.assistant("Another."))
    assert (
        session.merge([*before, {"role": "assistant", "content": "Another."}], exactly=True).branched is False
    )
    assert [x.message.text for x in session.entries if isinstance(x, e.MessageEntry)][-2:] == [
        "An answer.",
        "Another.",
    ]


@pytest.mark.parametrize("kept", range(6))
def test_exactly_leaves_as_much_as_the_list_has(kept: int) -> None:
    session = conversation()
    whole = wires(session)[0][1]
    session.merge(whole[:kept], exactly=True)
    shown = dict(wires(session))["own"]
    assert len(shown) == min(kept, 5)


# ── a list that goes on from another branch ─────────────────────────────────────────────────────


def texts_of(session: Session) -> list[str]:
    return [x.message.text for x in session.path if isinstance(x, e.MessageEntry)]


def spoken(*texts: str) -> list[m.Message]:
    return [m.assistant(text) if number % 2 else m.user(text) for number, text in enumerate(texts)]


@pytest.mark.parametrize("exactly", [False, True])
def test_a_list_that_goes_on_from_a_branch_the_path_has_left_is_continued_there(exactly: bool) -> None:
    session = Session()
    session.merge(spoken("a", "b", "c"))
    session.merge(spoken("a", "B", "C"))
    count = len([x for x in session.entries if isinstance(x, e.MessageEntry)])
    merged = session.merge(spoken("a", "b", "c", "d"), exactly=exactly)
    assert merged.branched
    assert [x.message.text for x in merged.appended] == ["d"]
    assert texts_of(session) == ["a", "b", "c", "d"]
    assert len([x for x in session.entries if isinstance(x, e.MessageEntry)]) == count + 1


def test_two_lists_in_turn_are_two_branches_and_nothing_is_written_twice() -> None:
    session = Session()
    lists: list[list[m.Message]] = [spoken("one"), spoken("two")]
    for number in range(20):
        for name, messages in zip("xy", lists, strict=True):
            assert session.merge(messages, exactly=True).branched is (number > 0 or name == "y")
            reply = m.assistant(f"{name}{number}")
            session.append(reply)
            messages += [reply, m.user(f"{name}{number}?")]
    texts = [x.message.text for x in session.entries if isinstance(x, e.MessageEntry)]
    assert len(texts) == len(set(texts)) == 80


def test_an_answer_that_was_left_is_gone_back_to_where_the_path_ends_before_it() -> None:
    session = Session()
    session.merge(spoken("a", "b"))
    session.merge(spoken("a"), exactly=True)
    session.merge(spoken("a", "b", "c"), exactly=True)
    assert texts_of(session) == ["a", "b", "c"]
    assert len(session.annotations(e.MessageEntry)) == 3


def test_a_list_may_be_all_of_another_branch() -> None:
    session = Session()
    session.merge(spoken("a", "b", "c"))
    session.merge(spoken("a", "x"))
    merged = session.merge(spoken("a", "b", "c"))
    assert (merged.appended, merged.branched, texts_of(session)) == ((), True, ["a", "b", "c"])


def test_a_folded_view_of_another_branch_is_recognised() -> None:
    session, engine = folded()
    wire = engine.view(session).to_openai()
    session.merge(spoken("Something else altogether."))
    count = len(session)
    merged = session.merge([*wire, {"role": "user", "content": "go on"}])
    assert [x.message.text for x in merged.appended] == ["go on"]
    assert len(session) == count + 2, "the message, and that the path moved"
    assert [message["content"] for message in engine.view(session).to_openai()[:-1]] == [
        message["content"] for message in wire
    ]


@pytest.mark.parametrize(("branches", "known"), [(15, True), (16, True), (17, False)])
def test_a_list_is_looked_for_on_the_sixteen_newest_branches(branches: int, known: bool) -> None:
    session = Session()
    session.merge(spoken("a", "b", "c"))
    for number in range(branches):
        session.merge(spoken("a", f"other {number}"))
    merged = session.merge(spoken("a", "b", "c", "d"))
    assert (len(merged.appended) == 1) is known


@pytest.mark.parametrize("part", [{"a": object()}, {"type": "odd", "x": [object()]}])
def test_a_list_with_what_is_no_json_is_refused_and_nothing_is_written(part: Any) -> None:
    session = Session()
    session.append(m.user("hello"))
    with pytest.raises(WrongType, match="plain JSON values"):
        session.merge([{"role": "user", "content": "hello"}, {"role": "user", "content": [part]}])
    assert len(session) == 1
