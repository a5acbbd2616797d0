"""Archives (E): whole old rounds become one record, by a model or by code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from refold import entries as e
from refold import messages as m
from refold.compaction.details import LayeredDetails
from refold.compaction.plan import Proposal, Reason, finish
from refold.compaction.plan_context import Writer
from refold.compaction.strategies import layered
from refold.compaction.strategies.layered import NOTICE, TITLES, Archive, KeepRecent, archives_fit
from refold.digest import Digest, Source, archive
from refold.errors import BadAnswer
from refold.session import Session

from .kit import WORDS, context, many, session_of

EDIT = m.call("c1", "Edit", path="src/login.py", old_string="a", new_string="b")
SAID: tuple[m.Message, ...] = (
    m.user("Fix the login."),
    m.assistant("", EDIT),
    m.result("c1", "ok"),
    m.assistant("Fixed the login."),
    m.user("Add a test."),
    m.assistant("", m.call("c2", "Bash", command="export FOO=1 && pytest -x")),
    m.result("c2", "1 failed", is_error=True),
    m.assistant("It still fails."),
    m.user("Explain it."),
)
SOURCES = [Source(message=message, time=1_000.0 + n * 60) for n, message in enumerate(SAID)]


def sections(text: str) -> dict[str, list[str]]:
    found = (part.split("\n") for part in text.removeprefix("## ").split("\n\n## "))
    return {title: lines for title, *lines in found}


def by_rule(sources: Sequence[Source], budget: int = 4_000, place: str = "folder /home") -> str:
    return Digest(sources, template=archive(place)).text(budget, WORDS)


def rounds(count: int, *, size: int = 1) -> list[m.Message]:
    """Finished rounds of two messages, each of so many words."""
    return [
        x for n in range(count) for x in (m.user(many(f"ask{n}.", size)), m.assistant(many(f"did{n}.", size)))
    ]


# ── by code ─────────────────────────────────────────────────────────────────────────────────────


def test_an_archive_without_a_model_has_every_section() -> None:
    assert sections(by_rule(SOURCES)) == {
        "Period covered": ["1970-01-01 00:16 UTC to 1970-01-01 00:24 UTC"],
        "Objectives and status": [
            "Original goal: Fix the login.",
            "- Add a test. - It still fails.",
            "- Explain it. - interrupted",
        ],
        "Technical context": [
            "Stack: .py (1), pytest (1)",
            "Environment: folder /home; shell Bash; variables FOO",
            "Tools used: Bash, Edit",
        ],
        "Completed milestones": ["- [✓] Fix the login. - Fixed the login."],
        "Key insights and decisions": [
            "- Fixed the login.",
            "- It still fails.",
            "User: Fix the login.",
            "- Edit src/login.py: a → b",
            "User: Add a test.",
            "- Bash export FOO=1 && pytest -x → failed: 1 failed",
            "User: Explain it.",
        ],
        "File-system state": ["- src/login.py: modified"],
    }


def test_an_archive_of_nothing_says_so_in_every_section() -> None:
    found = sections(Digest([], template=archive()).text(100, WORDS))
    assert list(found) == list(TITLES)
    assert [*found.values()] == [
        ["(times unknown)"],
        ["Original goal: (none)"],
        [
            "Stack: (unknown)",
            "Environment: folder (unknown); shell (none); variables (none)",
            "Tools used: (none)",
        ],
        ["(none)"],
        ["(none)"],
        ["(none)"],
    ]


def worked(count: int) -> list[Source]:
    """Rounds that reached their goal, and as many that did not."""
    said = list[m.Message]()
    for n in range(count):
        said += [m.user(f"Fix part {n}."), m.assistant("", EDIT), m.result("c1", "ok"), m.assistant("Fixed.")]
        said += [m.user(f"Test part {n}."), m.assistant("It still fails.")]
    return [Source(message=message) for message in said]


@pytest.mark.parametrize("budget", [60, 100, 200, 300, 400, 800, 9_999])
def test_of_many_rounds_the_newest_are_told_and_how_many_are_not(budget: int) -> None:
    text = by_rule(worked(30), budget)
    assert WORDS.text(text) <= budget
    found = sections(text)
    for title, verb, share in (
        ("Completed milestones", "[✓] Fix", 0.25),
        ("Objectives and status", "Test", 0.125),
    ):
        rows = [row for row in found[title] if row.startswith(f"- {verb} part")]
        left_out = [row for row in found[title] if "earlier left out" in row]
        if budget >= 200:
            assert rows == [row for n in range(30 - len(rows), 30) for row in rows if f"part {n}." in row]
            assert left_out == ([f"- ({30 - len(rows)} earlier left out)"] if len(rows) < 30 else [])
            assert WORDS.text("\n".join(rows)) <= budget * share
            assert rows and (budget < 9_999 or len(rows) == 30)


@pytest.mark.parametrize("answer", ["It still fails.", "x " * 198 + "fail", "未完成"])
def test_an_answer_that_denies_it_gets_no_tick(answer: str) -> None:
    said = [Source(message=message) for message in (*SAID[:3], m.assistant(answer))]
    assert sections(by_rule(said))["Completed milestones"] == ["(none)"]
    for begins in (396, 400):  # so far an answer is looked at
        said = [Source(message=message) for message in (*SAID[:3], m.assistant("x" * begins + " fail"))]
        assert "✓" in sections(by_rule(said))["Completed milestones"][0]


def test_an_answer_of_a_model_has_sections() -> None:
    whole = "\n".join(f"## {title.upper()}" for title in TITLES)
    assert layered.in_sections(f"<summary>{whole}</summary>") == whole
    assert layered.missing("\n".join(TITLES[1:-1])) == [TITLES[0], TITLES[-1]]
    with pytest.raises(BadAnswer, match="none of the sections") as caught:
        layered.in_sections("All is done.")
    assert caught.value.code == "sections"


# ── which rounds ────────────────────────────────────────────────────────────────────────────────


def archived(session: Session, first: str, last: str, **details: Any) -> Session:
    edit = e.Edit(first, last, (m.system("the archive"),), "summary")
    noted = LayeredDetails(archive=True, **details).stored()
    session.append(
        e.Fold(id=f"fold {last}", parent=session.tip, preset="layered", edits=(edit,), details=noted)
    )
    return session


@pytest.mark.parametrize(
    ("session", "keep", "found"),
    [
        (session_of(*rounds(3)), 3, "few_rounds"),
        (session_of(*rounds(3)), 2, ["e0", "e1"]),
        (session_of(*rounds(3)), 1, ["e0", "e1", "e2", "e3"]),
        (session_of(*rounds(3), m.user("and now")), 2, ["e0", "e1"]),
        (archived(session_of(*rounds(4)), "e0", "e3"), 2, "all_archived"),
        (archived(session_of(*rounds(4)), "e0", "e3"), 1, ["e4", "e5"]),
        (archived(archived(session_of(*rounds(5)), "e0", "e1"), "e2", "e5"), 1, ["e6", "e7"]),
    ],
)
def test_the_finished_rounds_behind_the_last_archive_are_archived(
    session: Session, keep: int, found: str | list[str]
) -> None:
    old = layered.old_rounds(context(session=session), keep)
    assert (old.code if isinstance(old, Reason) else [x.id for x in old.sources]) == found


def test_summaries_of_other_designs_are_not_archived_again() -> None:
    session = session_of(*rounds(4))
    edit = e.Edit("e0", "e2", (m.user("a summary"),), "summary")
    session.append(e.Fold(id="fold", parent=session.tip, preset="other", edits=(edit,), summary="a summary"))
    old = layered.old_rounds(context(session=session), 1)
    assert not isinstance(old, Reason) and [x.id for x in old.sources] == ["e3", "e4", "e5"]
    shrunk = session_of(*rounds(4))
    edit = e.Edit("e1", "e1", (m.assistant("less"),), "shrink")
    shrunk.append(e.Fold(id="fold", parent=shrunk.tip, preset="layered", edits=(edit,)))
    old = layered.old_rounds(context(session=shrunk), 1)
    assert not isinstance(old, Reason) and [x.id for x in old.sources] == [f"e{n}" for n in range(6)]


@pytest.mark.parametrize("model", [True, False])
def test_an_archive_takes_the_place_of_its_rounds(model: bool) -> None:
    rule = m.system("a rule in between")
    s = context(
        *rounds(1, size=20), rule, *rounds(2, size=20), window=500, writer=Writer("w") if model else None
    )
    found = Archive(keep_rounds=1, tokens=30, timeout=5.0).propose(s)
    assert isinstance(found, Proposal)
    assert (found.strategy, found.stretch, found.first_kept) == ("archive", ("e0", "e4"), "e5")
    assert (found.timeout, found.smaller, found.shorter) == (5.0, False, False)
    assert found.tokens_after == s.sizes.tokens - 80 + 30, (
        "an archive for four messages of 20; the rule stays"
    )
    [ask] = found.asks
    assert ask.target_tokens == 30
    assert [x.id for x in ask.sources] == ["e0", "e1", "e3", "e4"]
    request = ask.render(ask.sources, None)
    assert request.max_tokens == 30 and "ask0.1" in request.messages[-1].text
    assert "a rule in between" not in request.messages[-1].text
    done = finish(found, ["what was done"])
    [edit] = done.edits
    assert (edit.first, edit.last, edit.kind) == ("e0", "e4", "summary")
    assert [type(x) for x in edit.put] == [m.System, m.System] and edit.put[1] == rule
    assert "## Period covered" in edit.put[0].text and "what was done" in edit.put[0].text
    assert done.details == {"archive": True}


def test_where_nothing_stays_no_entry_is_named_as_kept() -> None:
    found = Archive(keep_rounds=0, tokens=30).propose(context(*rounds(2)))
    assert isinstance(found, Proposal) and found.first_kept is None and found.tokens_after == 30


def test_a_prompt_of_ones_own_gets_the_history_where_it_says_or_before_it() -> None:
    s = context(*rounds(3), instructions="tests")
    for prompt, begins in (
        ("Sum up {{conversation}} now.", "Sum up [User]"),
        ("Sum up.", "<history>\n[User]"),
    ):
        found = Archive(keep_rounds=1, prompt=prompt).propose(s)
        assert isinstance(found, Proposal)
        text = found.asks[0].render(found.asks[0].sources, None).messages[-1].text
        assert text.startswith(begins)
    assert "tests" in text and text.index("</history>") < text.index("Sum up.")


def test_where_no_archive_can_be_written_old_rounds_leave_and_it_is_said() -> None:
    s = context(*rounds(3, size=10))
    found = KeepRecent(keep_rounds=1).propose(s)
    assert isinstance(found, Proposal)
    assert (found.strategy, found.first_kept, found.asks, found.tokens_after) == ("keep_recent", "e4", (), 20)
    done = finish(found, ())
    assert done.edits == (e.Edit("e0", "e3", (), "trim"),)
    assert done.details == {"archive": True, "notice": NOTICE}
    few = KeepRecent(keep_rounds=3).propose(s)
    assert isinstance(few, Reason) and few.code == "few_rounds"


@pytest.mark.parametrize(
    ("window", "threshold", "code"),
    [
        (3, 0.9, "archives_too_large"),
        (4, 0.9, "above_threshold"),
        (8, 0.5, "above_threshold"),
        (9, 0.5, None),
    ],
)
def test_a_design_at_its_end_says_so(window: int, threshold: float, code: str | None) -> None:
    s = context(session=archived(session_of(*rounds(2)), "e0", "e1"), window=window)
    assert s.sizes.tokens == 4
    found = archives_fit(s, threshold=threshold, keep_rounds=1)
    assert (None if found is None else found.code) == code
    assert archives_fit(context(*rounds(2), window=1), threshold=0.1, keep_rounds=1) is None
