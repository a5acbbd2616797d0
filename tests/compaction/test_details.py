"""What folds note for later: written and read as values, stored as the plain objects they always were."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import refold
from refold import entries as e
from refold.compaction import details
from refold.compaction.details import (
    AugmentDetails,
    CalibrationNote,
    Details,
    FoldDetails,
    LayeredDetails,
    RefoldDetails,
    RoundsDetails,
    RoundsLine,
    VerificationReport,
)
from refold.format import decode, encode

STORED: list[tuple[Details, dict[str, Any]]] = [
    (AugmentDetails(is_history_summary=True), {"is_history_summary": True}),
    (LayeredDetails(archive=True), {"archive": True}),
    (LayeredDetails(archive=True, notice="no"), {"archive": True, "notice": "no"}),
    (LayeredDetails(shrunk_through="e9"), {"shrunk_through": "e9"}),
    (RoundsDetails(lines=[RoundsLine("a", "b", 1, 2, "x → y")]), {"lines": [["a", "b", 1, 2, "x → y"]]}),
    (
        RefoldDetails(calibration=CalibrationNote("o200k", "m", [1.25, 310, 7]), words_left_out=["e1"]),
        {
            "calibration": {"counter": "o200k", "model": "m", "line": [1.25, 310, 7]},
            "words_left_out": ["e1"],
        },
    ),
    (FoldDetails(reads_left=["a.py"]), {"reads_left": ["a.py"]}),
]
"""As release 0.1.0 wrote them."""


def fold(**fields: Any) -> e.Fold:
    return e.Fold(id="f", edits=(), preset="x", **fields)


@pytest.mark.parametrize(("value", "stored"), STORED)
def test_details_are_stored_as_they_always_were_and_read_back(value: Details, stored: dict[str, Any]) -> None:
    assert value.stored() == stored
    reopened = decode(encode(fold(details=value.stored())))
    assert isinstance(reopened, e.Fold)
    assert reopened.details == value.stored()
    assert type(value).of(reopened) == value


@pytest.mark.parametrize(
    ("kind", "foreign"),
    [
        (AugmentDetails, {"is_history_summary": 1}),
        (LayeredDetails, {"archive": "yes"}),
        (LayeredDetails, {"pi": {"firstKeptEntryId": "x"}}),
        (RoundsDetails, {"lines": 7}),
        (RoundsDetails, {"lines": [["a", "b", "1"]]}),
        (RefoldDetails, {"calibration": [1, 2]}),
        (RefoldDetails, {"calibration": {"counter": "c", "model": "m", "line": [1.0]}}),
        (FoldDetails, {"reads_left": "a.py"}),
    ],
)
def test_what_somebody_else_noted_under_the_same_name_is_no_note_of_ours(
    kind: type[Details], foreign: dict[str, Any]
) -> None:
    assert kind.of(fold(details=foreign)) == kind()


def test_a_report_is_read_whole_or_not_at_all() -> None:
    report = VerificationReport(False, 9, ["q7.py"])
    assert report.stored() == {"verified": False, "claims": 9, "unverified": ["q7.py"]}
    assert (
        VerificationReport.of(fold(check=report.stored() | {"added": []})) == report
    )  # 0.1.0 stored an empty list more
    assert VerificationReport.of(fold()) is None
    assert VerificationReport.of(fold(check={"verified": "yes"})) is None


def test_nothing_reads_or_writes_details_by_key_but_their_own_module_and_the_importers() -> None:
    by_key = re.compile(r"\.(?:details|check)(?:\.get\(|\[)|(?:details|check)=\{(?!\*\*|\})")
    source = Path(refold.__file__).parent
    wrong = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in source.rglob("*.py")
        if path != Path(details.__file__) and "transcripts" not in path.parts
        for line in path.read_text().splitlines()
        if by_key.search(line)
    ]
    assert wrong == []
