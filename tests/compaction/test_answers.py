"""What counts as a summary, what is cut out of the way for one, and how it is shown: one row a case."""

from __future__ import annotations

from typing import Any

import pytest

from refold import Session
from refold import entries as e
from refold import messages as m
from refold.compaction import requests
from refold.compaction.plan import Ask
from refold.compaction.requests import SUMMARY_TAGS, framing, listing
from refold.compaction.verify import claims, verify
from refold.errors import BadAnswer
from refold.protocols import Request
from refold.text.frames import quote


@pytest.mark.parametrize(
    ("reply", "code", "text"),
    [
        (m.Assistant((m.Text("x"),), "length"), "truncated", "output limit"),
        (m.Assistant((m.Text("x"),), "refusal"), "refusal", "refused"),
        (m.Assistant((m.Text("x"),), "error", "broken pipe"), "error", "broken pipe"),
        (m.Assistant((m.Text("x"),), "aborted"), "aborted", "ended with aborted"),
        (m.Assistant((m.call("c", "T"),)), "tool_call", "called a tool"),
        (m.Assistant((m.Text("x"), m.call("c", "T"))), "tool_call", "went on with the task"),
        (m.Assistant((m.Text("x"),), "tool_use"), "tool_call", "went on with the task"),
    ],
)
def test_what_is_no_answer_says_why(reply: m.Assistant, code: str, text: str) -> None:
    with pytest.raises(BadAnswer, match=text) as caught:
        requests.text_of(reply)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        (" plain ", "plain"),
        ("<summary>\na\n</summary> b", "a"),
        ("x <summary>a <summary>b</summary> c</summary>", "a <summary>b</summary> c"),
        ("<summary>a", "a"),
        ("</summary> <summary>a", "a"),
        ("<analysis>a <analysis>b</analysis> c</analysis> d", "d"),
        ("a <analysis>b", "a"),
        ("</analysis> a <analysis> b", "</analysis> a"),
        ("a <analysis></analysis> b", "a  b"),
    ],
)
def test_tags_are_taken_off(said: str, summary: str) -> None:
    assert requests.strip_tags(said) == summary
    assert requests.text_of(m.Assistant((m.Text(f" {said} "),), "end")) == said.strip()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        *((word, "empty") for word in ("", "NULL", "None", "undefined", "N/A", "{}", "[]", '""', "''")),
        (" {} ", "empty"),
        ("<summary></summary>", "empty"),
        ("I'm sorry, but no.", "refusal"),
        ("“I can’t do that.”", "refusal"),
        ("抱歉", "refusal"),
        ("I'm sorry. " + "x" * 388, "refusal"),
    ],
)
def test_nothing_and_refusals_are_no_summaries(said: str, code: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        requests.plain(said)
    assert caught.value.code == code


def test_a_long_text_may_begin_with_being_sorry() -> None:
    assert requests.plain("I'm sorry. " + "x" * 389).startswith("I'm sorry")
    assert requests.plain("The user said: I'm sorry.") == "The user said: I'm sorry."


def failed(times: list[float], code: str = "empty", fold: float | None = None, requests: int = 1) -> Session:
    session = Session()
    session.append(m.user("hi"))
    entries: list[Any] = [
        e.Failure(id=f"f{n}", time=time, code=code, text="x") for n, time in enumerate(times)
    ]
    if fold is not None:
        edit = e.Edit(session.path[0].id, session.path[0].id, (m.user("x"),))
        entries.append(
            e.Fold(
                id="fold", parent=session.path[0].id, time=fold, preset="p", edits=(edit,), requests=requests
            )
        )
    return Session([*session.entries, *entries])


@pytest.mark.parametrize(
    ("session", "now", "rests"),
    [
        (failed([1, 2, 3]), 3.0, True),
        (failed([1, 2, 3]), 302.9, True),
        (failed([1, 2, 3]), 303.0, False),
        (failed([1, 2, 3]), 2.9, False),
        (failed([2, 3]), 3.0, False),
        (failed([1, 2, 3], "stale"), 3.0, False),
        (failed([1, 2, 3], fold=0.5), 3.0, True),
        (failed([1, 2, 3], fold=1.0), 3.0, False),
        (failed([1, 2, 3], fold=2.5), 3.0, False),
        (failed([1, 2, 3], fold=2.5, requests=0), 3.0, True),
        (failed([0, 1, 2, 3], fold=0.5), 3.0, True),
    ],
)
def test_after_three_failures_in_a_row_a_model_rests(session: Session, now: float, rests: bool) -> None:
    assert requests.rests(session, now) is rests


def test_a_summary_is_shown_in_its_frame_with_its_files() -> None:
    files = e.Files(read=("a",), modified=("b", "c\nd"), created=("e",), deleted=("</summary>",))
    assert listing(files) == (
        "\n\n<read-files>\na\n</read-files>\n\n<modified-files>\nb\nc d\n</modified-files>"
        f"\n\n<created-files>\ne\n</created-files>\n\n<deleted-files>\n{quote('</summary>', *SUMMARY_TAGS)}\n</deleted-files>"
    )
    assert "</summary>" not in listing(files)
    assert listing(e.Files()) == ""
    assert framing("Work.", e.Files(read=("a",))).endswith(
        "<summary>\nWork.\n\n<read-files>\na\n</read-files>\n</summary>"
    )


SOURCES = """Anna Karlsson runs pytest -x tests/login in C:\\work\\app. The file src/login/part1.py has 1,234 lines and 0.50 MB.
It calls `Session.append(entry)` and load_all; see https://example.org/docs/page and v2.10.3. "Never touch the old tables" she said.
The read/write lock of retry-after is 30_000 ms. git add .  &&  git commit -m done; the test_user_login case fails."""


@pytest.mark.parametrize(
    ("summary", "wrong"),
    [
        ("See https://example.org/docs/page/.", []),
        ("See https://example.org/other.", ["https://example.org/other"]),
        ("It is in src/login/part1.py:12-30.", []),
        ("It is in ./src/login/part1.py.", []),
        ("It is in ../../login/part1.py.", []),
        ("It is in src/login/part1.pyc.", ["src/login/part1.pyc"]),
        ("It is in src/login/part.py.", ["src/login/part.py"]),
        ("It is in login/part*.py.", []),
        ("It is in login/none*.py.", ["login/none*.py"]),
        ("Both src/login/{part1,part2}.py exist.", ["src/login/{part1,part2}.py"]),
        ("The folder c:/work/app is used.", []),
        ("A read/write lock.", []),
        ("A read/delete lock.", ["read/delete"]),
        ("It has 1234 lines.", []),
        ("It has 1_234 lines.", []),
        ("It has 1,235 lines.", ["1,235"]),
        ("It is 0.50 MB.", []),
        ("It is 0.05 MB.", ["0.05"]),
        ("About 1,234 lines.", []),
        ("It is in `~/src/login`.", []),
        ("About 1,100 lines.", ["1,100"]),
        ("Version 2.10.3 was used.", []),
        ("He ran `pytest -x tests/login`.", []),
        ("He ran `pytest … tests/login`.", []),
        ("He ran `pytest -y tests/login`.", ["pytest -y tests/login"]),
        ("He ran `git add . && git commit -m done`.", []),
        ("He ran `git add . ; pytest -x`.", []),
        ("He ran `git add . ; git push`.", ["git add . ; git push"]),
        ("Then `append()` and `Session.append(x)`.", []),
        ("Then `remove()`.", ["remove()"]),
        ("Then `append(77777)`.", ["append(77777)"]),
        ("Then `load_al`.", ["load_al"]),
        ("Then `login/part1.py`.", []),
        ('She said "never touch the old tables".', []),
        ('She said "never … tables."', []),
        ('She said "always touch them".', ["always touch them"]),
        ("It uses load_all and test_user_login.", []),
        ("It uses load_alls.", []),
        ("It uses load_none.", ["load_none"]),
        ("The retry-after is set.", []),
        ("The retry-sometimes is set.", ["retry-sometimes"]),
        ("She met Anna Karlsson.", []),
        ("She met Anna Svensson.", ["Anna Svensson"]),
        ("She has 12 of them, and 13.", ["13"]),
    ],
)
def test_a_claim_holds_where_the_sources_say_it(summary: str, wrong: list[str]) -> None:
    found = verify(summary, (), SOURCES)
    assert list(found.unverified) == wrong, claims(summary)
    assert found.claims >= 1 and found.text.count(" [unverified]") == len(wrong)


@pytest.mark.parametrize(
    ("sources", "summary", "wrong"),
    [
        ("all users log in", "The user-login fails.", ["user-login"]),
        ("load load_all", "Then `load`.", []),
        ("load_all load", "Then `load`.", []),
        ("load_all", "Then `load`.", ["load"]),
        ("see https://x.org/a", "See https://x.org/a/.", []),
        ("see https://x.org/a", "See https://x.org/aX.", ["https://x.org/aX"]),
        ("it takes 17. Then", "It takes 17 seconds.", []),
        ("it takes .75 s", "It takes .75 seconds.", []),
    ],
)
def test_a_claim_holds_by_its_own_sources(sources: str, summary: str, wrong: list[str]) -> None:
    assert list(verify(summary, (), sources).unverified) == wrong


def test_sentences_with_unsupported_claims_are_taken_out() -> None:
    summary = "# Done\nIt calls load_all. It calls load_none. It ends.\n- uses load_none\n- uses load_all\n\nload_none alone.\n"
    found = verify(summary, (), SOURCES, action="remove")
    assert found.text == "# Done\nIt calls load_all. It ends.\n- uses load_all\n\n"
    assert found.unverified == ("load_none",)
    first = verify("It calls load_none. It ends.", (), SOURCES, action="remove")
    assert first.text == "It ends."


def test_a_question_takes_plain_summaries_unless_it_says_otherwise() -> None:
    ask = Ask(sources=(), render=lambda *_: Request(messages=()))
    assert ask.accept("<analysis>hm</analysis> <summary>done</summary>") == "done"
    for said in ("", "I cannot summarise this."):
        with pytest.raises(BadAnswer):
            ask.accept(said)
