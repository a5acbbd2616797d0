"""R19: a list of records is clipped as a table, so that a cut leaves whole records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refold import messages as m
from refold import tokens
from refold.messages import Result
from refold.shrink.clip import Texts, clip_message, clipped
from refold.shrink.tables import tabulated

COUNTER = tokens.get("o200k")
ORDERS = [
    {
        "id": f"B-{n}",
        "to": {"name": "Müller „GmbH“", "zip": "50667"},
        "paid": n % 2 == 0,
        "note": "请在周末送货",
    }
    for n in range(40)
]


def test_R19_a_list_of_records_is_clipped_between_records() -> None:
    result = m.result("c", json.dumps({"page": 1, "orders": ORDERS}, ensure_ascii=False))
    small = clipped(result, 200, COUNTER, key="#7").text
    assert small.startswith(
        '{"page":1}\n"orders": (40 records)\nid | to.name | to.zip | paid | note\nB-0 | Müller „GmbH“'
    )
    assert small.endswith('\nB-39 | Müller „GmbH“ | "50667" | false | 请在周末送货')
    assert COUNTER.text(small) <= 204


def test_R19_lists_of_lists_keep_what_belongs_together() -> None:
    made = tabulated(json.dumps([ORDERS[:2], ORDERS[2:4], ORDERS[4:6]]))
    assert made and made.startswith("(6 records)\n")
    assert [block.count("\n") for block in made.split("\n\n")] == [3, 1, 1]


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x" * 900},
        list(range(900)),
        [{"id": 1, "text": "x" * 500}, {"id": 2}],
        [*ORDERS, 7],
        [{f"k{n}": n for n in range(40)} for _ in range(9)],
    ],
)
def test_R19_other_data_stays_as_it_is(value: Any) -> None:
    assert tabulated(json.dumps(value)) is None


def test_R19_a_value_that_could_be_taken_for_another_is_quoted() -> None:
    rows = [
        {"a": value, "name": "long enough to be worth a table"} for value in ("5", "null", "x|y", "a\nb", "")
    ]
    made = tabulated(json.dumps(rows * 3))
    assert made and [row.split(" | long")[0] for row in made.split("\n")[2:7]] == [
        '"5"', '"null"', '"x|y"', '"a\\nb"', '""',
    ]  # fmt: skip


def test_R19_a_table_is_the_same_cold_and_warm_and_only_for_results() -> None:
    text = json.dumps(ORDERS)
    result = m.result("c", text)
    assert isinstance(result, Result)
    texts = Texts(COUNTER)
    warm = [clip_message(result, level, texts, key="#7") for level in (200, 96)]
    assert warm == [clipped(result, level, COUNTER, key="#7") for level in (200, 96)]
    assert clipped(result, 96, COUNTER, key="#7", kind="read").text.startswith('[{"id": "B-0"')
    assert clipped(m.user(text), 96, COUNTER, key="#7").text.startswith('[{"id": "B-0"')
