"""Recall on real dialogues and agent transcripts. Floors, not the figures: `benchmarks/recall.py` has those."""

from __future__ import annotations

import pytest

from refold import entries as e
from refold import messages as m
from refold import transcripts
from refold.recall import index_of, recall, search
from refold.session import Session
from tests.data import DATA, all_transcripts, shared


@pytest.mark.data
@pytest.mark.slow
def test_M4_evidence_of_dialogues_is_found() -> None:
    shared("locomo")
    from benchmarks.recall import _row, conversations, judged, ours

    found = _row(judged(conversations(), ours))
    assert found["@5"] >= 73 and found["@20"] >= 84, found


@pytest.mark.data
@pytest.mark.slow
def test_R1_agents_get_back_what_they_need_again() -> None:
    shared("pi")
    from benchmarks.recall import agents

    found = agents(quick=True, asked=("whole call",), every=5)
    assert found["whole call"]["all"] >= 95, found


@pytest.mark.data
@pytest.mark.slow
def test_causes_and_changes_are_found_in_real_sessions_of_work() -> None:
    """Also by the ten questions that were written when nothing was changed any more."""
    shared("claude-code")
    from benchmarks.questions import found

    from refold.recall.rank import DIALOGUE, parse_question, rank

    now, before = (
        found(DATA),
        found(DATA, lambda i, t: [at for at, _ in rank(i, parse_question(i, t, DIALOGUE), limit=20)]),
    )
    assert now["last"][5] >= 8 and now["held"][5] >= 5, now
    assert sum(group[5] for group in now.values()) >= sum(group[5] for group in before.values()) + 4, before


@pytest.mark.data
@pytest.mark.parametrize("path", all_transcripts(), ids=lambda path: path.name[:40])
def test_R1_every_message_of_a_transcript_comes_back_by_key_and_by_its_rarest_word(path) -> None:
    session = Session.of(transcripts.read(path))
    index = index_of(session)
    said = [x for x in session.entries if isinstance(x, e.MessageEntry)][:400:7]
    assert said
    for entry in said:
        assert [h.entry_id for h in search(index, keys=[e.key(entry.id)])] == [entry.id]
    for entry in said:
        terms = [t for t in _terms(entry) if len(index.positions(t)) == 1]
        if terms:
            assert entry.id in {h.entry_id for h in search(index, terms[0], limit=3)}, terms[0]


def _terms(entry: e.MessageEntry) -> list[str]:
    from refold.messages import searchable
    from refold.text.words import terms

    return [
        term
        for term in terms(searchable(entry.message))
        if term.isascii() and term.isalpha() and len(term) > 4
    ]


def test_R1_after_ten_folds_and_an_undo_nothing_is_out_of_reach() -> None:
    session = Session()
    for n in range(40):
        session.append(m.user(f"question {n} about wombat{n}"))
        session.append(m.assistant(f"answer {n}: keyword{n * 7919}"))
        if n % 4 == 3:
            edit = e.Edit(session.path[0].id, session.path[-1].id, (m.user("summary"),))
            session.append(session.make(e.Fold, edits=(edit,), preset="x", summary="summary"))
    folds = [x for x in session.entries if isinstance(x, e.Fold)]
    session.append(session.make(e.Undo, fold=folds[-1].id))
    assert len(folds) == 10
    for n in range(40):
        assert f"keyword{n * 7919}" in recall(session, f"keyword{n * 7919}", limit=1)[0].text
        assert recall(session, f"wombat{n}", limit=1)[0].turn == n + 1
