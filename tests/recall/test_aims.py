"""Questions about causes, the first and the last, and what changed, in a log of work."""

from __future__ import annotations

import pytest

from refold import Session
from refold import messages as m
from refold.recall import index_of, search

ANSWER = "The import of the price list failed because the CSV had a byte order mark; I strip it now."
TOLD = {
    3: "I ran the import job on the staging data.",
    5: "The first run of the import needed 40 seconds.",
    8: "Then I looked at how the import works with the new parser.",
    11: ANSWER,
    14: "The import parser was changed: csv.reader was replaced by polars.",
    17: "The last run of the import needed 3 seconds.",
}


@pytest.fixture(scope="module")
def session() -> Session:
    session = Session()
    for number in range(1, 20):
        session.append(m.user(f"Please go on with part {number} of the import work."))
        session.append(m.assistant("", m.call(f"c{number}", "Read", path=f"src/import_{number}.py")))
        code = f"import os\nimport csv\nfrom app.work import import_rows_{number}\n" * 10
        session.append(m.result(f"c{number}", code, name="Read"))
        session.append(m.assistant(TOLD.get(number, f"Part {number} is read.")))
    return session


@pytest.mark.parametrize(
    ("question", "turn"),
    [
        ("why did the import not work at first", 11),
        ("what caused the import to fail?", 11),
        ("how long did the last run of the import take", 17),
        ("how long did the first run of the import take", 5),
        ("what was changed in the import parser", 14),
    ],
)
def test_the_answer_comes_first(session: Session, question: str, turn: int) -> None:
    hits = search(index_of(session), question, limit=3)
    assert hits[0].turn == turn, [(hit.turn, hit.text[:80]) for hit in hits]


def test_a_dialogue_without_tools_is_ranked_as_before() -> None:
    from refold.recall.rank import read

    session = Session()
    session.append(m.user("Why did you leave first?"))
    session.append(m.assistant("Because the last train went at ten."))
    question = read(index_of(session), "why did you leave first")
    assert question.aim.worth(session.path[1].message, 1.0) == 1.0  # pyright: ignore
    assert "first" in question.terms
