"""Which edits show: nested, side by side, overlapping; told at once and one fold after another."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from refold import entries as e
from refold import messages as m
from refold.session import edits
from refold.session.edits import Stretch

PATH = [
    e.MessageEntry(id=f"m{n}", parent=f"m{n - 1}" if n else None, message=m.user(f"{n}")) for n in range(12)
]
PLACES = {entry.id: n for n, entry in enumerate(PATH)}
spans = st.tuples(st.integers(0, 11), st.integers(0, 11)).map(lambda pair: tuple(sorted(pair)))


def fold(number: int, stretches: list[tuple[int, int]]) -> e.Fold:
    put = (m.user(f"fold {number}"),)
    return e.Fold(
        id=f"f{number}", preset="p", edits=tuple(e.Edit(f"m{a}", f"m{b}", put) for a, b in stretches)
    )


def spoken(shown: list[Stretch]) -> list[tuple[int, int, int]]:
    return [(stretch.first, stretch.last, stretch.age) for stretch in shown]


def partly(a: Stretch, b: Stretch) -> bool:
    ours, theirs = set(range(a.first, a.last + 1)), set(range(b.first, b.last + 1))
    return bool(ours & theirs) and not ours <= theirs and not theirs <= ours


def expected(folds: list[e.Fold]) -> list[tuple[int, int, int]]:
    """By the words of the rule: a newer one beats those that it overlaps in part; of the others the outermost,
    of equals the newest."""
    every = edits.edit_stretches(folds, PLACES.get)
    standing: list[Stretch] = []
    for new in sorted(every, key=lambda stretch: -stretch.age):
        if not any(partly(new, other) for other in standing):
            standing.append(new)
    shown = [
        one
        for one in standing
        if not any(
            other is not one
            and other.first <= one.first
            and one.last <= other.last
            and ((other.first, other.last) != (one.first, one.last) or other.age > one.age)
            for other in standing
        )
    ]
    return sorted(spoken(shown))


@given(st.lists(spans, max_size=6))
def test_the_outermost_and_of_overlapping_ones_the_newer_shows(stretches: list[tuple[int, int]]) -> None:
    folds = [fold(number, [span]) for number, span in enumerate(stretches)]
    assert spoken(edits.outermost(folds, PLACES.get)) == expected(folds)


@given(st.lists(spans, min_size=1, max_size=6))
def test_one_fold_more_shows_what_all_of_them_show(stretches: list[tuple[int, int]]) -> None:
    folds = [fold(number, [span]) for number, span in enumerate(stretches)]
    shown: list[Stretch] = []
    for count in range(len(folds)):
        shown = edits.extended(shown, folds[:count], folds[count], PLACES.get)
        assert [stretch.edit for stretch in shown] == [
            stretch.edit for stretch in edits.outermost(folds[: count + 1], PLACES.get)
        ]


def test_what_is_shown_is_not_read_again_where_nothing_overlaps() -> None:
    inner, outer, beside, across = fold(0, [(2, 3)]), fold(1, [(1, 5)]), fold(2, [(6, 7)]), fold(3, [(5, 6)])
    asked: list[str] = []

    def place(id: str) -> int | None:
        asked.append(id)
        return PLACES.get(id)

    shown = edits.outermost([inner], PLACES.get)
    found = edits.extended(shown, [inner], outer, place)
    assert spoken(found) == [(1, 5, 1)]
    found = edits.extended(found, [inner, outer], beside, place)
    assert spoken(found) == [(1, 5, 1), (6, 7, 2)]
    same = edits.extended(shown, [inner], fold(4, [(2, 3)]), place)
    assert [stretch.fold.id for stretch in same] == ["f4"]
    assert len(asked) == 6  # the ends of each new edit
    edits.extended(found, [inner, outer, beside], across, place)
    assert len(asked) > 12


def test_an_edit_shows_where_both_its_ends_are_on_the_path() -> None:
    assert edits.edit_stretches([fold(0, [(3, 2)])], PLACES.get) == []
    assert spoken(edits.edit_stretches([fold(0, [(2, 2)])], PLACES.get, age=7)) == [(2, 2, 7)]
    assert edits.edit_stretches([fold(0, [(2, 20)]), fold(0, [(20, 2)])], PLACES.get) == []


def test_the_items_of_a_path_are_named_for_good() -> None:
    several = e.Fold(
        id="f", preset="p", edits=(e.Edit("m1", "m2", (m.user("a"), m.user("b"))), e.Edit("m4", "m4", ()))
    )
    keyed = list(edits.project_items(PATH[:6], edits.outermost([several], PLACES.get)))
    assert [(key, item.message.text, item.entries, item.fold) for key, item in keyed] == [
        ("m0", "0", ("m0",), None),
        ("f/m1/0", "a", ("m1", "m2"), "f"),
        ("f/m1/1", "b", ("m1", "m2"), "f"),
        ("m3", "3", ("m3",), None),
        ("m5", "5", ("m5",), None),
    ]


def test_undone_folds_come_in_the_order_in_which_that_happened() -> None:
    folds = [fold(n, [(n, n)]) for n in range(3)]
    marks = [e.Undo(id="u1", fold="f2"), e.Undo(id="u2", fold="f0"), e.Undo(id="u3", fold="gone")]
    path: list[e.Entry] = [*folds, *marks]
    assert [one.id for one in edits.undone_folds(path)] == ["f2", "f0"]
    assert [one.id for one in edits.active_folds(path)] == ["f1"]
    path.append(e.Redo(id="r", fold="f2"))
    assert [one.id for one in edits.undone_folds(path)] == ["f0"]
    assert [one.id for one in edits.active_folds(path)] == ["f1", "f2"]


def test_what_an_entry_shows_by_itself() -> None:
    said = edits.said_by
    assert said(e.Note(id="n", content=m.content("x"), kind="k")) == m.User((m.Text("x", "program"),))
    assert said(e.Hole(id="h", call_id="c")) == m.Result("c", (m.Text(edits.DAMAGED_MARK, "program"),))
    assert said(e.Hole(id="h")) == m.User((m.Text(edits.DAMAGED_MARK, "program"),))
    assert said(e.BranchSummary(id="b", origin="m1", summary="")) is None
    branch = said(e.BranchSummary(id="b", origin="m1", summary="Tried."))
    assert branch is not None
    assert branch.text == f"{edits.BRANCH_NOTE}\n\n<branch-summary>\nTried.\n</branch-summary>"
    assert [part.origin for part in branch.parts if isinstance(part, m.Text)] == ["summary"]
    assert said(e.ModelChange(id="c", model="x:y")) is None
